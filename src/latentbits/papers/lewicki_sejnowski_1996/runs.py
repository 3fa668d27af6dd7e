"""Runs one by one: each is kept in a folder as it ends, and not made again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.core.atomic import write_atomically
from latentbits.core.version import __version__
from latentbits.estimators.files import load
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.papers.skeleton import fitted

__all__ = ["run"]

Measure = Callable[[NoisyOrNetwork], Mapping[str, Any]]


def run(
    folder: Path, name: str, model: NoisyOrNetwork, X: np.ndarray, measure: Measure
) -> tuple[NoisyOrNetwork, dict[str, Any]]:
    """A network learned from rows, and what is measured of it: as the folder has it, or made now and kept there.

    Parameters
    ----------
    folder
        Holds ``NAME.json`` and ``NAME.safetensors`` of every run that has ended.
    name
        Of the run.
    model
        Not fitted yet.  A run that was kept counts only if its settings, its rows and the version were the same.
    X
        Rows to learn from.
    measure
        Of the fitted model, numbers that JSON can hold.

    Returns
    -------
    The fitted model and its numbers, with `seconds` and `course`, the cost of every pass in bits per row.
    """
    described, file_of_model = folder / f"{name}.json", folder / f"{name}.safetensors"
    made_of = _made_of(model, X)
    if described.exists() and file_of_model.exists():
        found = json.loads(described.read_text("utf-8"))
        if found["made_of"] == made_of:
            return load(file_of_model), found["numbers"]
    model, seconds = fitted(model, X)
    numbers = {"seconds": seconds, "course": np.round(model.cost_history_, 4).tolist(), **measure(model)}
    folder.mkdir(parents=True, exist_ok=True)
    model.save(file_of_model)
    with write_atomically(described) as file:
        file.write(json.dumps({"made_of": made_of, "numbers": numbers}, indent=1).encode())
    return model, numbers


def _made_of(model: NoisyOrNetwork, X: np.ndarray) -> dict[str, Any]:
    """What decides how a run comes out."""
    return {
        "version": __version__,
        "rows": [*X.shape, zlib.crc32(X.tobytes())],
        "settings": {key: repr(value) for key, value in sorted(model.get_params().items())},
    }
