/** The map of rows: pan, zoom, colours, lines, lasso, and a row picked by mouse, finger or key. */
import { make, part, say } from "../page/dom.js";
import { arrowWords } from "./arrows.js";
import { MapFigure } from "./figure.js";
import { listenTo } from "./gestures.js";
import { showSelection } from "./lasso.js";
import { showLegend } from "./legend.js";
import { colourControl, columnControl, columnNames } from "./mapcontrols.js";
import { mapDownloads } from "./mapfiles.js";
import { fewerCorners, pointsInside } from "./maths.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {Arrow} from "./arrows.js" */
/** @import {Place} from "./maths.js" */

const REACH = 24; // pixels to the nearest point that counts as under the cursor
const NEAR_EDGE = 12; // pixels
const LASSO_STEP = 2; // pixels that a lasso's corners may be off what was drawn
const KEYS =
  "Arrow keys move the map, plus and minus zoom, 0 shows all. N and P go to the next and the previous nearest row, " +
  "Enter picks it, Shift and Enter picks a second one. L turns the lasso on, S selects the rows in the window, " +
  "Escape lets all go.";
const KEY_BACK = " Backspace leaves one of several maps.";

/** @param {Rows} rows @param {State} state */
export function showMap(rows, state) {
  const { head } = rows;
  const element = part("map");
  if (!element || !head.map) return;
  state.set({ colour: firstColour(head) });
  const frame = make("div", { class: "map-frame" });
  const legend = make("div", { class: "legend" });
  const names = columnNames(rows.columns);
  const tools = make("div", { class: "controls map-tools" }, [colourControl(head, rows, state, names.id)]);
  element.append(names, tools, frame, legend);
  const figure = new MapFigure(frame, rows, state);
  const map = new MapControl(figure, state, frame);
  tools.append(map.modes());
  frame.append(map.zoomButtons(), map.tip);
  const keys = make("details", { class: "keys" }, [
    make("summary", { text: "Keys and mouse" }),
    make("p", {
      class: "note",
      id: "map-keys",
      text:
        "Drag to move, turn the wheel or pinch to zoom, click to pick a row (A), " +
        `${head.morph ? "Ctrl-click for a second one (B), " : ""}Shift-drag to draw a lasso. With the map in focus: ${KEYS}${head.maps ? KEY_BACK : ""}`,
    }),
  ]);
  element.append(columnControl(rows, state, figure, names.id));
  element.append(mapDownloads(head, rows, figure, state), keys);
  const about = part("map-about");
  const describe = () => {
    if (about) about.textContent = aboutMap(rows, figure, state.choices.columns);
    figure.above.setAttribute("aria-label", nameOfMap(rows, figure));
  };
  describe();
  state.on(["columns", "lines", "map"], describe);
  const relegend = () => showLegend(legend, figure);
  relegend();
  state.on(["colour", "hidden", "map"], relegend);
  document.addEventListener("themechange", relegend);
  const selection = part("selection");
  if (selection) showSelection(selection, head, rows, state);
}

/** @param {any} head */
function firstColour(head) {
  if (head.map.label !== null) return `label:${head.map.label}`;
  if (head.table.image_shape || head.map.lines.length === 0) return "cost";
  return `bit:${head.map.lines[0]}`;
}

/** @param {Rows} rows @param {MapFigure} figure @param {"lines" | "arrows"} columns */
function aboutMap(rows, figure, columns) {
  const { number, rows: own } = figure.ground;
  const said = ["Each point is a row, placed by its two latent traits: rows near each other are alike."];
  if (own && number !== null) {
    said[0] =
      `Each point is one of the ${own.length.toLocaleString("en")} rows that are most probably on map ${number + 1}, ` +
      "placed by the two latent traits of this map.";
  }
  if (columns === "arrows") {
    said.push(
      `An arrow points to where ${rows.real ? "the mean of a column" : "a bit's chance to be 1"} grows; the longer, the more it changes along the map.`,
    );
  } else if (figure.state.choices.lines.length) {
    said.push("On a line a bit is as likely 1 as 0; its strokes point to where it is more likely 1.");
  }
  said.push("The ellipses show how sure the place of a row is: one and two standard deviations.");
  const { n_rows: all } = rows.table;
  if (rows.n < all) {
    said.push(`Shown are ${rows.n.toLocaleString("en")} of ${all.toLocaleString("en")} rows, drawn at random.`);
  }
  const { most } = figure.points;
  if (most > 1) said.push(`The larger a point, the more rows share it, up to ${most.toLocaleString("en")}.`);
  return said.join(" ");
}

/** @param {Rows} rows @param {MapFigure} figure */
function nameOfMap(rows, { ground }) {
  const many = (ground.rows ? ground.rows.length : rows.n).toLocaleString("en");
  return ground.number === null ? `Map of ${many} rows` : `Map ${ground.number + 1}, of ${many} rows`;
}

/** What the reader does on the map, and what comes of it. */
class MapControl {
  /** @param {MapFigure} figure @param {State} state @param {HTMLElement} frame */
  constructor(figure, state, frame) {
    this.figure = figure;
    this.state = state;
    this.frame = frame;
    this.mode = "move";
    /** @type {Record<string, HTMLElement>} */
    this.buttons = {};
    this.tip = make("div", { class: "map-tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    /** @type {{rows: Uint32Array, at: number} | null} */
    this.walk = null; // rows by their distance, and which of them the reader is at
    /** @type {{x: number, y: number} | null} */
    this.cursor = null;
    this.due = 0;
    const canvas = figure.above;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-describedby", "map-keys");
    listenTo(canvas, {
      hover: (x, y) => this.hover(x, y),
      leave: () => this.leave(),
      pick: (x, y, second) => this.pickAt(x, y, second),
      pan: (dx, dy) => this.change(() => figure.view.pan(dx, dy)),
      zoom: (factor, x, y) => this.change(() => figure.view.zoom(factor, x, y)),
      lasso: (points, done) => this.lasso(points, done),
      lassoing: () => this.mode === "lasso",
      key: (key, shift) => this.key(key, shift),
    });
    state.on(["hovered", "picked", "other"], () => this.showTip());
    state.on(["picked"], ({ picked }) => picked !== null && this.bringIn(picked));
    state.on(["lasso"], ({ lasso }) => {
      const inside = lasso.length ? pointsInside(figure.ground.means, lasso, (row) => figure.isSeen(row)) : [];
      state.set({ selected: Uint32Array.from(inside) });
    });
    state.on(["map"], () => {
      this.walk = null;
      this.point(null);
      this.showTip();
    });
    /** @type {Arrow | null} */
    this.arrow = null; // under the cursor
  }

  /** @param {() => void} move of the view */
  change(move) {
    move();
    this.walk = null;
    this.figure.moved();
    this.showTip();
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    this.cursor = { x, y };
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      if (!this.cursor) return;
      this.walk = null;
      this.figure.crosshair = false;
      const { x, y } = this.cursor;
      this.point(this.figure.arrowAt(x, y));
      const row = this.arrow ? null : this.figure.rowAt(x, y, REACH).row;
      this.state.set({ hovered: row, place: this.figure.view.place(x, y) });
    });
  }

  /** @param {Arrow | null} arrow under the cursor */
  point(arrow) {
    if (arrow?.column === this.arrow?.column) return;
    this.arrow = arrow;
    this.figure.marked = arrow ? arrow.column : null;
    this.figure.request(false);
    this.showTip();
  }

  leave() {
    this.cursor = null;
    this.point(null);
    this.state.set({ hovered: null });
  }

  /** @param {number} x @param {number} y @param {boolean} second */
  pickAt(x, y, second) {
    const { row } = this.figure.rowAt(x, y, REACH);
    this.state.set({ hovered: row, place: this.figure.view.place(x, y) });
    if (row !== null) this.pick(row, second || this.mode === "second");
  }

  /** @param {number} row @param {boolean} second */
  pick(row, second) {
    this.state.set(second ? { other: row } : { picked: row });
    say(`${second ? "Second row" : "Picked"}: ${this.inWords(row)}`);
    if (this.mode === "second") this.setMode("move");
  }

  /** @param {number} row */
  inWords(row) {
    const { rows } = this.figure;
    return [rows.name(row), ...rows.labels(row).map(([name, level]) => `${name} ${level}`)].join(", ");
  }

  /** @param {number[]} points pixels @param {boolean} done */
  lasso(points, done) {
    const { figure } = this;
    figure.lasso = done ? [] : points;
    figure.request(false);
    if (!done || points.length < 6) return;
    const polygon = [];
    const corners = fewerCorners(points, LASSO_STEP);
    for (let i = 0; i < corners.length; i += 2) {
      const { x, y } = figure.view.place(corners[i], corners[i + 1]);
      polygon.push(x, y);
    }
    this.select(polygon);
    this.setMode("move");
  }

  /**
   * Corners are rounded to about a pixel first: the link that holds them selects the same rows.
   * @param {number[]} polygon places of the map, x and y by turns
   */
  select(polygon) {
    const digits = Math.max(0, Math.ceil(Math.log10(this.figure.view.scale)));
    this.state.set({ lasso: polygon.map((value) => Number(value.toFixed(digits))) });
    say(`${this.state.choices.selected.length} rows selected`);
    part("selection")?.scrollIntoView({ block: "nearest" }); // on a narrow window it is below the map
  }

  selectWindow() {
    const { left, right, bottom, top } = this.figure.view.window();
    const corners = [left, bottom, right, bottom, right, top, left, top];
    this.select(corners);
  }

  /** @param {string} key @param {boolean} shift */
  key(key, shift) {
    const { figure, state } = this;
    const step = shift ? 120 : 40;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (key in moves) {
      const [dx, dy] = moves[/** @type {keyof typeof moves} */ (key)];
      this.byKeys(() => figure.view.pan(dx, dy));
    } else if (key === "+" || key === "=") this.byKeys(() => figure.view.zoom(1.4));
    else if (key === "-" || key === "_") this.byKeys(() => figure.view.zoom(1 / 1.4));
    else if (key === "0" || key === "Home") this.byKeys(() => figure.view.goHome());
    else if (key === "n" || key === "]") this.step(1);
    else if (key === "p" || key === "[") this.step(-1);
    else if (key === "l") this.setMode(this.mode === "lasso" ? "move" : "lasso");
    else if (key === "s") this.selectWindow();
    else if (key === "Enter" && state.choices.hovered !== null) this.pick(state.choices.hovered, shift);
    else if (key === "Escape") this.letGo();
    else if (key === "Backspace" && state.choices.map !== null) part("all-rows")?.click();
    else return false;
    return true;
  }

  /** The place looked at is then the middle of the window. @param {() => void} move of the view */
  byKeys(move) {
    this.change(move);
    this.figure.crosshair = true;
    const { x, y } = this.figure.view;
    this.state.set({ hovered: null, place: { x, y } });
  }

  letGo() {
    this.figure.lasso = [];
    this.setMode("move");
    this.state.set({ picked: null, other: null, hovered: null, lasso: [] });
    say("Nothing is picked or selected");
  }

  /** @param {number} by how many rows further away */
  step(by) {
    const { figure, state } = this;
    this.walk ??= { rows: this.byDistance(state.choices.place ?? figure.view), at: -1 };
    const { rows } = this.walk;
    if (rows.length === 0) return;
    this.walk.at = Math.min(Math.max(this.walk.at + by, 0), rows.length - 1);
    const row = rows[this.walk.at];
    this.bringIn(row);
    figure.crosshair = false;
    state.set({ hovered: row, place: figure.placeOf(row) });
    say(this.inWords(row));
  }

  /** Where a row is outside the window, or at its edge, the map moves to it. @param {number} row */
  bringIn(row) {
    const { figure } = this;
    if (figure.onIt(row) === null) return;
    const { x, y } = figure.pixelOf(row);
    if (x >= NEAR_EDGE && y >= NEAR_EDGE && x <= figure.view.width - NEAR_EDGE && y <= figure.view.height - NEAR_EDGE)
      return;
    Object.assign(figure.view, figure.placeOf(row));
    figure.moved();
  }

  /** @param {Place} from */
  byDistance(from) {
    const { means } = this.figure.ground;
    const away = Float64Array.from({ length: means.length / 2 }, (_, i) =>
      Math.hypot(means[2 * i] - from.x, means[2 * i + 1] - from.y),
    );
    const rows = Uint32Array.from(away.keys()).filter((row) => this.figure.isSeen(row));
    return rows.sort((a, b) => away[a] - away[b] || a - b);
  }

  /** @param {string} mode "move", "lasso" or "second" */
  setMode(mode) {
    this.mode = mode;
    this.frame.dataset.mode = mode;
    for (const [name, button] of Object.entries(this.buttons))
      button.setAttribute("aria-pressed", String(name === mode));
  }

  /** Lasso and second row: buttons, for those without a keyboard. */
  modes() {
    const about = {
      lasso: "Draw around rows to select them (or Shift-drag)",
      ...(this.figure.rows.head.morph && { second: "Pick a second row: the other end of the morph (or Ctrl-click)" }),
    };
    for (const [mode, title] of Object.entries(about)) {
      const text = mode === "lasso" ? "Lasso" : "Second row";
      const button = make("button", { type: "button", "aria-pressed": "false", text, title });
      button.addEventListener("click", () => this.setMode(this.mode === mode ? "move" : mode));
      this.buttons[mode] = button;
    }
    return make("span", { class: "modes" }, [this.namesButton(), ...Object.values(this.buttons)]);
  }

  /** Names beside the rows farthest out, or none. */
  namesButton() {
    const { figure } = this;
    const names = make("button", { type: "button", text: "Names", "aria-pressed": String(figure.named) });
    names.title = "Names of the rows farthest from the middle, where there is room";
    names.addEventListener("click", () => {
      figure.named = !figure.named;
      names.setAttribute("aria-pressed", String(figure.named));
      figure.request(false);
    });
    return names;
  }

  zoomButtons() {
    const { view } = this.figure;
    const actions = /** @type {Array<[string, string, () => void]>} */ ([
      ["+", "Zoom in", () => view.zoom(1.5)],
      ["−", "Zoom out", () => view.zoom(1 / 1.5)],
      ["⌂", "Show all rows", () => view.goHome()],
    ]);
    const buttons = actions.map(([text, label, action]) =>
      make("button", { type: "button", text, "aria-label": label, title: label, onclick: () => this.change(action) }),
    );
    return make("div", { class: "zoom" }, buttons);
  }

  /** The name of the row under the cursor, beside its point. */
  showTip() {
    const { figure, arrow } = this;
    const hovered = figure.onIt(this.state.choices.hovered);
    this.tip.hidden = hovered === null && !arrow;
    if (arrow) {
      const { weights, bias } = figure.ground;
      this.tipAt(arrow.to[0], arrow.to[1], arrowWords(arrow, figure.rows, weights, bias));
      return;
    }
    if (hovered === null) return;
    const { x, y } = figure.pixelOf(hovered);
    const { many } = figure.rowAt(x, y, 1);
    this.tipAt(x, y, [this.inWords(hovered), ...(many > 1 ? [`${many} rows are here`] : [])]);
  }

  /** @param {number} x pixels @param {number} y @param {string[]} lines */
  tipAt(x, y, lines) {
    const { figure } = this;
    this.tip.replaceChildren(...lines.map((text) => make("div", { text })));
    const right = x > figure.view.width / 2;
    this.tip.style.left = right ? "" : `${x + 14}px`;
    this.tip.style.right = right ? `${figure.view.width - x + 14}px` : "";
    this.tip.style.top = `${Math.max(4, y - 34)}px`;
  }
}
