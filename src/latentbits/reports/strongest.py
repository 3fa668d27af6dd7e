"""The columns of the largest weights, in a few words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentbits.core.errors import DataError
from latentbits.core.printable import printable

__all__ = ["in_words", "telling_weights"]


def telling_weights(weights: np.ndarray, most: int) -> list[np.ndarray]:
    """Choose for each unit the columns with the largest weights by size, from the most positive to the most negative.

    >>> [one.tolist() for one in telling_weights(np.array([[0.1, -2.0, 1.0, 0.0]]), 3)]
    [[2, 0, 1]]
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 2 or not np.isfinite(weights).all():
        raise DataError(f"weights must be a finite (units, inputs) array, found shape {weights.shape}")
    chosen = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :most]
    return [one[np.argsort(-row[one], kind="stable")] for row, one in zip(weights, chosen)]


def in_words(names: Sequence[str], values: np.ndarray, places: Sequence[int] | np.ndarray, form: str) -> str:
    """Write some columns with their values, each by a format.

    >>> in_words(["tea", "milk", "salt"], np.array([0.5, 2.0, -1.0]), [1, 2], "+.1f")
    'milk +2.0, salt -1.0'
    """
    return ", ".join(f"{printable(names[j])} {values[j]:{form}}" for j in places)
