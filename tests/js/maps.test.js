import assert from "node:assert/strict";
import { test } from "node:test";
import { CAPTION, layOutBubbles } from "../../src/latentbits/explorer/js/map/bubbles.js";
import { groundOf, homeOf, isOn, startOn, steppedOnto } from "../../src/latentbits/explorer/js/map/grounds.js";
import { extentOn } from "../../src/latentbits/explorer/js/map/maps.js";
import { placesOf, placesOfSome } from "../../src/latentbits/explorer/js/map/maths.js";
import { outermost } from "../../src/latentbits/explorer/js/map/outliers.js";
import { Points } from "../../src/latentbits/explorer/js/map/points.js";
import { View } from "../../src/latentbits/explorer/js/map/view.js";
import { Rows } from "../../src/latentbits/explorer/js/page/cells.js";
import { State } from "../../src/latentbits/explorer/js/page/state.js";

const HEAD = {
  table: { columns: ["a", "b", "c"] },
  map: { axes: ["trait 1", "trait 2"], lines: [0] },
  maps: { shares: [0.6, 0.4], places: [], lines: [[1], [2, 0]] },
};
const floats = (/** @type {number[]} */ ...data) => ({ shape: [data.length], data: Float32Array.from(data) });
const ARRAYS = {
  "map.means": floats(9, 9, 8, 8, 7, 7),
  "map.covariances": floats(...Array(9).fill(9)),
  "map.weights": floats(1, 2, 3, 4, 5, 6),
  "map.bias": floats(7, 8, 9),
  "map.cost": floats(1, 2, 3),
  "maps.home": { shape: [3], data: Uint8Array.of(0, 1, 0) },
  "maps.sure": floats(0.9, 0.8, 0.7),
  "maps.means": floats(1, 2, 3, 4, 5, 6),
  "maps.covariances": floats(1, 2, 3, 4, 5, 6, 7, 8, 9),
  "maps.weights": floats(...Array(6).fill(10), 11, 12, 13, 14, 15, 16),
  "maps.bias": floats(0, 0, 0, 21, 22, 23),
  "maps.cost": floats(4, 5, 6),
};
const ROWS = new Rows(HEAD, ARRAYS);

test("each of several maps has its own weights, and the rows that are on it", () => {
  const all = groundOf(ROWS, null);
  assert.equal(all.rows, null);
  assert.equal(all.cost, ARRAYS["map.cost"].data);
  const second = groundOf(ROWS, 1);
  assert.equal(second, groundOf(ROWS, 1)); // made once
  assert.deepEqual(Array.from(second.weights), [11, 12, 13, 14, 15, 16]);
  assert.deepEqual(Array.from(second.bias), [21, 22, 23]);
  assert.equal(second.noise, null);
  assert.deepEqual([...(second.rows ?? [])], [1]);
  assert.deepEqual(startOn(second, 1), { mean: [3, 4], covariance: [4, 5, 6] });
  assert.deepEqual(
    [0, 1, 2].map((row) => [isOn(all, row), isOn(second, row)]),
    [
      [true, false],
      [true, true],
      [true, false],
    ],
  );
});

test("a row is described by its own map once the reader has stepped into one of several", () => {
  const state = new State();
  assert.equal(homeOf(ROWS, state, 1).number, null);
  state.set({ lasso: [0, 0, 1, 1, 1, 0], place: { x: 1, y: 1 }, view: { x: 1, y: 1, zoom: 2 }, picked: 2 });
  state.set(steppedOnto(groundOf(ROWS, 1)));
  assert.equal(homeOf(ROWS, state, 0).number, 0);
  assert.equal(homeOf(ROWS, state, 1).number, 1);
  const { lines, lasso, place, view, picked } = state.choices;
  assert.deepEqual(
    { lines, lasso, place, view, picked },
    { lines: [2, 0], lasso: [], place: null, view: null, picked: 2 },
  );
});

test("places, outliers and the window are those of the rows on the map", () => {
  const points = [5, 5, 0, 0, 1, 1, 0, 0, 99, 99, 2, 0];
  const only = Uint32Array.of(1, 2, 3, 5);
  const { first, start, rows, of } = placesOfSome(points, only);
  assert.deepEqual([...first], [1, 2, 5]);
  assert.deepEqual([...start], [0, 2, 3, 4]);
  assert.deepEqual([...rows], [1, 3, 2, 5]);
  assert.deepEqual(
    [...only].map((row) => of[row]),
    [0, 1, 0, 2],
  );
  assert.ok(of[0] > 3 && of[4] > 3);
  assert.deepEqual([...placesOf(points).rows], [0, 1, 3, 2, 4, 5]);
  assert.ok(!outermost(points, 6, only).includes(4));
  assert.ok(outermost(points, 6).includes(4));
  const [all, some] = [new View(), new View()];
  for (const view of [all, some]) Object.assign(view, { width: 500, height: 400 });
  all.fit(points);
  some.fit(points, only);
  assert.ok(some.home.scale > 20 * all.home.scale);
});

test("a row on another map changes no colour on this one", () => {
  const points = new Points(Float32Array.of(0, 0, 1, 1, 2, 2), ["x", "y"], Uint32Array.of(0, 2));
  const colouring = { title: "", codes: Uint16Array.of(0, 1, 0), colours: ["#000", "#fff"], levels: [], ramp: null };
  points.colour(colouring, new Set(), Uint32Array.of(1));
  assert.ok(points.alphas.every((alpha) => alpha < 0.5));
  points.colour(colouring, new Set(), Uint32Array.of(2));
  assert.deepEqual(
    [...points.alphas].map((alpha) => alpha === 1),
    [false, true],
  );
  assert.equal(points.nSeen(), 2);
});

test("bubbles lie apart, inside the window, where they are wanted, and are as large as their shares", () => {
  for (const [width, height] of [
    [560, 330],
    [340, 300],
  ]) {
    const shares = [0.5, 0.3, 0.2];
    const places = [
      [-0.5, 0],
      [0.5, 0.3],
      [0.4, -0.3],
    ];
    const laid = layOutBubbles(places, shares, width, height);
    assert.ok(laid[0].r > laid[1].r && laid[1].r > laid[2].r);
    assert.ok(laid[0].x < laid[1].x && laid[0].x < laid[2].x && laid[1].y < laid[2].y);
    const areas = laid.map(({ r }) => r * r);
    assert.ok(Math.abs(areas[0] / areas[1] - 0.5 / 0.3) < 1e-6);
    apart(laid, width, height);
  }
});

test("many maps, and maps at one place, still have room", () => {
  for (const many of [1, 2, 6, 12]) {
    const same = Array.from({ length: many }, () => [0, 0]);
    apart(layOutBubbles(same, Array(many).fill(1 / many), 560, 330), 560, 330);
  }
});

/**
 * @param {ReturnType<typeof layOutBubbles>} laid
 * @param {number} width
 * @param {number} height
 */
function apart(laid, width, height) {
  for (const [i, { x, y, r }] of laid.entries()) {
    assert.ok(x - r >= 0 && x + r <= width && y - r >= 0 && y + r + CAPTION <= height);
    for (const other of laid.slice(i + 1)) assert.ok(Math.hypot(other.x - x, other.y - y) > r + other.r);
  }
}

test("a miniature holds all rows of its map", () => {
  const { middle, reach } = extentOn([0, 0, 4, 0, 100, 100], Uint32Array.of(0, 1));
  assert.deepEqual([middle, reach], [[2, 0], 2]);
  assert.equal(extentOn([3, 3], Uint32Array.of(0)).reach, 1);
});
