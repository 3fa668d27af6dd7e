/** Rows of the table: their values, and what to call them. */
import { bitAt, rowOf } from "./arrays.js";

/** @import {Arrays} from "./arrays.js" */
/** @import {Label} from "./cells.js" */

/** The values of a row, NaN where missing. @param {any} head of the page @param {Arrays} arrays @param {number} row */
export function rowValues(head, arrays, row) {
  const d = head.table.columns.length;
  const bits = arrays["rows.values"];
  const values = head.table.real ? Float32Array.from(rowOf(bits, row)) : new Float32Array(d);
  if (!head.table.real) for (let j = 0; j < d; j++) values[j] = bitAt(bits, row, j);
  const missing = arrays["rows.missing"];
  if (missing) for (let j = 0; j < d; j++) if (bitAt(missing, row, j)) values[j] = Number.NaN;
  return values;
}

/** The number of a row in the user's table, from 0, as in Python. @param {Arrays} arrays @param {number} row */
export function rowNumber(arrays, row) {
  return arrays["rows.numbers"]?.data[row] ?? row;
}

/**
 * Its own name, or "row 17", counted from 0, as in Python.
 * @param {any} head @param {Arrays} arrays @param {number} row @returns {string}
 */
export function rowName(head, arrays, row) {
  return head.table.row_names?.[row] ?? `row ${rowNumber(arrays, row)}`;
}

/** The first label that tells kinds, not numbers; -1 where there is none. @param {any} head @returns {number} */
export function kindLabel(head) {
  return head.table.labels.findIndex((/** @type {Label} */ label) => !label.numeric);
}

/**
 * What the first label that tells kinds says of a row; "" where there is none.
 * @param {any} head @param {Arrays} arrays @param {number} row @returns {string}
 */
export function rowLabel(head, arrays, row) {
  const which = kindLabel(head);
  return head.table.labels[which]?.levels[arrays[`labels.${which}`].data[row]] ?? "";
}

/** Name and label: "row 17 (7)". @param {any} head @param {Arrays} arrays @param {number} row */
export function rowTitle(head, arrays, row) {
  const label = rowLabel(head, arrays, row);
  return rowName(head, arrays, row) + (label ? ` (${label})` : "");
}
