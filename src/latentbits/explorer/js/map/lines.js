/** The lines P(bit = 1 | x) = 0.5 on the map: where they run, and where their names stand. */
import { shortened } from "../page/cells.js";
import { clippedLine } from "./maths.js";
import { drawName, notForNames } from "./names.js";

/** @import {Box} from "./names.js" */
/** @import {View} from "./view.js" */

/**
 * @typedef {object} DrawnLine
 * @property {number} column
 * @property {number[]} ends x1, y1, x2, y2 in pixels
 * @property {number[]} towards the side where P > 0.5: a unit step, in pixels
 * @property {string} text
 * @property {{x: number, y: number, align: CanvasTextAlign, box: Box, dot: number[]}} label its dot is on the line
 */

const MOST_LETTERS = 26;
const LINE_HEIGHT = 14;
const PLACES = [0.04, 0.96, 0.08, 0.92, 0.13, 0.87, 0.18, 0.82, 0.24, 0.76, 0.3, 0.7, 0.38, 0.62, 0.5];

/**
 * @param {View} view @param {number[]} columns @param {string[]} names
 * @param {ArrayLike<number>} weights (2, d)
 * @param {ArrayLike<number>} bias
 * @param {(text: string) => number} widthOf a text, in pixels
 * @returns {DrawnLine[]} those that cross the window
 */
export function layOutLines(view, columns, names, weights, bias, widthOf) {
  const d = bias.length;
  const taken = notForNames(view);
  const seen = columns.flatMap((column) => {
    const [u, v] = [weights[column], weights[d + column]];
    const ends = clippedLine(u, v, bias[column], view.window());
    if (!ends) return [];
    const size = Math.hypot(u, v);
    const pixels = ends.flatMap(({ x, y }) => [view.across(x), view.down(y)]);
    return [{ column, ends: pixels, towards: [u / size, -v / size], text: shortened(names[column], MOST_LETTERS) }];
  });
  return seen.map((line) => {
    const label = bestLabel(line, widthOf(line.text), view, taken, seen);
    taken.push(label.box);
    return { ...line, label };
  });
}

/**
 * Where along its line a name is least in the way: inside the window, over no other name, over few other lines.
 * @param {{ends: number[], towards: number[]}} line
 * @param {number} width of the name
 * @param {View} view @param {Box[]} taken @param {Array<{ends: number[], towards: number[]}>} all
 * @returns {DrawnLine["label"]}
 */
function bestLabel(line, width, view, taken, all) {
  const { ends, towards } = line;
  const frame = { left: 4, top: 4, right: view.width - 4, bottom: view.height - 4 };
  const candidates = PLACES.map((t, k) => {
    const dot = [ends[0] + t * (ends[2] - ends[0]), ends[1] + t * (ends[3] - ends[1])];
    const [x, y] = [dot[0] + 9 * towards[0], dot[1] + 11 * towards[1]];
    /** @type {CanvasTextAlign} */
    const align = towards[0] > 0.3 ? "left" : towards[0] < -0.3 ? "right" : "center";
    const left = x - (align === "left" ? 0 : align === "right" ? width : width / 2);
    const box = { left, top: y - LINE_HEIGHT / 2, right: left + width, bottom: y + LINE_HEIGHT / 2 };
    const outside = width * LINE_HEIGHT - overlap(box, frame);
    const crossed = all.filter((other) => other !== line && isCrossed(box, other)).length;
    const bad = 3 * outside + taken.reduce((sum, other) => sum + overlap(box, other), 0) + 60 * crossed + k;
    return { x, y, align, box, dot, bad };
  });
  return candidates.reduce((best, other) => (other.bad < best.bad ? other : best));
}

/**
 * Whether corners of a box lie on both sides of a line.
 * @param {Box} box @param {{ends: number[], towards: number[]}} line
 */
function isCrossed({ left, top, right, bottom }, { ends, towards }) {
  const sides = [left, right].flatMap((x) =>
    [top, bottom].map((y) => (x - ends[0]) * towards[0] + (y - ends[1]) * towards[1] > 0),
  );
  return sides.includes(true) && sides.includes(false);
}

/** The area that two boxes share. @param {Box} a @param {Box} b */
function overlap(a, b) {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return across > 0 && down > 0 ? across * down : 0;
}

/**
 * Lines with short strokes on the side where the bit is more likely 1 than 0.
 * @param {CanvasRenderingContext2D} context @param {DrawnLine[]} lines
 * @param {{ink: string, paper: string, accent: string}} colours
 * @param {number | null} marked column whose line stands out
 */
export function drawLines(context, lines, colours, marked) {
  context.font = LABEL_FONT;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const line of lines) {
    const chosen = line.column === marked;
    context.strokeStyle = chosen ? colours.accent : colours.ink;
    context.globalAlpha = chosen ? 1 : 0.6;
    context.lineWidth = chosen ? 2.2 : 1.2;
    const [x1, y1, x2, y2] = line.ends;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    for (const [x, y] of strokesAlong(line.ends)) {
      context.moveTo(x, y);
      context.lineTo(x + 5 * line.towards[0], y + 5 * line.towards[1]);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
  for (const line of lines) {
    drawName(context, line.text, line.label, colours, line.column === marked ? colours.accent : colours.ink);
    context.beginPath();
    context.arc(line.label.dot[0], line.label.dot[1], 3, 0, 2 * Math.PI);
    context.fill();
  }
}

export const LABEL_FONT = "600 12px system-ui, sans-serif";

/** Points every 14 pixels along a line. @param {number[]} ends */
export function strokesAlong([x1, y1, x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const many = Math.floor(length / 14);
  return Array.from({ length: many }, (_, k) => {
    const t = (k + 0.5) / many;
    return [x1 + t * (x2 - x1), y1 + t * (y2 - y1)];
  });
}
