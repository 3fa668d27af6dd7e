"""The experiments of the paper; ``latentbits reproduce lewicki_sejnowski_1996`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.figures.noisy_or.arrays import credit_of
from latentbits.papers import pages
from latentbits.papers.lewicki_sejnowski_1996 import digits, figures, lines, measures, shifts, tables

__all__ = ["Plan", "reproduce"]

Say = Callable[[str], None]
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


def reproduce(
    out: Path,
    *,
    quick: bool = False,
    say: Say = lambda text: None,
    n_seeds: int | None = None,
) -> dict[str, Any]:
    """Repeat the paper's experiments and write ``results.json``, ``results.md`` and the figures.

    Every run is kept below ``runs`` as it ends: what is interrupted goes on where it was.

    Parameters
    ----------
    out
        A folder, made if need be.
    quick
        Few runs, and small ones.
    say
        Called with a line for every run.
    n_seeds
        Runs of each experiment; None takes 20, or 2.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    import_extra("matplotlib", extra="plot", purpose="drawing the figures of the paper")  # before any fitting
    plan = QUICK if quick else Plan()
    plan = plan if n_seeds is None else plan._replace(n_seeds=n_seeds, n_plain=n_seeds)
    kept = out / "runs"
    kept.mkdir(parents=True, exist_ok=True)
    found_lines, files = _lines(plan, kept, out, say)
    found_shifts, more = _shifts(plan, kept, out, say)
    files |= more
    found_digits, more = _digits(plan, kept, out, say)
    files |= more
    held_to = pages.expected(__package__)
    measured = {**_of_lines(found_lines), **_of_shifts(found_shifts), **_of_digits(found_digits)}
    results = {
        "paper": "lewicki_sejnowski_1996",
        "quick": quick,
        "machine": pages.machine(),
        "notes": [],
        "lines": found_lines,
        "shifts": found_shifts,
        "digits": found_digits,
        "relations": pages.judge(held_to["relations"], measured),
        "figures": files,
    }
    pages.write_results(out, results, tables.report(results, held_to))
    return results


def _seeds(plan: Plan, recipe: str) -> int:
    return plan.n_plain if recipe == "paper" else plan.n_seeds


# --- lines ---


def _lines(plan: Plan, kept: Path, out: Path, say: Say) -> tuple[dict[str, Any], dict[str, list[str]]]:
    found: dict[str, Any] = {"n_rows": plan.n_lines, "optimum": measures.all_lines(*lines.PROBABILITIES).bits}
    runs: dict[str, list[dict[str, Any]]] = {}
    best: tuple[NoisyOrNetwork, dict[str, Any]] | None = None
    for recipe in lines.RECIPES:
        runs[recipe] = []
        for seed in range(_seeds(plan, recipe)):
            model, numbers = lines.experiment(recipe, seed, plan.n_lines, kept)
            say(f"lines, {recipe}, run {seed + 1}: {numbers['n_lines']} lines, {numbers['bits']:.2f} bits")
            runs[recipe].append(numbers)
            if recipe == "ours" and (best is None or numbers["bits"] < best[1]["bits"]):
                best = model, numbers
    assert best is not None
    drawn = {
        "1": pages.save(figures.figure_1(lines.toy_of(0, plan.n_lines), lines.PROBABILITIES), out, "figure_1"),
        "2": pages.save(figures.figure_2(best[0].weights_, best[0].biases_), out, "figure_2"),
    }
    return {**found, "runs": runs}, drawn


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


def _shifts(plan: Plan, kept: Path, out: Path, say: Say) -> tuple[dict[str, Any], dict[str, list[str]]]:
    found: dict[str, Any] = {"n_rows": plan.n_shifts, "optimum": measures.all_shifts().bits}
    runs: dict[str, list[dict[str, Any]]] = {}
    best: tuple[NoisyOrNetwork, dict[str, Any]] | None = None
    for recipe in shifts.RECIPES:
        runs[recipe] = []
        for seed in range(_seeds(plan, recipe)):
            model, numbers = shifts.experiment(recipe, seed, plan.n_shifts, kept)
            say(f"shifter, {recipe}, run {seed + 1}: {numbers['bits']:.2f} bits, {numbers['n_covered']} of 16 shifts")
            runs[recipe].append(numbers)
            if best is None or numbers["bits"] < best[1]["bits"]:
                best = model, numbers
    assert best is not None
    model, toy = best[0], shifts.toy_of(0, plan.n_shifts)
    levels = {f"optimum: {found['optimum']:.2f}": found["optimum"], "the paper's best runs: 10": 10.0}
    some = np.concatenate([np.flatnonzero(toy.direction == side)[:1] for side in (0, 1)])
    drawn = {
        "3": pages.save(figures.figure_3(toy, model.weights_, model.biases_, shifts.shifts_in(model)), out, "figure_3"),
        "4": pages.save(figures.figure_4(runs, tables.NAMES, levels), out, "figure_4"),
        "rows": pages.save(_explained(model, toy.X[some], (4, 8), "Two patterns, and what explains them"), out, "rows"),
    }
    return {**found, "runs": runs}, drawn


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


def _digits(plan: Plan, kept: Path, out: Path, say: Say) -> tuple[dict[str, Any], dict[str, list[str]]]:
    networks: dict[str, Any] = {}
    best: tuple[NoisyOrNetwork, dict[str, Any]] | None = None
    for sizes in plan.digits:
        model, numbers = digits.experiment(sizes, plan.digit_settings, plan.n_digits, kept)
        name = "-".join(map(str, (64, *sizes)))
        say(f"digits, {name}: {numbers['bits']:.2f} ± {numbers['error']:.2f} bits per unseen digit")
        networks[name] = numbers
        if best is None or numbers["bits"] < best[1]["bits"]:
            best = model, numbers
    assert best is not None
    train, test = digits.split(plan.n_digits)
    model = best[0]
    shown = figures.figure_digits(model.weights_, model.biases_, model.sample(60, random_state=0), train[:60])
    drawn = {
        "digits": pages.save(shown, out, "digits"),
        "digit rows": pages.save(
            _explained(model, test[list(DIGITS_SHOWN)], digits.SHAPE, "Two unseen digits, and what explains them"),
            out,
            "digit_rows",
        ),
    }
    found = {"n_train": len(train), "n_test": len(test), "networks": networks, "others": digits.others(plan.n_digits)}
    return found, drawn


def _of_digits(found: Mapping[str, Any]) -> dict[str, float]:
    best = min(one["bits"] for one in found["networks"].values())
    others = found["others"]
    measured = {"digits_independent": others["independent bits"] - best}
    if found["n_train"] >= MANY_DIGITS:
        measured["digits_mixture"] = others["mixture of 16"] - best
    return measured
