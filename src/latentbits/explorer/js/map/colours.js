/** Which colour each row of the map has, and what the legend says of it. */
import { bitAt } from "../page/arrays.js";
import { between, rgbOf } from "../page/images.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {Ground} from "./grounds.js" */

/** @typedef {{name: string, colour: string, count: number}} Level */
/**
 * @typedef {object} Ramp
 * @property {number} low
 * @property {number} high
 * @property {boolean} beyond whether rows are above it
 * @property {number} unknown rows that have no number
 */
/**
 * @typedef {object} Colouring
 * @property {string} title what the colours tell
 * @property {Uint16Array} codes of each row
 * @property {string[]} colours of each code
 * @property {Level[]} levels one a code, where codes are kinds; else none
 * @property {Ramp | null} ramp where colours are a scale
 */

/* The order of the static figures' palette; the dark ones are the same hues, light enough for a dark ground. */
const LIGHT_PALETTE =
  "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #22303c #6a3d9a #8c510a #9aa51e #b2182b #5b7f95".split(" ");
const DARK_PALETTE =
  "#3f9ade #f0803c #1ec092 #e09ac2 #efb02e #93d2f6 #e3e9ee #ab8be0 #c98f52 #c4ce4c #f2747f #8fb3c7".split(" ");
const RAMP = ["#3a6fb5", "#6f9bb8", "#b9a76b", "#e08a26", "#c2352b"];
const RAMP_STEPS = 64;
const OTHERS = { light: "#a3adb5", dark: "#6f7c87" };
const UNKNOWN = { light: "#c9d0d6", dark: "#4a5762" };
const ON = { light: "#0072b2", dark: "#4da8e8" };
const OFF = { light: "#b3bcc4", dark: "#5d6b76" };
const HOLE = { light: "#e69f00", dark: "#efb02e" };

/**
 * Which kinds have a colour of their own: all while there are twelve; of more, the twelve commonest, in their order.
 * @param {ArrayLike<number>} counts of each kind
 * @returns {number[]}
 */
export function commonest(counts) {
  const order = Array.from(counts, (_, i) => i).sort((a, b) => counts[b] - counts[a] || a - b);
  return order.slice(0, LIGHT_PALETTE.length).sort((a, b) => a - b);
}

/** A colour of the scale, from little (blue) to much (red). @param {number} t from 0 to 1 */
export function rampColour(t) {
  const mixed = between(RAMP.map(rgbOf), t);
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * The colours of all rows for a choice of State, "label:0", "bit:3", "cost" or "none"; the legend counts those on the map.
 * @param {Rows} rows @param {string} choice @param {boolean} dark @param {Ground} ground @returns {Colouring}
 */
export function colouringOf(rows, choice, dark, ground) {
  const whole = ofAll(rows, choice, dark, ground.cost);
  return ground.rows ? countedOn(whole, ground.rows) : whole;
}

/** @param {Colouring} colouring of all rows @param {Uint32Array} rows that count @returns {Colouring} */
export function countedOn(colouring, rows) {
  const { codes, colours, levels, ramp } = colouring;
  const own = Uint16Array.from(rows, (row) => codes[row]);
  const counts = countsOf(own, colours.length);
  return {
    ...colouring,
    levels: levels.map((level, code) => ({ ...level, count: counts[code] })),
    ramp: ramp && { ...ramp, unknown: counts[RAMP_STEPS] },
  };
}

/** @param {Rows} rows @param {string} choice @param {boolean} dark @param {Float32Array} cost @returns {Colouring} */
function ofAll(rows, choice, dark, cost) {
  const [kind, which] = choice.split(":");
  const shade = dark ? "dark" : "light";
  if (kind === "label") return byLabel(rows, Number(which), dark);
  if (kind === "bit" && rows.real) {
    const column = Number(which);
    const values = Float32Array.from({ length: rows.n }, (_, i) => rows.at(i, column));
    return byNumber(rows.columns[column], values, dark);
  }
  if (kind === "bit") return byBit(rows, Number(which), shade);
  if (kind === "cost") return byNumber("surprise, −log₂ p(row), in bits", cost, dark);
  return {
    title: "",
    codes: new Uint16Array(rows.n),
    colours: [dark ? DARK_PALETTE[0] : LIGHT_PALETTE[0]],
    levels: [],
    ramp: null,
  };
}

/** @param {Rows} rows @param {number} which @param {boolean} dark @returns {Colouring} */
function byLabel(rows, which, dark) {
  const { name, levels, numeric, ordered } = rows.table.labels[which];
  const given = rows.arrays[`labels.${which}`].data;
  if (numeric) return byNumber(name, /** @type {Float32Array} */ (given), dark);
  const known = new Uint16Array(rows.n);
  for (let i = 0; i < rows.n; i++) known[i] = Math.min(given[i], levels.length);
  const own = commonest(countsOf(known, levels.length + 1).subarray(0, levels.length));
  // a colour for each common kind, one for all others, and not known
  const others = levels.length - own.length;
  const [other, unknown] = [own.length, own.length + Number(others > 0)];
  const codeOf = new Uint16Array(levels.length + 1).fill(other);
  for (const [code, level] of own.entries()) codeOf[level] = code;
  codeOf[levels.length] = unknown;
  const codes = known.map((level) => codeOf[level]);
  const palette = dark ? DARK_PALETTE : LIGHT_PALETTE;
  const shade = dark ? "dark" : "light";
  const colours = palette.slice(0, own.length).map((one, k) => (ordered ? rampColour(k / (own.length - 1)) : one));
  const names = own.map((level) => levels[level]);
  if (others) {
    colours.push(OTHERS[shade]);
    names.push(`${others.toLocaleString("en")} other ${others > 1 ? "kinds" : "kind"}`);
  }
  return levelled(name, codes, [...colours, UNKNOWN[shade]], [...names, "not known"], countsOf(codes, unknown + 1));
}

/** @param {Rows} rows @param {number} column @param {"light" | "dark"} shade @returns {Colouring} */
function byBit(rows, column, shade) {
  const codes = new Uint16Array(rows.n);
  for (let i = 0; i < rows.n; i++) codes[i] = rows.isMissing(i, column) ? 2 : bitAt(rows.values, i, column);
  const counts = countsOf(codes, 3);
  return levelled(rows.columns[column], codes, [OFF[shade], ON[shade], HOLE[shade]], ["0", "1", "missing"], counts);
}

/**
 * The last level is left out where no row is of it.
 * @param {string} title @param {Uint16Array} codes @param {string[]} colours @param {string[]} names
 * @param {Uint32Array} counts @returns {Colouring}
 */
function levelled(title, codes, colours, names, counts) {
  const levels = names.map((name, k) => ({ name, colour: colours[k], count: counts[k] }));
  if (levels[levels.length - 1].count === 0) levels.pop();
  return { title, codes, colours, levels, ramp: null };
}

/**
 * A scale between the 1st and the 99th of a hundred, lest one odd row take all colours.
 * @param {string} title
 * @param {Float32Array} values NaN where there is none: grey
 * @param {boolean} dark @returns {Colouring}
 */
function byNumber(title, values, dark) {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort();
  const low = sorted[Math.floor(0.01 * (sorted.length - 1))] ?? 0;
  const high = sorted[Math.ceil(0.99 * (sorted.length - 1))] ?? 1;
  const scale = high > low ? (RAMP_STEPS - 1) / (high - low) : 0;
  const codes = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const step = Math.min(Math.max(Math.round((values[i] - low) * scale), 0), RAMP_STEPS - 1);
    codes[i] = Number.isNaN(step) ? RAMP_STEPS : step;
  }
  const colours = Array.from({ length: RAMP_STEPS }, (_, k) => rampColour(k / (RAMP_STEPS - 1)));
  const ramp = { low, high, beyond: sorted[sorted.length - 1] > high, unknown: values.length - sorted.length };
  return { title, codes, colours: [...colours, dark ? UNKNOWN.dark : UNKNOWN.light], levels: [], ramp };
}

/** @param {Uint16Array} codes @param {number} most */
function countsOf(codes, most) {
  const counts = new Uint32Array(most);
  for (const code of codes) counts[code]++;
  return counts;
}
