/** The map's two canvases: points below, and above them what changes as the cursor moves. */
import { shortened } from "../page/cells.js";
import { make, themeColour } from "../page/dom.js";
import { ARROW_FONT, arrowAt, drawArrows, layOutArrows, strongestColumns } from "./arrows.js";
import { colouringOf } from "./colours.js";
import { groundOf, isOn } from "./grounds.js";
import { drawLines, LABEL_FONT, layOutLines } from "./lines.js";
import { ellipseOf } from "./maths.js";
import { drawName, notForNames } from "./names.js";
import { drawNames, layOutNames, NAME_FONT, outermost } from "./outliers.js";
import { Points } from "./points.js";
import { View } from "./view.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {Look, State} from "../page/state.js" */
/** @import {Arrow} from "./arrows.js" */
/** @import {Ground} from "./grounds.js" */
/** @import {DrawnLine} from "./lines.js" */
/** @import {Place} from "./maths.js" */

const SWIFT = 12; // milliseconds: a slower picture is stretched while it moves, and drawn when it rests
const REST = 120; // milliseconds without a move

export class MapFigure {
  /** @param {HTMLElement} frame @param {Rows} rows @param {State} state */
  constructor(frame, rows, state) {
    this.frame = frame;
    this.rows = rows;
    this.state = state;
    this.ground = groundOf(rows, state.choices.map);
    this.view = new View();
    this.points = new Points(this.ground.means, this.ground.axes, this.ground.rows);
    this.outliers = outermost(this.ground.means, undefined, this.ground.rows);
    this.named = true; // whether they have their names beside them
    /** @type {Set<number>} */
    this.hidden = new Set();
    this.colouring = colouringOf(rows, "none", false, this.ground);
    /** @type {number[]} */
    this.lasso = [];
    /** @type {number | null} */
    this.marked = null; // column whose line stands out
    this.crosshair = false; // the place was chosen by keys
    this.below = make("canvas", { class: "map-points", "aria-hidden": "true" });
    this.above = make("canvas", { class: "map-over", tabindex: "0" });
    this.picture = make("canvas");
    this.drawn = { x: 0, y: 0, scale: 1 }; // the view that `picture` shows
    this.cost = 0; // milliseconds that it took
    this.stale = true; // whether points have changed since
    this.rest = 0;
    this.due = 0;
    this.dueBelow = false;
    /** @type {DrawnLine[] | null} */
    this.lines = null;
    /** @type {ReturnType<typeof strongestColumns> | null} */
    this.strongest = null; // columns, found when arrows are first drawn
    /** @type {Arrow[] | null} */
    this.arrows = null;
    this.ratio = 1;
    /** @type {Look | null} */
    this.look = null; // what the state knows of the view
    frame.append(this.below, this.above);
    this.fitted = false;
    this.recolour();
    new ResizeObserver(() => this.resize()).observe(frame);
    document.addEventListener("themechange", () => this.recolour());
    state.on(["map"], ({ map }) => this.standOn(groundOf(rows, map)));
    state.on(["colour"], () => {
      this.hidden.clear();
      this.recolour();
    });
    state.on(["selected"], () => this.repaint());
    state.on(["hovered", "picked", "other", "place"], () => this.request(false));
    state.on(["view"], ({ view }) => {
      if (view === this.look) return; // it is its own
      this.view.lookAt(view);
      this.moved();
    });
    state.on(["lines", "columns"], () => {
      this.layOutAgain();
      this.request(false);
    });
    state.on(["hidden"], ({ hidden }) => {
      if (hidden.join() === [...this.hidden].join()) return; // it is its own
      this.hidden = new Set(hidden.filter((code) => code < this.colouring.levels.length));
      this.repaint();
    });
    this.resize();
  }

  /** Another map, all of it. @param {Ground} ground */
  standOn(ground) {
    this.ground = ground;
    this.points = new Points(this.ground.means, this.ground.axes, this.ground.rows);
    this.outliers = outermost(this.ground.means, undefined, ground.rows);
    this.strongest = null;
    this.crosshair = false;
    this.view.fit(this.ground.means, ground.rows);
    this.view.goHome();
    this.layOutAgain();
    this.recolour();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.frame;
    const ratio = window.devicePixelRatio || 1;
    if (width < 2 || height < 2) return;
    if (width === this.view.width && height === this.view.height && ratio === this.ratio && this.fitted) return;
    this.ratio = ratio;
    const zoomed = this.fitted ? this.view.scale / this.view.home.scale : 1;
    Object.assign(this.view, { width, height });
    this.frame.style.setProperty("--shape", `${width} / ${height}`); // on paper the width is another
    this.view.fit(this.ground.means, this.ground.rows);
    if (this.fitted) this.view.scale = this.view.home.scale * zoomed;
    else this.view.goHome();
    this.fitted = true;
    for (const canvas of [this.below, this.above, this.picture]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.stale = true;
    this.layOutAgain();
    this.drawBelow(true);
    this.drawAbove();
  }

  /** The theme or what the colours tell has changed. */
  recolour() {
    const dark = document.documentElement.dataset.theme === "dark";
    this.colouring = colouringOf(this.rows, this.state.choices.colour, dark, this.ground);
    this.repaint();
  }

  /** Hidden levels or the selection have changed. */
  repaint() {
    const hidden = [...this.hidden];
    if (hidden.join() !== this.state.choices.hidden.join()) this.state.set({ hidden });
    this.points.colour(this.colouring, this.hidden, this.state.choices.selected);
    this.stale = true;
    this.request(true);
  }

  /** The view has changed. */
  moved() {
    this.layOutAgain();
    this.look = this.view.look();
    this.state.set({ view: this.look });
    this.request(true);
    clearTimeout(this.rest);
    if (this.cost > SWIFT) {
      this.rest = window.setTimeout(() => {
        this.stale = true;
        this.request(true);
      }, REST);
    }
  }

  /** Draw before the next frame. @param {boolean} below the points, too */
  request(below) {
    this.dueBelow ||= below;
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      if (this.dueBelow) this.drawBelow(this.stale || this.cost <= SWIFT);
      this.dueBelow = false;
      this.drawAbove();
    });
  }

  /** @param {boolean} again else the last picture is moved and stretched */
  drawBelow(again) {
    const context = this.below.getContext("2d");
    if (!context || !this.fitted) return;
    if (again) {
      const start = performance.now();
      this.points.draw(this.picture, this.view, this.ratio);
      this.cost = performance.now() - start;
      const { x, y, scale } = this.view;
      this.drawn = { x, y, scale };
      this.stale = false;
    }
    const { view, ratio, drawn } = this;
    const times = view.scale / drawn.scale;
    const [width, height] = [this.below.width, this.below.height];
    const left = (ratio * view.across(drawn.x) - (times * width) / 2) | 0;
    const top = (ratio * view.down(drawn.y) - (times * height) / 2) | 0;
    context.fillStyle = themeColour("--paper");
    context.fillRect(0, 0, width, height);
    context.drawImage(this.picture, left, top, times * width, times * height);
    if (performance.getEntriesByName("map-painted").length === 0) performance.mark("map-painted");
  }

  layOutAgain() {
    this.lines = null;
    this.arrows = null;
  }

  /** How wide texts are, in pixels. @param {string} font @returns {(text: string) => number} */
  widthIn(font) {
    const context = this.above.getContext("2d");
    if (context) context.font = font;
    return (text) => context?.measureText(text).width ?? 0;
  }

  /** Columns as arrows, where the reader wants them so. @returns {Arrow[]} */
  laidOutArrows() {
    if (this.state.choices.columns !== "arrows") return [];
    if (!this.arrows) {
      const { rows, ground } = this;
      this.strongest ??= strongestColumns(ground.weights, ground.bias, rows.real, rows.overall().sds);
      this.arrows = layOutArrows(this.view, this.strongest, rows.columns, this.widthIn(ARROW_FONT));
    }
    return this.arrows;
  }

  /** @param {number} x pixels @param {number} y */
  arrowAt(x, y) {
    return arrowAt(this.laidOutArrows(), x, y);
  }

  /** @returns {DrawnLine[]} */
  laidOut() {
    if (!this.lines) {
      const { rows, ground, state } = this;
      const columns = rows.real || state.choices.columns === "arrows" ? [] : state.choices.lines;
      const widthOf = this.widthIn(LABEL_FONT);
      this.lines = layOutLines(this.view, columns, rows.columns, ground.weights, ground.bias, widthOf);
    }
    return this.lines;
  }

  /**
   * The names of the rows farthest out, of those that are seen; of rows at one place, one.
   * @param {(text: string) => number} widthOf a text in NAME_FONT, in pixels
   */
  names(widthOf) {
    if (!this.named) return [];
    const { picked, other } = this.state.choices;
    const { of } = this.points.places;
    const shown = this.outliers.filter((row) => this.isSeen(row) && row !== picked && row !== other);
    const wanted = shown
      .filter((row, i) => shown.findIndex((earlier) => of[earlier] === of[row]) === i)
      .map((row) => {
        const more = this.points.seen[of[row]] - 1;
        const text = shortened(this.rows.name(row), 28) + (more ? ` and ${more.toLocaleString("en")} more` : "");
        return { row, text, ...this.placeOf(row) };
      });
    const drawn = [...this.laidOut(), ...this.laidOutArrows()];
    const taken = [...notForNames(this.view), ...drawn.map(({ label }) => label.box)];
    return layOutNames(this.view, wanted, widthOf, taken);
  }

  drawAbove() {
    const context = this.above.getContext("2d");
    if (!context || !this.fitted) return;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.view.width, this.view.height);
    this.drawMarks(context);
  }

  /** Lines, ellipses, rings: all that lies over the points. @param {CanvasRenderingContext2D} context */
  drawMarks(context) {
    const colours = { ink: themeColour("--ink"), paper: themeColour("--paper"), accent: themeColour("--accent") };
    drawLines(context, this.laidOut(), colours, this.marked);
    drawArrows(context, this.laidOutArrows(), colours, this.marked);
    context.font = NAME_FONT;
    const names = this.names((text) => context.measureText(text).width);
    drawNames(context, names, colours);
    const { place } = this.state.choices;
    const [hovered, picked, other] = ["hovered", "picked", "other"].map((name) =>
      this.onIt(this.state.choices[/** @type {"hovered" | "picked" | "other"} */ (name)]),
    );
    const close = hovered ?? picked;
    if (close !== null) this.drawEllipses(context, close, colours);
    if (picked !== null) this.drawRing(context, picked, "A", colours);
    if (other !== null) this.drawRing(context, other, "B", colours);
    if (hovered !== null && hovered !== picked && hovered !== other) this.drawRing(context, hovered, "", colours);
    if (this.crosshair && place) this.drawCross(context, place, colours);
    if (this.lasso.length) this.drawLasso(context, colours);
  }

  /**
   * One and two standard deviations of what the row says of its place.
   * @param {CanvasRenderingContext2D} context @param {number} row @param {{ink: string}} colours
   */
  drawEllipses(context, row, colours) {
    const [xx, yy, xy] = [0, 1, 2].map((k) => this.ground.covariances[3 * row + k]);
    const { long, short, angle } = ellipseOf(xx, yy, xy);
    const { x, y } = this.pixelOf(row);
    context.strokeStyle = colours.ink;
    context.fillStyle = colours.ink;
    context.lineWidth = 1.3;
    for (const times of [2, 1]) {
      context.beginPath();
      context.ellipse(x, y, times * long * this.view.scale, times * short * this.view.scale, -angle, 0, 2 * Math.PI);
      context.globalAlpha = 0.07;
      context.fill();
      context.globalAlpha = times === 1 ? 0.9 : 0.45;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {number} row @param {string} letter
   * @param {{ink: string, paper: string, accent: string}} colours
   */
  drawRing(context, row, letter, colours) {
    const { x, y } = this.pixelOf(row);
    for (const [width, colour] of /** @type {Array<[number, string]>} */ ([
      [4.5, colours.paper],
      [2.2, letter ? colours.accent : colours.ink],
    ])) {
      context.lineWidth = width;
      context.strokeStyle = colour;
      context.beginPath();
      context.arc(x, y, 7, 0, 2 * Math.PI);
      context.stroke();
    }
    if (!letter) return;
    context.font = "700 13px system-ui, sans-serif";
    context.textBaseline = "bottom";
    drawName(context, letter, { x: x + 7, y: y - 5, align: "left" }, colours, colours.accent);
  }

  /** @param {CanvasRenderingContext2D} context @param {Place} place @param {{ink: string}} colours */
  drawCross(context, place, colours) {
    const [x, y] = [this.view.across(place.x), this.view.down(place.y)];
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - 10, y);
    context.lineTo(x + 10, y);
    context.moveTo(x, y - 10);
    context.lineTo(x, y + 10);
    context.stroke();
  }

  /** @param {CanvasRenderingContext2D} context @param {{accent: string}} colours */
  drawLasso(context, colours) {
    context.beginPath();
    for (let i = 0; i < this.lasso.length; i += 2) context.lineTo(this.lasso[i], this.lasso[i + 1]);
    context.closePath();
    context.fillStyle = colours.accent;
    context.globalAlpha = 0.12;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.6;
    context.setLineDash([5, 4]);
    context.stroke();
    context.setLineDash([]);
  }

  /** @param {number} row */
  placeOf(row) {
    return { x: this.ground.means[2 * row], y: this.ground.means[2 * row + 1] };
  }

  /** @param {number} row */
  pixelOf(row) {
    const { x, y } = this.placeOf(row);
    return { x: this.view.across(x), y: this.view.down(y) };
  }

  /** A row that is on the map, or null. @param {number | null} row */
  onIt(row) {
    return row !== null && isOn(this.ground, row) ? row : null;
  }

  /** @param {number} row */
  isSeen(row) {
    return isOn(this.ground, row) && !this.hidden.has(this.colouring.codes[row]);
  }

  /**
   * The first row that is seen at the place nearest to a pixel, or null; and how many are there.
   * @param {number} x @param {number} y
   * @param {number} reach pixels
   */
  rowAt(x, y, reach) {
    const g = this.points.at(this.view.place(x, y), reach / this.view.scale);
    if (g < 0) return { row: null, many: 0 };
    const { start, rows } = this.points.places;
    const here = rows.subarray(start[g], start[g + 1]);
    return { row: here.find((row) => this.isSeen(row)) ?? null, many: this.points.seen[g] };
  }
}
