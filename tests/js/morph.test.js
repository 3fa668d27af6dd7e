import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bitsAlong,
  crossFade,
  differing,
  farPair,
  flippingPair,
  flipsOf,
  shortWayWords,
  wayBetween,
} from "../../src/latentbits/explorer/js/morph/flips.js";

// Two hidden variables, four bits: y goes from (0, 0) to (2, -1).
const way = wayBetween([1, 0, -2, 0.5, 0, 1, 0, 1], [-0.5, 0.25, 1, 3], [0, 0], [2, -1]);

test("bits flip where phi + y W crosses 0, in that order", () => {
  assert.deepEqual(
    flipsOf(way).map(({ column, t, on }) => [column, t, on]),
    [
      [0, 0.25, true],
      [1, 0.25, false],
      [2, 0.25, false],
    ],
  );
  assert.deepEqual([...bitsAlong(way, 0)], [0, 1, 1, 1]);
  assert.deepEqual([...bitsAlong(way, 0.25)], [0, 0, 0, 1]); // at 0 a bit is off
  assert.deepEqual([...bitsAlong(way, 1)], [1, 0, 0, 1]);
});

test("each flip changes its bit and no other", () => {
  const weights = Array.from({ length: 40 }, (_, i) => Math.sin(3 * i + 1));
  const phi = Array.from({ length: 20 }, (_, i) => 0.3 * Math.cos(5 * i));
  const longer = wayBetween(weights, phi, [-1, 0.5], [1.5, -0.7]);
  const flips = flipsOf(longer);
  assert.ok(flips.length > 5);
  for (const { column, t } of flips) {
    const [before, after] = [bitsAlong(longer, t - 1e-7), bitsAlong(longer, t + 1e-7)];
    assert.deepEqual(
      [...before.keys()].filter((j) => before[j] !== after[j]),
      [column],
    );
  }
});

test("the cross-fade is linear, and missing stays missing", () => {
  const fade = crossFade([0, 1, Number.NaN], [1, 1, 0], 0.25);
  assert.deepEqual([...fade], [0.25, 1, Number.NaN]);
  assert.equal(differing([1, 0, 1], [0, 0, Number.NaN]), 1);
});

test("the first pair is far apart, each row the most typical of its kind", () => {
  const places = { shape: [6, 1], data: Float32Array.from([0, 1, 2, 10, 11, 30]) };
  assert.deepEqual(farPair(places, [0, 0, 0, 1, 1, 65535], [0, 1, 2, 3, 4, 5]), [1, 3]);
  assert.deepEqual(farPair(places, null, [0, 1, 2, 3, 4, 5]), [5, 0]);
  const many = { shape: [40, 1], data: Float32Array.from({ length: 40 }, (_, i) => (i === 7 ? 100 : i / 40)) };
  const rows = Array.from({ length: 40 }, (_, i) => i);
  assert.ok(!farPair(many, null, rows).includes(7), "an odd row is no end of a morph");
});

test("where typical rows have no flip between them, two rows with many are found", () => {
  // bit j is on beyond y = j + 1, which few rows reach
  const [weights, phi] = [
    [1, 1, 1, -1],
    [-1, -2, -3, -4],
  ];
  const places = { shape: [8, 1], data: Float32Array.from([0, 0.1, -0.1, 3.5, 0.2, -5, 0, 1.5]) };
  const all = [0, 1, 2, 3, 4, 5, 6, 7];
  const flips = (/** @type {number} */ a, /** @type {number} */ b) =>
    flipsOf(wayBetween(weights, phi, [places.data[a]], [places.data[b]])).length;
  assert.equal(flips(0, 1), 0);
  assert.deepEqual([...flippingPair(weights, phi, places, all)].sort(), [3, 5]);
  assert.equal(flips(3, 5), 4);
  const [a, b] = flippingPair(weights, phi, places, [0, 1]);
  assert.notEqual(a, b);
  assert.equal(shortWayWords(4, 7, 20), "");
  assert.match(shortWayWords(0, 7, 20), /differ in 7 of 20 columns, but no bit flips/);
  assert.match(shortWayWords(2, 7, 20), /only 2 of the bits flip/);
  assert.match(shortWayWords(0, 0, 20), /do not differ/);
});
