/** Files of the map: a picture as it is seen, positions, completions. */
import { downloadRow, fileName, saveCsv } from "./downloads.js";

/**
 * @param {any} head
 * @param {import("./cells.js").Rows} rows
 * @param {import("./figure.js").MapFigure} figure
 * @param {import("./state.js").State} state
 */
export function mapDownloads(head, rows, figure, state) {
  const name = head.table.source;
  return downloadRow("the map", [
    [
      "CSV of positions",
      () => saveCsv(positions(rows, figure, state.choices.selected), fileName(name, "positions", "csv")),
    ],
  ]);
}

/**
 * One line a row: of the selection, or of all.
 *
 * @param {import("./cells.js").Rows} rows
 * @param {import("./figure.js").MapFigure} figure
 * @param {Uint32Array} selected
 * @returns {Array<Array<string | number | null>>}
 */
export function positions(rows, figure, selected) {
  const names = rows.table.labels.map((/** @type {{name: string}} */ label) => label.name);
  const lines = [["row", "name", ...names, "trait 1", "trait 2", "sd 1", "sd 2", "surprise in bits"]];
  const some = selected.length ? selected : Uint32Array.from({ length: rows.n }, (_, i) => i);
  const cost = rows.arrays["map.cost"].data;
  for (const i of some) {
    const { x, y } = figure.placeOf(i);
    const sds = [0, 1].map((k) => round(Math.sqrt(figure.covariances[3 * i + k])));
    lines.push([
      rows.number(i),
      rows.table.row_names?.[i] ?? "",
      ...rows.labels(i).map(([, level]) => level),
      round(x),
      round(y),
      ...sds,
      round(cost[i]),
    ]);
  }
  return lines;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 1e5) / 1e5;
}
