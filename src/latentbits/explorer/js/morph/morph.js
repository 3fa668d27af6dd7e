/** From one row to another: bits flip in the model's order, beside the linear cross-fade. */
import { rowOf } from "../page/arrays.js";
import { rowChooser } from "../page/chooser.js";
import { button, make, part } from "../page/dom.js";
import { downloadRow, fileName, saveCsv, savePng } from "../page/downloads.js";
import { drawImage, imageOf } from "../page/images.js";
import { bitsAlong, crossFade, differing, farPair, flippingPair, flipsOf, shortWayWords, wayBetween } from "./flips.js";

/** @import {Arrays} from "../page/arrays.js" */
/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {Flip, Way} from "./flips.js" */

const STAGES = 9;
const SLIDER_STEP = 0.005; // of the slider
const SECONDS = 5; // that a play takes
const TOO_FEW = 3; // flips: another pair is looked for
const TRIES = 30; // random pairs, until bits flip

/** @param {Rows} table @param {State} state */
export function showMorph(table, state) {
  const { head, arrays } = table;
  const place = part("morph");
  if (!place || !head.morph || head.n_close < 2) return;
  const closeLabels = arrays[`labels.${table.kindLabel()}`]?.data ?? null;
  const complete = completeRows(table);
  const flipping = flippingPair(
    arrays["morph.weights"].data,
    arrays["morph.phi"].data,
    arrays["morph.places"],
    complete,
  );
  const typical = farPair(arrays["morph.places"], closeLabels, complete);
  const pair = { rows: flipsOf(wayOf(arrays, typical)).length < TOO_FEW ? flipping : typical };
  const view = morphView(table);
  /** @param {[number, number]} rows */
  const choose = (rows) => state.set({ picked: rows[0], other: rows[1] });
  const show = () => {
    first.show(pair.rows[0]);
    second.show(pair.rows[1]);
    view.show(pair.rows);
  };
  const first = rowChooser("From", table, head.n_close, (row) => choose([row, pair.rows[1]]));
  const second = rowChooser("to", table, head.n_close, (row) => choose([pair.rows[0], row]));
  const far = make("p", { class: "note", hidden: true });
  state.on(["picked", "other"], ({ picked, other }) => {
    const wanted = [picked ?? pair.rows[0], other ?? pair.rows[1]];
    const close = wanted.every((row) => row < head.n_close);
    far.hidden = close;
    far.textContent = `A morph needs rows that were looked at closely: the first ${head.n_close.toLocaleString("en")} of those shown.`;
    if (!close) return;
    pair.rows = [wanted[0], wanted[1]];
    show();
  });
  place.append(
    make("p", { class: "about", text: aboutMorph(head) }),
    make("div", { class: "controls" }, [
      first.element,
      second.element,
      button("Swap", () => choose([pair.rows[1], pair.rows[0]])),
      button("Random pair", () => choose(randomPair(head.n_close, arrays))),
      button("Pair with many flips", () => choose(flipping)),
    ]),
    far,
    view.element,
  );
  show();
}

/**
 * Rows looked at closely that lack nothing, or all where there are not two.
 * @param {Rows} table
 */
function completeRows(table) {
  const all = Array.from({ length: table.head.n_close }, (_, i) => i);
  if (!table.missing) return all;
  const complete = all.filter((i) => !table.cells(i).some(Number.isNaN));
  return complete.length < 2 ? all : complete;
}

/** @param {any} head */
function aboutMorph(head) {
  return `Rows are points in the space of the ${head.morph.name}. On the straight way from one to the other bits flip one by one, so that each stage is a row of bits; the cross-fade passes through greys that no row has.`;
}

/** The way between two rows. @param {Arrays} arrays @param {[number, number]} rows */
function wayOf(arrays, rows) {
  const [a, b] = rows.map((row) => rowOf(arrays["morph.places"], row));
  return wayBetween(arrays["morph.weights"].data, arrays["morph.phi"].data, a, b);
}

/**
 * Two different rows, with bits that flip between them where some tries find such.
 * @param {number} n at least 2
 * @param {Arrays} arrays @returns {[number, number]}
 */
function randomPair(n, arrays) {
  /** @type {[number, number]} */
  let pair = [0, 1];
  for (let tried = 0; tried < TRIES; tried++) {
    const a = Math.floor(n * Math.random());
    pair = [a, (a + 1 + Math.floor((n - 1) * Math.random())) % n];
    if (flipsOf(wayOf(arrays, pair)).length) break;
  }
  return pair;
}

/**
 * @typedef {object} MorphNow what is shown
 * @property {[number, number]} rows
 * @property {Float64Array[]} ends values of the two rows
 * @property {Way} way
 * @property {Flip[]} flips
 */

/** The slider and what follows it. @param {Rows} table */
function morphView(table) {
  const { head, arrays } = table;
  /** @type {MorphNow | null} */
  let now = null;
  const slider = make("input", {
    type: "range",
    min: 0,
    max: 1,
    step: SLIDER_STEP,
    value: 0.5,
    "aria-label": "Stage of the morph",
  });
  const output = make("output", { class: "stage" });
  const ends = make("p", { class: "note ends-note" });
  const short = make("p", { class: "note short-way", role: "status" });
  const stage = imageStage(head.table.image_shape);
  const track = make("div", { class: "track", "aria-hidden": "true" });
  const update = () => {
    if (!now) return;
    const t = Number(slider.value);
    const bits = bitsAlong(now.way, t);
    const passed = now.flips.map((flip) => bits[flip.column] > 0 === flip.on);
    const done = passed.filter(Boolean).length;
    output.textContent = `${t.toFixed(2)}: ${done} of ${now.flips.length} bits flipped`;
    slider.setAttribute("aria-valuetext", output.textContent);
    [...track.children].forEach((tick, i) => {
      tick.classList.toggle("passed", passed[i]);
    });
    stage.update(now, t, bits);
  };
  slider.addEventListener("input", update);
  const play = playButton(slider, update);
  const save = downloadRow("this morph", [
    ["CSV", () => now && saveCsv(flipRows(now, head.table.columns), fileName(head.table.source, "morph", "csv"))],
    ...stage.actions(() => fileName(head.table.source, "morph", "png")),
  ]);
  const element = make("div", { class: "morph" }, [
    make("div", { class: "slide" }, [play, make("div", { class: "slider" }, [track, slider]), output]),
    short,
    stage.element,
    ends,
    save,
  ]);
  /** @param {[number, number]} rows */
  const show = (rows) => {
    const way = wayOf(arrays, rows);
    now = { rows, ends: rows.map((row) => table.cells(row)), way, flips: flipsOf(way) };
    ends.textContent = endWords(now, table);
    short.textContent = shortWayWords(now.flips.length, differing(now.ends[0], now.ends[1]), table.d);
    // where half of the bits have flipped; the slider has steps
    slider.value = String(Math.ceil((now.flips[now.flips.length >> 1]?.t ?? 0.5) / SLIDER_STEP) * SLIDER_STEP);
    track.replaceChildren(
      ...now.flips.map((flip) => {
        const tick = make("span", { class: flip.on ? "on" : "off" });
        tick.style.left = `${100 * flip.t}%`;
        return tick;
      }),
    );
    stage.start(
      now,
      rows.map((row) => table.title(row)),
    );
    update();
  };
  return { element, show };
}

/** How near the ends of the way come to the rows. @param {MorphNow} now @param {Rows} table */
function endWords(now, table) {
  const [a, b] = [0, 1].map((t) => differing(bitsAlong(now.way, t), now.ends[t]));
  const [from, to] = now.rows.map((row) => table.title(row));
  return `The way begins and ends where the model places the two rows, and its bits there need not be quite theirs: ${a} of ${table.d} differ at ${from}, ${b} at ${to}.`;
}

/**
 * @param {MorphNow} now @param {string[]} columns
 * @returns {Array<Array<string | number | null>>} the flips, in their order
 */
export function flipRows(now, columns) {
  return [["column", "flips_at", "to"], ...now.flips.map((flip) => [columns[flip.column], flip.t, flip.on ? 1 : 0])];
}

/**
 * Moves the slider from end to end; in few steps for those who asked for less motion.
 * @param {HTMLInputElement} slider @param {() => void} update
 */
function playButton(slider, update) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  };
  const play = button("Play", () => {
    if (timer) return stop();
    const wait = matchMedia("(prefers-reduced-motion: reduce)").matches ? (1000 * SECONDS) / (STAGES - 1) : 40;
    const step = wait / 1000 / SECONDS;
    if (Number(slider.value) >= 1) slider.value = "0";
    play.textContent = "Pause";
    timer = window.setInterval(() => {
      slider.value = String(Math.min(Number(slider.value) + step, 1));
      update();
      if (Number(slider.value) >= 1) stop();
    }, wait);
    return undefined;
  });
  slider.addEventListener("pointerdown", stop);
  slider.addEventListener("keydown", stop);
  return play;
}

/** Rows as images: both rows, the stage between them, and strips of stages. @param {[number, number]} shape */
function imageStage(shape) {
  const captions = ["", "morph", "cross-fade", ""].map((text) => make("figcaption", { text }));
  const canvases = captions.map(() => make("canvas"));
  const figures = canvases.map((canvas, i) => make("figure", {}, [canvas, captions[i]]));
  const strips = ["morph", "cross-fade"].map((name) => ({ name, place: make("div", { class: "strip" }) }));
  const places = strips.map(({ place }) => place);
  const rows = strips.map(({ name, place }) =>
    make("div", { class: "strip-row" }, [make("span", { class: "tiny", text: name }), place]),
  );
  const element = make("div", { class: "image-stage" }, [
    make("div", { class: "stages" }, figures),
    make("div", {}, rows),
  ]);
  return {
    element,
    /** @param {MorphNow} now @param {string[]} titles */
    start(now, titles) {
      [0, 3].forEach((figure, end) => {
        captions[figure].textContent = titles[end];
        drawImage(canvases[figure], now.ends[end], shape, { label: titles[end] });
      });
      for (const { name, place } of strips) {
        const pictures = Array.from({ length: STAGES }, (_, i) => {
          const t = i / (STAGES - 1);
          const values = name === "morph" ? bitsAlong(now.way, t) : crossFade(now.ends[0], now.ends[1], t);
          return imageOf(values, shape, { label: `${name} at ${t}` });
        });
        place.replaceChildren(...pictures);
      }
    },
    /** @param {MorphNow} now @param {number} t @param {Float32Array} bits */
    update(now, t, bits) {
      drawImage(canvases[1], bits, shape, { label: `morph at ${t}` });
      drawImage(canvases[2], crossFade(now.ends[0], now.ends[1], t), shape, { label: `cross-fade at ${t}` });
    },
    /** @param {() => string} name @returns {Array<[string, () => void]>} */
    actions: (name) => [["PNG", () => savePng(stripSheet(places, shape), name())]],
  };
}

/** The strips on one canvas, a pixel apart. @param {HTMLElement[]} strips @param {[number, number]} shape */
function stripSheet(strips, shape) {
  const sheet = make("canvas");
  sheet.width = STAGES * (shape[1] + 1) - 1;
  sheet.height = strips.length * (shape[0] + 1) - 1;
  strips.forEach((strip, row) => {
    [...strip.querySelectorAll("canvas")].forEach((canvas, i) => {
      sheet.getContext("2d")?.drawImage(canvas, i * (shape[1] + 1), row * (shape[0] + 1));
    });
  });
  return sheet;
}
