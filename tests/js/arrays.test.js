import assert from "node:assert/strict";
import { test } from "node:test";
import { bitAt, readArray, rowOf } from "../../src/latentbits/explorer/js/page/arrays.js";

test("two bytes a number, little end first", async () => {
  const array = await readArray({ dtype: "u2", shape: [2, 2], deflated: false }, "AQACAAMABAE=");
  assert.deepEqual([...array.data], [1, 2, 3, 260]);
  assert.deepEqual([...rowOf(array, 1)], [3, 260]);
});

test("deflated bytes are inflated", async () => {
  const array = await readArray({ dtype: "u1", shape: [40], deflated: true }, "eNpjZycOAAAWlAEZ");
  assert.equal(array.data.length, 40);
  assert.ok(array.data.every((value) => value === 7));
});

test("scaled numbers have a low and a step for each column", async () => {
  const head = { dtype: "u1", shape: [2, 2], deflated: false, low: [-1, 10], step: [0.5, 2] };
  const array = await readArray(head, btoa("\x00\x01\x02\x03"));
  assert.deepEqual([...array.data], [-1, 12, 0, 16]);
});

test("rows of bits begin a byte, first bit highest", async () => {
  const bits = await readArray({ dtype: "bits", shape: [2, 9], deflated: false }, btoa("\x80\x80\x01\x00"));
  const rows = [0, 1].map((row) => Array.from({ length: 9 }, (_, column) => bitAt(bits, row, column)));
  assert.deepEqual(rows, [
    [1, 0, 0, 0, 0, 0, 0, 0, 1],
    [0, 0, 0, 0, 0, 0, 0, 1, 0],
  ]);
});
