/** Files of the map: a picture as it is seen, positions, completions. */
import { make, say, themeColour } from "../page/dom.js";
import { downloadRow, fileName, saveBlob, saveCsv, savePng } from "../page/downloads.js";
import { completed } from "../row/posterior.js";
import { startOn } from "./grounds.js";
import { legendEntries } from "./legend.js";
import { mapSvg } from "./mapsvg.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {MapFigure} from "./figure.js" */
/** @import {Ground} from "./grounds.js" */

/** @typedef {Array<Array<string | number | null>>} CsvRows */

const LEGEND_FONT = "13px system-ui, sans-serif";
const MOST_IN_SVG = 5000; // points
const COMPLETIONS = "CSV of completions";
const SLICE = 30; // milliseconds of work before the page may draw

/** @param {any} head @param {Rows} rows @param {MapFigure} figure @param {State} state */
export function mapDownloads(head, rows, figure, state) {
  const name = (/** @type {string} */ what, /** @type {string} */ end) =>
    fileName(head.table.source, figure.ground.number === null ? what : `${what}-${figure.ground.number + 1}`, end);
  const chosen = () => {
    const { selected } = state.choices;
    return selected.length ? selected : (figure.ground.rows ?? Uint32Array.from({ length: rows.n }, (_, i) => i));
  };
  const actions = /** @type {Array<[string, () => void]>} */ ([
    ["PNG", () => savePng(mapPicture(figure), name("map", "png"))],
  ]);
  if (figure.points.n <= MOST_IN_SVG) {
    actions.push(["SVG", () => saveBlob(new Blob([mapSvg(figure)], { type: "image/svg+xml" }), name("map", "svg"))]);
  }
  actions.push(["CSV of positions", () => saveCsv(positions(rows, chosen(), figure.ground), name("positions", "csv"))]);
  if (rows.missing) {
    actions.push([
      COMPLETIONS,
      async () => saveCsv(await completions(rows, chosen(), figure.ground), name("completions", "csv")),
    ]);
  }
  const row = downloadRow("the map", actions);
  const filled = [...row.querySelectorAll("button")].find(({ textContent }) => textContent === COMPLETIONS);
  state.on(["map"], ({ map }) => {
    if (filled) filled.hidden = map !== null; // a hole is filled by all maps, of which this is one
  });
  const note = make("span", { class: "note" });
  const show = () => {
    const many = state.choices.selected.length;
    note.textContent = many ? `(CSV files will hold the ${many.toLocaleString("en")} selected rows alone)` : "";
  };
  state.on(["selected"], show);
  row.append(note);
  return row;
}

/**
 * One line a row: where it is, how sure that is, how surprising it is; of several maps also which, and how probably.
 * @param {Rows} rows @param {Uint32Array} chosen @param {Ground} ground @returns {CsvRows}
 */
function positions(rows, chosen, ground) {
  const names = rows.table.labels.map((/** @type {{name: string}} */ label) => label.name);
  /** @type {CsvRows} */
  const lines = [["row", "name", ...names, "trait 1", "trait 2", "sd 1", "sd 2", "surprise in bits"]];
  const { cost, number, sure } = ground;
  if (sure) lines[0].push("map", "probability of the map");
  for (const i of chosen) {
    const { mean, covariance } = startOn(ground, i);
    const numbers = [...mean, Math.sqrt(covariance[0]), Math.sqrt(covariance[1]), cost[i]];
    if (sure && number !== null) numbers.push(number + 1, sure[i]);
    lines.push([...whoIs(rows, i), ...numbers.map(rounded)]);
  }
  return lines;
}

/** @param {Rows} rows @param {number} i */
function whoIs(rows, i) {
  return [rows.number(i), rows.table.row_names?.[i] ?? "", ...rows.labels(i).map(([, level]) => level)];
}

/**
 * Rows with something missing, their holes filled.  There may be many: the page stays awake meanwhile.
 * @param {Rows} rows @param {Uint32Array} chosen @param {Ground} ground @returns {Promise<CsvRows>}
 */
async function completions(rows, chosen, ground) {
  const names = rows.table.labels.map((/** @type {{name: string}} */ label) => label.name);
  /** @type {CsvRows} */
  const lines = [["row", "name", ...names, ...rows.columns]];
  let since = performance.now();
  for (const [k, i] of chosen.entries()) {
    const cells = rows.cells(i);
    if (!cells.some(Number.isNaN)) continue;
    lines.push([...whoIs(rows, i), ...Array.from(completed(ground, cells, startOn(ground, i)), rounded)]);
    if (performance.now() - since < SLICE) continue;
    say(`Completions: ${Math.round((100 * k) / chosen.length)} %`);
    await new Promise((resolve) => setTimeout(resolve));
    since = performance.now();
  }
  return lines;
}

/** Seven digits are what single precision holds. @param {number} value */
function rounded(value) {
  return Number(value.toPrecision(7));
}

/** The map as it is seen, with its legend below, at least two pixels to one. @param {MapFigure} figure */
function mapPicture(figure) {
  const { view } = figure;
  const ratio = Math.max(2, figure.ratio);
  const points = make("canvas");
  points.width = view.width * ratio;
  points.height = view.height * ratio;
  figure.points.draw(points, view, ratio);
  const whole = make("canvas");
  const context = whole.getContext("2d");
  if (!context) return points;
  const entries = legendEntries(figure.colouring, view.width, (text) => {
    context.font = LEGEND_FONT;
    return context.measureText(text).width;
  });
  whole.width = points.width;
  whole.height = points.height + ratio * (entries.height + 10);
  context.fillStyle = themeColour("--paper");
  context.fillRect(0, 0, whole.width, whole.height);
  context.drawImage(points, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  figure.drawMarks(context);
  context.translate(0, view.height);
  context.font = LEGEND_FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const { x, y, text, colour } of entries.items) {
    if (colour) {
      context.fillStyle = colour;
      context.beginPath();
      context.arc(x, y, 5, 0, 2 * Math.PI);
      context.fill();
    }
    context.fillStyle = themeColour("--ink");
    context.fillText(text, x + (colour ? 10 : 0), y);
  }
  return whole;
}
