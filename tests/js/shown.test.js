import assert from "node:assert/strict";
import { test } from "node:test";
import { histogram, labelCounts, lowest, onWords, rowsWithIt } from "../../src/latentbits/explorer/js/causes/cards.js";
import { bestFirst, causesBy, nextTab } from "../../src/latentbits/explorer/js/causes/causes.js";
import { logTicks, niceTicks, scaleOf, spreadApart } from "../../src/latentbits/explorer/js/page/axes.js";
import { Rows } from "../../src/latentbits/explorer/js/page/cells.js";
import { nearestRows } from "../../src/latentbits/explorer/js/page/chooser.js";
import { csvText, fileName } from "../../src/latentbits/explorer/js/page/downloads.js";
import { between, bySize, shortNumber } from "../../src/latentbits/explorer/js/page/images.js";
import { editsBetween, nearestNames } from "../../src/latentbits/explorer/js/page/nearest.js";
import { sortedOrder } from "../../src/latentbits/explorer/js/page/tables.js";

test("cells are quoted, formulas are text, numbers stay numbers", () => {
  const rows = [
    ["name", "x"],
    ['a,"b"\nc', -1.5],
    ["=1+1", Number.NaN],
    ["-2", null],
    ["@sum", 0],
    ["\tx", 1e-9],
    ["+a\rb", 1],
  ];
  assert.equal(
    csvText(rows),
    'name,x\r\n"a,""b""\nc",-1.5\r\n\'=1+1,\r\n-2,\r\n\'@sum,0\r\n\'\tx,1e-9\r\n"\'+a\rb",1\r\n',
  );
});

test("names of files hold letters and digits", () => {
  assert.equal(fileName("../<House> votes", "Größe 2", "csv"), "house-votes-größe-2.csv");
  assert.equal(fileName("///", "png"), "latentbits.png");
});

test("ticks are round and within", () => {
  assert.deepEqual(niceTicks(-1.3, 9.7), [0, 5]);
  assert.deepEqual(niceTicks(0, 10), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(niceTicks(0.11, 0.29), [0.15, 0.2, 0.25]);
  assert.deepEqual(niceTicks(3, 3), [3]);
  assert.deepEqual(logTicks(1, 900), [1, 10, 100]);
  assert.deepEqual(logTicks(2, 16), [2, 4, 8, 16]);
});

test("scales and labels", () => {
  assert.equal(scaleOf([1, 100], [0, 10], true)(10), 5);
  assert.equal(scaleOf([0, 4], [100, 0])(1), 75);
  assert.deepEqual(spreadApart([50, 52, 10], 10, 60), [50, 60, 10]);
});

test("sorting is stable, and what is no number comes last", () => {
  assert.deepEqual(sortedOrder([2, Number.NaN, 1, 2], false), [2, 0, 3, 1]);
  assert.deepEqual(sortedOrder([2, Number.NaN, 1, 2], true), [0, 3, 2, 1]);
  assert.deepEqual(sortedOrder(["b 10", "b 9", "a"], false), [2, 1, 0]);
});

test("orders of causes, tabs and rows", () => {
  assert.deepEqual(causesBy("usage", [0.1, 0.5, 0.1]), [1, 0, 2]);
  assert.deepEqual(causesBy("number", [0.1, 0.5, 0.1]), [0, 1, 2]);
  const names = bestFirst([{ name: "x" }, { name: "b" }, { name: "a" }], [{ name: "a" }, { name: "b" }]);
  assert.deepEqual(
    names.map(({ name }) => name),
    ["a", "b", "x"],
  );
  const warned = bestFirst([{ name: "b" }, { name: "a", note: "it had not converged" }], [{ name: "a" }]);
  assert.equal(warned[0].name, "b");
  assert.deepEqual(
    [nextTab("ArrowRight", 2, 3), nextTab("ArrowLeft", 0, 3), nextTab("End", 0, 3), nextTab("a", 0, 3)],
    [0, 2, 2, null],
  );
  assert.deepEqual(lowest({ shape: [3, 2], data: Float32Array.from([0, 5, 0, 1, 0, 3]) }, 1, 2), [1, 2]);
  assert.deepEqual(bySize([1, -3, 3, 0]), [1, 2, 0, 3]);
});

test("rows are found by number and by name", () => {
  const table = { row_names: ["Ada", "adam", "7"], columns: [], n_shown: 3 };
  const arrays = { "rows.numbers": { shape: [3], data: Uint32Array.from([7, 40, 50]) } };
  const rows = new Rows({ table }, arrays);
  assert.equal(rows.find("ADAM"), 1);
  assert.equal(rows.find("7"), 2); // its name, before anyone's number
  assert.equal(rows.find("row 40"), 1);
  assert.equal(rows.find("ad"), 0);
  assert.equal(rows.find("50", 2), -1); // beyond those that may be chosen
});

test("numbers, counts and colours", () => {
  assert.deepEqual(
    [-1.234, 12.34, 123.4, 0.0004, Number.NaN].map((x) => shortNumber(x)),
    ["−1.23", "12.3", "123", "4e−4", "–"],
  );
  assert.equal(labelCounts(["b", "a", "a", ""]), "a (2), b (1)");
  assert.deepEqual(histogram(Float32Array.from([0, 0.4, 0.6, 1]), 2).counts, [2, 2]);
  assert.deepEqual(
    between(
      [
        [0, 0, 0],
        [100, 0, 0],
        [200, 50, 0],
      ],
      0.75,
    ),
    [150, 25, 0],
  );
});

test("a cause is shown in rows that more likely have it than not, and they are counted", () => {
  const active = { shape: [4, 2], data: Float32Array.from([0.9, 0, 0.5, 0.51, 0, 0, 0.7, 1]) };
  assert.deepEqual(rowsWithIt(active, 0), [0, 3]);
  assert.deepEqual(rowsWithIt(active, 1), [1, 3]);
  assert.equal(onWords(0, 1200), "P > ½ in none of the 1,200 rows looked at");
  assert.equal(onWords(5, 60), "P > ½ in 5 of 60 rows looked at");
  assert.equal(onWords(1500, 4000), "P > ½ in 1,500 of 4,000 rows looked at");
});

test("where no row is called so, the nearest are found", () => {
  assert.equal(editsBetween("kitten", "sitting"), 3);
  assert.equal(editsBetween("", "abc"), 3);
  const names = ["Berlin, East", "Bern", "Vienna", "San Marino"];
  assert.deepEqual(nearestNames("bren", names, 2), [1]);
  assert.deepEqual(nearestNames("merino", names, 1), [3]);
  assert.deepEqual(nearestNames("er", names, 9), [1, 0]); // within both; the shorter first
  assert.deepEqual(nearestNames("zzz", names, 2), []);
  const arrays = { "rows.numbers": { shape: [4], data: Uint32Array.from([3, 40, 44, 90]) } };
  const called = (/** @type {string[] | null} */ names) =>
    new Rows({ table: { row_names: names, columns: [] } }, arrays);
  assert.deepEqual(nearestRows("row 43", called(names), 4), [2, 1, 0, 3]);
  assert.deepEqual(nearestRows("bern ", called(null), 4), []);
});
