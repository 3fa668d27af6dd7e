"""Covariates: a table of numbers beside the bits, with names where it is a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from latentbits.core.errors import DataError

__all__ = ["read_covariates", "same_covariates"]


def read_covariates(given: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Read (rows, covariates) as float64, none missing, and their names if any; one covariate may be a plain list."""
    columns = getattr(given, "columns", None)
    names = None if columns is None else tuple(str(name) for name in columns)
    table = np.asarray(given) if names is None else given
    if names is None and table.ndim == 1:
        table = table[:, None]
    if names is None and table.ndim != 2:
        raise DataError(f"covariates must be 2-dimensional, found {table.ndim} dimensions")
    try:
        values = check_array(table, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
    except (TypeError, ValueError):
        _refuse_text(np.asarray(table, object), names)
        raise
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0].tolist()
        found = "NaN" if np.isnan(values[row, column]) else "infinite"
        raise DataError(f"covariates must be numbers, none missing: row {row} of {_called(names, column)} is {found}")
    return values, names


def same_covariates(names: Sequence[str] | None, known: Sequence[str] | None) -> None:
    """Refuse names that are not those of the fit, in its order; an array has none, and is taken as it is."""
    if names is not None and known is not None and list(names) != list(known):
        raise DataError(f"covariates must be {', '.join(known)}, in this order, as in fit")


def _refuse_text(table: np.ndarray, names: Sequence[str] | None) -> None:
    for column, row in np.ndindex(table.shape[::-1]):
        try:
            float(table[row, column])
        except (TypeError, ValueError):
            raise DataError(
                f"covariates must be numbers, and {_called(names, column)} has {table[row, column]!r}: categories need "
                "a column of 0 and 1 for each but one of them, as pandas.get_dummies(..., drop_first=True) makes them"
            ) from None


def _called(names: Sequence[str] | None, column: int) -> str:
    return f"column {column}" if names is None else f"column {names[column]!r}"
