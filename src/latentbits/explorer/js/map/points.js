/** The points of the map as a picture: places with one or many rows, coloured, hidden, chosen. */
import { shortened } from "../page/cells.js";
import { themeColour } from "../page/dom.js";
import { NearestPoint, placesOf, placesOfSome, roundTicks } from "./maths.js";
import { drawDots, Stamps } from "./splat.js";

/** @import {Colouring} from "./colours.js" */
/** @import {Place} from "./maths.js" */
/** @import {View} from "./view.js" */

const LARGEST_DOT = 24; // CSS pixels: the place with most rows
const HALO_UP_TO = 5000; // places; of more, edges would be all there is to see
const FADED = 0.12;
const TITLE_FONT = "600 12px system-ui, sans-serif";
const LONGEST_TITLE = 48;

/** What is written at an axis; the arrow points to where it grows. @param {string} axis */
export function titleOf(axis) {
  return `${shortened(axis, LONGEST_TITLE)} →`;
}

/** All places, which of their rows are seen, and how they are drawn. */
export class Points {
  /**
   * @param {Float32Array} means x and y of rows by turns
   * @param {[string, string]} axes what is written at them
   * @param {Uint32Array | null} [only] rows that are there; null for all
   */
  constructor(means, axes, only = null) {
    this.means = means;
    this.axes = axes;
    this.places = only ? placesOfSome(means, only) : placesOf(means);
    const { first, start } = this.places;
    this.n = first.length;
    this.xs = new Float32Array(this.n);
    this.ys = new Float32Array(this.n);
    this.counts = new Uint32Array(this.n);
    this.most = 1;
    for (let g = 0; g < this.n; g++) {
      this.xs[g] = means[2 * first[g]];
      this.ys[g] = means[2 * first[g] + 1];
      this.counts[g] = start[g + 1] - start[g];
      this.most = Math.max(this.most, this.counts[g]);
    }
    this.nearest = new NearestPoint(this.xs, this.ys);
    this.order = drawingOrder(this.counts, this.most);
    this.seen = this.counts.slice(); // rows of each place that are not hidden
    this.codes = new Uint16Array(this.n);
    this.alphas = new Float32Array(this.n).fill(1);
    /** @type {Map<number, number[]>} */
    this.shares = new Map();
    /** @type {string[]} */
    this.colours = ["#808080"];
    this.stamps = new Stamps();
  }

  /**
   * @param {Colouring} colouring
   * @param {Set<number>} hidden codes
   * @param {Uint32Array} selected rows, ascending; all where none
   */
  colour(colouring, hidden, selected) {
    const { start, rows, of } = this.places;
    const { codes } = colouring;
    this.colours = colouring.colours;
    this.shares.clear();
    this.alphas.fill(selected.length ? FADED : 1);
    for (const i of selected) if (!hidden.has(codes[i])) this.alphas[of[i]] = 1;
    const kept = colouring.colours.map((_, code) => !hidden.has(code));
    for (let g = 0; g < this.n; g++) {
      let seen = 0;
      let mixed = false;
      for (let k = start[g]; k < start[g + 1]; k++) {
        const code = codes[rows[k]];
        if (!kept[code]) continue;
        if (seen++ === 0) this.codes[g] = code;
        else if (code !== this.codes[g]) mixed = true;
      }
      this.seen[g] = seen;
      if (mixed) this.shares.set(g, sharesOf(rows.subarray(start[g], start[g + 1]), codes, kept));
    }
  }

  /** Places with a row that is seen. */
  nSeen() {
    let n = 0;
    for (const seen of this.seen) if (seen) n++;
    return n;
  }

  /** The radius of each place, in CSS pixels: its area grows with the number of rows there. @param {View} view */
  radii(view) {
    const closer = Math.min(2.5, Math.max(0.8, (view.scale / view.home.scale) ** 0.3));
    const least = Math.min(5, Math.max(1.2, 9 / Math.max(this.n, 1) ** 0.16)) * closer;
    const top = Math.max(least, Math.min(LARGEST_DOT * Math.min(closer, 1.5), least * Math.sqrt(this.most)));
    const growth = this.most > 1 ? (top * top - least * least) / (this.most - 1) : 0;
    const radii = new Float32Array(this.n);
    for (let g = 0; g < this.n; g++) {
      if (this.seen[g]) radii[g] = Math.sqrt(least * least + growth * (this.seen[g] - 1));
    }
    return radii;
  }

  /** The nearest place with a row that is seen, or -1. @param {Place} place @param {number} reach */
  at(place, reach) {
    return this.nearest.find(place.x, place.y, reach, (g) => this.seen[g] > 0);
  }

  /** @param {HTMLCanvasElement} canvas @param {View} view @param {number} ratio pixels of the device to one of CSS */
  draw(canvas, view, ratio) {
    const context = canvas.getContext("2d", { willReadFrequently: true });
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawGround(context, view, this.axes);
    const radius = this.radii(view);
    const across = new Float32Array(this.n);
    const down = new Float32Array(this.n);
    const alpha = new Float32Array(this.n);
    const solid = this.solid();
    for (let g = 0; g < this.n; g++) {
      across[g] = ratio * view.across(this.xs[g]);
      down[g] = ratio * view.down(this.ys[g]);
      radius[g] *= ratio;
      alpha[g] = solid * this.alphas[g];
    }
    const { codes: code, order, colours, shares } = this;
    const dots = { across, down, radius, code, order, colours, alpha, shares };
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
    drawDots(pixels, dots, this.stamps, this.n <= HALO_UP_TO ? themeColour("--paper") : null);
    context.putImageData(pixels, 0, 0);
  }

  /** How solid points are: of very many, several must lie on each other to be as dark as one of few. */
  solid() {
    return Math.min(0.9, Math.max(0.45, 1.4 - 0.17 * Math.log10(this.n + 1)));
  }
}

/**
 * Places with many rows first, so that none hides a smaller one; of equals, none whose rows come last in the table is
 * always on top.
 * @param {Uint32Array} counts @param {number} most
 */
function drawingOrder(counts, most) {
  const n = counts.length;
  const order = new Uint32Array(n);
  let step = Math.max(1, Math.round(0.618 * n));
  while (divisor(step, n) > 1) step++;
  for (let k = 0; k < n; k++) order[k] = (k * step) % n;
  return most > 1 ? order.sort((a, b) => counts[b] - counts[a]) : order;
}

/** @param {number} a @param {number} b @returns {number} */
function divisor(a, b) {
  return b ? divisor(b, a % b) : a;
}

/**
 * @param {Uint32Array} rows @param {Uint16Array} codes @param {boolean[]} kept
 * @returns {number[]} code and share by turns
 */
function sharesOf(rows, codes, kept) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  let total = 0;
  for (const i of rows) {
    if (!kept[codes[i]]) continue;
    counts.set(codes[i], (counts.get(codes[i]) ?? 0) + 1);
    total++;
  }
  return [...counts].sort((a, b) => a[0] - b[0]).flatMap(([code, count]) => [code, count / total]);
}

/**
 * Paper, a light net of round numbers, and what the axes are.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {[string, string]} axes
 */
function drawGround(context, view, axes) {
  const { width, height } = view;
  context.fillStyle = themeColour("--paper");
  context.fillRect(0, 0, width, height);
  const w = view.window();
  const line = themeColour("--line");
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.lineWidth = 1;
  const across = roundTicks(w.left, w.right, width / 90);
  const up = roundTicks(w.bottom, w.top, height / 90);
  context.strokeStyle = line;
  context.globalAlpha = 0.55;
  context.beginPath();
  for (const x of across.ticks) {
    const at = Math.round(view.across(x)) + 0.5;
    context.moveTo(at, 0);
    context.lineTo(at, height);
  }
  for (const y of up.ticks) {
    const at = Math.round(view.down(y)) + 0.5;
    context.moveTo(0, at);
    context.lineTo(width, at);
  }
  context.stroke();
  context.globalAlpha = 1;
  const titles = axes.map((title) => titleOf(title));
  context.font = TITLE_FONT;
  const lengths = titles.map((title) => context.measureText(title).width + 24);
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = themeColour("--grey");
  const written = (/** @type {number} */ value, /** @type {number} */ digits) =>
    (value + 0).toFixed(digits).replace("-", "−");
  for (const x of across.ticks) {
    const at = view.across(x);
    if (at > 40 && at < width - lengths[0]) context.fillText(written(x, across.digits), at, height - 3);
  }
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const y of up.ticks) {
    const at = view.down(y);
    if (at > lengths[1] && at < height - 24) context.fillText(written(y, up.digits), 4, at);
  }
  context.font = TITLE_FONT;
  context.fillStyle = themeColour("--ink");
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.fillText(titles[0], width - 6, height - 3);
  context.save();
  context.translate(4, 6);
  context.rotate(-Math.PI / 2);
  context.textBaseline = "top";
  context.fillText(titles[1], 0, 0);
  context.restore();
}
