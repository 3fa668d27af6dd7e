"""Columns of a table of several kinds as they are read: values, missing entries, and the kind they look like."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.estimators.tables.frames import library_of

__all__ = ["COLUMN_MOST_CODES", "Column", "as_array", "is_number", "read"]

COLUMN_MOST_CODES = 11  # different whole numbers, as a rating from 0 to 10 has; a column of more is continuous


class Column(NamedTuple):
    """One column as it was read: float64 where all that is there are numbers or booleans, else objects."""

    values: np.ndarray
    missing: np.ndarray
    inferred: str
    boolean: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers or booleans only."""
        return self.values.dtype != object

    @property
    def like_codes(self) -> bool:
        """Whether the column looks continuous, but holds few different whole numbers, which may be categories."""
        if self.inferred != "continuous":
            return False
        present = self.values[~self.missing]
        return bool(np.all(present == np.rint(present))) and 2 <= len(np.unique(present)) <= COLUMN_MOST_CODES


def read(X: Any) -> list[Column]:
    """Read the columns of a frame or an array."""
    library = library_of(X)
    if library == "pandas":
        return [_pandas_column(X.iloc[:, place]) for place in range(X.shape[1])]
    if library == "polars":
        return [_polars_column(series) for series in X.get_columns()]
    array = as_array(X)
    return [_array_column(array[:, place]) for place in range(array.shape[1])]


def as_array(X: Any) -> np.ndarray:
    """Make an array of objects from a list: NumPy would turn the numbers of a mixed list into text."""
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(float if X.dtype.kind in "biuf" else object), np.nan)
    if isinstance(X, list | tuple):
        try:
            return np.array(X, dtype=object)
        except ValueError as error:
            raise DataError(f"X must be a table whose rows have one length ({error}).") from None
    return np.asarray(X)


def _array_column(values: np.ndarray) -> Column:
    if values.dtype.kind in "biuf":
        return _numbers(values.astype(np.float64), values.dtype == bool)
    if values.dtype.kind == "c":
        raise DataError("Complex data not supported: X must hold real numbers, booleans or text")
    values = values.astype(object)
    return _objects(values, np.array([_is_absent(v) for v in values], bool))


def _pandas_column(series: Any) -> Column:
    import pandas as pd

    kind = series.dtype
    if pd.api.types.is_bool_dtype(kind) and not isinstance(kind, pd.CategoricalDtype):
        return _numbers(series.to_numpy(dtype=float, na_value=np.nan), True)
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return _numbers(series.to_numpy(dtype=float, na_value=np.nan), False)
    column = _objects(series.astype(object).to_numpy(), series.isna().to_numpy())
    return column._replace(inferred="categorical") if isinstance(kind, pd.CategoricalDtype) else column


def _polars_column(series: Any) -> Column:
    import polars as pl

    kind = series.dtype
    if kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        return _numbers(series.cast(pl.Float64).to_numpy(), kind == pl.Boolean)
    if kind in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    values = np.empty(len(series), object)
    values[:] = series.to_list()
    return _objects(values, series.is_null().to_numpy())


def _numbers(values: np.ndarray, boolean: bool) -> Column:
    missing = np.isnan(values)
    bits = boolean or bool(np.all((values == 0) | (values == 1) | missing))
    return Column(values, missing, "binary" if bits else "continuous", boolean)


def _objects(values: np.ndarray, missing: np.ndarray) -> Column:
    """Make a column of objects; objects that are all numbers become numbers."""
    present = values[~missing]
    if all(is_number(v) for v in present):
        try:
            numbers = np.where(missing, np.nan, values).astype(np.float64)
        except OverflowError:
            raise DataError("X holds an integer that is too large for a float") from None
        return _numbers(numbers, len(present) > 0 and all(isinstance(v, bool | np.bool_) for v in present))
    return Column(values, missing, "categorical")


def _is_absent(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT, which arrays of objects may hold."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def is_number(value: Any) -> bool:
    """Return whether a value is a real number or a boolean."""
    return isinstance(value, int | float | np.number | np.bool_) and not isinstance(value, np.complexfloating)
