"""Table 1, figures 1 to 4, words as numbers, several maps; ``latentbits reproduce tipping_1998`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.data.toys import Prototypes, noisy_prototypes
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.estimators.latent_trait.trait_maps import TraitMaps
from latentbits.papers.digits import Twos, load_twos
from latentbits.papers.pages import Measured, averaged, machine
from latentbits.papers.skeleton import Part, Run, Say, fitted, kept, repeat, silent
from latentbits.papers.tipping_1998 import figures, tables
from latentbits.papers.tipping_1998.fits import (
    MAIN,
    N_SAMPLES,
    curve,
    estimator_of,
    exact_error,
    independent_error,
    sample_error,
    start,
    timed_fits,
)
from latentbits.papers.tipping_1998.trials import (
    FLIPS,
    QUICK,
    WEAK_PRIOR_DEVIATION,
    Plan,
    all_trials,
    of_maps,
    of_pixels,
    of_set,
    of_start,
    principal,
)

__all__ = ["reproduce", "trials"]

PACES = ("slower", "settles_later")
SETTLED_NATS = 0.01  # nats per row: to this the paper prints errors
OF_CLUSTERS = ("prototypes", "stands_out")  # what a trial finds in the clusters themselves, before any fit


def reproduce(out: Path, *, quick: bool = False, say: Say = silent, digits: str = "usps_twos") -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        The same as there; quick has fewer seeds, digits and repetitions, a coarser end of fits, only three algorithms.
    digits
        "usps_twos" (scikit-learn's 8 x 8 twos stand in where it cannot be had, and all output says so), "bundled" for
        these at once, or "none".
    """
    plan = QUICK if quick else Plan()
    run = Run(plan, out, say)
    toys = {_key(flip): _toy(flip, 0, plan) for flip in FLIPS}
    twos = load_twos(digits, run.notes)
    tables_of_bits = {key: toy.X for key, toy in toys.items()}
    titles = {_key(flip): f"synthetic, flips {flip}" for flip in FLIPS}
    if twos is not None:
        twos = twos._replace(X=twos.X[: plan.n_digits])
        tables_of_bits["digits"], titles["digits"] = twos.X, twos.title
    # what is held to ranges: the digits only where they are those of the ranges, and all of them
    whole = twos is not None and twos.is_usps and not quick
    held = [key for key in titles if key != "digits" or whole]

    def sets(run: Run) -> dict[str, Any]:
        compared = {key: _compare(titles[key], X, plan, say) for key, X in tables_of_bits.items()}
        found = {key: numbers for key, (numbers, _) in compared.items()}
        _draw(run, toys, titles, twos, found, {key: model for key, (_, model) in compared.items()})
        for key in held:
            run.measured |= _of_times(found[key], key.removeprefix("synthetic_"))
        return found

    def paces(run: Run) -> dict[str, Any]:
        """Time the paper's two algorithms on several sets, and from several starts: ratios of times need errors."""
        found: dict[str, Any] = {}
        for key in held[::2]:  # the sets of table 1
            n = plan.n_timed_starts if key == "digits" else plan.n_timed
            each = [_pace(out, key, tables_of_bits.get("digits"), seed, plan) for seed in range(n)]
            found[key] = {name: [one[name] for one in each] for name in PACES}
            run.measured |= _of_paces(found[key], key.removeprefix("synthetic_"))
        return {"machine": machine(), "ratios": found}

    def seeds(run: Run) -> dict[str, Any]:
        found = {_key(flip): _seeds(out, flip, plan, say) for flip in FLIPS}
        if twos is not None and plan.n_starts > 0:
            found["digits"] = _starts(out, twos.title, plan, digits, say)
        for key in set(held) & set(found):
            run.measured |= _of_errors(found[key]["algorithms"], key.removeprefix("synthetic_"))
        for flip in FLIPS:
            run.measured |= {f"{what}_{flip}": averaged(found[_key(flip)][what]) for what in OF_CLUSTERS}
        if "digits" in held and "digits" in found:
            run.measured |= _of_both(found[_key(FLIPS[0])]["algorithms"], found["digits"]["algorithms"])
        return found

    def words(run: Run) -> dict[str, Any]:
        """Measure what the paper says in words, and the conclusion's several maps."""
        angles = principal(out)
        run.measured |= {"principal_shared": angles["shared"], "principal_own": angles["own"]}
        found: dict[str, Any] = {"principal": angles}
        if twos is not None and plan.n_draws > 0:
            found["pixels"] = _pixels(out, plan, digits, say)
        if twos is not None and plan.n_mixtures > 0:
            found["maps"] = _mixtures(out, plan, digits, say)
            _draw_maps(run, twos)
        if "digits" in held:
            run.measured |= _of_pixels(found.get("pixels")) | _of_maps(found.get("maps"))
        return found

    stopping = {"tol": plan.tol, "n_samples": N_SAMPLES, "repeats": plan.repeats}
    parts: dict[str, Part] = {
        "stopping": lambda run: stopping,
        "sets": sets,
        "paces": paces,
        "seeds": seeds,
        "words": words,
    }
    return repeat(__package__, run, quick, parts, tables.report)


def trials(out: Path, *, quick: bool = False) -> list[Callable[[], Any]]:
    """List the experiments that do not depend on each other; `reproduce` finds what they keep.  None is timed."""
    return all_trials(out, QUICK if quick else Plan(), "usps_twos")


def _toy(flip: float, seed: int, plan: Plan) -> Prototypes:
    return noisy_prototypes(plan.n_per_prototype, flip=flip, random_state=seed)


def _key(flip: float) -> str:
    return f"synthetic_{flip}"


# --- table 1 and figure 3 ---


def _compare(title: str, X: np.ndarray, plan: Plan, say: Say) -> tuple[dict[str, Any], LatentTrait]:
    """Compare all algorithms on one set from one start; give the variational model, too, which is drawn."""
    say(f"{title}: fitting {len(plan.algorithms)} ways, {plan.repeats + 1} times each")
    params = start(X, seed=0)
    timed = timed_fits(X, params, plan.algorithms, plan.tol, plan.repeats)
    base = timed["variational"].cpu_seconds
    rows: dict[str, dict[str, Any]] = {
        name: {
            "seconds": one.seconds,
            "cpu_seconds": one.cpu_seconds,
            "relative_time": one.cpu_seconds / base,
            "sample_error": sample_error(one.result.params, X),
            "exact_error": exact_error(one.result.params, X, plan.step),
            "iterations": one.result.n_iter,
            "stopped": one.result.reason,
            "largest_weight": float(np.abs(one.result.params.weights).max()),
        }
        for name, one in timed.items()
    }
    say(f"{title}: error against time")
    curves = {name: curve(name, X, params, timed[name]) for name in MAIN}
    goal = rows["variational"]["sample_error"]
    for name in MAIN:
        rows[name]["cpu_seconds_to_settle"] = _settled(curves[name])
    for name in MAIN[1:]:
        rows[name]["cpu_seconds_to_variational_error"] = _first_below(curves[name], goal)
    model = estimator_of(timed["variational"].result, X.shape[1])
    found = {
        "title": title,
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "independent_error": independent_error(X),
        "start_error": sample_error(params, X),
        "algorithms": rows,
        "curves": curves,
        "posterior": _posterior_accuracy(model, X),
    }
    return found, model


def _pace(out: Path, key: str, digits: Any, seed: int, plan: Plan) -> dict[str, float]:
    """Time sampling over variational EM: to the end, and until each has settled.  It is kept, but is no trial."""

    def compute() -> dict[str, float]:
        X = digits if key == "digits" else _toy(float(key.removeprefix("synthetic_")), seed, plan).X
        params = start(X, seed)
        timed = timed_fits(X, params, MAIN[:2], plan.tol, min(plan.repeats, 3))
        settled = [_settled(curve(name, X, params, timed[name])) for name in MAIN[:2]]
        whole = [timed[name].cpu_seconds for name in MAIN[:2]]
        return dict(zip(PACES, (after / before for before, after in (whole, settled)), strict=True))

    return kept(out / "runs", f"pace_{key}_{seed}", compute, [plan.n_per_prototype, plan.n_digits, plan.tol])


def _first_below(line: Mapping[str, list[float]], goal: float) -> float | None:
    """Find when a curve of figure 3 is first as low as the goal."""
    times = (time for time, error in zip(line["cpu_seconds"], line["error"]) if error <= goal)
    return next(times, None)


def _settled(line: Mapping[str, list[float]]) -> float:
    """Find when a curve of figure 3 comes within `SETTLED_NATS` of its end for good, by lines between its points.

    >>> round(_settled({"cpu_seconds": [1.0, 2.0, 4.0], "error": [5.04, 5.02, 5.0]}), 6)
    3.0
    """
    above = np.array(line["error"]) - line["error"][-1] - SETTLED_NATS
    times, last = line["cpu_seconds"], int(np.flatnonzero(above > 0).max(initial=-1))
    if last < 0:
        return times[0]
    share = above[last] / (above[last] - above[last + 1])
    return float(times[last] + share * (times[last + 1] - times[last]))


def _posterior_accuracy(model: LatentTrait, X: np.ndarray) -> dict[str, float]:
    """Measure how far eqs. 6 and 7 are from the exact posteriors, in the middle of all rows."""
    exact, approximate = model.posterior(X), model.variational(X)
    inverse = np.linalg.inv(exact.covariance)
    shift = approximate.mean - exact.mean
    area = np.sqrt(np.linalg.det(approximate.covariance) / np.linalg.det(exact.covariance))
    return {
        "gap": float(np.mean(model.score_samples(X) - approximate.bound)),
        "shift": float(np.median(np.sqrt(np.einsum("ni,nij,nj->n", shift, inverse, shift)))),
        "area": float(np.median(area)),
    }


# --- many seeds ---


def _seeds(out: Path, flip: float, plan: Plan, say: Say) -> dict[str, Any]:
    """Measure errors and separation over synthetic sets, each with other prototypes."""
    found = []
    for seed in range(plan.n_seeds):
        say(f"synthetic, flips {flip}: set {seed + 1} of {plan.n_seeds}")
        found.append(of_set(out, plan, flip, seed))
    title = f"{plan.n_seeds} sets, flips {flip}"
    alone = {what: [one[what] for one in found] for what in OF_CLUSTERS}
    by_bits = [one["by_bits"] for one in found]
    return {"title": title, "algorithms": _lists(found), "separation_by_bits": by_bits, **alone}


def _starts(out: Path, title: str, plan: Plan, digits: str, say: Say) -> dict[str, Any]:
    """Measure errors over starts on the digits."""
    found = []
    for seed in range(plan.n_starts):
        say(f"{title}: start {seed + 1} of {plan.n_starts}")
        found.append(of_start(out, plan, digits, seed))
    return {"title": f"{plan.n_starts} starts, {title}", "algorithms": _lists(found)}


def _lists(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """List by algorithm and quantity what each trial found."""
    return {name: {key: [one[name][key] for one in found] for key in found[0][name]} for name in MAIN}


def _pixels(out: Path, plan: Plan, digits: str, say: Say) -> dict[str, list[float]]:
    found = {}
    for n in plan.pixels:
        say(f"posteriors on maps of {n} pixels")
        found[str(n)] = [of_pixels(out, plan, digits, n, seed) for seed in range(plan.n_draws)]
    return found


def _mixtures(out: Path, plan: Plan, digits: str, say: Say) -> dict[str, dict[str, list[Any]]]:
    found = {}
    for n in plan.maps:
        say(f"mixtures of {n} map{'' if n == 1 else 's'}")
        each = [of_maps(out, plan, digits, n, seed) for seed in range(plan.n_mixtures)]
        found[str(n)] = {key: [one[key] for one in each] for key in each[0]}
    return found


# --- what is judged ---


def _of_errors(lists: Mapping[str, Mapping[str, list[float]]], name: str) -> dict[str, Measured]:
    variational, sampling, auto = ({key: np.array(values) for key, values in lists[one].items()} for one in MAIN)
    better = np.minimum(variational["exact_error"], sampling["exact_error"])
    behind = variational["sample_error"] - sampling["sample_error"]
    found = {
        f"error_{name}": averaged(variational["sample_error"]),
        f"sampling_error_{name}": averaged(sampling["sample_error"]),
        f"behind_{name}": averaged(behind),
        f"behind_percent_{name}": averaged(100 * behind / sampling["sample_error"]),
        f"best_{name}": averaged(better - auto["exact_error"]),
        f"fall_{name}": Measured(float(variational["largest_fall"].max()), None, len(behind)),
        f"divergence_{name}": averaged(variational["divergence"]),
        f"rounds_{name}": averaged(variational["rounds"]),
        f"rounds_cold_{name}": averaged(variational["rounds_cold"]),
    }
    if "separation" in variational:
        found |= {f"{what}_{name}": averaged(variational[what]) for what in ("separation", "lines")}
    if "loop" in variational:  # starts are of the same rows, whose chance is the larger error
        error = float(np.mean(variational["loop_error"]))
        found[f"loop_{name}"] = Measured(float(variational["loop"].mean()), error, len(behind))
        found[f"bend_{name}"] = averaged(variational["bend"])
    return found


def _of_both(small: Mapping[str, Any], large: Mapping[str, Any]) -> dict[str, Measured]:
    """Compare the larger images with the synthetic set."""
    errors = [[np.array(one[name]["sample_error"]) for name in MAIN[:2]] for one in (small, large)]
    behind = [averaged(100 * (variational - sampling) / sampling) for variational, sampling in errors]
    apart = [averaged(np.log(one["variational"]["divergence"])) for one in (small, large)]
    return {
        "behind_less_digits": _difference(*behind),
        "more_accurate_digits": _difference(*apart),
    }


def _difference(a: Measured, b: Measured) -> Measured:
    """Subtract two means over different runs."""
    error = None if a.error is None or b.error is None else float(np.hypot(a.error, b.error))
    return Measured(a.value - b.value, error, min(a.n or 1, b.n or 1))


def _of_pixels(found: Mapping[str, list[float]] | None) -> dict[str, Measured]:
    """Fit the exponent with which the divergence grows with the number of pixels, draw by draw."""
    if found is None:
        return {}
    sizes = np.log([float(n) for n in found])
    slopes = [np.polyfit(sizes, np.log(each), 1)[0] for each in zip(*found.values())]
    return {"divergence_exponent": averaged(slopes)}


def _of_maps(found: Mapping[str, Mapping[str, list[Any]]] | None) -> dict[str, Measured]:
    if found is None:
        return {}
    one, two, three = (found[str(n)] for n in (1, 2, 3))
    loop = Measured(float(np.mean(two["loop"])), float(np.mean(two["loop_error"])), len(two["loop"]))
    return {
        "maps_two": averaged(np.subtract(two["unseen"], one["unseen"])),
        "maps_three": averaged(np.subtract(three["unseen"], two["unseen"])),
        "maps_loop": loop,
    }


def _of_times(one: Mapping[str, Any], name: str) -> dict[str, float]:
    rows = one["algorithms"]
    sooner = rows["sampling"].get("cpu_seconds_to_variational_error")
    settled = [rows[name]["cpu_seconds_to_settle"] for name in MAIN[:2]]
    found = {"slower": rows["sampling"]["relative_time"], "settles_later": settled[1] / settled[0]}
    found |= {"auto_time": rows["auto"]["relative_time"]}
    found |= {} if sooner is None else {"as_good": sooner / rows["variational"]["cpu_seconds"]}
    return {f"{what}_{name}": ratio for what, ratio in found.items()}


def _of_paces(found: Mapping[str, Sequence[float]], name: str) -> dict[str, Measured]:
    """Average the logarithms of ratios: from set to set these differ by factors."""
    return {f"{what}_{name}": averaged(np.log2(found[what])) for what in PACES}


# --- figures ---


def _draw(
    run: Run,
    toys: Mapping[str, Prototypes],
    titles: Mapping[str, str],
    twos: Twos | None,
    sets: Mapping[str, Any],
    models: Mapping[str, LatentTrait],
) -> None:
    clusters = [figures.Clusters(titles[key], models[key], *toy) for key, toy in toys.items()]
    first = _key(FLIPS[0])
    shown = {first: toys[first].X} | ({} if twos is None else {"digits": twos.X})  # the two sets of figures 3 and 4
    run.draw("1", figures.figure_1(clusters))
    if twos is not None:
        run.draw("2", figures.figure_2(models["digits"], twos.X, twos.image_shape, twos.title))
    run.draw("3", figures.figure_3({titles[key]: sets[key]["curves"] for key in shown}))
    run.draw("4", figures.figure_4([(titles[key], models[key], X) for key, X in shown.items()]))


def _draw_maps(run: Run, twos: Twos) -> None:
    """Draw the conclusion's several maps: a mixture of two, of all rows."""
    model = TraitMaps(2, 2, method="variational", weight_prior=WEAK_PRIOR_DEVIATION, random_state=0, tol=run.plan.tol)
    run.draw("maps", figures.several_maps(fitted(model, twos.X).model, twos.X, twos.image_shape, twos.title), "maps")
