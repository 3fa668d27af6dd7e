/** What the reader has chosen; parts of the page listen to each other through this alone. */

/**
 * @typedef {{x: number, y: number, zoom: number}} Look the middle of the map's window, and how often larger than at first
 *
 * @typedef {object} Choices
 * @property {number | null} hovered row under the cursor
 * @property {number | null} picked row looked at: the first of a morph
 * @property {number | null} other the second row of a morph
 * @property {{x: number, y: number} | null} place of the map under the cursor, or of the hovered row
 * @property {number[]} lasso its corners on the map, x and y by turns; none where nothing is selected
 * @property {Uint32Array} selected rows in the lasso, ascending
 * @property {number[]} hidden codes of the colours whose rows are not shown
 * @property {string} colour what the map is coloured by: "label:0", "bit:3", "cost" or "none"
 * @property {number | null} map which of several maps the reader has stepped into, from 0; null for that of all rows
 * @property {number[]} lines columns whose lines are drawn
 * @property {"lines" | "arrows"} columns how columns are drawn on the map
 * @property {string} rowsBy order of the rows of the table's picture
 * @property {string} columnsBy order of its columns
 * @property {Look | null} view of the map; null for all of it
 * @property {string} model whose causes are shown
 * @property {string | null} cause of this model that is marked: its layer and its number, "0:3"
 */

export class State {
  constructor() {
    /** @type {Choices} */
    this.choices = {
      hovered: null,
      picked: null,
      other: null,
      place: null,
      lasso: [],
      selected: new Uint32Array(0),
      hidden: [],
      colour: "none",
      map: null,
      lines: [],
      columns: "arrows",
      rowsBy: "",
      columnsBy: "",
      view: null,
      model: "",
      cause: null,
    };
    /** @type {Map<keyof Choices, Array<(choices: Choices) => void>>} */
    this.listeners = new Map();
  }

  /**
   * @param {Array<keyof Choices>} names
   * @param {(choices: Choices) => void} listener called after one of these has changed
   */
  on(names, listener) {
    for (const name of names) this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
  }

  /** @param {Partial<Choices>} change */
  set(change) {
    const names = /** @type {Array<keyof Choices>} */ (Object.keys(change));
    const changed = names.filter((name) => this.choices[name] !== change[name]);
    Object.assign(this.choices, change);
    const due = new Set(changed.flatMap((name) => this.listeners.get(name) ?? []));
    for (const listener of due) listener(this.choices);
  }
}
