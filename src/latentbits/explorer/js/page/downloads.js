/** Saving what is shown: pictures as PNG or SVG, numbers as CSV.  Nothing leaves the machine. */
import { button, make, themeColour } from "./dom.js";

/** What an SVG file must carry of the page's style, as attributes: a file has no style sheet. */
const CARRIED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "stroke-linejoin",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

/**
 * A row of download buttons.
 * @param {string} what is saved: the buttons of several figures differ by it
 * @param {Array<[string, () => void]>} actions label ("PNG") and action
 */
export function downloadRow(what, actions) {
  const row = make("div", { class: "downloads", role: "group", "aria-label": `Download ${what}` });
  row.append(make("span", { class: "tiny", text: "Download", "aria-hidden": "true" }));
  for (const [label, action] of actions) {
    const made = button(label, action, `Download ${what} as ${label}`);
    made.setAttribute("aria-label", `${label}: download ${what}`);
    row.append(made);
  }
  return row;
}

/** @param {Blob} blob @param {string} name of the file */
export function saveBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000); // the browser reads it after the click
}

/**
 * A table as RFC 4180 has it.  Text that a spreadsheet would take for a formula gets an apostrophe before it.
 * @param {Array<Array<string | number | null>>} rows the first holds the names of the columns
 */
export function csvText(rows) {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/** @param {string | number | null} cell */
function csvCell(cell) {
  if (cell === null || Number.isNaN(cell)) return "";
  if (typeof cell === "number") return String(cell);
  const isNumber = cell.trim() !== "" && Number.isFinite(Number(cell));
  const text = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/.test(cell) && !isNumber ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * @param {Array<Array<string | number | null>>} rows the first holds the names of the columns
 * @param {string} name of the file
 */
export function saveCsv(rows, name) {
  // By the mark at the start spreadsheets know that it is UTF-8.
  saveBlob(new Blob(["\ufeff", csvText(rows)], { type: "text/csv;charset=utf-8" }), name);
}

/** The drawing as a file of its own, in the colours it has now. @param {SVGElement} svg */
function svgText(svg) {
  const copy = /** @type {SVGElement} */ (svg.cloneNode(true));
  const [own, other] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
  own.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of CARRIED) other[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "style", "tabindex"]) other[i].removeAttribute(name);
  });
  own.forEach((element, i) => {
    if (getComputedStyle(element).display === "none" || element.hasAttribute("data-screen")) other[i].remove();
  });
  const [width, height] = sizeOf(svg);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", themeColour("--paper"));
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** Of the drawing, not of the screen. @param {SVGElement} svg */
function sizeOf(svg) {
  const box = svg.getAttribute("viewBox")?.split(" ").map(Number);
  return box ? [box[2], box[3]] : [svg.clientWidth, svg.clientHeight];
}

/** @param {SVGElement} svg @param {string} name of the file */
export function saveSvg(svg, name) {
  saveBlob(new Blob([svgText(svg)], { type: "image/svg+xml" }), name);
}

/**
 * Small pictures are enlarged, pixel by pixel; drawings are saved at twice their size.
 * @param {HTMLCanvasElement | SVGElement} picture
 * @param {string} name of the file
 */
export async function savePng(picture, name) {
  const canvas = picture instanceof HTMLCanvasElement ? enlarged(picture) : await painted(picture, 2);
  canvas.toBlob((blob) => {
    if (blob) saveBlob(blob, name);
  }, "image/png");
}

/** @param {HTMLCanvasElement} canvas @param {number} [least] pixels of the longer side */
function enlarged(canvas, least = 320) {
  const times = Math.max(1, Math.ceil(least / Math.max(canvas.width, canvas.height)));
  if (times === 1) return canvas;
  const large = make("canvas");
  large.width = times * canvas.width;
  large.height = times * canvas.height;
  const context = large.getContext("2d");
  if (context) {
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, 0, 0, large.width, large.height);
  }
  return large;
}

/** @param {SVGElement} svg @param {number} times its size */
async function painted(svg, times) {
  const [width, height] = sizeOf(svg);
  const address = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = make("canvas");
    canvas.width = Math.round(times * width);
    canvas.height = Math.round(times * height);
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas;
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** A name for a file: letters, digits and hyphens. @param {...string} parts */
export function fileName(...parts) {
  const words = parts
    .slice(0, -1)
    .join("-")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, "-");
  return `${words.replace(/^-+|-+$/g, "").slice(0, 80) || "latentbits"}.${parts.at(-1)}`;
}
