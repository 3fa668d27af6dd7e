"""Open whatever a user holds as an engine: arrays, frames, sparse matrices, memory maps, files, streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from latentbits.core.errors import DataError, import_extra
from latentbits.data.row_files import RowFiles, are_paths, open_files
from latentbits.engines.dask import DaskEngine
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.read_ahead import read_ahead
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.stream import StreamEngine
from latentbits.engines.threads import by_slices
from latentbits.estimators.tables.encoding import (
    check_bits,
    check_observed,
    encode_bits,
    encode_reals,
    row_slices,
    without_doubles,
)
from latentbits.estimators.tables.frames import is_dask, is_sparse
from latentbits.estimators.tables.missing import with_nan
from latentbits.estimators.tables.refusals import holds_infinity, refuse_columns, refuse_infinite, refuse_wrapped

__all__ = ["in_memory", "open_rows", "open_values"]

Encode = Callable[..., np.ndarray]  # (block, names=, first_row=) -> what an engine holds
DENSE_BYTES = 2**28  # a sparse table whose bits take no more than this is made dense when it is opened
# A sparse table with more cells than the first number, and at least CELLS_PER_ONE cells for each 1, stays sparse for
# families that take lists of ones.  Measured for a mixture of 8 on a CPU: a 1 in a list costs as much as 20 cells.
LISTED_FROM_CELLS, CELLS_PER_ONE = 2**22, 32


def open_rows(
    estimator: Any, X: Any, *, reset: bool, binarize: float | None = None, real: bool = False, sparse: bool = False
) -> Engine:
    """Open the bits of X as an engine; set or check the number and the names of the columns.

    `estimator`: gets `n_features_in_` and `feature_names_in_` where `reset` is true; otherwise X must agree with them.
    `X`: array-like, pandas or polars frame, SciPy sparse matrix, memory map, Dask array, path of a file of rows
    (parquet, zarr, npy; a pattern, or a list), or a function that gives an iterable of blocks each time it is called.
    `binarize`: values above it become 1 and all others 0.  None accepts bits only.  `real`: whether rows are real
    numbers, to be taken unchanged.  `sparse`: whether the engine may hold lists of ones, where a sparse matrix has few
    ones and nothing missing.
    """
    encode: Encode = encode_reals if real else partial(encode_bits, binarize=binarize)
    # what is not in memory has engines that read it block by block
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
            f"X is a {type(X).__name__}, which can be read only once, but learning reads the rows many times. Pass the "
            "function that makes it: fit(lambda: batches())."
        )
    # all else is checked as scikit-learn does
    refuse_wrapped(X)
    X = with_nan(X)
    on_disk = isinstance(X, np.memmap)  # too large to read at once: values are checked slice by slice
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
        raise holds_infinity(X, error) from error
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    # what is too large stays on the disk or sparse; the rest is encoded at once
    if on_disk:
        return _open_slices(X, names, encode)
    if sparse and not real and is_sparse(checked):
        listed = _list_ones(checked, binarize, names)
        if listed is not None:
            return listed
    if is_sparse(checked) and checked.shape[0] * checked.shape[1] > DENSE_BYTES:
        return _open_slices(checked, names, encode)
    table = encode(checked, names=names)
    if reset:
        check_observed(table)
    return MemoryEngine(table, complete=complete or None)


def open_values(estimator: Any, Z: Any, n_columns: int) -> Engine:
    """Open real numbers, such as points in the space of the latents, as an engine."""
    Z = check_array(Z, dtype=np.float64, ensure_min_features=min(1, n_columns), estimator=estimator, input_name="Z")
    if Z.shape[1] != n_columns:
        raise DataError(
            f"Z has {Z.shape[1]} columns, but {type(estimator).__name__} has {n_columns} latents. Pass rows as "
            "transform returns them."
        )
    return MemoryEngine(Z)


def in_memory(X: Any) -> None:
    """Refuse all but tables in memory."""
    refuse_wrapped(X)
    refuse_columns(X)
    what = "a sparse matrix" if is_sparse(X) else "a Dask collection" if is_dask(X) else None
    if what is None and (isinstance(X, Iterator) or (callable(X) and not hasattr(X, "shape"))):
        what = "a stream of batches"
    if what is not None:
        raise TypeError(
            f"X is {what}, but a table with column_types must be in memory. Pass a frame, an array or a list of rows."
        )


def _is_complete(X: Any) -> bool:
    """Check on all cores whether an array is finite throughout; False for tables for which this is not known yet."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf" or X.ndim != 2:
        return False
    if X.dtype.kind != "f":
        return True

    def finite(some: slice) -> bool:
        with np.errstate(all="ignore"):  # a sum may overflow: then the answer is False, and check_array looks closer
            return bool(np.isfinite(X[some].sum()))

    return all(by_slices(finite, X))


def _list_ones(table: Any, binarize: float | None, names: Any) -> SparseEngine | None:
    """List the ones of a CSR matrix; None where lists save nothing, or where cells are missing."""
    if table.shape[0] * table.shape[1] <= LISTED_FROM_CELLS or (binarize is not None and binarize < 0):
        return None
    table = without_doubles(table)
    check_bits(table, binarize=binarize, names=names)
    one = table.data > (0 if binarize is None else binarize)
    n_ones = np.count_nonzero(one)
    missing = table.data.dtype.kind == "f" and np.isnan(table.data).any()
    if missing or n_ones * CELLS_PER_ONE > table.shape[0] * table.shape[1]:
        return None
    if n_ones == len(one):
        return SparseEngine(table.indptr, table.indices, table.shape[1])
    starts = np.concatenate([[0], np.cumsum(one)])[table.indptr]
    return SparseEngine(starts, table.indices[one], table.shape[1])


def _open_slices(table: Any, names: Any, encode: Encode) -> StreamEngine:
    """Stream a memory map or a large sparse matrix in slices of rows."""

    def blocks() -> Iterator[np.ndarray]:
        for start, part in row_slices(table):
            refuse_infinite(part, start)
            yield encode(part, names=names, first_row=start)

    return _numbered(blocks, table.shape, lambda numbers: table[numbers], names, encode)


def _open_files(
    estimator: Any, files: RowFiles, reset: bool, encode: Encode, *, as_they_are: bool = False
) -> StreamEngine:
    """Stream files of rows, read again at every pass; packed bits stay packed where rows are `as_they_are`."""
    validate_data(estimator, _header_of(files), reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)

    def blocks() -> Iterator[np.ndarray]:
        for path, start, block in files.blocks():
            try:
                refuse_infinite(block, start)
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
    """Make a table without rows whose columns are those of the files: scikit-learn reads their number and names."""
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
    """Stream encoded blocks whose rows can also be read by number; `ascending` reads raw rows by ascending numbers."""

    def take(numbers: np.ndarray) -> np.ndarray:
        place = np.argsort(numbers, kind="stable")
        rows = ascending(numbers[place])  # a disk reads faster in the order of the file
        try:
            refuse_infinite(rows, 0)
            encoded = encode(rows, names=names)
        except DataError:
            for _ in blocks():  # these name the row of the table
                pass
            raise
        shuffled = np.empty_like(encoded)
        shuffled[place] = encoded
        return shuffled

    return StreamEngine(blocks, shape[1], (shape[0], take))


def _open_factory(estimator: Any, factory: Callable[[], Iterable[Any]], reset: bool, encode: Encode) -> StreamEngine:
    """Stream the blocks of a function that is called once a pass.

    The first pass reads the iterable of the first call, so that a function that gives other rows later is noticed.
    """
    first, second = _iterate(factory), _iterate(factory)
    if first is second:
        raise TypeError(
            "X is a function that gives the same iterator each time it is called, which can be read only once. Make "
            "the iterator inside the function."
        )
    del second
    begun = read_ahead(lambda: _with_place(first))  # one thread runs all of a generator
    peek = next(begun, None)
    if peek is None:
        raise DataError("X gives no batches, but learning needs at least one row.")
    if np.ndim(peek) != 2 and not is_sparse(peek):
        raise DataError(f"A batch of X must be 2-dimensional, found {np.ndim(peek)} dimensions.")
    refuse_columns(peek)
    validate_data(estimator, peek, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    unread = [chain([peek], begun)]

    def checked() -> Iterator[np.ndarray]:
        first_row = 0
        for block in unread.pop() if unread else _with_place(_iterate(factory)):
            numbers = _numbers(block, "a batch of X")
            validate_data(estimator, block, reset=False, skip_check_array=True)  # number and names of columns
            yield encode(numbers, names=names, first_row=first_row)
            first_row += numbers.shape[0]

    return StreamEngine(checked, estimator.n_features_in_)


def _with_place(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches, adding to an error of their function after which batch it came."""
    number = 0
    while True:
        try:
            batch = next(batches, None)
        except Exception as error:
            error.add_note(f"raised by the function X, in place of batch {number} (from 0)")
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
            f"X is a function, which must return an iterable of batches; it returned a {type(blocks).__name__}."
        ) from None


def _open_dask(estimator: Any, X: Any, reset: bool, encode: Encode, bits: bool) -> DaskEngine:
    """Open a Dask array or frame without moving its blocks; scikit-learn would load the whole of it."""
    if hasattr(X, "columns"):
        like = X.dtypes.to_frame().T.iloc[:0]  # no row, the names of the columns
        refuse_columns(like)
        lengths = [int(n) for n in X.map_partitions(len).compute()]
        blocks = X.to_delayed()
    else:
        if X.ndim != 2:
            raise DataError(f"X must be 2-dimensional, found a Dask array of {X.ndim} dimensions.")
        if any(np.isnan(n) for sizes in X.chunks for n in sizes):
            X = X.compute_chunk_sizes()
        like, lengths = np.empty((0, X.shape[1])), [int(n) for n in X.chunks[0]]
        blocks = X.rechunk({1: -1}).to_delayed().ravel().tolist()
    validate_data(estimator, like, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    return DaskEngine(blocks, lengths, estimator.n_features_in_, _DaskBlock(encode, names), bits)


@dataclass(frozen=True)
class _DaskBlock:
    """Encoder for blocks of a Dask collection, in the process that holds them."""

    encode: Encode
    names: Any

    def __call__(self, block: Any, first_row: int) -> np.ndarray:
        try:
            return self.encode(_numbers(block, "X"), names=self.names, first_row=first_row)
        except DataError:
            raise
        except ValueError as error:
            raise DataError(f"rows {first_row} to {first_row + len(block) - 1} of X: {error}") from error


def _numbers(block: Any, name: str) -> Any:
    """Check a block of rows, which may have none: an array or CSR matrix of numbers, NaN where missing."""
    return check_array(
        with_nan(block),
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite="allow-nan",
        ensure_min_samples=0,
        input_name=name,
    )
