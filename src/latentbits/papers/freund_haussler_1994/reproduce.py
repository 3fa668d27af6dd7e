"""The tables and figures of the paper; ``latentbits reproduce freund_haussler_1994`` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.papers.freund_haussler_1994 import figures, synthetic, tables, usps
from latentbits.papers.freund_haussler_1994.synthetic import Experiment
from latentbits.papers.freund_haussler_1994.targets import TARGETS
from latentbits.papers.skeleton import Part, Run, Say, repeat, silent

__all__ = ["Plan", "reproduce"]

GALLERIES = {"pursuit": "4.9", "pursuit, ours": "4.9 ours", "default": "4.9 default"}
NAMES = {"pursuit": "The paper's pursuit", "pursuit, ours": "Our pursuit", "default": "Default learner"}
NEAR = 0.006  # log-loss by which a machine may be behind the true one


class Plan(NamedTuple):
    """How much is done.

    Attributes
    ----------
    large, small
        The synthetic experiments, with weights as they are and divided by seven.
    digits
        The digits experiment.
    stops
        Iterations after each doubling at which the mixture's errors are drawn.
    n_points
        Units at which the pursuit's errors are drawn.
    """

    large: Experiment = Experiment("large", 1000, 100)
    small: Experiment = Experiment("small", 400, None)
    digits: usps.Setup = usps.Setup()
    stops: tuple[int, ...] = (1, 2, 4, 8, 20)
    n_points: int = 45


QUICK = Plan(
    large=Experiment("large", 60, 20, n_rows=500, n_seeds=1),
    small=Experiment("small", 60, None, n_rows=500, n_seeds=1),
    digits=usps.Setup(n_units=8, n_train=200, n_test=200, n_seeds=1),
    stops=(2, 20),
    n_points=4,
)


def reproduce(
    out: Path, *, quick: bool = False, say: Say = silent, digits: str = "usps", n_seeds: int | None = None
) -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        As there; quick has fewer rows, epochs, units and seeds.
    digits
        "usps" (scikit-learn's 8 x 8 digits stand in where they cannot be had, and all output says so), "bundled" for
        these at once, or "none".
    n_seeds
        Repetitions of every experiment; None takes 5 of the synthetic ones and 10 of the digits.
    """
    run = Run(_seeded(QUICK if quick else Plan(), n_seeds), out, say)
    parts: dict[str, Part] = {"synthetic": _synthetic, "digits": partial(_digits, usps.load_digits(digits, run.notes))}
    return repeat(__package__, run, quick, parts, tables.report)


def _seeded(plan: Plan, n_seeds: int | None) -> Plan:
    if n_seeds is None:
        return plan
    return plan._replace(
        large=plan.large._replace(n_seeds=n_seeds),
        small=plan.small._replace(n_seeds=n_seeds),
        digits=plan.digits._replace(n_seeds=n_seeds),
    )


# --- the synthetic target ---


def _synthetic(run: Run) -> dict[str, Any]:
    run.draw("2.2", figures.figure_2_2())
    large, machines, X = synthetic.run(run.plan.large, TARGETS["large"], run.say)
    run.draw("4.1", figures.figure_4_1(machines, X))
    small, machines, _ = synthetic.run(run.plan.small, TARGETS["small"], run.say)
    run.draw("4.2", figures.figure_4_2(machines, 6 / 7))
    run.measured |= {**_of_large(large), **_of_small(small)}
    return {"large": large, "small": small}


def _of_large(found: Mapping[str, Any]) -> dict[str, float]:
    def test(method: str, measure: str = "log_loss") -> float:
        return synthetic.mean_of(found, method, measure)

    behind = np.subtract(*(found["methods"][name]["log_loss"]["test"] for name in ("default", "true")))
    return {
        "true_log_loss": test("true"),
        "true_single_bit": test("true", "single_bit"),
        "true_reconstruction": test("true", "reconstruction"),
        "default_near": float(np.mean(behind <= NEAR)),
        "default_behind": float(behind.mean()),
        "pursuit_poor": test("pursuit") - test("pursuit+gradient"),
        "pursuit_fair": test("pursuit", "single_bit") - test("gradient", "single_bit"),
        "short_between": test("pursuit") - test("pursuit+short"),
        "longer_better": test("pursuit+short") - test("pursuit+gradient"),
        "pursuit_first": test("gradient") - test("pursuit+gradient"),
        "pursuit_fast": _seconds(found, "pursuit") / _seconds(found, "gradient"),
    }


def _seconds(found: Mapping[str, Any], method: str) -> float:
    """Of a fit, without the first, which compiles, unless there is no other."""
    seconds = found["methods"][method]["seconds"]
    return float(np.mean(seconds[1:] or seconds))


def _of_small(found: Mapping[str, Any]) -> dict[str, float]:
    def test(method: str, measure: str = "log_loss") -> float:
        return synthetic.mean_of(found, method, measure)

    return {
        "small_true_log_loss": test("true"),
        "small_pursuit": test("pursuit") - test("true"),
        "small_both": test("pursuit+gradient") - test("true"),
        "small_order": test("gradient") - test("pursuit+gradient"),
    }


# --- digits ---


def _digits(images: usps.Digits | None, run: Run) -> dict[str, Any] | None:
    if images is None:
        return None
    plan = run.plan
    found, models, train = usps.run(images, plan.digits, run.say)
    parts = usps.split(images.X, plan.digits, 0)
    run.say(f"{images.title}: errors along learning")
    curves = {
        "Mixture": usps.mixture_curve(plan.digits.n_units, parts, 0, plan.stops),
        "Combination model, pursuit": usps.pursuit_curve(models["pursuit"], parts, plan.n_points, 0),
    }
    _draw_digits(images, models, curves, train, run)
    if images.is_usps:
        run.measured |= _of_digits(found)
    return {**found, "curves": curves}


def _draw_digits(
    images: usps.Digits, models: Mapping[str, Any], curves: Mapping[str, Any], train: np.ndarray, run: Run
) -> None:
    """Figures 4.3 to 4.9, and weights beside principal components."""
    shape = images.image_shape
    weights = {name: model.components_ for name, model in models.items() if hasattr(model, "hidden_bias_")}
    components = usps.mixture_weights(models["mixture"])
    run.draw("4.3", figures.figure_examples(train, shape, images.title))
    for number, vectors, words in (("4.4", weights["pursuit"], "Pursuit"), ("4.5", components, "Mixture")):
        run.draw(number, figures.figure_weights(vectors, shape, f"{words}: weight vectors", 8, 16))
    run.draw("4.6", figures.figure_along(curves, "reconstruction", "input reconstruction, bits per pixel"))
    run.draw("4.7", figures.figure_along(curves, "single_bit", "mistakes in a single bit"))
    galleries = {"4.8": ("Mixture", components)}
    galleries.update({GALLERIES[name]: (NAMES[name], vectors) for name, vectors in weights.items()})
    for number, (words, vectors) in galleries.items():
        run.draw(number, figures.figure_weights(vectors, shape, f"{words}: all {len(vectors)} weight vectors", 9))
    n_shown = min(16, *(len(vectors) for vectors in weights.values()))
    beside = {NAMES[name]: vectors for name, vectors in weights.items()}
    run.draw("section 2.4", figures.figure_principal(beside, train, shape, n_shown))


def _of_digits(found: Mapping[str, Any]) -> dict[str, float]:
    def error(method: str, measure: str, part: str = "test") -> float:
        return float(np.mean(found["results"][method][measure][part]))

    def gap(method: str, measure: str) -> float:
        return error(method, measure, "test") - error(method, measure, "train")

    measured = {}
    for word, name, mixture in (
        ("pursuit", "pursuit", "mixture"),
        ("ours", "pursuit, ours", "mixture, smoothed"),
        ("default", "default", "mixture, smoothed"),
    ):
        for measure in usps.MEASURES:
            measured[f"digits_{word}_{measure}"] = error(mixture, measure) - error(name, measure)
            measured[f"digits_gap_{word}_{measure}"] = gap(mixture, measure) - gap(name, measure)
    return measured
