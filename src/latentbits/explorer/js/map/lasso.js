/** What the rows in the lasso have in common: their kinds, and the columns in which they differ from the rest. */
import { button, captioned, make, tableHead } from "../page/dom.js";
import { imageOf, shortNumber } from "../page/images.js";

/** @import {Label, Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */

const MOST_COLUMNS = 8;
const MOST_LEVELS = 6;

/**
 * @typedef {object} Difference
 * @property {number} column
 * @property {number} inside share of ones (or mean) in the selection
 * @property {number} outside and in the rest
 * @property {number} by inside less outside; of real columns in standard deviations
 */

/**
 * Columns by how much a selection differs from the rest, most first.
 * @param {Rows} rows @param {Uint32Array} selected @returns {Difference[]}
 */
export function differences(rows, selected) {
  const { sds } = rows.overall();
  const all = rows.total ?? rows.sums(null);
  const own = rows.sums(selected);
  const found = [];
  for (let column = 0; column < rows.d; column++) {
    const inside = own.sums[column] / own.counts[column];
    const outside = (all.sums[column] - own.sums[column]) / (all.counts[column] - own.counts[column]);
    const by = rows.real ? (inside - outside) / sds[column] : inside - outside;
    if (Number.isFinite(by)) found.push({ column, inside, outside, by });
  }
  return found.sort((a, b) => Math.abs(b.by) - Math.abs(a.by) || a.column - b.column);
}

/** @param {HTMLElement} element @param {any} head @param {Rows} rows @param {State} state */
export function showSelection(element, head, rows, state) {
  const show = () => {
    const { selected } = state.choices;
    element.replaceChildren();
    if (selected.length === 0) return;
    const found = differences(rows, selected);
    element.append(
      make("h3", {}, [
        `${selected.length.toLocaleString("en")} of ${rows.n.toLocaleString("en")} rows selected `,
        button("clear", () => state.set({ lasso: [] })),
      ]),
      ...kindsOf(head, rows, selected),
      ...(head.table.image_shape ? [differenceImages(rows, found, head.table.image_shape)] : []),
      differenceTable(rows, found),
    );
  };
  state.on(["selected"], show);
}

/** @param {any} head @param {Rows} rows @param {Uint32Array} selected */
function kindsOf(head, rows, selected) {
  return head.table.labels.map((/** @type {Label} */ label, /** @type {number} */ k) => {
    const codes = rows.arrays[`labels.${k}`].data;
    if (label.numeric) return make("p", { text: `${label.name}: ${meansOf(codes, selected)}` });
    const counts = new Map();
    for (const i of selected) counts.set(codes[i], (counts.get(codes[i]) ?? 0) + 1);
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const texts = sorted
      .slice(0, MOST_LEVELS)
      .map(
        ([code, count]) =>
          `${label.levels[code] ?? "not known"} (${count}, ${Math.round((100 * count) / selected.length)} %)`,
      );
    if (sorted.length > MOST_LEVELS) texts.push(`${sorted.length - MOST_LEVELS} more`);
    return make("p", { text: `${label.name}: ${texts.join(", ")}` });
  });
}

/**
 * The mean of numbers that are known, of a selection and of the rest, in words.
 * @param {ArrayLike<number>} numbers @param {Uint32Array} selected
 */
export function meansOf(numbers, selected) {
  const chosen = new Set(selected);
  const sums = [0, 0];
  const counts = [0, 0];
  for (let i = 0; i < numbers.length; i++) {
    if (Number.isNaN(numbers[i])) continue;
    const side = chosen.has(i) ? 0 : 1;
    sums[side] += numbers[i];
    counts[side]++;
  }
  const [inside, outside] = sums.map((sum, side) => shortNumber(sum / counts[side]));
  return `mean ${inside}, of the rest ${outside}`;
}

/**
 * The mean of the selection, of the rest, and what the one has more than the other.
 * @param {Rows} rows @param {Difference[]} found @param {[number, number]} shape
 */
function differenceImages(rows, found, shape) {
  const [inside, outside, by] = [0, 0, 0].map(() => new Float32Array(rows.d).fill(Number.NaN));
  for (const one of found) {
    inside[one.column] = one.inside;
    outside[one.column] = one.outside;
    by[one.column] = one.inside - one.outside;
  }
  const kind = rows.real ? "real" : "probability";
  const figures = /** @type {Array<[string, HTMLCanvasElement]>} */ ([
    ["selected", imageOf(inside, shape, { kind, label: "Mean of the selected rows" })],
    ["the rest", imageOf(outside, shape, { kind, label: "Mean of the other rows" })],
    ["difference", imageOf(by, shape, { kind: "signed", label: "Selected rows less the others" })],
  ]);
  const named = figures.map(([name, canvas]) => captioned(canvas, name));
  return make("div", { class: "three" }, named);
}

/** @param {Rows} rows @param {Difference[]} found */
function differenceTable(rows, found) {
  if (found.length === 0)
    return make("p", { class: "note", text: "These are all rows: there is no rest to compare with." });
  const shown = (/** @type {number} */ value) => (rows.real ? shortNumber(value) : `${Math.round(100 * value)} %`);
  const lines = found.slice(0, MOST_COLUMNS).map(({ column, inside, outside, by }) =>
    make("tr", {}, [
      make("th", { scope: "row", text: rows.columns[column] }),
      make("td", { text: shown(inside) }),
      make("td", { text: shown(outside) }),
      make("td", {
        text: (by > 0 ? "+" : "") + (rows.real ? `${shortNumber(by)} sd` : `${Math.round(100 * by)}`.replace("-", "−")),
      }),
    ]),
  );
  return make("div", { class: "scroll" }, [
    make("table", { class: "differences" }, [
      tableHead(["Differs most in", rows.real ? "mean" : "ones", "the rest", "by"]),
      make("tbody", {}, lines),
    ]),
  ]);
}
