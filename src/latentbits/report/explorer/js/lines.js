/** The lines P(bit = 1 | x) = 0.5 on the map: where they run, and where their names stand. */
import { clipped } from "./images.js";
import { clippedLine } from "./maths.js";

/**
 * @typedef {{left: number, top: number, right: number, bottom: number}} Box in pixels
 * @typedef {object} DrawnLine
 * @property {number} column
 * @property {number[]} ends x1, y1, x2, y2 in pixels
 * @property {number[]} towards the side where P > 0.5: a unit step, in pixels
 * @property {string} text
 * @property {{x: number, y: number, align: CanvasTextAlign, box: Box}} label
 */

const MOST_LETTERS = 26;
const LINE_HEIGHT = 14;
const PLACES = [0.03, 0.97, 0.1, 0.9, 0.18, 0.82, 0.27, 0.73, 0.37, 0.63, 0.5];

/**
 * @param {import("./view.js").View} view
 * @param {number[]} columns
 * @param {string[]} names
 * @param {ArrayLike<number>} weights (2, d)
 * @param {ArrayLike<number>} bias
 * @param {(text: string) => number} widthOf a text, in pixels
 * @returns {DrawnLine[]} those that cross the window
 */
export function layOutLines(view, columns, names, weights, bias, widthOf) {
  const d = bias.length;
  /** @type {Box[]} */
  const taken = [
    { left: 0, top: view.height - 18, right: view.width, bottom: view.height },
    { left: 0, top: 0, right: 22, bottom: view.height },
  ];
  const lines = [];
  for (const column of columns) {
    const [u, v] = [weights[column], weights[d + column]];
    const ends = clippedLine(u, v, bias[column], view.window());
    if (!ends) continue;
    const [a, b] = ends.map(({ x, y }) => [view.across(x), view.down(y)]);
    const size = Math.hypot(u, v);
    const towards = [u / size, -v / size];
    const text = clipped(names[column], MOST_LETTERS);
    const label = bestLabel([...a, ...b], towards, widthOf(text), view, taken);
    taken.push(label.box);
    lines.push({ column, ends: [...a, ...b], towards, text, label });
  }
  return lines;
}

/**
 * The first place along the line where the name covers no other; else where it covers least.
 *
 * @param {number[]} ends
 * @param {number[]} towards
 * @param {number} width
 * @param {import("./view.js").View} view
 * @param {Box[]} taken
 */
function bestLabel(ends, towards, width, view, taken) {
  let best = null;
  let least = Infinity;
  for (const t of PLACES) {
    const x = ends[0] + t * (ends[2] - ends[0]) + 9 * towards[0];
    const y = ends[1] + t * (ends[3] - ends[1]) + 11 * towards[1];
    /** @type {CanvasTextAlign} */
    const align = towards[0] > 0.3 ? "left" : towards[0] < -0.3 ? "right" : "center";
    const left = x - (align === "left" ? 0 : align === "right" ? width : width / 2);
    const box = { left, top: y - LINE_HEIGHT / 2, right: left + width, bottom: y + LINE_HEIGHT / 2 };
    const outside =
      width * LINE_HEIGHT - overlap(box, { left: 4, top: 4, right: view.width - 4, bottom: view.height - 4 });
    const bad = 3 * outside + taken.reduce((sum, other) => sum + overlap(box, other), 0);
    if (bad < least) {
      least = bad;
      best = { x, y, align, box };
    }
    if (bad === 0) break;
  }
  return /** @type {DrawnLine["label"]} */ (best);
}

/**
 * The area that two boxes share.
 *
 * @param {Box} a
 * @param {Box} b
 */
function overlap(a, b) {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return across > 0 && down > 0 ? across * down : 0;
}

/**
 * Lines with short strokes on the side where the bit is more likely 1 than 0.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {DrawnLine[]} lines
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
    context.textAlign = line.label.align;
    context.strokeStyle = colours.paper;
    context.lineWidth = 4;
    context.strokeText(line.text, line.label.x, line.label.y);
    context.fillStyle = line.column === marked ? colours.accent : colours.ink;
    context.fillText(line.text, line.label.x, line.label.y);
  }
}

export const LABEL_FONT = "600 12px system-ui, sans-serif";

/**
 * Points every 14 pixels along a line.
 *
 * @param {number[]} ends
 */
export function strokesAlong([x1, y1, x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const many = Math.floor(length / 14);
  return Array.from({ length: many }, (_, k) => {
    const t = (k + 0.5) / many;
    return [x1 + t * (x2 - x1), y1 + t * (y2 - y1)];
  });
}
