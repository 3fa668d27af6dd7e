/** What the rows are drawn on: the one map of all rows, or one of several, on which some of them are. */

/** @import {Rows} from "../page/cells.js" */
/** @import {Choices, State} from "../page/state.js" */
/** @import {Gaussian} from "../row/posterior.js" */

/**
 * @typedef {object} Ground
 * @property {number | null} number of the map, from 0; null for the map of all rows
 * @property {Float32Array} means places of all rows, x and y by turns
 * @property {ArrayLike<number> & {subarray: Function}} covariances three a row
 * @property {ArrayLike<number>} weights (2, d)
 * @property {ArrayLike<number>} bias
 * @property {ArrayLike<number> | null} noise of real columns
 * @property {Float32Array} cost of each row, in bits, under the model
 * @property {[string, string]} axes what is written at them
 * @property {number[]} lines columns whose lines are drawn at first
 * @property {Uint32Array | null} rows that are on it, ascending; null for all
 * @property {ArrayLike<number> | null} homes of each row the number of its map
 * @property {ArrayLike<number> | null} sure the probability that a row is on its map
 */

/** @type {WeakMap<object, Map<number | null, Ground>>} */
const groundsOfPages = new WeakMap();

/**
 * A map of the page; made once.
 * @param {Rows} rows
 * @param {number | null} number from 0; null for the map of all rows
 * @returns {Ground}
 */
export function groundOf(rows, number) {
  const known = groundsOfPages.get(rows) ?? new Map();
  groundsOfPages.set(rows, known);
  const ground = known.get(number) ?? (number === null ? ofAllRows(rows) : oneOfSeveral(rows, number));
  known.set(number, ground);
  return ground;
}

/** @param {Rows} rows @returns {Ground} */
function ofAllRows({ head, arrays }) {
  return {
    number: null,
    means: /** @type {Float32Array} */ (arrays["map.means"].data),
    covariances: arrays["map.covariances"].data,
    weights: arrays["map.weights"].data,
    bias: arrays["map.bias"].data,
    noise: arrays["map.noise"]?.data ?? null,
    cost: /** @type {Float32Array} */ (arrays["map.cost"].data),
    axes: head.map.axes,
    lines: head.map.lines,
    rows: null,
    homes: null,
    sure: null,
  };
}

/** @param {Rows} rows @param {number} number @returns {Ground} */
function oneOfSeveral({ head, arrays, d }, number) {
  const homes = arrays["maps.home"].data;
  const own = (/** @type {string} */ name, /** @type {number} */ size) =>
    arrays[name]?.data.subarray(number * size, (number + 1) * size) ?? null;
  return {
    number,
    means: /** @type {Float32Array} */ (arrays["maps.means"].data),
    covariances: arrays["maps.covariances"].data,
    weights: own("maps.weights", 2 * d),
    bias: own("maps.bias", d),
    noise: own("maps.noise", d),
    cost: /** @type {Float32Array} */ (arrays["maps.cost"].data),
    axes: [`trait 1 of map ${number + 1}`, `trait 2 of map ${number + 1}`],
    lines: head.maps.lines[number],
    rows: Uint32Array.from(homes.keys()).filter((row) => homes[row] === number),
    homes,
    sure: arrays["maps.sure"].data,
  };
}

/** Whether a row is on a map. @param {Ground} ground @param {number} row */
export function isOn({ homes, number }, row) {
  return homes === null || homes[row] === number;
}

/**
 * The map that is asked about a row: its own of several, where the reader has stepped into one of these, else that of all rows.
 * @param {Rows} rows @param {State} state @param {number} row
 */
export function homeOf(rows, state, row) {
  return groundOf(rows, state.choices.map === null ? null : rows.arrays["maps.home"].data[row]);
}

/** Where the page says a row is. @param {Ground} ground @param {number} row @returns {Gaussian} */
export function startOn(ground, row) {
  return {
    mean: [...ground.means.subarray(2 * row, 2 * row + 2)],
    covariance: [...ground.covariances.subarray(3 * row, 3 * row + 3)],
  };
}

/**
 * What changes as the reader steps into a map, or back (null): the place, the lasso and the lines are of the map before.
 * @param {Ground} ground @returns {Partial<Choices>}
 */
export function steppedOnto({ number, lines }) {
  return { map: number, lines, lasso: [], place: null, hovered: null, view: null };
}
