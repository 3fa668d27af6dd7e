"""Rows in no order: what learning from blocks of rows needs of a table that may be sorted.

Batches and held-out rows are cut by row number, so a table sorted by kind would make each of one kind.  A table whose
rows can be asked for by number is shuffled, in memory or on the disk, and always in the same order: both engines then
learn from the same batches.  A stream is taken as it comes; if its rows are in an order, that is said.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.stream import StreamEngine

__all__ = ["in_random_order", "is_sorted", "random_order"]

LARGE_CELLS = 2**28  # larger tables are read in runs of rows: single ones are slow to find on a disk
RUN_CELLS = 2**16  # length of a run
WINDOW_RUNS = 256  # shuffled together, so that a batch has rows of as many places
COMPARED_ROWS = 256  # rows of each block that are compared to find an order
ORDERED_STANDARD_ERRORS = 6.0  # standard errors by which blocks must differ more than chance lets them
ORDERED_RATIO = 1.5  # and how many times as much, on average over the columns


def in_random_order(engine: Engine) -> Engine:
    """Return the same rows in an order that depends on the shape of the table alone; of a mere stream as they come."""
    if isinstance(engine, MemoryEngine):
        order = np.concatenate(list(random_order(*engine.table.shape)))
        return MemoryEngine(engine.table[order], None if engine.weights is None else engine.weights[order])
    if isinstance(engine, SparseEngine):
        return engine.rows(np.concatenate(list(random_order(engine.n_rows, engine.n_features))))
    if isinstance(engine, StreamEngine) and engine.numbered is not None:
        n_rows, take = engine.numbered
        n_columns = engine.n_features
        weights = engine.weights
        if weights is not None:
            weights = weights[np.concatenate(list(random_order(n_rows, n_columns)))]
        shuffled = lambda: (take(numbers) for numbers in random_order(n_rows, n_columns))  # noqa: E731
        return StreamEngine(shuffled, n_columns, weights=weights)
    if is_sorted(engine):
        warnings.warn(
            "the rows of this stream are in an order: those that come together are more alike than others.  Learning "
            "takes them in batches as they come, and may miss what is rare at a time; pass an array or a memory map, "
            "whose rows are shuffled, or give them in random order",
            stacklevel=4,
        )
    return engine


def random_order(n_rows: int, n_columns: int) -> Iterator[np.ndarray]:
    """Yield all row numbers, some at a time.

    Of a small table any order is as likely as any other.  Of a large one runs of neighbouring rows are drawn, and the
    rows of a window of them are shuffled.

    >>> sorted(number for some in random_order(5, 3) for number in some.tolist())
    [0, 1, 2, 3, 4]
    """
    rng = np.random.default_rng(0)
    length = max(1, RUN_CELLS // n_columns)
    if n_rows * n_columns <= LARGE_CELLS:
        order = rng.permutation(n_rows)
        for start in range(0, n_rows, WINDOW_RUNS * length):
            yield order[start : start + WINDOW_RUNS * length]
        return
    runs = rng.permutation(-(-n_rows // length))
    for start in range(0, len(runs), WINDOW_RUNS):
        first = runs[start : start + WINDOW_RUNS] * length
        numbers = (first[:, None] + np.arange(length)).reshape(-1)
        yield rng.permutation(numbers[numbers < n_rows])


def is_sorted(engine: Engine) -> bool:
    """Whether blocks of neighbouring rows differ by more than chance lets them: one pass.

    Between blocks of b rows the mean of a column has the variance v / b, where v is that of a cell, if rows are in no
    order.  The ratio of what is found to that, averaged over the columns, is 1 then, and its standard error is no more
    than that of one column, sqrt(2 / (number of blocks - 1)), however the columns are correlated.
    """
    sums, squares, seen, centre = [], [], [], None
    for chunk in rechunk(engine.blocks(), Layout(COMPARED_ROWS, np.dtype(np.float64))):
        rows = np.asarray(chunk.values)[: chunk.n_rows]
        hole = (rows == MISSING) if rows.dtype == np.uint8 else np.isnan(rows)
        clean = np.where(hole, 0, rows).astype(np.float64)
        if centre is None:  # near the means, so that squares do not cancel
            centre = clean.sum(0) / np.maximum((~hole).sum(0), 1)
        clean = np.where(hole, 0, clean - centre)
        sums.append(clean.sum(0))
        squares.append(np.square(clean).sum(0))
        seen.append((~hole).sum(0))
    n_blocks = len(sums)
    if n_blocks < 2:
        return False
    total, counts = np.array(sums), np.maximum(np.array(seen), 1)
    mean = total.sum(0) / counts.sum(0)
    variance = np.sum(squares, 0) / counts.sum(0) - np.square(mean)
    varied = variance > 0
    if not varied.any():
        return False
    between = np.sum(counts * np.square(total / counts - mean), 0)[varied] / (n_blocks - 1)
    ratio = float(np.mean(between / variance[varied]))
    return ratio > max(ORDERED_RATIO, 1 + ORDERED_STANDARD_ERRORS * np.sqrt(2 / (n_blocks - 1)))
