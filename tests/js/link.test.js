import assert from "node:assert/strict";
import { test } from "node:test";
import { View } from "../../src/latentbits/explorer/js/map/view.js";
import { fragmentOf, seenIn } from "../../src/latentbits/explorer/js/page/link.js";

test("what is seen comes back from its fragment", () => {
  const seen = {
    section: "causes",
    row: 17,
    second: 0,
    colour: "bit:3",
    lines: [4, 0],
    view: { x: -1.25, y: 0.5, zoom: 3 },
    model: "noisy OR of 3, 2 & more=#",
    cause: "1:0",
    hidden: [0, 2],
    columns: /** @type {const} */ ("lines"),
    lasso: [0.5, -1, 2, 1, -1.25, 3],
    rowsBy: "strongest cause: mixture of 4",
    columnsBy: "their place",
  };
  assert.deepEqual(seenIn(fragmentOf(seen)), seen);
  assert.equal(fragmentOf({}), "");
  assert.deepEqual(seenIn(fragmentOf({ lines: [] })), { lines: [] });
});

test("what makes no sense in a fragment is left out", () => {
  assert.deepEqual(seenIn("row=-3&second=x&view=1,2&lines=a.2&other=1"), { lines: [2] });
  assert.deepEqual(seenIn("view=1,2,0"), {});
  assert.deepEqual(seenIn("view=1,,2"), {});
  assert.deepEqual(seenIn("lasso=1,2,3,4&columns=none&rows-by="), {});
  assert.deepEqual(seenIn("lasso=1,2,3,4,5,x"), {});
});

test("a window of another size looks at the same place, as much larger than at first", () => {
  const [view, other] = [new View(), new View()];
  Object.assign(view, { width: 900, height: 500 });
  Object.assign(other, { width: 300, height: 400 });
  for (const one of [view, other]) {
    one.fit([-2, -1, 2, 1]);
    one.goHome();
    assert.equal(one.look(), null);
  }
  view.zoom(2.5, 100, 50);
  other.lookAt(view.look());
  const [{ x, y, zoom }, found] = [view.look() ?? { x: 0, y: 0, zoom: 0 }, other.look()];
  assert.deepEqual([found?.x, found?.y], [x, y]);
  assert.ok(Math.abs((found?.zoom ?? 0) - zoom) < 1e-12);
  other.lookAt(null);
  assert.equal(other.look(), null);
});
