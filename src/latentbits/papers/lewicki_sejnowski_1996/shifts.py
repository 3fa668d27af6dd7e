"""The shifter problem: bits per pattern, local shifts, and top units that share none (figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.data.toys import Shifter, shifter
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.papers.lewicki_sejnowski_1996.measures import (
    Shifts,
    all_shifts,
    direction_told,
    overlap,
    shifts_of,
    sides_of,
)
from latentbits.papers.lewicki_sejnowski_1996.runs import run

__all__ = ["RECIPES", "SIZES", "experiment", "measured", "shifts_in", "toy_of"]

SIZES = (20, 2)
RECIPES: dict[str, dict[str, Any]] = {"ours": {}, "paper": {"learner": "paper", "bias": False}}
N_TOLD = 500  # rows whose direction is told


def toy_of(seed: int, n_rows: int) -> Shifter:
    return shifter(n_rows, random_state=np.random.default_rng([seed, n_rows]))


def experiment(recipe: str, seed: int, n_rows: int, folder: Path) -> tuple[NoisyOrNetwork, dict[str, Any]]:
    """One network learned from rows of its own."""
    model = NoisyOrNetwork(SIZES, random_state=seed, **RECIPES[recipe])
    return run(folder, f"shifts_{recipe}_{seed}", model, toy_of(seed, n_rows).X, measured)


def shifts_in(model: NoisyOrNetwork) -> Shifts:
    """What its second-layer units stand for; those that hardly a row uses are dead."""
    return shifts_of(model.weights_[0], model.transform(all_shifts().X, layer=1).mean(axis=0))


def measured(model: NoisyOrNetwork) -> Mapping[str, Any]:
    """Bits per pattern over all patterns, with the error of log p where it is estimated; what the units stand for."""
    table = all_shifts()
    known = model.log_likelihoods(table.X)
    error = np.hypot(np.linalg.norm(table.chance * known.error), float(np.max(known.common_error))) / np.log(2)
    shifts = shifts_in(model)
    told = toy_of(0, N_TOLD)
    return {
        "bits": table.bits_under(np.asarray(known.value)),
        "error": float(error),
        "kinds": shifts.kinds,
        "n_covered": shifts.n_covered,
        "n_dead": shifts.count("dead"),
        "overlap": overlap(model.weights_[1], shifts.kinds),
        **sides_of(model.weights_[1], shifts.kinds),
        "direction": direction_told(model.transform(told.X, layer=2), told.direction),
    }
