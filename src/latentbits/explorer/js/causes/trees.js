/** Causes on a tree: the tree itself, the states of the column that is chosen, and what a picked row is in. */
import { make, makeSvg, selectOf } from "../page/dom.js";
import { downloadRow, fileName, saveCsv, savePng, saveSvg } from "../page/downloads.js";
import { barList, barOf, clipped, colourScale, imageOf, shortNumber } from "../page/images.js";
import { exampleRows, namedBars, onWords, percent, rowsWithIt, usageLine, weightText } from "./cards.js";
import { bitsText, edgeBetween, inCommon, neighboursOf, nextColumn, treePlaces, treeSvg } from "./treedrawing.js";
import { beliefs, chances, downward, mostProbable, treesOf } from "./treesums.js";

/** @import {Page} from "./cards.js" */
/** @import {Drawn} from "./treedrawing.js" */
/** @import {Beliefs, TreeModel} from "./treesums.js" */

const UNLIKELY = 0.1; // P(bit | all others) below which it is marked
const RARE = 0.005; // share below which a state has no card
const MOST_WORK = 4e7; // products for the examples of states
const MOST_EXAMPLES = 6;

/**
 * @typedef {object} TreeView
 * @property {any} tree of the page's head
 * @property {TreeModel | null} model null where the page has no states
 * @property {Float32Array} means P(bit = 1) of every column
 * @property {Float64Array} shares (d, k) of the states
 */

/** @param {any} gallery @param {Page} page @returns {HTMLElement} */
export function showTrees(gallery, page) {
  const { head, state } = page;
  const views = gallery.trees.map((/** @type {any} */ tree) => treeView(tree, page));
  const now = { tree: 0, column: busiest(gallery.trees[0]) };
  const picture = make("div", { class: "tree-picture" });
  const side = make("div", { class: "tree-side", "aria-live": "polite" });
  const cards = make("div");
  const legend = make("p", { class: "note tree-legend", role: "status" });
  const drawing = treeDrawing(picture, views, page, (column, follow) => choose(now.tree, column, follow));
  /** @param {number} tree @param {number} column @param {boolean} [follow] */
  const choose = (tree, column, follow = false) => {
    state.set({ cause: `${tree}:${column}` });
    if (follow) drawing.focus(column);
  };
  const columns = head.table.columns.map((/** @type {string} */ name, /** @type {number} */ j) => [j, name]);
  const column = selectOf(columns, (chosen) => choose(now.tree, Number(chosen)), { class: "tree-column" });
  const trees = views.map((/** @type {TreeView} */ { tree }, /** @type {number} */ m) => [
    m,
    `${m + 1}, of ${percent(tree.share)} of rows`,
  ]);
  const which = selectOf(trees, (tree) => choose(Number(tree), now.column));
  const pick = (/** @type {number} */ other) => choose(now.tree, other);
  const show = () => {
    if (state.choices.model !== gallery.name) return;
    const [tree, chosen] = (state.choices.cause ?? "").split(":").map(Number);
    if (chosen < head.table.columns.length && tree < views.length) Object.assign(now, { tree, column: chosen });
    const row = state.choices.picked;
    const found = rowIn(views, now.tree, row, page);
    column.value = String(now.column);
    which.value = String(now.tree);
    drawing.show(now.tree, now.column, found);
    legend.textContent = legendWords(views[now.tree], found, page);
    side.replaceChildren(...sideParts(views[now.tree], now.column, found, page, pick));
    cards.replaceChildren(...stateCards(views[now.tree], now.column, found, page));
  };
  state.on(["cause", "model", "picked"], show);
  const controls = make("div", { class: "controls" }, [
    ...(views.length > 1 ? [make("label", {}, [make("span", { text: "Tree " }), which])] : []),
    make("label", {}, [make("span", { text: "Column " }), column]),
    treeDownloads(gallery, now, picture, head),
  ]);
  show();
  return make("section", { class: "layer trees" }, [
    controls,
    make("div", { class: "tree-grid" }, [make("div", {}, [picture, legend]), side]),
    cards,
  ]);
}

/** @param {any} tree @param {Page} page @returns {TreeView} */
function treeView(tree, page) {
  if (!tree.arrays) return { tree, model: null, means: page.means, shares: new Float64Array(0) };
  const [transitions, emissions] = ["transitions", "emissions"].map((name) => page.arrays[`${tree.arrays}.${name}`]);
  const { parents } = tree;
  const model = {
    parents,
    order: downward(parents),
    k: emissions.shape[1],
    transitions: transitions.data,
    emissions: emissions.data,
  };
  const shares = beliefs(model).states;
  return { tree, model, means: chances(model, shares), shares };
}

/** The column that has the most in common with all its neighbours. @param {any} tree */
export function busiest(tree) {
  const total = tree.information.map((/** @type {number} */ own) => own);
  tree.parents.forEach((/** @type {number} */ parent, /** @type {number} */ j) => {
    if (parent >= 0) total[parent] += tree.information[j];
  });
  return total.indexOf(Math.max(...total));
}

// --- a row ---

/**
 * @typedef {object} RowIn what a tree says of a row
 * @property {number} row
 * @property {Float64Array} values
 * @property {Beliefs} beliefs
 * @property {Array<{state: number, share: number}>} states the most probable of each column
 * @property {number[]} trees P(tree | row)
 * @property {number[]} odd columns whose bits the others make unlikely, the most unlikely first
 */

/**
 * @param {TreeView[]} views @param {number} which @param {number | null} row @param {Page} page @returns {RowIn | null}
 */
function rowIn(views, which, row, page) {
  const models = views.flatMap(({ model }) => (model ? [model] : []));
  if (row === null || !models.length) return null;
  const values = page.rows.cells(row);
  const found = beliefs(models[which], { row: values });
  const shares = views.map(({ tree }) => tree.share);
  const odd = [...found.unlike.keys()]
    .filter((j) => found.unlike[j] < UNLIKELY)
    .sort((a, b) => found.unlike[a] - found.unlike[b]);
  const trees = models.length > 1 ? treesOf(models, shares, values) : [1];
  return { row, values, beliefs: found, states: mostProbable(models[which], found.states), trees, odd };
}

/** @param {TreeView} view @param {RowIn | null} found @param {Page} page */
function legendWords(view, found, page) {
  const { tree } = view;
  const most = Math.max(...tree.information);
  const chance = tree.parents.some(
    (/** @type {number} */ parent, /** @type {number} */ j) => parent >= 0 && !tree.sure[j],
  );
  const edges = `The thickest edge: ${bitsText(most)} bits in common.${chance ? " Dashed edges: no more than chance gives the best of all pairs." : ""}`;
  if (!found) {
    const pick = view.model ? " Pick a row, on the map or below, to see what it is in." : "";
    return `The darker a column (on a dark page: the lighter), the more often it is 1. ${edges}${pick}`;
  }
  const name = page.rows.title(found.row);
  const fill = tree.hidden ? `P(bit = 1) in the most probable state of ${name}` : `the bits of ${name}`;
  const missing = found.values.some(Number.isNaN) ? "; where its bit is missing, dotted" : "";
  const odd = found.odd.length
    ? `Red rings: the other bits make this one unlikely (P < ${UNLIKELY})`
    : `The other bits make none of its bits unlikely (P < ${UNLIKELY})`;
  const several =
    found.trees.length > 1
      ? ` It is of tree ${found.trees.map((share, m) => `${m + 1} with ${shortNumber(share)}`).join(", ")}.`
      : "";
  return `Filled by ${fill}${missing}. ${odd}.${several} ${edges}`;
}

// --- the drawing ---

/**
 * @param {HTMLElement} place @param {TreeView[]} views @param {Page} page
 * @param {(column: number, follow: boolean) => void} onchoose
 */
function treeDrawing(place, views, page, onchoose) {
  const { head } = page;
  const [names, shape] = [head.table.columns, head.table.image_shape];
  const now = { tree: -1, width: 0, column: 0, found: /** @type {RowIn | null} */ (null) };
  /** @type {SVGElement[]} */
  let nodes = [];
  let drawn = treePlaces(views[0].tree, shape, 1);
  const over = makeSvg("g", { class: "tree-names" });
  const paint = () => {
    const view = views[now.tree];
    const colour = colourScale("probability", 1);
    nodes.forEach((node, j) => {
      node
        .querySelector("circle:not(.hit)")
        ?.setAttribute("fill", `rgb(${colour(fillOf(view, now.found, j)).join(",")})`);
      node.classList.toggle("chosen", j === now.column);
      node.classList.toggle("odd", now.found?.odd.includes(j) ?? false);
      node.classList.toggle("missing", now.found !== null && Number.isNaN(now.found.values[j]));
      node.setAttribute("tabindex", j === now.column ? "0" : "-1");
      node.setAttribute("aria-pressed", String(j === now.column));
      node.setAttribute("aria-label", nodeWords(view, now.found, names, j));
      const after = node.querySelector(".tree-state");
      if (after) after.textContent = now.found ? stateWords(view, now.found, j) : "";
    });
    for (const edge of place.querySelectorAll("path.edge")) {
      const j = Number(edge.getAttribute("data-column"));
      edge.classList.toggle("near", j === now.column || view.tree.parents[j] === now.column);
    }
    tell(now.column);
  };
  /** @param {number} column */
  const tell = (column) =>
    over.replaceChildren(...(drawn.kind === "lines" ? [] : [nameAt(drawn, names[column], column)]));
  const draw = () => {
    const width = Math.floor(place.clientWidth) || 600;
    const view = views[now.tree];
    drawn = treePlaces(view.tree, shape, width);
    const label = `A tree over ${names.length} columns: arrows move along it`;
    const made = treeSvg(view.tree, names, drawn, label);
    nodes = made.nodes;
    now.width = width;
    made.svg.append(over);
    nodes.forEach((node, j) => {
      node.addEventListener("click", () => onchoose(j, true));
      node.addEventListener("pointerenter", () => tell(j));
      node.addEventListener("keydown", (event) => {
        const next = event.key === "Enter" || event.key === " " ? j : nextColumn(event.key, j, view.tree, shape);
        if (next === null) return;
        event.preventDefault();
        onchoose(next, true);
      });
    });
    made.svg.addEventListener("pointerleave", () => tell(now.column));
    place.replaceChildren(made.svg);
  };
  new ResizeObserver(() => {
    if (now.tree < 0 || Math.abs(place.clientWidth - now.width) < 2 || !place.clientWidth) return;
    draw();
    paint();
  }).observe(place);
  document.addEventListener("themechange", () => now.tree >= 0 && paint());
  return {
    /** @param {number} tree @param {number} column @param {RowIn | null} found */
    show: (tree, column, found) => {
      const other = tree !== now.tree;
      Object.assign(now, { tree, column, found });
      if (other) draw();
      paint();
    },
    /** @param {number} column */
    focus: (column) => nodes[column].focus({ preventScroll: true }),
  };
}

/** The number that a column is filled by. @param {TreeView} view @param {RowIn | null} found @param {number} j */
function fillOf(view, found, j) {
  const { model } = view;
  if (!found || !model) return view.means[j];
  if (Number.isNaN(found.values[j]) && !view.tree.hidden) return found.beliefs.states[j * model.k + 1];
  return model.emissions[j * model.k + found.states[j].state];
}

/** @param {TreeView} view @param {RowIn | null} found @param {string[]} names @param {number} j */
function nodeWords(view, found, names, j) {
  const parent = view.tree.parents[j];
  const words = [names[j], parent < 0 ? "the root" : `hangs from ${names[parent]}`];
  if (found) words.push(bitWords(view, found, j));
  else words.push(`1 in ${percent(view.means[j])} of rows`);
  return words.join(", ");
}

/** What a row is in at a column: "1, state 3 (0.92)". @param {TreeView} view @param {RowIn} found @param {number} j */
function stateWords(view, found, j) {
  const missing = Number.isNaN(found.values[j]);
  const { state, share } = found.states[j];
  const inState = view.tree.hidden || missing ? `, ${stateName(view, state)} (${weightText(share)})` : "";
  return (missing ? "missing" : String(found.values[j])) + inState;
}

/** The same, and how probable all other bits make it. @param {TreeView} view @param {RowIn} found @param {number} j */
function bitWords(view, found, j) {
  const unlike = found.beliefs.unlike[j];
  const given = Number.isNaN(unlike) ? "" : `; given all its other bits, P = ${weightText(unlike)}`;
  return stateWords(view, found, j) + given;
}

/**
 * A name over the drawing, above its column where there is room.
 * @param {Drawn} drawn @param {string} name @param {number} j
 */
function nameAt(drawn, name, j) {
  const place = drawn.x[j] / drawn.width;
  const anchor = place < 0.3 ? "start" : place > 0.7 ? "end" : "middle";
  const y = drawn.y[j] - drawn.radius - 7;
  const above = { x: drawn.x[j], y: y < 12 ? drawn.y[j] + drawn.radius + 16 : y, "text-anchor": anchor };
  return makeSvg("text", { ...above, text: clipped(name, 40) });
}

// --- the chosen column ---

/** @param {TreeView} view @param {number} t */
function stateName(view, t) {
  return view.tree.hidden ? `state ${t + 1}` : `bit ${t}`;
}

/**
 * @param {TreeView} view @param {number} j @param {RowIn | null} found @param {Page} page
 * @param {(column: number) => void} onpick
 */
function sideParts(view, j, found, page, onpick) {
  const { head } = page;
  const { tree } = view;
  const names = head.table.columns;
  const near = neighboursOf(tree, j);
  const items = near.map((other) => ({
    name: names[other],
    value: inCommon(tree, j, other),
    note: tree.found_again ? `· ${tree.found_again[edgeBetween(tree, j, other)]}/${tree.n_rounds}` : "",
  }));
  /** @type {HTMLElement[]} */
  const parts = [
    make("h3", { text: names[j] }),
    make("p", { class: "tiny", text: `1 in ${percent(view.means[j])} of rows` }),
  ];
  if (found)
    parts.push(make("p", { class: "picked-line", text: `${page.rows.name(found.row)}: ${bitWords(view, found, j)}` }));
  if (!items.length) return [...parts, make("p", { class: "note", text: "It has no neighbour." })];
  const again = tree.found_again
    ? `, and in how many of ${tree.n_rounds} fits to parts of the rows they are neighbours, too`
    : "";
  parts.push(
    make("p", { class: "tiny", text: `Neighbours, with the bits they have in common${again}` }),
    barList(items, {
      scale: Math.max(...tree.information) || 1,
      most: 8,
      format: bitsText,
      onpick: (i) => onpick(near[i]),
      label: `Neighbours of ${names[j]}`,
    }),
  );
  return parts;
}

/**
 * A card for each state of a column: how common it is, and what columns do in it.
 * @param {TreeView} view @param {number} j @param {RowIn | null} found @param {Page} page
 */
function stateCards(view, j, found, page) {
  const { head } = page;
  const { model } = view;
  if (!model) return [make("p", { class: "note", text: "Its states are too many for this page." })];
  const { k } = model;
  const [names, shape] = [head.table.columns, head.table.image_shape];
  const states = Array.from({ length: k }, (_, t) => t);
  const common = states.filter((t) => view.shares[j * k + t] >= RARE);
  const others = states.filter((t) => view.shares[j * k + t] < RARE && view.shares[j * k + t] > 0).length;
  const list = make("ul", { class: shape ? "cards" : "cards named", "aria-label": `States of ${names[j]}` });
  const looked = view.tree.hidden ? lookedAt(view, page) : null;
  for (const t of common) {
    const expected = chances(model, beliefs(model, { fixed: { column: j, state: t } }).states);
    const label = `P(bit = 1) in ${stateName(view, t)} of ${names[j]}`;
    const card = make("li", { class: "card filled" }, [make("h4", { text: stateName(view, t) })]);
    if (view.tree.hidden) {
      const chance = [{ name: names[j], value: model.emissions[j * k + t] }];
      card.append(barList(chance, { scale: 1, format: weightText, label: `P(bit = 1) of ${names[j]}` }));
    }
    card.append(usageLine(view.shares[j * k + t]));
    if (shape) card.append(imageOf(expected, shape, { kind: "probability", scale: 1, label }));
    else
      card.append(
        make("p", { class: "tiny", text: "P(1) of other columns then" }),
        othersThen(view, expected, names, j, label),
      );
    if (looked) card.append(examplesOf(looked, j * k + t, page));
    if (found) {
      const share = found.beliefs.states[j * k + t];
      const text = `${page.rows.name(found.row)}: ${weightText(share)}`;
      card.classList.toggle("on", found.states[j].state === t);
      card.append(make("div", { class: "picked-line" }, [barOf(share), make("span", { text })]));
    }
    list.append(card);
  }
  const what = view.tree.hidden ? `The states of ${names[j]}` : `${names[j]}, off and on`;
  const rare = others
    ? ` ${others} more ${others === 1 ? "state is" : "states are"} in less than ${100 * RARE} % of rows.`
    : "";
  const line = shape ? "" : " The line across a bar marks the mean of all rows.";
  return [
    make("h3", { text: what }),
    make("p", { class: "note", text: `What the model expects of all columns, given this alone.${line}${rare}` }),
    list,
  ];
}

/**
 * @param {TreeView} view @param {Float32Array} expected @param {string[]} names @param {number} j @param {string} label
 */
function othersThen(view, expected, names, j, label) {
  const kept = names.map((_, i) => i).filter((i) => i !== j);
  const [values, means] = [expected, view.means].map((all) => Float32Array.from(kept, (i) => all[i]));
  const others = kept.map((i) => names[i]);
  return namedBars(values, others, { scale: 1, label, most: 6 }, means);
}

/** @typedef {{shape: number[], data: Float32Array}} Looked posteriors of the first rows, (rows, d k) */

/** @type {WeakMap<TreeView, Looked>} */
const lookedAtOnce = new WeakMap();

/**
 * P(state | row) of the first rows, as many as can be had in no time.
 * @param {TreeView} view @param {Page} page @returns {Looked | null}
 */
function lookedAt(view, page) {
  const { model } = view;
  if (!model) return null;
  const known = lookedAtOnce.get(view);
  if (known) return known;
  const d = model.parents.length;
  const n = Math.min(page.head.n_close, Math.floor(MOST_WORK / (d * model.k * model.k)));
  const data = new Float32Array(n * d * model.k);
  for (let row = 0; row < n; row++) {
    data.set(beliefs(model, { row: page.rows.cells(row) }).states, row * d * model.k);
  }
  const found = { shape: [n, d * model.k], data };
  lookedAtOnce.set(view, found);
  return found;
}

/**
 * Rows that are most surely in a state.
 * @param {Looked} looked
 * @param {number} place of the state among all of all columns
 * @param {Page} page
 */
function examplesOf(looked, place, page) {
  const [n, m] = looked.shape;
  const share = (/** @type {number} */ row) => looked.data[row * m + place];
  const inIt = rowsWithIt(looked, place);
  const best = [...inIt].sort((a, b) => share(b) - share(a) || a - b).slice(0, MOST_EXAMPLES);
  const few = best.length < inIt.length ? `; most surely in ${best.length}` : "";
  return exampleRows(onWords(inIt.length, n), best, page, inIt, few);
}

/** @param {any} gallery @param {{tree: number}} now @param {HTMLElement} picture @param {any} head */
function treeDownloads(gallery, now, picture, head) {
  const name = (/** @type {string} */ end) => fileName(head.table.source, gallery.name, "tree", end);
  const svg = () => /** @type {SVGElement} */ (picture.querySelector("svg"));
  return downloadRow(`the tree of ${gallery.name}`, [
    ["SVG", () => saveSvg(svg(), name("svg"))],
    ["PNG", () => savePng(svg(), name("png"))],
    ["CSV", () => saveCsv(edgeRows(gallery.trees[now.tree], head.table.columns), name("csv"))],
  ]);
}

/**
 * A line an edge, those with the most in common first.
 * @param {any} tree @param {string[]} names @returns {Array<Array<string | number | null>>}
 */
export function edgeRows(tree, names) {
  const edges = [...tree.parents.keys()].filter((j) => tree.parents[j] >= 0);
  edges.sort((a, b) => tree.information[b] - tree.information[a] || a - b);
  const again = (/** @type {number} */ j) => (tree.found_again ? [tree.found_again[j], tree.n_rounds] : []);
  const header = ["column", "hangs_from", "bits_in_common", "beyond_chance"];
  return [
    [...header, ...(tree.found_again ? ["found_again", "of_fits"] : [])],
    ...edges.map((j) => [names[j], names[tree.parents[j]], tree.information[j], Number(tree.sure[j]), ...again(j)]),
  ];
}
