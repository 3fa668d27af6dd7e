import assert from "node:assert/strict";
import { test } from "node:test";
import { Rows } from "../../src/latentbits/explorer/js/page/cells.js";
import { blockMeans, orderBy, orderByCause, startOfBlock } from "../../src/latentbits/explorer/js/table/blocks.js";

/** @param {number[][]} cells of 0, 1 and NaN @param {boolean} real */
function rowsWith(cells, real) {
  const [n, d] = [cells.length, cells[0].length];
  const width = (d + 7) >> 3;
  const packed = (/** @type {(value: number) => boolean} */ test) => {
    const data = new Uint8Array(n * width);
    cells.forEach((row, i) => {
      row.forEach((value, j) => {
        if (test(value)) data[i * width + (j >> 3)] |= 128 >> (j & 7);
      });
    });
    return { shape: [n, d], data };
  };
  const values = real ? { shape: [n, d], data: Float32Array.from(cells.flat()) } : packed((value) => value === 1);
  const table = { n_shown: n, columns: cells[0].map((_, j) => `c${j}`), real, labels: [], row_names: null };
  return new Rows({ table }, { "rows.values": values, "rows.missing": packed(Number.isNaN) });
}

test("blocks cover all, once", () => {
  for (const [n, blocks] of [
    [10, 3],
    [7, 7],
    [645, 375],
  ]) {
    const starts = Array.from({ length: blocks + 1 }, (_, k) => startOfBlock(k, n, blocks));
    assert.deepEqual([starts[0], starts[blocks]], [0, n]);
    assert.ok(starts.every((start, k) => k === 0 || start > starts[k - 1]));
  }
});

test("a pixel is the mean of its cells that are known", () => {
  const cells = Array.from({ length: 23 }, (_, i) =>
    Array.from({ length: 19 }, (_, j) => ((i * 7 + j * 3) % 5 === 0 ? Number.NaN : (i * i + 3 * j) % 2)),
  );
  const [down, across] = [orderBy(23, (i) => -i), orderBy(19, (j) => (j * 5) % 19)];
  const means = blockMeans(rowsWith(cells, false), down, across, 4, 6);
  for (let y = 0; y < 4; y++) {
    for (let x = 0; x < 6; x++) {
      const own = [...down.subarray(startOfBlock(y, 23, 4), startOfBlock(y + 1, 23, 4))].flatMap((i) =>
        [...across.subarray(startOfBlock(x, 19, 6), startOfBlock(x + 1, 19, 6))].map((j) => cells[i][j]),
      );
      const known = own.filter((value) => !Number.isNaN(value));
      const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
      assert.ok(Math.abs(means[6 * y + x] - mean) < 1e-6);
    }
  }
  const hole = blockMeans(
    rowsWith([[Number.NaN, 1]], false),
    orderBy(1, () => 0),
    orderBy(2, (j) => j),
    1,
    2,
  );
  assert.ok(Number.isNaN(hole[0]) && hole[1] === 1);
});

test("real columns are in standard deviations from their means", () => {
  const rows = rowsWith(
    [
      [1, 100],
      [3, 300],
    ],
    true,
  );
  const means = blockMeans(
    rows,
    orderBy(2, (i) => i),
    orderBy(2, (j) => j),
    2,
    2,
  );
  assert.deepEqual([...means], [-1, -1, 1, 1]);
});

test("orders", () => {
  const keys = [2, Number.NaN, 1, 2];
  assert.deepEqual([...orderBy(4, (i) => keys[i])], [2, 0, 3, 1]);
  const active = { shape: [4, 2], data: Float32Array.from([0.2, 0.8, 0.9, 0.1, 0.4, 0.6, 1, 0]) };
  assert.deepEqual([...orderByCause(active)], [3, 1, 0, 2]);
});
