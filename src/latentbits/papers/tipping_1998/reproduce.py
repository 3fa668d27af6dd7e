"""Table 1, figures 1 to 4, and how well clusters separate; ``latentbits reproduce tipping_1998`` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.data.toys import Prototypes, noisy_prototypes
from latentbits.engines.fit import FitResult
from latentbits.estimators.latent_trait import LatentTrait
from latentbits.papers.digits import Twos, load_twos
from latentbits.papers.skeleton import Part, Run, Say, repeat, silent
from latentbits.papers.tipping_1998 import figures, tables
from latentbits.papers.tipping_1998.fits import (
    ALGORITHMS,
    MAIN,
    N_SAMPLES,
    curve,
    estimator_of,
    exact_error,
    independent_error,
    learn,
    sample_error,
    start,
    timed_fits,
)

__all__ = ["Plan", "reproduce"]

FLIPS = (0.05, 0.15)


class Plan(NamedTuple):
    """How much is done.

    Attributes
    ----------
    n_per_prototype, n_digits
        Rows of each prototype, and of the digits at most.
    algorithms
        Rows of table 1.
    repeats
        Of the fits that are timed.
    n_seeds, n_starts
        Synthetic sets of each noise, and starts on the digits.
    step
        Of the grid for exact errors.
    tol
        Nats per row: an algorithm stops when an iteration gains less.
    """

    n_per_prototype: int = 200
    n_digits: int = 10_000
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    repeats: int = 7
    n_seeds: int = 20
    n_starts: int = 5
    step: float = 0.05
    tol: float = 1e-5


QUICK = Plan(n_digits=150, algorithms=MAIN, repeats=1, n_seeds=3, n_starts=0, step=0.1, tol=1e-4)


def reproduce(out: Path, *, quick: bool = False, say: Say = silent, digits: str = "usps_twos") -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        As there; quick has fewer seeds, digits and repetitions, a coarser end of fits, only three algorithms.
    digits
        "usps_twos" (scikit-learn's 8 x 8 twos stand in where it cannot be had, and all output says so), "bundled" for
        these at once, or "none".
    """
    plan = QUICK if quick else Plan()
    run = Run(plan, out, say)
    toys = {_key(flip): noisy_prototypes(plan.n_per_prototype, flip=flip, random_state=0) for flip in FLIPS}
    twos = load_twos(digits, run.notes)
    tables_of_bits = {key: toy.X for key, toy in toys.items()}
    titles = {_key(flip): f"synthetic, flips {flip}" for flip in FLIPS}
    if twos is not None:
        twos = twos._replace(X=twos.X[: plan.n_digits])
        tables_of_bits["digits"], titles["digits"] = twos.X, twos.title
    held = [key for key in titles if key != "digits" or (twos is not None and twos.is_usps)]

    def sets(run: Run) -> dict[str, Any]:
        compared = {key: _compare(titles[key], X, plan, say) for key, X in tables_of_bits.items()}
        found = {key: numbers for key, (numbers, _) in compared.items()}
        _draw(run, toys, titles, twos, found, {key: model for key, (_, model) in compared.items()})
        for key in held:
            run.measured |= _of_times(found[key], key.removeprefix("synthetic_"))
        return found

    def seeds(run: Run) -> dict[str, Any]:
        found = {_key(flip): _seeds(flip, plan, say) for flip in FLIPS}
        if twos is not None and plan.n_starts > 0:
            found["digits"] = _starts(twos, plan, say)
        for key in set(held) & set(found):
            run.measured |= _of_errors(found[key]["algorithms"], key.removeprefix("synthetic_"))
        return found

    stopping = {"tol": plan.tol, "n_samples": N_SAMPLES, "repeats": plan.repeats}
    parts: dict[str, Part] = {"stopping": lambda run: stopping, "sets": sets, "seeds": seeds}
    return repeat(__package__, run, quick, parts, tables.report)


def _key(flip: float) -> str:
    return f"synthetic_{flip}"


# --- table 1 and figure 3 ---


def _compare(title: str, X: np.ndarray, plan: Plan, say: Say) -> tuple[dict[str, Any], LatentTrait]:
    """All algorithms on one set from one start; and the variational model, which is the one that is drawn."""
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


def _first_below(line: Mapping[str, list[float]], goal: float) -> float | None:
    """When a curve of figure 3 is first as low as the goal."""
    times = (time for time, error in zip(line["cpu_seconds"], line["error"]) if error <= goal)
    return next(times, None)


def _posterior_accuracy(model: LatentTrait, X: np.ndarray) -> dict[str, float]:
    """How far eqs. 6 and 7 are from the exact posteriors, in the middle of all rows."""
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


def _seeds(flip: float, plan: Plan, say: Say) -> dict[str, Any]:
    """Errors and separation over synthetic sets, each with prototypes of its own."""
    lists, by_bits = _empty("sample_error", "exact_error", "separation"), []
    for seed in range(plan.n_seeds):
        say(f"synthetic, flips {flip}: set {seed + 1} of {plan.n_seeds}")
        toy = noisy_prototypes(plan.n_per_prototype, flip=flip, random_state=seed)
        params = start(toy.X, seed)
        for name in MAIN:
            result = learn(name, toy.X, params, plan.tol)
            _add_errors(lists[name], result, toy.X)
            lists[name]["separation"].append(_separation(result, toy, variational=name == "variational"))
        by_bits.append(_nearest(toy.X.astype(float), toy.prototypes.astype(float), toy.labels))
    title = f"{plan.n_seeds} sets, flips {flip}"
    return {"title": title, "algorithms": lists, "separation_by_bits": by_bits}


def _starts(twos: Twos, plan: Plan, say: Say) -> dict[str, Any]:
    """Errors over starts on the digits, which differ in rotation: the sample is not the same in all directions."""
    lists = _empty("sample_error", "exact_error")
    for seed in range(plan.n_starts):
        say(f"{twos.title}: start {seed + 1} of {plan.n_starts}")
        params = start(twos.X, seed)
        for name in MAIN:
            _add_errors(lists[name], learn(name, twos.X, params, plan.tol), twos.X)
    return {"title": f"{plan.n_starts} starts, {twos.title}", "algorithms": lists}


def _empty(*keys: str) -> dict[str, dict[str, list[float]]]:
    return {name: {key: [] for key in keys} for name in MAIN}


def _add_errors(lists: dict[str, list[float]], result: FitResult, X: np.ndarray) -> None:
    lists["sample_error"].append(sample_error(result.params, X))
    lists["exact_error"].append(exact_error(result.params, X, step=0.1))


def _separation(result: FitResult, toy: Prototypes, variational: bool) -> float:
    """Share of the rows whose place on the map is nearest to that of their own prototype.

    Places are posterior means: by eq. 7 for the variational algorithm, exact for the others.
    """
    model = estimator_of(result, toy.X.shape[1])
    both = np.concatenate([toy.X, toy.prototypes])
    places = model.variational(both).mean if variational else model.posterior(both).mean
    return _nearest(places[: len(toy.X)], places[len(toy.X) :], toy.labels)


def _nearest(rows: np.ndarray, prototypes: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows nearest to the prototype of their label; among equally near ones it is a matter of luck.

    >>> _nearest(np.array([[0.0], [3.0]]), np.array([[0.0], [6.0]]), np.array([0, 1]))
    0.75
    """
    distance = np.square(rows[:, None] - prototypes).sum(axis=2)
    near = distance <= distance.min(axis=1, keepdims=True) + 1e-12
    return float(np.mean(near[np.arange(len(rows)), labels] / near.sum(axis=1)))


# --- what we hold ourselves to ---


def _of_errors(lists: Mapping[str, Mapping[str, list[float]]], name: str) -> dict[str, float]:
    variational, sampling, auto = ({key: np.array(values) for key, values in lists[one].items()} for one in MAIN)
    better = np.minimum(variational["exact_error"], sampling["exact_error"])
    behind = variational["sample_error"] - sampling["sample_error"]
    found = {
        f"error_{name}": float(variational["sample_error"].mean()),
        f"behind_{name}": float(behind.mean()),
        f"behind_percent_{name}": float(100 * np.mean(behind / sampling["sample_error"])),
        f"best_{name}": float(np.mean(better - auto["exact_error"])),
    }
    if "separation" in variational:
        found[f"separation_{name}"] = float(variational["separation"].mean())
    return found


def _of_times(one: Mapping[str, Any], name: str) -> dict[str, float]:
    rows = one["algorithms"]
    return {
        f"slower_{name}": rows["sampling"]["relative_time"],
        f"auto_time_{name}": rows["auto"]["relative_time"],
    }


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
