/** The page comes to life: read the numbers, then let each part show itself. */
import { showCauses } from "./causes/causes.js";
import { showDecode } from "./map/decode.js";
import { showLoadings } from "./map/loadings.js";
import { showMap } from "./map/map.js";
import { showMaps } from "./map/maps.js";
import { showCourses, showSpectra, showTrials } from "./models/curves.js";
import { showMorph } from "./morph/morph.js";
import { readArray } from "./page/arrays.js";
import { Rows } from "./page/cells.js";
import { part } from "./page/dom.js";
import { followLink } from "./page/link.js";
import { followSections } from "./page/sections.js";
import { State } from "./page/state.js";
import { showTable } from "./page/tables.js";
import { showInspector } from "./row/inspector.js";
import { showWorst } from "./row/worst.js";
import { showHeat } from "./table/heat.js";

/** @import {Arrays} from "./page/arrays.js" */

/** Light or dark as the system says, until the reader says otherwise. */
function startTheme() {
  const button = part("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  /** @param {boolean} dark */
  const show = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button?.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", (event) => show(event.matches));
  button?.addEventListener("click", () => show(document.documentElement.dataset.theme !== "dark"));
  // Paper is light (see the style sheet), and pictures must be painted again for it.
  matchMedia("print").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
  show(system.matches);
}

async function start() {
  startTheme();
  const head = JSON.parse(part("page")?.textContent ?? "{}");
  /** @type {Arrays} */
  const arrays = {};
  const texts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("script.array"));
  await Promise.all(
    [...texts].map(async (element) => {
      const name = element.dataset.name ?? "";
      arrays[name] = await readArray(head.arrays[name], element.textContent ?? "");
    }),
  );
  const rows = new Rows(head, arrays);
  const state = new State();
  // arrows of pixels say nothing
  state.set({ lines: head.map?.lines ?? [], columns: head.table.image_shape ? "lines" : "arrows" });
  showMap(rows, state);
  showMaps(rows, state);
  showLoadings(rows);
  showDecode(rows, state);
  showInspector(rows, state);
  showCauses(rows, state);
  showHeat(rows, state);
  showWorst(rows, state);
  showMorph(rows, state);
  showTable(head);
  showTrials(head);
  showSpectra(head);
  showCourses(head);
  followSections();
  followLink(rows, state);
  document.documentElement.dataset.ready = "true"; // tests wait for this
}

start();
