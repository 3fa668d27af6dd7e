"""Tables with columns of several kinds: encoding their values as the numbers of a model, and decoding them.

A column is binary, continuous or categorical.  Categories keep their labels; in the table of the model they are the
codes 0 ... K-1, in the order of the sorted labels.  Continuous columns are taken relative to their mean at the time of
the fit, in float64: rows may be computed in float32, and a column of years needs its digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError, ModelFileError, import_extra
from latentbits.core.printable import listed
from latentbits.engines.memory import MemoryEngine
from latentbits.estimators.tables.columns import COLUMN_MOST_CODES, Column, as_array, is_number, read
from latentbits.estimators.tables.encoding import encode_bits
from latentbits.estimators.tables.frames import library_of
from latentbits.estimators.tables.opening import in_memory
from latentbits.estimators.tables.refusals import at_column
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns, Params

__all__ = ["KINDS", "Encoding", "open_table"]

KINDS = ("binary", "continuous", "categorical")
FRAMES = ("pandas", "polars")
MOST_CATEGORIES = 100
MOST_NAMED = 20  # categories or columns that a message names

Label = str | bool | int | float


@dataclass(frozen=True)
class Encoding:
    """Encoding of the columns of a table as numbers, and back."""

    kinds: tuple[str, ...]  # the kind of each column
    categories: dict[int, list[Label]]  # labels of each categorical column, by position
    offset: np.ndarray  # subtracted from each column: the mean of a continuous one, else 0
    frame: str | None = None  # "pandas" or "polars" where the table was a frame

    @property
    def columns(self) -> Columns:
        """The kinds in the form of the model."""
        at = {kind: tuple(i for i, k in enumerate(self.kinds) if k == kind) for kind in KINDS}
        if len(at["binary"]) == len(self.kinds):
            return ALL_BITS
        sizes = tuple(len(self.categories[i]) for i in at["categorical"])
        return Columns(at["binary"], at["continuous"], at["categorical"], sizes)

    @property
    def blocks(self) -> list[slice]:
        """Slices of the outputs of each column: one output, or one for each category."""
        sizes = [len(self.categories[i]) if kind == "categorical" else 1 for i, kind in enumerate(self.kinds)]
        ends = np.cumsum(sizes).tolist()
        return [slice(end - size, end) for size, end in zip(sizes, ends)]

    def output_names(self, names: Sequence[str] | None) -> list[str]:
        """Name each output by its column, with ``=label`` for a category."""
        given = [f"x{i}" for i in range(len(self.kinds))] if names is None else [str(name) for name in names]
        out = []
        for i, name in enumerate(given):
            out.extend([f"{name}={label}" for label in self.categories[i]] if i in self.categories else [name])
        return out

    def outputs(self, params: Params) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights (outputs, q), biases (outputs,) in the order of the columns, and noise variances (n_columns,).

        Continuous columns are in the user's units; the first category of a categorical one is the reference, with 0.
        """
        columns, blocks = self.columns, self.blocks
        weights = np.zeros((blocks[-1].stop, params.weights.shape[1]))
        bias = np.zeros(len(weights))
        noise = np.full(len(self.kinds), np.nan)
        at = range(len(self.kinds)) if columns.binary is None else columns.binary
        starts = columns.starts(len(params.bias))
        for i, place in enumerate(at):
            weights[blocks[place]], bias[blocks[place]] = params.weights[i], params.bias[i]
        for i, place in enumerate(columns.continuous):
            line, scale = starts[0] + i, params.scale[i]
            weights[blocks[place]] = scale * params.weights[line]
            bias[blocks[place]] = self.offset[place] + params.centre[i] + scale * params.bias[line]
            noise[place] = scale**2 * np.exp(params.log_variance[i])
        for place, first, end in zip(columns.categorical, starts[1:], starts[2:]):
            others = slice(blocks[place].start + 1, blocks[place].stop)
            weights[others], bias[others] = params.weights[first:end], params.bias[first:end]
        return weights, bias, noise

    # ---------------------------------------------------------------- values to numbers

    def table(self, columns: Sequence[Column], names: Any, binarize: float | None) -> np.ndarray:
        """Encode columns as the numbers of the model, float64, NaN for missing."""
        out = np.empty((len(columns[0].values), len(columns)))
        for place, (kind, column) in enumerate(zip(self.kinds, columns)):
            if kind == "binary":
                out[:, place] = _bits(column, place, names, binarize)
            elif kind == "continuous":
                out[:, place] = _reals(column, place, names) - self.offset[place]
                _check_size(out[:, place], place, names)
            else:
                out[:, place] = self._codes(column, place, names)
        return out

    def _codes(self, column: Column, place: int, names: Any) -> np.ndarray:
        known = {label: code for code, label in enumerate(self.categories[place])}
        labels, which = _distinct(column, place, names)
        for i, label in enumerate(labels):
            if label not in known:
                row = int(np.flatnonzero(~column.missing)[np.argmax(which == i)])
                raise DataError(
                    f"row {row}, {at_column(place, names)} holds {label!r}, a category that was not there when the "
                    f"model was fitted; known are {listed([repr(one) for one in self.categories[place]], MOST_NAMED)}"
                )
        out = np.full(len(column.values), np.nan)
        out[~column.missing] = np.array([known[label] for label in labels], float)[which]
        return out

    # ---------------------------------------------------------------- numbers to values

    def values(self, place: int, numbers: np.ndarray) -> np.ndarray:
        """Decode one column from numbers of the model: labels, or numbers in the user's units."""
        if self.kinds[place] == "categorical":
            return _label_array(self.categories[place])[numbers.astype(int)]
        return numbers.astype(np.float64) + self.offset[place]

    def filled(self, X: Any, numbers: np.ndarray) -> Any:
        """Fill in the missing entries of X from numbers of the model; keep all others."""
        columns = read(X)
        guesses = [self.values(place, numbers[:, place]) for place in range(len(columns))]
        library = library_of(X)
        if library == "pandas":
            return self._filled_pandas(X, columns, guesses)
        if library == "polars":
            return self._filled_polars(X, columns, guesses)
        parts = [np.where(c.missing, guess, c.values) for c, guess in zip(columns, guesses)]
        return _side_by_side(parts, all(c.numeric for c in columns))

    def _filled_pandas(self, X: Any, columns: list[Column], guesses: list[np.ndarray]) -> Any:
        import pandas as pd

        out = X.copy()
        for place, (column, guess) in enumerate(zip(columns, guesses)):
            if not column.missing.any():
                continue
            if self.kinds[place] != "categorical":
                new = pd.Series(np.where(column.missing, guess, column.values).astype(float), index=X.index)
            else:
                given = X.iloc[:, place]
                values = given.astype(object).to_numpy(copy=True)
                values[column.missing] = guess[column.missing]
                new = pd.Series(values, index=X.index, dtype=object)
                declared = getattr(given.dtype, "categories", None)
                if declared is None or set(guess[column.missing].tolist()) <= set(declared.tolist()):
                    new = new.astype(given.dtype)
            out.isetitem(place, new)
        return out

    def _filled_polars(self, X: Any, columns: list[Column], guesses: list[np.ndarray]) -> Any:
        import polars as pl

        out = []
        for place, (series, column, guess) in enumerate(zip(X.get_columns(), columns, guesses)):
            if not column.missing.any():
                new = series
            elif self.kinds[place] != "categorical":
                new = pl.Series(series.name, np.where(column.missing, guess, column.values).astype(float))
            else:
                pairs = zip(column.missing, guess.tolist(), series.to_list())
                values = [label if hole else value for hole, label, value in pairs]
                declared = getattr(series.dtype, "categories", None) if isinstance(series.dtype, pl.Enum) else None
                fits = declared is None or set(values) <= set(declared.to_list())
                new = pl.Series(series.name, values, dtype=series.dtype if fits else None)
            out.append(new)
        return pl.DataFrame(out)

    def drawn(self, numbers: np.ndarray, names: Any) -> Any:
        """Decode drawn rows: a frame where the model was fitted to one, else an array, of objects for text."""
        parts = []
        for place, kind in enumerate(self.kinds):
            part = self.values(place, numbers[:, place])
            parts.append(part.astype(np.uint8) if kind == "binary" else part)
        if self.frame is None:
            return _side_by_side(parts, all(part.dtype.kind in "fiu" for part in parts))
        library: Any = import_extra(self.frame, extra="tables", purpose=f"rows as a frame of {self.frame}")
        keys = [str(i) for i in range(len(parts))] if names is None else [str(name) for name in names]
        frame = library.DataFrame({str(i): part for i, part in enumerate(parts)})
        frame.columns = keys
        return frame

    # ---------------------------------------------------------------- files

    def to_json(self) -> dict[str, Any]:
        """Make the entry of a model file."""
        return {
            "kinds": list(self.kinds),
            "categories": [[place, labels] for place, labels in sorted(self.categories.items())],
            "offset": self.offset.tolist(),
            "frame": self.frame,
        }

    @classmethod
    def from_json(cls, claim: Any, n_columns: int, column_types: Any, names: Any) -> Encoding:
        """Read what `to_json` has written; refuse all else."""
        if not isinstance(claim, dict) or set(claim) != {"kinds", "categories", "offset", "frame"}:
            raise ModelFileError("the file does not say what kinds of columns the model has")
        kinds, offset = tuple(claim["kinds"]), np.array(claim["offset"], float)
        if len(kinds) != n_columns or not set(kinds) <= set(KINDS):
            raise ModelFileError(f"kinds of columns must be {n_columns} of {', '.join(KINDS)}, found {kinds}")
        if isinstance(column_types, str):
            wanted = kinds  # inferred
        else:
            wanted = kinds_of(column_types, n_columns, names, [])
        if wanted != kinds:
            raise ModelFileError(f"kinds of columns {kinds} do not agree with column_types={column_types!r}")
        if offset.shape != (n_columns,) or not np.isfinite(offset).all():
            raise ModelFileError("the offsets of columns must be finite, one each")
        if claim["frame"] not in (None, *FRAMES):
            raise ModelFileError(f"unknown kind of frame {claim['frame']!r}")
        categories: dict[int, list[Label]] = {}
        for place, labels in claim["categories"]:
            plain = isinstance(labels, list) and all(_is_label(label) for label in labels)
            if not plain or not 1 <= len(labels) <= MOST_CATEGORIES or len(set(labels)) != len(labels):
                raise ModelFileError(f"the categories of column {place} are no list of different labels")
            categories[place] = labels
        if sorted(categories) != [i for i, kind in enumerate(kinds) if kind == "categorical"]:
            raise ModelFileError("categories must be given for the categorical columns, and for no others")
        return cls(kinds, categories, offset, claim["frame"])


def open_table(
    estimator: Any, X: Any, *, column_types: Any, encoding: Encoding | None, binarize: float | None
) -> tuple[Encoding, MemoryEngine]:
    """Open the rows of X as an engine; return their encoding, too.

    `estimator`: gets `n_features_in_` and `feature_names_in_` where there is no encoding yet; else X must agree with
    them.  `X`: a pandas or polars frame, an array, or a list of rows.  NaN, None, NA and null are missing.
    `column_types`: "infer", a list with the kind of each column, or a dict from names or positions to kinds, the rest
    binary.  `encoding`: encoding of the fit; None makes a new one.  `binarize`: values of binary columns above it are
    1, all others 0.
    """
    in_memory(X)
    if library_of(X) is None:
        X = as_array(X)
    if len(X.shape) != 2:
        raise DataError(f"X must be 2-dimensional, found {len(X.shape)} dimensions")
    for axis, what in enumerate(("row", "column")):
        if X.shape[axis] == 0:
            raise DataError(f"X has no {what}s: at least one is needed. Found array with shape {tuple(X.shape)}.")
    validate_data(estimator, X, reset=encoding is None, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    columns = read(X)
    if encoding is None:
        kinds = kinds_of(column_types, len(columns), names, [c.inferred for c in columns])
        if isinstance(column_types, str):
            _warn_of_codes(columns, names)
        encoding = _learn(kinds, columns, names, library_of(X))
    return encoding, MemoryEngine(encoding.table(columns, names, binarize))


def kinds_of(column_types: Any, n_columns: int, names: Any, inferred: Sequence[str]) -> tuple[str, ...]:
    """Find the kind of each column.

    >>> kinds_of({"age": "continuous"}, 2, ["member", "age"], [])
    ('binary', 'continuous')
    """
    if isinstance(column_types, str):
        return tuple(inferred)
    if isinstance(column_types, Mapping):
        kinds = ["binary"] * n_columns
        known = {} if names is None else {str(name): i for i, name in enumerate(names)}
        for key, kind in column_types.items():
            place = known.get(key) if isinstance(key, str) else key
            if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < n_columns:
                called = listed([repr(name) for name in known], MOST_NAMED)
                has = f"{n_columns} columns" + (f", {called}" if known else " without names")
                raise ValueError(f"column_types has {key!r}, which is no column of X: it has {has}")
            kinds[place] = kind
    else:
        kinds = list(column_types)
        if len(kinds) != n_columns:
            raise ValueError(f"column_types has {len(kinds)} entries, but X has {n_columns} columns")
    for place, kind in enumerate(kinds):
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(
                f"column_types must be made of {', '.join(map(repr, KINDS))}; it has {kind!r} for "
                f"{at_column(place, names)}"
            )
    return tuple(str(kind) for kind in kinds)


def _warn_of_codes(columns: Sequence[Column], names: Any) -> None:
    """Warn of columns taken as continuous that may hold codes of categories."""
    places = [place for place, column in enumerate(columns) if column.like_codes]
    if not places:
        return
    called = [place if names is None else str(names[place]) for place in places]
    warnings.warn(
        f"{listed([repr(one) for one in called], MOST_NAMED)}: columns of at most {COLUMN_MOST_CODES} different whole "
        "numbers, taken as continuous, so that 2 is as far from 1 as 1 is from 0. If they are codes of categories, say "
        f"so by column_types={{{called[0]!r}: 'categorical', ...}}, with the kind of every column that is not binary; "
        "with 'continuous' for them this warning ends",
        UserWarning,
        stacklevel=7,
    )


def _learn(kinds: tuple[str, ...], columns: Sequence[Column], names: Any, frame: str | None) -> Encoding:
    """Make the encoding of these columns: their categories and means."""
    categories: dict[int, list[Label]] = {}
    offset = np.zeros(len(kinds))
    for place, (kind, column) in enumerate(zip(kinds, columns)):
        if kind == "categorical":
            labels, _ = _distinct(column, place, names)
            if not labels or len(labels) > MOST_CATEGORIES:
                found = "has no value at all" if not labels else f"has {len(labels)} different values"
                raise DataError(
                    f"{at_column(place, names)} {found}: a categorical column has between 1 and {MOST_CATEGORIES} "
                    "categories. Leave it out" + (", or join rare ones." if labels else ".")
                )
            categories[place] = sorted(labels, key=lambda label: (isinstance(label, str), label))
        elif kind == "continuous":
            present = _reals(column, place, names)[~column.missing]
            if len(present):
                # the mean of equal numbers need not be that number
                offset[place] = present[0] if np.ptp(present) == 0 else present.mean()
    return Encoding(kinds, categories, offset, frame)


def _bits(column: Column, place: int, names: Any, binarize: float | None) -> np.ndarray:
    if column.numeric:
        bits = encode_bits(column.values[:, None], binarize=binarize, names=names, first_column=place)
        return np.where(bits[:, 0] == MISSING, np.nan, bits[:, 0])
    # some value is no number: encode_bits raises the error that names it
    values = np.where(column.missing, 0, column.values)[:, None]
    return encode_bits(values, binarize=None, names=names, first_column=place)[:, 0].astype(float)


def _reals(column: Column, place: int, names: Any) -> np.ndarray:
    if not column.numeric:
        wrong = [not missing and not is_number(v) for v, missing in zip(column.values, column.missing)]
        row = int(np.argmax(wrong))
        raise DataError(
            f"a continuous column must hold numbers, NaN for missing; row {row}, {at_column(place, names)} holds "
            f"{column.values[row]!r}. A 'categorical' column takes text."
        )
    _refuse_infinity(column, place, names)
    return column.values


def _refuse_infinity(column: Column, place: int, names: Any) -> None:
    if np.isinf(column.values).any():
        row = int(np.argmax(np.isinf(column.values)))
        raise DataError(f"X contains infinity: row {row}, {at_column(place, names)}")


def _check_size(values: np.ndarray, place: int, names: Any) -> None:
    largest = np.max(np.abs(values), initial=0, where=~np.isnan(values))
    if largest > 1e30 or 0 < largest < 1e-30:  # values less their mean; float32 ends at 1e38
        raise DataError(
            f"{at_column(place, names)} holds values up to {largest:.0e} from its mean, too "
            f"{'large' if largest > 1 else 'small'} to compute with: give it in other units"
        )


def _distinct(column: Column, place: int, names: Any) -> tuple[list[Label], np.ndarray]:
    """Find the labels of a column, and the number of the label of each value that is there."""
    present = column.values[~column.missing]
    if column.numeric:
        _refuse_infinity(column, place, names)
        found, which = np.unique(present, return_inverse=True)
        if column.boolean:
            return [bool(v) for v in found], which
        return [int(v) if v.is_integer() else v for v in found.tolist()], which
    for i, value in enumerate(present):
        if not _is_label(value):
            row = int(np.flatnonzero(~column.missing)[i])
            raise DataError(
                f"categories must be text, numbers or booleans; row {row}, {at_column(place, names)} holds {value!r}"
            )
    number: dict[Any, int] = {}
    which = np.fromiter((number.setdefault(v, len(number)) for v in present), int, len(present))
    return [_plain(v) for v in number], which


def _is_label(value: Any) -> bool:
    return isinstance(value, str | bool | np.bool_) or (is_number(value) and bool(np.isfinite(value)))


def _plain(value: Any) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _label_array(labels: list[Label]) -> np.ndarray:
    """Make an array of labels of one type, or of objects."""
    kinds = {type(label) for label in labels}
    if kinds == {bool} or kinds == {int} or kinds == {float}:
        return np.array(labels)
    if kinds == {int, float}:
        return np.array(labels, float)
    out = np.empty(len(labels), object)
    out[:] = labels
    return out


def _side_by_side(parts: list[np.ndarray], numbers: bool) -> np.ndarray:
    out = np.empty((len(parts[0]), len(parts)), np.float64 if numbers else object)
    for i, part in enumerate(parts):
        out[:, i] = part
    return out
