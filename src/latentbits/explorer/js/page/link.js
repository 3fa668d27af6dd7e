/** What the reader looks at as the end of the page's address, and back: whoever opens the link sees the same. */
import { groundOf, steppedOnto } from "../map/grounds.js";
import { part, say } from "./dom.js";

/** @import {Rows} from "./cells.js" */
/** @import {Choices, Look, State} from "./state.js" */

const WAIT = 300; // milliseconds: browsers forbid an address that changes all the time
const SAID = 2500; // milliseconds that a button tells what it did

/**
 * @typedef {object} Seen all that a link can tell; what is not there is as at first
 * @property {string} [section] id of a section, without its end
 * @property {number} [row] picked, by its number in the table
 * @property {number} [second] the other row of a morph
 * @property {string} [colour]
 * @property {number} [map] of several, from 1
 * @property {number[]} [lines]
 * @property {number[]} [hidden] colours whose rows are not shown
 * @property {"arrows" | "lines"} [columns] how columns are drawn
 * @property {number[]} [lasso] its corners
 * @property {string} [rowsBy] order of the table's picture
 * @property {string} [columnsBy]
 * @property {Look} [view]
 * @property {string} [model] whose causes are shown
 * @property {string} [cause] that is marked
 */

/** @param {Seen} seen @returns {string} without its "#" */
export function fragmentOf(seen) {
  const { section, row, second, map, colour, lines, view, model, cause, hidden, columns, lasso } = seen;
  const { rowsBy, columnsBy } = seen;
  const parts = new URLSearchParams();
  if (section) parts.set("section", section);
  if (row !== undefined) parts.set("row", String(row));
  if (second !== undefined) parts.set("second", String(second));
  if (map !== undefined) parts.set("map", String(map));
  if (colour) parts.set("colour", colour);
  if (hidden?.length) parts.set("hidden", hidden.join("."));
  if (lines) parts.set("lines", lines.join("."));
  if (columns) parts.set("columns", columns);
  if (lasso?.length) parts.set("lasso", lasso.join(","));
  if (rowsBy) parts.set("rows-by", rowsBy);
  if (columnsBy) parts.set("columns-by", columnsBy);
  if (view) parts.set("view", [view.x, view.y, view.zoom].map((value) => Number(value.toPrecision(5))).join(","));
  if (model) parts.set("model", model);
  if (cause) parts.set("cause", cause);
  return parts.toString();
}

/**
 * All that a fragment says; parts that make no sense are left out.
 * @param {string} fragment without its "#"
 * @returns {Seen}
 */
export function seenIn(fragment) {
  const parts = new URLSearchParams(fragment);
  /** @type {Seen} */
  const seen = {};
  const number = (/** @type {string} */ text) => (/^\d+$/.test(text) ? Number(text) : undefined);
  const [row, second, map] = ["row", "second", "map"].map((name) => number(parts.get(name) ?? ""));
  if (row !== undefined) seen.row = row;
  if (second !== undefined) seen.second = second;
  if (map) seen.map = map;
  for (const name of /** @type {const} */ (["section", "colour", "model", "cause"])) {
    const text = parts.get(name);
    if (text) seen[name] = text;
  }
  for (const name of /** @type {const} */ (["lines", "hidden"])) {
    const numbers = parts.get(name);
    if (numbers !== null) seen[name] = numbers.split(".").flatMap((text) => number(text) ?? []);
  }
  const columns = parts.get("columns");
  if (columns === "arrows" || columns === "lines") seen.columns = columns;
  const corners = (parts.get("lasso") ?? "").split(",").map((text) => (text ? Number(text) : Number.NaN));
  if (corners.length >= 6 && corners.length % 2 === 0 && corners.every(Number.isFinite)) seen.lasso = corners;
  const [rowsBy, columnsBy] = ["rows-by", "columns-by"].map((name) => parts.get(name));
  if (rowsBy) seen.rowsBy = rowsBy;
  if (columnsBy) seen.columnsBy = columnsBy;
  const [x, y, zoom] = (parts.get("view") ?? "").split(",").map((text) => (text ? Number(text) : Number.NaN));
  if (Number.isFinite(x) && Number.isFinite(y) && zoom > 0) seen.view = { x, y, zoom };
  return seen;
}

/**
 * The address follows what the reader does, and what an address says is shown.
 * @param {Rows} rows
 * @param {State} state as it is at first
 */
export function followLink(rows, state) {
  const first = { ...state.choices };
  const write = () => {
    clearTimeout(timer);
    const { map } = state.choices;
    const usual = { ...first, lines: map === null ? first.lines : groundOf(rows, map).lines };
    const fragment = fragmentOf(seenNow(state.choices, usual, (row) => rows.number(row)));
    const address = location.href.split("#")[0] + (fragment ? `#${fragment}` : "");
    if (address !== location.href) history.replaceState(null, "", address);
  };
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = window.setTimeout(write, WAIT);
  };
  const restore = () => restoreSeen(location.hash.slice(1), rows, state);
  restore();
  const parts = /** @type {const} */ ([
    "picked",
    "other",
    "map",
    "colour",
    "hidden",
    "lines",
    "columns",
    "lasso",
    "view",
  ]);
  state.on([...parts, "model", "cause", "rowsBy", "columnsBy"], later);
  addEventListener("scroll", later, { passive: true });
  addEventListener("hashchange", () => location.hash.includes("=") && restore());
  const copy = part("copy-link");
  copy?.addEventListener("click", async () => {
    write();
    const done = await navigator.clipboard.writeText(location.href).then(
      () => "Link copied",
      () => "It is in the address bar", // the browser lets no page write there
    );
    const was = copy.textContent;
    copy.textContent = done;
    say(done);
    window.setTimeout(() => {
      copy.textContent = was;
    }, SAID);
  });
}

/**
 * @param {Choices} now @param {Choices} first
 * @param {(row: number) => number} numberOf a row in the table
 * @returns {Seen}
 */
function seenNow(now, first, numberOf) {
  const link = /** @type {HTMLAnchorElement | null} */ (document.querySelector("nav a[aria-current]"));
  return {
    ...(link && { section: link.hash.slice(1).replace(/-section$/, "") }),
    ...(now.picked !== null && { row: numberOf(now.picked) }),
    ...(now.other !== null && { second: numberOf(now.other) }),
    ...(now.map !== null && { map: now.map + 1 }),
    ...(now.colour !== first.colour && { colour: now.colour }),
    ...(now.lines.join() !== first.lines.join() && { lines: now.lines }),
    ...(now.hidden.length && { hidden: now.hidden }),
    ...(now.columns !== first.columns && { columns: now.columns }),
    ...(now.lasso.length && { lasso: now.lasso }),
    ...(now.rowsBy !== first.rowsBy && { rowsBy: now.rowsBy }),
    ...(now.columnsBy !== first.columnsBy && { columnsBy: now.columnsBy }),
    ...(now.view && { view: now.view }),
    ...(now.model !== first.model && { model: now.model }),
    ...(now.cause && { cause: now.cause }),
  };
}

/** @param {string} fragment @param {Rows} rows @param {State} state */
function restoreSeen(fragment, rows, state) {
  if (!fragment.includes("=")) {
    if (fragment) scrollHere(part(fragment)); // it was elsewhere before all was drawn
    return;
  }
  const seen = seenIn(fragment);
  const numbered = (/** @type {number | undefined} */ number) =>
    number === undefined ? null : Array.from({ length: rows.n }, (_, i) => i).find((i) => rows.number(i) === number);
  const colours = /** @type {HTMLSelectElement | null} */ (part("colour-by"));
  const known = [...(colours?.options ?? [])].some(({ value }) => value === seen.colour);
  const shown = rows.head.galleries.some((/** @type {{name: string}} */ { name }) => name === seen.model);
  const map = seen.map !== undefined && seen.map <= (rows.head.maps?.shares.length ?? 0) ? seen.map - 1 : null;
  if (rows.head.maps && map !== state.choices.map) state.set(steppedOnto(groundOf(rows, map)));
  const column = /^bit:(\d+)$/.exec(seen.colour ?? "");
  state.set({
    picked: numbered(seen.row) ?? null,
    other: numbered(seen.second) ?? null,
    ...(seen.colour && (known || (column && Number(column[1]) < rows.d)) && { colour: seen.colour }),
    ...(seen.lines && { lines: seen.lines.filter((j) => j < rows.d) }),
    ...(seen.columns && { columns: seen.columns }),
    ...(seen.rowsBy && { rowsBy: seen.rowsBy }),
    ...(seen.columnsBy && { columnsBy: seen.columnsBy }),
    ...(shown && { model: seen.model }),
  });
  if (seen.hidden) state.set({ hidden: seen.hidden }); // of this colouring
  if (seen.lasso) state.set({ lasso: seen.lasso }); // around those that are not hidden
  if (seen.cause) state.set({ cause: seen.cause });
  if (seen.view) state.set({ view: seen.view }); // after the picked row, to which the map may have moved
  const marked = seen.cause ? document.querySelector("#causes .card.chosen") : null;
  if (marked) scrollHere(marked, true);
  else if (seen.section) scrollHere(part(`${seen.section}-section`));
}

/**
 * Scroll this page to an element.  `scrollIntoView` would also move the page that this one is a frame of.
 * @param {Element | null} element @param {boolean} [centred]
 */
function scrollHere(element, centred = false) {
  if (!element) return;
  const { top, height } = element.getBoundingClientRect();
  const above = Number.parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  scrollBy({ top: top - (centred ? (innerHeight - height) / 2 : above), behavior: "instant" });
}
