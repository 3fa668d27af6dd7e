/** What the model expects of a row at the place under the cursor. */
import { shortened } from "../page/cells.js";
import { make, part } from "../page/dom.js";
import { barOf, drawImage, shortNumber } from "../page/images.js";
import { groundOf } from "./grounds.js";
import { decodeAt } from "./maths.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */

const MOST_BARS = 14;

/** @param {Rows} rows @param {State} state */
export function showDecode(rows, state) {
  const { head } = rows;
  const element = part("decode");
  if (!element || !head.map) return;
  const where = make("p", { class: "note where" });
  element.append(make("h3", { text: "Under the cursor" }), where);
  const show = head.table.image_shape ? decodedImage(element, head, rows) : decodedBars(element, rows);
  const update = () => {
    const place = state.choices.place ?? { x: 0, y: 0 };
    const { weights, bias, number } = groundOf(rows, state.choices.map);
    const means = decodeAt(weights, bias, place, rows.real);
    const on = number === null ? "" : ` on map ${number + 1}`;
    where.textContent = `${rows.real ? "Mean" : "P(bit = 1)"}${on} at trait 1 = ${signed(place.x)}, trait 2 = ${signed(place.y)}${
      state.choices.place ? "" : ", the middle of the map; move over the map to see other places"
    }`;
    where.dataset.x = String(place.x);
    where.dataset.y = String(place.y);
    show(means);
  };
  state.on(["place", "map"], update);
  update();
}

/** @param {number} value */
function signed(value) {
  return value.toFixed(2).replace("-", "−");
}

/** @param {HTMLElement} element @param {any} head @param {Rows} rows @returns {(means: Float64Array) => void} */
function decodedImage(element, head, rows) {
  const canvas = make("canvas", { class: "decoded" });
  const said = make("p", { class: "note" });
  element.append(canvas, said);
  const kind = rows.real ? "real" : "probability";
  /** @type {number | [number, number]} */
  let scale = 1;
  if (rows.real) {
    const { means, sds } = rows.overall();
    scale = [Math.min(...means.map((m, j) => m - 2 * sds[j])), Math.max(...means.map((m, j) => m + 2 * sds[j]))];
  }
  const [height, width] = head.table.image_shape;
  /** @type {Float64Array} */
  let shown = new Float64Array(0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(width - 1, Math.floor((width * (event.clientX - box.left)) / box.width));
    const line = Math.min(height - 1, Math.floor((height * (event.clientY - box.top)) / box.height));
    const j = line * width + column;
    if (j >= 0 && j < shown.length) said.textContent = `${rows.columns[j]}: ${shortNumber(shown[j])}`;
  });
  canvas.addEventListener("pointerleave", () => {
    said.textContent = "";
  });
  return (means) => {
    shown = means;
    const label = `${rows.real ? "Mean" : "P(bit = 1)"} of each pixel at the place under the cursor`;
    drawImage(canvas, Float32Array.from(means), head.table.image_shape, { kind, scale, label });
  };
}

/** @param {HTMLElement} element @param {Rows} rows @returns {(means: Float64Array) => void} */
function decodedBars(element, rows) {
  const { means: overall, sds } = rows.overall();
  const select = make("select", { id: "decode-order" }, [
    make("option", { value: "different", text: "most unlike the whole table" }),
    make("option", { value: "high", text: rows.real ? "highest for the column" : "most likely 1" }),
    make("option", { value: "low", text: rows.real ? "lowest for the column" : "most likely 0" }),
  ]);
  const most = Math.min(MOST_BARS, rows.d);
  const lines = Array.from({ length: most }, () => {
    const name = make("span", { class: "name" });
    const bar = barOf(0, rows.real, rows.real ? 0 : 0.5);
    const value = make("span", { class: "value" });
    return { line: make("li", {}, [name, bar, value]), name, bar, value };
  });
  const entries = lines.map(({ line }) => line);
  element.append(
    make("p", { class: "controls" }, [make("label", { for: "decode-order", text: "First" }), select]),
    make("ol", { class: rows.real ? "bars decoded-bars numbers" : "bars decoded-bars" }, entries),
    make("p", {
      class: "note",
      text: rows.real
        ? "Bars: how far the mean here is from that of all rows, in standard deviations. Numbers: the mean here, and that of all rows."
        : "The stroke across a bar is the share of ones over all rows. Numbers: P here, and that share.",
    }),
  );
  /** @type {Float64Array} */
  let shown = overall;
  const show = (/** @type {Float64Array} */ means) => {
    shown = means;
    const away = means.map((mean, j) => (rows.real ? (mean - overall[j]) / (sds[j] || 1) : mean - overall[j]));
    const key = select.value === "different" ? away.map(Math.abs) : rows.real ? away : means.slice();
    const turn = select.value === "low" ? -1 : 1;
    const order = Array.from(key.keys()).sort((a, b) => turn * (key[b] - key[a]) || a - b);
    lines.forEach(({ line, name, bar, value }, k) => {
      const j = order[k];
      name.textContent = shortened(rows.columns[j], 24);
      name.title = rows.columns[j];
      line.dataset.column = String(j);
      value.textContent = rows.real
        ? `${shortNumber(means[j])} / ${shortNumber(overall[j])}`
        : `${means[j].toFixed(2)} / ${overall[j].toFixed(2)}`;
      value.title = `${means[j].toFixed(4)} here, ${overall[j].toFixed(4)} over all rows`;
      const fresh = rows.real ? barOf(away[j] / 3, true, 0) : barOf(means[j], false, overall[j]);
      bar.replaceChildren(...fresh.childNodes);
    });
  };
  select.addEventListener("change", () => show(shown));
  return show;
}
