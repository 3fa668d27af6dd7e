"""Refuse what is no table of bits, and say what to do about it."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse

from latentbits.core.errors import DataError
from latentbits.core.printable import listed
from latentbits.data.headers import first_doubled
from latentbits.estimators.tables.frames import is_sparse, library_of

__all__ = [
    "DATE_TYPES",
    "TABLE_MOST_MARKS",
    "at_column",
    "holds_infinity",
    "holds_text",
    "not_a_bit",
    "refuse_columns",
    "refuse_dates",
    "refuse_infinite",
    "refuse_wrapped",
]

NAMED_COLUMNS = 6  # most columns that a message names
DATES = ("date", "time", "duration", "period")  # the names of these types begin so in pandas and polars
DATE_TYPES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
TABLE_MOST_MARKS = 3  # a table with more whole numbers beside 0 and 1 holds counts, not marks for missing
YES = ("yes", "y", "true", "t", "present", "ja", "oui", "si", "on", "agree", "correct", "right", "positive")


def at_column(column: int, names: Any) -> str:
    """Name a column in a message: its position, and its name where it has one."""
    return f"column {column}" + (f" ({names[column]!r})" if names is not None else "")


def not_a_bit(
    value: Any, row: int, column: int, names: Any, values: np.ndarray, alone: Sequence[int] = ()
) -> DataError:
    """Make the error for a value that is no bit; the advice depends on the `values` of its table.

    `alone` lists the columns that hold such values, where they are few among others that hold bits.
    """
    value = value.item() if isinstance(value, np.generic) else value
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, str):
        return holds_text({column: (row, value)}, names, (one for one in values.flat if isinstance(one, str)))
    if values.dtype.kind == "O":  # numbers among texts, which cannot be sorted
        values = np.array([one for one in values.flat if isinstance(one, Real)], float)
    advice = _advice_for(value, np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values))
    if alone:
        called = [str(j if names is None else names[j]) for j in alone]
        quoted = listed([repr(one) for one in called], NAMED_COLUMNS)
        options = " ".join(f"labels={name!r}" for name in called[:TABLE_MOST_MARKS])
        what = "this column says" if len(alone) == 1 else "these columns say"
        advice = (
            f"The other columns hold bits: if {what} what rows are (an id, a group, a weight), leave "
            f"{quoted} out ({options} when it is read from a file). {advice}"
        )
    where = f"row {row}, {at_column(column, names)}"
    return DataError(f"X must hold bits: 0, 1 or NaN for missing; {where} holds {value!r}. {advice}")


def holds_text(found: dict[int, tuple[int, str]], names: Sequence[Any] | None, words: Iterable[str] = ()) -> DataError:
    """Make the error for columns of text; `found` has the first row and text of each, `words` all texts there.

    >>> str(holds_text({0: (0, "no")}, ["tea"], ["no", "yes"])).partition("holds 'no'. ")[2]
    "If these are two answers, turn them into bits: X.replace({'no': 0, 'yes': 1}); else leave columns of text out."
    """
    (place, (row, value)), *others = found.items()
    more = f" ({listed([str(j) if names is None else repr(names[j]) for j in found], NAMED_COLUMNS)})" if others else ""
    where = f"row {row}, {at_column(place, names)}"
    answers = sorted({word for word in words if word.strip()})
    out = f"leave columns of text{more} out"
    if not value.strip():
        advice = f"If an empty text marks a missing bit, make it NaN: X.replace({value!r}, numpy.nan); else {out}."
    elif len(answers) == 2 and names is not None:
        no, yes = sorted(answers, key=lambda word: word.strip().lower() in YES)
        advice = f"If these are two answers, turn them into bits: X.replace({{{no!r}: 0, {yes!r}: 1}}); else {out}."
    elif len(answers) == 2:
        yes = max(answers, key=lambda word: word.strip().lower() in YES)
        advice = f"If these are two answers, turn them into bits: X == {yes!r}; else {out}."
    else:
        advice = f"L{out[1:]}, or turn them into bits."
    return DataError(f"X must hold bits: 0, 1 or NaN for missing; {where} holds {value!r}. {advice}")


def _advice_for(value: float, values: np.ndarray) -> str:
    """Advise what to do about a value that is no bit in a table of these values; a cut would turn marks into answers.

    >>> _advice_for(2, np.array([1, 2])).partition("; ")[2]
    'if bits are 1 and 2, a model made with binarize=1.5 takes them.'
    """
    others = values[(values != 0) & (values != 1)]
    if len(others) > TABLE_MOST_MARKS or np.any(others != np.round(others)):
        advice = "A model made with binarize=0.5, say, takes every value above 0.5 as a 1 and the rest as a 0."
        bytes_ = np.all((values == np.round(values)) & (values >= 0) & (values <= 255)) and values[-1] > 15
        return advice + (" Bits packed into bytes need numpy.unpackbits first." if bytes_ else "")
    mark, *rest = [int(value), *(int(other) for other in others if other != value)]
    likewise = f", and likewise with {' and '.join(map(str, rest))}" if rest else ""
    missing = f"If {mark} marks a missing bit, make it NaN (missing='{mark}' when it is read from a file){likewise}"
    if len(values) <= 2:
        low, high = (int(values[0]), int(values[-1])) if len(values) == 2 else (0, mark)
        return f"{missing}; if bits are {low} and {high}, a model made with binarize={(low + high) / 2:g} takes them."
    if others[0] == 2 and others[-1] == len(others) + 1:
        return f"{missing}; if these are counts, a model made with binarize=0.5 takes all but 0 as a 1."
    return f"{missing}: binarize would make it an answer."


def holds_infinity(X: Any, error: ValueError) -> ValueError:
    """Make an error that names the place of the infinite value of a dense table; else return `error`."""
    if is_sparse(X):
        return error
    row, column = (int(i) for i in np.argwhere(np.isinf(np.asarray(X, np.float64)))[0])
    names = list(X.columns) if library_of(X) is not None else None
    value = np.asarray(X, np.float64)[row, column]
    return DataError(
        f"X contains infinity: row {row}, {at_column(column, names)} holds {value:g}. If that is no value, make it NaN."
    )


def refuse_infinite(part: Any, first_row: int) -> None:
    """Refuse infinite values in a slice of rows."""
    values = part.data if is_sparse(part) else np.asarray(part)
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise DataError(
            f"X contains infinity between rows {first_row} and {first_row + part.shape[0] - 1}. If that is no value, "
            "make it NaN."
        )


def refuse_wrapped(X: Any) -> None:
    """Refuse paths, dicts, lazy frames and data sets, each with the step that makes a table of it."""
    step = None
    if isinstance(X, str | PathLike):
        step = "read it first: latentbits.read(path).values"
    elif isinstance(X, dict) and not issparse(X):  # some sparse matrices are dicts
        step = "pass pandas.DataFrame(X)"
    elif type(X).__name__ == "LazyFrame":
        step = "pass X.collect()"
    elif type(X).__module__.startswith("latentbits.data."):
        step = "pass its .X" if hasattr(X, "X") else "pass its .values"
    if step is not None:
        raise TypeError(f"X is a {type(X).__name__}, not a table: {step}")


def refuse_columns(X: Any) -> None:
    """Refuse columns of dates, and a frame in which two columns have the same name."""
    library = library_of(X)
    if library is None:
        if isinstance(X, np.ndarray):
            refuse_dates(X)
        return
    names = [str(name) for name in X.columns]
    doubled = first_doubled(names)
    if doubled is not None:
        raise DataError(f"X has two columns named {doubled!r}; names must differ")
    for place, kind in enumerate(X.dtypes):
        if str(kind).lower().startswith(DATES):
            raise _holds_dates(place, names, str(kind))
        if str(kind) == "object":
            refuse_dates(X.iloc[:, place].to_numpy()[:, None], names, place)


def refuse_dates(block: Any, names: Any = None, first_column: int = 0) -> None:
    """Refuse dates and times in an array: NumPy would take them as numbers of seconds, days or years."""
    kind = getattr(block, "dtype", None)
    if kind is None or kind.kind not in "mMO":
        return
    if kind.kind != "O":
        raise _holds_dates(first_column, names, str(kind))
    if any(issubclass(found, DATE_TYPES) for found in set(map(type, block.ravel()))):
        for at, value in np.ndenumerate(block):
            if isinstance(value, DATE_TYPES) and value == value:  # NaT is missing, and not equal to itself
                raise _holds_dates(first_column + at[-1], names, type(value).__name__)


def _holds_dates(column: int, names: Any, kind: str) -> DataError:
    """Make the error for a column of dates."""
    return DataError(
        f"X must hold numbers; {at_column(column, names)} holds dates or times ({kind}). Leave it out, or turn it into "
        "numbers: days since a date, say."
    )
