/** One cause as a card: its weights, how often it is on, rows that show it, and how active it is in the picked row. */
import { rowOf } from "../page/arrays.js";
import { make, makeSvg } from "../page/dom.js";
import { barList, barOf, bySize, extentOf, imageOf, shortNumber } from "../page/images.js";
import { strengthsOf } from "./network.js";

/** @import {Arrays, TypedArrayOf} from "../page/arrays.js" */
/** @import {Rows} from "../page/cells.js" */
/** @import {BarOptions, Kind} from "../page/images.js" */
/** @import {State} from "../page/state.js" */

const MOST_NAMES = 8; // in a list, before "more"
const MOST_DRIVEN = 4; // causes below that a card of a higher layer names
const BINS = 28; // of the rows' places along a trait

/**
 * @typedef {object} Page
 * @property {Rows} rows
 * @property {any} head
 * @property {Arrays} arrays
 * @property {State} state
 * @property {Float32Array} means of the columns
 *
 * @typedef {object} LayerView a layer as its cards need it
 * @property {number} number of the layer, from 0
 * @property {string} title
 * @property {string[]} names
 * @property {Array<number | null>} usage
 * @property {number[] | null} foundAgain in how many of `nRounds` fits to parts of the rows
 * @property {number} nRounds
 * @property {string[]} meanings what each goes with; "" where nothing is known to
 * @property {string} kind of its weights
 * @property {string[]} below names of what its weights are on
 * @property {TypedArrayOf} weights
 * @property {TypedArrayOf} active
 * @property {TypedArrayOf} examples
 * @property {TypedArrayOf | undefined} projected
 * @property {number} scale the largest size of the weights as they are shown
 * @property {(cause: number) => Float32Array} shown weights as they are shown
 */

/**
 * @param {any} gallery of the page's head
 * @param {number} number of the layer, from 0
 * @param {Page} page @returns {LayerView}
 */
export function layerView(gallery, number, page) {
  const layer = gallery.layers[number];
  /** @param {string} name */
  const array = (name) => page.arrays[`${layer.arrays}.${name}`];
  const weights = array("weights");
  const strength = gallery.kind === "strength";
  return {
    number,
    title: layer.title,
    names: layer.names,
    usage: layer.usage,
    foundAgain: layer.found_again,
    nRounds: layer.n_rounds,
    meanings: layer.meanings,
    kind: gallery.kind,
    below: number === 0 ? page.head.table.columns : gallery.layers[number - 1].names,
    weights,
    active: array("active"),
    examples: array("examples"),
    projected: array("projected"),
    scale: gallery.kind === "signed" ? Number(extentOf(/** @type {Float32Array} */ (weights.data), "signed")) : 1,
    shown: (cause) => (strength ? strengthsOf(rowOf(weights, cause)) : rowOf(weights, cause)),
  };
}

/**
 * The parts of a card; it is filled when it comes into view.
 * @param {LayerView} layer @param {number} cause @param {Page} page @returns {HTMLElement[]}
 */
export function cardParts(layer, cause, page) {
  const usage = layer.usage[cause];
  const rows = [...rowOf(layer.examples, cause)];
  const parts = [...weightParts(layer, cause, page)];
  const meaning = layer.meanings[cause];
  if (meaning) parts.unshift(make("p", { class: "tiny meaning", text: `Goes with ${meaning}` }));
  if (usage === null) {
    const low = lowest(layer.active, cause, rows.length);
    parts.push(
      make("div", { class: "spread" }),
      exampleRows("High end", rows, page),
      exampleRows("Low end", low, page),
    );
  } else {
    const on = rowsWithIt(layer.active, cause);
    const shown = rows.filter((row) => on.includes(row));
    const few = shown.length < on.length ? `; strongest in ${shown.length}` : "";
    parts.push(usageLine(usage), exampleRows(onWords(on.length, layer.active.shape[0]), shown, page, on, few));
  }
  if (layer.foundAgain) parts.push(againLine(layer.foundAgain[cause], layer.nRounds));
  parts.push(make("div", { class: "picked-line" }));
  return parts;
}

/** @param {LayerView} layer @param {number} cause @param {Page} page */
function* weightParts(layer, cause, page) {
  const shape = page.head.table.image_shape;
  const name = layer.names[cause];
  if (layer.projected) {
    const projected = rowOf(layer.projected, cause);
    if (shape)
      yield imageOf(projected, shape, { kind: "probability", label: `${name}: P(bit = 1) where it alone is on` });
    yield make("p", { class: "tiny", text: "turns on" });
    yield drives(layer, cause);
    if (!shape) {
      yield make("p", { class: "tiny", text: "and so makes likely" });
      yield namedBars(projected, page.head.table.columns, { scale: 1, label: `What ${name} makes likely` });
    }
    return;
  }
  const shown = layer.shown(cause);
  if (shape) {
    const kind = /** @type {Kind} */ (layer.kind);
    yield imageOf(shown, shape, { kind, scale: layer.scale, label: `Weights of ${name}` });
    return;
  }
  const others = layer.kind === "probability" ? page.means : undefined;
  const signed = layer.kind === "signed";
  yield namedBars(shown, layer.below, { scale: layer.scale, signed, label: `Weights of ${name}` }, others);
}

/**
 * Names with the largest weights first; where there are `others` to compare with, those that differ most.
 * @param {Float32Array} values @param {string[]} names @param {BarOptions} options @param {Float32Array} [others]
 */
export function namedBars(values, names, options, others) {
  const order = bySize(others ? values.map((value, j) => value - others[j]) : values);
  const items = order.map((j) => ({ name: names[j], value: values[j], ...(others && { other: others[j] }) }));
  return barList(items, { most: MOST_NAMES, format: weightText, ...options });
}

/** The causes below that it turns on most surely. @param {LayerView} layer @param {number} cause */
function drives(layer, cause) {
  const label = `What ${layer.names[cause]} turns on`;
  const list = namedBars(layer.shown(cause), layer.below, { scale: 1, most: MOST_DRIVEN, label });
  list.classList.add("drives");
  return list;
}

/** @param {number} value */
export function weightText(value) {
  return Math.abs(value) < 0.005 ? "0.00" : shortNumber(value);
}

/** @param {number} usage */
export function usageLine(usage) {
  const text = `${percent(usage)} of rows`;
  return make("div", { class: "usage" }, [barOf(usage), make("span", { text })]);
}

/** How sure a cause is. @param {number} found @param {number} rounds */
export function againLine(found, rounds) {
  const fits = rounds === 1 ? "a fit to a part of the rows" : `fits to ${rounds} parts of the rows`;
  const times = rounds === 1 ? ["not found again", "found again"][found] : `found again ${found} of ${rounds} times`;
  return make("p", {
    class: found < rounds && rounds > 1 ? "tiny unsure" : "tiny", // one round says little
    text: times,
    title: `Of ${fits}, which share rows: whether one of their causes is on in the same rows (correlation 0.9 or more).`,
  });
}

/** @param {number} share */
export function percent(share) {
  return `${share > 0 && share < 0.095 ? (100 * share).toFixed(1) : Math.round(100 * share)} %`;
}

/**
 * Rows in which a cause is more likely on than off, ascending.
 * @param {TypedArrayOf} active @param {number} cause @returns {number[]}
 */
export function rowsWithIt(active, cause) {
  const [n, m] = active.shape;
  return Array.from({ length: n }, (_, row) => row).filter((row) => active.data[row * m + cause] > 0.5);
}

/** @param {number} on rows with P above a half @param {number} n rows looked at */
export function onWords(on, n) {
  return `P > ½ in ${on === 0 ? "none of the" : `${on.toLocaleString("en")} of`} ${n.toLocaleString("en")} rows looked at`;
}

/**
 * Rows whose click picks them.
 * @param {string} title @param {number[]} rows @param {Page} page
 * @param {number[]} [counted] rows whose labels are counted
 * @param {string} [end] of the title
 */
export function exampleRows(title, rows, page, counted = rows, end = "") {
  const { head, rows: table, state } = page;
  const shape = head.table.image_shape;
  const kind = head.table.real ? "real" : "bits";
  const buttons = rows.map((row) => {
    const pick = make("button", {
      type: "button",
      class: shape ? "thumb" : "link example",
      "data-row": row,
      title: `Pick ${table.title(row)}`,
      "aria-pressed": "false",
      onclick: () => state.set({ picked: row }),
    });
    if (shape) {
      const picture = imageOf(table.cells(row), shape, { kind });
      picture.setAttribute("aria-hidden", "true");
      pick.setAttribute("aria-label", `Pick ${table.title(row)}`);
      pick.append(picture);
    } else pick.textContent = table.name(row);
    return pick;
  });
  const kinds = shape ? "" : labelCounts(counted.map((row) => table.kind(row)));
  const of = kinds && `: ${table.table.labels[table.kindLabel()].name} ${kinds}`;
  return make("div", { class: "examples", role: "group", "aria-label": title }, [
    make("p", { class: "tiny", text: title + of + end }),
    make("div", { class: shape ? "thumbs" : "names" }, buttons),
  ]);
}

/**
 * How often each label occurs, the most frequent first: "republican (9), democrat (3)".
 * @param {string[]} labels "" for none
 */
export function labelCounts(labels) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const label of labels) if (label) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts]
    .sort((a, b) => b[1] - a[1])
    .map(([label, count]) => `${label} (${count})`)
    .join(", ");
}

/**
 * The rows in which a column of `active` is least, the least first.
 * @param {TypedArrayOf} active @param {number} column @param {number} most
 */
export function lowest(active, column, most) {
  const [n, m] = active.shape;
  const value = (/** @type {number} */ row) => active.data[row * m + column];
  return Array.from({ length: n }, (_, row) => row)
    .sort((a, b) => value(a) - value(b) || a - b)
    .slice(0, most);
}

/**
 * Show in a filled card how active the cause is in the picked row.
 * @param {HTMLElement} card @param {LayerView} layer @param {number} cause @param {Page} page
 */
export function markPicked(card, layer, cause, page) {
  const { head, rows: table, state } = page;
  const row = state.choices.picked;
  const close = row !== null && row < head.n_close;
  const value = close ? layer.active.data[row * layer.names.length + cause] : Number.NaN;
  const trait = layer.usage[cause] === null;
  for (const one of card.querySelectorAll("[data-row]")) {
    one.setAttribute("aria-pressed", String(row !== null && Number(one.getAttribute("data-row")) === row));
  }
  card.classList.toggle("on", close && !trait && value > 0.5);
  card.querySelector(".spread")?.replaceChildren(spreadOf(layer, cause, value));
  const text = close ? `${table.name(row)}: ${shortNumber(value)}` : "";
  const parts = close && !trait ? [barOf(value), make("span", { text })] : [make("span", { text })];
  card.querySelector(".picked-line")?.replaceChildren(...(close ? parts : []));
}

/**
 * Where the rows are along a trait, and the picked one among them.
 * @param {LayerView} layer @param {number} cause
 * @param {number} value of the picked row, NaN for none
 */
function spreadOf(layer, cause, value) {
  const m = layer.names.length;
  const column = Float32Array.from({ length: layer.active.shape[0] }, (_, row) => layer.active.data[row * m + cause]);
  const { low, high, counts } = histogram(column, BINS);
  const most = Math.max(...counts);
  const [width, height] = [BINS * 5, 30];
  const svg = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", preserveAspectRatio: "none" });
  svg.setAttribute("aria-label", `Places of the rows along it, ${shortNumber(low)} to ${shortNumber(high)}`);
  counts.forEach((count, i) => {
    const size = (height * count) / most;
    svg.append(makeSvg("rect", { x: 5 * i, y: height - size, width: 4.2, height: size }));
  });
  if (!Number.isNaN(value)) {
    const x = (width * (value - low)) / (high - low || 1);
    svg.append(makeSvg("line", { x1: x, x2: x, y1: 0, y2: height, class: "here" }));
  }
  return make("div", {}, [
    svg,
    make("p", { class: "tiny ends" }, [
      make("span", { text: shortNumber(low) }),
      make("span", { text: "rows along it" }),
      make("span", { text: shortNumber(high) }),
    ]),
  ]);
}

/** How many numbers fall into each of equal bins. @param {Float32Array} values @param {number} bins */
export function histogram(values, bins) {
  const [low, high] = /** @type {[number, number]} */ (extentOf(values, "real"));
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(Math.floor((bins * (value - low)) / (high - low)), bins - 1)]++;
  return { low, high, counts };
}
