import assert from "node:assert/strict";
import { test } from "node:test";
import {
  clippedLine,
  decodeAt,
  ellipseOf,
  isInside,
  NearestPoint,
  placesOf,
  pointsInside,
  rankIn,
  roundTicks,
  sigmoid,
} from "../../src/latentbits/explorer/js/map/maths.js";
import { View } from "../../src/latentbits/explorer/js/map/view.js";

/** Numbers that look random, the same each time. */
function* noise(seed = 1) {
  let state = seed;
  while (true) {
    state = (state * 48271) % 2147483647;
    yield state / 2147483647;
  }
}

/** @param {number} n */
function randomPoints(n) {
  const next = noise(n);
  return Float32Array.from({ length: 2 * n }, () => Number(next.next().value) * 4 - 2);
}

test("sigmoid holds far out", () => {
  assert.equal(sigmoid(0), 0.5);
  assert.equal(sigmoid(-800), 0);
  assert.equal(sigmoid(800), 1);
  assert.ok(Math.abs(sigmoid(-40) / Math.exp(-40) - 1) < 1e-12);
});

test("a place is decoded with weights row by row", () => {
  const weights = [1, 0, -2, 0, 3, 1]; // (2, 3)
  const bias = [0.5, -1, 0];
  const place = { x: 2, y: -1 };
  assert.deepEqual([...decodeAt(weights, bias, place, true)], [2.5, -4, -5]);
  assert.deepEqual([...decodeAt(weights, bias, place, false)], [2.5, -4, -5].map(sigmoid));
});

test("an ellipse has the axes of its covariance", () => {
  const { long, short, angle } = ellipseOf(2, 2, 1);
  assert.ok(Math.abs(long - Math.sqrt(3)) < 1e-12);
  assert.ok(Math.abs(short - 1) < 1e-12);
  assert.ok(Math.abs(angle - Math.PI / 4) < 1e-12);
  assert.ok(Math.abs(ellipseOf(1, 4, 0).angle - Math.PI / 2) < 1e-12);
});

test("inside a polygon with a bay, and not in the bay", () => {
  const bay = [0, 0, 4, 0, 4, 4, 3, 4, 3, 1, 1, 1, 1, 4, 0, 4];
  assert.ok(isInside(0.5, 3, bay));
  assert.ok(isInside(3.5, 3, bay));
  assert.ok(!isInside(2, 3, bay));
  assert.ok(isInside(2, 0.5, bay));
  const slanted = [0, 0, 4, 2, 0, 4];
  assert.ok(isInside(2.5, 1.5, slanted));
  assert.ok(!isInside(2.5, 1.1, slanted));
  assert.deepEqual([...pointsInside([0.5, 3, 2, 3, 3.5, 3], bay, () => true)], [0, 2]);
  assert.deepEqual([...pointsInside([0.5, 3, 2, 3, 3.5, 3], bay, (i) => i !== 0)], [2]);
});

test("a line is cut at the window's edges", () => {
  const w = { left: -1, right: 3, bottom: -2, top: 2 };
  for (const [u, v, c] of [
    [1, 1, -1],
    [1, 0, -0.5],
    [0, 2, 1],
    [-3, 1, 0.2],
  ]) {
    const ends = clippedLine(u, v, c, w);
    assert.equal(ends?.length, 2);
    for (const { x, y } of ends ?? []) {
      assert.ok(Math.abs(u * x + v * y + c) < 1e-9);
      const gaps = [x - w.left, w.right - x, y - w.bottom, w.top - y];
      assert.ok(Math.min(...gaps) > -1e-9 && Math.min(...gaps.map(Math.abs)) < 1e-9);
    }
  }
  assert.equal(clippedLine(1, 0, 5, w), null);
  assert.equal(clippedLine(1, 1, 50, w), null);
  assert.equal(clippedLine(0, 0, 1, w), null);
});

test("ticks are round and within the range", () => {
  assert.deepEqual(roundTicks(-1.1, 2.3, 4), { ticks: [-1, 0, 1, 2], digits: 0 });
  const { ticks, digits } = roundTicks(0.011, 0.052, 4);
  assert.equal(digits, 2);
  assert.deepEqual(
    ticks.map((tick) => tick.toFixed(2)),
    ["0.02", "0.04"],
  );
});

test("points at one place are one place", () => {
  const { first, start, rows, of } = placesOf([0, 0, 1, 0, 0, 0, 0, 1, 1, 0]);
  assert.deepEqual([...first], [0, 1, 3]);
  assert.deepEqual([...of], [0, 1, 0, 2, 1]);
  const grouped = [0, 1, 2].map((g) => [...rows.subarray(start[g], start[g + 1])]);
  assert.deepEqual(grouped, [[0, 2], [1, 4], [3]]);
});

test("the nearest point is the one that looking at all finds", () => {
  const points = randomPoints(3000);
  const [xs, ys] = [0, 1].map((k) => Float32Array.from({ length: 3000 }, (_, i) => points[2 * i + k]));
  const nearest = new NearestPoint(xs, ys);
  const next = noise(7);
  for (let k = 0; k < 400; k++) {
    const [x, y] = [Number(next.next().value) * 6 - 3, Number(next.next().value) * 6 - 3]; // some are outside
    const reach = k % 3 ? 10 : 0.05;
    const counts = (/** @type {number} */ i) => k % 2 === 0 || i % 50 === 0;
    let [best, least] = [-1, reach * reach];
    for (let i = 0; i < 3000; i++) {
      const away = (xs[i] - x) ** 2 + (ys[i] - y) ** 2;
      if (away < least && counts(i)) [best, least] = [i, away];
    }
    assert.equal(nearest.find(x, y, reach, counts), best);
  }
});

test("a single point, or points in a line, can be nearest too", () => {
  assert.equal(
    new NearestPoint(Float32Array.of(1), Float32Array.of(1)).find(1.2, 1, 1, () => true),
    0,
  );
  const line = new NearestPoint(Float32Array.of(0, 1, 2, 3), new Float32Array(4));
  assert.equal(
    line.find(2.2, 0.5, 2, () => true),
    2,
  );
});

test("places and pixels are each other's inverse, and zoom keeps the place it is about", () => {
  const view = new View();
  Object.assign(view, { width: 800, height: 600 });
  view.fit([-1, 2, 5, 3, 0, -2]);
  view.goHome();
  for (const [x, y] of [
    [-1, 2],
    [5, 3],
    [0, -2],
  ]) {
    const [across, down] = [view.across(x), view.down(y)];
    assert.ok(across > 0 && across < 800 && down > 0 && down < 600);
    const place = view.place(across, down);
    assert.ok(Math.hypot(place.x - x, place.y - y) < 1e-9);
  }
  assert.ok(view.down(3) < view.down(2)); // up is up
  const before = view.place(100, 450);
  view.zoom(3, 100, 450);
  view.pan(30, -20);
  const after = view.place(130, 430);
  assert.ok(Math.hypot(after.x - before.x, after.y - before.y) < 1e-9);
});

test("a rank counts ties half", () => {
  const sorted = Float32Array.of(1, 2, 2, 3);
  assert.equal(rankIn(sorted, 2), 0.5);
  assert.equal(rankIn(sorted, 0), 0);
  assert.equal(rankIn(sorted, 9), 1);
});
