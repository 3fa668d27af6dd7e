/** What stands around the map: by what it is coloured, and how columns are drawn on it. */
import { shortened } from "../page/cells.js";
import { make, say } from "../page/dom.js";
/** @import {Rows} from "../page/cells.js" */
/** @import {State} from "../page/state.js" */
/** @import {MapFigure} from "./figure.js" */

/** Names that inputs offer. @param {string[]} columns */
export function columnNames(columns) {
  const options = columns.map((value) => make("option", { value }));
  return make("datalist", { id: "column-names" }, options);
}

/** @param {any} head @param {Rows} rows @param {State} state @param {string} names id of the list of columns */
export function colourControl(head, rows, state, names) {
  /** @type {string[][]} */
  const options = head.table.labels.map((/** @type {{name: string}} */ label, /** @type {number} */ i) => [
    `label:${i}`,
    label.name,
  ]);
  options.push(["cost", "surprise"], ["column", "a column …"], ["none", "nothing"]);
  const entries = options.map(([value, text]) => make("option", { value, text: shortened(text, 40) }));
  const select = make("select", { id: "colour-by" }, entries);
  const input = columnInput(rows, names, "Column that colours the map", (column) =>
    state.set({ colour: `bit:${column}` }),
  );
  const show = () => {
    const { colour } = state.choices;
    const byColumn = colour.startsWith("bit:");
    select.value = byColumn ? "column" : colour;
    input.hidden = !byColumn;
    if (byColumn) input.value = rows.columns[Number(colour.slice(4))];
  };
  select.addEventListener("change", () => {
    if (select.value !== "column") state.set({ colour: select.value });
    else state.set({ colour: `bit:${head.map.lines[0] ?? 0}` });
    if (select.value === "column") {
      input.focus();
      input.select();
    }
  });
  state.on(["colour"], show);
  show();
  return make("span", { class: "colour-by" }, [make("label", { for: "colour-by", text: "Colour by" }), select, input]);
}

/**
 * An input that takes the name of a column; what begins so will do.
 * @param {Rows} rows
 * @param {string} names id of the list of columns
 * @param {string} label @param {(column: number) => void} take
 */
function columnInput(rows, names, label, take) {
  const input = make("input", {
    type: "search",
    list: names,
    "aria-label": label,
    placeholder: "name of a column",
    autocomplete: "off",
  });
  const read = (/** @type {boolean} */ whole) => {
    const text = input.value.trim();
    let column = rows.columnOf.get(text) ?? -1;
    if (column < 0 && whole && text)
      column = rows.columns.findIndex((name) => name.toLowerCase().includes(text.toLowerCase()));
    input.setCustomValidity("");
    if (column >= 0) take(column);
    else if (whole && text) {
      input.setCustomValidity("No column has this name");
      say(`No column is called ${text}`);
    }
  };
  input.addEventListener("input", () => read(false));
  input.addEventListener("change", () => read(true));
  return input;
}

/**
 * Columns as lines, or as arrows.
 * @param {Rows} rows @param {State} state @param {MapFigure} figure
 * @param {string} names id of the list of columns
 */
export function columnControl(rows, state, figure, names) {
  const select = make("select", { id: "columns-as" }, [
    make("option", { value: "arrows", text: "arrows" }),
    make("option", { value: "lines", text: rows.real ? "nothing" : "lines P = ½" }),
  ]);
  const lines = rows.real ? make("span") : lineControl(rows, state, figure, names);
  const note = make("span", { class: "note", text: "those that change most, where their names have room" });
  const show = () => {
    const { columns } = state.choices;
    select.value = columns;
    lines.hidden = columns === "arrows";
    note.hidden = columns !== "arrows";
  };
  select.addEventListener("change", () => state.set({ columns: select.value === "arrows" ? "arrows" : "lines" }));
  state.on(["columns"], show);
  show();
  return make("div", { class: "controls line-control" }, [
    make("label", { for: "columns-as", text: "Columns as" }),
    select,
    lines,
    note,
  ]);
}

/**
 * Lines P(bit = 1 | x) = 0.5: chips that can be taken away, and an input that adds one.
 * @param {Rows} rows @param {State} state @param {MapFigure} figure
 * @param {string} names id of the list of columns
 */
function lineControl(rows, state, figure, names) {
  const chips = make("span", { class: "chips" });
  const input = columnInput(rows, names, "Add the line of a column", (column) => {
    const { lines } = state.choices;
    input.value = "";
    if (lines.includes(column)) return;
    state.set({ lines: [...lines, column] });
    say(`The line of ${rows.columns[column]} is drawn`);
  });
  input.placeholder = "add a column";
  const mark = (/** @type {number | null} */ column) => {
    figure.marked = column;
    figure.request(false);
  };
  const show = () => {
    const { lines } = state.choices;
    chips.replaceChildren(
      ...lines.map((column) => {
        const name = rows.columns[column];
        const chip = make("button", { type: "button", class: "chip", title: `Take away the line of ${name}` }, [
          make("span", { text: shortened(name, 30) }),
          make("span", { "aria-hidden": "true", text: " ×" }),
        ]);
        chip.setAttribute("aria-label", `Take away the line of ${name}`);
        chip.addEventListener("click", () => {
          mark(null);
          state.set({ lines: state.choices.lines.filter((other) => other !== column) });
          say(`The line of ${name} is gone`);
        });
        for (const event of ["pointerenter", "focus"]) chip.addEventListener(event, () => mark(column));
        for (const event of ["pointerleave", "blur"]) chip.addEventListener(event, () => mark(null));
        return chip;
      }),
    );
    if (lines.length > 1) {
      const none = make("button", { type: "button", class: "chip none", text: "none" });
      none.addEventListener("click", () => state.set({ lines: [] }));
      chips.append(none);
    }
  };
  state.on(["lines"], show);
  show();
  return make("span", { class: "line-names" }, [chips, input]);
}
