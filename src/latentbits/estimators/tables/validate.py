"""From whatever a user holds to an engine full of bits: arrays, frames, sparse matrices, memory maps, streams.

Bits are 0, 1 (or booleans), and NaN for a missing one.  Anything else is an error that names row, column and value,
unless `binarize` says where to cut.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from latentbits.core.batch import MISSING
from latentbits.core.errors import NOTHING_OBSERVED, DataError, import_extra
from latentbits.core.printable import listed
from latentbits.data.headers import first_doubled
from latentbits.data.row_files import RowFiles, are_paths, open_files
from latentbits.engines.dask import DaskEngine
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.read_ahead import read_ahead
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.stream import StreamEngine
from latentbits.engines.threads import by_slices
from latentbits.estimators.tables.frames import library_of

__all__ = [
    "DATE_TYPES",
    "at_column",
    "check_bits",
    "check_observed",
    "encode_bits",
    "encode_reals",
    "in_memory",
    "is_dask",
    "open_rows",
    "open_values",
    "with_nan",
]

Encode = Callable[..., np.ndarray]  # (block, names=, first_row=) -> what an engine holds

NAMED = 6  # columns that a message names
SLICE_BYTES = 2**24  # a memory map and a sparse matrix are read in slices of about this size once dense
DATES = ("date", "time", "duration", "period")  # how the names of the types begin, in pandas and polars
DATE_TYPES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
MOST_CODES = 3  # whole numbers other than 0 and 1 that may mark missing bits; a table with more of them holds numbers
YES = ("yes", "y", "true", "t", "present", "ja", "oui", "si", "on", "agree", "correct", "right", "positive")
SPARSE_IN_MEMORY = 2**28  # a sparse table whose dense bits take no more than this is made dense once and for all
# A sparse table of more cells than the first, of which no more than one in so many is 1, stays sparse for families that
# take lists of ones.  Measured for a mixture of 8 on a CPU: a one costs as much as some 20 cells of a dense row.
SPARSE_FROM, CELLS_FOR_A_ONE = 2**22, 32


def open_rows(
    estimator: Any, X: Any, *, reset: bool, binarize: float | None = None, real: bool = False, sparse: bool = False
) -> Engine:
    """An engine over the bits of X; sets or checks the number and the names of the columns.

    Parameters
    ----------
    estimator
        Gets `n_features_in_` and `feature_names_in_` where `reset` is true, and is checked against them otherwise.
    X
        Array-like, pandas or polars frame, SciPy sparse matrix, memory map, Dask array, path of a file of rows
        (parquet, zarr, npy; a pattern, or a list), or a function that gives an iterable of blocks each time it is
        called.
    binarize
        Where to cut: values above it are 1.  None takes nothing but bits.
    real
        Whether the rows are real numbers, and are taken as they are.
    sparse
        Whether lists of ones will do, where a sparse matrix has few of them and nothing is missing.
    """
    encode: Encode = encode_reals if real else partial(encode_bits, binarize=binarize)
    if are_paths(X):
        X = open_files(X)
    if isinstance(X, RowFiles):
        return _open_files(estimator, X, reset, encode, as_they_are=not real and binarize is None)
    if is_dask(X):
        return _open_dask(estimator, X, reset, encode, bits=not real)
    if callable(X) and not hasattr(X, "shape"):
        return _open_factory(estimator, X, reset, encode)
    if isinstance(X, Iterator):
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read only once, and learning reads the rows many times: pass the "
            "function that makes it, e.g. fit(lambda: batches())"
        )
    _refuse_wrapped(X)
    X = with_nan(X)
    on_disk = isinstance(X, np.memmap)  # not to be read whole, so its values are checked slice by slice
    complete = not on_disk and _is_complete(X)
    try:
        checked = check_array(
            X,
            accept_sparse="csr",
            accept_large_sparse=True,
            dtype=None if on_disk else "numeric",
            ensure_all_finite=False if on_disk or complete else "allow-nan",
            estimator=estimator,
            input_name="X",
        )
    except ValueError as error:
        if "infinity" not in str(error):
            raise
        raise _holds_infinity(X, error) from error
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    if on_disk:
        return _open_slices(X, names, encode)
    if sparse and not real and _is_sparse(checked):
        listed = _list_ones(checked, binarize, names)
        if listed is not None:
            return listed
    if _is_sparse(checked) and checked.shape[0] * checked.shape[1] > SPARSE_IN_MEMORY:
        return _open_slices(checked, names, encode)
    table = encode(checked, names=names)
    if reset:
        check_observed(table)
    return MemoryEngine(table, complete=complete or None)


def _is_complete(X: Any) -> bool:
    """Whether all numbers of an array are finite, looked for by all cores; of other tables it is not known yet."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf" or X.ndim != 2:
        return False
    if X.dtype.kind != "f":
        return True

    def finite(some: slice) -> bool:
        with np.errstate(all="ignore"):  # a sum that overflows leaves it to those who look closer
            return bool(np.isfinite(X[some].sum()))

    return all(by_slices(finite, X))


def _holds_infinity(X: Any, error: ValueError) -> ValueError:
    """The error with the place of what is infinite; where that is not easily found, as it is."""
    if _is_sparse(X):
        return error
    row, column = (int(i) for i in np.argwhere(np.isinf(np.asarray(X, np.float64)))[0])
    names = list(X.columns) if library_of(X) is not None else None
    value = np.asarray(X, np.float64)[row, column]
    return DataError(
        f"X contains infinity: row {row}, {at_column(column, names)} holds {value:g}. If that is no value, make it NaN."
    )


def _list_ones(table: Any, binarize: float | None, names: Any) -> SparseEngine | None:
    """The ones of a CSR matrix; None where lists of them are no gain, or do not tell all."""
    if table.shape[0] * table.shape[1] <= SPARSE_FROM or (binarize is not None and binarize < 0):
        return None
    table = _without_doubles(table)
    check_bits(table, binarize=binarize, names=names)
    one = table.data > (0 if binarize is None else binarize)
    n_ones = np.count_nonzero(one)
    missing = table.data.dtype.kind == "f" and np.isnan(table.data).any()
    if missing or n_ones * CELLS_FOR_A_ONE > table.shape[0] * table.shape[1]:
        return None
    if n_ones == len(one):
        return SparseEngine(table.indptr, table.indices, table.shape[1])
    starts = np.concatenate([[0], np.cumsum(one)])[table.indptr]
    return SparseEngine(starts, table.indices[one], table.shape[1])


def _without_doubles(table: Any) -> Any:
    """A CSR matrix in which no entry is stored twice: those add up."""
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    return table


def in_memory(X: Any) -> None:
    """Refuse what is not a table in memory, where only that will do."""
    _refuse_wrapped(X)
    _refuse_columns(X)
    what = "a sparse matrix" if _is_sparse(X) else "a Dask collection" if is_dask(X) else None
    if what is None and (isinstance(X, Iterator) or (callable(X) and not hasattr(X, "shape"))):
        what = "a stream of batches"
    if what is not None:
        raise TypeError(
            f"X is {what}, and a table with column_types must be in memory: pass a frame, an array or a list of rows"
        )


def open_values(estimator: Any, Z: Any, n_columns: int) -> Engine:
    """An engine over real numbers, such as points in the space of the latents."""
    Z = check_array(Z, dtype=np.float64, ensure_min_features=min(1, n_columns), estimator=estimator, input_name="Z")
    if Z.shape[1] != n_columns:
        raise DataError(
            f"Z has {Z.shape[1]} columns, but {type(estimator).__name__} has {n_columns} latents: pass rows as "
            "transform gives them"
        )
    return MemoryEngine(Z)


def encode_bits(
    block: Any, *, binarize: float | None, names: Any = None, first_row: int = 0, first_column: int = 0
) -> np.ndarray:
    """Bits as uint8, with 255 for NaN; an error names the first value that is no bit.

    Arrays of uint8 or bool that hold bits already are not copied.  `first_row` and `first_column` say where in the
    table the block is; `names` are those of the whole table.
    """
    place = (first_row, first_column)
    _refuse_dates(block, names, first_column)
    if _is_sparse(block):
        dense = np.zeros(block.shape, np.uint8)
        for start, part in _slices(block):
            dense[start : start + part.shape[0]] = _encode(part.toarray(), binarize, names, start, place)
        return dense
    if block.dtype in (np.dtype(bool), np.dtype(np.uint8)) and binarize is None:
        bits = block.view(np.uint8)
        if block.dtype == bool or all(by_slices(lambda some: bool(bits[some].max(initial=0) <= 1), bits)):
            return np.ascontiguousarray(bits)
    out = np.empty(block.shape, np.uint8)

    def fill(some: slice) -> None:
        out[some] = _encode(block[some], binarize, names, some.start, place)

    for _ in by_slices(fill, block):
        pass
    return out


def check_bits(table: Any, *, binarize: float | None, names: Any = None) -> None:
    """Complain of what is no bit as `encode_bits` does, but make nothing; of a sparse table read only what is stored.

    With `binarize` every number will do.
    """
    if binarize is not None:
        return
    if not _is_sparse(table):
        for start, part in _slices(table):
            _encode(np.asarray(part), None, names, start, (0, 0))
        return
    table = _without_doubles(table.tocsr())
    stored = table.data
    good = (stored == 0) | (stored == 1)
    if stored.dtype.kind == "f":
        good |= np.isnan(stored)
    if not good.all():
        place = int(np.argmin(good))
        row = int(np.searchsorted(table.indptr, place, side="right")) - 1
        values = np.append(stored, stored.dtype.type(0))
        raise _not_a_bit(stored[place], row, int(table.indices[place]), names, values)


def check_observed(table: Any) -> None:
    """Refuse a table in memory, encoded or of numbers, of which every cell is missing.

    It looks no further than to a cell that is not.

    >>> check_observed(np.array([[np.nan, 0.0], [np.nan, np.nan]]))
    """
    if _is_sparse(table):
        if table.nnz < np.prod(table.shape):
            return
        table = table.data[:, None]
    missing = np.isnan if table.dtype.kind == "f" else lambda bits: bits == MISSING
    if table.dtype.kind in "fu" and table.size and all(missing(part).all() for _, part in _slices(table)):
        raise DataError(NOTHING_OBSERVED)


def encode_reals(block: Any, *, names: Any = None, first_row: int = 0) -> np.ndarray:
    """Real numbers as float64, NaN where missing; made like `encode_bits`, so that either can open a table."""
    return np.ascontiguousarray(block.toarray() if _is_sparse(block) else block, np.float64)


def _encode(part: np.ndarray, binarize: float | None, names: Any, start: int, place: tuple[int, int]) -> np.ndarray:
    """One small dense block; `encode_bits` cuts, so that the temporaries here stay small."""
    hole = np.isnan(part) if part.dtype.kind == "f" else None
    if binarize is not None:
        bits = (part > binarize).astype(np.uint8)
    else:
        one = part == 1
        good = one | (part == 0)
        if hole is not None:
            good |= hole
        if not good.all():
            row, column = (int(i) for i in np.argwhere(~good)[0])
            odd = [place[1] + int(j) for j in np.flatnonzero(~good.all(axis=0))]
            alone = odd if 3 * len(odd) <= good.shape[1] else ()
            raise _not_a_bit(part[row, column], place[0] + start + row, place[1] + column, names, part, alone)
        bits = one.astype(np.uint8)
    if hole is not None:
        bits[hole] = MISSING
    return bits


def at_column(column: int, names: Any) -> str:
    """A column in the words of a message: its position, and its name where it has one."""
    return f"column {column}" + (f" ({names[column]!r})" if names is not None else "")


def _not_a_bit(
    value: Any, row: int, column: int, names: Any, values: np.ndarray, alone: Sequence[int] = ()
) -> DataError:
    """The error of a value that is no bit; `values` are those around it, which say what it may be.

    `alone` are the columns that hold such values, where they are few among others that hold bits.
    """
    value = value.item() if isinstance(value, np.generic) else value
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, str):
        return _holds_text({column: (row, value)}, names, (one for one in values.flat if isinstance(one, str)))
    if values.dtype.kind == "O":  # numbers among texts, which have no order
        values = np.array([one for one in values.flat if isinstance(one, Real)], float)
    advice = _what_it_may_be(value, np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values))
    if alone:
        called = [str(j if names is None else names[j]) for j in alone]
        options = " ".join(f"labels={name!r}" for name in called[:MOST_CODES])
        what = "this column tells" if len(alone) == 1 else "these columns tell"
        advice = (
            f"The other columns hold bits: if {what} what rows are (an id, a group, a weight), leave "
            f"{listed([repr(one) for one in called], NAMED)} out ({options} when it is read from a file). {advice}"
        )
    where = f"row {row}, {at_column(column, names)}"
    return DataError(f"X must hold bits: 0, 1 or NaN for missing; {where} holds {value!r}. {advice}")


def _holds_text(found: dict[int, tuple[int, str]], names: Sequence[Any] | None, words: Iterable[str] = ()) -> DataError:
    """The error of columns of text, by place: the first row that has it, and what it is; `words` are all texts there.

    >>> str(_holds_text({0: (0, "no")}, ["tea"], ["no", "yes"])).partition("holds 'no'. ")[2]
    "If these are two answers, turn them into bits: X.replace({'no': 0, 'yes': 1}); else leave columns of text out."
    """
    (place, (row, value)), *others = found.items()
    more = f" ({listed([str(j) if names is None else repr(names[j]) for j in found], NAMED)})" if others else ""
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


def _what_it_may_be(value: float, values: np.ndarray) -> str:
    """What to do about a value that is no bit, in a table of these values; to cut makes answers of missing ones.

    >>> _what_it_may_be(2, np.array([1, 2])).partition("; ")[2]
    'if bits are 1 and 2, a model made with binarize=1.5 takes them.'
    """
    others = values[(values != 0) & (values != 1)]
    if len(others) > MOST_CODES or np.any(others != np.round(others)):
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


def _slices(block: Any) -> Iterator[tuple[int, Any]]:
    """Row slices of bounded size, with the number of their first row."""
    rows = max(1, SLICE_BYTES // max(1, 8 * block.shape[1]))
    for start in range(0, block.shape[0], rows):
        yield start, block[start : start + rows]


def _open_slices(table: Any, names: Any, encode: Encode) -> StreamEngine:
    def blocks() -> Iterator[np.ndarray]:
        for start, part in _slices(table):
            _refuse_infinite(part, start)
            yield encode(part, names=names, first_row=start)

    return _numbered(blocks, table.shape, lambda numbers: table[numbers], names, encode)


def _open_files(
    estimator: Any, files: RowFiles, reset: bool, encode: Encode, *, as_they_are: bool = False
) -> StreamEngine:
    """Files of rows, read anew at every pass; packed bits need no check, and stay so where rows are `as_they_are`."""
    validate_data(estimator, _header_of(files), reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)

    def blocks() -> Iterator[np.ndarray]:
        for path, start, block in files.blocks():
            try:
                _refuse_infinite(block, start)
                encoded = encode(block, names=names, first_row=start)
            except DataError as error:
                raise DataError(f"{path}: {error}") from error
            del block
            yield encoded

    if not files.numbered:
        return StreamEngine(blocks, files.shape[1])
    engine = _numbered(blocks, files.shape, files.take, names, encode)
    if files.packed and as_they_are:
        return StreamEngine(files.packed_blocks, files.shape[1], engine.numbered, packed=True)
    return engine


def _header_of(files: RowFiles) -> Any:
    """A table of no rows with the columns of these files, of which scikit-learn takes number and names."""
    if files.names is None:
        return np.empty((0, files.shape[1]))
    pa = import_extra("pyarrow", extra="tables", purpose="reading parquet")
    return pa.table({name: pa.array([], pa.uint8()) for name in files.names})


def _numbered(
    blocks: Callable[[], Iterator[np.ndarray]],
    shape: tuple[int, int],
    ascending: Callable[[np.ndarray], Any],
    names: Any,
    encode: Encode,
) -> StreamEngine:
    """A stream of encoded blocks whose rows can also be asked for by number; `ascending` gives them as they are."""

    def take(numbers: np.ndarray) -> np.ndarray:
        place = np.argsort(numbers, kind="stable")
        rows = ascending(numbers[place])  # in the order of the file, which a disk reads faster
        try:
            _refuse_infinite(rows, 0)
            encoded = encode(rows, names=names)
        except DataError:
            for _ in blocks():  # which say in which row of the table it is
                pass
            raise
        shuffled = np.empty_like(encoded)
        shuffled[place] = encoded
        return shuffled

    return StreamEngine(blocks, shape[1], (shape[0], take))


def _refuse_infinite(part: Any, first_row: int) -> None:
    values = part.data if _is_sparse(part) else np.asarray(part)
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise DataError(f"X contains infinity, between rows {first_row} and {first_row + part.shape[0] - 1}")


def _open_factory(estimator: Any, factory: Callable[[], Iterable[Any]], reset: bool, encode: Encode) -> StreamEngine:
    """A function that gives an iterable of blocks, called once a pass.

    The first pass reads what the first call gave: a function that gives other rows later is then found out.
    """
    first, second = _iterate(factory), _iterate(factory)
    if first is second:
        raise TypeError(
            "X is a function that gives the same iterator each time it is called, which can be read only once: make "
            "the iterator inside the function"
        )
    del second
    begun = read_ahead(lambda: _with_place(first))  # a thread of its own runs all of a generator
    peek = next(begun, None)
    if peek is None:
        raise DataError("X gives no batches: at least one row is needed")
    if np.ndim(peek) != 2 and not _is_sparse(peek):
        raise DataError(f"a batch of X must be 2-dimensional, found {np.ndim(peek)} dimensions")
    _refuse_columns(peek)
    validate_data(estimator, peek, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    unread = [chain([peek], begun)]

    def checked() -> Iterator[np.ndarray]:
        first_row = 0
        for block in unread.pop() if unread else _with_place(_iterate(factory)):
            numbers = check_array(
                with_nan(block),
                accept_sparse="csr",
                dtype="numeric",
                ensure_all_finite="allow-nan",
                ensure_min_samples=0,
                input_name="a batch of X",
            )
            validate_data(estimator, block, reset=False, skip_check_array=True)  # number and names of its columns
            yield encode(numbers, names=names, first_row=first_row)
            first_row += numbers.shape[0]

    return StreamEngine(checked, estimator.n_features_in_)


def _with_place(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches; a note tells after which an error of their function came."""
    number = 0
    while True:
        try:
            batch = next(batches, None)
        except Exception as error:
            error.add_note(f"raised by the function that gives X, in the place of batch {number} (from 0)")
            raise
        if batch is None:
            return
        yield batch
        del batch
        number += 1


def _iterate(factory: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    blocks = factory()
    try:
        return iter(blocks)
    except TypeError:
        raise TypeError(
            f"X is a function, which must give an iterable of batches; it gave a {type(blocks).__name__}"
        ) from None


def _is_sparse(X: Any) -> bool:
    return bool(issparse(X))  # typed so that X stays Any: SciPy's own narrowing forgets shape and data


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask's."""
    return type(X).__module__.startswith("dask.")


def _open_dask(estimator: Any, X: Any, reset: bool, encode: Encode, bits: bool) -> DaskEngine:
    """A Dask array or frame, whose blocks stay where they are; scikit-learn would load the whole of it."""
    if hasattr(X, "columns"):
        like = X.dtypes.to_frame().T.iloc[:0]  # no row, the names of the columns
        _refuse_columns(like)
        lengths = [int(n) for n in X.map_partitions(len).compute()]
        blocks = X.to_delayed()
    else:
        if X.ndim != 2:
            raise DataError(f"X must be 2-dimensional, found a Dask array of {X.ndim} dimensions")
        if any(np.isnan(n) for sizes in X.chunks for n in sizes):
            X = X.compute_chunk_sizes()
        like, lengths = np.empty((0, X.shape[1])), [int(n) for n in X.chunks[0]]
        blocks = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    validate_data(estimator, like, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    return DaskEngine(blocks, lengths, estimator.n_features_in_, _DaskBlock(encode, names), bits)


@dataclass(frozen=True)
class _DaskBlock:
    """From a block of a Dask collection to encoded rows, in whatever process it is."""

    encode: Encode
    names: Any

    def __call__(self, block: Any, first_row: int) -> np.ndarray:
        try:
            numbers = check_array(
                with_nan(block),
                accept_sparse="csr",
                dtype="numeric",
                ensure_all_finite="allow-nan",
                ensure_min_samples=0,
                input_name="X",
            )
            return self.encode(numbers, names=self.names, first_row=first_row)
        except DataError:
            raise
        except ValueError as error:
            raise DataError(f"rows {first_row} to {first_row + len(block) - 1} of X: {error}") from error


def _refuse_wrapped(X: Any) -> None:
    """What is one step away from a table: say which step."""
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


def _refuse_columns(X: Any) -> None:
    """Refuse columns of dates, and a frame in which two columns have the same name."""
    library = library_of(X)
    if library is None:
        if isinstance(X, np.ndarray):
            _refuse_dates(X)
        return
    names = [str(name) for name in X.columns]
    doubled = first_doubled(names)
    if doubled is not None:
        raise DataError(f"X has two columns named {doubled!r}; names must differ")
    for place, kind in enumerate(X.dtypes):
        if str(kind).lower().startswith(DATES):
            raise _holds_dates(place, names, str(kind))
        if str(kind) == "object":
            _refuse_dates(X.iloc[:, place].to_numpy()[:, None], names, place)


def _refuse_dates(block: Any, names: Any = None, first_column: int = 0) -> None:
    """Refuse dates and times in an array: NumPy would take them as numbers of seconds, days or years."""
    kind = getattr(block, "dtype", None)
    if kind is None or kind.kind not in "mMO":
        return
    if kind.kind != "O":
        raise _holds_dates(first_column, names, str(kind))
    if any(issubclass(found, DATE_TYPES) for found in set(map(type, block.ravel()))):
        for at, value in np.ndenumerate(block):
            if isinstance(value, DATE_TYPES) and value == value:  # NaT, which is missing, is not equal to itself
                raise _holds_dates(first_column + at[-1], names, type(value).__name__)


def _holds_dates(column: int, names: Any, kind: str) -> DataError:
    return DataError(
        f"X must hold numbers; {at_column(column, names)} holds dates or times ({kind}). Leave it out, or turn it into "
        "numbers: days since a date, say"
    )


def with_nan(X: Any) -> Any:
    """X with NaN for whatever its kind uses for missing: None, a mask, null, NA; and text and dates refused."""
    if isinstance(X, list | tuple):
        X = _array_of(X)  # check_array would keep a list's None
    if np.ma.isMaskedArray(X):
        _refuse_dates(X)
        return np.ma.filled(X.astype(float), np.nan)
    _refuse_columns(X)
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
            raise _holds_text(text, list(X.columns))
        # a Boolean column with nulls would become an array of objects
        return X.with_columns(pl.col(pl.Boolean, pl.Null).cast(pl.Float32))
    if library == "pandas" and hasattr(X, "columns"):
        return _pandas_with_nan(X)
    return X


def _array_of(rows: Any) -> np.ndarray:
    """Lists of numbers as an array; rows of items, which differ in length, are told what they are."""
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
    """An array of texts that are all numbers as numbers, as in a frame; the first other text is an error."""
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
    raise _holds_text({column: (row, value)}, None, {text for _, text in texts if not _is_number(text)})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pandas_with_nan(X: Any) -> Any:
    import pandas as pd

    if not X.shape[1]:
        raise DataError(f"X has no columns: at least one is needed; found shape {X.shape}")
    changed, text, words = {}, {}, set()
    for place in range(X.shape[1]):
        column = X.iloc[:, place]
        if isinstance(column.dtype, pd.SparseDtype) and column.dtype.fill_value != 0:
            changed[place] = column = column.sparse.to_dense()  # a sparse matrix leaves out nothing but zeros
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
                words |= set(map(str, column.dropna().unique()[: MOST_CODES + 1]))
            changed[place] = numbers
    if text:
        raise _holds_text(text, list(X.columns), words)
    if changed:
        X = X.copy()
        for place, numbers in changed.items():
            X.isetitem(place, numbers)
    return X
