/** Line charts as SVG: axes, labels beside the lines, values under the pointer or the arrow keys, and a table of all. */
import { logTicks, niceTicks, scaleOf, spreadApart } from "./axes.js";
import { make, makeSvg } from "./dom.js";
import { downloadRow, fileName, saveCsv, savePng, saveSvg } from "./downloads.js";
import { clipped, shortNumber } from "./images.js";

const LINE = 18; // height of a name above a narrow chart
const NARROW = "(max-width: 600px)";

/**
 * @typedef {{x: number, y: number, error?: number, ringed?: boolean, hollow?: boolean}} ChartPoint `hollow`: of a fit that
 *   had not converged, so that no line leads there
 * @typedef {{name: string, colour: number, points: ChartPoint[], dots?: boolean}} Series `colour`: its number, that the
 *   style sheet has a colour for
 * @typedef {object} Chart
 * @property {string} title
 * @property {string} about what a reader should see in it
 * @property {string} x
 * @property {string} y
 * @property {Series[]} series
 * @property {boolean} [logX]
 * @property {boolean} [fromZero] the axis holds 0, and a line marks it
 * @property {{x: number, text: string}} [mark] a line across
 * @property {string} file the beginning of file names
 */

/** The drawing, its downloads and its table. @param {Chart} chart */
export function chartFigure(chart) {
  const { title, file } = chart;
  return plotFigure({
    title,
    file,
    rows: chartRows(chart),
    draw: (narrow, readout) => drawChart(chart, narrow, readout),
  });
}

/**
 * A drawing that is drawn again where the window becomes narrow or wide, a line that reads it out, downloads and a table.
 * @param {object} plot
 * @param {string} plot.title
 * @param {string} plot.file the beginning of file names
 * @param {Array<Array<string | number | null>>} plot.rows all numbers, the first line their names
 * @param {(narrow: boolean, readout: HTMLElement) => SVGElement} plot.draw
 */
export function plotFigure({ title, file, rows, draw }) {
  const readout = make("p", { class: "readout", "aria-live": "polite", text: "\u00a0" });
  const window = matchMedia(NARROW);
  let svg = draw(window.matches, readout);
  window.addEventListener("change", () => {
    const fresh = draw(window.matches, readout);
    svg.replaceWith(fresh);
    svg = fresh;
  });
  const name = (/** @type {string} */ end) => fileName(file, title, end);
  const downloads = downloadRow(title.toLowerCase(), [
    ["SVG", () => saveSvg(svg, name("svg"))],
    ["PNG", () => savePng(svg, name("png"))],
    ["CSV", () => saveCsv(rows, name("csv"))],
  ]);
  return make("figure", { class: "chart" }, [svg, readout, downloads, tableOf(title, rows)]);
}

/**
 * An empty plot that names itself.
 * @param {string} look class @param {number} width @param {number} height
 * @param {{title: string, about: string}} words
 */
export function emptyPlot(look, width, height, { title, about }) {
  const label = `${title}. ${about} Arrow keys read the values.`;
  const box = { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": label };
  return makeSvg("svg", { class: look, ...box }, [makeSvg("title", { text: title }), makeSvg("desc", { text: about })]);
}

/** @param {Chart} chart @returns {Array<Array<string | number | null>>} a line a point */
export function chartRows(chart) {
  const errors = chart.series.some(({ points }) => points.some((point) => point.error !== undefined));
  const cut = chart.series.some(({ points }) => points.some(({ hollow }) => hollow));
  return [
    ["series", chart.x, chart.y, ...(errors ? ["standard error"] : []), ...(cut ? ["converged"] : [])],
    ...chart.series.flatMap(({ name, points }) =>
      points.map((point) => [
        name,
        point.x,
        point.y,
        ...(errors ? [point.error ?? null] : []),
        ...(cut ? [point.hollow ? "no" : "yes"] : []),
      ]),
    ),
  ];
}

/** @param {string} title @param {Array<Array<string | number | null>>} rows */
function tableOf(title, rows) {
  const details = make("details", {}, [make("summary", { text: "The numbers" })]);
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const [head, ...body] = rows.map((row, i) => {
      const texts = row.map((cell) => (typeof cell === "number" ? shortNumber(cell, 4) : (cell ?? "")));
      const cells = texts.map((text) => make(i ? "td" : "th", { text }));
      return make("tr", {}, cells);
    });
    const caption = make("caption", { class: "unseen", text: title });
    const table = make("table", {}, [caption, make("thead", {}, [head]), make("tbody", {}, body)]);
    details.append(make("div", { class: "scroll tall", tabindex: 0 }, [table]));
  });
  return details;
}

/** @param {Chart} chart @param {boolean} narrow */
function frameOf(chart, narrow) {
  const points = chart.series.flatMap((series) => series.points);
  const xs = points.map((point) => point.x);
  const ys = points.flatMap(({ y, error = 0 }) => [y - error, y + error]);
  if (chart.fromZero) ys.push(0);
  if (chart.mark) xs.push(chart.mark.x);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const margin = 0.05 * (high - low || 1);
  /** @type {[number, number]} */
  const xDomain = [Math.min(...xs), Math.max(...xs)];
  /** @type {[number, number]} */
  const yDomain = [low - margin, high + margin];
  // Names stand beside the ends of the lines; on a narrow screen, above the chart.
  const [width, beside, above] = narrow ? [380, 12, LINE * chart.series.length] : [760, 186, 0];
  const [left, right, top] = [58, width - beside, 14 + above];
  const bottom = top + (narrow ? 240 : 290);
  return {
    xDomain,
    yDomain,
    left,
    right,
    top,
    bottom,
    width,
    height: bottom + 44,
    narrow,
    x: scaleOf(xDomain, [left + 8, right - 8], chart.logX),
    y: scaleOf(yDomain, [bottom, top]),
  };
}

/** @param {Chart} chart @param {boolean} narrow @param {HTMLElement} readout */
function drawChart(chart, narrow, readout) {
  const frame = frameOf(chart, narrow);
  const svg = emptyPlot("plot", frame.width, frame.height, chart);
  svg.append(...axesOf(chart, frame));
  for (const series of chart.series) svg.append(seriesGroup(series, frame));
  svg.append(...(narrow ? namesAbove(chart) : namesBeside(chart, frame)));
  svg.append(makeSvg("circle", { class: "cursor", r: 6, display: "none", "data-screen": "" }));
  followPoints(svg, chart, frame, readout);
  return svg;
}

/** @param {Chart} chart @param {ReturnType<typeof frameOf>} frame */
function* namesBeside(chart, frame) {
  const ends = chart.series.map(({ points }) => points[points.length - 1]);
  const heights = spreadApart(
    ends.map((end) => frame.y(end.y)),
    15,
    frame.bottom,
  );
  for (const [i, { name, colour }] of chart.series.entries()) {
    const [x, y] = [frame.x(ends[i].x), frame.y(ends[i].y)];
    if (Math.abs(heights[i] - y) > 3 || x < frame.right - 12) {
      yield makeSvg("line", { class: "lead", x1: x + 4, y1: y, x2: frame.right + 4, y2: heights[i] });
    }
    const place = { x: frame.right + 8, y: heights[i] + 4 };
    yield makeSvg("text", { class: `name colour-${colour}`, ...place, text: clipped(name, 26) });
  }
}

/** @param {Chart} chart */
function* namesAbove(chart) {
  for (const [i, { name, colour }] of chart.series.entries()) {
    const text = `— ${clipped(name, 40)}`;
    yield makeSvg("text", { class: `name colour-${colour}`, x: 4, y: LINE * (i + 1) - 4, text });
  }
}

/** @param {Chart} chart @param {ReturnType<typeof frameOf>} frame */
function* axesOf(chart, frame) {
  const { left, top } = frame;
  for (const tick of niceTicks(...frame.yDomain)) {
    const y = frame.y(tick);
    yield makeSvg("line", {
      class: tick === 0 && chart.fromZero ? "zero" : "grid",
      x1: left,
      x2: frame.right,
      y1: y,
      y2: y,
    });
    yield makeSvg("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end", text: tickText(tick) });
  }
  const ticks = chart.logX
    ? logTicks(...frame.xDomain)
    : niceTicks(...frame.xDomain, frame.narrow ? 5 : 8).filter(Number.isInteger);
  for (const tick of ticks) {
    yield makeSvg("text", {
      class: "tick",
      x: frame.x(tick),
      y: frame.bottom + 17,
      "text-anchor": "middle",
      text: tickText(tick),
    });
  }
  const middle = (left + frame.right) / 2;
  yield makeSvg("text", { class: "axis", x: middle, y: frame.height - 8, "text-anchor": "middle", text: chart.x });
  const height = (top + frame.bottom) / 2;
  const turned = `rotate(-90 14 ${height})`;
  yield makeSvg("text", { class: "axis", x: 14, y: height, transform: turned, "text-anchor": "middle", text: chart.y });
  if (chart.mark) {
    const x = frame.x(chart.mark.x);
    yield makeSvg("line", { class: "mark", x1: x, x2: x, y1: top, y2: frame.bottom });
    yield makeSvg("text", { class: "mark-text", x: x + 5, y: top + 30, text: chart.mark.text });
  }
}

/** @param {number} tick */
export function tickText(tick) {
  return tick.toLocaleString("en", { maximumSignificantDigits: 6 }).replace("-", "−");
}

/** @param {Series} series @param {ReturnType<typeof frameOf>} frame */
function seriesGroup(series, frame) {
  const group = makeSvg("g", { class: `series colour-${series.colour}` });
  const places = series.points.map((point) => [frame.x(point.x), frame.y(point.y)]);
  const joined = places.filter((_, i) => !series.points[i].hollow);
  group.append(
    makeSvg("polyline", { points: joined.map((place) => place.map((x) => x.toFixed(1)).join(",")).join(" ") }),
  );
  series.points.forEach((point, i) => {
    const [x, y] = places[i];
    if (point.error) {
      group.append(
        makeSvg("line", { x1: x, x2: x, y1: frame.y(point.y - point.error), y2: frame.y(point.y + point.error) }),
      );
    }
    if (series.dots)
      group.append(makeSvg("circle", { class: point.hollow ? "dot hollow" : "dot", cx: x, cy: y, r: 3 }));
    if (point.ringed) group.append(makeSvg("circle", { class: "ring", cx: x, cy: y, r: 7 }));
  });
  return group;
}

/**
 * The point under the pointer, or that arrow keys lead to, in words and ringed.
 * @param {SVGElement} svg @param {Chart} chart @param {ReturnType<typeof frameOf>} frame @param {HTMLElement} readout
 */
function followPoints(svg, chart, frame, readout) {
  const cursor = /** @type {SVGElement} */ (svg.querySelector(".cursor"));
  const at = { series: 0, point: -1 };
  const show = () => {
    const series = chart.series[at.series];
    const point = series.points[at.point];
    cursor.setAttribute("cx", String(frame.x(point.x)));
    cursor.setAttribute("cy", String(frame.y(point.y)));
    cursor.removeAttribute("display");
    const error = point.error ? ` ± ${shortNumber(point.error)}` : "";
    readout.textContent = `${series.name}: ${chart.x} ${tickText(point.x)}, ${chart.y} ${shortNumber(point.y, 3)}${error}${point.hollow ? " (had not converged)" : ""}`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const [x, y] = [
      (event.clientX - box.left) * (frame.width / box.width),
      (event.clientY - box.top) * (frame.height / box.height),
    ];
    let least = Number.POSITIVE_INFINITY;
    chart.series.forEach(({ points }, series) => {
      points.forEach((one, point) => {
        const far = (frame.x(one.x) - x) ** 2 + (frame.y(one.y) - y) ** 2;
        if (far < least) [least, at.series, at.point] = [far, series, point];
      });
    });
    show();
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("display", "none");
    readout.textContent = "\u00a0";
  });
  svg.addEventListener("keydown", (event) => {
    const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const across = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!along && !across) return;
    event.preventDefault();
    if (across) at.series = (at.series + across + chart.series.length) % chart.series.length;
    const last = chart.series[at.series].points.length - 1;
    at.point = Math.min(Math.max(at.point + (along ?? 0), 0), last);
    show();
  });
}
