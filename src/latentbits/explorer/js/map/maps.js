/** The map of maps: each of several as a bubble with its rows in it, what its rows are like, and the way in and back. */
import { shortened } from "../page/cells.js";
import { make, part, say, themeColour } from "../page/dom.js";
import { imageOf, shortNumber } from "../page/images.js";
import { layOutBubbles } from "./bubbles.js";
import { colouringOf } from "./colours.js";
import { groundOf, steppedOnto } from "./grounds.js";
import { differences } from "./lasso.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {Colouring} from "./colours.js" */
/** @import {Ground} from "./grounds.js" */
/** @import {Difference} from "./lasso.js" */

const MOST_DOTS = 1500; // in a bubble
const MOST_TOLD = 3; // columns of a map, more and less each
const WORTH_LISTING = { bits: 0.1, reals: 0.3 }; // of the rows, or in standard deviations: what is listed differs so much
const MEAN_PICTURE = 84; // pixels
const MAPS_HIGH = { wide: 330, narrow: 300 }; // pixels
const NARROW_MAPS = 520;

/** @param {Rows} rows @param {State} state */
export function showMaps(rows, state) {
  const { head, arrays } = rows;
  const element = part("maps");
  if (!element || !head.maps) return;
  /** @type {Ground[]} */
  const grounds = head.maps.shares.map((/** @type {number} */ _, /** @type {number} */ m) => groundOf(rows, m));
  const step = (/** @type {number | null} */ number) => {
    state.set(steppedOnto(groundOf(rows, number)));
    say(number === null ? "All rows on one map" : `Map ${number + 1} of ${grounds.length}`);
  };
  const into = (/** @type {number} */ number) => {
    step(number);
    part("maps-way")?.scrollIntoView();
    /** @type {HTMLElement | null} */ (document.querySelector(".map-over"))?.focus({ preventScroll: true });
  };
  const bubbles = grounds.map((ground) => bubbleOf(head, ground, into));
  const cards = grounds.map((ground) => cardOf(head, rows, ground, into));
  const steps = bubbles.map(({ button }) => button);
  const frame = make("div", { class: "maps-frame" }, steps);
  const back = make("button", { type: "button", id: "all-rows", text: "← Back to the map of maps" });
  const where = make("p", { class: "maps-way", role: "status" });
  back.addEventListener("click", () => {
    const { map } = state.choices;
    step(null);
    if (map !== null) bubbles[map].button.focus({ preventScroll: true });
    element.scrollIntoView({ block: "nearest" });
  });
  element.append(make("div", { class: "maps-grid" }, [frame, make("ul", { class: "maps-cards" }, cards)]));
  part("maps-way")?.append(back, where);

  const paint = () => {
    const dark = document.documentElement.dataset.theme === "dark";
    for (const [m, { canvas }] of bubbles.entries()) {
      const colouring = colouringOf(rows, state.choices.colour, dark, grounds[m]);
      drawMiniature(canvas, grounds[m], colouring, new Set(state.choices.hidden));
    }
  };
  const place = () => {
    const width = frame.clientWidth;
    if (width < 2) return;
    const height = width < NARROW_MAPS ? MAPS_HIGH.narrow : MAPS_HIGH.wide;
    frame.style.height = `${height}px`;
    const laid = layOutBubbles(head.maps.places, head.maps.shares, width, height);
    for (const [m, { x, y, r }] of laid.entries()) {
      const { button, canvas } = bubbles[m];
      button.style.left = `${x}px`;
      button.style.top = `${y - r}px`;
      canvas.style.width = canvas.style.height = `${2 * r}px`;
      canvas.width = canvas.height = Math.round(2 * r * (window.devicePixelRatio || 1));
    }
    paint();
  };
  const mark = () => {
    const { map } = state.choices;
    for (const [m, { button }] of bubbles.entries()) {
      button.setAttribute("aria-pressed", String(m === map));
      cards[m].classList.toggle("chosen", m === map);
    }
    back.hidden = map === null;
    where.textContent = whereText(map, grounds.length);
    const axes = part("axes");
    if (axes) axes.hidden = map !== null; // they belong to the map of all rows
  };
  new ResizeObserver(place).observe(frame);
  state.on(["colour", "hidden"], paint);
  document.addEventListener("themechange", paint);
  state.on(["map"], mark);
  state.on(["picked"], ({ map, picked }) => {
    if (map === null || picked === null) return;
    const home = arrays["maps.home"].data[picked];
    if (home !== map) step(home); // the map follows the row
  });
  place();
  mark();
}

/** @param {number | null} map @param {number} many */
function whereText(map, many) {
  if (map === null)
    return "Below: all rows on one map, which is a model of its own. Click a bubble to step into its map.";
  return (
    `Below: map ${map + 1} of ${many}. What the axes mean, the loadings, the order of the table and what fits worst ` +
    "belong to the one map of all rows."
  );
}

/** @param {number} share */
function percentOf(share) {
  return share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`;
}

/** @param {any} head @param {Ground} ground @param {(number: number) => void} into */
function bubbleOf(head, ground, into) {
  const number = ground.number ?? 0;
  const canvas = make("canvas", { class: "bubble-rows", "aria-hidden": "true" });
  const share = percentOf(head.maps.shares[number]);
  const button = make(
    "button",
    {
      type: "button",
      class: "bubble",
      "aria-pressed": "false",
      "aria-label": `Step into map ${number + 1}: ${share} of the rows`,
      "aria-describedby": `maps-card-${number}`,
      title: `Step into map ${number + 1}`,
      onclick: () => into(number),
    },
    [
      canvas,
      make("span", { class: "bubble-name" }, [make("b", { text: `Map ${number + 1}` }), make("span", { text: share })]),
    ],
  );
  return { button, canvas };
}

/**
 * Its rows as dots, all of the map within the bubble.
 * @param {HTMLCanvasElement} canvas @param {Ground} ground @param {Colouring} colouring @param {Set<number>} hidden
 */
function drawMiniature(canvas, ground, { codes, colours, levels }, hidden) {
  const context = canvas.getContext("2d");
  const rows = ground.rows;
  if (!context || !rows) return;
  const size = canvas.width;
  context.clearRect(0, 0, size, size);
  context.fillStyle = themeColour("--paper");
  context.beginPath();
  context.arc(size / 2, size / 2, size / 2, 0, 2 * Math.PI);
  context.fill();
  const { middle, reach } = extentOn(ground.means, rows);
  const scale = (0.42 * size) / reach;
  const radius = Math.max(1.2, Math.min(3, 60 / Math.sqrt(rows.length + 1))) * (window.devicePixelRatio || 1);
  const stride = Math.max(1, Math.ceil(rows.length / MOST_DOTS));
  context.globalAlpha = 0.8;
  for (let k = 0; k < rows.length; k += stride) {
    const row = rows[k];
    if (levels.length && hidden.has(codes[row])) continue;
    context.fillStyle = colours[codes[row]];
    context.beginPath();
    const x = size / 2 + scale * (ground.means[2 * row] - middle[0]);
    const y = size / 2 - scale * (ground.means[2 * row + 1] - middle[1]);
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
}

/**
 * The middle of some rows, and how far from it the farthest is.
 * @param {ArrayLike<number>} means @param {Uint32Array} rows
 */
export function extentOn(means, rows) {
  const sums = [0, 0];
  for (const row of rows) for (const k of [0, 1]) sums[k] += means[2 * row + k] / rows.length;
  let reach = 0;
  for (const row of rows) reach = Math.max(reach, Math.hypot(means[2 * row] - sums[0], means[2 * row + 1] - sums[1]));
  return { middle: sums, reach: reach || 1 };
}

/**
 * What the rows of a map are like, beside all others.
 * @param {any} head @param {Rows} rows @param {Ground} ground @param {(number: number) => void} into
 */
function cardOf(head, rows, ground, into) {
  const number = ground.number ?? 0;
  const own = ground.rows ?? new Uint32Array(0);
  const found = own.length ? differences(rows, own) : [];
  const many = `${own.length.toLocaleString("en")} ${own.length === 1 ? "row is" : "rows are"} most probably on it`;
  const card = make("li", { id: `maps-card-${number}`, class: "maps-card", onclick: () => into(number) }, [
    make("h4", { text: `Map ${number + 1}` }),
    make("p", { class: "note", text: `${percentOf(head.maps.shares[number])} of the rows; ${many}` }),
  ]);
  if (head.table.image_shape && found.length) card.append(meanImage(rows, found, head.table.image_shape, number));
  else card.append(...describe(rows, found));
  return card;
}

/** @param {Rows} rows @param {Difference[]} found @param {[number, number]} shape @param {number} number */
function meanImage(rows, found, shape, number) {
  const inside = new Float32Array(rows.d).fill(Number.NaN);
  for (const one of found) inside[one.column] = one.inside;
  const kind = rows.real ? "real" : "probability";
  const canvas = imageOf(inside, shape, { kind, label: `Mean of the rows on map ${number + 1}` });
  canvas.style.width = `${MEAN_PICTURE}px`;
  return canvas;
}

/**
 * Columns that the rows of a map have more and less of than the others, in words.
 * @param {Rows} rows @param {Difference[]} found
 */
function describe(rows, found) {
  const shown = (/** @type {number} */ value) => (rows.real ? shortNumber(value) : `${Math.round(100 * value)}\u00a0%`);
  const worth = rows.real ? WORTH_LISTING.reals : WORTH_LISTING.bits;
  const lines = /** @type {Array<[string, 1 | -1]>} */ ([
    ["More", 1],
    ["Less", -1],
  ]).flatMap(([word, sign]) => {
    const most = found.filter(({ by }) => sign * by >= worth).slice(0, MOST_TOLD);
    if (!most.length) return [];
    const texts = most.map(
      ({ column, inside, outside }) =>
        `${shortened(rows.columns[column], 28)}: ${shown(inside)}, others ${shown(outside)}`,
    );
    return [make("p", {}, [make("b", { text: `${word}: ` }), texts.join("; ")])];
  });
  return lines.length ? lines : [make("p", { class: "note", text: "Its columns are about those of the other rows." })];
}
