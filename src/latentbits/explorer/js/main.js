/** The page comes to life: read the numbers, then let each part show itself. */
import { readArray } from "./arrays.js";
import { showCauses } from "./causes.js";
import { showCourses, showSpectra, showTrials } from "./curves.js";
import { showDecode } from "./decode.js";
import { part } from "./dom.js";
import { showInspector } from "./inspector.js";
import { showMap } from "./map.js";
import { showMorph } from "./morph.js";
import { followSections } from "./sections.js";
import { State } from "./state.js";
import { showTable } from "./tables.js";

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
  /** @type {import("./arrays.js").Arrays} */
  const arrays = {};
  const texts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("script.array"));
  await Promise.all(
    [...texts].map(async (element) => {
      const name = element.dataset.name ?? "";
      arrays[name] = await readArray(head.arrays[name], element.textContent ?? "");
    }),
  );
  const state = new State();
  state.set({ lines: head.map?.lines ?? [] });
  showMap(head, arrays, state);
  showDecode(head, arrays, state);
  showInspector(head, arrays, state);
  showCauses(head, arrays, state);
  showMorph(head, arrays, state);
  showTable(head);
  showTrials(head);
  showSpectra(head);
  showCourses(head);
  followSections();
  document.documentElement.dataset.ready = "true"; // tests wait for this
}

start();
