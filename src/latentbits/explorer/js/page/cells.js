/** The rows of the table as the page holds them: cells, names, labels, shares. */
import { bitAt } from "./arrays.js";
import { lettersOf } from "./dom.js";

/** @import {Arrays} from "./arrays.js" */

/** @typedef {{name: string, levels: string[], numeric: boolean, ordered?: boolean}} Label */

const NO_LABEL = 65535;

/** What parts of the page ask of the table, found once and remembered. */
export class Rows {
  /** @param {any} head @param {Arrays} arrays */
  constructor(head, arrays) {
    this.head = head;
    this.table = head.table;
    this.arrays = arrays;
    this.values = arrays["rows.values"];
    this.missing = arrays["rows.missing"];
    /** @type {ArrayLike<number> | undefined} */
    this.weights = arrays["rows.weights"]?.data;
    /** @type {number} */
    this.n = head.table.n_shown;
    /** @type {number} */
    this.d = head.table.columns.length;
    /** @type {boolean} */
    this.real = head.table.real;
    this.columns = namesApart(head.table.columns);
    /** @type {Map<string, number>} */
    this.columnOf = new Map(this.columns.map((name, j) => [name, j]));
    /** @type {{sums: Float64Array, squares: Float64Array, counts: Float64Array} | null} */
    this.total = null;
  }

  /** @param {number} i @param {number} j */
  isMissing(i, j) {
    return this.missing !== undefined && bitAt(this.missing, i, j) === 1;
  }

  /** A bit or a number; NaN where missing. @param {number} i @param {number} j */
  at(i, j) {
    if (this.isMissing(i, j)) return NaN;
    return this.real ? this.values.data[i * this.d + j] : bitAt(this.values, i, j);
  }

  /** @param {number} i */
  cells(i) {
    return Float64Array.from({ length: this.d }, (_, j) => this.at(i, j));
  }

  /** Its number in the user's table, from 0. @param {number} i */
  number(i) {
    return this.arrays["rows.numbers"]?.data[i] ?? i;
  }

  /** @param {number} i @returns {string} */
  name(i) {
    return this.table.row_names?.[i] ?? `row ${this.number(i)}`;
  }

  /** @param {number} i @returns {Array<[string, string]>} names of labels, and what they say of this row */
  labels(i) {
    return this.table.labels.map((/** @type {Label} */ label, /** @type {number} */ k) => {
      const code = this.arrays[`labels.${k}`].data[i];
      if (label.numeric) return [label.name, Number.isNaN(code) ? "not known" : String(Number(code.toPrecision(7)))];
      return [label.name, code === NO_LABEL ? "not known" : label.levels[code]];
    });
  }

  /**
   * Sums over rows, by their weights, of what is there: of each column its sum, its sum of squares, and how many.
   * @param {Uint32Array | null} rows all where null
   */
  sums(rows) {
    const { d, n } = this;
    const sums = new Float64Array(d);
    const squares = new Float64Array(d);
    const counts = new Float64Array(d);
    const many = rows ? rows.length : n;
    for (let k = 0; k < many; k++) {
      const i = rows ? rows[k] : k;
      const weight = this.weight(i);
      if (this.real) this.addNumbers(i, weight, sums, squares, counts);
      else this.addBits(i, weight, sums, counts);
    }
    return { sums, squares: this.real ? squares : sums, counts };
  }

  /** How often a row counts. @param {number} i */
  weight(i) {
    return this.weights ? this.weights[i] : 1;
  }

  /**
   * @param {number} i @param {number} weight @param {Float64Array} sums @param {Float64Array} squares
   * @param {Float64Array} counts
   */
  addNumbers(i, weight, sums, squares, counts) {
    for (let j = 0; j < this.d; j++) {
      const value = this.at(i, j);
      if (Number.isNaN(value)) continue;
      sums[j] += weight * value;
      squares[j] += weight * value * value;
      counts[j] += weight;
    }
  }

  /** @param {number} i @param {number} weight @param {Float64Array} sums @param {Float64Array} counts */
  addBits(i, weight, sums, counts) {
    const width = (this.d + 7) >> 3;
    const bytes = this.values.data;
    const holes = this.missing?.data;
    for (let b = 0; b < width; b++) {
      const there = holes ? ~holes[i * width + b] & 255 : 255;
      const on = bytes[i * width + b] & there;
      const last = Math.min(8, this.d - 8 * b);
      for (let k = 0; k < last; k++) {
        sums[8 * b + k] += weight * ((on >> (7 - k)) & 1);
        counts[8 * b + k] += weight * ((there >> (7 - k)) & 1);
      }
    }
  }

  /** Of each column: its share of ones (or mean) over all rows shown, and its standard deviation. */
  overall() {
    this.total ??= this.sums(null);
    const { sums, squares, counts } = this.total;
    const means = sums.map((sum, j) => sum / counts[j]);
    return { means, sds: means.map((mean, j) => Math.sqrt(Math.max(squares[j] / counts[j] - mean * mean, 0))) };
  }

  /** The first label of kinds, not numbers; -1 where there is none. */
  kindLabel() {
    return this.table.labels.findIndex((/** @type {Label} */ label) => !label.numeric);
  }

  /** Its kind by the first label of kinds; "" where there is none. @param {number} i @returns {string} */
  kind(i) {
    const which = this.kindLabel();
    return this.table.labels[which]?.levels[this.arrays[`labels.${which}`].data[i]] ?? "";
  }

  /** Name and kind: "row 17 (digit 7)", "Ann (left)". @param {number} i */
  title(i) {
    const kind = this.kind(i);
    const what = Number.isNaN(Number(kind)) ? "" : `${this.table.labels[this.kindLabel()]?.name} `;
    return this.name(i) + (kind ? ` (${what}${kind})` : "");
  }

  /**
   * The row of this name or number ("17", "row 17"), or whose name begins so, of the first n; else -1.
   * @param {string} text @param {number} [n]
   */
  find(text, n = this.n) {
    const wanted = text.trim().toLowerCase();
    if (wanted === "") return -1;
    /** @type {string[]} */
    const names = (this.table.row_names ?? []).slice(0, n).map((/** @type {string} */ name) => name.toLowerCase());
    const same = names.indexOf(wanted);
    if (same >= 0) return same;
    const number = numberIn(wanted);
    const found = number === null ? -1 : (this.arrays["rows.numbers"]?.data.indexOf(number) ?? number);
    return found >= 0 && found < n ? found : names.findIndex((name) => name.startsWith(wanted));
  }
}

/** Names of which no two are the same: later ones get their number. @param {string[]} names */
function namesApart(names) {
  /** @type {Set<string>} */
  const seen = new Set();
  return names.map((name, j) => {
    let own = name;
    if (seen.has(own)) own = `${name} (column ${j})`;
    while (seen.has(own)) own += "′";
    seen.add(own);
    return own;
  });
}

/** A name short enough, its end kept: many names begin alike. @param {string} text @param {number} most characters */
export function shortened(text, most) {
  const letters = lettersOf(text, most);
  if (!letters) return text;
  const tail = Math.floor((most - 1) / 3);
  const [head, end] = [letters.slice(0, most - 1 - tail), letters.slice(letters.length - tail)];
  return `${head.join("").trimEnd()}…${end.join("").trimStart()}`;
}

/** The number of a row in what was typed ("17", "row 17"), or null. @param {string} text */
export function numberIn(text) {
  const digits = /^(?:row\s+)?(\d+)$/i.exec(text.trim());
  return digits && Number(digits[1]);
}
