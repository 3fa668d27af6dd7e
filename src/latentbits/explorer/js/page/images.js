/** Numbers as pictures: a row as crisp pixels, named numbers as bars, weights as a Hinton diagram. */
import { filterField, lettersOf, make, makeSvg, themeColour } from "./dom.js";

/**
 * @typedef {"bits" | "probability" | "signed" | "strength" | "real"} Kind what numbers are: 0 and 1 (or between, in a
 *   cross-fade), chances, weights of either sign, chances of a cause to turn a bit on, any numbers
 * @typedef {[number, number, number]} Colour
 * @typedef {{kind?: Kind, scale?: number | [number, number], label?: string}} PictureOptions
 */

const LONG_NAME = 16; // letters: where one is longer, all names of the list stand above their bars, which are as long as each other
const MANY_NAMES = 30; // in a list, that a field narrows down

/** @type {WeakMap<HTMLCanvasElement, () => void>} */
const painters = new WeakMap();
let followingTheme = false;

/**
 * Draw numbers as pixels, NaN as missing; they keep the colours of the theme.
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} values row by row from the top
 * @param {[number, number]} shape height and width
 * @param {PictureOptions} [options] `scale`: the largest size of signed numbers, or the least and the greatest of real
 *   ones; from the numbers themselves where it is not given. `label`: what it is a picture of, in words.
 * @returns {HTMLCanvasElement} the canvas
 */
export function drawImage(canvas, values, shape, options = {}) {
  const [height, width] = shape;
  canvas.width = width;
  canvas.height = height;
  canvas.classList.add("pixels");
  if (options.label !== undefined) {
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", options.label);
    canvas.title = options.label;
  }
  const paint = () => {
    const context = canvas.getContext("2d");
    if (!context) return;
    const colour = colourScale(options.kind ?? "bits", options.scale ?? extentOf(values, options.kind ?? "bits"));
    const image = context.createImageData(width, height);
    for (let i = 0; i < width * height; i++) image.data.set([...colour(values[i]), 255], 4 * i);
    context.putImageData(image, 0, 0);
  };
  paint();
  painters.set(canvas, paint);
  if (!followingTheme) {
    followingTheme = true;
    document.addEventListener("themechange", repaint);
  }
  return canvas;
}

/** All pictures of the page again, in its new colours. */
function repaint() {
  const canvases = /** @type {NodeListOf<HTMLCanvasElement>} */ (document.querySelectorAll("canvas.pixels"));
  for (const canvas of canvases) painters.get(canvas)?.();
}

/**
 * A new picture; see `drawImage`.
 * @param {ArrayLike<number>} values @param {[number, number]} shape
 * @param {PictureOptions} [options]
 */
export function imageOf(values, shape, options = {}) {
  return drawImage(make("canvas"), values, shape, options);
}

/**
 * The scale that shows these numbers fully: 1 for chances, the largest size of signed ones, the extent of real ones.
 * @param {ArrayLike<number>} values @param {Kind} kind @returns {number | [number, number]}
 */
export function extentOf(values, kind) {
  if (kind !== "signed" && kind !== "real") return 1;
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    if (values[i] < low) low = values[i];
    if (values[i] > high) high = values[i];
  }
  if (kind === "real") return low < high ? [low, high] : [low - 1, low + 1];
  return Math.max(Math.abs(low), Math.abs(high)) || 1;
}

/** @param {Kind} kind @param {number | [number, number]} scale @returns {(value: number) => Colour} */
export function colourScale(kind, scale) {
  const missing = rgbOf(themeColour("--missing"));
  const [off, mid, on] = ["--off", "--mid", "--on"].map((name) => rgbOf(themeColour(name)));
  if (kind === "signed") {
    const [minus, zero, plus] = ["--down", "--off", "--up"].map((name) => rgbOf(themeColour(name)));
    const most = typeof scale === "number" ? scale : Math.max(...scale.map(Math.abs));
    return (value) => (Number.isNaN(value) ? missing : between([minus, zero, plus], 0.5 + value / most / 2));
  }
  const [low, high] = typeof scale === "number" ? [0, scale] : scale;
  return (value) => (Number.isNaN(value) ? missing : between([off, mid, on], (value - low) / (high - low)));
}

/** A colour on the way through three. @param {Colour[]} stops @param {number} place 0 to 1 @returns {Colour} */
export function between(stops, place) {
  const x = Math.min(Math.max(place, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(x), stops.length - 2);
  const t = x - i;
  return /** @type {Colour} */ (stops[i].map((own, k) => Math.round((1 - t) * own + t * stops[i + 1][k])));
}

/** @param {string} text "#rrggbb" @returns {Colour} */
export function rgbOf(text) {
  const [red, green, blue] = [1, 3, 5].map((i) => Number.parseInt(text.slice(i, i + 2), 16) || 0);
  return [red, green, blue];
}

/**
 * Numbers of a sensible length.
 * @param {number} value
 * @param {number} [digits] after the point, for numbers around 1
 */
export function shortNumber(value, digits = 2) {
  if (value === null || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const size = Math.abs(value);
  const text =
    size !== 0 && size < 10 ** -digits / 2
      ? value.toExponential(0)
      : value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : digits);
  return text.replace("-", "−");
}

/** The places of the numbers of largest size, the largest first. @param {ArrayLike<number>} values */
export function bySize(values) {
  return Array.from({ length: values.length }, (_, i) => i).sort(
    (a, b) => Math.abs(values[b]) - Math.abs(values[a]) || a - b,
  );
}

/**
 * @typedef {{name: string, value: number, other?: number, note?: string, marked?: boolean}} BarItem `other`: a second
 *   number, shown as a line across the bar (an average, an observed bit); `note`: text after the number
 * @typedef {{label?: string, scale?: number, signed?: boolean, most?: number, format?: (value: number) => string,
 *   onpick?: (index: number) => void}} BarOptions `most`: how many are shown before "more"; `scale`: the number of a
 *   full bar; `onpick`: names are buttons
 */

/**
 * Named numbers as a list with bars.
 * @param {BarItem[]} items in the order shown
 * @param {BarOptions} [options] @returns {HTMLElement}
 */
export function barList(items, options = {}) {
  const most = options.most ?? items.length;
  const signed = options.signed ?? items.some((item) => item.value < 0);
  const scale = options.scale ?? (Math.max(...items.map((item) => Math.abs(item.value))) || 1);
  const format = options.format ?? shortNumber;
  const long = items.some(({ name }) => name.length > LONG_NAME);
  const list = make("ol", { class: `bars${long ? " stacked" : ""}` });
  if (options.label) list.setAttribute("aria-label", options.label);
  /** @param {BarItem} item @param {number} i */
  const entry = (item, i) => {
    const name = options.onpick
      ? make("button", { type: "button", class: "name link", text: item.name, onclick: () => options.onpick?.(i) })
      : make("span", { class: "name", text: item.name });
    name.title = item.name;
    return make("li", item.marked ? { class: "marked" } : {}, [
      name,
      barOf(item.value / scale, signed, item.other === undefined ? undefined : item.other / scale),
      make("span", { class: "value", text: format(item.value) + (item.note ? ` ${item.note}` : "") }),
    ]);
  };
  list.append(...items.slice(0, most).map(entry));
  if (items.length <= most) return list;
  return unfolding(list, items, most, entry);
}

/**
 * A list of which the first are shown, and all on demand: within a box that scrolls, lest the page grow by metres, and
 * with a field that narrows many down.
 * @param {HTMLElement} list with its first entries
 * @param {BarItem[]} items @param {number} most @param {(item: BarItem, i: number) => HTMLElement} entry
 */
function unfolding(list, items, most, entry) {
  const left = items.length - most;
  const more = make("button", { type: "button", class: "small", "aria-expanded": "false", text: `${left} more` });
  const about = list.getAttribute("aria-label") ?? "these";
  const filter = filterField("names", `${about}: only names with this`);
  filter.hidden = true;
  const none = make("p", { class: "tiny", role: "status" });
  const show = () => {
    const open = more.getAttribute("aria-expanded") === "true";
    const wanted = filter.value.trim().toLowerCase();
    const shown = items.flatMap((item, i) => {
      const kept = open ? item.name.toLowerCase().includes(wanted) : i < most;
      return kept ? [entry(item, i)] : [];
    });
    list.replaceChildren(...shown);
    none.textContent = shown.length ? "" : "No name has this in it.";
  };
  more.addEventListener("click", () => {
    const open = more.getAttribute("aria-expanded") !== "true";
    more.setAttribute("aria-expanded", String(open));
    more.textContent = open ? "fewer" : `${left} more`;
    list.classList.toggle("unfolded", open);
    if (open)
      list.tabIndex = 0; // so that keys can scroll it
    else list.removeAttribute("tabindex");
    filter.hidden = !open || items.length < MANY_NAMES;
    filter.value = "";
    show();
  });
  filter.addEventListener("input", show);
  return make("div", { class: "bar-list" }, [filter, list, none, more]);
}

/**
 * A bar; readers of screens have the number beside it.
 * @param {number} share of the full length, -1 to 1
 * @param {boolean} [signed] from the middle
 * @param {number} [other] where a line crosses it
 */
export function barOf(share, signed = false, other = undefined) {
  const size = Math.min(Math.abs(share) || 0, 1) * (signed ? 50 : 100);
  const fill = make("span", { class: share < 0 ? "fill minus" : "fill" });
  fill.style.width = `${size}%`;
  fill.style.left = `${signed ? (share < 0 ? 50 - size : 50) : 0}%`;
  const bar = make("span", { class: signed ? "bar signed" : "bar", "aria-hidden": "true" }, [fill]);
  if (other !== undefined && Number.isFinite(other)) {
    const line = make("span", { class: "across" });
    line.style.left = `${Math.min(Math.max(signed ? 50 + 50 * other : 100 * other, 0), 100)}%`;
    bar.append(line);
  }
  return bar;
}

/**
 * A Hinton diagram: squares with the area of a number's size and the colour of its sign.
 * @param {ArrayLike<number>} values (rows, columns), row by row
 * @param {string[]} names of the columns
 * @param {{rows?: string[], scale?: number, label?: string}} [options] `rows`: their names; `scale`: the number of a
 *   full square
 * @returns {SVGElement}
 */
export function hinton(values, names, options = {}) {
  const cell = 14;
  const rows = options.rows ?? [""];
  const scale = options.scale ?? Number(extentOf(values, "signed"));
  const left = options.rows ? 8 + 6.6 * Math.max(...rows.map((name) => Math.min(name.length, 24))) : 2;
  const top = 8 + 6 * Math.max(...names.map((name) => Math.min(name.length, 24)));
  const width = left + cell * names.length + 4;
  const height = top + cell * rows.length + 4;
  const svg = makeSvg("svg", { class: "hinton", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const label = options.label ?? "Hinton diagram";
  svg.setAttribute("aria-label", label);
  svg.append(
    makeSvg("rect", { class: "ground", x: left, y: top, width: cell * names.length, height: cell * rows.length }),
  );
  names.forEach((name, j) => {
    const [x, y] = [left + cell * (j + 0.5) + 4, top - 4];
    const text = makeSvg("text", { x, y, transform: `rotate(-90 ${x} ${y})`, text: clipped(name, 24) });
    svg.append(text);
  });
  rows.forEach((row, i) => {
    if (row)
      svg.append(
        makeSvg("text", { x: left - 4, y: top + cell * (i + 0.75), "text-anchor": "end", text: clipped(row, 24) }),
      );
    for (let j = 0; j < names.length; j++) {
      const value = values[i * names.length + j];
      const side = (cell - 1) * Math.sqrt(Math.min(Math.abs(value) / scale, 1)) || 0;
      const [x, y] = [left + cell * (j + 0.5) - side / 2, top + cell * (i + 0.5) - side / 2];
      const square = makeSvg("rect", { class: value < 0 ? "minus" : "plus", x, y, width: side, height: side });
      square.append(makeSvg("title", { text: `${row ? `${row}, ` : ""}${names[j]}: ${shortNumber(value)}` }));
      svg.append(square);
    }
  });
  return svg;
}

/** @param {string} text @param {number} most characters */
export function clipped(text, most) {
  const letters = lettersOf(text, most);
  return letters ? `${letters.slice(0, most - 1).join("")}…` : text;
}
