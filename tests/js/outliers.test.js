import assert from "node:assert/strict";
import { test } from "node:test";
import { layOutNames, outermost } from "../../src/latentbits/explorer/js/map/outliers.js";
import { View } from "../../src/latentbits/explorer/js/map/view.js";

test("the farthest out come first, by how rows spread", () => {
  // they spread ten times as far across as up: 5 up is farther out than 16 across
  const means = [-10, 0, 10, 0, 0, 1, 0, -1, 16, 0, 0, 5, 3, 0.5, -3, -0.5];
  assert.deepEqual(outermost(means, 2), [5, 4]);
  assert.deepEqual(outermost([0, 0, 1, 1, 2, 2, 9, 9], 1), [3]); // all on one line
  assert.equal(outermost(means).length, 8);
});

test("names stand inside the window, beside their points, and on nothing else", () => {
  const view = new View();
  Object.assign(view, { width: 400, height: 300 });
  view.fit([-1, -1, 1, 1]);
  view.goHome();
  const wanted = Array.from({ length: 60 }, (_, row) => ({
    row,
    x: Math.sin(7 * row),
    y: Math.cos(3 * row),
    text: `name of row ${row}`,
  }));
  const taken = [{ left: 0, top: 0, right: 400, bottom: 90 }];
  const placed = layOutNames(view, wanted, (text) => 6 * text.length, taken);
  assert.ok(placed.length > 4);
  const boxes = [...taken, ...placed.map(({ box }) => box)];
  for (const [i, a] of boxes.entries()) {
    assert.ok(a.left >= 0 && a.right <= 400 && a.top >= 0 && a.bottom <= 300);
    for (const b of boxes.slice(0, i)) {
      assert.ok(a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top);
    }
  }
  for (const { row, box } of placed) {
    const [x, y] = [view.across(wanted[row].x), view.down(wanted[row].y)];
    assert.ok(Math.min(Math.abs(box.left - x), Math.abs(box.right - x), Math.abs((box.left + box.right) / 2 - x)) < 10);
    assert.ok(Math.abs((box.top + box.bottom) / 2 - y) < 14);
  }
  assert.equal(placed[0].row, wanted.find(({ y }) => view.down(y) > 110)?.row);
});
