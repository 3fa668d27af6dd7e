/** Why a row is as it is, as a noisy-OR network has it: the units that are on, and what each explains. */
import { bitAt, rowOf } from "../page/arrays.js";
import { captioned, make } from "../page/dom.js";
import { barList, imageOf, shortNumber } from "../page/images.js";
import { explainRow } from "./network.js";

/** @import {Arrays} from "../page/arrays.js" */
/** @import {Kind} from "../page/images.js" */
/** @import {LayerView, Page} from "./cards.js" */
/** @import {Explanation, NetworkLayer, Share} from "./network.js" */

const MOST_EXPLAINED = 8;

/**
 * @param {any} gallery
 * @param {LayerView[]} layers the lowest first
 * @param {Page} page
 * @returns {HTMLElement} that follows the picked row; before one is picked, it shows an example
 */
export function showExplanation(gallery, layers, page) {
  const { head, arrays, state } = page;
  const place = make("section", { class: "explanation" });
  const example = layers[layers.length - 1].examples.data[0]; // most likely has causes in all layers
  let shown = -1;
  const show = () => {
    const picked = state.choices.picked;
    const row = picked !== null && picked < head.n_close ? picked : shown < 0 ? example : shown;
    if (row === shown) return;
    shown = row;
    const found = explainRow(networkLayers(gallery, layers, arrays, row), page.rows.cells(row));
    place.replaceChildren(...explanationParts(found, layers, page, row));
  };
  state.on(["picked"], show);
  show();
  return place;
}

/**
 * The network as `explainRow` takes it, with the states of a row.
 * @param {any} gallery @param {LayerView[]} layers @param {Arrays} arrays @param {number} row @returns {NetworkLayer[]}
 */
export function networkLayers(gallery, layers, arrays, row) {
  return layers.map((layer, i) => {
    const name = gallery.layers[i].arrays;
    return {
      names: layer.names,
      weights: layer.weights.data,
      bias: arrays[`${name}.bias`].data,
      states: layer.names.map((_, unit) => bitAt(arrays[`${name}.states`], row, unit)),
      means: rowOf(layer.active, row),
    };
  });
}

/** @param {Explanation} found @param {LayerView[]} layers @param {Page} page @param {number} row */
function explanationParts(found, layers, page, row) {
  const { head } = page;
  const shape = head.table.image_shape;
  const title = page.rows.title(row);
  const parts = [
    make("h3", { text: `Why ${title} is as it is` }),
    make("p", {
      class: "note",
      text: "The most probable causes together. A cause's share of a bit is its weight over all that could have turned the bit on. Pick any other row on the map or below.",
    }),
  ];
  for (let i = layers.length - 1; i >= 0; i--) {
    const units = found.causes[i];
    const list = make("div", { class: "units" });
    if (i === 0 && shape) list.append(pictured(page.rows.cells(row), shape, "bits", title));
    for (const unit of units) {
      const words = `${unit.name} (${shortNumber(unit.probability)})`;
      if (i === 0 && shape) list.append(pictured(unit.shares, shape, "probability", `${words} explains`));
      else list.append(unitBlock(`${words} explains`, unit.explains, layers[i].below));
    }
    if (!units.length) list.append(make("p", { class: "note", text: "Nothing is on." }));
    if (i === 0) list.append(leftOver(found, layers[0].below, shape));
    parts.push(...(layers.length > 1 ? [make("h4", { text: layers[i].title })] : []), list);
  }
  return parts;
}

/**
 * What no cause explains better than chance.
 * @param {Explanation} found @param {string[]} columns @param {[number, number] | null} shape
 */
function leftOver(found, columns, shape) {
  const title = found.unexplained.length ? "not explained" : "nothing is left unexplained";
  if (!shape) return unitBlock(title, found.unexplained, columns);
  const values = new Float32Array(columns.length);
  for (const { child, share } of found.unexplained) values[child] = share;
  return pictured(values, shape, "probability", title);
}

/** @param {ArrayLike<number>} values @param {[number, number]} shape @param {Kind} kind @param {string} caption */
function pictured(values, shape, kind, caption) {
  return captioned(imageOf(values, shape, { kind, label: caption }), caption);
}

/** @param {string} title @param {Share[]} shares @param {string[]} names */
function unitBlock(title, shares, names) {
  const items = shares.map(({ child, share }) => ({ name: names[child], value: share }));
  const list = items.length ? [barList(items, { scale: 1, most: MOST_EXPLAINED, label: title })] : [];
  return make("div", { class: "unit" }, [make("p", { text: title }), ...list]);
}
