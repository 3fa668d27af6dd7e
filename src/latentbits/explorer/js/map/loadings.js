/** Loadings of the columns on the axes of the map, with their intervals, and what the axes go with as a picture. */
import { button, captioned, make, part, selectOf } from "../page/dom.js";
import { imageOf, shortNumber } from "../page/images.js";
import { stripFigure } from "../page/strips.js";
import { reachOf } from "./arrows.js";

/** @import {Arrays} from "../page/arrays.js" */
/** @import {Rows} from "../page/cells.js" */
/** @import {Strips} from "../page/strips.js" */

const FIRST_LOADINGS = 15;
const MOST_LOADINGS = 200;
const TIMES = 1.96; // standard errors on either side of an interval that holds 95 of 100

/** @typedef {{column: number, weights: number[], errors: number[] | null}} Loading */

/** @param {Rows} rows */
export function showLoadings(rows) {
  const { head, arrays } = rows;
  const place = part("loadings");
  if (!place || !head.map) return;
  const all = loadingsOf(arrays, rows.d);
  place.append(make("h3", { text: "Loadings" }), make("p", { class: "about", text: aboutLoadings(head, rows) }));
  if (head.table.image_shape) place.append(loadingImages(all, head.table.image_shape));
  else place.append(loadingStrips(head, arrays, rows, all));
  if (head.map.meanings.length) part("meanings-picture")?.append(meaningsFigure(head));
}

/** @param {Arrays} arrays @param {number} d @returns {Loading[]} one a column */
export function loadingsOf(arrays, d) {
  const [weights, errors] = [arrays["map.weights"].data, arrays["map.errors"]?.data];
  return Array.from({ length: d }, (_, column) => ({
    column,
    weights: [weights[column], weights[d + column]],
    errors: errors ? [errors[column], errors[d + column]] : null,
  }));
}

/** @param {any} head @param {Rows} rows */
function aboutLoadings(head, rows) {
  const what = rows.real
    ? "How much the mean of a column grows with one unit of a trait."
    : "How much the log odds of a bit grow with one unit of a trait.";
  if (head.map.no_errors) return `${what} How sure they are is not known: ${head.map.no_errors}.`;
  const sure = "if two traits are all there is behind the columns";
  if (head.table.image_shape)
    return `${what} The second picture of a trait has those pixels alone whose 95 % interval does not hold 0, ${sure}.`;
  return `${what} Whiskers are 95 % intervals, ${sure}: where they hold 0 (grey), the column need not change along the axis.`;
}

/** @param {number} value @param {number | undefined} error */
export function intervalOf(value, error) {
  return error !== undefined && Number.isFinite(error)
    ? { low: value - TIMES * error, high: value + TIMES * error }
    : {};
}

/** @param {any} head @param {Arrays} arrays @param {Rows} rows @param {Loading[]} all */
function loadingStrips(head, arrays, rows, all) {
  const orders = loadingOrders(arrays, rows);
  const texts = orders.map(([text]) => /** @type {[string, string]} */ ([text, text]));
  const select = selectOf(texts, () => draw(), { id: "loading-order" });
  const more = button("", () => {
    open = !open;
    draw();
  });
  const figure = make("div");
  let open = false;
  const draw = () => {
    const key = orders[select.selectedIndex][1];
    const sorted = [...all].sort((a, b) => key(b.column) - key(a.column) || a.column - b.column);
    const shown = sorted.slice(0, open ? MOST_LOADINGS : FIRST_LOADINGS);
    figure.replaceChildren(stripFigure(stripsOf(head, rows, shown, sorted)));
    more.textContent = open ? `first ${FIRST_LOADINGS}` : `show ${Math.min(all.length, MOST_LOADINGS)}`;
  };
  draw();
  return make("div", {}, [
    make("p", { class: "controls" }, [
      make("label", { for: "loading-order", text: "First" }),
      select,
      ...(all.length > FIRST_LOADINGS ? [more] : []),
    ]),
    figure,
  ]);
}

/**
 * @param {Arrays} arrays @param {Rows} rows
 * @returns {Array<[string, (column: number) => number]>} what comes first, and by how much
 */
function loadingOrders(arrays, rows) {
  const [weights, bias] = [arrays["map.weights"].data, arrays["map.bias"].data];
  const { sds } = rows.overall();
  const reach = (/** @type {number} */ w, /** @type {number} */ j) => Math.abs(reachOf(w, bias[j], rows.real, sds[j]));
  const [first, second] = [(/** @type {number} */ j) => weights[j], (/** @type {number} */ j) => weights[rows.d + j]];
  return [
    ["columns that change most", (j) => reach(Math.hypot(first(j), second(j)), j)],
    ["those along trait 1", (j) => reach(first(j), j)],
    ["those along trait 2", (j) => reach(second(j), j)],
    ["the first of the table", (j) => -j],
  ];
}

/** @param {any} head @param {Rows} rows @param {Loading[]} shown @param {Loading[]} all @returns {Strips} */
function stripsOf(head, rows, shown, all) {
  const panels = [0, 1].map((k) => ({
    title: `trait ${k + 1}`,
    axis: rows.real ? "mean per unit" : "log odds per unit",
    zero: true,
    marks: shown.map(({ weights, errors }) => {
      const range = intervalOf(weights[k], errors?.[k]);
      const words =
        "low" in range ? `, 95 % from ${shortNumber(range.low ?? 0)} to ${shortNumber(range.high ?? 0)}` : "";
      return { value: weights[k], ...range, text: `trait ${k + 1} ${shortNumber(weights[k])}${words}` };
    }),
  }));
  const heads = [
    "column",
    "trait 1",
    "trait 2",
    ...(head.map.no_errors ? [] : ["standard error 1", "standard error 2"]),
  ];
  return {
    title: "Loadings",
    about: "Loadings of columns on both traits, with intervals where they can be known.",
    file: head.table.source,
    names: shown.map(({ column }) => rows.columns[column]),
    panels,
    table: [
      heads,
      ...all.map(({ column, weights, errors }) => [
        rows.columns[column],
        ...[...weights, ...(errors ?? [])].map((value) =>
          Number.isFinite(value) ? Number(value.toPrecision(5)) : null,
        ),
      ]),
    ],
  };
}

/**
 * Of images: the loadings as pictures, and beside them those whose interval does not hold 0.
 * @param {Loading[]} all @param {[number, number]} shape
 */
function loadingImages(all, shape) {
  const figures = [0, 1].flatMap((k) => {
    const weights = Float32Array.from(all, (one) => one.weights[k]);
    const sure = Float32Array.from(all, ({ errors }, j) =>
      errors && Math.abs(weights[j]) > TIMES * errors[k] ? weights[j] : 0,
    );
    const pictures = /** @type {Array<[string, Float32Array]>} */ ([[`trait ${k + 1}`, weights]]);
    if (all[0]?.errors) pictures.push([`trait ${k + 1}, where it is sure`, sure]);
    return pictures.map(([text, values]) => {
      const canvas = imageOf(values, shape, { kind: "signed", label: `Loadings on ${text}` });
      return captioned(canvas, text);
    });
  });
  return make("div", { class: "loading-images" }, figures);
}

/** What the axes go with, as a picture for print. @param {any} head */
function meaningsFigure(head) {
  /** @type {Array<{axis: number, label: string, strength: number, measure: string}>} */
  const all = head.map.meanings;
  const names = [...new Set(all.map(({ label }) => label))];
  const panels = [0, 1].map((axis) => ({
    title: `trait ${axis + 1}`,
    axis: "strength, as a correlation",
    zero: true,
    marks: names.map((name) => {
      const one = all.find((other) => other.axis === axis && other.label === name);
      const text = `trait ${axis + 1} ${one ? one.measure : "nothing that is sure"}`;
      return { value: one?.strength ?? Number.NaN, text };
    }),
  }));
  const table = [
    ["label", "trait", "measure", "strength"],
    ...all.map(({ label, axis, measure, strength }) => [label, axis + 1, measure, strength]),
  ];
  const about = "How strongly labels go with the axes: rank correlation, 2 AUC − 1, or the root of eta squared.";
  return make("details", {}, [
    make("summary", { text: "As a picture" }),
    make("p", { class: "note", text: about }),
    stripFigure({ title: "What the axes go with", about, file: head.table.source, names, panels, table }),
  ]);
}
