/** Names on the map: the boxes that they take, and letters that stand out from what is below them. */
import { makeSvg, themeColour } from "../page/dom.js";
/** @import {View} from "./view.js" */

/** @typedef {{left: number, top: number, right: number, bottom: number}} Box in pixels */
/** @typedef {{x: number, y: number, align: CanvasTextAlign}} Anchor of a text, halfway up */

/** Where no name should stand: on the numbers of the axes and on the buttons. @param {View} view @returns {Box[]} */
export function notForNames(view) {
  return [
    { left: 0, top: view.height - 18, right: view.width, bottom: view.height },
    { left: 0, top: 0, right: 22, bottom: view.height },
    { left: view.width - 48, top: 0, right: view.width, bottom: 130 }, // buttons
  ];
}

/** Whether a box is inside the window and over none that is taken. @param {Box} box @param {View} view @param {Box[]} taken */
export function hasRoom(box, view, taken) {
  const inside = box.left >= 2 && box.top >= 2 && box.right <= view.width - 2 && box.bottom <= view.height - 2;
  const meets = (/** @type {Box} */ other) =>
    box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
  return inside && !taken.some(meets);
}

/**
 * Letters with an edge of paper around them.
 * @param {CanvasRenderingContext2D} context @param {string} text @param {Anchor} anchor
 * @param {{paper: string}} colours @param {string} ink
 * @param {number} [edge] pixels
 */
export function drawName(context, text, { x, y, align }, colours, ink, edge = 4) {
  context.textAlign = align;
  context.strokeStyle = colours.paper;
  context.lineWidth = edge;
  context.strokeText(text, x, y);
  context.fillStyle = ink;
  context.fillText(text, x, y);
}

/**
 * The same in a drawing of shapes.
 * @param {string} text @param {Anchor} anchor @param {Record<string, number>} look
 */
export function svgName(text, { x, y, align }, look) {
  const anchor = { left: "start", right: "end", center: "middle" }[String(align)] ?? "middle";
  const edge = { stroke: themeColour("--paper"), "stroke-width": 4, "paint-order": "stroke" };
  return makeSvg("text", { x: tidy(x), y: tidy(y + 4), "text-anchor": anchor, ...edge, ...look, text });
}

/** Two digits are enough for pixels. @param {number} value */
export function tidy(value) {
  return Math.round(value * 100) / 100;
}
