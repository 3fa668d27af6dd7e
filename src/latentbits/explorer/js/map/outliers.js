/** The rows farthest out on the map, and where their names stand. */
import { drawName, hasRoom } from "./names.js";

/** @import {Box} from "./names.js" */
/** @import {View} from "./view.js" */

/** @typedef {{x: number, y: number, align: CanvasTextAlign, text: string, row: number, box: Box}} Named */

const MOST_NAMED = 8;
const CANDIDATES = 80; // rows: the names of some have no room
const GAP = 9; // pixels between a point and its name
const LETTERS_HIGH = 13; // pixels

export const NAME_FONT = "11px system-ui, sans-serif";

/**
 * Rows by how far they are from the middle of all, in standard deviations of all, the farthest first.
 * @param {ArrayLike<number>} means x and y by turns
 * @param {number} [most]
 * @param {Uint32Array | null} [only] rows that count; null for all
 * @returns {number[]}
 */
export function outermost(means, most = CANDIDATES, only = null) {
  const rows = only ?? Uint32Array.from({ length: means.length / 2 }, (_, i) => i);
  const n = rows.length;
  let [x, y, xx, yy, xy] = [0, 0, 0, 0, 0];
  for (const i of rows) {
    x += means[2 * i] / n;
    y += means[2 * i + 1] / n;
  }
  for (const i of rows) {
    const [a, b] = [means[2 * i] - x, means[2 * i + 1] - y];
    xx += (a * a) / n;
    yy += (b * b) / n;
    xy += (a * b) / n;
  }
  const size = xx * yy - xy * xy;
  const flat = !(size > 1e-9 * xx * yy); // all on one line
  const far = Float64Array.from(rows, (i) => {
    const [a, b] = [means[2 * i] - x, means[2 * i + 1] - y];
    return flat ? a * a + b * b : (yy * a * a - 2 * xy * a * b + xx * b * b) / size;
  });
  return Array.from(rows.keys())
    .sort((i, j) => far[j] - far[i] || i - j)
    .slice(0, most)
    .map((k) => rows[k]);
}

/**
 * Names beside their points, inside the window, none over another or over what is taken; those without room are left
 * out.
 * @param {View} view
 * @param {Array<{row: number, x: number, y: number, text: string}>} wanted places of the map, the most wanted first
 * @param {(text: string) => number} widthOf a text, in pixels
 * @param {Box[]} taken @returns {Named[]}
 */
export function layOutNames(view, wanted, widthOf, taken) {
  /** @type {Named[]} */
  const placed = [];
  for (const { row, x, y, text } of wanted) {
    if (placed.length >= MOST_NAMED) break;
    const [across, down] = [view.across(x), view.down(y)];
    if (across < 0 || down < 0 || across > view.width || down > view.height) continue;
    const notHere = [...taken, ...placed.map((other) => other.box)];
    const found = placesBeside(across, down, widthOf(text)).find(({ box }) => hasRoom(box, view, notHere));
    if (found) placed.push({ ...found, row, text });
  }
  return placed;
}

/**
 * @param {number} across @param {number} down
 * @param {number} width of the text
 * @returns {Array<Omit<Named, "text" | "row">>} right, left, above, below
 */
function placesBeside(across, down, width) {
  const sides = /** @type {Array<[number, number, CanvasTextAlign, number]>} */ ([
    [across + GAP, down, "left", 0],
    [across - GAP, down, "right", -width],
    [across, down - GAP - 4, "center", -width / 2],
    [across, down + GAP + 4, "center", -width / 2],
  ]);
  return sides.map(([x, y, align, left]) => {
    const box = { left: x + left, top: y - LETTERS_HIGH / 2, right: x + left + width, bottom: y + LETTERS_HIGH / 2 };
    return { x, y, align, box };
  });
}

/** @param {CanvasRenderingContext2D} context @param {Named[]} names @param {{ink: string, paper: string}} colours */
export function drawNames(context, names, colours) {
  context.font = NAME_FONT;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const name of names) drawName(context, name.text, name, colours, colours.ink, 3);
}
