/** Rows and columns that the model of the map fits worst. */
import { filterField, make, part } from "../page/dom.js";
import { downloadRow, fileName, saveCsv } from "../page/downloads.js";
import { shortNumber } from "../page/images.js";
import { stripFigure } from "../page/strips.js";
import { makeSortable } from "../page/tables.js";
import { chance } from "./inspector.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {Strips} from "../page/strips.js" */

const MOST_LINES = 1000; // of columns
const MANY_LINES = 30; // that a field narrows down
const MOST_DRAWN = 25; // in a picture

/**
 * @typedef {{row: number, beyond: number, sd: number, n_odd: number, expected_odd: number, odd: number[],
 *   surprise: Array<number | null>}} WorstRow
 */

/** @param {Rows} rows @param {State} state */
export function showWorst(rows, state) {
  const { head } = rows;
  const place = part("worst");
  if (!place || !head.misfit) return;
  place.append(
    make("p", { class: "about", text: aboutWorst(head) }),
    make("div", { class: "worst-grid" }, [worstRows(head, rows, state), worstColumns(head, rows)]),
  );
}

/** @param {any} head */
function aboutWorst(head) {
  const { n_rows: n, rows } = head.misfit;
  const looked = n < head.table.n_shown ? "rows taken at random from those shown" : "rows";
  const against = head.table.real
    ? "Numbers off what is expected count against a row, by their squares"
    : "Cells that had a chance below 0.1 count against a row, by −log₂ of that chance";
  const listed = rows.length
    ? `Of ${n.toLocaleString("en")} ${looked}, the ${rows.length} are listed that have most bits beyond what the model itself expects of such rows.`
    : "No row has more bits than the model itself expects of such rows.";
  return `The ${head.map.name} of the map predict each cell from the other cells of its row. ${against}. ${listed} By chance alone some are two standard deviations beyond it.`;
}

/** @param {any} head @param {Rows} rows @param {State} state */
function worstRows(head, rows, state) {
  /** @type {WorstRow[]} */
  const found = head.misfit.rows;
  const lines = found.map((one) => {
    const pick = make("button", { type: "button", class: "link", text: rows.name(one.row), "data-row": one.row });
    pick.title = "Pick it, and look at it beside the map";
    pick.addEventListener("click", () => {
      state.set({ picked: one.row });
      part("inspector")?.scrollIntoView({ block: "nearest" });
    });
    return make("tr", {}, [
      make("th", { scope: "row" }, [pick]),
      numberCell(one.beyond),
      numberCell(one.beyond / one.sd),
      make("td", {
        "data-value": one.n_odd - one.expected_odd,
        text: `${one.n_odd}, expected ${one.expected_odd.toFixed(1)}`,
      }),
      make("td", { class: "odd-cells", text: oddWords(one, rows) }),
    ]);
  });
  const table = worstTable("Rows that fit worst", lines, [
    ["Row", "text", "Click to pick it"],
    ["Beyond", "number", "Bits of its surprising cells beyond what is expected"],
    ["Sd", "number", "The same in standard deviations of what is expected"],
    ["Surprising cells", "number", "How many are less likely than 0.1 given the others, and how many are expected"],
    [
      "Most surprising",
      "text",
      rows.real ? "Cells and their distance from what is expected" : "Cells, and how likely they were",
    ],
  ]);
  const csv = () => saveCsv(worstRowLines(found, rows), fileName(head.table.source, "rows that fit worst", "csv"));
  return make("div", {}, [
    make("h3", { text: "Rows" }),
    make("div", { class: "scroll tall", tabindex: 0 }, [table]),
    downloadRow("the rows that fit worst", [["CSV", csv]]),
    ...(found.length ? [asPicture(() => stripFigure(worstRowStrips(head, rows, found)))] : []),
  ]);
}

/** @param {WorstRow} one @param {Rows} rows */
function oddWords(one, rows) {
  const words = one.odd.flatMap((j, k) => {
    const much = one.surprise[k];
    if (much === null || Number.isNaN(rows.at(one.row, j))) return [];
    const how = rows.real ? `${shortNumber(much, 1)} sd off` : chance(much);
    return [`${rows.columns[j]} = ${rows.real ? shortNumber(rows.at(one.row, j)) : rows.at(one.row, j)} (${how})`];
  });
  return words.join("; ");
}

/** @param {WorstRow[]} found @param {Rows} rows @returns {Array<Array<string | number | null>>} */
function worstRowLines(found, rows) {
  const heads = ["row", "name", "bits beyond", "standard deviation", "surprising cells", "expected", "most surprising"];
  const lines = found.map((one) => [
    rows.number(one.row),
    rows.table.row_names?.[one.row] ?? "",
    one.beyond,
    one.sd,
    one.n_odd,
    one.expected_odd,
    oddWords(one, rows),
  ]);
  return [heads, ...lines];
}

/** @param {any} head @param {Rows} rows */
function worstColumns(head, rows) {
  /** @type {{column_bits: Array<number | null>, column_alone: Array<number | null>}} */
  const { column_bits: bits, column_alone: alone } = head.misfit;
  const { means } = rows.overall();
  const order = Array.from(bits.keys()).sort((a, b) => (bits[b] ?? -Infinity) - (bits[a] ?? -Infinity) || a - b);
  const saved = (/** @type {number} */ j) => (alone[j] ?? Number.NaN) - (bits[j] ?? Number.NaN);
  const lines = order
    .slice(0, MOST_LINES)
    .map((j) =>
      make("tr", {}, [
        make("th", { scope: "row", text: rows.columns[j] }),
        ...[bits[j] ?? Number.NaN, alone[j] ?? Number.NaN, saved(j), means[j]].map((value) => numberCell(value)),
      ]),
    );
  const table = worstTable("Columns that are predicted worst", lines, [
    ["Column", "text", "The columns that cost most bits per cell first"],
    ["Bits", "number", "Mean cost of a cell, predicted from the others of its row"],
    ["Alone", "number", "What a cell costs by the mean of its column alone"],
    ["Saved", "number", "How many bits of a cell the other columns tell; below 0, the model is worse than the mean"],
    [rows.real ? "Mean" : "Ones", "number", rows.real ? "Mean of the column" : "Share of ones"],
  ]);
  const csv = () => {
    const cells = order.map((j) => [rows.columns[j], bits[j], alone[j], means[j]]);
    const heads = ["column", "bits per cell", "bits per cell alone", rows.real ? "mean" : "share of ones"];
    saveCsv([heads, ...cells], fileName(head.table.source, "columns that fit worst", "csv"));
  };
  return make("div", {}, [
    make("h3", { text: "Columns" }),
    ...(lines.length > MANY_LINES ? [lineFilter(lines)] : []),
    make("div", { class: "scroll tall", tabindex: 0 }, [table]),
    ...(order.length > MOST_LINES
      ? [make("p", { class: "note", text: `The first ${MOST_LINES} of ${order.length}; the file has all.` })]
      : []),
    downloadRow("the columns", [["CSV", csv]]),
    asPicture(() => stripFigure(worstColumnStrips(head, rows, order))),
  ]);
}

/** Drawn when it is opened. @param {() => HTMLElement} draw */
function asPicture(draw) {
  const details = make("details", { class: "as-picture" }, [make("summary", { text: "As a picture" })]);
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) details.append(draw());
  });
  return details;
}

/** @param {any} head @param {Rows} rows @param {WorstRow[]} found @returns {Strips} */
function worstRowStrips(head, rows, found) {
  const shown = found.slice(0, MOST_DRAWN);
  const marks = shown.map(({ beyond, sd }) => {
    const text = `${shortNumber(beyond)} bits beyond what is expected, whose standard deviation is ${shortNumber(sd)}`;
    return { value: beyond, other: 2 * sd, text };
  });
  return {
    title: "Rows that fit worst",
    about: "Bits beyond what the model expects of such rows (full), and two standard deviations of that (hollow).",
    file: head.table.source,
    names: shown.map(({ row }) => rows.name(row)),
    panels: [{ title: "full: beyond what is expected; hollow: two sd", axis: "bits", zero: true, marks }],
    table: worstRowLines(found, rows),
  };
}

/** @param {any} head @param {Rows} rows @param {number[]} order @returns {Strips} */
function worstColumnStrips(head, rows, order) {
  const { column_bits: bits, column_alone: alone } = head.misfit;
  const shown = order.slice(0, MOST_DRAWN);
  const marks = shown.map((j) => ({
    value: bits[j] ?? Number.NaN,
    other: alone[j] ?? Number.NaN,
    text: `${shortNumber(bits[j] ?? Number.NaN)} bits a cell, alone ${shortNumber(alone[j] ?? Number.NaN)}`,
  }));
  return {
    title: "Columns that fit worst",
    about: "Bits per cell predicted from the others of its row (full), and by the mean of its column alone (hollow).",
    file: head.table.source,
    names: shown.map((j) => rows.columns[j]),
    panels: [{ title: "full: from the others; hollow: alone", axis: "bits per cell", zero: true, marks }],
    table: [["column", "bits per cell", "alone"], ...order.map((j) => [rows.columns[j], bits[j], alone[j]])],
  };
}

/** @param {HTMLElement[]} lines */
function lineFilter(lines) {
  const input = filterField("columns", "Fits worst: only columns with this in their name");
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const line of lines) line.hidden = !(line.firstChild?.textContent ?? "").toLowerCase().includes(wanted);
  });
  return make("p", { class: "cell-filter" }, [input]);
}

/** @param {number} value */
function numberCell(value) {
  return make("td", { "data-value": value, text: shortNumber(value) });
}

/**
 * @param {string} caption @param {HTMLElement[]} lines
 * @param {Array<[string, string, string]>} heads name, type, explanation
 */
function worstTable(caption, lines, heads) {
  const cells = heads.map(([text, type, title]) => make("th", { scope: "col", "data-type": type, title, text }));
  const table = make("table", { class: "worst" }, [
    make("caption", { class: "unseen", text: caption }),
    make("thead", {}, [make("tr", {}, cells)]),
    make("tbody", {}, lines),
  ]);
  makeSortable(table);
  return table;
}
