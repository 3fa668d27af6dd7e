"""Tables of real numbers: how to recognise them, and their units."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

__all__ = ["holds_reals", "mean_seen", "median", "units_of", "varied"]


def holds_reals(values: Any) -> bool:
    """Say whether a table, dense or sparse, holds fractions.

    Whole numbers other than 0 and 1 can be counts, codes or slips: what they are must be said.

    >>> holds_reals(np.array([[0.5, np.nan]])), holds_reals(np.array([[0.0, 2.0], [1.0, np.nan]]))
    (True, False)
    """
    stored = values.data if hasattr(values, "tocsr") else np.asarray(values)
    return stored.dtype.kind == "f" and bool((np.nan_to_num(stored) % 1 != 0).any())


def varied(values: np.ndarray) -> np.ndarray:
    """Find the columns of real numbers that vary, by more than rounding: the densities of the others have no bound.

    >>> varied(np.array([[0.1, 0.0, np.nan], [0.1 + 1e-15, 3.0, np.nan]])).tolist()
    [False, True, False]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
        low, high, spread = np.nanmin(values, axis=0), np.nanmax(values, axis=0), np.nanstd(values, axis=0)
    return (high > low) & (spread > 1e-9 * np.maximum(np.abs(low), np.abs(high)))  # more than rounding


def units_of(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Compute the median and the standard deviation of each column, to subtract and to divide by.

    Binary sparse coding has no constant, and one noise for all columns.  The median is what a column is where no cause
    is on, if those are most rows.  Columns that are constant are divided by 1.  `weights` are how often each row
    counts, and above 0; None for once.

    >>> centre, scale = units_of(np.array([[0.0, 5.0], [0.0, 5.0], [3.0, 5.0]]))
    >>> np.allclose(centre, [0, 5]), scale.round(3).tolist()
    (True, [1.414, 1.0])
    >>> centre, scale = units_of(np.array([[0.0, 5.0], [3.0, 5.0]]), np.array([2.0, 1.0]))
    >>> np.allclose(centre, [0, 5]), scale.round(3).tolist()
    (True, [1.414, 1.0])
    """
    centre = np.array([median(column, weights) for column in values.T])
    scale = np.sqrt(mean_seen(np.square(values - mean_seen(values, weights)), weights))
    return centre, np.where(varied(values), scale, 1.0)


def mean_seen(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the mean of each column over observed cells, by the weights of the rows (None for 1); 0 where none is.

    >>> mean_seen(np.array([[1.0, np.nan], [4.0, np.nan]]), np.array([2.0, 1.0])).tolist()
    [2.0, 0.0]
    """
    weights = np.ones(len(values)) if weights is None else weights
    seen = weights @ ~np.isnan(values)
    return weights @ np.nan_to_num(values) / np.where(seen > 0, seen, 1)


def median(values: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Compute that of numbers written out as often as they count (None for once), without missing ones; 0 for none.

    >>> median(np.array([3.0, 0.0, np.nan]), np.array([1.0, 2.0, 9.0])), median(np.array([3.0, 0.0]))
    (0.0, 1.5)
    """
    weights = np.ones(len(values)) if weights is None else weights
    there = ~np.isnan(values)
    if not there.any():
        return 0.0
    order = np.argsort(values[there], kind="stable")
    ordered, ends = values[there][order], np.cumsum(weights[there][order])
    below, above = (np.searchsorted(ends, ends[-1] / 2, side=side) for side in ("left", "right"))
    return float((ordered[below] + ordered[min(above, len(ordered) - 1)]) / 2)
