"""The problems of section 5 that are made up: rows of each, and what is measured of a network that learned them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from latentbits.data.toys import LINE_PATTERNS, Lines, Shifter, lines, shifter
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.papers.lewicki_sejnowski_1996.chains import of_chains
from latentbits.papers.lewicki_sejnowski_1996.measures import (
    Images,
    Shifts,
    all_lines,
    all_shifts,
    background,
    direction_told,
    lines_of,
    n_lines,
    overlap,
    patterns_of,
    shifts_of,
    sides_of,
)

__all__ = ["LINES", "PROBABILITIES", "PROBLEMS", "images_of", "of_lines", "of_shifts", "rows_of", "shifts_in"]

PROBABILITIES = (0.3, 0.15)  # of a line, as the caption has it; and of a pattern, which is ours
# how images have patterns (`latentbits.data.toys.lines`), the nearest to the caption of figure 1 first
LINES: dict[str, Literal["alone", "one", "any"]] = {"lines_alone": "alone", "lines_one": "one", "lines_any": "any"}


class Problem(NamedTuple):
    """Hidden units of the network, and what is measured of it."""

    sizes: tuple[int, ...]
    measured: Callable[[NoisyOrNetwork], Mapping[str, Any]]


def rows_of(problem: str, seed: int, n_rows: int) -> Lines | Shifter:
    """Draw rows to learn from; each seed has others."""
    rng = np.random.default_rng([seed, n_rows])
    if problem == "shifts":
        return shifter(n_rows, random_state=rng)
    line, pattern = PROBABILITIES
    return lines(n_rows, line_probability=line, pattern_probability=pattern, patterns=LINES[problem], random_state=rng)


@cache
def images_of(problem: str) -> Images:
    """List all images that can come up."""
    return all_shifts() if problem == "shifts" else all_lines(*PROBABILITIES, LINES[problem])


def of_lines(problem: str, model: NoisyOrNetwork) -> Mapping[str, Any]:
    """Measure lines, patterns, a bias; exact bits per image, over all that can come up; what chains do (section 3)."""
    table = images_of(problem)
    found = lines_of(model.weights_[0])
    patterns = patterns_of(model.weights_[1], found)
    on = table.chance @ model.transform(table.X, layer=2)
    return {
        "n_lines": n_lines(model.weights_[0]),
        "patterns": patterns,
        "n_patterns": len(set(patterns) & set(LINE_PATTERNS)),
        "bits": table.bits_under(model.score_samples(table.X)),
        **background(model.weights_[1], patterns, on),
        **of_chains(model, table),
    }


def shifts_in(model: NoisyOrNetwork) -> Shifts:
    """Find what its second-layer units stand for; those that hardly a row uses are dead."""
    return shifts_of(model.weights_[0], model.transform(all_shifts().X, layer=1).mean(axis=0))


def of_shifts(model: NoisyOrNetwork) -> Mapping[str, Any]:
    """Measure bits over all patterns, with the error of log p where it is estimated; and what the units stand for."""
    table = images_of("shifts")
    known = model.log_likelihoods(table.X)
    error = np.hypot(np.linalg.norm(table.chance * known.error), float(np.max(known.common_error))) / np.log(2)
    shifts = shifts_in(model)
    drawn = rows_of("shifts", 0, 500)  # rows by which top units are judged to know the direction
    assert isinstance(drawn, Shifter)
    return {
        "bits": table.bits_under(np.asarray(known.value)),
        "error": float(error),
        "kinds": shifts.kinds,
        "n_covered": shifts.n_covered,
        "n_doubled": shifts.n_doubled,
        "n_dead": shifts.count("dead"),
        "overlap": overlap(model.weights_[1], shifts.kinds),
        **sides_of(model.weights_[1], shifts.kinds),
        "direction": direction_told(model.transform(drawn.X, layer=2), drawn.direction),
    }


PROBLEMS = {name: Problem((10, 5), partial(of_lines, name)) for name in LINES} | {"shifts": Problem((20, 2), of_shifts)}
