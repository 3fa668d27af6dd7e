"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.pages import markdown, page, pictures

__all__ = ["report", "with_error"]

CAPTIONS = {
    "2.2": "A real-valued machine with three hidden units. Each pair of circles is one of eight Gaussians, the darker, "
    "the more probable; the arrows are the weights.",
    "4.1": "Weights of the target (ours: the paper's are only in a lost figure) and of machines learned from 4000 rows."
    " Below a matrix: the unit of the target that it is, and the cosine between them; a minus negates, a sum merges.",
    "4.2": "The same with all weights of the target divided by seven.",
    "4.3": "Some of the digits.",
    "4.4": "Weight vectors found by pursuit, without input biases as in the paper.",
    "4.5": "Weight vectors of the mixture, (1/2) log(p / (1 - p)) of each pixel, as in equation 2.9.",
    "4.6": "Input reconstruction along learning, in bits per pixel.",
    "4.7": "Single-bit completion along learning: share of mistakes.",
    "4.8": "All weight vectors of the mixture.",
    "4.9": "All weight vectors of the combination model, by pursuit.",
    "4.9 ours": "All weight vectors that our pursuit, which knows bits from real numbers, finds on the same rows.",
    "4.9 default": "All weight vectors that the default learner finds on the same rows.",
    "section 2.4": "Weights of hidden units beside the principal components of the same rows.",
}
METHODS = {
    "gradient": "gradient ascent for {epochs} epochs",
    "pursuit": "projection pursuit",
    "pursuit+short": "pursuit, then gradient ascent for {short} epochs",
    "pursuit+gradient": "pursuit, then gradient ascent for {epochs} epochs",
    "default": "default of CombinationMachine",
    "true": "true model",
}
DIGIT_METHODS = {
    "product": "product distribution",
    "mixture": "mixture model, maximum likelihood",
    "mixture, smoothed": "mixture model, smoothed (our default)",
    "pursuit": "combination model, the paper's pursuit",
    "pursuit, ours": "our pursuit, with input biases",
    "default": "combination model, default learner",
}
HEADS = {"log_loss": "log-loss", "single_bit": "single bit", "reconstruction": "reconstruction"}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    large, small = results["synthetic"]["large"], results["synthetic"]["small"]
    body = [
        f"## Synthetic target (table 1): {_size(large)}",
        _table(large, expected["tables"]["large"]),
        "Mean and standard error over the seeds, each with rows of its own; in brackets the paper's one run. The "
        "paper's target is lost, ours is designed to be as hard (`targets.py`).",
        _units(large),
        f"## The same, all weights divided by seven (table 2): {_size(small)}",
        _table(small, expected["tables"]["small"]),
        _units(small),
        *_digits(results["digits"], expected),
    ]
    title = "Freund & Haussler (1994): the paper's tables beside our numbers"
    shown = pictures(results["figures"], CAPTIONS, alt="{}")
    return page(title, "few rows, epochs, units and seeds", results, expected, body, shown)


def with_error(values: Sequence[float], digits: int = 3) -> str:
    """Mean and standard error; the mean alone of a single number.

    >>> with_error([0.4, 0.41, 0.42]), with_error([0.4])
    ('0.410 ± 0.006', '0.400')
    """
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def _size(one: Mapping[str, Any]) -> str:
    return f"{one['n_rows']} + {one['n_rows']} rows, {one['n_seeds']} seeds"


def _table(one: Mapping[str, Any], paper: Mapping[str, Any]) -> str:
    columns = ["", *(f"{head} {part}" for head in HEADS.values() for part in ("train", "test")), "seconds"]
    rows = []
    for name, found in one["methods"].items():
        theirs = iter(paper.get(name, ()))
        cells = [
            with_error(found[measure][part]) + _in_brackets(next(theirs, None))
            for measure in HEADS
            for part in ("train", "test")
        ]
        seconds = f"{np.mean(found['seconds']):.1f}" if name != "true" else ""
        rows.append([METHODS[name].format(**one), *cells, seconds])
    return markdown(columns, rows)


def _in_brackets(number: float | None) -> str:
    return "" if number is None else f" ({number:g})"


def _units(one: Mapping[str, Any]) -> str:
    rows = [
        [METHODS[name].format(**one), ", ".join(found["words"]), str(found["n_found"])]
        for name, found in one["matches"].items()
    ]
    table = markdown(["seed 0", "units of the target that the learned ones are", "found"], rows, left=2)
    return f"{table}\n\n*Found*: units of the target that a learned unit is, as it is or negated, cosine 0.8 or more."


def _digits(found: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> list[str]:
    if found is None:
        return []
    rows = []
    for name, one in found["results"].items():
        theirs = iter(expected["tables"]["digits"].get(name, ()) if found["is_usps"] else ())
        cells = [
            with_error(one[measure][part]) + _in_brackets(next(theirs, None))
            for measure in ("single_bit", "reconstruction")
            for part in ("train", "test")
        ]
        units = [size for size in one["n_units"] if size is not None]
        rows.append(
            [DIGIT_METHODS[name], *cells, f"{np.mean(units):.1f}" if units else "", f"{np.mean(one['seconds']):.1f}"]
        )
    heads = [f"{HEADS[measure]} {part}" for measure in ("single_bit", "reconstruction") for part in ("train", "test")]
    return [
        f"## Digits (table 3): {found['title']}, {found['n_train']} + {found['n_test']} rows, {found['n_units']} units,"
        f" {found['n_seeds']} seeds",
        markdown(["", *heads, "units", "seconds"], rows),
        "Mean and standard error over the seeds; in brackets the paper's numbers, on digits of NIST, each ± 0.01.",
    ]
