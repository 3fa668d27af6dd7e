/** The way from one row to another through a clipped Gaussian: which bits are on where, and when each flips. */
import { rowOf } from "../page/arrays.js";
/** @import {TypedArrayOf} from "../page/arrays.js" */

/**
 * Along the way, bit j is on where `start[j] + t * slope[j] > 0`.
 *
 * @typedef {{start: Float64Array, slope: Float64Array}} Way
 * @typedef {{column: number, t: number, on: boolean}} Flip `on`: whether it goes on (or off)
 */

/**
 * @param {ArrayLike<number>} weights (k, d), row by row
 * @param {ArrayLike<number>} phi (d)
 * @param {ArrayLike<number>} from place y of the first row (k)
 * @param {ArrayLike<number>} to that of the second
 * @returns {Way}
 */
export function wayBetween(weights, phi, from, to) {
  const d = phi.length;
  const start = Float64Array.from(phi);
  const slope = new Float64Array(d);
  for (let i = 0; i < from.length; i++) {
    for (let j = 0; j < d; j++) {
      start[j] += from[i] * weights[i * d + j];
      slope[j] += (to[i] - from[i]) * weights[i * d + j];
    }
  }
  return { start, slope };
}

/** @param {Way} way @param {number} t 0 to 1 @returns {Float32Array} of 0 and 1 */
export function bitsAlong(way, t) {
  return Float32Array.from(way.start, (start, j) => (start + t * way.slope[j] > 0 ? 1 : 0));
}

/**
 * Bits that are not the same at both ends, in the order in which they flip: each crosses 0 once.
 * @param {Way} way @returns {Flip[]}
 */
export function flipsOf(way) {
  const [first, last] = [bitsAlong(way, 0), bitsAlong(way, 1)];
  return Array.from(first.keys())
    .filter((j) => first[j] !== last[j])
    .map((j) => ({ column: j, t: -way.start[j] / way.slope[j], on: last[j] > 0 }))
    .sort((a, b) => a.t - b.t || a.column - b.column);
}

/**
 * @param {ArrayLike<number>} a @param {ArrayLike<number>} b
 * @param {number} t 0 to 1
 * @returns {Float32Array} (1 - t) a + t b; NaN where either is missing
 */
export function crossFade(a, b, t) {
  return Float32Array.from({ length: a.length }, (_, j) => (1 - t) * a[j] + t * b[j]);
}

/**
 * In how many places that are not missing two rows differ.
 * @param {ArrayLike<number>} bits
 * @param {ArrayLike<number>} row NaN for missing
 */
export function differing(bits, row) {
  let count = 0;
  for (let j = 0; j < bits.length; j++) if (!Number.isNaN(row[j]) && bits[j] !== row[j]) count++;
  return count;
}

const FEW = 20; // rows, of which none can be called odd
const MOST_TRIED = 400; // rows among which two are sought between which many bits flip

/**
 * Two rows worth a morph: far apart, and each typical of its kind where kinds are known.
 * @param {TypedArrayOf} places (n, k)
 * @param {ArrayLike<number> | null} codes kinds of rows, 65535 for none
 * @param {number[]} all the rows to choose from
 * @returns {[number, number]}
 */
export function farPair(places, codes, all) {
  const kinds = new Set(codes ? all.map((i) => codes[i]).filter((code) => code !== 65535) : []);
  const typical = [...kinds].map((kind) => {
    const own = all.filter((i) => codes?.[i] === kind);
    return nearest(places, own, meanPlace(places, own));
  });
  if (typical.length >= 2) return farthestOf(places, typical);
  const middle = meanPlace(places, all);
  const common = all.length < FEW ? all : innerHalf(places, all, middle);
  const edge = farthest(places, common, middle);
  return [edge, farthest(places, common, rowOf(places, edge))];
}

/**
 * Two rows between which many bits flip.  Where ones are rare, two typical rows may have none between them.
 * @param {ArrayLike<number>} weights (k, d), row by row
 * @param {ArrayLike<number>} phi (d)
 * @param {TypedArrayOf} places (n, k)
 * @param {number[]} all the rows to choose from
 * @returns {[number, number]}
 */
export function flippingPair(weights, phi, places, all) {
  const step = Math.max(1, all.length / MOST_TRIED);
  const rows = Array.from({ length: Math.min(all.length, MOST_TRIED) }, (_, i) => all[Math.floor(i * step)]);
  const bits = rows.map((row) => bitsAlong(wayBetween(weights, phi, rowOf(places, row), rowOf(places, row)), 0));
  const most = (/** @type {number} */ from) => {
    const flips = bits.map((own) => differing(own, bits[from]));
    return flips.indexOf(Math.max(...flips));
  };
  const first = most(most(0));
  const second = most(first);
  return [rows[first], rows[second === first ? (first + 1) % rows.length : second]];
}

/**
 * Why a way has fewer flips than its rows have differences; "" where it has about as many.
 * @param {number} flips
 * @param {number} differ columns in which the two rows differ
 * @param {number} d columns in all
 */
export function shortWayWords(flips, differ, d) {
  if (2 * flips >= differ) return flips ? "" : "The two rows do not differ, and no bit flips between them.";
  const few = flips ? `only ${flips} of the bits flip` : "no bit flips";
  return `The two rows differ in ${differ} of ${d} columns, but ${few} on the model's way: from the one place to the other the other bits stay more likely off, or stay more likely on. Bits in which nearly all rows agree seldom change sides.`;
}

/**
 * The rows that are not odd: of a blot, a morph shows nothing.
 * @param {TypedArrayOf} places @param {number[]} rows @param {ArrayLike<number>} middle
 */
function innerHalf(places, rows, middle) {
  const far = rows.map((row) => ({ row, far: distance(rowOf(places, row), middle) }));
  far.sort((a, b) => a.far - b.far);
  return far.slice(0, rows.length / 2).map(({ row }) => row);
}

/** @param {TypedArrayOf} places @param {number[]} rows few @returns {[number, number]} */
function farthestOf(places, rows) {
  const pairs = rows.map((row) => {
    const other = farthest(places, rows, rowOf(places, row));
    return { row, other, far: distance(rowOf(places, row), rowOf(places, other)) };
  });
  const best = pairs.reduce((a, b) => (b.far > a.far ? b : a));
  return [best.row, best.other];
}

/** @param {TypedArrayOf} places @param {number[]} rows */
function meanPlace(places, rows) {
  const mean = new Float64Array(places.shape[1]);
  for (const row of rows) for (const [i, value] of rowOf(places, row).entries()) mean[i] += value / rows.length;
  return mean;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function distance(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] - b[i]) ** 2;
  return sum;
}

/** @param {TypedArrayOf} places @param {number[]} rows @param {ArrayLike<number>} at */
function nearest(places, rows, at) {
  return rows.reduce((a, b) => (distance(rowOf(places, b), at) < distance(rowOf(places, a), at) ? b : a));
}

/** @param {TypedArrayOf} places @param {number[]} rows @param {ArrayLike<number>} at */
function farthest(places, rows, at) {
  return rows.reduce((a, b) => (distance(rowOf(places, b), at) > distance(rowOf(places, a), at) ? b : a));
}
