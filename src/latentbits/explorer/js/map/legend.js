/** What colours mean; a level that is clicked is hidden. */
import { button, make } from "../page/dom.js";
import { shortNumber } from "../page/images.js";
import { rampColour } from "./colours.js";

/** @import {Colouring, Level, Ramp} from "./colours.js" */
/** @import {MapFigure} from "./figure.js" */

const IN_ORDER = 10; // levels

/** @param {HTMLElement} element @param {MapFigure} figure */
export function showLegend(element, figure) {
  const { title, levels, ramp } = figure.colouring;
  element.replaceChildren();
  if (title) element.append(make("span", { class: "legend-title", text: title }));
  const { label, label_why: why } = figure.rows.head.map;
  if (why && figure.ground.number === null && figure.state.choices.colour === `label:${label}`)
    element.append(make("span", { class: "note legend-why", text: `(${why})` }));
  if (ramp) element.append(rampLegend(ramp));
  const list = make("div", { class: "legend-levels", role: "group", "aria-label": `Levels of ${title}` });
  // few in their own order, many by how common they are
  const order = Array.from(levels.keys());
  if (levels.length > IN_ORDER) order.sort((a, b) => levels[b].count - levels[a].count || a - b);
  for (const code of order) list.append(levelButton(levels[code], code, figure, () => showLegend(element, figure)));
  if (levels.length) element.append(list);
  if (figure.hidden.size) {
    const showAll = () => {
      figure.hidden.clear();
      figure.repaint();
      showLegend(element, figure);
    };
    element.append(button("show all", showAll));
  }
}

/** @param {Level} level @param {number} code @param {MapFigure} figure @param {() => void} again */
function levelButton(level, code, figure, again) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = level.colour;
  const shown = !figure.hidden.has(code);
  const button = make(
    "button",
    {
      type: "button",
      class: "level",
      "data-code": code,
      "aria-pressed": String(shown),
      title: "Click: hide or show. Double click: only this.",
    },
    [
      swatch,
      make("span", { class: "name", text: level.name }),
      make("span", { class: "count", text: `(${level.count.toLocaleString("en")})` }),
    ],
  );
  const change = () => {
    const focused = document.activeElement === button;
    const list = button.parentElement?.parentElement;
    figure.repaint(); // which makes the buttons anew
    again();
    if (focused) /** @type {HTMLElement | null | undefined} */ (list?.querySelector(`[data-code="${code}"]`))?.focus();
  };
  button.addEventListener("click", (event) => {
    if (event.detail > 1) {
      figure.hidden = new Set(figure.colouring.levels.keys());
      figure.hidden.delete(code);
    } else if (!figure.hidden.delete(code)) figure.hidden.add(code);
    change();
  });
  return button;
}

/** @param {Ramp} ramp */
function rampLegend(ramp) {
  const bar = make("span", { class: "ramp", "aria-hidden": "true" });
  const stops = Array.from({ length: 9 }, (_, k) => rampColour(k / 8));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  const grey = ramp.unknown ? `; not known of ${ramp.unknown.toLocaleString("en")} rows (grey)` : "";
  return make("span", { class: "legend-ramp" }, [
    make("span", { text: shortNumber(ramp.low, 1) }),
    bar,
    make("span", { text: `${shortNumber(ramp.high, 1)}${ramp.beyond ? " and more" : ""}${grey}` }),
  ]);
}

/**
 * Words of the legend, one after the other, as many in a line as fit.
 * @param {Colouring} colouring @param {number} width @param {(text: string) => number} widthOf
 */
export function legendEntries(colouring, width, widthOf) {
  const { title, levels, ramp, colours } = colouring;
  /** @type {Array<[string, string | null]>} */
  const words = title ? [[title, null]] : [];
  if (ramp) {
    const ends = /** @type {Array<[number, number]>} */ ([
      [0, ramp.low],
      [0.5, (ramp.low + ramp.high) / 2],
      [1, ramp.high],
    ]);
    for (const [t, value] of ends) words.push([shortNumber(value, 1), colours[Math.round(t * (colours.length - 2))]]);
  }
  for (const { name, colour, count } of levels) words.push([`${name} (${count.toLocaleString("en")})`, colour]);
  const items = [];
  let [x, y] = [14, 14];
  for (const [text, colour] of words) {
    const wide = widthOf(text) + (colour ? 10 : 0);
    if (x + wide > width && x > 14) [x, y] = [14, y + 20];
    items.push({ x, y, text, colour });
    x += wide + 22;
  }
  return { items, height: words.length ? y + 12 : 0 };
}
