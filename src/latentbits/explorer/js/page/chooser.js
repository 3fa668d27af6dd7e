/** A box in which a row is named: by its number or by its name. */
import { make, say } from "./dom.js";
import { rowName, rowNumber } from "./rows.js";

const MOST_OFFERED = 1000; // names in the list that the box offers

/**
 * @param {string} label
 * @param {any} head
 * @param {import("./arrays.js").Arrays} arrays
 * @param {number} n rows that may be chosen: the first of those shown
 * @param {(row: number) => void} onchoose
 * @returns {{element: HTMLElement, show: (row: number) => void}}
 */
export function rowChooser(label, head, arrays, n, onchoose) {
  const input = /** @type {HTMLInputElement} */ (make("input", { type: "text", size: 12, autocomplete: "off" }));
  let current = 0;
  input.addEventListener("change", () => {
    const row = findRow(input.value, head, arrays, n);
    if (row === null) {
      say(`There is no row ${input.value} to choose.`);
      input.value = rowName(head, arrays, current);
    } else onchoose(row);
  });
  input.addEventListener("focus", () => input.select());
  const element = make("label", {}, [make("span", { text: `${label} ` }), input]);
  if (head.table.row_names && n <= MOST_OFFERED) {
    const id = `rows-${label.replaceAll(" ", "-")}`;
    const options = Array.from({ length: n }, (_, row) => make("option", { value: rowName(head, arrays, row) }));
    element.append(make("datalist", { id }, options));
    input.setAttribute("list", id);
  }
  return {
    element,
    show: (row) => {
      current = row;
      input.value = rowName(head, arrays, row);
    },
  };
}

/**
 * @param {string} text "17", "row 17", or the name of a row, or how one begins
 * @param {any} head
 * @param {import("./arrays.js").Arrays} arrays
 * @param {number} n
 * @returns {number | null}
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
