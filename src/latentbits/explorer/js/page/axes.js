/** Axes of charts: nice ticks, scales, and labels that keep out of each other's way. */

/**
 * Round numbers that span from low to high.
 * @param {number} low @param {number} high
 * @param {number} [most] about how many
 * @returns {number[]}
 */
export function niceTicks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(cleaned(i * step, step));
  return ticks;
}

/** @param {number} value @param {number} step */
function cleaned(value, step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step)) + 1);
  return Number(value.toFixed(Math.min(digits, 20))) + 0;
}

/**
 * Powers of ten within, or of two where there are too few.
 * @param {number} low at least 1
 * @param {number} high @returns {number[]}
 */
export function logTicks(low, high) {
  const base = high / low >= 100 ? 10 : 2;
  const ticks = [];
  for (let i = Math.ceil(Math.log(low) / Math.log(base) - 1e-9); base ** i <= high * (1 + 1e-9); i++)
    ticks.push(base ** i);
  return ticks;
}

/**
 * From numbers to places on the screen.
 * @param {[number, number]} domain @param {[number, number]} range @param {boolean} [log]
 * @returns {(value: number) => number}
 */
export function scaleOf(domain, range, log = false) {
  const at = log ? Math.log : (/** @type {number} */ x) => x;
  const [low, high] = domain.map(at);
  const width = high - low || 1;
  return (value) => range[0] + ((at(value) - low) / width) * (range[1] - range[0]);
}

/**
 * Heights moved apart to be at least `gap` from each other and not below `bottom`, in the same order.
 * @param {number[]} wanted @param {number} gap @param {number} bottom @returns {number[]}
 */
export function spreadApart(wanted, gap, bottom) {
  const order = [...wanted.keys()].sort((a, b) => wanted[a] - wanted[b]);
  const placed = [...wanted];
  order.forEach((i, rank) => {
    if (rank > 0) placed[i] = Math.max(placed[i], placed[order[rank - 1]] + gap);
  });
  let limit = bottom;
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], limit);
    limit = placed[i] - gap;
  }
  return placed;
}
