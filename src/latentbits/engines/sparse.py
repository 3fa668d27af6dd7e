"""The engine for tables of bits that are nearly all 0: lists of the ones, which are put on their device once.

A model whose record says so is given these lists (`latentbits.core.batch.SparseBatch`), and a pass then costs what the
ones cost.  For all others rows are written out chunk by chunk, and the table never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from latentbits.core.batch import SparseRows
from latentbits.core.model import Model
from latentbits.core.tree import rows_in
from latentbits.engines.chunks import Chunk, Layout, layout_for, rechunk, until
from latentbits.engines.devices import device_of
from latentbits.engines.host import host_rows
from latentbits.engines.memory import on_device
from latentbits.engines.passes import Engine
from latentbits.engines.read_ahead import read_ahead

__all__ = ["SparseEngine", "layout_of"]

# Few sizes, few compilations: lists of ones are padded to a multiple of an 8th of the power of two below their length.
LENGTH_STEPS, FEWEST_ONES = 8, 256
BLOCK_BYTES = 2**24  # rows are written out in blocks of about this size


class SparseEngine:
    """Serves the chunks of a table of complete bits, of which the ones are listed row by row.

    Parameters
    ----------
    starts
        Where in `columns` the ones of each row begin, and where those of the last end: (n + 1,), as of a CSR matrix.
    columns
        The column of each one.
    n_features
        Number of columns.
    weights
        How often each row counts, float64; None for once.
    """

    keeps_rows = True

    def __init__(
        self, starts: np.ndarray, columns: np.ndarray, n_features: int, weights: np.ndarray | None = None
    ) -> None:
        self.starts, self.columns = starts.astype(np.int64, copy=False), columns.astype(np.int32, copy=False)
        self.n_features, self.weights = n_features, weights
        self.n_rows = len(starts) - 1
        self._layout: Layout | None = None
        self._chunks: list[Chunk] = []

    @property
    def width(self) -> int:
        """Ones of a row, on average, and at least 1."""
        return max(1, -(-len(self.columns) // max(1, self.n_rows)))

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """Yield the table's chunks, in order.

        Lists of ones where the layout asks for them: these are made at its first use and kept until another's.  Else
        rows that are written out again at every pass.
        """
        if not layout.sparse:
            yield from read_ahead(lambda: rechunk(self.blocks(), layout, self.weights))
            return
        if layout != self._layout:
            self._chunks = []  # the old ones go before the new ones come
            with rows_in(layout.dtype):
                self._chunks = [on_device(chunk, device_of(chunk.number, layout)) for chunk in self._cut(layout)]
            self._layout = layout
        yield from self._chunks

    def _cut(self, layout: Layout) -> Iterator[Chunk]:
        """Yield lists of the ones of the rows that `rechunk` would put into each chunk."""
        few = self.n_rows < layout.rows_of_few(self.width)
        size, block = layout.sizes(self.n_rows if self.n_rows < layout.rows_per_chunk else None)
        first = number = 0
        while first < self.n_rows:
            last = min(self.n_rows, first + until(first, size, block))
            ends = last == self.n_rows or (block is not None and last % block == 0)
            own = None
            if self.weights is not None:
                own = np.pad(self.weights[first:last].astype(layout.dtype), (0, size - (last - first)))
            yield Chunk(self._listed(first, last, size), number, first, last - first, True, ends, own, few)
            number, first = number + 1, last

    def _listed(self, first: int, last: int, size: int) -> SparseRows:
        rows, columns = self._ones(first, last)
        room = _room(len(columns)) - len(columns)
        return SparseRows(
            np.pad(columns, (0, room), constant_values=self.n_features),
            np.pad(rows, (0, room), constant_values=size - 1),
            size,
            self.n_features,
        )

    def _ones(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Return row, counted from the first of these, and column of each one of some rows."""
        starts = self.starts[first : last + 1]
        return np.repeat(np.arange(last - first, dtype=np.int32), np.diff(starts)), self.columns[starts[0] : starts[-1]]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield the rows written out, some at a time."""
        step = max(1, BLOCK_BYTES // max(1, self.n_features))
        for first in range(0, self.n_rows, step):
            yield self.written_out(np.arange(first, min(self.n_rows, first + step)))

    def written_out(self, numbers: np.ndarray) -> np.ndarray:
        """Return the encoded rows of these numbers."""
        some = self.rows(numbers)
        bits = np.zeros((some.n_rows, some.n_features), np.uint8)
        bits[some._ones(0, some.n_rows)] = 1
        return bits

    def rows(self, numbers: np.ndarray) -> SparseEngine:
        """Return the rows of these numbers, in their order, with their weights."""
        lengths = np.diff(self.starts)[numbers]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[numbers] - starts[:-1], lengths)
        weights = None if self.weights is None else self.weights[numbers]
        return SparseEngine(starts, self.columns[places], self.n_features, weights)

    @cached_property
    def column_sums(self) -> np.ndarray:
        """Ones of each column, each as often as its row counts."""
        counts = None if self.weights is None else np.repeat(self.weights, np.diff(self.starts))
        return np.bincount(self.columns, counts, minlength=self.n_features)


def layout_of(model: Model, engine: Engine, dtype: np.dtype, budget: int | None = None) -> Layout:
    """How the rows of an engine are cut for a model: as lists of ones where both can deal with them."""
    if model.sparse and isinstance(engine, SparseEngine):
        return layout_for(model.row_floats(engine.width), dtype, budget)._replace(sparse=True)
    layout = layout_for(model.row_floats(engine.n_features), dtype, budget, engine.n_features)
    return layout._replace(host_rows=host_rows(model, engine, layout.rows_per_chunk))


def _room(n: int) -> int:
    """Return the length of a padded list.

    >>> [_room(n) for n in (3, 257, 1000, 5000)]
    [256, 288, 1024, 5120]
    """
    step = max(1, (1 << max(n, FEWEST_ONES).bit_length() - 1) // LENGTH_STEPS)
    return max(FEWEST_ONES, -(-n // step) * step)
