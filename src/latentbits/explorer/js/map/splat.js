/** Many round points into the pixels of a picture, faster than a canvas draws them. */
import { rgbOf } from "../page/images.js";

const PHASES = 4; // a point's middle is known to a quarter of a pixel
const LARGEST = 80; // pixels
const HALO = 1; // pixels

/** @typedef {{size: number, cover: Float32Array}} Stamp */
/** @typedef {{data: Uint8ClampedArray, width: number, height: number}} Pixels */

/** How much of each pixel a disc covers, kept for each radius and place within the pixel. */
export class Stamps {
  constructor() {
    /** @type {Map<number, Stamp>} */
    this.kept = new Map();
  }

  /** @param {number} radius @param {number} across phase, below PHASES @param {number} down @returns {Stamp} */
  get(radius, across, down) {
    const key = (Math.round(radius * 4) * PHASES + across) * PHASES + down;
    let stamp = this.kept.get(key);
    if (!stamp) {
      stamp = disc(Math.round(radius * 4) / 4, (across + 0.5) / PHASES, (down + 0.5) / PHASES);
      this.kept.set(key, stamp);
    }
    return stamp;
  }
}

/**
 * @param {number} radius
 * @param {number} dx middle of the disc within the middle pixel
 * @param {number} dy @returns {Stamp}
 */
function disc(radius, dx, dy) {
  const half = Math.ceil(radius + 0.5);
  const size = 2 * half + 1;
  const cover = new Float32Array(size * size);
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const away = Math.hypot(column - half + 0.5 - dx, row - half + 0.5 - dy);
      cover[row * size + column] = Math.min(1, Math.max(0, radius + 0.5 - away));
    }
  }
  return { size, cover };
}

/**
 * @typedef {object} Dots
 * @property {Float32Array} across pixels
 * @property {Float32Array} down pixels
 * @property {Float32Array} radius pixels; none is drawn where it is 0
 * @property {Uint16Array} code of its colour
 * @property {Uint32Array} order in which they are drawn
 * @property {string[]} colours
 * @property {Float32Array} alpha how solid each is
 * @property {Map<number, number[]>} shares of dots of several colours: code and share by turns
 */

/**
 * Draw dots over opaque pixels.
 * @param {Pixels} pixels @param {Dots} dots @param {Stamps} stamps
 * @param {string | null} halo the colour of a thin edge, which keeps dots that touch apart
 */
export function drawDots(pixels, dots, stamps, halo) {
  const colours = dots.colours.map(rgbOf);
  const edge = halo ? rgbOf(halo) : null;
  for (const i of dots.order) {
    const radius = Math.min(dots.radius[i], LARGEST);
    if (radius <= 0) continue;
    const x = dots.across[i];
    const y = dots.down[i];
    if (x < -radius || y < -radius || x > pixels.width + radius || y > pixels.height + radius) continue;
    if (edge) drawStamp(pixels, x, y, stamps, radius + HALO, dots.alpha[i], edge);
    const shares = dots.shares.get(i);
    if (shares) drawPie(pixels, x, y, radius, dots.alpha[i], shares, colours);
    else drawStamp(pixels, x, y, stamps, radius, dots.alpha[i], colours[dots.code[i]]);
  }
}

/**
 * @param {Pixels} pixels @param {number} x @param {number} y @param {Stamps} stamps @param {number} radius
 * @param {number} alpha @param {number[]} colour
 */
function drawStamp(pixels, x, y, stamps, radius, alpha, colour) {
  const { data, width, height } = pixels;
  const px = Math.floor(x);
  const py = Math.floor(y);
  const { size, cover } = stamps.get(radius, Math.floor((x - px) * PHASES), Math.floor((y - py) * PHASES));
  const left = px - (size >> 1);
  const top = py - (size >> 1);
  const [red, green, blue] = colour;
  const firstColumn = Math.max(0, -left);
  const lastColumn = Math.min(size, width - left);
  for (let row = Math.max(0, -top); row < Math.min(size, height - top); row++) {
    let at = 4 * ((top + row) * width + left + firstColumn);
    for (let column = firstColumn; column < lastColumn; column++, at += 4) {
      const a = alpha * cover[row * size + column];
      if (a === 0) continue;
      data[at] += a * (red - data[at]);
      data[at + 1] += a * (green - data[at + 1]);
      data[at + 2] += a * (blue - data[at + 2]);
    }
  }
}

/**
 * Rows of several kinds at one place: a disc cut like a cake.
 * @param {Pixels} pixels @param {number} x @param {number} y @param {number} radius @param {number} alpha
 * @param {number[]} shares @param {number[][]} colours
 */
function drawPie(pixels, x, y, radius, alpha, shares, colours) {
  const { data, width, height } = pixels;
  const reach = radius + 1;
  for (let row = Math.max(0, Math.floor(y - reach)); row < Math.min(height, y + reach); row++) {
    for (let column = Math.max(0, Math.floor(x - reach)); column < Math.min(width, x + reach); column++) {
      const [dx, dy] = [column + 0.5 - x, row + 0.5 - y];
      const a = alpha * Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(dx, dy)));
      if (a === 0) continue;
      let turn = Math.atan2(dx, -dy) / (2 * Math.PI); // clockwise from the top
      if (turn < 0) turn += 1;
      let k = 0;
      for (; k < shares.length - 2 && turn >= shares[k + 1]; k += 2) turn -= shares[k + 1];
      const colour = colours[shares[k]];
      const at = 4 * (row * width + column);
      for (let channel = 0; channel < 3; channel++) data[at + channel] += a * (colour[channel] - data[at + channel]);
    }
  }
}
