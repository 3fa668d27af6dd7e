"""The synthetic experiment of section 4: rows of a known machine, learned by its methods and by ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.combination_machine import CombinationMachine
from latentbits.figures.combination_machine.arrays import Match, match_units, words_of_match
from latentbits.metrics import log_loss, reconstruction, single_bit_error
from latentbits.papers.freund_haussler_1994.targets import Target, draw
from latentbits.papers.skeleton import Fitted, Say, fitted

__all__ = [
    "MEASURES",
    "Experiment",
    "Fitted",
    "errors_of",
    "learn",
    "method_names",
    "run",
    "settings_of",
    "true_machine",
]

MEASURES = ("log_loss", "single_bit", "reconstruction")
TRUE = "true"
RATE = 0.05  # of gradient ascent; the paper does not say. 0.02 is slower, and 0.1 worse for gradient ascent alone


class Experiment(NamedTuple):
    """One of the paper's two: all weights as they are, or divided by seven.

    Attributes
    ----------
    name
        "large" or "small".
    epochs
        Of gradient ascent.
    short
        Epochs after a pursuit in the paper's row between; None has no such row.
    n_rows
        To learn from, and as many to test.
    n_seeds
        Repetitions, each with rows of its own.
    """

    name: str
    epochs: int
    short: int | None
    n_rows: int = 4000
    n_seeds: int = 5


def method_names(one: Experiment) -> list[str]:
    """The rows of the table but the last, in the paper's order; "default" is ours."""
    between = [] if one.short is None else ["pursuit+short"]
    return ["gradient", "pursuit", *between, "pursuit+gradient", "default"]


def settings_of(method: str, one: Experiment) -> dict[str, Any]:
    """A method as arguments of `CombinationMachine`.

    The paper's machine has no input biases, its pursuit takes bits for real numbers and leaves the biases of (3.15),
    and its gradient ascent takes all rows at every step, with a momentum term and no rule to stop but the number of
    epochs.
    """
    paper = {
        "input_bias": False,
        "optimizer": "momentum",
        "learning_rate": RATE,
        "faithful": True,
    }
    ascent = {"max_iter": one.short if method == "pursuit+short" else one.epochs}
    return {
        "gradient": {**paper, **ascent, "learner": "gradient"},
        "pursuit": {**paper, "learner": "pursuit"},
        "pursuit+short": {**paper, **ascent, "learner": "pursuit+gradient"},
        "pursuit+gradient": {**paper, **ascent, "learner": "pursuit+gradient"},
        "default": {},
    }[method]


def learn(method: str, one: Experiment, n_hidden: int, X: np.ndarray, seed: int) -> Fitted:
    """A machine learned from rows."""
    return fitted(CombinationMachine(n_hidden, random_state=seed, **settings_of(method, one)), X)


def true_machine(target: Target) -> CombinationMachine:
    """The target itself, as an estimator."""
    return CombinationMachine.from_parameters(target.weights, target.hidden_bias)


def errors_of(model: Any, X: np.ndarray, seed: int) -> dict[str, float]:
    """The three measures of section 4; single bits at five places of every row, as in the paper."""
    return {
        "log_loss": log_loss(model, X),
        "single_bit": single_bit_error(model, X, n_bits=5, random_state=seed),
        "reconstruction": reconstruction(model, X),
    }


def run(one: Experiment, target: Target, say: Say) -> tuple[dict[str, Any], dict[str, CombinationMachine], np.ndarray]:
    """All seeds of an experiment.

    Returns
    -------
    numbers, machines, rows
        What ``results.json`` holds; the machines of the first seed and the rows they learned from, to be drawn.
    """
    found: dict[str, Any] = {name: _empty() for name in (*method_names(one), TRUE)}
    kept: dict[str, CombinationMachine] = {TRUE: true_machine(target)}
    shown = np.zeros((0, target.weights.shape[1]))
    for seed in range(one.n_seeds):
        say(f"synthetic target, weights {one.name}: seed {seed}")
        rng = np.random.default_rng([seed, 4000])
        train, test = (draw(target, one.n_rows, rng).X for _ in range(2))
        _add(found[TRUE], kept[TRUE], 0.0, train, test, seed)
        for method in method_names(one):
            machine, seconds = learn(method, one, len(target.weights), train, seed)
            _add(found[method], machine, seconds, train, test, seed)
            if seed == 0:
                kept[method], shown = machine, train
    matches = {
        name: _in_words(match_units(machine.components_, target.weights))
        for name, machine in kept.items()
        if name != TRUE
    }
    numbers = {**one._asdict(), "methods": found, "matches": matches}
    return numbers, kept, shown


def _empty() -> dict[str, Any]:
    return {"seconds": [], **{measure: {"train": [], "test": []} for measure in MEASURES}}


def _add(into: dict[str, Any], machine: Any, seconds: float, train: np.ndarray, test: np.ndarray, seed: int) -> None:
    into["seconds"].append(seconds)
    for part, rows in (("train", train), ("test", test)):
        for measure, value in errors_of(machine, rows, seed).items():
            into[measure][part].append(value)


def _in_words(matches: Sequence[Match]) -> dict[str, Any]:
    """What each learned unit is among the target's, and how many of the target's are found as they are or negated."""
    single = {one.units[0] for one in matches if len(one.units) == 1}
    return {
        "words": [words_of_match(one) for one in matches],
        "cosines": [one.cosine for one in matches],
        "n_found": len(single),
        "n_merged": sum(len(one.units) == 2 for one in matches),
        "n_none": sum(not one.units for one in matches),
    }


def mean_of(numbers: Mapping[str, Any], method: str, measure: str, part: str = "test") -> float:
    """Over the seeds."""
    return float(np.mean(numbers["methods"][method][measure][part]))
