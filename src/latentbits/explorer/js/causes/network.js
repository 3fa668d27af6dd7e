/** Noisy-OR networks: who explains what in a row, by the rule of `NoisyOrNetwork.explain`. */

/** The share of a child that a cause must explain to be named with it. */
const LEAST_SHARE = 0.1;

/**
 * @typedef {object} NetworkLayer units of a layer, above the units or columns they drive
 * @property {string[]} names
 * @property {ArrayLike<number>} weights (units, children), unit by unit
 * @property {ArrayLike<number>} bias of the children
 * @property {ArrayLike<number>} states of the units in this row, 0 or 1: the most probable ones together
 * @property {ArrayLike<number>} means P(unit is on | row)
 *
 * @typedef {{child: number, share: number}} Share
 * @typedef {{unit: number, name: string, probability: number, explains: Share[], shares: Float32Array}} UnitOn
 *   `explains`: children that are on of which it explains at least a tenth, the most first, without bits that are
 *   unexplained; `shares`: of all children that are on
 * @typedef {{causes: UnitOn[][], unexplained: Share[]}} Explanation units that are on, layer by layer, the lowest first;
 *   bits that are on more by their bias than by any cause, with the bias's share
 */

/**
 * A unit with causal input u is on if one of Poisson(u) events happens to it; w / u of them come from a cause with
 * weight w.
 * @param {NetworkLayer[]} layers the lowest first
 * @param {ArrayLike<number>} row bits, NaN for missing
 * @returns {Explanation}
 */
export function explainRow(layers, row) {
  /** @type {UnitOn[][]} */
  const causes = [];
  /** @type {Share[]} */
  const unexplained = [];
  let children = row;
  layers.forEach((layer, number) => {
    const d = layer.bias.length;
    const on = Array.from(layer.names.keys()).filter((unit) => layer.states[unit] > 0);
    const total = Float64Array.from(layer.bias);
    for (const unit of on) for (let j = 0; j < d; j++) total[j] += layer.weights[unit * d + j];
    const largest = new Float64Array(d);
    for (const unit of on) for (let j = 0; j < d; j++) largest[j] = Math.max(largest[j], layer.weights[unit * d + j]);
    const alone = Array.from(total, (_, j) => number === 0 && children[j] > 0 && layer.bias[j] > largest[j]);
    causes.push(
      on.map((unit) => {
        const shares = new Float32Array(d);
        for (let j = 0; j < d; j++) if (children[j] > 0) shares[j] = layer.weights[unit * d + j] / total[j];
        return {
          unit,
          name: layer.names[unit],
          probability: layer.means[unit],
          explains: Array.from(shares, (share, child) => ({ child, share }))
            .filter(({ child, share }) => share >= LEAST_SHARE && !alone[child])
            .sort((a, b) => b.share - a.share || a.child - b.child),
          shares,
        };
      }),
    );
    alone.forEach((own, j) => {
      if (own) unexplained.push({ child: j, share: layer.bias[j] / total[j] });
    });
    children = layer.states;
  });
  return { causes, unexplained };
}

/** How surely a cause with this weight, were it the only one, turns its child on. @param {ArrayLike<number>} weights */
export function strengthsOf(weights) {
  return Float32Array.from(weights, (weight) => -Math.expm1(-weight));
}
