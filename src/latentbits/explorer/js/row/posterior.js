/** What a row says of its place on the map, and what the place says of the row: sums over a grid of places. */
import { sigmoid } from "../map/maths.js";

/** @typedef {{weights: ArrayLike<number>, bias: ArrayLike<number>, noise: ArrayLike<number> | null}} Model of the map */
/** @typedef {{mean: number[], covariance: number[]}} Gaussian mean x, y; covariance xx, yy, xy */
/**
 * @typedef {object} RowStory
 * @property {Gaussian} place of the row
 * @property {Float64Array} predicted P(bit = 1), or the mean, of each column given the OTHER columns of the row
 * @property {Float64Array} surprise P(observed bit | others); of real columns the chance of being at least as far off;
 *   NaN where missing
 * @property {Float64Array | null} sds of real columns: standard deviations of `predicted`
 */

const SIDE = 25; // places along each axis
const REACH_SDS = 5;
const STEEPEST = 80; // of an exponent

/**
 * @param {Model} model
 * @param {ArrayLike<number>} cells of the row, NaN where missing
 * @param {Gaussian} start about where it is
 * @returns {RowStory}
 */
export function storyOf(model, cells, start) {
  return model.noise ? storyOfNumbers(model, model.noise, cells) : storyOfBits(model, cells, start);
}

/**
 * The grid is laid twice: around where the row is thought to be, and around where the first grid found it.
 * @param {Model} model @param {ArrayLike<number>} cells @param {Gaussian} start @returns {RowStory}
 */
function storyOfBits(model, cells, start) {
  const first = onGrid(model, cells, start);
  const { places, chances, place } = onGrid(model, cells, first.place);
  const d = cells.length;
  const predicted = new Float64Array(d);
  const surprise = new Float64Array(d).fill(Number.NaN);
  for (let j = 0; j < d; j++) {
    const [u, v, c] = [model.weights[j], model.weights[d + j], model.bias[j]];
    const hole = Number.isNaN(cells[j]);
    const sign = cells[j] > 0.5 ? -1 : 1;
    let sum = 0;
    for (let g = 0; g < chances.length; g++) {
      const a = u * places[2 * g] + v * places[2 * g + 1] + c;
      // Without bit j the chance of a place is p(place | row) / p(bit j | place), but for a factor.
      sum += chances[g] * (hole ? sigmoid(a) : 1 + Math.exp(Math.min(sign * a, STEEPEST)));
    }
    if (!hole) surprise[j] = 1 / sum;
    predicted[j] = hole ? sum : cells[j] > 0.5 ? surprise[j] : 1 - surprise[j];
  }
  return { place, predicted, surprise, sds: null };
}

/**
 * The row with its holes filled: chances of bits, means of real columns; what was observed is kept.
 * @param {Model} model @param {ArrayLike<number>} cells
 * @param {Gaussian} start where it is
 */
export function completed(model, cells, start) {
  const d = cells.length;
  const filled = Float64Array.from(cells);
  if (model.noise) {
    const { predicted } = storyOfNumbers(model, model.noise, cells);
    return filled.map((value, j) => (Number.isNaN(value) ? predicted[j] : value));
  }
  const { places, chances } = onGrid(model, cells, start);
  for (let j = 0; j < d; j++) {
    if (!Number.isNaN(filled[j])) continue;
    const [u, v, c] = [model.weights[j], model.weights[d + j], model.bias[j]];
    filled[j] = 0;
    for (let g = 0; g < chances.length; g++) {
      filled[j] += chances[g] * sigmoid(u * places[2 * g] + v * places[2 * g + 1] + c);
    }
  }
  return filled;
}

/**
 * Chances of places around `about`, given the bits of a row; the prior is a standard Gaussian.
 * @param {Model} model @param {ArrayLike<number>} cells @param {Gaussian} about
 */
function onGrid(model, cells, about) {
  const places = gridAround(about);
  const many = places.length / 2;
  const d = cells.length;
  const chances = new Float64Array(many);
  for (let g = 0; g < many; g++) chances[g] = -(places[2 * g] ** 2 + places[2 * g + 1] ** 2) / 2;
  for (let j = 0; j < d; j++) {
    if (Number.isNaN(cells[j])) continue;
    const sign = cells[j] > 0.5 ? -1 : 1;
    const [u, v, c] = [sign * model.weights[j], sign * model.weights[d + j], sign * model.bias[j]];
    for (let g = 0; g < many; g++) {
      const a = u * places[2 * g] + v * places[2 * g + 1] + c;
      chances[g] -= a > STEEPEST ? a : Math.log1p(Math.exp(a));
    }
  }
  let most = Number.NEGATIVE_INFINITY;
  for (const value of chances) most = Math.max(most, value);
  let total = 0;
  for (let g = 0; g < many; g++) {
    chances[g] = Math.exp(chances[g] - most);
    total += chances[g];
  }
  for (let g = 0; g < many; g++) chances[g] /= total;
  return { places, chances, place: momentsOf(places, chances) };
}

/** A square grid, stretched along the ellipse of a Gaussian: x and y by turns. @param {Gaussian} gaussian */
function gridAround({ mean, covariance: [xx, yy, xy] }) {
  // a triangle whose square is the covariance
  const a = Math.sqrt(Math.max(xx, 1e-8));
  const b = xy / a;
  const c = Math.sqrt(Math.max(yy - b * b, 1e-8));
  const places = new Float64Array(2 * SIDE * SIDE);
  const step = (2 * REACH_SDS) / (SIDE - 1);
  for (let i = 0, g = 0; i < SIDE; i++) {
    for (let k = 0; k < SIDE; k++, g++) {
      const [s, t] = [i * step - REACH_SDS, k * step - REACH_SDS];
      places[2 * g] = mean[0] + a * s;
      places[2 * g + 1] = mean[1] + b * s + c * t;
    }
  }
  return places;
}

/** @param {Float64Array} places @param {Float64Array} chances @returns {Gaussian} */
function momentsOf(places, chances) {
  const mean = [0, 0];
  for (let g = 0; g < chances.length; g++) {
    mean[0] += chances[g] * places[2 * g];
    mean[1] += chances[g] * places[2 * g + 1];
  }
  const covariance = [0, 0, 0];
  for (let g = 0; g < chances.length; g++) {
    const [x, y] = [places[2 * g] - mean[0], places[2 * g + 1] - mean[1]];
    covariance[0] += chances[g] * x * x;
    covariance[1] += chances[g] * y * y;
    covariance[2] += chances[g] * x * y;
  }
  return { mean, covariance };
}

/**
 * Of real columns everything is Gaussian, and known without a grid.
 * @param {Model} model @param {ArrayLike<number>} noise @param {ArrayLike<number>} cells @returns {RowStory}
 */
function storyOfNumbers({ weights, bias }, noise, cells) {
  const d = cells.length;
  // precision xx, yy, xy of the place, and precision times mean
  const sums = [1, 1, 0, 0, 0];
  /** @param {number} j @param {number} sign */
  const parts = (j, sign) => {
    const [u, v, r] = [weights[j], weights[d + j], (sign * 1) / noise[j]];
    const off = cells[j] - bias[j];
    return [r * u * u, r * v * v, r * u * v, r * u * off, r * v * off];
  };
  for (let j = 0; j < d; j++) {
    if (!Number.isNaN(cells[j])) for (const [k, value] of parts(j, 1).entries()) sums[k] += value;
  }
  const predicted = new Float64Array(d);
  const surprise = new Float64Array(d).fill(Number.NaN);
  const sds = new Float64Array(d);
  for (let j = 0; j < d; j++) {
    const own = Number.isNaN(cells[j]) ? sums : parts(j, -1).map((value, k) => sums[k] + value);
    const { mean, covariance } = gaussianOf(own);
    const [u, v] = [weights[j], weights[d + j]];
    predicted[j] = mean[0] * u + mean[1] * v + bias[j];
    sds[j] = Math.sqrt(noise[j] + covariance[0] * u * u + covariance[1] * v * v + 2 * covariance[2] * u * v);
    if (!Number.isNaN(cells[j])) surprise[j] = twoTails((cells[j] - predicted[j]) / sds[j]);
  }
  return { place: gaussianOf(sums), predicted, surprise, sds };
}

/** @param {number[]} sums precision xx, yy, xy, and precision times mean @returns {Gaussian} */
function gaussianOf([xx, yy, xy, hx, hy]) {
  const size = xx * yy - xy * xy;
  const covariance = [yy / size, xx / size, -xy / size];
  return {
    mean: [covariance[0] * hx + covariance[2] * hy, covariance[2] * hx + covariance[1] * hy],
    covariance,
  };
}

/**
 * The chance that a standard Gaussian is at least as far from 0 as z, to 2e-7 (Abramowitz and Stegun 7.1.26).
 * @param {number} z
 */
export function twoTails(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const factors = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  return factors.reduce((sum, factor) => (sum + factor) * t, 0) * Math.exp(-x * x);
}
