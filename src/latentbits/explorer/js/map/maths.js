/** Pure sums behind the map: places, lines, polygons, and which point is nearest. */

/** @typedef {{x: number, y: number}} Place */
/** @typedef {{left: number, right: number, bottom: number, top: number}} Window of the map, in its own units */

/** @param {number} a */
export function sigmoid(a) {
  return a >= 0 ? 1 / (1 + Math.exp(-a)) : Math.exp(a) / (1 + Math.exp(a));
}

/**
 * What the model expects of each column at a place: P(bit = 1 | x), or the mean of a real column.
 * @param {ArrayLike<number>} weights (2, d), rows one after the other
 * @param {ArrayLike<number>} bias (d)
 * @param {Place} place @param {boolean} real @returns {Float64Array}
 */
export function decodeAt(weights, bias, place, real) {
  const d = bias.length;
  const means = new Float64Array(d);
  for (let j = 0; j < d; j++) {
    const a = place.x * weights[j] + place.y * weights[d + j] + bias[j];
    means[j] = real ? a : sigmoid(a);
  }
  return means;
}

/**
 * Half axes of the ellipse of one standard deviation, the longer first, and how far it is turned.
 * @param {number} xx @param {number} yy
 * @param {number} xy covariance
 */
export function ellipseOf(xx, yy, xy) {
  const middle = (xx + yy) / 2;
  const reach = Math.hypot((xx - yy) / 2, xy);
  return {
    long: Math.sqrt(Math.max(middle + reach, 0)),
    short: Math.sqrt(Math.max(middle - reach, 0)),
    angle: Math.atan2(2 * xy, xx - yy) / 2,
  };
}

/**
 * Whether a point is inside a polygon, by the number of edges to its right; a point on an edge may be either.
 * @param {number} x @param {number} y
 * @param {ArrayLike<number>} polygon x and y by turns
 */
export function isInside(x, y, polygon) {
  let inside = false;
  const n = polygon.length;
  for (let i = 0, j = n - 2; i < n; j = i, i += 2) {
    const above = polygon[i + 1] > y;
    if (above === polygon[j + 1] > y) continue;
    const slope = (polygon[j] - polygon[i]) / (polygon[j + 1] - polygon[i + 1]);
    if (x < polygon[i] + slope * (y - polygon[i + 1])) inside = !inside;
  }
  return inside;
}

/**
 * The smallest window that holds points, or some of them.
 * @param {ArrayLike<number>} points x and y by turns
 * @param {Uint32Array | null} [only] those that count; null for all
 * @returns {Window}
 */
export function boundsOf(points, only = null) {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  const many = only ? only.length : points.length / 2;
  for (let k = 0; k < many; k++) {
    const i = 2 * (only ? only[k] : k);
    left = Math.min(left, points[i]);
    right = Math.max(right, points[i]);
    bottom = Math.min(bottom, points[i + 1]);
    top = Math.max(top, points[i + 1]);
  }
  return { left, right, bottom, top };
}

/**
 * Which of the points are inside a polygon, ascending.
 * @param {ArrayLike<number>} points x and y by turns
 * @param {ArrayLike<number>} polygon x and y by turns
 * @param {(i: number) => boolean} counts whether a point counts at all
 */
export function pointsInside(points, polygon, counts) {
  const { left, right, bottom, top } = boundsOf(polygon);
  const found = [];
  for (let i = 0; 2 * i < points.length; i++) {
    const x = points[2 * i];
    const y = points[2 * i + 1];
    if (x < left || x > right || y < bottom || y > top || !counts(i)) continue;
    if (isInside(x, y, polygon)) found.push(i);
  }
  return Uint32Array.from(found);
}

/**
 * The part of the line u x + v y + c = 0 within a window, or null.
 * @param {number} u @param {number} v @param {number} c @param {Window} w @returns {[Place, Place] | null}
 */
export function clippedLine(u, v, c, w) {
  const size = Math.hypot(u, v);
  if (!(size > 1e-12)) return null;
  // from the point of the line nearest to the middle of the window, along the line
  const middle = { x: (w.left + w.right) / 2, y: (w.bottom + w.top) / 2 };
  const off = (u * middle.x + v * middle.y + c) / size;
  const from = { x: middle.x - (off * u) / size, y: middle.y - (off * v) / size };
  const along = { x: -v / size, y: u / size };
  let [low, high] = [-Infinity, Infinity];
  for (const [start, step, least, most] of [
    [from.x, along.x, w.left, w.right],
    [from.y, along.y, w.bottom, w.top],
  ]) {
    if (Math.abs(step) < 1e-12) {
      if (start < least || start > most) return null;
      continue;
    }
    const ends = [(least - start) / step, (most - start) / step];
    low = Math.max(low, Math.min(...ends));
    high = Math.min(high, Math.max(...ends));
  }
  if (!(low < high)) return null;
  const at = (/** @type {number} */ t) => ({ x: from.x + t * along.x, y: from.y + t * along.y });
  return [at(low), at(high)];
}

/**
 * Round numbers within a range, about `count` of them.
 * @param {number} low @param {number} high @param {number} count
 */
export function roundTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((m) => m * power >= rough) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return { ticks, digits };
}

const NOWHERE = 2 ** 32 - 1; // the place of a row that is on another map

/**
 * Points at the very same place, to single precision, belong together.
 * @param {ArrayLike<number>} points x and y by turns
 * @returns {{first: Uint32Array, start: Uint32Array, rows: Uint32Array, of: Uint32Array}} of each place its first point;
 *   its points are `rows[start[g]] .. rows[start[g + 1]]`, ascending; and the place `of` each point
 */
export function placesOf(points) {
  const n = points.length >> 1;
  const own = new Float32Array(points);
  for (let i = 0; i < own.length; i++) own[i] += 0; // -0 is 0
  const bits = new Uint32Array(own.buffer);
  // A table of places by their bits, each in the first free slot: much faster than a Map for very many points.
  const mask = 2 ** Math.ceil(Math.log2(2 * n + 2)) - 1;
  const slots = new Int32Array(mask + 1).fill(-1);
  const of = new Uint32Array(n);
  const first = new Uint32Array(n);
  let many = 0;
  for (let i = 0; i < n; i++) {
    const x = bits[2 * i];
    const y = bits[2 * i + 1];
    const mixed = Math.imul(x, 0x9e3779b1) ^ Math.imul(y, 0x85ebca6b);
    let slot = (mixed ^ (mixed >>> 15)) & mask;
    while (slots[slot] >= 0) {
      const other = first[slots[slot]];
      if (bits[2 * other] === x && bits[2 * other + 1] === y) break;
      slot = (slot + 1) & mask;
    }
    if (slots[slot] < 0) {
      slots[slot] = many;
      first[many++] = i;
    }
    of[i] = slots[slot];
  }
  const { start, order } = sortedByKey(of, many);
  return { first: first.slice(0, many), start, rows: order, of };
}

/**
 * The same of some rows alone, by their own numbers; all others are at no place.
 * @param {ArrayLike<number>} points x and y of all rows by turns
 * @param {Uint32Array} only ascending
 */
export function placesOfSome(points, only) {
  const own = new Float32Array(2 * only.length);
  for (const [k, row] of only.entries()) own.set([points[2 * row], points[2 * row + 1]], 2 * k);
  const found = placesOf(own);
  const of = new Uint32Array(points.length >> 1).fill(NOWHERE);
  for (const [k, row] of only.entries()) of[row] = found.of[k];
  return { first: found.first.map((k) => only[k]), start: found.start, rows: found.rows.map((k) => only[k]), of };
}

/**
 * Whole numbers below `n_keys` in order, by counting: where each key's part of `order` begins.
 * @param {Uint32Array} keys @param {number} nKeys
 */
function sortedByKey(keys, nKeys) {
  const start = new Uint32Array(nKeys + 1);
  for (const key of keys) start[key + 1]++;
  for (let k = 0; k < nKeys; k++) start[k + 1] += start[k];
  const next = start.slice(0, nKeys);
  const order = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; i++) order[next[keys[i]]++] = i;
  return { start, order };
}

/** Finds the nearest of many points: they lie in square cells, and cells are looked at in rings outwards. */
export class NearestPoint {
  /** @param {Float32Array} xs @param {Float32Array} ys */
  constructor(xs, ys) {
    this.xs = xs;
    this.ys = ys;
    let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < xs.length; i++) {
      left = Math.min(left, xs[i]);
      right = Math.max(right, xs[i]);
      bottom = Math.min(bottom, ys[i]);
      top = Math.max(top, ys[i]);
    }
    this.left = left;
    this.bottom = bottom;
    const extent = Math.max(right - left, top - bottom, 1e-6);
    this.cell = extent / Math.max(1, Math.min(1024, Math.sqrt(xs.length)));
    this.across = Math.floor((right - left) / this.cell) + 1;
    this.up = Math.floor((top - bottom) / this.cell) + 1;
    const keys = new Uint32Array(xs.length);
    for (let i = 0; i < xs.length; i++) keys[i] = this.column(xs[i]) + this.across * this.line(ys[i]);
    const { start, order } = sortedByKey(keys, this.across * this.up);
    this.start = start;
    this.order = order;
  }

  /** @param {number} x */
  column(x) {
    return Math.min(this.across - 1, Math.max(0, Math.floor((x - this.left) / this.cell)));
  }

  /** @param {number} y */
  line(y) {
    return Math.min(this.up - 1, Math.max(0, Math.floor((y - this.bottom) / this.cell)));
  }

  /**
   * The nearest point that counts, no further than `reach`; -1 where there is none.
   * @param {number} x @param {number} y @param {number} reach @param {(i: number) => boolean} counts
   */
  find(x, y, reach, counts) {
    let best = -1;
    let least = reach * reach;
    const column = Math.floor((x - this.left) / this.cell);
    const line = Math.floor((y - this.bottom) / this.cell);
    const first = Math.max(0, -column, column - this.across + 1, -line, line - this.up + 1); // that meets a cell
    const last = Math.max(column, this.across - 1 - column, line, this.up - 1 - line); // that does
    for (let ring = first; ring <= last; ring++) {
      if ((ring - 1) * this.cell > 0 && ((ring - 1) * this.cell) ** 2 > least) break; // no cell further out is nearer
      for (let l = Math.max(0, line - ring); l <= Math.min(this.up - 1, line + ring); l++) {
        const whole = Math.abs(l - line) === ring; // else only its two ends
        const from = whole ? Math.max(0, column - ring) : column - ring;
        const to = whole ? Math.min(this.across - 1, column + ring) : column + ring;
        for (let c = from; c <= to; c += whole ? 1 : 2 * ring) {
          if (c < 0 || c >= this.across) continue;
          const key = c + this.across * l;
          for (let k = this.start[key]; k < this.start[key + 1]; k++) {
            const i = this.order[k];
            const away = (this.xs[i] - x) ** 2 + (this.ys[i] - y) ** 2;
            if (away < least && counts(i)) {
              least = away;
              best = i;
            }
          }
        }
      }
    }
    return best;
  }
}

/**
 * The share of sorted numbers below a value, ties counted half.
 * @param {Float32Array} sorted ascending
 * @param {number} value
 */
export function rankIn(sorted, value) {
  const firstNot = (/** @type {(other: number) => boolean} */ test) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (test(sorted[middle])) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return (firstNot((other) => other < value) + firstNot((other) => other <= value)) / 2 / Math.max(1, sorted.length);
}

/**
 * A line with fewer corners that is nowhere further off than a step (Douglas and Peucker).
 * @param {number[]} points x and y by turns
 * @param {number} step @returns {number[]}
 */
export function fewerCorners(points, step) {
  const n = points.length / 2;
  if (n < 3) return [...points];
  const [x1, y1, x2, y2] = [points[0], points[1], points[2 * n - 2], points[2 * n - 1]];
  const length = Math.hypot(x2 - x1, y2 - y1);
  let [farthest, most] = [0, -1];
  for (let i = 1; i < n - 1; i++) {
    const [a, b] = [points[2 * i] - x1, points[2 * i + 1] - y1];
    const off = length > 0 ? Math.abs(a * (y2 - y1) - b * (x2 - x1)) / length : Math.hypot(a, b);
    if (off > most) [farthest, most] = [i, off];
  }
  if (most <= step) return [x1, y1, x2, y2];
  const before = fewerCorners(points.slice(0, 2 * farthest + 2), step);
  return [...before.slice(0, -2), ...fewerCorners(points.slice(2 * farthest), step)];
}
