import assert from "node:assert/strict";
import { test } from "node:test";
import { explainRow, strengthsOf } from "../../src/latentbits/explorer/js/causes/network.js";

const lower = {
  names: ["a", "b", "c"],
  weights: [3, 0.1, 1, 0, 1, 0, 1, 2, 9, 9, 9, 9], // c is off
  bias: [0, 0.1, 2, 0.5],
  states: [1, 1, 0],
  means: [0.9, 0.8, 0.1],
};
const upper = { names: ["top"], weights: [1, 1, 1], bias: [1, 0.01, 1], states: [1], means: [0.7] };

test("shares are w / u, of children that are on, at least a tenth, largest first; none of what is unexplained", () => {
  const { causes, unexplained } = explainRow([lower, upper], [1, 1, 1, Number.NaN]);
  const lines = causes.map((layer) =>
    layer.map(({ name, explains }) => [name, ...explains.map(({ child, share }) => [child, Number(share.toFixed(4))])]),
  );
  assert.deepEqual(lines, [
    [
      ["a", [0, 0.75], [1, 0.5]],
      ["b", [0, 0.25]],
    ],
    [["top", [1, 0.9901], [0, 0.5]]],
  ]);
  assert.deepEqual(unexplained, [{ child: 2, share: 0.5 }]);
});

test("a strength is the chance to turn a child on", () => {
  const [none, half] = strengthsOf([0, Math.log(2)]);
  assert.equal(none, 0);
  assert.ok(Math.abs(half - 0.5) < 1e-7);
});
