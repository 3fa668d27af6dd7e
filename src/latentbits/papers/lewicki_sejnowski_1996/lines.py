"""The lines problem: how often all ten lines are found, and the patterns of lines above them (figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.data.toys import LINE_PATTERNS, Lines, lines
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.papers.lewicki_sejnowski_1996.measures import all_lines, lines_of, n_lines, patterns_of
from latentbits.papers.lewicki_sejnowski_1996.runs import run

__all__ = ["PROBABILITIES", "RECIPES", "SIZES", "experiment", "measured", "toy_of"]

SIZES = (10, 5)
PROBABILITIES = (0.3, 0.15)  # of a line and of a pattern
# the paper's: no biases but those of the top layer, one sample, blocks of 200 patterns, ten epochs a layer
PAPER: dict[str, Any] = {"learner": "paper", "bias": False}
RECIPES: dict[str, dict[str, Any]] = {"ours": {}, "paper": PAPER}


def toy_of(seed: int, n_rows: int) -> Lines:
    return lines(
        n_rows,
        line_probability=PROBABILITIES[0],
        pattern_probability=PROBABILITIES[1],
        random_state=np.random.default_rng([seed, n_rows]),
    )


def experiment(recipe: str, seed: int, n_rows: int, folder: Path) -> tuple[NoisyOrNetwork, dict[str, Any]]:
    """One network learned from rows of its own."""
    model = NoisyOrNetwork(SIZES, random_state=seed, **RECIPES[recipe])
    return run(folder, f"lines_{recipe}_{seed}", model, toy_of(seed, n_rows).X, measured)


def measured(model: NoisyOrNetwork) -> Mapping[str, Any]:
    """Lines, patterns, and bits per image, exactly: over all images that can come up."""
    table = all_lines(*PROBABILITIES)
    found = lines_of(model.weights_[0])
    patterns = patterns_of(model.weights_[1], found)
    return {
        "n_lines": n_lines(model.weights_[0]),
        "patterns": patterns,
        "n_patterns": len(set(patterns) & set(LINE_PATTERNS)),
        "bits": table.bits_under(model.score_samples(table.X)),
    }
