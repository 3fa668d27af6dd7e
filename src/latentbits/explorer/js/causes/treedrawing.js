/** A tree of columns as a drawing: from left to right with names, spread out where they are many, or on pixels. */
import { makeSvg } from "../page/dom.js";
import { clipped, shortNumber } from "../page/images.js";

const MOST_WITH_NAMES = 64; // columns that have a line with a name each
const LETTER = 7; // pixels, about
const THICKEST = 9; // pixels of the edge with the most in common
const WIDE_ENOUGH = 500; // pixels: for what a row is in, after the names
const BULGE = 0.42; // of a cell, by which an edge passes pixels between those it joins
const MOST_SIDE = 720; // pixels of a drawing around the root

/**
 * @typedef {object} Drawn where everything is
 * @property {"lines" | "around" | "pixels"} kind
 * @property {number[]} x
 * @property {number[]} y
 * @property {number} width
 * @property {number} height
 * @property {number} radius of a node
 * @property {number} thickest of all edges
 * @property {number} cell from one pixel to the next; 0 where columns are none
 */

/**
 * @param {any} tree of the page's head
 * @param {[number, number] | null} shape where columns are pixels
 * @param {number} width there is, in pixels
 * @returns {Drawn}
 */
export function treePlaces(tree, shape, width) {
  const d = tree.parents.length;
  if (shape) {
    const cell = Math.min(width / shape[1], MOST_SIDE / Math.max(...shape), 60);
    const x = Array.from({ length: d }, (_, j) => cell * ((j % shape[1]) + 0.5));
    const y = Array.from({ length: d }, (_, j) => cell * (Math.floor(j / shape[1]) + 0.5));
    const size = { width: cell * shape[1], height: cell * shape[0] };
    return { kind: "pixels", x, y, ...size, radius: 0.25 * cell, thickest: Math.min(0.3 * cell, THICKEST), cell };
  }
  if (d <= MOST_WITH_NAMES) {
    const high = d <= 40 ? 21 : 17;
    const step = Math.min(90, (0.5 * width) / Math.max(...tree.depth, 1));
    const x = tree.depth.map((/** @type {number} */ depth) => 14 + step * depth);
    const y = tree.line.map((/** @type {number} */ line) => high * (line + 0.5) + 2);
    const size = { width, height: high * d + 4 };
    return { kind: "lines", x, y, ...size, radius: 5.5, thickest: Math.min(THICKEST, 0.4 * step), cell: 0 };
  }
  const side = Math.min(width, MOST_SIDE);
  const radius = Math.max(2, Math.min(6, (0.16 * side) / Math.sqrt(d)));
  const far = side / 2 - radius - 4;
  const [x, y] = [0, 1].map((axis) => tree.places.map((/** @type {number[]} */ place) => side / 2 + far * place[axis]));
  return {
    kind: "around",
    x,
    y,
    width: side,
    height: side,
    radius,
    thickest: Math.min(THICKEST, 1.6 * radius),
    cell: 0,
  };
}

/** @param {any} tree @param {string[]} names of the columns @param {Drawn} drawn @param {string} label in words */
export function treeSvg(tree, names, drawn, label) {
  const { x, y, width, height, radius } = drawn;
  const box = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = makeSvg("svg", { class: `tree ${drawn.kind}`, ...box, role: "group", "aria-label": label });
  const most = Math.max(...tree.information) || 1;
  const order = [...tree.parents.keys()].sort((a, b) => tree.information[b] - tree.information[a]);
  const edges = makeSvg("g", { class: "tree-edges" });
  for (const j of order) {
    if (tree.parents[j] < 0) continue;
    const edge = makeSvg("path", {
      d: edgePath(drawn, tree.parents[j], j),
      class: tree.sure[j] ? "edge" : "edge unsure-edge",
      "stroke-width": 1 + (drawn.thickest - 1) * (tree.information[j] / most),
      "data-column": j,
    });
    edge.append(makeSvg("title", { text: edgeWords(tree, names, j) }));
    edges.append(edge);
  }
  const nodes = tree.line.map((/** @type {number} */ _, /** @type {number} */ j) => {
    const node = makeSvg("g", { class: "tree-node", role: "button", tabindex: -1, "data-column": j });
    const spot = { cx: x[j], cy: y[j], r: radius };
    if (drawn.kind === "lines") {
      const room = Math.floor((width - x[j] - radius - 8) / LETTER);
      const text = { x: x[j] + radius + 5, y: y[j] + 4, text: clipped(names[j], Math.max(room, 4)) };
      const far = { x: x[j] - radius, y: y[j] - 9, width: width - x[j], height: 18, class: "hit", "data-screen": true };
      node.append(makeSvg("rect", far), makeSvg("circle", spot), makeSvg("text", text));
      if (width >= WIDE_ENOUGH) {
        const after = text.x + LETTER * text.text.length + 14;
        node.append(makeSvg("text", { x: after, y: text.y, class: "tree-state" }));
      }
    } else {
      node.append(makeSvg("circle", { ...spot, r: Math.max(radius, 7), class: "hit", "data-screen": true }));
      node.append(makeSvg("circle", { ...spot, class: "dot" }));
    }
    node.append(makeSvg("title", { text: names[j] }));
    return node;
  });
  svg.append(edges, ...nodes);
  return { svg, nodes };
}

/** @param {any} tree @param {string[]} names @param {number} j a column that hangs from another */
export function edgeWords(tree, names, j) {
  const words = `${names[j]} and ${names[tree.parents[j]]}: ${bitsText(tree.information[j])} bits in common`;
  return words + (tree.sure[j] ? "" : ", no more than chance gives") + againWords(tree, j);
}

/** In how many other fits an edge was found; "" where there were none. @param {any} tree @param {number} j */
export function againWords(tree, j) {
  return tree.found_again
    ? `, found again in ${tree.found_again[j]} of ${tree.n_rounds} fits to parts of the rows`
    : "";
}

/** @param {number} bits */
export function bitsText(bits) {
  return bits < 0.0005 ? "0.000" : shortNumber(bits, 3);
}

/** @param {Drawn} drawn @param {number} from @param {number} to */
export function edgePath(drawn, from, to) {
  const { x, y, kind, cell } = drawn;
  const start = `M${short(x[from])} ${short(y[from])}`;
  const [across, down] = [x[to] - x[from], y[to] - y[from]];
  if (kind === "lines") {
    // down or up first, and then across: so it crosses no name
    const bend = Math.min(9, across, Math.abs(down));
    const corner = `Q${short(x[from])} ${short(y[to])} ${short(x[from] + bend)} ${short(y[to])}`;
    return `${start}V${short(y[to] - Math.sign(down) * bend)}${corner}H${short(x[to])}`;
  }
  const straight = kind === "around" || Math.max(Math.abs(across), Math.abs(down)) < 1.5 * cell;
  if (straight) return `${start}L${short(x[to])} ${short(y[to])}`;
  // past the pixels between, not through them
  const aside = (2 * BULGE * cell) / Math.hypot(across, down);
  const [mx, my] = [x[from] + across / 2 - aside * down, y[from] + down / 2 + aside * across];
  return `${start}Q${short(mx)} ${short(my)} ${short(x[to])} ${short(y[to])}`;
}

/** @param {number} value */
function short(value) {
  return value.toFixed(1);
}

/**
 * Where a key leads from a column; null for other keys, and where there is nothing.
 * @param {string} key @param {number} j @param {any} tree
 * @param {[number, number] | null} shape where columns are pixels
 * @returns {number | null}
 */
export function nextColumn(key, j, tree, shape) {
  const d = tree.parents.length;
  if (shape) {
    const [across, down] = /** @type {Record<string, number[]>} */ ({
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    })[key] ?? [0, 0];
    const [x, y] = [(j % shape[1]) + across, Math.floor(j / shape[1]) + down];
    return (across || down) && x >= 0 && x < shape[1] && y >= 0 && y < shape[0] ? y * shape[1] + x : null;
  }
  const line = (/** @type {number} */ wanted) => (wanted >= 0 && wanted < d ? tree.line.indexOf(wanted) : null);
  if (key === "ArrowDown") return line(tree.line[j] + 1);
  if (key === "ArrowUp") return line(tree.line[j] - 1);
  if (key === "Home") return line(0);
  if (key === "End") return line(d - 1);
  if (key === "ArrowLeft") return tree.parents[j] < 0 ? null : tree.parents[j];
  if (key === "ArrowRight") return neighboursOf(tree, j).find((other) => tree.parents[other] === j) ?? null;
  return null;
}

/**
 * Columns beside one on the tree, those with the most in common with it first.
 * @param {any} tree @param {number} j @returns {number[]}
 */
export function neighboursOf(tree, j) {
  const below = [...tree.parents.keys()].filter((other) => tree.parents[other] === j);
  const all = tree.parents[j] < 0 ? below : [tree.parents[j], ...below];
  return all.sort((a, b) => inCommon(tree, j, b) - inCommon(tree, j, a) || a - b);
}

/**
 * What a column and a neighbour have in common, in bits.
 * @param {any} tree @param {number} j @param {number} other @returns {number}
 */
export function inCommon(tree, j, other) {
  return tree.information[edgeBetween(tree, j, other)];
}

/**
 * Of two neighbours, the one that hangs from the other: whose edge it is.
 * @param {any} tree @param {number} j @param {number} other
 */
export function edgeBetween(tree, j, other) {
  return tree.parents[j] === other ? j : other;
}
