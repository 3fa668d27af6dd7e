import assert from "node:assert/strict";
import { test } from "node:test";
import { colouringOf, commonest, rampColour } from "../../src/latentbits/explorer/js/map/colours.js";
import { meansOf } from "../../src/latentbits/explorer/js/map/lasso.js";
import { Rows } from "../../src/latentbits/explorer/js/page/cells.js";

const HEAD = {
  table: {
    n_shown: 4,
    columns: ["a", "b", "a"],
    real: false,
    labels: [{ name: "kind", levels: ["x", "y"], numeric: false }],
    row_names: ["one", "two", "three", "four"],
  },
};
const ARRAYS = {
  "rows.values": { shape: [4, 3], data: Uint8Array.of(0b10000000, 0b11000000, 0, 0b01100000) },
  "rows.missing": { shape: [4, 3], data: Uint8Array.of(0, 0, 0b10000000, 0) },
  "labels.0": { shape: [4], data: Uint16Array.of(1, 0, 65535, 1) },
};
const rows = new Rows(HEAD, ARRAYS);
const ALL = /** @type {any} */ ({ rows: null, cost: Float32Array.of(5, 1, 9, 3) }); // the map of all rows

test("twelve kinds have twelve colours; of more, the commonest have their own, and the others one", () => {
  assert.deepEqual(commonest([1, 5, 3]), [0, 1, 2]);
  assert.deepEqual(
    commonest(Uint32Array.from({ length: 20 }, (_, i) => i)),
    Array.from({ length: 12 }, (_, i) => i + 8),
  );
  const kinds = Array.from({ length: 15 }, (_, i) => `kind ${i}`);
  // the first three kinds have one row each, the others two
  const codes = Uint16Array.of(...kinds.keys(), ...Array.from({ length: 12 }, (_, i) => i + 3), 65535);
  const table = {
    ...HEAD.table,
    n_shown: codes.length,
    labels: [{ name: "kind", levels: kinds, numeric: false, ordered: false }],
  };
  const many = new Rows({ table }, { ...ARRAYS, "labels.0": { shape: [codes.length], data: codes } });
  const { levels, colours } = colouringOf(many, "label:0", true, ALL);
  assert.deepEqual(
    levels.map(({ name, count }) => [name, count]),
    [...kinds.slice(3).map((name) => [name, 2]), ["3 other kinds", 3], ["not known", 1]],
  );
  assert.equal(new Set(colours).size, 14);
  table.labels = [{ name: "stage", levels: ["0", "1", "2"], numeric: false, ordered: true }];
  const stages = { "labels.0": { shape: [codes.length], data: codes.map((code) => code % 3) } };
  assert.deepEqual(
    colouringOf(new Rows({ table }, { ...ARRAYS, ...stages }), "label:0", true, ALL).levels.map(({ colour }) => colour),
    [0, 0.5, 1].map(rampColour),
  );
});

test("rows by a number that is known of them", () => {
  const table = { ...HEAD.table, labels: [{ name: "water", levels: [], numeric: true }] };
  const data = Float32Array.of(39.18, 5, Number.NaN, 21);
  const numbered = new Rows({ table }, { ...ARRAYS, "labels.0": { shape: [4], data } });
  const { title, codes, levels, ramp } = colouringOf(numbered, "label:0", false, ALL);
  assert.equal(title, "water");
  assert.deepEqual(levels, []);
  assert.equal(ramp?.low, 5);
  assert.equal(ramp?.beyond, false);
  assert.equal(ramp?.unknown, 1);
  assert.equal(codes[2], 64); // beyond the scale
  assert.ok(codes[1] < codes[3] && codes[3] < codes[0]);
  assert.deepEqual(
    [0, 2].map((i) => numbered.labels(i)),
    [[["water", "39.18"]], [["water", "not known"]]],
  );
  assert.equal(meansOf(data, Uint32Array.of(0, 2)), "mean 39.2, of the rest 13.0");
});

test("rows by label, with those of no known kind", () => {
  const { title, codes, levels } = colouringOf(rows, "label:0", false, ALL);
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
  const { codes, levels } = colouringOf(rows, "bit:0", false, ALL);
  assert.deepEqual([...codes], [1, 1, 2, 0]);
  assert.deepEqual(
    levels.map(({ count }) => count),
    [1, 2, 1],
  );
  assert.equal(colouringOf(rows, "bit:1", false, ALL).levels.length, 2);
});

test("rows by surprise, on a scale", () => {
  const { codes, colours, ramp } = colouringOf(rows, "cost", false, ALL);
  assert.deepEqual(ramp, { low: 1, high: 9, beyond: false, unknown: 0 });
  assert.equal(colours[codes[1]], rampColour(0));
  assert.equal(colours[codes[2]], rampColour(1));
  assert.ok(codes[3] < codes[0]);
});

test("on one of several maps its own rows count, in the colours of all", () => {
  const some = { ...ALL, rows: Uint32Array.of(2, 3) };
  const [whole, own] = [ALL, some].map((ground) => colouringOf(rows, "label:0", false, ground));
  assert.deepEqual([...own.codes], [...whole.codes]);
  assert.deepEqual(
    own.levels.map(({ name, count }) => [name, count]),
    [
      ["x", 0],
      ["y", 1],
      ["not known", 1],
    ],
  );
  const known = { ...HEAD.table, labels: [{ name: "depth", levels: [], numeric: true }] };
  const depths = { shape: [4], data: Float32Array.of(1, Number.NaN, 2, Number.NaN) };
  const numbered = new Rows({ table: known }, { ...ARRAYS, "labels.0": depths });
  assert.equal(colouringOf(numbered, "label:0", false, ALL).ramp?.unknown, 2);
  assert.equal(colouringOf(numbered, "label:0", false, some).ramp?.unknown, 1);
});

test("rows know their cells, names and shares", () => {
  assert.deepEqual([...rows.cells(2)], [Number.NaN, 0, 0]);
  assert.deepEqual([...rows.overall().means], [2 / 3, 0.5, 0.25]);
  assert.deepEqual(rows.columns, ["a", "b", "a (column 2)"]);
  assert.equal(rows.find("three"), 2);
  assert.equal(rows.find("3"), 3);
  assert.equal(rows.find("TW"), 1);
  assert.equal(rows.find("a stranger"), -1);
  assert.equal(rows.find("99"), -1);
});
