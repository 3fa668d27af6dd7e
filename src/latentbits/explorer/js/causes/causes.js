/** The causes that each model found: a tab a model, a card a cause. */
import { make, part, selectOf, whenNear } from "../page/dom.js";
import { downloadRow, fileName, saveCsv, savePng, saveSvg } from "../page/downloads.js";
import { hinton, imageOf } from "../page/images.js";
import { cardParts, layerView, markPicked } from "./cards.js";
import { showExplanation } from "./explanation.js";
import { showTrees } from "./trees.js";

/** @import {Rows} from "../page/cells.js" */
/** @import {Kind} from "../page/images.js" */
/** @import {State} from "../page/state.js" */
/** @import {LayerView, Page} from "./cards.js" */

const MANY = 24; // cards that scroll in a box of their own
const MOST_SQUARES = 12_000; // of a Hinton diagram

/** @param {Rows} rows @param {State} state */
export function showCauses(rows, state) {
  const { head, arrays } = rows;
  const place = part("causes");
  if (!place) return;
  if (!head.galleries.length) {
    place.append(make("p", { class: "note", text: "No model that has causes was fitted." }));
    return;
  }
  const page = { rows, head, arrays, state, means: columnMeans(rows) };
  const galleries = bestFirst(head.galleries, head.models);
  const list = make("div", { role: "tablist", "aria-label": "Models" });
  const tabs = galleries.map((gallery, i) =>
    make("button", {
      type: "button",
      role: "tab",
      id: `gallery-tab-${i}`,
      "aria-controls": `gallery-${i}`,
      text: gallery.name,
    }),
  );
  const panels = galleries.map((_, i) =>
    make("div", { role: "tabpanel", id: `gallery-${i}`, "aria-labelledby": `gallery-tab-${i}`, class: "gallery" }),
  );
  /** @param {number} chosen */
  const select = (chosen) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
    if (!panels[chosen].childElementCount) fillGallery(panels[chosen], galleries[chosen], page);
  };
  /** @param {number} chosen */
  const choose = (chosen) => state.set({ model: galleries[chosen].name, cause: null });
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(i));
    tab.addEventListener("keydown", (event) => {
      const next = nextTab(event.key, i, tabs.length);
      if (next === null) return;
      event.preventDefault();
      choose(next);
      tabs[next].focus();
    });
  });
  list.append(...tabs);
  place.append(list, ...panels);
  state.on(["model"], ({ model }) => {
    const chosen = galleries.findIndex((gallery) => gallery.name === model);
    if (chosen >= 0) select(chosen);
  });
  choose(0);
}

/**
 * Galleries in the order of the comparison, those of models that are not in it last; after them all those that have a
 * note, as of fits that had not converged.
 * @param {any[]} galleries
 * @param {any[]} models the best first
 */
export function bestFirst(galleries, models) {
  const place = (/** @type {any} */ gallery) => {
    const found = models.findIndex((model) => model.name === gallery.name);
    return found < 0 ? models.length : found;
  };
  return [...galleries].sort((a, b) => Number(Boolean(a.note)) - Number(Boolean(b.note)) || place(a) - place(b));
}

/** Where a key leads from tab i of n; null for other keys. @param {string} key @param {number} i @param {number} n */
export function nextTab(key, i, n) {
  if (key === "ArrowRight" || key === "ArrowDown") return (i + 1) % n;
  if (key === "ArrowLeft" || key === "ArrowUp") return (i + n - 1) % n;
  if (key === "Home") return 0;
  return key === "End" ? n - 1 : null;
}

/** Means of the bits over the rows looked at closely; of numbers none. @param {Rows} rows */
function columnMeans(rows) {
  if (rows.real) return new Float32Array(rows.d).fill(Number.NaN);
  const { sums, counts } = rows.sums(Uint32Array.from({ length: rows.head.n_close }, (_, i) => i));
  return Float32Array.from(sums, (sum, j) => sum / counts[j]);
}

/** @param {HTMLElement} panel @param {any} gallery @param {Page} page */
function fillGallery(panel, gallery, page) {
  const layers = gallery.layers.map((/** @type {any} */ _, /** @type {number} */ i) => layerView(gallery, i, page));
  if (gallery.note) panel.append(make("p", { class: "warning", text: gallery.note }));
  if (gallery.trees.length) {
    panel.append(make("p", { class: "about", text: gallery.about }), showTrees(gallery, page));
    return;
  }
  if (!layers.length) return; // its causes carry nothing
  panel.append(make("p", { class: "about", text: `${gallery.about} ${scaleWords(gallery.kind, page.head)}` }));
  const note = make("p", { class: "note picked-note", role: "status" });
  const explains = gallery.layers.every((/** @type {any} */ one) => page.arrays[`${one.arrays}.states`]);
  if (explains) panel.append(showExplanation(gallery, layers, page));
  // What a layer drives is below it.
  for (let i = layers.length - 1; i >= 0; i--) panel.append(layerSection(gallery, layers[i], page, layers.length > 1));
  panel.append(note);
  const { head, rows, state } = page;
  const tellPicked = () => {
    const row = state.choices.picked;
    note.hidden = row === null || row < head.n_close;
    if (row !== null && row >= head.n_close) {
      note.textContent = `What the models say of ${rows.title(row)} is not on this page: of the rows shown, ${head.n_close.toLocaleString("en")} were looked at closely.`;
    }
  };
  panel.prepend(note);
  state.on(["picked"], tellPicked);
  tellPicked();
}

/** What the colours or bars mean. @param {string} kind @param {any} head */
function scaleWords(kind, head) {
  const images = head.table.image_shape !== null;
  if (kind === "signed") return "Red pulls up, blue pulls down.";
  if (kind === "probability" && !images) {
    return "Names are in the order of how much they differ from the mean of all rows, which the line across a bar marks.";
  }
  return images ? "The darker (on a dark page: the lighter), the more." : "";
}

/**
 * A layer: its controls, and its cards or its Hinton diagram.
 * @param {any} gallery @param {LayerView} layer @param {Page} page @param {boolean} titled
 */
function layerSection(gallery, layer, page, titled) {
  const n = layer.names.length;
  const named = page.head.table.image_shape ? "" : " named";
  const grid = make("ul", { class: `cards${n > MANY ? " many" : ""}${named}`, "aria-label": layer.title });
  if (n > MANY) grid.tabIndex = 0; // so that keys can scroll it
  const diagram = make("div", { class: "scroll", hidden: true, tabindex: 0, role: "region" });
  diagram.setAttribute("aria-label", `${layer.title} as a Hinton diagram`);
  const cards = layer.names.map((name, cause) => {
    const mark = make("button", { type: "button", class: "link cause-name", text: name, "aria-pressed": "false" });
    mark.title = "Mark it: a link to this view leads here";
    return make("li", { class: "card", "data-cause": cause }, [make("h4", {}, [mark])]);
  });
  markChosen(cards, gallery, layer, page.state);
  fillWhenSeen(cards, layer, page);
  /** @param {string} by */
  const arrange = (by) => grid.append(...causesBy(by, layer.usage).map((cause) => cards[cause]));
  arrange("usage");
  const controls = make("div", { class: "controls" });
  if (titled) controls.append(make("h3", { text: layer.title }));
  if (n > 1 && layer.usage.every((usage) => usage !== null)) controls.append(sorter(arrange));
  if (n * layer.below.length <= MOST_SQUARES) controls.append(hintonSwitch(layer, grid, diagram));
  controls.append(layerDownloads(gallery, layer, page, diagram));
  return make("section", { class: "layer" }, [controls, grid, diagram]);
}

/**
 * A click on the name of a cause marks its card, and another lets it go.
 * @param {HTMLElement[]} cards @param {any} gallery @param {LayerView} layer @param {State} state
 */
function markChosen(cards, gallery, layer, state) {
  const name = (/** @type {number} */ cause) => `${layer.number}:${cause}`;
  const show = () => {
    cards.forEach((card, cause) => {
      const chosen = state.choices.model === gallery.name && state.choices.cause === name(cause);
      card.classList.toggle("chosen", chosen);
      card.querySelector(".cause-name")?.setAttribute("aria-pressed", String(chosen));
    });
  };
  cards.forEach((card, cause) => {
    card.querySelector(".cause-name")?.addEventListener("click", () => {
      state.set({ cause: state.choices.cause === name(cause) ? null : name(cause) });
    });
  });
  state.on(["cause", "model"], show);
  show();
}

/**
 * The order of causes: by number, or those that are on most often first.
 * @param {string} by "usage" or "number"
 * @param {Array<number | null>} usage
 */
export function causesBy(by, usage) {
  const order = [...usage.keys()];
  return by === "usage" ? order.sort((a, b) => (usage[b] ?? 0) - (usage[a] ?? 0) || a - b) : order;
}

/** @param {(by: string) => void} arrange */
function sorter(arrange) {
  const options = /** @type {Array<[string, string]>} */ ([
    ["usage", "how often they are on"],
    ["number", "number"],
  ]);
  return make("label", { class: "sorter" }, [make("span", { text: "Order by " }), selectOf(options, arrange)]);
}

/** @param {LayerView} layer @param {HTMLElement} grid @param {HTMLElement} diagram */
function hintonSwitch(layer, grid, diagram) {
  const toggle = make("button", { type: "button", class: "small", "aria-pressed": "false", text: "Hinton diagram" });
  toggle.title = "All weights at once: squares with the area of their size and the colour of their sign";
  toggle.addEventListener("click", () => {
    const on = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(on));
    grid.hidden = on;
    diagram.hidden = !on;
    if (on && !diagram.childElementCount) {
      const values = layer.names.flatMap((_, cause) => [...layer.shown(cause)]);
      const label = `${layer.title}: ${layer.names.length} causes and ${layer.below.length} columns`;
      diagram.append(hinton(values, layer.below, { rows: layer.names, scale: layer.scale, label }));
    }
  });
  return toggle;
}

/**
 * Cards are filled when they come near the window, or are printed.
 * @param {HTMLElement[]} cards @param {LayerView} layer @param {Page} page
 */
function fillWhenSeen(cards, layer, page) {
  const filled = new Set();
  /** @param {HTMLElement} card */
  const fill = (card) => {
    const cause = Number(card.dataset.cause);
    if (filled.has(cause)) return;
    filled.add(cause);
    card.append(...cardParts(layer, cause, page));
    card.classList.add("filled");
    markPicked(card, layer, cause, page);
  };
  whenNear(cards, fill);
  matchMedia("print").addEventListener("change", ({ matches }) => {
    if (matches) for (const card of cards) fill(card);
  });
  page.state.on(["picked"], () => {
    for (const cause of filled) markPicked(cards[cause], layer, cause, page);
  });
}

/** @param {any} gallery @param {LayerView} layer @param {Page} page @param {HTMLElement} diagram */
function layerDownloads(gallery, layer, page, diagram) {
  const { head } = page;
  const name = (/** @type {string} */ end) => fileName(head.table.source, gallery.name, layer.title, end);
  const picture = () => {
    const svg = /** @type {SVGElement | null} */ (diagram.hidden ? null : diagram.querySelector("svg"));
    return svg ?? sheetOf(layer, head.table.image_shape);
  };
  /** @type {Array<[string, () => void]>} */
  const actions = [["CSV", () => saveCsv(weightRows(layer), name("csv"))]];
  if (head.table.image_shape) actions.unshift(["PNG", () => savePng(picture(), name("png"))]);
  else {
    const show = () => {
      const rows = layer.names.flatMap((_, cause) => [...layer.shown(cause)]);
      const svg = hinton(rows, layer.below, { rows: layer.names, scale: layer.scale });
      diagram.append(svg); // its colours are those of the page
      saveSvg(svg, name("svg"));
      svg.remove();
    };
    if (layer.names.length * layer.below.length <= MOST_SQUARES) actions.unshift(["SVG", show]);
  }
  return downloadRow(`${layer.title.toLowerCase()} of ${gallery.name}`, actions);
}

/**
 * A line a cause: its usage and its weights, as the model has them.
 * @param {LayerView} layer @returns {Array<Array<string | number | null>>}
 */
export function weightRows(layer) {
  const d = layer.below.length;
  return [
    ["cause", "usage", ...layer.below],
    ...layer.names.map((name, i) => [name, layer.usage[i], ...layer.weights.data.subarray(i * d, (i + 1) * d)]),
  ];
}

/** All pictures of a layer on one sheet, a pixel apart. @param {LayerView} layer @param {[number, number]} shape */
function sheetOf(layer, shape) {
  const across = Math.ceil(Math.sqrt(layer.names.length));
  const sheet = make("canvas");
  sheet.width = across * (shape[1] + 1) + 1;
  sheet.height = Math.ceil(layer.names.length / across) * (shape[0] + 1) + 1;
  layer.names.forEach((_, cause) => {
    const d = shape[0] * shape[1];
    const projected = layer.projected?.data.subarray(cause * d, (cause + 1) * d);
    const kind = /** @type {Kind} */ (projected ? "probability" : layer.kind);
    const values = /** @type {Float32Array} */ (projected ?? layer.shown(cause));
    const picture = imageOf(values, shape, { kind, scale: layer.scale });
    const [x, y] = [1 + (cause % across) * (shape[1] + 1), 1 + Math.floor(cause / across) * (shape[0] + 1)];
    sheet.getContext("2d")?.drawImage(picture, x, y);
  });
  return sheet;
}
