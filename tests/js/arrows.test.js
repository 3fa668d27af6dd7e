import assert from "node:assert/strict";
import { test } from "node:test";
import { arrowAt, layOutArrows, reachOf, strongestColumns } from "../../src/latentbits/explorer/js/map/arrows.js";
import { fewerCorners } from "../../src/latentbits/explorer/js/map/maths.js";
import { View } from "../../src/latentbits/explorer/js/map/view.js";

const near = (/** @type {number} */ a, /** @type {number} */ b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} and ${b}`);

test("a bit's reach is the difference of its chances, and never above 1", () => {
  near(reachOf(Math.log(3), 0, false, 0), 0.5);
  near(reachOf(-Math.log(3), 0, false, 0), -0.5);
  assert.ok(reachOf(1000, 0, false, 0) <= 1);
  assert.ok(reachOf(1, -9, false, 0) < 0.001); // a rare bit hardly changes
  near(reachOf(3, 100, true, 2), 3);
  near(reachOf(3, 100, true, 0), 0);
});

test("the strongest come first, and those that say nothing are left out", () => {
  const weights = [0, 3, 0.01, 0, 4, 0, 0, 1];
  const found = strongestColumns(weights, [0, 0, 0, 0], false, [1, 1, 1, 1]);
  assert.deepEqual(
    found.map(({ column }) => column),
    [0, 1, 3],
  );
  assert.deepEqual(found[0].towards, [0, 1]);
});

test("names of arrows keep out of each other's way, and the cursor finds them", () => {
  const view = new View();
  Object.assign(view, { width: 600, height: 600 });
  view.fit([-2, -2, 2, 2]);
  view.goHome();
  const alike = Array.from({ length: 6 }, (_, column) => ({ column, reach: 0.9 - 0.01 * column, towards: [1, 0] }));
  const arrows = layOutArrows(view, alike, ["a", "b", "c", "d", "e", "f"], () => 50);
  assert.deepEqual(
    arrows.map(({ column }) => column),
    [0, 1, 2],
  );
  const heights = arrows.map(({ label }) => label.y).sort((a, b) => a - b);
  assert.ok(heights[1] - heights[0] >= 14 && heights[2] - heights[1] >= 14);
  const [{ label, to }] = arrows;
  assert.ok(label.box.right <= 598);
  assert.equal(arrowAt(arrows, label.box.left + 5, label.y)?.column, 0);
  assert.equal(arrowAt(arrows, to[0], to[1])?.column, 0);
  assert.equal(arrowAt(arrows, 5, 5), null);
});

test("a lasso keeps the corners that it needs", () => {
  const circle = Array.from({ length: 200 }, (_, k) => [
    100 * Math.cos((2 * Math.PI * k) / 200),
    100 * Math.sin((2 * Math.PI * k) / 200),
  ]).flat();
  const few = fewerCorners(circle, 2);
  assert.ok(few.length < 60 && few.length >= 12, String(few.length));
  assert.deepEqual(fewerCorners([0, 0, 5, 0.1, 10, 0], 2), [0, 0, 10, 0]);
  assert.deepEqual(fewerCorners([0, 0, 5, 7, 10, 0], 2), [0, 0, 5, 7, 10, 0]);
});
