/** Spectra, learning curves, and the sizes that were tried. */
import { chartFigure } from "../page/charts.js";
import { make, part } from "../page/dom.js";

/** @import {Series} from "../page/charts.js" */

const LONG = 50; // iterations beyond which learning is shown over their logarithm

/** @param {any} head of the page */
export function showSpectra(head) {
  const place = part("spectra");
  if (!place || !head.spectra) return;
  const { binary, latent, n_components: kept } = head.spectra;
  const negative = latent.filter((/** @type {number} */ value) => value < 0).length;
  const words = [
    "How much the bits vary along each direction (eigenvalues of their covariances), and the Gaussian variables behind them (of their correlations), the largest first.",
    `The clipped Gaussian keeps ${kept}: where the hidden variables' fall steeply to a floor, few of them are behind many bits.`,
  ];
  if (negative) {
    words.push(
      `${negative} of the ${latent.length} of the hidden variables ${negative > 1 ? "are" : "is"} negative: correlations are found pair by pair, and no Gaussian has all of these at once.`,
    );
  }
  const points = (/** @type {number[]} */ values) =>
    values.map((y, i) => ({ x: i + 1, y })).filter(({ y }) => y !== null);
  place.append(
    make("p", { class: "about", text: words.join(" ") }),
    chartFigure({
      title: "Spectra",
      about: words.join(" "),
      x: "rank",
      y: "eigenvalue",
      series: [
        { name: "hidden variables", colour: 1, points: points(latent), dots: latent.length <= 100 },
        { name: "bits", colour: 0, points: points(binary), dots: binary.length <= 100 },
      ],
      fromZero: true,
      mark: { x: kept + 0.5, text: `${kept} kept` },
      file: head.table.source,
    }),
  );
}

/** @param {any} head of the page */
export function showCourses(head) {
  const place = part("courses");
  if (!place) return;
  /** @type {Series[]} */
  const all = head.courses
    .map((/** @type {any} */ course, /** @type {number} */ i) => ({
      name: course.name,
      colour: i % 10,
      points: course.values
        .filter((/** @type {any} */ pair) => pair[1] !== null)
        .map((/** @type {any} */ [iteration, y]) => ({ x: iteration + 1, y })),
    }))
    .filter((/** @type {any} */ series) => series.points.length > 1);
  if (!all.length) {
    return part("courses-section")?.remove();
  }
  const about = `What learning lowers, in ${head.unit}, after each pass over the rows. Families measure it differently (some, a bound; noisy OR, the rows together with their causes): compare models by the table above, not by these.`;
  const chosen = new Set(all.map((series) => series.name));
  const figure = make("div");
  const draw = () => {
    const series = all.filter(({ name }) => chosen.has(name));
    const longest = Math.max(...series.map(({ points }) => points[points.length - 1].x));
    const chart = { title: "Learning", about, x: "iteration", y: head.unit, series, logX: longest > LONG };
    figure.replaceChildren(...(series.length ? [chartFigure({ ...chart, file: head.table.source })] : []));
  };
  place.append(make("p", { class: "about", text: about }));
  if (all.length > 1) place.append(courseBoxes(all, chosen, draw));
  place.append(figure);
  draw();
}

/** @param {Series[]} all @param {Set<string>} chosen @param {() => void} draw */
function courseBoxes(all, chosen, draw) {
  const boxes = all.map(({ name }) => {
    const box = make("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(name);
      else chosen.delete(name);
      draw();
    });
    return make("label", {}, [box, make("span", { text: ` ${name}` })]);
  });
  return make("div", { class: "controls", role: "group", "aria-label": "Models shown" }, boxes);
}

/** @param {any} head of the page */
export function showTrials(head) {
  const place = part("trials");
  if (!place) return;
  /** @type {Series[]} */
  const series = head.models
    .map((/** @type {any} */ model, /** @type {number} */ i) => ({
      name: familyWords(model.name),
      colour: i % 10,
      dots: true,
      points: model.trials
        .filter((/** @type {any} */ trial) => trial.bits !== null)
        .map((/** @type {any} */ { size, bits, error, converged }) => ({
          x: size,
          y: bits,
          error: error ?? undefined,
          ringed: size === model.size,
          hollow: !converged,
        }))
        .sort((/** @type {any} */ a, /** @type {any} */ b) => a.x - b.x),
    }))
    .filter((/** @type {any} */ one) => one.points.length);
  if (series.every(({ points }) => points.length < 2)) return;
  const cut = series.some(({ points }) => points.some(({ hollow }) => hollow));
  const about = `Sizes that were tried, by ${head.unit} on the rows that chose among them: fewer is better. Rings mark the chosen ones; bars are standard errors over rows.${cut ? " Hollow points are fits that had not converged: no results, and no line leads there." : ""}`;
  place.append(
    make("h3", { text: "How many causes" }),
    make("p", { class: "about", text: about }),
    chartFigure({
      title: "Sizes tried",
      about,
      x: "number of causes",
      y: head.unit,
      series,
      logX: series.some(({ points }) => points[points.length - 1].x >= 8),
      file: head.table.source,
    }),
  );
}

/** The name of a model without its size. @param {string} name "noisy OR of 8, 4", "2 latent traits" */
export function familyWords(name) {
  return name.replace(/ of [\d, ]+( states)?$/, "").replace(/^\d+ /, "");
}
