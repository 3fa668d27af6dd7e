"""Replace the marks that lists, masked arrays and frames have for missing entries by NaN."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.estimators.tables.refusals import TABLE_MOST_MARKS, at_column, holds_text, refuse_columns, refuse_dates

__all__ = ["with_nan"]


def with_nan(X: Any) -> Any:
    """Replace None, masked, null and NA entries of X by NaN; refuse text and dates."""
    if isinstance(X, list | tuple):
        X = _array_of(X)  # check_array would keep a list's None
    if np.ma.isMaskedArray(X):
        refuse_dates(X)
        return np.ma.filled(X.astype(float), np.nan)
    refuse_columns(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "USO":
        X = _numbers_of_text(X)
    if isinstance(X, np.ndarray) and X.dtype == object and "pandas" in sys.modules:
        import pandas as pd

        return np.where(pd.isna(X), np.nan, X)  # pandas' own NA and NaT, which are no numbers
    library = type(X).__module__.partition(".")[0]
    if library == "polars" and hasattr(X, "to_dicts"):
        import polars as pl

        kinds = enumerate(X.schema.items())
        text = {
            place: (0, str(X[name].drop_nulls().first()))
            for place, (name, kind) in kinds
            if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null))
        }
        if text:
            raise holds_text(text, list(X.columns))
        # a Boolean column with nulls would become an array of objects
        return X.with_columns(pl.col(pl.Boolean, pl.Null).cast(pl.Float32))
    if library == "pandas" and hasattr(X, "columns"):
        return _pandas_with_nan(X)
    return X


def _array_of(rows: Any) -> np.ndarray:
    """Turn lists of numbers into an array; an error explains how rows of items become bits."""
    try:
        return np.asarray(rows)
    except ValueError as error:
        lengths = [len(row) if hasattr(row, "__len__") else 0 for row in rows]
        other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if other is None:
            raise
        raise DataError(
            f"X must have one entry a column in each row; row 0 has {lengths[0]} and row {other} has {lengths[other]}. "
            "Lists of the items that are there, as in baskets, become bits by "
            "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(X)."
        ) from error


def _numbers_of_text(X: np.ndarray) -> np.ndarray:
    """Turn an array of texts into the numbers they spell, as in a frame; the first other text is an error."""
    if X.dtype.kind != "O":
        try:
            return X.astype(np.float64)
        except ValueError:
            pass
    texts = [(at, str(value)) for at, value in np.ndenumerate(X) if isinstance(value, str | bytes)]
    found = next(((at, text) for at, text in texts if not _is_number(text)), None)
    if found is None or X.ndim != 2:
        return X
    (row, column), value = found
    raise holds_text({column: (row, value)}, None, {text for _, text in texts if not _is_number(text)})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pandas_with_nan(X: Any) -> Any:
    """Turn the columns of a pandas frame into numbers, NaN where missing; collect columns of text for one error."""
    import pandas as pd

    if not X.shape[1]:
        raise DataError(f"X has no columns, but at least one is needed; found shape {X.shape}.")
    changed, text, words = {}, {}, set()
    for place in range(X.shape[1]):
        column = X.iloc[:, place]
        if isinstance(column.dtype, pd.SparseDtype) and column.dtype.fill_value != 0:
            changed[place] = column = column.sparse.to_dense()  # SciPy can leave out zeros only
        if not (pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)):
            numbers = pd.to_numeric(column.astype(object).where(column.notna(), np.nan), errors="coerce")
            rows = np.flatnonzero(numbers.isna() & column.notna())
            if isinstance(column.dtype, pd.CategoricalDtype) and not len(rows):
                raise DataError(
                    f"X must hold bits: {at_column(place, list(X.columns))} is categorical. If its categories are 0 "
                    "and 1, make them numbers: X.astype(float); else leave it out."
                )
            if len(rows):
                row = int(rows[0])
                text[place] = (row, str(column.iloc[row]))
                words |= set(map(str, column.dropna().unique()[: TABLE_MOST_MARKS + 1]))
            changed[place] = numbers
    if text:
        raise holds_text(text, list(X.columns), words)
    if changed:
        X = X.copy()
        for place, numbers in changed.items():
            X.isetitem(place, numbers)
    return X
