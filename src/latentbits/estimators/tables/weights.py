"""How often each row counts, as users give it and as engines take it.

Without a prior a likelihood has its maximum in the same place whatever the weights are multiplied by, and learning must
find it there: `in_rows` gives weights the unit in which they are numbers of rows, `fit` learns with these, and what it
has to say in sums over rows it says in the unit of the user.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from latentbits.core.errors import DataError
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.estimators.tables.encoding import check_observed

__all__ = ["InRows", "in_rows", "open_weights", "weighted"]

# The largest weight.  Rows are summed in float32, which ends at 1e-38 and 1e38: between these bounds there is room for
# squares, and for 1e8 rows.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-15, 1e15
LARGEST_COUNT = 1e9


class InRows(NamedTuple):
    """Weights as numbers of rows; they times `unit` are those of the user."""

    weights: np.ndarray | None
    unit: float


def in_rows(weights: np.ndarray | None) -> InRows:
    """Return weights in a unit of their own, the same whatever they all are multiplied by.

    Counts of rows, and multiples of them, are as small whole numbers as can be; others have a mean of 1 where they are
    not 0.

    >>> in_rows(np.array([2.0, 0.0, 3.0]) / 300).weights.tolist()
    [2.0, 0.0, 3.0]
    >>> in_rows(np.array([np.pi, 1.0])).weights.sum().round(9).item()
    2.0
    """
    if weights is None:
        return InRows(None, 1.0)
    counting = weights[weights > 0]
    unit = _unit_of_counts(counting)
    if unit is None:
        unit = float(counting.mean())
        # sums of 2e6 multiples of this part of the mean are exact in float64, in any order, and the rounding of what
        # all weights were multiplied by leaves no trace
        return InRows(np.rint(weights / unit / 2.0**-32) * 2.0**-32, unit)
    return InRows(np.rint(weights / unit), unit)


def _unit_of_counts(weights: np.ndarray) -> float | None:
    """Find what counts of rows were multiplied by to give these weights; None where they are no counts."""
    if np.array_equal(weights, np.rint(weights)):
        unit = float(np.gcd.reduce(weights.astype(np.int64)))
        return unit if weights.max() <= LARGEST_COUNT * unit else None
    different = np.unique(weights)
    # the least is one of the first ten counts: weights of a survey, given to two digits, are no counts
    if len(different) > 1000 or different[-1] > LARGEST_COUNT * different[0]:
        return None
    counts = np.outer(np.arange(1, 11), different / different[0])
    whole = np.all(np.abs(counts - np.rint(counts)) <= 1e-14 * counts, axis=1)  # two roundings in float64 cost 4e-16
    return float(different[0] / (1 + np.argmax(whole))) if whole.any() else None


def weighted(engine: Engine, sample_weight: Any, X: Any = None) -> Engine:
    """Cut the rows of an engine with their weights; those that do not count are left out where they are in memory."""
    n_rows = len(engine.table) if isinstance(engine, MemoryEngine) else getattr(engine, "n_rows", None)
    weights = open_weights(sample_weight, n_rows, X)
    if weights is not None and isinstance(engine, SparseEngine) and not weights.all():
        counting = np.flatnonzero(weights)
        engine, weights = engine.rows(counting), weights[counting]
    if weights is not None and isinstance(engine, MemoryEngine) and not weights.all():
        left = engine.table[weights > 0]
        check_observed(left)
        return MemoryEngine(left, weights[weights > 0])
    engine.weights = weights
    return engine


def open_weights(sample_weight: Any, n_rows: int | None, X: Any = None) -> np.ndarray | None:
    """Open the weights of the rows of X as float64; None where each counts once.

    The rows of a stream, None, are counted when they are read.
    """
    if sample_weight is None:
        return None
    _refuse_other_rows(sample_weight, X)
    weights = check_array(
        sample_weight,
        dtype=np.float64,
        ensure_2d=False,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name="sample_weight",
    )
    if weights.ndim != 1:
        raise DataError(f"sample_weight must be 1-dimensional, one for each row; found {weights.ndim} dimensions")
    if n_rows is not None and len(weights) != n_rows:
        raise DataError(f"X has {n_rows} rows and sample_weight {len(weights)}: there must be one for each row")
    if not np.isfinite(weights).all():
        row = int(np.argmin(np.isfinite(weights)))
        what = "NaN" if np.isnan(weights[row]) else "infinity"
        raise DataError(f"sample_weight contains {what}, in row {row}: give 0 to rows that are not to count")
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise DataError(f"sample_weight must not be negative; that of row {row} is {weights[row]:g}")
    if not weights.any():
        raise DataError("sample_weight is zero for all rows: at least one must count")
    if not SMALLEST_WEIGHT <= weights.max() <= LARGEST_WEIGHT:
        raise DataError(
            f"the largest sample_weight is {weights.max():.3g}, and must be between {SMALLEST_WEIGHT:g} and "
            f"{LARGEST_WEIGHT:g}: it says how often a row counts, so divide all of them by their mean"
        )
    return weights


def _refuse_other_rows(sample_weight: Any, X: Any) -> None:
    """Complain of a pandas Series whose rows are in another order than those of the frame, or are others."""
    if not all(type(one).__module__.startswith("pandas.") and hasattr(one, "iloc") for one in (sample_weight, X)):
        return
    if len(sample_weight) != len(X) or sample_weight.index.equals(X.index):
        return
    raise DataError(
        "the index of sample_weight is not that of X, so that weights may go with other rows than they are meant for: "
        "pass sample_weight.loc[X.index], or sample_weight.to_numpy() to go by position"
    )
