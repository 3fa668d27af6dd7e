/** Numbers of named things as SVG, a line each: points with whiskers in one panel or several, saved like a chart. */
import { niceTicks, scaleOf } from "./axes.js";
import { shortened } from "./cells.js";
import { emptyPlot, plotFigure, tickText } from "./charts.js";
import { makeSvg } from "./dom.js";

const LINE_HIGH = 19;
const ABOVE_HIGH = 16; // of a name above its line
const TOP = 24;
const STRIP_LETTER = 7.3; // pixels, about

/**
 * @typedef {{value: number, low?: number, high?: number, other?: number, text: string}} Mark `low` to `high`: whiskers;
 *   `other`: a second number, a hollow point joined to the first; `text`: what the line below says of it
 * @typedef {{title: string, axis: string, marks: Mark[], zero?: boolean}} Panel a mark for each name; `zero`: a line marks
 *   it
 * @typedef {object} Strips
 * @property {string} title
 * @property {string} about
 * @property {string} file the beginning of file names
 * @property {string[]} names
 * @property {Panel[]} panels
 * @property {Array<Array<string | number | null>>} table all numbers, the first line their names
 */

/** @param {Strips} strips */
export function stripFigure(strips) {
  const { title, file, table } = strips;
  return plotFigure({ title, file, rows: table, draw: (narrow, readout) => drawStrips(strips, narrow, readout) });
}

/**
 * Where the panels are: side by side, or on a narrow screen one below the other.
 * @param {Strips} strips @param {boolean} narrow
 */
function stripFrames(strips, narrow) {
  const { names, panels } = strips;
  const width = narrow ? 380 : 760;
  const longest = Math.max(...names.map((name) => name.length), 4);
  // where a name is too long to stand beside its line, all stand above theirs
  const above = longest > (narrow ? 16 : 36) ? ABOVE_HIGH : 0;
  const letters = Math.min(longest, above ? Math.floor(width / STRIP_LETTER) : longest);
  const left = above ? 0 : 10 + letters * STRIP_LETTER;
  const lineHigh = LINE_HIGH + above;
  const high = lineHigh * names.length;
  const each = narrow ? width - left - 12 : (width - left - 12) / panels.length;
  const block = TOP + high + 40;
  // one scale for all, so that they can be compared
  const domain = domainOf(
    panels.flatMap(({ marks }) => marks),
    panels.some(({ zero }) => zero),
  );
  const frames = panels.map((_, k) => {
    const from = narrow ? left : left + k * each;
    const top = TOP + (narrow ? k * block : 0);
    return { left: from + 10, right: from + each - 8, top, bottom: top + high, domain };
  });
  return { width, height: narrow ? panels.length * block : block, letters, left, above, lineHigh, frames };
}

/** @param {Mark[]} marks @param {boolean} zero @returns {[number, number]} */
function domainOf(marks, zero) {
  const all = marks.flatMap(({ value, low, high, other }) => [value, low, high, other]);
  const there = /** @type {number[]} */ (all.filter((one) => one !== undefined && Number.isFinite(one)));
  if (zero || there.length === 0) there.push(0);
  const [low, high] = [Math.min(...there), Math.max(...there)];
  const margin = 0.04 * (high - low || 1);
  return [low - margin, high + margin];
}

/** @param {Strips} strips @param {boolean} narrow @param {HTMLElement} readout */
function drawStrips(strips, narrow, readout) {
  const { width, height, letters, left, above, lineHigh, frames } = stripFrames(strips, narrow);
  const svg = emptyPlot("plot strips", width, height, strips);
  strips.panels.forEach((panel, k) => {
    const { top, bottom, right, domain } = frames[k];
    const x = scaleOf(domain, [frames[k].left, right]);
    const middle = (frames[k].left + right) / 2;
    svg.append(makeSvg("text", { class: "panel", x: middle, y: top - 9, "text-anchor": "middle", text: panel.title }));
    for (const tick of niceTicks(...domain, narrow ? 5 : Math.max(2, 14 / strips.panels.length))) {
      const look = tick === 0 && panel.zero ? "zero" : "grid";
      svg.append(makeSvg("line", { class: look, x1: x(tick), x2: x(tick), y1: top, y2: bottom }));
      const text = { class: "tick", x: x(tick), y: bottom + 14, "text-anchor": "middle", text: tickText(tick) };
      svg.append(makeSvg("text", text));
    }
    svg.append(
      makeSvg("text", { class: "axis", x: middle, y: bottom + 31, "text-anchor": "middle", text: panel.axis }),
    );
    strips.names.forEach((name, i) => {
      const y = top + lineHigh * i + above + LINE_HIGH / 2;
      if (k === 0 || narrow) {
        const own = above ? { x: 0, y: y - 9, "text-anchor": "start" } : { x: left, y: y + 4, "text-anchor": "end" };
        svg.append(makeSvg("text", { class: "name", ...own, text: shortened(name, letters) }));
      }
      svg.append(...markOf(panel.marks[i], x, y));
    });
  });
  svg.append(makeSvg("rect", { class: "cursor", display: "none", "data-screen": "", width, x: 0, height: lineHigh }));
  followLines(svg, strips, height, lineHigh, frames, readout);
  return svg;
}

/** @param {Mark} mark @param {(value: number) => number} x @param {number} y */
function* markOf({ value, low, high, other }, x, y) {
  if (!Number.isFinite(value)) return;
  const sure = low !== undefined && high !== undefined && (low > 0 || high < 0);
  const look = low === undefined || sure ? "whisker" : "whisker unsure";
  if (low !== undefined && high !== undefined) {
    const [a, b] = [x(low).toFixed(1), x(high).toFixed(1)];
    yield makeSvg("path", {
      class: look,
      d: `M ${a} ${y} H ${b} M ${a} ${y - 4} V ${y + 4} M ${b} ${y - 4} V ${y + 4}`,
    });
  }
  if (other !== undefined && Number.isFinite(other)) {
    yield makeSvg("line", { class: "whisker", x1: x(other), x2: x(value), y1: y, y2: y });
    yield makeSvg("circle", { class: "spot hollow", cx: x(other), cy: y, r: 4 });
  }
  yield makeSvg("circle", { class: look === "whisker" ? "spot" : "spot unsure", cx: x(value), cy: y, r: 4 });
}

/**
 * The line under the pointer, or that arrow keys lead to, in words.
 * @param {SVGElement} svg @param {Strips} strips @param {number} height @param {number} lineHigh
 * @param {ReturnType<typeof stripFrames>["frames"]} frames @param {HTMLElement} readout
 */
function followLines(svg, strips, height, lineHigh, frames, readout) {
  const cursor = /** @type {SVGElement} */ (svg.querySelector(".cursor"));
  let at = -1;
  const show = (/** @type {number} */ top) => {
    cursor.setAttribute("y", String(top + lineHigh * at));
    cursor.removeAttribute("display");
    readout.textContent = `${strips.names[at]}: ${strips.panels.map(({ marks }) => marks[at].text).join("; ")}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const y = (event.clientY - box.top) * (height / box.height);
    const frame = frames.find(({ top, bottom }) => y >= top && y < bottom);
    if (!frame) return;
    at = Math.min(Math.floor((y - frame.top) / lineHigh), strips.names.length - 1);
    show(frame.top);
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("display", "none");
    readout.textContent = "\u00a0";
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || strips.names.length === 0) return;
    event.preventDefault();
    at = Math.min(Math.max(at + step, 0), strips.names.length - 1);
    show(frames[0].top);
  });
}
