/** Where the reader looks: the middle of the window, and how many pixels a unit of the map takes. */
import { boundsOf } from "./maths.js";

/** @import {Look} from "../page/state.js" */
/** @import {Window} from "./maths.js" */

const LEAST_ZOOM = 0.2;
const MOST_ZOOM = 400;

export class View {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.width = 1;
    this.height = 1;
    this.home = { x: 0, y: 0, scale: 1 };
  }

  /**
   * Show all points, with a margin; both axes in the same units.
   * @param {ArrayLike<number>} points x and y by turns
   * @param {Uint32Array | null} [only] those that count; null for all
   */
  fit(points, only = null) {
    const found = boundsOf(points, only);
    const { left, right, bottom, top } = found.left <= found.right ? found : { left: -1, right: 1, bottom: -1, top: 1 };
    const [across, up] = [Math.max(right - left, 0.1), Math.max(top - bottom, 0.1)];
    const room = { across: Math.max(this.width - 90, 50), up: Math.max(this.height - 80, 50) };
    const scale = Math.min(room.across / across, room.up / up);
    // a little to the left and down: numbers of the axes stand there
    this.home = { x: (left + right) / 2 - 12 / scale, y: (bottom + top) / 2 - 8 / scale, scale };
  }

  goHome() {
    Object.assign(this, this.home);
  }

  /** Where it looks, that another window can look there, too; null for all of the map. @returns {Look | null} */
  look() {
    const { x, y, scale, home } = this;
    return x === home.x && y === home.y && scale === home.scale ? null : { x, y, zoom: scale / home.scale };
  }

  /** @param {Look | null} look */
  lookAt(look) {
    this.goHome();
    if (!look) return;
    this.zoom(look.zoom);
    Object.assign(this, { x: look.x, y: look.y });
  }

  /** @param {number} x */
  across(x) {
    return (x - this.x) * this.scale + this.width / 2;
  }

  /** @param {number} y */
  down(y) {
    return (this.y - y) * this.scale + this.height / 2;
  }

  /** The place of the map at a pixel. @param {number} across @param {number} down */
  place(across, down) {
    return { x: this.x + (across - this.width / 2) / this.scale, y: this.y - (down - this.height / 2) / this.scale };
  }

  /** @param {number} across pixels that the picture moves by @param {number} down */
  pan(across, down) {
    this.x -= across / this.scale;
    this.y += down / this.scale;
  }

  /**
   * The place at this pixel stays where it is.
   * @param {number} factor @param {number} [across] @param {number} [down]
   */
  zoom(factor, across = this.width / 2, down = this.height / 2) {
    const before = this.place(across, down);
    this.scale = Math.min(Math.max(this.scale * factor, LEAST_ZOOM * this.home.scale), MOST_ZOOM * this.home.scale);
    const after = this.place(across, down);
    this.x += before.x - after.x;
    this.y += before.y - after.y;
  }

  /** @returns {Window} */
  window() {
    const a = this.place(0, this.height);
    const b = this.place(this.width, 0);
    return { left: a.x, right: b.x, bottom: a.y, top: b.y };
  }
}
