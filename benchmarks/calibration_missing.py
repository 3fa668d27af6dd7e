"""Missing by design: are the parameters of a long test unbiased, and their errors right, if each person sees a part?

    python benchmarks/calibration_missing.py [--replications 200] [--rows 1000] [--items 60] [--answered 10]

Of a test of 60 items each person answers 10, drawn at random.  Items stay the same, persons are drawn again in every
replication, and `ItemResponse()` is fitted to their answers by maximum likelihood.  Printed are, over items,

    bias        mean over replications of (estimate - truth), in standard errors: the mean over items, and the largest,
                with what chance does to either
    errors      mean standard error by the spread of the estimates over replications: 1 where errors are what they say
    coverage    share of the intervals estimate ± 1.96 errors that hold the truth: of all items, and of the worst one

Maximum likelihood is unbiased for many rows only: with 1000 rows and 10 of 60 answered, an item has 167 answers.
Estimates without an error (slopes that run to infinity, errors that rules do not agree on) are counted, and left out.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from latentbits import ItemResponse

LEAST, MOST = 0.92, 0.975  # coverage of intervals of 95 %


class Calibration(NamedTuple):
    """Of one kind of parameter, over items."""

    name: str
    bias: float
    bias_chance: float
    largest_bias: float
    largest_chance: float
    errors: float
    coverage: float
    worst_coverage: float
    n_without: int

    @property
    def verdict(self) -> str:
        return "" if LEAST <= self.coverage <= MOST else "coverage OFF"


def items(n_items: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts of a test; slopes around 1.2, difficulties within two standard deviations or so."""
    rng = np.random.default_rng([1, seed])
    slopes = 1.2 * rng.lognormal(0, 0.25, n_items)
    return slopes, -slopes * rng.normal(0, 0.8, n_items)


def answers(slopes: np.ndarray, intercepts: np.ndarray, n_rows: int, answered: int, seed: int) -> np.ndarray:
    """Answers of persons who have each seen a part of the items, NaN for the others."""
    rng, d = np.random.default_rng([2, seed]), len(slopes)
    bits = rng.random((n_rows, d)) < expit(rng.normal(size=(n_rows, 1)) * slopes + intercepts)
    hidden = rng.random((n_rows, d)).argsort(1).argsort(1) >= answered
    return np.where(hidden, np.nan, bits)


def calibration(name: str, estimates: np.ndarray, errors: np.ndarray, truth: np.ndarray) -> Calibration:
    """From (replications, items) estimates and standard errors."""
    known = np.isfinite(errors)
    off = np.where(known, (estimates - truth) / np.where(known, errors, 1), 0)
    n = known.sum(0)
    bias = off.sum(0) / n
    inside = (np.where(known, np.abs(off) < 1.96, 0)).sum(0) / n
    away = np.where(known, estimates, np.nan)
    spread = np.nanstd(away, axis=0, ddof=1)
    ratio = np.nanmean(np.where(known, errors, np.nan), axis=0) / spread
    worst = int(np.abs(bias).argmax())
    by_replication = off.sum(1) / known.sum(1)  # estimates of one replication are not independent
    return Calibration(
        name,
        float(bias.mean()),
        float(by_replication.std(ddof=1) / np.sqrt(len(off))),
        float(bias[worst]),
        float(1 / np.sqrt(n[worst])),
        float(np.median(ratio)),
        float(inside @ n / n.sum()),
        float(inside.min()),
        int((~known).sum()),
    )


def replications(
    n_replications: int, n_rows: int, n_items: int, answered: int, every: int
) -> Iterator[tuple[int, int, tuple[Calibration, ...]]]:
    """At intervals, and at the end: how many, how many have not converged, slopes and intercepts."""
    slopes, intercepts = items(n_items)
    found, unfinished = [], 0
    for seed in range(n_replications):
        X = answers(slopes, intercepts, n_rows, answered, seed)
        with warnings.catch_warnings():  # what they tell is counted
            warnings.simplefilter("ignore")
            m = ItemResponse(random_state=0).fit(X)
            errors = m.standard_errors(X)
        unfinished += not m.converged_
        found.append((m.components_[0], errors.components[0], m.intercept_, errors.intercept))
        if (seed + 1) % every == 0 or seed + 1 == n_replications:
            w, w_error, b, b_error = (np.stack(parts) for parts in zip(*found))
            both = calibration("slopes", w, w_error, slopes), calibration("intercepts", b, b_error, intercepts)
            yield seed + 1, unfinished, both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("replications", 200), ("rows", 1000), ("items", 60), ("answered", 10), ("every", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    began = time.perf_counter()
    names = ("bias", "±", "largest", "±", "errors", "coverage", "worst", "without")
    settings = (options.replications, options.rows, options.items, options.answered, options.every)
    for n, unfinished, both in replications(*settings):
        seconds = time.perf_counter() - began
        print(f"{n} replications, {unfinished} fits have not converged; {seconds:.0f} seconds")
        print(f"{'':10}" + "".join(f"{name:>9}" for name in names))
        for one in both:
            numbers = (one.bias, one.bias_chance, one.largest_bias, one.largest_chance, one.errors)
            shares = f"{one.coverage:9.1%}{one.worst_coverage:9.1%}{one.n_without:9d}"
            row = "".join(f"{number:9.3f}" for number in numbers) + f"{shares}  {one.verdict}"
            print(f"{one.name:10}{row}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
