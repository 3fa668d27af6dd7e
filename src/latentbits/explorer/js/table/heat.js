/** The table itself as a picture: rows and columns in an order of the reader's, with their names under the cursor. */
import { bestFirst } from "../causes/causes.js";
import { make, part, selectOf, whenNear } from "../page/dom.js";
import { downloadRow, fileName, saveBlob, savePng } from "../page/downloads.js";
import { drawImage, shortNumber } from "../page/images.js";
import { blockMeans, orderBy, orderByCause, startOfBlock } from "./blocks.js";
import { heatSvg } from "./heatsvg.js";

/** @import {Arrays} from "../page/arrays.js" */
/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */

const MOST_HIGH = 560; // pixels
const LARGEST_ROW = 14; // pixels of a row of few

/**
 * @typedef {{text: string, order: () => Uint32Array}} Order
 * @typedef {{rows: Uint32Array, columns: Uint32Array, height: number, width: number, means: Float32Array}} Heat
 */

/** @param {Rows} rows @param {State} state */
export function showHeat(rows, state) {
  const { head, arrays } = rows;
  const place = part("heat");
  if (!place) return;
  const [rowOrders, columnOrders] = [ordersOfRows(head, arrays, rows), ordersOfColumns(arrays, rows)];
  const canvas = make("canvas", { tabindex: 0, role: "img" });
  const mark = make("div", { class: "heat-mark", "aria-hidden": "true", hidden: true });
  const frame = make("div", { class: "heat-frame" }, [canvas, mark]);
  const readout = make("p", { class: "readout", role: "status" });
  // its room is taken before it is drawn, lest what is below it move away under the reader's finger
  canvas.style.height = `${pixelsHigh(Math.min(rows.n, MOST_HIGH))}px`;
  /** @type {Heat | null} */
  let heat = null;
  const showMark = () => {
    const at = heat && state.choices.picked !== null ? heat.rows.indexOf(state.choices.picked) : -1;
    mark.hidden = at < 0;
    if (heat) mark.style.top = `${(100 * (at + 0.5)) / heat.rows.length}%`;
  };
  const draw = () => {
    const { rowsBy, columnsBy } = state.choices;
    heat = heatOf(rows, orderOf(rowOrders, rowsBy), orderOf(columnOrders, columnsBy), frame.clientWidth);
    const look = rows.real
      ? { kind: /** @type {const} */ ("signed"), scale: 2 }
      : { kind: /** @type {const} */ ("probability") };
    const label = `The table: ${heat.rows.length.toLocaleString("en")} rows by ${rowChoice.value}, ${rows.d} columns by ${columnChoice.value}`;
    drawImage(canvas, heat.means, [heat.height, heat.width], { ...look, label });
    canvas.removeAttribute("title"); // the line below it says what is under the cursor
    canvas.style.height = `${pixelsHigh(heat.height)}px`;
    const close = heat.rows.length < rows.n ? " These are the rows that were looked at closely." : "";
    readout.textContent = `${label}. ${sizeWords(heat)}${close}`;
    showMark();
  };
  state.set({ rowsBy: rowOrders[0].text, columnsBy: columnOrders[0].text });
  const rowChoice = selectOf(textsOf(rowOrders), (rowsBy) => state.set({ rowsBy }));
  const columnChoice = selectOf(textsOf(columnOrders), (columnsBy) => state.set({ columnsBy }));
  state.on(["rowsBy", "columnsBy"], ({ rowsBy, columnsBy }) => {
    rowChoice.value = orderOf(rowOrders, rowsBy).text;
    columnChoice.value = orderOf(columnOrders, columnsBy).text;
    if (heat) draw(); // else when it comes into sight
  });
  const pick = (/** @type {number} */ row) => state.set({ picked: row });
  followCursor(canvas, () => heat, rows, readout, pick);
  state.on(["picked"], showMark);
  place.append(
    make("p", { class: "about", text: aboutHeat(rows) }),
    make("div", { class: "controls heat-orders" }, [
      make("label", {}, [make("span", { text: "Rows by " }), rowChoice]),
      make("label", {}, [make("span", { text: "Columns by " }), columnChoice]),
    ]),
    frame,
    readout,
    downloadRow("the picture of the table", [
      ["PNG", () => savePng(canvas, fileName(head.table.source, "table", "png"))],
      [
        "SVG",
        () => {
          if (!heat) return;
          const text = heatSvg(canvas, heat, rows, rowChoice.value, columnChoice.value);
          saveBlob(new Blob([text], { type: "image/svg+xml" }), fileName(head.table.source, "table", "svg"));
        },
      ],
    ]),
  );
  drawWhenSeen(frame, draw);
}

/** @param {number} height of the picture, in rows or blocks of rows */
function pixelsHigh(height) {
  return Math.min(MOST_HIGH, LARGEST_ROW * height);
}

/** @param {Rows} rows */
function aboutHeat(rows) {
  const cells = rows.real
    ? "Red is above the mean of a column and blue below it, by up to two standard deviations."
    : "The darker (on a dark page: the lighter), the more ones.";
  return `Each cell of the table, or the mean of a block of cells where there are more than pixels. ${cells} Point at it for names; click to pick a row.`;
}

/** @param {Heat} heat */
function sizeWords({ rows, columns, height, width }) {
  const [down, across] = [rows.length / height, columns.length / width];
  if (down === 1 && across === 1) return "Each cell is shown.";
  return `A pixel is the mean of about ${shortNumber(down, 1)} rows and ${shortNumber(across, 1)} columns.`;
}

/** @param {any} head @param {Arrays} arrays @param {Rows} rows @returns {Order[]} */
function ordersOfRows(head, arrays, rows) {
  /** @type {Order[]} */
  const orders = [{ text: "their number", order: () => orderBy(rows.n, (i) => rows.number(i)) }];
  if (head.map) {
    const [means, cost] = [arrays["map.means"].data, arrays["map.cost"].data];
    orders.unshift({ text: "trait 1", order: () => orderBy(rows.n, (i) => means[2 * i]) });
    orders.push(
      { text: "trait 2", order: () => orderBy(rows.n, (i) => means[2 * i + 1]) },
      { text: "surprise", order: () => orderBy(rows.n, (i) => cost[i]) },
    );
  }
  head.table.labels.forEach((/** @type {{name: string}} */ { name }, /** @type {number} */ k) => {
    orders.push({ text: name, order: () => orderBy(rows.n, (i) => arrays[`labels.${k}`].data[i]) });
  });
  for (const { name, layers } of bestFirst(head.galleries, head.models)) {
    if (layers.length === 0) continue; // its causes carry nothing
    if (layers[0].usage.some((/** @type {number | null} */ usage) => usage === null)) continue; // traits
    orders.push({
      text: `strongest cause: ${name}`,
      order: () => orderByCause(arrays[`${layers[0].arrays}.active`]),
    });
  }
  return orders;
}

/** @param {Arrays} arrays @param {Rows} rows @returns {Order[]} */
function ordersOfColumns(arrays, rows) {
  /** @type {Order[]} */
  const orders = [
    { text: "their place", order: () => orderBy(rows.d, (j) => j) },
    { text: rows.real ? "mean" : "share of ones", order: () => orderBy(rows.d, (j) => rows.overall().means[j]) },
  ];
  const weights = arrays["map.weights"]?.data;
  if (!weights) return orders;
  const loading = (/** @type {number} */ k) => () => orderBy(rows.d, (j) => weights[k * rows.d + j]);
  return [
    { text: "loading on trait 1", order: loading(0) },
    { text: "loading on trait 2", order: loading(1) },
    ...orders,
  ];
}

/** What a list of them offers. @param {Order[]} orders @returns {Array<[string, string]>} */
function textsOf(orders) {
  return orders.map(({ text }) => [text, text]);
}

/** The order of this name, or the first. @param {Order[]} orders @param {string} text */
function orderOf(orders, text) {
  return orders.find((one) => one.text === text) ?? orders[0];
}

/**
 * @param {Rows} rows @param {Order} rowOrder @param {Order} columnOrder
 * @param {number} room pixels across
 * @returns {Heat}
 */
function heatOf(rows, rowOrder, columnOrder, room) {
  const [down, across] = [rowOrder.order(), columnOrder.order()];
  const [height, width] = [Math.min(down.length, MOST_HIGH), Math.min(rows.d, Math.max(room, 1))];
  return { rows: down, columns: across, height, width, means: blockMeans(rows, down, across, height, width) };
}

/** @param {HTMLElement} frame @param {() => void} draw */
function drawWhenSeen(frame, draw) {
  let width = 0;
  const again = () => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  };
  whenNear([frame], () => new ResizeObserver(again).observe(frame));
}

/**
 * What is under the mouse, or where the arrow keys went; a click or Enter picks the row.
 * @param {HTMLCanvasElement} canvas @param {() => Heat | null} heatNow @param {Rows} rows @param {HTMLElement} readout
 * @param {(row: number) => void} pick
 */
function followCursor(canvas, heatNow, rows, readout, pick) {
  const at = { x: 0, y: 0 };
  const tell = () => {
    const heat = heatNow();
    if (heat) readout.textContent = cellWords(heat, at.x, at.y, rows);
  };
  const pickHere = () => {
    const heat = heatNow();
    if (heat) pick(heat.rows[startOfBlock(at.y, heat.rows.length, heat.height)]);
  };
  canvas.addEventListener("pointermove", (event) => {
    const [heat, box] = [heatNow(), canvas.getBoundingClientRect()];
    if (!heat) return;
    const share = (/** @type {number} */ value, /** @type {number} */ n) =>
      Math.min(Math.max(Math.floor(value * n), 0), n - 1);
    at.x = share((event.clientX - box.left) / box.width, heat.width);
    at.y = share((event.clientY - box.top) / box.height, heat.height);
    tell();
  });
  canvas.addEventListener("click", pickHere);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const heat = heatNow();
    if (heat && event.key in moves) {
      const [dx, dy] = moves[/** @type {keyof typeof moves} */ (event.key)];
      at.x = Math.min(Math.max(at.x + dx, 0), heat.width - 1);
      at.y = Math.min(Math.max(at.y + dy, 0), heat.height - 1);
      tell();
    } else if (event.key === "Enter") pickHere();
    else return;
    event.preventDefault();
  });
}

/** @param {Heat} heat @param {number} x @param {number} y @param {Rows} rows */
function cellWords(heat, x, y, rows) {
  const own = [startOfBlock(y, heat.rows.length, heat.height), startOfBlock(y + 1, heat.rows.length, heat.height)];
  const columns = [startOfBlock(x, rows.d, heat.width), startOfBlock(x + 1, rows.d, heat.width)];
  const who = named(own, (k) => rows.name(heat.rows[k]), "rows");
  const what = named(columns, (k) => rows.columns[heat.columns[k]], "columns");
  const mean = heat.means[y * heat.width + x];
  if (own[1] - own[0] === 1 && columns[1] - columns[0] === 1) {
    const value = rows.at(heat.rows[own[0]], heat.columns[columns[0]]);
    return `${who}, ${what}: ${Number.isNaN(value) ? "missing" : shortNumber(value)}`;
  }
  const unit = rows.real ? " standard deviations from the mean" : " of the cells are 1";
  const value = rows.real ? shortNumber(mean) : `${Math.round(100 * mean)} %`;
  return `${who}, ${what}: ${Number.isNaN(mean) ? "all missing" : value + unit}`;
}

/** @param {number[]} range @param {(k: number) => string} nameOf @param {string} what */
function named([from, to], nameOf, what) {
  return to - from === 1 ? nameOf(from) : `${to - from} ${what}, ${nameOf(from)} to ${nameOf(to - 1)}`;
}
