"""The experiments of the paper; ``latentbits reproduce lewicki_sejnowski_1996`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.figures.noisy_or.arrays import credit_of
from latentbits.papers.lewicki_sejnowski_1996 import digits, figures, lines, measures, shifts, tables
from latentbits.papers.skeleton import Part, Run, Say, repeat, silent

__all__ = ["Plan", "reproduce"]

GOOD = 10.5  # bits up to which a shifter counts as learned; the paper's best are at about 10
ENOUGH = 10  # seeds from which shares of them are held to ranges
MANY_DIGITS = 1000  # learned from, where a network is held to be ahead of a mixture
DIGITS_SHOWN = (0, 3)  # of the unseen ones, with their explanations: a six and a two


class Plan(NamedTuple):
    """How much is done.

    Attributes
    ----------
    n_seeds, n_plain
        Networks learned by our learner and by the paper's schedule, on lines and on the shifter.
    n_lines, n_shifts
        Rows of each.
    digits, digit_settings, n_digits
        Sizes of the networks of digits, how they are learned, and from how many digits (None: all).
    """

    n_seeds: int = 20
    n_plain: int = 20
    n_lines: int = 2000
    n_shifts: int = 2000
    digits: tuple[tuple[int, ...], ...] = ((32, 8), (64, 16))
    digit_settings: Mapping[str, Any] = {}
    n_digits: int | None = None


QUICK = Plan(n_seeds=2, n_plain=1, digits=((16, 4),), n_digits=600)


def reproduce(out: Path, *, quick: bool = False, say: Say = silent, n_seeds: int | None = None) -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Every run is kept below ``runs`` as it ends: what is interrupted goes on where it was.

    Parameters
    ----------
    out, quick, say
        As there; quick has few runs, and small ones.
    n_seeds
        Runs of each experiment; None takes 20, or 2.
    """
    plan = QUICK if quick else Plan()
    plan = plan if n_seeds is None else plan._replace(n_seeds=n_seeds, n_plain=n_seeds)
    parts: dict[str, Part] = {"lines": _lines, "shifts": _shifts, "digits": _digits}
    return repeat(__package__, Run(plan, out, say), quick, parts, tables.report)


Network = tuple[NoisyOrNetwork, dict[str, Any]]  # and its numbers


def _better(one: Network | None, other: Network) -> Network:
    return other if one is None or other[1]["bits"] < one[1]["bits"] else one


# --- lines ---


def _lines(run: Run) -> dict[str, Any]:
    plan, best = run.plan, None
    runs: dict[str, list[dict[str, Any]]] = {recipe: [] for recipe in lines.RECIPES}
    for recipe, seed in _seeds(plan, lines.RECIPES):
        model, numbers = lines.experiment(recipe, seed, plan.n_lines, run.out / "runs")
        run.say(f"lines, {recipe}, run {seed + 1}: {numbers['n_lines']} lines, {numbers['bits']:.2f} bits")
        runs[recipe].append(numbers)
        if recipe == "ours":
            best = _better(best, (model, numbers))
    assert best is not None
    run.draw("1", figures.figure_1(lines.toy_of(0, plan.n_lines), lines.PROBABILITIES))
    run.draw("2", figures.figure_2(best[0].weights_, best[0].biases_))
    found = {"n_rows": plan.n_lines, "optimum": measures.all_lines(*lines.PROBABILITIES).bits, "runs": runs}
    run.measured |= _of_lines(found)
    return found


def _seeds(plan: Plan, recipes: Iterable[str]) -> list[tuple[str, int]]:
    """All runs: how each is learned, and its seed."""
    return [(one, seed) for one in recipes for seed in range(plan.n_plain if one == "paper" else plan.n_seeds)]


def _of_lines(found: Mapping[str, Any]) -> dict[str, float]:
    ours, plain = (found["runs"][recipe] for recipe in ("ours", "paper"))
    measured = {"lines_behind": float(np.median([one["bits"] for one in ours])) - found["optimum"]}
    if len(ours) >= ENOUGH:
        measured["lines_all"] = _share(ours, lambda one: one["n_lines"] == 10)
        measured["lines_patterns"] = float(np.mean([one["n_patterns"] for one in ours]))
    if len(plain) >= ENOUGH:
        measured["lines_plain"] = _share(plain, lambda one: one["n_lines"] == 10)
    return measured


# --- the shifter ---


def _shifts(run: Run) -> dict[str, Any]:
    plan, best = run.plan, None
    runs: dict[str, list[dict[str, Any]]] = {recipe: [] for recipe in shifts.RECIPES}
    for recipe, seed in _seeds(plan, shifts.RECIPES):
        model, numbers = shifts.experiment(recipe, seed, plan.n_shifts, run.out / "runs")
        run.say(f"shifter, {recipe}, run {seed + 1}: {numbers['bits']:.2f} bits, {numbers['n_covered']} of 16 shifts")
        runs[recipe].append(numbers)
        best = _better(best, (model, numbers))
    assert best is not None
    model, toy, optimum = best[0], shifts.toy_of(0, plan.n_shifts), measures.all_shifts().bits
    some = np.concatenate([np.flatnonzero(toy.direction == side)[:1] for side in (0, 1)])
    run.draw("3", figures.figure_3(toy, model.weights_, model.biases_, shifts.shifts_in(model)))
    levels = {f"optimum: {optimum:.2f}": optimum, "the paper's best runs: 10": 10.0}
    run.draw("4", figures.figure_4(runs, tables.NAMES, levels))
    run.draw("rows", _explained(model, toy.X[some], (4, 8), "Two patterns, and what explains them"), "rows")
    found = {"n_rows": plan.n_shifts, "optimum": optimum, "runs": runs}
    run.measured |= _of_shifts(found)
    return found


def _explained(model: NoisyOrNetwork, X: np.ndarray, image_shape: tuple[int, int], title: str) -> Any:
    """Rows with the most probable states of all layers."""
    ends = np.cumsum(model.layer_sizes)[:-1]
    states = [np.split(mode, ends) for mode in np.asarray(model.posterior(X).mode)]
    credits = [credit_of(model.weights_, model.biases_, row, one) for row, one in zip(X, states)]
    return figures.figure_rows(X, credits, image_shape, title)


def _of_shifts(found: Mapping[str, Any]) -> dict[str, float]:
    ours, plain = (found["runs"][recipe] for recipe in ("ours", "paper"))
    measured = {
        "shifts_bits": float(np.median([one["bits"] for one in ours])),
        "shifts_error": max(one["error"] for one in ours),
    }
    if len(ours) >= ENOUGH:
        good = [one for one in ours if one["bits"] <= GOOD]
        measured["shifts_good"] = len(good) / len(ours)
        if good:
            measured["shifts_overlap"] = max(one["overlap"] for one in good)
            measured["shifts_sides"] = min(one["belong"] * one["agree"] for one in good)
    if len(plain) >= ENOUGH:
        measured["shifts_plain"] = float(np.median([one["bits"] for one in plain]))
    return measured


def _share(runs: Sequence[Mapping[str, Any]], holds: Callable[[Mapping[str, Any]], bool]) -> float:
    return float(np.mean([holds(one) for one in runs]))


# --- digits ---


def _digits(run: Run) -> dict[str, Any]:
    plan, best = run.plan, None
    networks: dict[str, Any] = {}
    for sizes in plan.digits:
        model, numbers = digits.experiment(sizes, plan.digit_settings, plan.n_digits, run.out / "runs")
        name = "-".join(map(str, (64, *sizes)))
        run.say(f"digits, {name}: {numbers['bits']:.2f} ± {numbers['error']:.2f} bits per unseen digit")
        networks[name] = numbers
        best = _better(best, (model, numbers))
    assert best is not None
    train, test = digits.split(plan.n_digits)
    model = best[0]
    shown = figures.figure_digits(model.weights_, model.biases_, model.sample(60, random_state=0), train[:60])
    run.draw("digits", shown, "digits")
    words = "Two unseen digits, and what explains them"
    run.draw("digit rows", _explained(model, test[list(DIGITS_SHOWN)], digits.SHAPE, words), "digit_rows")
    found = {"n_train": len(train), "n_test": len(test), "networks": networks, "others": digits.others(plan.n_digits)}
    run.measured |= _of_digits(found)
    return found


def _of_digits(found: Mapping[str, Any]) -> dict[str, float]:
    best = min(one["bits"] for one in found["networks"].values())
    others = found["others"]
    measured = {"digits_independent": others["independent bits"] - best}
    if found["n_train"] >= MANY_DIGITS:
        measured["digits_mixture"] = others["mixture of 16"] - best
    return measured
