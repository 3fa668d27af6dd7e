/** A box in which a row is named: by its number or by its name. */
import { make } from "./dom.js";
import { nearestNames, nearestNumbers } from "./nearest.js";
import { rowName, rowNumber } from "./rows.js";

/** @import {Arrays} from "./arrays.js" */

const MOST_OFFERED = 1000; // names in the list that the box offers
const MOST_NEAR = 4; // rows offered where none is called so

/**
 * @param {string} label @param {any} head @param {Arrays} arrays
 * @param {number} n rows that may be chosen: the first of those shown
 * @param {(row: number) => void} onchoose @returns {{element: HTMLElement, show: (row: number) => void}}
 */
export function rowChooser(label, head, arrays, n, onchoose) {
  const input = make("input", { type: "text", autocomplete: "off" });
  const longest = Math.max(
    ...Array.from({ length: Math.min(n, MOST_OFFERED) }, (_, i) => rowName(head, arrays, i).length),
  );
  input.size = Math.min(Math.max(longest, 12), 36);
  let current = 0;
  const answer = make("span", { class: "answer", role: "status" });
  input.addEventListener("change", () => {
    const row = findRow(input.value, head, arrays, n);
    answer.replaceChildren(...(row === null ? noSuchRow(input.value, head, arrays, n, onchoose) : []));
    if (row === null) input.value = rowName(head, arrays, current);
    else onchoose(row);
  });
  input.addEventListener("focus", () => input.select());
  const element = make("span", { class: "chooser" }, [
    make("label", {}, [make("span", { text: `${label} ` }), input]),
    answer,
  ]);
  if (head.table.row_names && n <= MOST_OFFERED) {
    const id = `rows-${label.replaceAll(" ", "-")}`;
    const options = Array.from({ length: n }, (_, row) => make("option", { value: rowName(head, arrays, row) }));
    element.append(make("datalist", { id }, options));
    input.setAttribute("list", id);
  }
  return {
    element,
    show: (row) => {
      if (row !== current) answer.replaceChildren();
      current = row;
      input.value = rowName(head, arrays, row);
    },
  };
}

/**
 * @param {string} text "17", "row 17", or the name of a row, or how one begins
 * @param {any} head @param {Arrays} arrays @param {number} n @returns {number | null}
 */
export function findRow(text, head, arrays, n) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const rows = Array.from({ length: n }, (_, row) => row);
  const names = rows.map((row) => rowName(head, arrays, row).toLowerCase());
  const same = names.indexOf(wanted);
  if (same >= 0) return same;
  const number = Number(wanted.replace(/^row\s+/, ""));
  const found = Number.isInteger(number) ? rows.findIndex((row) => rowNumber(arrays, row) === number) : -1;
  if (found >= 0) return found;
  const like = head.table.row_names ? names.findIndex((name) => name.startsWith(wanted)) : -1;
  return like >= 0 ? like : null;
}

/**
 * An answer in words where no row is called so, with the nearest to choose instead.
 * @param {string} text that was asked for
 * @param {any} head @param {Arrays} arrays
 * @param {number} n rows that may be chosen: the first of those shown
 * @param {(row: number) => void} onchoose @returns {Array<Node | string>}
 */
export function noSuchRow(text, head, arrays, n, onchoose) {
  const asked = text.trim();
  if (!asked) return ["Type the number or the name of a row."];
  const near = nearestRows(asked, head, arrays, n);
  const buttons = near.map((row) =>
    make("button", {
      type: "button",
      class: "link",
      text: rowName(head, arrays, row),
      onclick: () => onchoose(row),
    }),
  );
  return [whyNot(asked, head, n), ...(buttons.length ? [" Nearest: "] : []), ...buttons];
}

/** @param {string} text @param {any} head @param {Arrays} arrays @param {number} n @returns {number[]} */
export function nearestRows(text, head, arrays, n) {
  const digits = /^(?:row\s+)?(\d+)$/i.exec(text.trim());
  if (digits) {
    const numbers = Array.from({ length: n }, (_, row) => rowNumber(arrays, row));
    return nearestNumbers(Number(digits[1]), numbers, MOST_NEAR);
  }
  return head.table.row_names ? nearestNames(text, head.table.row_names.slice(0, n), MOST_NEAR) : [];
}

/** @param {string} text @param {any} head @param {number} n */
function whyNot(text, head, n) {
  const digits = /^(?:row\s+)?(\d+)$/i.exec(text);
  const all = head.table.n_rows;
  if (!digits) {
    return head.table.row_names
      ? `No row here is called “${text}”.`
      : `No row is called “${text}”: rows of this table have numbers alone, from 0.`;
  }
  if (n < all && Number(digits[1]) < all) {
    return `Row ${digits[1]} is not among the ${n.toLocaleString("en")} of ${all.toLocaleString("en")} rows to choose from.`;
  }
  return `There is no row ${digits[1]}.`;
}
