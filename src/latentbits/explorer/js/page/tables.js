/** Tables that sort by any column, say what their numbers mean, and can be saved. */
import { make, part, say } from "./dom.js";
import { downloadRow, fileName, saveCsv } from "./downloads.js";
import { addTip } from "./tips.js";

/** @param {any} head of the page */
export function showTable(head) {
  const table = /** @type {HTMLTableElement | null} */ (part("models"));
  if (!table) return;
  makeSortable(table);
  const save = () => saveCsv(cellsOf(table), fileName(head.table.source, "models", "csv"));
  table.parentElement?.after(downloadRow("the comparison", [["CSV", save]]));
}

/** A button in each head of a column, with its explanation. @param {HTMLTableElement} table */
export function makeSortable(table) {
  const heads = /** @type {HTMLTableCellElement[]} */ ([...table.querySelectorAll("thead th")]);
  heads.forEach((cell, column) => {
    const help = cell.title;
    cell.removeAttribute("title");
    const sort = make("button", { type: "button", class: "sort", text: cell.textContent ?? "" });
    cell.replaceChildren(sort);
    if (help) addTip(sort, help);
    sort.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const lines = [...body.rows];
      const keys = lines.map(
        ({
          cells: {
            [column]: { dataset, textContent },
          },
        }) => (cell.dataset.type === "number" ? Number(dataset.value ?? Number.NaN) : (textContent ?? "").trim()),
      );
      body.append(...sortedOrder(keys, down).map((i) => lines[i]));
      say(`Sorted by ${sort.textContent}, ${down ? "descending" : "ascending"}.`);
    });
  });
}

/**
 * The order of keys; those alike keep theirs, and what is no number comes last either way.
 * @param {Array<number | string>} keys @param {boolean} down @returns {number[]}
 */
export function sortedOrder(keys, down) {
  const sign = down ? -1 : 1;
  return [...keys.keys()].sort((i, j) => {
    const [a, b] = [keys[i], keys[j]];
    if (typeof a === "string" || typeof b === "string") {
      return sign * String(a).localeCompare(String(b), "en", { numeric: true }) || i - j;
    }
    if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || i - j;
    return sign * (a - b) || i - j;
  });
}

/**
 * What the table shows, in its order: numbers in full, and the standard errors in columns of their own.
 * @param {HTMLTableElement} table @returns {Array<Array<string | number | null>>}
 */
function cellsOf(table) {
  const heads = [...table.querySelectorAll("thead th")].flatMap((cell) => {
    const name = cell.querySelector(".sort")?.textContent ?? "";
    return cell.hasAttribute("data-error") ? [name, `${name}: standard error`] : [name];
  });
  return [heads, ...[...table.tBodies[0].rows].map((line) => [...line.cells].flatMap(cellValues))];
}

/** @param {HTMLTableCellElement} cell @returns {Array<string | number>} */
function cellValues(cell) {
  const { value, error } = cell.dataset;
  if (value === undefined) return [(cell.textContent ?? "").trim()];
  return error === undefined ? [Number(value)] : [Number(value), Number(error)];
}
