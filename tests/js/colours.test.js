import assert from "node:assert/strict";
import { test } from "node:test";
import { colouringOf, levelColours, rampColour } from "../../src/latentbits/explorer/js/map/colours.js";
import { Rows } from "../../src/latentbits/explorer/js/page/cells.js";

const HEAD = {
  table: {
    n_shown: 4,
    columns: ["a", "b", "a"],
    real: false,
    labels: [{ name: "kind", levels: ["x", "y"] }],
    row_names: ["one", "two", "three", "four"],
  },
};
const ARRAYS = {
  "rows.values": { shape: [4, 3], data: Uint8Array.of(0b10000000, 0b11000000, 0, 0b01100000) },
  "rows.missing": { shape: [4, 3], data: Uint8Array.of(0, 0, 0b10000000, 0) },
  "labels.0": { shape: [4], data: Uint16Array.of(1, 0, 65535, 1) },
  "map.cost": { shape: [4], data: Float32Array.of(5, 1, 9, 3) },
};
const rows = new Rows(HEAD, ARRAYS);

test("ten kinds have ten colours; of more, the nine commonest have their own", () => {
  const ten = levelColours(new Uint32Array(10), false);
  assert.equal(new Set(ten).size, 10);
  assert.equal(ten[0], "#0072b2");
  const counts = Uint32Array.from({ length: 20 }, (_, i) => i);
  const many = levelColours(counts, true);
  assert.equal(new Set(many.slice(0, 11)).size, 1);
  assert.equal(new Set(many).size, 10);
});

test("rows by label, with those of no known kind", () => {
  const { title, codes, levels } = colouringOf(rows, "label:0", false);
  assert.equal(title, "kind");
  assert.deepEqual([...codes], [1, 0, 2, 1]);
  assert.deepEqual(
    levels.map(({ name, count }) => [name, count]),
    [
      ["x", 1],
      ["y", 2],
      ["not known", 1],
    ],
  );
});

test("rows by a bit that is missing in one", () => {
  const { codes, levels } = colouringOf(rows, "bit:0", false);
  assert.deepEqual([...codes], [1, 1, 2, 0]);
  assert.deepEqual(
    levels.map(({ count }) => count),
    [1, 2, 1],
  );
  assert.equal(colouringOf(rows, "bit:1", false).levels.length, 2);
});

test("rows by surprise, on a scale", () => {
  const { codes, colours, ramp } = colouringOf(rows, "cost", false);
  assert.deepEqual(ramp, { low: 1, high: 9 });
  assert.equal(colours[codes[1]], rampColour(0));
  assert.equal(colours[codes[2]], rampColour(1));
  assert.ok(codes[3] < codes[0]);
});

test("rows know their cells, names and shares", () => {
  assert.deepEqual([...rows.cells(2)], [Number.NaN, 0, 0]);
  assert.deepEqual([...rows.overall().means], [2 / 3, 0.5, 0.25]);
  assert.deepEqual(rows.columns, ["a", "b", "a (column 2)"]);
  assert.equal(rows.find("three"), 2);
  assert.equal(rows.find("3"), 3);
  assert.equal(rows.find("TW"), 1);
  assert.equal(rows.find("nobody"), -1);
  assert.equal(rows.find("99"), -1);
});
