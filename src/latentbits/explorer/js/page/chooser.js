/** A box in which a row is named: by its number or by its name. */
import { numberIn } from "./cells.js";
import { make } from "./dom.js";
import { nearestNames, nearestNumbers } from "./nearest.js";

/** @import {Rows} from "./cells.js" */

const MOST_OFFERED = 1000; // names in the list that the box offers
const MOST_NEAR = 4; // rows offered where none is called so

/**
 * @param {string} label @param {Rows} rows
 * @param {number} n rows that may be chosen: the first of those shown
 * @param {(row: number) => void} onchoose @returns {{element: HTMLElement, show: (row: number) => void}}
 */
export function rowChooser(label, rows, n, onchoose) {
  const input = make("input", { type: "text", autocomplete: "off" });
  const names = Array.from({ length: Math.min(n, MOST_OFFERED) }, (_, row) => rows.name(row));
  input.size = Math.min(Math.max(...names.map((name) => name.length), 12), 36);
  let current = 0;
  const answer = make("span", { class: "answer", role: "status" });
  input.addEventListener("change", () => {
    const row = rows.find(input.value, n);
    answer.replaceChildren(...(row < 0 ? noSuchRow(input.value, rows, n, onchoose) : []));
    if (row < 0) input.value = rows.name(current);
    else onchoose(row);
  });
  input.addEventListener("focus", () => input.select());
  const element = make("span", { class: "chooser" }, [
    make("label", {}, [make("span", { text: `${label} ` }), input]),
    answer,
  ]);
  if (rows.table.row_names && n <= MOST_OFFERED) {
    const id = `rows-${label.replaceAll(" ", "-")}`;
    const options = names.map((value) => make("option", { value }));
    element.append(make("datalist", { id }, options));
    input.setAttribute("list", id);
  }
  return {
    element,
    show: (row) => {
      if (row !== current) answer.replaceChildren();
      current = row;
      input.value = rows.name(row);
    },
  };
}

/**
 * An answer in words where no row is called so, with the nearest to choose instead.
 * @param {string} text that was asked for
 * @param {Rows} rows
 * @param {number} n rows that may be chosen: the first of those shown
 * @param {(row: number) => void} onchoose @returns {Array<Node | string>}
 */
export function noSuchRow(text, rows, n, onchoose) {
  const asked = text.trim();
  if (!asked) return ["Type the number or the name of a row."];
  const buttons = nearestRows(asked, rows, n).map((row) =>
    make("button", { type: "button", class: "link", text: rows.name(row), onclick: () => onchoose(row) }),
  );
  return [whyNot(asked, rows, n), ...(buttons.length ? [" Nearest: "] : []), ...buttons];
}

/** @param {string} text @param {Rows} rows @param {number} n @returns {number[]} */
export function nearestRows(text, rows, n) {
  const number = numberIn(text);
  const { row_names: names } = rows.table;
  if (number === null) return names ? nearestNames(text, names.slice(0, n), MOST_NEAR) : [];
  const numbers = Array.from({ length: n }, (_, row) => rows.number(row));
  return nearestNumbers(number, numbers, MOST_NEAR);
}

/** @param {string} text @param {Rows} rows @param {number} n */
function whyNot(text, rows, n) {
  const number = numberIn(text);
  const all = rows.table.n_rows;
  if (number === null) {
    return rows.table.row_names
      ? `No row here is called “${text}”.`
      : `No row is called “${text}”: rows of this table have numbers alone, from 0.`;
  }
  if (n < all && number < all) {
    return `Row ${number} is not among the ${n.toLocaleString("en")} of ${all.toLocaleString("en")} rows to choose from.`;
  }
  return `There is no row ${number}.`;
}
