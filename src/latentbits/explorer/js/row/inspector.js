/** One row close up: what was observed, what the other columns make us expect, what is surprising, what is missing. */
import { homeOf, startOn } from "../map/grounds.js";
import { rankIn } from "../map/maths.js";
import { noSuchRow } from "../page/chooser.js";
import { button, captioned, filterField, make, part, say, tableHead, themeColour } from "../page/dom.js";
import { barOf, colourScale, extentOf, shortNumber } from "../page/images.js";
import { storyOf } from "./posterior.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {RowStory} from "./posterior.js" */

const SURPRISING = 0.1; // chance of what was observed, given the rest of the row
const PAUSE = 90; // milliseconds that the cursor must rest on a row
const FIRST_LINES = 12;
const PICTURE = 116; // pixels

/** @param {Rows} rows @param {State} state */
export function showInspector(rows, state) {
  const { head } = rows;
  const element = part("inspector");
  if (!element || !head.map) return;
  const body = make("div", { class: "inspected" });
  element.append(make("h3", { text: "Row" }), rowSearch(rows, state), body);
  /** @type {Inspection} */
  const inspection = { head, rows, state, costs: new Map(), all: false, filter: "" };
  let shown = -1;
  const show = () => {
    const row = state.choices.picked ?? state.choices.hovered;
    if (row === null) {
      if (shown < 0)
        body.replaceChildren(make("p", { class: "note", text: "Point at a row of the map, or click to keep it." }));
      return;
    }
    if (row !== shown) inspection.all = false;
    shown = row;
    showRow(body, row, inspection);
  };
  let timer = 0;
  state.on(["picked", "map"], show);
  state.on(["hovered"], () => {
    clearTimeout(timer);
    if (state.choices.picked === null) timer = window.setTimeout(show, PAUSE);
  });
  document.addEventListener("themechange", show);
  show();
}

/**
 * @typedef {object} Inspection
 * @property {any} head
 * @property {Rows} rows
 * @property {State} state
 * @property {Map<Float32Array, Float32Array>} costs of the rows by a model, and the same ascending
 * @property {boolean} all whether all columns are listed
 * @property {string} filter part of the names that are listed
 */

/** @param {Inspection} inspection @param {Float32Array} cost @returns {Float32Array} ascending */
function sortedCosts({ costs }, cost) {
  const sorted = costs.get(cost) ?? Float32Array.from(cost).sort();
  costs.set(cost, sorted);
  return sorted;
}

/** @param {Rows} rows @param {State} state */
function rowSearch(rows, state) {
  const input = make("input", {
    type: "search",
    id: "go-to-row",
    placeholder: rows.table.row_names ? "number or name" : "number",
    autocomplete: "off",
  });
  const answer = make("p", { class: "answer", role: "status" });
  const form = make("form", { class: "controls row-search" }, [
    make("label", { for: "go-to-row", text: "Go to row" }),
    input,
    make("button", { type: "submit", class: "small", text: "Go" }),
    answer,
  ]);
  /** @param {number} row */
  const go = (row) => {
    answer.replaceChildren();
    const [x, y] = startOn(homeOf(rows, state, row), row).mean;
    state.set({ picked: row });
    state.set({ place: { x, y } }); // after the step to the map that the row is on
    say(`Picked: ${rows.name(row)}`);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const row = rows.find(input.value);
    if (row >= 0) go(row);
    else answer.replaceChildren(...noSuchRow(input.value, rows, rows.n, go));
  });
  input.addEventListener("input", () => answer.replaceChildren());
  return form;
}

/** @param {HTMLElement} body @param {number} row @param {Inspection} inspection */
function showRow(body, row, inspection) {
  const { head, rows, state } = inspection;
  const ground = homeOf(rows, state, row);
  const cells = rows.cells(row);
  const story = storyOf(ground, cells, startOn(ground, row));
  const odd = surprisingOf(story);
  const cost = ground.cost[row];
  const percent = Math.floor(100 * rankIn(sortedCosts(inspection, ground.cost), cost));
  const title = make("p", { class: "row-title" }, [
    make("strong", { text: rows.name(row) }),
    ...rows.labels(row).map(([name, level]) => make("span", { class: "tag", text: `${name}: ${level}` })),
  ]);
  const holes = cells.filter(Number.isNaN).length;
  const { mean, covariance } = story.place;
  const place = mean.map((m, k) => `${shortNumber(m)} ± ${shortNumber(Math.sqrt(covariance[k]))}`);
  const facts = [
    ...(ground.number !== null && ground.sure
      ? [
          `On map ${ground.number + 1} with probability ${ground.sure[row].toFixed(2)}; what follows takes it to be there.`,
        ]
      : []),
    `At ${place.join(" and ")}.`,
    ...(rows.weights ? [`It counts ${shortNumber(rows.weight(row))} times.`] : []),
    `−log₂ p(row) = ${shortNumber(cost, 1)} bits: more surprising than about ${percent} % of rows.`,
    odd.length === 0
      ? "No cell is surprising given the others."
      : `${odd.length} of ${rows.d - holes} cells ${odd.length === 1 ? "is" : "are"} surprising given the others.`,
  ];
  if (holes) facts.push(`${holes} ${holes === 1 ? "is" : "are"} missing and filled in.`);
  body.replaceChildren(title, rowButtons(row, state, head.morph), make("p", { class: "note", text: facts.join(" ") }));
  if (head.table.image_shape) body.append(...threeImages(rows, cells, story, odd, head.table.image_shape));
  else
    body.append(
      cellFilter(body, row, inspection),
      cellTable(cells, story, inspection, () => showRow(body, row, inspection)),
    );
}

/** Columns whose cell is surprising, the most surprising first. @param {RowStory} story */
export function surprisingOf(story) {
  return Array.from(story.surprise.keys())
    .filter((j) => story.surprise[j] < SURPRISING)
    .sort((a, b) => story.surprise[a] - story.surprise[b] || a - b);
}

/** @param {number} row @param {State} state @param {unknown} morph for which there may be a second row */
function rowButtons(row, state, morph) {
  const { picked } = state.choices;
  return make("p", { class: "downloads" }, [
    button(picked === row ? "let go" : "keep (A)", () =>
      state.set({ picked: picked === row ? null : row, hovered: row }),
    ),
    ...(morph ? [button("use as second row (B)", () => state.set({ other: row }))] : []),
  ]);
}

/**
 * Observed, predicted from the other pixels, and which pixels surprise.
 * @param {Rows} rows @param {Float64Array} cells @param {RowStory} story @param {number[]} odd
 * @param {[number, number]} shape
 */
function threeImages(rows, cells, story, odd, shape) {
  const scale = rows.real ? extentOf(cells, "real") : 1;
  const kind = rows.real ? "real" : "probability";
  const filled = cells.map((value, j) => (Number.isNaN(value) ? story.predicted[j] : value));
  const pictures = /** @type {Array<[string, ArrayLike<number>, number[], string]>} */ ([
    ["observed", cells, [], "The row as observed; hatched where missing"],
    ["predicted", story.predicted, [], "Each pixel as predicted from the others"],
    ["surprising", filled, odd, "Outlined: pixels that surprise, given the others"],
  ]);
  const figures = pictures.map(([name, values, outlined, label]) => {
    const canvas = cellPicture(values, shape, colourScale(kind, scale), outlined, label);
    return captioned(canvas, name);
  });
  const worst = odd
    .slice(0, 6)
    .map((j) => `${rows.columns[j]} (${shortNumber(cells[j], 0)}, ${chance(story.surprise[j])})`);
  const said = worst.length ? [make("p", { class: "note", text: `Most surprising: ${worst.join(", ")}.` })] : [];
  return [make("div", { class: "three" }, figures), ...said];
}

/** @param {number} p */
export function chance(p) {
  return `P = ${p < 0.001 ? "< 0.001" : p < 0.1 ? p.toFixed(3) : p.toFixed(2)}`.replace("= <", "<");
}

/**
 * Pixels large enough to be hatched (missing) and outlined (surprising).
 * @param {ArrayLike<number>} values @param {[number, number]} shape @param {(value: number) => number[]} colour
 * @param {number[]} outlined @param {string} label
 */
function cellPicture(values, [height, width], colour, outlined, label) {
  const ratio = window.devicePixelRatio || 1;
  const size = Math.max(3, Math.floor((PICTURE * ratio) / Math.max(width, height)));
  const canvas = make("canvas", { role: "img", "aria-label": label, title: label });
  canvas.width = width * size;
  canvas.height = height * size;
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  const at = (/** @type {number} */ j) => [(j % width) * size, Math.floor(j / width) * size];
  for (let j = 0; j < width * height; j++) {
    const [x, y] = at(j);
    context.fillStyle = `rgb(${colour(values[j]).join(" ")})`;
    context.fillRect(x, y, size, size);
    if (Number.isNaN(values[j])) hatch(context, x, y, size);
  }
  context.strokeStyle = themeColour("--accent");
  context.lineWidth = Math.max(1.5, size / 6);
  const inset = context.lineWidth / 2;
  for (const j of outlined) {
    const [x, y] = at(j);
    context.strokeRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
  }
  return canvas;
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} size */
function hatch(context, x, y, size) {
  context.strokeStyle = themeColour("--grey");
  context.lineWidth = 1;
  context.beginPath();
  const step = Math.max(3, size / 3);
  for (let k = step; k < 2 * size; k += step) {
    context.moveTo(x + Math.min(k, size), y + Math.max(0, k - size));
    context.lineTo(x + Math.max(0, k - size), y + Math.min(k, size));
  }
  context.stroke();
}

/** @param {HTMLElement} body @param {number} row @param {Inspection} inspection */
function cellFilter(body, row, inspection) {
  const input = filterField("columns", "Only columns with this in their name");
  input.value = inspection.filter;
  input.addEventListener("input", () => {
    inspection.filter = input.value;
    showRow(body, row, inspection);
    const fresh = /** @type {HTMLInputElement | null} */ (body.querySelector(".cell-filter input"));
    fresh?.focus();
    fresh?.setSelectionRange(fresh.value.length, fresh.value.length);
  });
  return make("p", { class: "cell-filter" }, [input]);
}

/**
 * Columns, the most surprising first; missing ones before those that fit.
 * @param {Float64Array} cells @param {RowStory} story @param {Inspection} inspection @param {() => void} again
 */
function cellTable(cells, story, inspection, again) {
  const { rows } = inspection;
  const key = story.surprise.map((p) => (Number.isNaN(p) ? SURPRISING : p));
  const wanted = inspection.filter.trim().toLowerCase();
  const order = Array.from(key.keys())
    .filter((j) => rows.columns[j].toLowerCase().includes(wanted))
    .sort((a, b) => key[a] - key[b] || a - b);
  const listed = inspection.all ? order : order.slice(0, FIRST_LINES);
  const lines = listed.map((j) => cellLine(j, cells, story, rows));
  const table = make("table", { class: "cells" }, [
    make("caption", { class: "unseen", text: "Cells of the row, the most surprising first" }),
    tableHead(["Column", "Observed", rows.real ? "Expected" : "P(1)"]),
    make("tbody", {}, lines),
  ]);
  if (order.length <= FIRST_LINES) return table;
  const more = button(inspection.all ? "fewer" : `${order.length - FIRST_LINES} more`, () => {
    inspection.all = !inspection.all;
    again();
  });
  const box = make("div", inspection.all ? { class: "tall all-cells", tabindex: 0 } : {}, [table]);
  return make("div", {}, [box, more]);
}

/** @param {number} j @param {Float64Array} cells @param {RowStory} story @param {Rows} rows */
function cellLine(j, cells, story, rows) {
  const missing = Number.isNaN(cells[j]);
  const odd = story.surprise[j] < SURPRISING;
  const shown = rows.real ? shortNumber(cells[j]) : String(cells[j]);
  const expected = rows.real
    ? [`${shortNumber(story.predicted[j])} ± ${shortNumber(story.sds?.[j] ?? 0)}`]
    : [
        barOf(story.predicted[j]),
        make("span", { class: "value", text: story.predicted[j].toFixed(2), title: story.predicted[j].toFixed(4) }),
      ];
  const kind = missing ? "missing" : odd ? "odd" : "";
  const what = missing
    ? "missing: filled with what is expected"
    : odd
      ? `surprising: ${chance(story.surprise[j])}`
      : "";
  const observed = missing
    ? make("span", { class: "cell-bit hole", text: "?", "aria-label": "missing" })
    : make("span", { class: rows.real ? "" : `cell-bit ${cells[j] > 0.5 ? "on" : "off"}`, text: shown });
  return make("tr", kind ? { class: kind, title: what } : {}, [
    make("th", { scope: "row" }, [
      rows.columns[j],
      ...(odd ? [make("span", { class: "why", text: ` ${chance(story.surprise[j])}` })] : []),
    ]),
    make("td", {}, [observed]),
    make("td", {}, [make("span", { class: rows.real ? "" : "expected" }, expected)]),
  ]);
}
