"""Encode blocks of rows: bits as bytes, real numbers as float64, and missing entries of both.

Bits are 0, 1 (or booleans), and NaN for a missing one.  Anything else is an error that names row, column and value,
unless `binarize` says where to cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.core.errors import NOTHING_OBSERVED, DataError
from latentbits.engines.threads import by_slices
from latentbits.estimators.tables.frames import is_sparse
from latentbits.estimators.tables.refusals import not_a_bit, refuse_dates

__all__ = ["check_bits", "check_observed", "encode_bits", "encode_reals", "row_slices", "without_doubles"]

SLICE_BYTES = 2**24  # memory maps and sparse matrices are read in slices that take about this much once dense


def encode_bits(
    block: Any, *, binarize: float | None, names: Any = None, first_row: int = 0, first_column: int = 0
) -> np.ndarray:
    """Encode bits as uint8, NaN as 255; an error names the first value that is no bit.

    Arrays of uint8 or bool that hold bits already are not copied.  `first_row` and `first_column` say where in the
    table the block is; `names` are those of the whole table.
    """
    place = (first_row, first_column)
    refuse_dates(block, names, first_column)
    if is_sparse(block):
        dense = np.zeros(block.shape, np.uint8)
        for start, part in row_slices(block):
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
    """Raise the error of `encode_bits`, but encode nothing; only the stored entries of a sparse table are read.

    With `binarize` every number will do.
    """
    if binarize is not None:
        return
    if not is_sparse(table):
        for start, part in row_slices(table):
            _encode(np.asarray(part), None, names, start, (0, 0))
        return
    table = without_doubles(table.tocsr())
    stored = table.data
    good = (stored == 0) | (stored == 1)
    if stored.dtype.kind == "f":
        good |= np.isnan(stored)
    if not good.all():
        place = int(np.argmin(good))
        row = int(np.searchsorted(table.indptr, place, side="right")) - 1
        values = np.append(stored, stored.dtype.type(0))
        raise not_a_bit(stored[place], row, int(table.indices[place]), names, values)


def check_observed(table: Any) -> None:
    """Refuse a table in memory, encoded or of numbers, of which every cell is missing.

    It stops at the first cell that is there.

    >>> check_observed(np.array([[np.nan, 0.0], [np.nan, np.nan]]))
    """
    if is_sparse(table):
        if table.nnz < np.prod(table.shape):
            return
        table = table.data[:, None]
    missing = np.isnan if table.dtype.kind == "f" else lambda bits: bits == MISSING
    if table.dtype.kind in "fu" and table.size and all(missing(part).all() for _, part in row_slices(table)):
        raise DataError(NOTHING_OBSERVED)


def encode_reals(block: Any, *, names: Any = None, first_row: int = 0) -> np.ndarray:
    """Encode real numbers as float64, NaN where missing; arguments are those of `encode_bits`."""
    return np.ascontiguousarray(block.toarray() if is_sparse(block) else block, np.float64)


def _encode(part: np.ndarray, binarize: float | None, names: Any, start: int, place: tuple[int, int]) -> np.ndarray:
    """Encode one small dense block; `encode_bits` cuts blocks so that the temporaries here stay small."""
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
            raise not_a_bit(part[row, column], place[0] + start + row, place[1] + column, names, part, alone)
        bits = one.astype(np.uint8)
    if hole is not None:
        bits[hole] = MISSING
    return bits


def row_slices(block: Any) -> Iterator[tuple[int, Any]]:
    """Yield slices of rows, `SLICE_BYTES` each, with the number of their first row."""
    rows = max(1, SLICE_BYTES // max(1, 8 * block.shape[1]))
    for start in range(0, block.shape[0], rows):
        yield start, block[start : start + rows]


def without_doubles(table: Any) -> Any:
    """Add up the entries of a CSR matrix that are stored twice."""
    if not table.has_canonical_format:
        table = table.copy()
        table.sum_duplicates()
    return table
