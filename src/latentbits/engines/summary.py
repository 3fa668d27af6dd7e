"""Summary of a table by one pass over its rows: column moments, a random sample of rows, and how long rows are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from latentbits.core import interrupts, processor, tree
from latentbits.core.errors import NOTHING_OBSERVED, DataError
from latentbits.core.model import Summary
from latentbits.engines.chunks import CPU_BYTES, Chunk, is_complete, layout_for, rechunk
from latentbits.engines.column_sums import (
    ColumnSums,
    Counts,
    LengthSums,
    Moments,
    Powers,
    RealSums,
    column_counts,
    count_bits,
    distant_point,
    row_lengths,
    sum_reals,
)
from latentbits.engines.devices import device_of, on
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Elsewhere, Engine
from latentbits.engines.row_sample import RowSample, WeightedRowSample, sampled_rows
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.threads import by_slices, in_order

__all__ = ["column_moments", "row_powers", "shapes_only", "summarise"]

RANKED_ROWS = 2**18  # rows of a sparse table that are ranked at a time


def summarise(engine: Engine) -> Summary:
    """Summarise all rows; the result is the same on every engine, since the chunks are the same."""
    looked = _looked(engine)
    if looked.n_rows == 0:
        raise DataError("X has no rows: at least one is needed to learn from.")
    seen, mean, variance = looked.moments
    if not seen.any():
        raise DataError(NOTHING_OBSERVED)
    return _summary(looked.n_rows, mean, variance, seen, looked.sample)


def column_moments(engine: Engine) -> Moments:
    """Compute mean and variance of each column in full precision, whatever the precision of the rows will be."""
    return _looked(engine).moments


def row_powers(engine: Engine) -> Powers:
    """Compute sums of squares of rows of real numbers, in full precision."""
    return _looked(engine).powers


class _Looked(NamedTuple):
    """Result of one pass over the rows; powers are 0 for bits."""

    n_rows: float
    moments: Moments
    powers: Powers
    sample: np.ndarray


_known: WeakKeyDictionary[Engine, _Looked] = WeakKeyDictionary()


def _looked(engine: Engine) -> _Looked:
    """Make the one pass, or return its cached result: engines do not change."""
    found = _known.get(engine)
    if found is None:
        found = _of_ones(engine) or _far_away(engine) or _on_device(engine) or _on_host(engine)
        _known[engine] = found
    return found


def _of_ones(engine: Engine) -> _Looked | None:
    """Summarise lists of ones; only the rows of the sample are written out."""
    if not isinstance(engine, SparseEngine):
        return None
    n = float(engine.n_rows if engine.weights is None else engine.weights.sum())
    sums, sample = ColumnSums(engine.n_features), _sample_of(engine)
    sums.add_bits(Counts(n, engine.column_sums))
    for first in range(0, engine.n_rows, RANKED_ROWS):
        interrupts.check()
        sample.take(sample.draw(_Listed(engine, first, min(RANKED_ROWS, engine.n_rows - first)), first))
    return _Looked(n, sums.moments(), LengthSums().powers(), sample.rows())


class _Listed:
    """Rows of a sparse table that are written out when read by number."""

    def __init__(self, engine: SparseEngine, first: int, length: int) -> None:
        self.engine, self.first, self.length = engine, first, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        return self.engine.written_out(self.first + numbers)


def _sample_of(engine: Engine) -> RowSample | WeightedRowSample:
    d, weights = engine.n_features, engine.weights
    return RowSample(d) if weights is None else WeightedRowSample(d, weights)


def _on_host(engine: Engine) -> _Looked:
    """Summarise on all cores, chunk by chunk; sums are added in the order of the chunks."""
    n, sums, lengths = 0.0, ColumnSums(engine.n_features), LengthSums()
    sample = _sample_of(engine)
    for part in _parts(engine, sample):
        interrupts.check()
        n += part.n_rows
        if isinstance(part.sums, Counts):
            sums.add_bits(part.sums)
        else:
            sums.add(part.sums)
            lengths.add(part.n_rows, part.power, part.largest)
        sample.take(part.drawn)
    return _Looked(n, sums.moments(), lengths.powers(), sample.rows())


class _Part(NamedTuple):
    """Sums and sampled rows of one chunk, with the squares of rows of real numbers."""

    n_rows: float
    sums: Counts | RealSums
    drawn: Any
    power: float = 0.0
    largest: float = 0.0


def _parts(engine: Engine, sample: RowSample | WeightedRowSample) -> Iterator[_Part]:
    chunks = _in_full(engine)
    begin, about = [], None
    for chunk in chunks:
        begin.append(chunk)
        rows, weights = _rows_of(chunk)
        if rows.dtype == np.uint8:
            break
        sums = sum_reals(rows, weights)
        if sums.seen.any():
            about = distant_point(rows, sums)
            break

    def part(chunk: Chunk) -> _Part:
        rows, weights = _rows_of(chunk)
        n, drawn = len(rows) if weights is None else float(weights.sum()), sample.draw(rows, chunk.first_row)
        if rows.dtype == np.uint8:
            return _Part(n, count_bits(rows, is_complete(rows), weights), drawn)
        return _Part(n, sum_reals(rows, weights, about), drawn, *row_lengths(rows, weights))

    return in_order(part, chain(begin, chunks))


def _in_full(engine: Engine) -> Iterator[Chunk]:
    """Cut canonical chunks on the host that fit the cache of a core, the same on every engine and device."""
    layout = layout_for(engine.n_features, np.dtype(np.float64), CPU_BYTES)
    # threads that sum a chunk look for its holes
    return rechunk(engine.blocks(), layout, engine.weights, complete=True)


def _far_away(engine: Engine) -> _Looked | None:
    """Summarise in other processes, if rows are unweighted bits: sums of whole numbers do not depend on order."""
    parts = engine.on_blocks(_block_sums) if isinstance(engine, Elsewhere) and engine.weights is None else None
    if parts is None:
        return None
    n, sums, sample = 0.0, ColumnSums(engine.n_features), RowSample(engine.n_features)
    for n_rows, counts, drawn in parts:
        n += n_rows
        sums.add_bits(counts)
        sample.take(drawn)
    return _Looked(n, sums.moments(), Powers(0.0, 0.0), sample.rows())


def _block_sums(rows: np.ndarray, first_row: int) -> tuple[int, Counts, tuple[np.ndarray, np.ndarray]]:
    """Count the rows and columns of one block of bits, and draw rows for the sample."""
    return len(rows), count_bits(rows, is_complete(rows), None), RowSample(rows.shape[1]).draw(rows, first_row)


def _on_device(engine: Engine) -> _Looked | None:
    """Summarise on an accelerator, where learning needs the rows anyway, if they are unweighted bits in memory.

    Counts are whole numbers as on the host, where only the rows of the sample are read.  Real numbers are summed on the
    host: their sums need float64, and learning takes float32 to the device.
    """
    if not isinstance(engine, MemoryEngine) or not processor.accelerated():
        return None
    if engine.weights is not None or engine.table.dtype != np.uint8:
        return None
    layout = layout_for(engine.n_features, np.dtype(np.float64))
    sums, sample, counted = ColumnSums(engine.n_features), RowSample(engine.n_features), []
    for chunk in engine.chunks(layout):
        interrupts.check()
        with tree.rows_in(layout.dtype), on(device_of(chunk.number, layout)):
            counted.append((chunk.n_rows, column_counts(chunk.values)))
    for drawn in by_slices(lambda some: sample.draw(engine.table[some], some.start), engine.table):
        sample.take(drawn)
    for n_rows, (ones, holes) in counted:
        sums.add_bits(Counts(n_rows - np.asarray(holes, np.int64), np.asarray(ones, np.int64)))
    return _Looked(float(len(engine.table)), sums.moments(), Powers(0.0, 0.0), sample.rows())


def _rows_of(chunk: Chunk) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows of a chunk without padding, and their weights."""
    weights = None if chunk.weights is None else np.asarray(chunk.weights)[: chunk.n_rows]
    return np.asarray(chunk.values)[: chunk.n_rows], weights


def shapes_only(engine: Engine) -> Summary:
    """Make a summary without a pass: its shapes are right, and its values NaN, so that any use is noticed."""
    nothing = np.full(engine.n_features, np.nan)
    return _summary(
        np.nan, nothing, nothing, nothing, np.full((sampled_rows(engine.n_features), engine.n_features), np.nan)
    )


def _summary(n: float, mean: np.ndarray, variance: np.ndarray, observed: np.ndarray, sample: np.ndarray) -> Summary:
    hole = np.isnan(sample)
    with tree.double():
        return Summary(
            n_rows=jax.device_put(np.float64(n)),
            mean=jax.device_put(mean),
            variance=jax.device_put(variance),
            observed=jax.device_put(observed),
            sample=jax.device_put(np.where(hole, 0, sample)),
            sample_observed=jax.device_put((~hole).astype(np.uint8)),
        )
