"""The user's table, whatever it came as, and which of its rows the page shows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from latentbits.choosing.real_tables import holds_reals
from latentbits.core.errors import DataError
from latentbits.core.printable import printable
from latentbits.data.columns import WORDS, Odd, of_numbers, of_words, refusal, settle, taken_as_labels, worth
from latentbits.data.fetch import Dataset
from latentbits.estimators.tables.columns import read as read_columns
from latentbits.estimators.tables.encoding import check_bits, check_observed
from latentbits.estimators.tables.missing import with_nan
from latentbits.estimators.tables.refusals import DATE_TYPES
from latentbits.estimators.tables.weights import open_weights
from latentbits.explorer.content import Labels, Table
from latentbits.figures.latent_trait.arrays import label_groups

__all__ = ["MOST_CLOSE", "WIDE", "Given", "shown_rows", "take_table"]

MOST_COLUMNS = 5000  # that models can be compared on in a minute or two
MOST_SHOWN = 200_000  # rows on the map
MOST_BYTES = 10_000_000  # of rows on the page, before they are deflated
FEWEST_SHOWN = 200
WIDE = 2000  # columns from which on
WIDE_CELLS = 2**21  # the number of cells placed on the map: in float64 (`estimators/precision.py`) 3 us each, twice
MOST_CLOSE = 4000  # rows of which the page holds what every model says
MOST_LEVELS = 1000  # kinds of rows that a column of labels can have
MOST_LETTERS = 200  # of a name on the page: more are of no use to a reader
FEW_NUMBERS = 10  # different whole numbers that are taken for kinds
NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)  # 007 is a code
SLICE_CELLS = 2**21  # of a dense table that are looked at together
PLACED = 14  # bytes of a row beside its bits: its place, its ellipse, its cost, its number
ON_A_MAP = 17  # more where there are several maps: which one, how surely, and all that again


class Given(NamedTuple):
    """A table: `values` (n, d) dense or sparse, bits unless `real`, NaN for missing; `n_columns` as it came.

    `weights` are how often each row counts, None for once.
    """

    source: str
    values: Any
    real: bool
    columns: tuple[str, ...]
    image_shape: tuple[int, int] | None
    labels: Mapping[str, np.ndarray]
    row_names: tuple[str, ...] | None
    n_columns: int
    weights: np.ndarray | None = None

    @property
    def counting(self) -> np.ndarray:
        """Numbers of the rows that count."""
        return np.arange(self.values.shape[0]) if self.weights is None else np.flatnonzero(self.weights)


def take_table(
    X: Any,
    labels: Any = None,
    image_shape: tuple[int, int] | None = None,
    column_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    source: str | None = None,
    binarize: float | None = None,
    real: bool | None = None,
    sample_weight: Any = None,
) -> Given:
    """Check the arguments of `explore`, and make one record of them.

    Tables with fractions are of real numbers.  Whole numbers other than 0 and 1 can be counts, codes or slips, so what
    they are must be said.
    """
    if isinstance(X, Dataset):
        X, labels, image_shape, column_names, source = (
            X.X,
            dict(X.labels) if labels is None else labels,
            X.image_shape if image_shape is None else image_shape,
            X.feature_names if column_names is None else column_names,
            source or X.name,
        )
    if hasattr(X, "columns"):
        bits = binarize is None and not real and image_shape is None
        X, labels, column_names, sample_weight = _from_frame(X, labels, column_names, sample_weight, bits)
    elif isinstance(sample_weight, str):
        raise DataError(f"sample_weight names a column, {sample_weight!r}, and X is no frame")
    values = check_array(
        with_nan(X), accept_sparse="csr", dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=8
    )
    check_observed(values)
    if binarize is not None:
        values = _binarized(values, binarize)
    real = holds_reals(values) if real is None else real
    if not real:
        try:
            check_bits(values, binarize=None, names=column_names)
        except DataError as error:
            raise DataError(f"{error} With real=True whole numbers are taken as real ones.") from None
    if image_shape is not None and image_shape[0] * image_shape[1] != values.shape[1]:
        height, width = image_shape
        raise DataError(f"image_shape {height}x{width} needs {height * width} columns, found {values.shape[1]}")
    column_names = _pixels(image_shape) if column_names is None else column_names
    names, n_columns = _names("column_names", column_names, values.shape[1], "column"), values.shape[1]
    weights = open_weights(sample_weight, values.shape[0], X)
    if n_columns > MOST_COLUMNS and image_shape is None:
        kept = most_varied(values, MOST_COLUMNS, weights)
        values, names = values[:, kept], tuple(names[i] for i in kept)
    known = _labels(labels, values.shape[0])
    rows = _names_among(known) if row_names is None else row_names
    rows = None if rows is None else _names("row_names", rows, values.shape[0], "row")
    return Given(shown_text(source or "table"), values, real, names, image_shape, known, rows, n_columns, weights)


def most_varied(values: Any, n: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Find the n columns of a table whose variance, times the rows in which they are seen, is largest.

    Each row counts as often as its weight says; None for once.

    >>> most_varied(np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]), 2).tolist()
    [0, 1]
    """
    n_rows, d = values.shape
    weights = np.ones(n_rows) if weights is None else weights
    sums, squares, holes = np.zeros((3, d))
    if hasattr(values, "tocsr"):
        stored, counts = np.asarray(values.data, np.float64), np.repeat(weights, np.diff(values.indptr))
        hole = np.isnan(stored)
        clean = np.where(hole, 0, stored)
        for total, some in ((sums, clean), (squares, clean**2), (holes, hole)):
            total += np.bincount(values.indices, counts * some, d)
    else:
        step = max(1, SLICE_CELLS // d)
        for first in range(0, n_rows, step):
            part = np.asarray(values[first : first + step], np.float64)
            hole = np.isnan(part)
            clean = np.where(hole, 0, part)
            for total, some in ((sums, clean), (squares, clean**2), (holes, hole)):
                total += weights[first : first + step] @ some
    seen = weights.sum() - holes
    variance = np.where(seen > 0, squares / seen.clip(1e-300) - (sums / seen.clip(1e-300)) ** 2, 0)
    return np.sort(np.argsort(-variance * seen, kind="stable")[:n])


def shown_rows(given: Given, seed: int | None, several_maps: bool = False) -> tuple[Table, int]:
    """Choose the part of a table that the page shows, and how many of its first rows are looked at closely.

    In a large table the rows looked at closely are a sample, and come first; so are all that are shown of a very large
    one.
    """
    n, d = len(given.counting), given.values.shape[1]
    per_row = PLACED + ON_A_MAP * several_maps + (4 * d if given.real else d / 8)
    room = min(MOST_BYTES / per_row, WIDE_CELLS / d if d > WIDE else np.inf)
    n_shown = min(n, MOST_SHOWN, max(FEWEST_SHOWN, int(room)))
    n_close = min(n_shown, MOST_CLOSE)
    shuffled = np.random.default_rng(seed).permutation(given.counting)
    numbers = np.concatenate([np.sort(shuffled[:n_close]), np.sort(shuffled[n_close:n_shown])])
    values = given.values[numbers]
    kind = np.float64 if given.real else np.float32
    dense = np.asarray(values.toarray() if hasattr(values, "toarray") else values, kind)
    labels, left_out = shown_labels(given.labels, numbers)
    table = Table(
        source=given.source,
        n_rows=n,
        columns=given.columns,
        values=dense,
        numbers=numbers,
        real=given.real,
        image_shape=given.image_shape,
        labels=labels,
        left_out_labels=left_out,
        row_names=None if given.row_names is None else tuple(given.row_names[i] for i in numbers),
        weights=None if given.weights is None else given.weights[numbers],
        n_counted=None if given.weights is None else float(given.weights.sum()),
    )
    return table, n_close


def _from_frame(
    frame: Any, labels: Any, column_names: Any, weights: Any, bits: bool = True
) -> tuple[Any, Any, Any, Any]:
    """Take the bits of a frame, without the columns that `labels` and `weights` name.

    Columns that hold no bits are labels, too; `bits` says that numbers are to be.
    """
    there = [str(name) for name in frame.columns]
    taken = _named_columns("labels", labels, len(frame), there)
    named = list(taken)
    if isinstance(weights, str):
        (place,) = _named_columns("sample_weight", weights, len(frame), there)
        if place in taken:
            raise DataError(f"labels and sample_weight both name column {weights!r}")
        taken, weights = [*taken, place], _column(frame, place)
    kept = [place for place in range(len(there)) if place not in taken]
    odd = {place: one for place in kept if (one := _odd(frame, place, there[place])) is not None}
    found = settle(tuple(odd.values()), len(kept), numbers_too=bits)
    if found.refused:
        raise refusal("", found.refused, found.labels, of_marks="make them NaN")
    if found.labels:
        warnings.warn(taken_as_labels(found.labels), stacklevel=4)
        more = [place for place, one in odd.items() if one in found.labels]
        labels = {} if labels is None or named else _labels(labels, len(frame))
        kept, named = [place for place in kept if place not in more], [*named, *more]
    if named:
        called = label_names([list(frame.columns)[place] for place in named])
        given = labels if found.labels and isinstance(labels, dict) else {}
        labels = given | {name: _column(frame, place) for name, place in zip(called, named) if name not in given}
    part = _part(frame, kept)
    if len(set(there)) < len(there):  # which scikit-learn refuses
        part = part.set_axis(range(len(kept)), axis=1)
    return (
        with_nan(part),
        labels,
        [there[place] for place in kept] if column_names is None else column_names,
        weights,
    )


def _part(frame: Any, places: list[int]) -> Any:
    return frame.iloc[:, places] if hasattr(frame, "iloc") else frame[:, places]


def _odd(frame: Any, place: int, name: str) -> Odd | None:
    """Classify a column of a frame that holds no bits."""
    part = _part(frame, [place])
    (column,) = read_columns(part)
    categories = str(next(iter(part.dtypes))).lower().startswith("categor")
    if column.numeric and not categories:
        return of_numbers(name, name, column.values)
    cells = column.values[~column.missing].tolist()
    words = [str(cell) for cell in cells]
    if any(isinstance(cell, DATE_TYPES) for cell in cells):
        return of_words(name, name, words, "dates")
    numbers = [worth(word) for word in words if word.lower() not in WORDS]
    if hasattr(frame, "iloc") and not categories and len(numbers) == len(words) and None not in numbers:
        return of_numbers(name, name, np.array(numbers))  # as text, which pandas reads
    return of_words(name, name, words)


def _named_columns(argument: str, labels: Any, n_rows: int, there: list[str]) -> list[int]:
    """Find the columns that an argument names; none where it is the values themselves."""
    asked = [labels] if isinstance(labels, str) else labels
    if not isinstance(asked, list | tuple) or not all(isinstance(name, str) for name in asked):
        return []
    absent = [name for name in asked if name not in there]
    if absent and len(asked) == n_rows:
        return []
    if absent:
        raise DataError(f"{argument}: there is no column {absent[0]!r}; there are {', '.join(there)}")
    return [there.index(name) for name in asked]


def _column(frame: Any, place: int) -> np.ndarray:
    """Take a column by its place, since names may occur twice; None where nothing is known."""
    if not hasattr(frame, "iloc"):
        return np.array(frame.to_series(place).to_list(), dtype=object)
    column = frame.iloc[:, place]
    values = column.to_numpy(dtype=object)
    values[column.isna().to_numpy()] = None
    return values


def _binarized(values: Any, threshold: float) -> Any:
    if hasattr(values, "tocsr"):
        if threshold < 0:
            raise DataError(f"binarize={threshold:g} would make the zeros that a sparse table leaves out ones")
        values = values.copy()
        values.data = np.where(np.isnan(values.data), np.nan, values.data > threshold)
        return values
    return np.where(np.isnan(values), np.nan, values > threshold)


def _names(argument: str, given: Sequence[str] | None, n: int, word: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f"{word} {i}" for i in range(n))
    if len(given) != n:
        raise DataError(f"{argument} must be {n} names, found {len(given)}")
    return tuple(shown_text(name) for name in given)


def shown_text(given: Any) -> str:
    r"""Text of a user for the page: in one line, without characters that act on what is beside it, and not too long.

    >>> print(shown_text("a\u202eb"), len(shown_text("a" * 10_000)))
    a\u202eb 200
    """
    text = printable(str(given))
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _pixels(image_shape: tuple[int, int] | None) -> list[str] | None:
    """Name pixels, row by row, as the public sets call them."""
    if image_shape is None:
        return None
    height, width = image_shape
    return [f"r{i}c{j}" for i in range(height) for j in range(width)]


def label_names(names: Sequence[Any]) -> list[str]:
    """Name columns of labels: the ones that have a number for a name "label 1", and none as another.

    >>> label_names([4, "party", 7, "party"])
    ['label 1', 'party', 'label 3', 'party (2)']
    """
    found: list[str] = []
    for place, given in enumerate(names, 1):
        name = own = f"label {place}" if isinstance(given, Integral) else shown_text(given)
        again = 2
        while own in found:
            own, again = f"{name} ({again})", again + 1
        found.append(own)
    return found


def _labels(labels: Any, n: int) -> dict[str, np.ndarray]:
    if labels is None:
        return {}
    if isinstance(labels, Mapping):
        named, columns = list(labels), list(labels.values())
    elif hasattr(labels, "columns"):
        named = list(labels.columns)
        columns = [_column(labels, place) for place in range(len(named))]
    elif np.ndim(labels) == 2 and np.shape(labels)[0] == n:
        columns = list(np.asarray(labels).T)
        named = list(range(len(columns)))
    else:
        named, columns = ["label"], [labels]
    arrays = dict(zip(label_names(named), map(_plain, columns)))
    for name, values in arrays.items():
        if values.shape != (n,):
            raise DataError(f"labels: {name} must be {n} values, one a row, found shape {values.shape}")
    return arrays


def _plain(values: Any) -> np.ndarray:
    """Make an array of labels; dates as words, and what a library marks as missing as None."""
    array = np.asarray(values)
    if array.dtype.kind == "M":
        words = np.datetime_as_string(array).astype(object)
        words[np.isnat(array)] = None
        return words
    if array.dtype == object:
        return np.array([None if _is_missing(cell) else cell for cell in array.ravel()], object).reshape(array.shape)
    return array


def _is_missing(cell: Any) -> bool:
    try:
        return cell is None or not bool(cell == cell)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def _names_among(labels: Mapping[str, np.ndarray]) -> list[str] | None:
    """Find names of rows, labels that no two rows share; a bare number is called by what it numbers.

    Measured numbers are no names, and words are better ones than whole numbers.

    >>> _names_among({"site": np.array(["1", "2"])}), _names_among({"": np.array(["Ann", "Bob"])})
    (['site 1', 'site 2'], ['Ann', 'Bob'])
    >>> _names_among({"wet": np.array([0.5, 0.25])})
    """
    named: list[list[str]] = []
    for name, values in labels.items():
        words = [str(value) for value in values.tolist()]
        if len(set(words)) < len(words) or _has_fractions(as_numbers(values)):
            continue
        if not all(word.isdecimal() for word in words):
            return words
        named.append([f"{name} {word}" if name else word for word in words])
    return next(iter(named), None)


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """Read labels as numbers, NaN where nothing is known; None where they are words, or nothing is known.

    >>> as_numbers(np.array(["3", "", "-1e1"], object)).tolist()
    [3.0, nan, -10.0]
    >>> as_numbers(np.array(["007", "3"])), as_numbers(np.array([True, False]))
    (None, None)
    """
    if values.dtype.kind in "iuf":
        numbers = values.astype(np.float64)
        return numbers if np.isfinite(numbers).any() and not np.isinf(numbers).any() else None
    words = ["" if value is None or value != value else str(value).strip() for value in values.tolist()]
    known = [word for word in words if word]
    if not known or not all(NUMBER.fullmatch(word) for word in known):
        return None
    numbers = np.array([float(word) if word else np.nan for word in words])
    return None if np.isinf(numbers).any() else numbers


def _has_fractions(numbers: np.ndarray | None) -> bool:
    return numbers is not None and bool((np.nan_to_num(numbers) % 1 != 0).any())


def shown_labels(
    labels: Mapping[str, np.ndarray], rows: np.ndarray
) -> tuple[tuple[Labels, ...], tuple[tuple[str, str], ...]]:
    """Give what is known of some rows of a table, and the names of labels that say nothing, with the reason.

    Numbers of more than ten different values, or with fractions, stay numbers; fewer whole ones are kinds in an order.
    """
    found, left_out = [], []
    for name, values in labels.items():
        levels, codes = label_groups(values)
        numbers, known = as_numbers(values), int((codes >= 0).sum())
        measured = numbers is not None and (len(levels) > FEW_NUMBERS or _has_fractions(numbers))
        if len(levels) < 2:
            why = "the same in every row" if known else "nothing is known"
        elif measured and numbers is not None and not _counts_rows(numbers):
            found.append(Labels(name, (), np.where(np.isnan(numbers[rows]), -1, 0), numbers[rows]))
            continue
        elif len(levels) == known:
            why = "no two rows share one: they name rows"
        elif len(levels) > min(MOST_LEVELS, known // 2):
            why = f"{len(levels):,} different ones in {known:,} rows: too many to be kinds"
        else:
            if in_order := numbers is not None and len(levels) > 2:  # texts of numbers are in the order of letters
                order = np.argsort([float(level) for level in levels])
                levels = [levels[number] for number in order]
                codes = np.where(codes < 0, -1, np.argsort(order)[codes])
            found.append(Labels(name, tuple(map(shown_text, levels)), codes[rows], ordered=in_order))
            continue
        left_out.append((name, why))
    return tuple(found), tuple(left_out)


def _counts_rows(numbers: np.ndarray) -> bool:
    """Say whether these are the numbers of rows: whole, one after the other, each once.

    >>> _counts_rows(np.array([3.0, 1.0, 2.0])), _counts_rows(np.array([3.0, 1.0, 4.0]))
    (True, False)
    """
    return bool((np.diff(np.sort(numbers)) == 1).all())  # NaN comes last, and makes it False
