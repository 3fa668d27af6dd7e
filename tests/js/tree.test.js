import assert from "node:assert/strict";
import { test } from "node:test";

import { beliefs, chances, downward, mostProbable, treesOf } from "../../src/latentbits/explorer/js/causes/treesums.js";

/** Columns 1 and 2 hang from 0, 3 hangs from 1; three states each. */
const parents = [-1, 0, 0, 1];
const k = 3;
let seed = 7;
const random = () => {
  seed = (1103515245 * seed + 12345) % 2147483648;
  return 0.05 + seed / 2147483648;
};

/** @param {number} n @returns {number[]} */
function chancesOf(n) {
  const parts = Array.from({ length: n }, random);
  const total = parts.reduce((a, b) => a + b, 0);
  return parts.map((part) => part / total);
}

const root = chancesOf(k);
const transitions = parents.flatMap((parent) => [0, 1, 2].flatMap(() => (parent < 0 ? root : chancesOf(k))));
const emissions = parents.flatMap(() => [0, 1, 2].map(() => random() / 1.1));
const tree = { parents, order: downward(parents), k, transitions, emissions };

/**
 * All states of all columns, one after the other.
 *
 * @param {number[]} row
 * @param {(states: number[], p: number) => void} visit
 */
function everyState(row, visit) {
  for (let code = 0; code < k ** 4; code++) {
    const z = [0, 1, 2, 3].map((j) => Math.floor(code / k ** j) % k);
    let p = 1;
    z.forEach((t, j) => {
      const above = parents[j] < 0 ? 0 : z[parents[j]];
      p *= transitions[(j * k + above) * k + t];
      if (!Number.isNaN(row[j])) p *= row[j] ? emissions[j * k + t] : 1 - emissions[j * k + t];
    });
    visit(z, p);
  }
}

/** @param {number[]} row */
function probability(row) {
  let total = 0;
  everyState(row, (_, p) => {
    total += p;
  });
  return total;
}

test("columns come after those they hang from", () => {
  assert.deepEqual(downward([2, -1, 1, 2]), [1, 2, 0, 3]);
});

test("states of a row are those that all sums give", () => {
  for (const row of [
    [1, 0, 1, 1],
    [Number.NaN, 1, 0, Number.NaN],
  ]) {
    const found = beliefs(tree, { row });
    const wanted = new Float64Array(12);
    const total = probability(row);
    everyState(row, (z, p) => {
      z.forEach((t, j) => {
        wanted[j * k + t] += p / total;
      });
    });
    wanted.forEach((value, i) => {
      assert.ok(Math.abs(value - found.states[i]) < 1e-12);
    });
    assert.ok(Math.abs(found.logP - Math.log(total)) < 1e-12);
    row.forEach((bit, j) => {
      const without = probability(row.map((other, i) => (i === j ? Number.NaN : other)));
      if (Number.isNaN(bit)) assert.ok(Number.isNaN(found.unlike[j]));
      else assert.ok(Math.abs(found.unlike[j] - total / without) < 1e-12);
    });
  }
});

test("a known state tells what other columns do", () => {
  const found = chances(tree, beliefs(tree, { fixed: { column: 3, state: 1 } }).states);
  let [total, on] = [0, 0];
  everyState(Array(4).fill(Number.NaN), (z, p) => {
    if (z[3] !== 1) return;
    total += p;
    on += p * emissions[2 * k + z[2]];
  });
  assert.ok(Math.abs(found[2] - on / total) < 1e-6);
  assert.ok(Math.abs(found[3] - emissions[3 * k + 1]) < 1e-6);
});

test("bits that are the states are known, and missing ones follow their neighbours", () => {
  const bits = {
    parents: [-1, 0],
    order: [0, 1],
    k: 2,
    transitions: [0.4, 0.6, 0.4, 0.6, 0.9, 0.1, 0.2, 0.8],
    emissions: [0, 1, 0, 1],
  };
  const found = beliefs(bits, { row: [1, Number.NaN] });
  assert.deepEqual(
    [...found.states].map((p) => Math.round(1000 * p)),
    [0, 1000, 200, 800],
  );
  assert.deepEqual(mostProbable(bits, found.states)[1].state, 1);
  assert.equal(Math.round(1000 * beliefs(bits, { row: [1, 0] }).unlike[1]), 200);
});

test("a row is of the tree that makes it likely", () => {
  const other = { ...tree, emissions: tree.emissions.map((p) => 1 - p) };
  const row = [1, 0, 1, 1];
  const [a, b] = [beliefs(tree, { row }).logP, beliefs(other, { row }).logP];
  const [first] = treesOf([tree, other], [0.25, 0.75], row);
  assert.ok(Math.abs(first - 1 / (1 + 3 * Math.exp(b - a))) < 1e-12);
});
