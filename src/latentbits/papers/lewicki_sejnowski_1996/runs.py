"""Networks one by one: each is kept in a folder as it ends, with what was measured of it, and is not learned again."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.files import load
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.papers.lewicki_sejnowski_1996.problems import PROBLEMS, rows_of
from latentbits.papers.skeleton import fitted, kept

__all__ = ["RECIPES", "Case", "learned", "network", "run"]

# the paper's: no biases but those of the top layer, one sample, blocks of 200 patterns, ten epochs a layer, and all
# layers sampled from the beginning
PAPER: dict[str, Any] = {"recipe": "lewicki1996", "bias": False}
RECIPES: dict[str, dict[str, Any]] = {
    "ours": {},
    "paper": PAPER,
    "stability": PAPER | {"recipe": {"schedule": "stability"}},
    "together": PAPER | {"recipe": {"schedule": "together"}},
    "early": PAPER | {"recipe": {"schedule": "layers", "n_epochs": 1}},
}


class Case(NamedTuple):
    """A network to learn: of which problem, how, with which seed, from how many rows."""

    problem: str
    recipe: str
    seed: int
    n_rows: int

    @property
    def name(self) -> str:
        """Name of the files."""
        return f"{self.problem}_{self.recipe}_{self.seed}_{self.n_rows}"


def learned(case: Case, folder: Path) -> dict[str, Any]:
    """Get what is measured of the network; it is learned if the folder does not have it."""
    problem = PROBLEMS[case.problem]
    model = NoisyOrNetwork(problem.sizes, random_state=case.seed, **RECIPES[case.recipe])
    return run(folder, case.name, model, rows_of(case.problem, case.seed, case.n_rows).X, problem.measured)


def network(folder: Path, name: str) -> NoisyOrNetwork:
    """Get a network that was learned."""
    return load(folder / f"{name}.safetensors")


def run(
    folder: Path,
    name: str,
    model: NoisyOrNetwork,
    X: np.ndarray,
    measure: Callable[[NoisyOrNetwork], Mapping[str, Any]],
) -> dict[str, Any]:
    """Learn a network from rows, and measure it, with `seconds` and `course`, bits a row of every pass.

    A run that was kept counts if its settings, its rows and the version are the same.
    """

    def compute() -> dict[str, Any]:
        network, seconds = fitted(model, X)
        folder.mkdir(parents=True, exist_ok=True)
        network.save(folder / f"{name}.safetensors")
        return {"seconds": seconds, "course": np.round(network.cost_history_, 4).tolist(), **measure(network)}

    settings = {key: repr(value) for key, value in model.get_params().items()}
    return kept(folder, name, compute, {"rows": [*X.shape, zlib.crc32(X.tobytes())], "settings": settings})
