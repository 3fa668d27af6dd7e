"""The algorithms of table 1 from one start, their times, and the two measures of error."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np

from latentbits.core import tree
from latentbits.core.model import Iterate, Model, Stage
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.summary import summarise
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.models.latent_trait import equations
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.column_kinds import Params
from latentbits.models.latent_trait.sampling import prior_sample

__all__ = [
    "ALGORITHMS",
    "MAIN",
    "N_SAMPLES",
    "curve",
    "estimator_of",
    "exact_error",
    "independent_error",
    "learn",
    "sample_error",
    "start",
    "timed_fits",
]

N_SAMPLES = 500  # L of eq. 3
REACH_DEVIATIONS = 7.0  # of the grid for the exact error; beyond lie 2e-11 of the prior
POINTS_AT_ONCE = 2048


class Algorithm(NamedTuple):
    """A way to learn, as arguments of the latent trait model."""

    method: str
    accelerate: bool
    n_rounds: int = 1


# The first two are the paper's, step by step; the third is what LatentTrait does by default.
ALGORITHMS = {
    "variational": Algorithm("variational", False),
    "sampling": Algorithm("monte_carlo", False),
    "auto": Algorithm("auto", True),
    "variational, two rounds": Algorithm("variational", False, 2),
    "variational, accelerated": Algorithm("variational", True),
    "sampling, accelerated": Algorithm("monte_carlo", True),
    "auto, not accelerated": Algorithm("auto", False),
}
MAIN = ("variational", "sampling", "auto")


class Timed(NamedTuple):
    """A fit, and medians over its repetitions."""

    result: FitResult  # the same at every repetition
    # seconds, cpu_seconds: by the clock, and of the process
    seconds: float
    cpu_seconds: float
    shares: np.ndarray  # for each number of iterations from 0 on, the share of its time after which the fit stood there


# --- learning ---


def _model(name: str) -> Model:
    return latent_trait.model(n_components=2, n_samples=N_SAMPLES, **ALGORITHMS[name]._asdict())


def start(X: np.ndarray, seed: int) -> Params:
    """Make the parameters that every algorithm starts from."""
    model = _model("variational")
    summary = summarise(MemoryEngine(X))
    with tree.double():
        return tree.to_numpy(model.init(seed_key(seed), summary))


def learn(name: str, X: np.ndarray, params: Params, tol: float) -> FitResult:
    """Learn by one algorithm until an iteration gains less than `tol` nats per row."""
    return _learn(_model(name), MemoryEngine(X), params, tol)


def _learn(model: Model, engine: MemoryEngine, params: Params, tol: float) -> FitResult:
    return fit(model, engine, seed_key(0), params=params, limits=Limits(2000, tol))


def timed_fits(X: np.ndarray, params: Params, names: tuple[str, ...], tol: float, repeats: int) -> dict[str, Timed]:
    """Learn by each algorithm to its end, once to compile it, then `repeats` times to time it.

    They take turns, so that what else the machine does in the meantime slows all of them.
    """
    engines = {name: MemoryEngine(X) for name in names}  # each keeps the chunks of one layout
    runs: dict[str, list[tuple[FitResult, float]]] = {name: [] for name in names}
    for _ in range(1 + repeats):
        for name in names:
            began = time.process_time()
            result = _learn(_model(name), engines[name], params, tol)
            runs[name].append((result, time.process_time() - began))
    return {name: _summed_up(one[1:]) for name, one in runs.items()}


def _summed_up(runs: Sequence[tuple[FitResult, float]]) -> Timed:
    results, cpu = zip(*runs)
    shares = np.median([_when(result) / result.seconds for result in results], axis=0)
    return Timed(results[0], median(result.seconds for result in results), median(cpu), shares)


def _when(result: FitResult) -> np.ndarray:
    """Compute the seconds after which a fit stood at 0, 1, 2, ... iterations, all stages together."""
    times: dict[int, float] = {}
    stage, before = result.history[0].stage, 0
    for record in result.history:
        if record.stage != stage:
            stage, before = record.stage, max(times)
        times.setdefault(before + record.iteration, record.seconds)
    return np.array(list(times.values()))


def curve(name: str, X: np.ndarray, params: Params, timed: Timed) -> dict[str, list[float]]:
    """Measure how the error by the sample falls with time, at 1, 2, 3, 5, 8, ... iterations.

    Fits are deterministic: the parameters come from fits that are stopped there, the times from the whole fit.

    Returns lists of `iterations`, `cpu_seconds` and `error`.
    """
    engine, model = MemoryEngine(X), _model(name)
    points = _fibonacci(timed.result.n_iter)
    stopped = [_learn(_stopped(model, timed.result, n), engine, params, 0.0).params for n in points]
    return {
        "iterations": [float(n) for n in points],
        "cpu_seconds": [float(timed.cpu_seconds * timed.shares[n]) for n in points],
        "error": [sample_error(one, X) for one in stopped],
    }


def _fibonacci(last: int) -> list[int]:
    """List 1, 2, 3, 5, ... and the last.

    >>> _fibonacci(10)
    [1, 2, 3, 5, 8, 10]
    """
    numbers = [1, 2]
    while numbers[-1] < last:
        numbers.append(numbers[-1] + numbers[-2])
    return [n for n in numbers if n < last] + [last]


def _stopped(model: Model, whole: FitResult, n: int) -> Model:
    """Stop a model after n iterations, all stages together, each at most as long as it took in the whole fit.

    The number of iterations alone ends a stage: with its tolerance a patient one would have gone on a little.
    """
    stages: list[Stage] = []
    left = n
    for stage in model.stages:
        took = max((record.iteration for record in whole.history if record.stage == stage.name), default=0)
        if isinstance(stage, Iterate):
            stage = replace(stage, max_iter=min(took, left), tol=-np.inf)
        stages.append(stage)
        left -= took
        if left <= 0:
            break
    return model._replace(stages=tuple(stages))


# --- errors: the negative log-likelihood per row, in nats ---


def sample_error(params: Params, X: np.ndarray) -> float:
    """Compute the paper's measure: eq. 3 by the 500 draws that the sampling algorithm learns with."""
    draws = prior_sample(N_SAMPLES, 2)
    return -float(equations.likelihood_by_sample(X.astype(np.float64), draws, *_weights_and_biases(params)).mean())


def exact_error(params: Params, X: np.ndarray, step: float = 0.05) -> float:
    """Compute eq. 1 by a grid of equal steps over the plane, which knows neither the sample nor any algorithm.

    It is exact to all digits shown while posteriors are wider than a step, and off by some thousandths where weights
    have run away and P(bit | x) jumps between two points.
    """
    points, log_prior = equations.grid(2, step, REACH_DEVIATIONS)
    near = np.square(points).sum(axis=1) <= REACH_DEVIATIONS**2
    points, log_prior = points[near], log_prior[near]
    rows, counts = np.unique(X, axis=0, return_counts=True)
    values, (w, b) = rows.astype(np.float64), _weights_and_biases(params)
    total = np.full(len(rows), -np.inf)
    for first in range(0, len(points), POINTS_AT_ONCE):
        some = slice(first, first + POINTS_AT_ONCE)
        at = points[some], log_prior[some]
        total = np.logaddexp(total, equations.likelihood(values, w, b, at))
    return -float(counts @ total) / len(X)


def _weights_and_biases(params: Params) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(params.weights, np.float64), np.asarray(params.bias, np.float64)


def independent_error(X: np.ndarray) -> float:
    """Compute the error of independent bits, each with its mean: what a map must beat.

    >>> round(independent_error(np.array([[0, 1], [1, 1]])), 4)
    0.6931
    """
    mean = np.clip(X.mean(axis=0), 1e-12, 1 - 1e-12)
    return -float(np.mean(X @ np.log(mean) + (1.0 - X) @ np.log1p(-mean)))


# --- looking at a fit ---


def estimator_of(result: FitResult, n_columns: int) -> LatentTrait:
    """Make the fit a fitted estimator, in its canonical rotation."""
    estimator = LatentTrait(2)
    estimator.n_features_in_ = n_columns
    estimator._adopt(result)
    return estimator
