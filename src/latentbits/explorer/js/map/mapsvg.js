/** The map as a drawing of shapes, for papers: each place a circle, or slices of one. */
import { fileSvg, makeSvg, themeColour } from "../page/dom.js";
import { arrowHead } from "./arrows.js";
import { legendEntries } from "./legend.js";
import { strokesAlong } from "./lines.js";
import { roundTicks } from "./maths.js";
import { svgName, tidy } from "./names.js";
import { titleOf } from "./points.js";
/** @import {Arrow} from "./arrows.js" */
/** @import {MapFigure} from "./figure.js" */
/** @import {DrawnLine} from "./lines.js" */
/** @import {View} from "./view.js" */

/** @param {MapFigure} figure @returns {string} the text of the file */
export function mapSvg(figure) {
  const { view, colouring } = figure;
  const entries = legendEntries(colouring, view.width, (text) => 7 * text.length);
  const [width, height] = [view.width, view.height + entries.height + 10];
  const svg = fileSvg(width, height, 12);
  svg.append(svgGround(view, figure.points.axes));
  const inside = makeSvg("svg", { width: view.width, height: view.height });
  const names = figure.names((text) => 6.2 * text.length);
  const columns = [...figure.laidOut().map(svgLine), ...figure.laidOutArrows().map(svgArrow)];
  inside.append(
    svgDots(figure),
    ...columns,
    ...names.map((name) => svgName(name.text, name, { "font-size": 11, "stroke-width": 3 })),
  );
  svg.append(inside);
  for (const { x, y, text, colour } of entries.items) {
    if (colour) svg.append(makeSvg("circle", { cx: x, cy: view.height + y, r: 5, fill: colour }));
    svg.append(makeSvg("text", { x: x + (colour ? 10 : 0), y: view.height + y + 4, text }));
  }
  return new XMLSerializer().serializeToString(svg);
}

/** @param {View} view @param {[string, string]} axes */
function svgGround(view, axes) {
  const titles = axes.map(titleOf);
  const w = view.window();
  const across = roundTicks(w.left, w.right, view.width / 90);
  const up = roundTicks(w.bottom, w.top, view.height / 90);
  const group = makeSvg("g", { stroke: "none", fill: themeColour("--grey"), "font-size": 11 });
  const stroke = themeColour("--line");
  for (const tick of across.ticks) {
    const x = tidy(view.across(tick));
    group.append(makeSvg("line", { x1: x, x2: x, y1: 0, y2: view.height, stroke, "stroke-width": 0.5 }));
    const text = tick.toFixed(across.digits).replace("-", "−");
    if (x > 40 && x < view.width - 24 - 7 * titles[0].length)
      group.append(makeSvg("text", { x, y: view.height - 4, "text-anchor": "middle", text }));
  }
  for (const tick of up.ticks) {
    const y = tidy(view.down(tick));
    group.append(makeSvg("line", { x1: 0, x2: view.width, y1: y, y2: y, stroke, "stroke-width": 0.5 }));
    const text = tick.toFixed(up.digits).replace("-", "−");
    if (y > 24 + 7 * titles[1].length && y < view.height - 24) group.append(makeSvg("text", { x: 4, y: y + 4, text }));
  }
  const look = { "font-weight": 600, "text-anchor": "end", fill: themeColour("--ink") };
  group.append(
    makeSvg("text", { ...look, x: view.width - 6, y: view.height - 4, text: titles[0] }),
    makeSvg("text", { ...look, x: -6, y: 14, transform: "rotate(-90)", text: titles[1] }),
  );
  return group;
}

/** @param {MapFigure} figure */
function svgDots({ points, view }) {
  const group = makeSvg("g", { stroke: themeColour("--paper"), "stroke-width": 0.7 });
  const radii = points.radii(view);
  for (const g of points.order) {
    const r = tidy(radii[g]);
    if (r === 0) continue;
    const [x, y] = [tidy(view.across(points.xs[g])), tidy(view.down(points.ys[g]))];
    const opacity = tidy(points.alphas[g] * points.solid());
    const shares = points.shares.get(g) ?? [points.codes[g], 1];
    let turn = 0;
    for (let k = 0; k < shares.length; k += 2) {
      const look = { fill: points.colours[shares[k]], "fill-opacity": opacity };
      if (shares.length === 2) group.append(makeSvg("circle", { cx: x, cy: y, r, ...look }));
      else group.append(makeSvg("path", { d: slice(x, y, r, turn, turn + shares[k + 1]), ...look }));
      turn += shares[k + 1];
    }
  }
  return group;
}

/**
 * A slice of a cake, clockwise from the top.
 * @param {number} x @param {number} y @param {number} r
 * @param {number} from turns
 * @param {number} to
 */
function slice(x, y, r, from, to) {
  const at = (/** @type {number} */ turn) =>
    `${tidy(x + r * Math.sin(2 * Math.PI * turn))} ${tidy(y - r * Math.cos(2 * Math.PI * turn))}`;
  return `M ${x} ${y} L ${at(from)} A ${r} ${r} 0 ${to - from > 0.5 ? 1 : 0} 1 ${at(to)} Z`;
}

/** @param {DrawnLine} line */
function svgLine({ ends, towards, text, label }) {
  const [x1, y1, x2, y2] = ends.map(tidy);
  const strokes = strokesAlong(ends).map(
    ([x, y]) => `M ${tidy(x)} ${tidy(y)} l ${tidy(5 * towards[0])} ${tidy(5 * towards[1])}`,
  );
  return makeSvg("g", {}, [
    makeSvg("path", {
      d: `M ${x1} ${y1} L ${x2} ${y2} ${strokes.join(" ")}`,
      fill: "none",
      stroke: themeColour("--ink"),
      "stroke-opacity": 0.6,
    }),
    makeSvg("circle", { cx: tidy(label.dot[0]), cy: tidy(label.dot[1]), r: 3 }),
    svgName(text, label, { "font-weight": 600 }),
  ]);
}

/** @param {Arrow} arrow */
function svgArrow(arrow) {
  const { from, text, label } = arrow;
  const [left, tip, right] = arrowHead(arrow).map((place) => place.map(tidy).join(" "));
  const d = `M ${from.map(tidy).join(" ")} L ${tip} M ${left} L ${tip} L ${right}`;
  const look = { fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round" };
  return makeSvg("g", { class: "arrow" }, [
    makeSvg("path", { d, ...look, stroke: themeColour("--paper"), "stroke-width": 4 }),
    makeSvg("path", { d, ...look, stroke: themeColour("--ink"), "stroke-width": 1.5 }),
    svgName(text, label, { "font-weight": 600 }),
  ]);
}
