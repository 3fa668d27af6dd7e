/** Columns as arrows from the middle of the map: where each grows, and how much. */
import { shortened } from "../page/cells.js";
import { sigmoid } from "./maths.js";
import { drawName, hasRoom, notForNames } from "./names.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {Box} from "./names.js" */
/** @import {View} from "./view.js" */

/**
 * @typedef {object} Arrow
 * @property {number} column
 * @property {number[]} from x and y, in pixels
 * @property {number[]} to
 * @property {string} text
 * @property {number} reach
 * @property {{x: number, y: number, align: CanvasTextAlign, box: Box}} label
 */

const MOST_ARROWS = 12;
const ARROW_CANDIDATES = 40; // columns: the names of some have no room
const LONGEST = 0.4; // of the smaller side of the window, as it is at first
const LEAST = 0.15; // of the longest: shorter arrows say nothing
const ARROW_LETTERS = 24;
const ARROW_NAME_HIGH = 14; // pixels
const BESIDE = [0, -15, 15]; // pixels that a name may be above or below its place
const HEAD = 8; // pixels
const NEAR = 5; // pixels

export const ARROW_FONT = "600 12px system-ui, sans-serif";

/**
 * How much a column changes between one unit of a trait on either side of the middle.
 * @param {number} weight on the trait
 * @param {number} bias @param {boolean} real
 * @param {number} sd of a real column
 * @returns {number} of a bit the difference of P(bit = 1); of a real column that of its mean, in standard deviations
 */
export function reachOf(weight, bias, real, sd) {
  if (real) return sd > 0 ? (2 * weight) / sd : 0;
  return sigmoid(bias + weight) - sigmoid(bias - weight);
}

/**
 * The columns that change most along their own direction, most first.
 * @param {ArrayLike<number>} weights (2, d)
 * @param {ArrayLike<number>} bias @param {boolean} real @param {ArrayLike<number>} sds
 * @returns {Array<{column: number, reach: number, towards: number[]}>}
 */
export function strongestColumns(weights, bias, real, sds) {
  const d = bias.length;
  const all = Array.from({ length: d }, (_, column) => {
    const [u, v] = [weights[column], weights[d + column]];
    const size = Math.hypot(u, v);
    return { column, reach: reachOf(size, bias[column], real, sds[column]), towards: [u / size, v / size] };
  });
  const found = all.filter(({ reach }) => reach > 0).sort((a, b) => b.reach - a.reach || a.column - b.column);
  return found.filter(({ reach }) => reach >= LEAST * found[0].reach).slice(0, ARROW_CANDIDATES);
}

/**
 * Arrows whose names have room, the strongest first.
 * @param {View} view @param {ReturnType<typeof strongestColumns>} strongest @param {string[]} names
 * @param {(text: string) => number} widthOf a text, in pixels
 * @returns {Arrow[]}
 */
export function layOutArrows(view, strongest, names, widthOf) {
  if (strongest.length === 0) return [];
  const unit = (LONGEST * Math.min(view.width, view.height)) / view.home.scale / strongest[0].reach;
  const taken = notForNames(view);
  /** @type {Arrow[]} */
  const placed = [];
  for (const { column, reach, towards } of strongest) {
    if (placed.length >= MOST_ARROWS) break;
    const from = [view.across(0), view.down(0)];
    const to = [view.across(unit * reach * towards[0]), view.down(unit * reach * towards[1])];
    const text = shortened(names[column], ARROW_LETTERS);
    const places = labelsAt(to, [towards[0], -towards[1]], widthOf(text), view.width);
    const label = places.find(({ box }) => hasRoom(box, view, taken));
    if (!label) continue;
    taken.push(label.box);
    placed.push({ column, from, to, text, reach, label });
  }
  return placed;
}

/**
 * A name beyond the tip of its arrow, or a little above or below that.
 * @param {number[]} tip
 * @param {number[]} towards a unit step, in pixels
 * @param {number} width of the name
 * @param {number} most of the window
 * @returns {Array<Arrow["label"]>} the best first
 */
function labelsAt([across, down], towards, width, most) {
  /** @type {CanvasTextAlign} */
  const align = towards[0] > 0.3 ? "left" : towards[0] < -0.3 ? "right" : "center";
  const before = align === "left" ? 0 : align === "right" ? width : width / 2;
  const wanted = across + 8 * towards[0];
  const x = Math.min(Math.max(wanted, before + 2), most - 2 - (width - before));
  return BESIDE.map((off) => {
    const y = down + 11 * towards[1] + off;
    const [top, bottom] = [y - ARROW_NAME_HIGH / 2, y + ARROW_NAME_HIGH / 2];
    return { x, y, align, box: { left: x - before, top, right: x - before + width, bottom } };
  });
}

/** The lines of a head, in pixels. @param {Arrow} arrow @returns {number[][]} three corners, the tip in the middle */
export function arrowHead({ from, to }) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const [u, v] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  const size = Math.min(HEAD, length / 2);
  const back = [to[0] - size * u, to[1] - size * v];
  return [
    [back[0] - (size / 2) * v, back[1] + (size / 2) * u],
    to,
    [back[0] + (size / 2) * v, back[1] - (size / 2) * u],
  ];
}

/**
 * @param {CanvasRenderingContext2D} context @param {Arrow[]} arrows
 * @param {{ink: string, paper: string, accent: string}} colours
 * @param {number | null} marked column whose arrow stands out
 */
export function drawArrows(context, arrows, colours, marked) {
  context.lineJoin = "round";
  context.lineCap = "round";
  for (const arrow of arrows) {
    const chosen = arrow.column === marked;
    const [left, tip, right] = arrowHead(arrow);
    for (const [width, colour] of /** @type {Array<[number, string]>} */ ([
      [4, colours.paper],
      [chosen ? 2.4 : 1.5, chosen ? colours.accent : colours.ink],
    ])) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.beginPath();
      context.moveTo(arrow.from[0], arrow.from[1]);
      context.lineTo(tip[0], tip[1]);
      context.moveTo(left[0], left[1]);
      context.lineTo(tip[0], tip[1]);
      context.lineTo(right[0], right[1]);
      context.stroke();
    }
  }
  context.lineCap = "butt";
  context.font = ARROW_FONT;
  context.textBaseline = "middle";
  for (const { column, text, label } of arrows) {
    drawName(context, text, label, colours, column === marked ? colours.accent : colours.ink);
  }
}

/**
 * The arrow whose name or tip is under the cursor.
 * @param {Arrow[]} arrows
 * @param {number} x pixels
 * @param {number} y @returns {Arrow | null}
 */
export function arrowAt(arrows, x, y) {
  const over = arrows.find(({ label: { box }, to }) => {
    const named = x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
    return named || Math.hypot(x - to[0], y - to[1]) <= NEAR;
  });
  return over ?? null;
}

/**
 * The meaning of an arrow, in words.
 * @param {Arrow} arrow @param {Rows} rows
 * @param {ArrayLike<number>} weights (2, d)
 * @param {ArrayLike<number>} bias
 * @returns {string[]} lines
 */
export function arrowWords({ column, reach }, rows, weights, bias) {
  const size = Math.hypot(weights[column], weights[rows.d + column]);
  const chance = (/** @type {number} */ logit) => sigmoid(logit).toFixed(2);
  const much = rows.real
    ? `${reach.toFixed(2)} standard deviations more one unit along its arrow than one unit against it`
    : `P = ${chance(bias[column] + size)} one unit along its arrow, ${chance(bias[column] - size)} one unit against it`;
  return [rows.columns[column], much];
}
