/** The picture of the table as a drawing, for papers: its pixels as they are, with names and a scale as text. */
import { shortened } from "../page/cells.js";
import { fileSvg, makeSvg, themeColour } from "../page/dom.js";
import { startOfBlock } from "./blocks.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {Heat} from "./heat.js" */

const WIDE = 640;
const HEAT_HIGH = 720;
const NAME_HIGH = 11; // pixels that a name needs
const HEAT_LETTER = 5.8; // pixels, about
const HEAT_LETTERS = 22;

/**
 * @param {HTMLCanvasElement} canvas a pixel a block
 * @param {Heat} heat @param {Rows} rows @param {string} rowsBy @param {string} columnsBy
 * @returns {string} the text of the file
 */
export function heatSvg(canvas, heat, rows, rowsBy, columnsBy) {
  const high = Math.min(HEAT_HIGH, Math.max(14 * heat.height, 120));
  const down = namesOf(heat.rows, heat.height, high, (i) => rows.name(i));
  const across = namesOf(heat.columns, heat.width, WIDE, (j) => rows.columns[j]);
  const room = (/** @type {Array<{text: string}>} */ names) =>
    10 + HEAT_LETTER * Math.max(0, ...names.map(({ text }) => text.length));
  const [left, top] = [room(down), 30 + room(across)];
  const [width, height] = [left + WIDE + 16, top + high + 34];
  const svg = fileSvg(width, height, 10);
  const title = `${rows.table.source}: rows by ${rowsBy}, columns by ${columnsBy}`;
  svg.append(
    makeSvg("text", { x: 8, y: 18, "font-size": 13, "font-weight": 600, text: title }),
    makeSvg("image", {
      href: canvas.toDataURL("image/png"),
      x: left,
      y: top,
      width: WIDE,
      height: high,
      preserveAspectRatio: "none",
      "image-rendering": "pixelated",
    }),
    makeSvg("rect", { x: left, y: top, width: WIDE, height: high, fill: "none", stroke: themeColour("--line") }),
    ...down.map(({ at, text }) => makeSvg("text", { x: left - 5, y: top + at + 3.5, "text-anchor": "end", text })),
    ...across.map(({ at, text }) =>
      makeSvg("text", { x: 5, y: 3.5, transform: `translate(${left + at} ${top}) rotate(-90)`, text }),
    ),
    makeSvg("text", { x: left, y: top + high + 18, "font-size": 11, text: heatWords(heat, rows) }),
  );
  return new XMLSerializer().serializeToString(svg);
}

/**
 * Names beside their blocks; none where there is no room for all of them.
 * @param {Uint32Array} order @param {number} blocks
 * @param {number} length pixels
 * @param {(k: number) => string} nameOf
 */
function namesOf(order, blocks, length, nameOf) {
  if (blocks < order.length || length / blocks < NAME_HIGH) return [];
  return Array.from({ length: blocks }, (_, k) => ({
    at: ((k + 0.5) * length) / blocks,
    text: shortened(nameOf(order[startOfBlock(k, order.length, blocks)]), HEAT_LETTERS),
  }));
}

/** @param {Heat} heat @param {Rows} rows */
function heatWords(heat, rows) {
  const many = `${heat.rows.length.toLocaleString("en")} rows, ${rows.d.toLocaleString("en")} columns`;
  return `${many}; ${rows.real ? "red: above the mean of a column, blue: below" : "dark: 1, light: 0, yellow: missing"}`;
}
