/** Sums over a tree: how probable the states of its columns are, given bits of a row or the state of one column. */

/**
 * @typedef {object} TreeModel a tree with states
 * @property {number[]} parents the column that each hangs from, -1 for a root
 * @property {number[]} order columns, each after the one that it hangs from
 * @property {number} k states of each column; those that are none have no chance
 * @property {ArrayLike<number>} transitions (d, k, k): P(state | state of the parent), the latter first
 * @property {ArrayLike<number>} emissions (d, k): P(bit = 1 | state)
 *
 * @typedef {object} Known what is known
 * @property {ArrayLike<number>} [row] bits, NaN for missing
 * @property {{column: number, state: number}} [fixed] a column whose state is known
 *
 * @typedef {{states: Float64Array, logP: number, unlike: Float64Array}} Beliefs `states` (d, k): P(state | what is known);
 *   `logP`: its probability, in nats; `unlike` (d,): P(bit as it is | all other bits), NaN for missing
 */

/** @param {number[]} parents @returns {number[]} columns, each after the one that it hangs from */
export function downward(parents) {
  const children = childrenOf(parents);
  const order = [...parents.keys()].filter((j) => parents[j] < 0);
  for (let i = 0; i < order.length; i++) order.push(...children[order[i]]);
  return order;
}

/**
 * Exact, from the leaves to the roots and back (Pearl's messages).
 * @param {TreeModel} tree
 * @param {Known} [known] nothing: how common the states are
 * @returns {Beliefs}
 */
export function beliefs(tree, known = {}) {
  const { parents, order, k } = tree;
  const d = parents.length;
  const children = childrenOf(parents);
  const upward = new Float64Array(d * k); // P(all from here down | state above), but for a factor
  const below = new Float64Array(d * k).fill(1); // P(all below | own state), but for a factor
  const own = Float64Array.from(below, (_, i) => likelihood(tree, known, Math.floor(i / k), i % k));
  let logP = 0;
  for (let i = d - 1; i >= 0; i--) {
    const j = order[i];
    for (const child of children[j]) for (let t = 0; t < k; t++) below[j * k + t] *= upward[child * k + t];
    logP += sumsUp(tree, j, below, own, upward);
  }
  const states = new Float64Array(d * k);
  const above = new Float64Array(d * k); // P(own state, all but what is from here down), but for a factor
  const unlike = new Float64Array(d).fill(Number.NaN);
  for (const j of order) {
    if (parents[j] < 0) for (let t = 0; t < k; t++) above[j * k + t] = tree.transitions[j * k * k + t];
    const others = below.slice(j * k, (j + 1) * k).map((value, t) => value * above[j * k + t]);
    normalise(others, 0, k);
    for (let t = 0; t < k; t++) states[j * k + t] = others[t] * own[j * k + t];
    const chance = normalise(states, j * k, k);
    if (known.row && !Number.isNaN(known.row[j])) unlike[j] = chance;
    sumsDown(tree, j, children[j], above, own, upward);
  }
  return { states, logP, unlike };
}

/** @param {number[]} parents */
function childrenOf(parents) {
  /** @type {number[][]} */
  const children = parents.map(() => []);
  parents.forEach((parent, j) => {
    if (parent >= 0) children[parent].push(j);
  });
  return children;
}

/**
 * The message of a column to the one that it hangs from; the logarithm of the factor that is taken out.
 * @param {TreeModel} tree @param {number} j @param {Float64Array} below @param {Float64Array} own
 * @param {Float64Array} upward
 */
function sumsUp(tree, j, below, own, upward) {
  const { k, transitions } = tree;
  let most = 0;
  for (let s = 0; s < k; s++) {
    let sum = 0;
    for (let t = 0; t < k; t++) sum += transitions[(j * k + s) * k + t] * below[j * k + t] * own[j * k + t];
    upward[j * k + s] = sum;
    most = Math.max(most, sum);
    if (tree.parents[j] < 0) break; // a root's rows are all the same
  }
  if (most > 0) for (let s = 0; s < k; s++) upward[j * k + s] /= most;
  return Math.log(most);
}

/**
 * Messages of a column to those that hang from it, each without its own.
 * @param {TreeModel} tree @param {number} j @param {number[]} children @param {Float64Array} above
 * @param {Float64Array} own @param {Float64Array} upward
 */
function sumsDown(tree, j, children, above, own, upward) {
  const { k, transitions } = tree;
  // products over the children after each: divided out, a 0 would be lost
  const after = [new Float64Array(k).fill(1)];
  for (let c = children.length - 1; c > 0; c--) {
    after.unshift(after[0].map((value, s) => value * upward[children[c] * k + s]));
    normalise(after[0], 0, k);
  }
  const before = Float64Array.from({ length: k }, (_, s) => above[j * k + s] * own[j * k + s]);
  children.forEach((child, c) => {
    const now = before.map((value, s) => value * after[c][s]);
    normalise(now, 0, k);
    for (let s = 0; s < k; s++) {
      for (let t = 0; t < k; t++) above[child * k + t] += now[s] * transitions[(child * k + s) * k + t];
      before[s] *= upward[child * k + s];
    }
    normalise(before, 0, k);
  });
}

/** @param {TreeModel} tree @param {Known} known @param {number} j @param {number} t */
function likelihood(tree, known, j, t) {
  if (known.fixed?.column === j) return Number(t === known.fixed.state);
  const bit = known.row ? known.row[j] : Number.NaN;
  if (Number.isNaN(bit)) return 1;
  const on = tree.emissions[j * tree.k + t];
  return bit > 0 ? on : 1 - on;
}

/** To a sum of 1, in place; the sum it had. @param {Float64Array} values @param {number} start @param {number} n */
function normalise(values, start, n) {
  let total = 0;
  for (let t = start; t < start + n; t++) total += values[t];
  if (total > 0) for (let t = start; t < start + n; t++) values[t] /= total;
  return total;
}

/** P(bit = 1) of every column. @param {TreeModel} tree @param {Float64Array} states (d, k) @returns {Float32Array} */
export function chances(tree, states) {
  const { k, emissions } = tree;
  return Float32Array.from(tree.parents, (_, j) => {
    let sum = 0;
    for (let t = 0; t < k; t++) sum += states[j * k + t] * emissions[j * k + t];
    return sum;
  });
}

/**
 * The most probable state of each column, and how probable it is.
 * @param {TreeModel} tree
 * @param {Float64Array} states (d, k)
 * @returns {Array<{state: number, share: number}>}
 */
export function mostProbable(tree, states) {
  const { k } = tree;
  return tree.parents.map((_, j) => {
    let best = 0;
    for (let t = 1; t < k; t++) if (states[j * k + t] > states[j * k + best]) best = t;
    return { state: best, share: states[j * k + best] };
  });
}

/** P(tree | row) of several. @param {TreeModel[]} trees @param {number[]} shares @param {ArrayLike<number>} row */
export function treesOf(trees, shares, row) {
  const logs = trees.map((tree, m) => Math.log(shares[m]) + beliefs(tree, { row }).logP);
  const most = Math.max(...logs);
  const parts = logs.map((log) => Math.exp(log - most));
  const total = parts.reduce((sum, part) => sum + part, 0);
  return parts.map((part) => part / total);
}
