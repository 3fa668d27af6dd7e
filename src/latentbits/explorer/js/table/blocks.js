/** A table as few numbers: orders of rows and columns, and means of blocks of cells, as many as a picture has pixels. */

/** @import {TypedArrayOf} from "../page/arrays.js" */
/** @import {Rows} from "../page/cells.js" */

/**
 * Places 0, 1, .. in the order of a number of each, those without one last.
 * @param {number} n @param {(i: number) => number} key @returns {Uint32Array}
 */
export function orderBy(n, key) {
  const keys = Float64Array.from({ length: n }, (_, i) => key(i));
  const last = (/** @type {number} */ i) => Number(Number.isNaN(keys[i]));
  return Uint32Array.from(keys.keys()).sort((a, b) => last(a) - last(b) || keys[a] - keys[b] || a - b);
}

/**
 * The rows by the cause that is strongest in each, and within a cause the strongest first.
 * @param {TypedArrayOf} active (n, m)
 * @returns {Uint32Array}
 */
export function orderByCause(active) {
  const [n, m] = active.shape;
  return orderBy(n, (i) => {
    const own = Array.from(active.data.subarray(i * m, (i + 1) * m));
    const most = Math.max(...own);
    return own.indexOf(most) + 0.5 * (1 - most);
  });
}

/**
 * Where block k of `blocks` begins, of n things side by side.
 * @param {number} k @param {number} n @param {number} blocks
 */
export function startOfBlock(k, n, blocks) {
  return Math.floor((k * n) / blocks);
}

/**
 * Means of blocks of cells, NaN where nothing is known.
 * @param {Rows} rows @param {Uint32Array} rowOrder @param {Uint32Array} columnOrder
 * @param {number} height blocks of rows
 * @param {number} width blocks of columns
 * @returns {Float32Array} (height, width); real columns are in standard deviations from their means
 */
export function blockMeans(rows, rowOrder, columnOrder, height, width) {
  const [n, d] = [rowOrder.length, columnOrder.length];
  const blockOf = new Uint32Array(d);
  for (let k = 0; k < width; k++)
    for (let at = startOfBlock(k, d, width); at < startOfBlock(k + 1, d, width); at++) blockOf[at] = k;
  const add = rows.real ? numbersAdder(rows, columnOrder, blockOf) : bitsAdder(rows, columnOrder, blockOf);
  const means = new Float32Array(height * width);
  const [sums, counts] = [new Float64Array(width), new Float64Array(width)];
  for (let y = 0; y < height; y++) {
    sums.fill(0);
    counts.fill(0);
    for (let k = startOfBlock(y, n, height); k < startOfBlock(y + 1, n, height); k++) add(rowOrder[k], sums, counts);
    for (let x = 0; x < width; x++) means[y * width + x] = sums[x] / counts[x];
  }
  return means;
}

/** @typedef {(row: number, sums: Float64Array, counts: Float64Array) => void} Adder */

/**
 * There may be tens of millions: which byte and which bit of it a column has is found once.
 * @param {Rows} rows @param {Uint32Array} columns @param {Uint32Array} blockOf @returns {Adder}
 */
function bitsAdder(rows, columns, blockOf) {
  const width = (rows.d + 7) >> 3;
  const [bytes, holes] = [rows.values.data, rows.missing?.data];
  const byteOf = columns.map((j) => j >> 3);
  const shiftOf = columns.map((j) => 7 - (j & 7));
  return (row, sums, counts) => {
    const base = row * width;
    for (let k = 0; k < columns.length; k++) {
      if (holes && (holes[base + byteOf[k]] >> shiftOf[k]) & 1) continue;
      sums[blockOf[k]] += (bytes[base + byteOf[k]] >> shiftOf[k]) & 1;
      counts[blockOf[k]]++;
    }
  };
}

/** @param {Rows} rows @param {Uint32Array} columns @param {Uint32Array} blockOf @returns {Adder} */
function numbersAdder(rows, columns, blockOf) {
  const { means, sds } = rows.overall();
  return (row, sums, counts) => {
    for (let k = 0; k < columns.length; k++) {
      const value = rows.at(row, columns[k]);
      if (Number.isNaN(value)) continue;
      sums[blockOf[k]] += (value - means[columns[k]]) / (sds[columns[k]] || 1);
      counts[blockOf[k]]++;
    }
  };
}
