import assert from "node:assert/strict";
import { test } from "node:test";
import { sigmoid } from "../../src/latentbits/explorer/js/map/maths.js";
import { completed, storyOf, twoTails } from "../../src/latentbits/explorer/js/row/posterior.js";

const WEIGHTS = [1.5, -2, 0.3, 2.5, -1, 0.5, 1, -1.8, 0.4, 2.2]; // (2, 5)
const BIAS = [0.2, -0.5, 1, 0, -1.2];
const MODEL = { weights: WEIGHTS, bias: BIAS, noise: null };

/**
 * Sums over a fine grid of the whole plane: slow and sure.
 *
 * @param {number[]} cells
 */
function bySums(cells) {
  const sums = { total: 0, mean: [0, 0], on: BIAS.map(() => 0) };
  for (let x = -6; x <= 6; x += 0.04) {
    for (let y = -6; y <= 6; y += 0.04) {
      const p = BIAS.map((b, j) => sigmoid(b + x * WEIGHTS[j] + y * WEIGHTS[5 + j]));
      let weight = Math.exp(-(x * x + y * y) / 2);
      cells.forEach((cell, j) => {
        if (!Number.isNaN(cell)) weight *= cell ? p[j] : 1 - p[j];
      });
      sums.total += weight;
      sums.mean[0] += weight * x;
      sums.mean[1] += weight * y;
      p.forEach((value, j) => {
        sums.on[j] += weight * value;
      });
    }
  }
  return { mean: sums.mean.map((m) => m / sums.total), on: sums.on.map((p) => p / sums.total) };
}

/** @param {number} a @param {number} b @param {number} within */
function near(a, b, within) {
  assert.ok(Math.abs(a - b) < within, `${a} is not ${b}`);
}

test("each bit is predicted from the others, and holes from all", () => {
  const cells = [1, 0, Number.NaN, 0, 1];
  const story = storyOf(MODEL, cells, { mean: [0, 0], covariance: [1, 1, 0] });
  const exact = bySums(cells);
  near(story.place.mean[0], exact.mean[0], 1e-3);
  near(story.place.mean[1], exact.mean[1], 1e-3);
  near(story.predicted[2], exact.on[2], 1e-4);
  assert.ok(Number.isNaN(story.surprise[2]));
  for (const j of [0, 1, 3, 4]) {
    const without = cells.map((cell, k) => (k === j ? Number.NaN : cell));
    const { on } = bySums(without);
    near(story.predicted[j], on[j], 2e-3);
    near(story.surprise[j], cells[j] ? on[j] : 1 - on[j], 2e-3);
  }
  const filled = completed(MODEL, cells, story.place);
  near(filled[2], exact.on[2], 1e-4);
  assert.deepEqual([filled[0], filled[1], filled[3], filled[4]], [1, 0, 0, 1]);
});

test("a grid laid in the wrong place finds the row", () => {
  const cells = [1, 0, 1, 1, 0];
  const right = storyOf(MODEL, cells, { mean: [0, 0], covariance: [1, 1, 0] });
  const wrong = storyOf(MODEL, cells, { mean: [2, -1.5], covariance: [0.4, 0.5, 0.2] });
  near(wrong.place.mean[0], right.place.mean[0], 5e-3);
  near(wrong.place.covariance[2], right.place.covariance[2], 5e-3);
});

test("real numbers: a column is predicted from the others by least squares with a prior", () => {
  const weights = [1, 2, 0, 0.5, 0, 1]; // (2, 3)
  const model = { weights, bias: [0, 1, -1], noise: [0.5, 1, 2] };
  const cells = [1, Number.NaN, 3];
  const { predicted, sds, surprise } = storyOf(model, cells, { mean: [0, 0], covariance: [1, 1, 0] });
  // column 0 given column 2 alone: y = 4 / 3 from 4 = y + noise of 2, x is not known
  near(predicted[0], 0.5 * (4 / 3), 1e-12);
  near(sds?.[0] ?? 0, Math.sqrt(0.5 + 1 + 0.25 * (2 / 3)), 1e-12);
  near(surprise[0], twoTails((1 - predicted[0]) / (sds?.[0] ?? 1)), 1e-12);
  assert.ok(Number.isNaN(surprise[1]));
  assert.deepEqual([...completed(model, cells, { mean: [0, 0], covariance: [1, 1, 0] })], [1, predicted[1], 3]);
});

test("tails of the Gaussian", () => {
  near(twoTails(0), 1, 1e-6);
  near(twoTails(-1.959964), 0.05, 1e-6);
  near(twoTails(3), 0.0026998, 1e-6);
});
