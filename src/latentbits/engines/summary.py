"""What one pass over the rows says of a table: column moments, a random sample of rows, how long rows are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from latentbits.core import interrupts, processor, tree
from latentbits.core.batch import MISSING, Packed
from latentbits.core.errors import NOTHING_OBSERVED, DataError
from latentbits.core.model import Summary
from latentbits.core.programs import Program
from latentbits.engines.chunks import CPU_BUDGET, Chunk, is_complete, layout_for, rechunk
from latentbits.engines.devices import device_of, on
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Elsewhere, Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.threads import by_slices, in_order

__all__ = ["Moments", "Powers", "column_moments", "row_powers", "shapes_only", "summarise"]

SAMPLED_ROWS = 1024
SAMPLED_BYTES = 2**25  # a table of very many columns gives fewer rows
RANKED = 2**18  # rows of a sparse table whose ranks are looked at together
WRITTEN_OUT = 2.0**24  # rows up to which the sample of a table with counts is that of the table written out
FAR = 2.0**16  # (mean / standard deviation)^2 from which a variance is taken about a point of the column's own


class Moments(NamedTuple):
    """Of each column, over what was observed; mean 0.5 and variance 0.25 where nothing was."""

    observed: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class Powers(NamedTuple):
    """Sum of the squares of a row's observed entries: the mean over rows, and the largest."""

    mean: float
    largest: float


def sampled_rows(n_columns: int) -> int:
    """Number of rows in the sample of a summary: it depends on the number of columns alone."""
    return int(np.clip(SAMPLED_BYTES // (8 * n_columns), 16, SAMPLED_ROWS))


def summarise(engine: Engine) -> Summary:
    """Of all rows; the same answer on every engine, since the chunks are the same."""
    looked = _looked(engine)
    if looked.n_rows == 0:
        raise DataError("X has no rows: at least one is needed to learn from.")
    seen, mean, variance = looked.moments
    if not seen.any():
        raise DataError(NOTHING_OBSERVED)
    return _summary(looked.n_rows, mean, variance, seen, looked.sample)


def column_moments(engine: Engine) -> Moments:
    """Mean and variance of each column in full precision, whatever the precision of the rows will be."""
    return _looked(engine).moments


def row_powers(engine: Engine) -> Powers:
    """How long rows of real numbers are, in full precision."""
    return _looked(engine).powers


class _Looked(NamedTuple):
    """What one pass over the rows has found; powers are those of real numbers, 0 of bits."""

    n_rows: float
    moments: Moments
    powers: Powers
    sample: np.ndarray


_known: WeakKeyDictionary[Engine, _Looked] = WeakKeyDictionary()


def _looked(engine: Engine) -> _Looked:
    """Of an engine, whose rows and weights stay what they are: one pass, whoever asks first."""
    found = _known.get(engine)
    if found is None:
        found = _of_ones(engine) or _far_away(engine) or _on_device(engine) or _on_host(engine)
        _known[engine] = found
    return found


def _of_ones(engine: Engine) -> _Looked | None:
    """Of lists of ones: no more rows are written out than the sample has."""
    if not isinstance(engine, SparseEngine):
        return None
    n = float(engine.n_rows if engine.weights is None else engine.weights.sum())
    sums, sample = _Sums(engine.n_features), _sample_of(engine)
    sums.add_bits(_Counts(n, engine.column_sums))
    for first in range(0, engine.n_rows, RANKED):
        interrupts.check()
        sample.take(sample.draw(_Listed(engine, first, min(RANKED, engine.n_rows - first)), first))
    return _Looked(n, sums.moments(), _Lengths().powers(), sample.rows())


class _Listed:
    """Some rows of a sparse table, written out where they are asked for by number."""

    def __init__(self, engine: SparseEngine, first: int, length: int) -> None:
        self.engine, self.first, self.length = engine, first, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, numbers: np.ndarray) -> np.ndarray:
        return self.engine.written_out(self.first + numbers)


def _sample_of(engine: Engine) -> _Sample | _Drawn:
    d, weights = engine.n_features, engine.weights
    return _Sample(d) if weights is None else _Drawn(d, weights)


def _on_host(engine: Engine) -> _Looked:
    """By all cores, chunk by chunk; sums are added in the order of the chunks."""
    n, sums, lengths = 0.0, _Sums(engine.n_features), _Lengths()
    sample = _sample_of(engine)
    for part in _parts(engine, sample):
        interrupts.check()
        n += part.n_rows
        if isinstance(part.sums, _Counts):
            sums.add_bits(part.sums)
        else:
            sums.add(part.sums)
            lengths.add(part)
        sample.take(part.drawn)
    return _Looked(n, sums.moments(), lengths.powers(), sample.rows())


class _Part(NamedTuple):
    """What is found in one chunk: rows by their weights, sums, rows for the sample; and of real numbers, lengths."""

    n_rows: float
    sums: _Counts | _RealSums
    drawn: Any
    power: float = 0.0
    largest: float = 0.0


def _parts(engine: Engine, sample: _Sample | _Drawn) -> Iterator[_Part]:
    chunks = _in_full(engine)
    begin, about = [], None
    for chunk in chunks:
        begin.append(chunk)
        rows, weights = _rows_of(chunk)
        if rows.dtype == np.uint8:
            break
        sums = _real_sums(rows, weights)
        if sums.seen.any():
            about = _point_among(rows, sums)
            break

    def part(chunk: Chunk) -> _Part:
        rows, weights = _rows_of(chunk)
        n, drawn = len(rows) if weights is None else float(weights.sum()), sample.draw(rows, chunk.first_row)
        if rows.dtype == np.uint8:
            return _Part(n, _counts(rows, is_complete(rows), weights), drawn)
        return _Part(n, _real_sums(rows, weights, about), drawn, *_lengths(rows, weights))

    return in_order(part, chain(begin, chunks))


def _in_full(engine: Engine) -> Iterator[Chunk]:
    """Canonical chunks on the host, of a size that a core's cache can hold: the same on every engine and device."""
    layout = layout_for(engine.n_features, np.dtype(np.float64), CPU_BUDGET)
    # whether they have holes is looked for by the threads that sum them
    return rechunk(engine.blocks(), layout, engine.weights, complete=True)


def _far_away(engine: Engine) -> _Looked | None:
    """Where the rows are, if they are bits that count once: those are whole numbers, whose sums have no order."""
    parts = engine.on_blocks(_block_sums) if isinstance(engine, Elsewhere) and engine.weights is None else None
    if parts is None:
        return None
    n, sums, sample = 0.0, _Sums(engine.n_features), _Sample(engine.n_features)
    for n_rows, counts, drawn in parts:
        n += n_rows
        sums.add_bits(counts)
        sample.take(drawn)
    return _Looked(n, sums.moments(), Powers(0.0, 0.0), sample.rows())


def _block_sums(rows: np.ndarray, first_row: int) -> tuple[int, _Counts, tuple[np.ndarray, np.ndarray]]:
    """Of one block of bits: how many rows, the counts of the columns, and the rows of lowest rank."""
    return len(rows), _counts(rows, is_complete(rows), None), _Sample(rows.shape[1]).draw(rows, first_row)


def _on_device(engine: Engine) -> _Looked | None:
    """On the accelerator on which learning needs the rows, if they are in memory, and bits that count once.

    Counts are whole numbers, as on the host; of the rows here only those sampled are read.  Real numbers are summed
    here: learning has float32 there, and their sums need float64.
    """
    if not isinstance(engine, MemoryEngine) or not processor.accelerated():
        return None
    if engine.weights is not None or engine.table.dtype != np.uint8:
        return None
    layout = layout_for(engine.n_features, np.dtype(np.float64))
    sums, sample, counted = _Sums(engine.n_features), _Sample(engine.n_features), []
    for chunk in engine.chunks(layout):
        interrupts.check()
        with tree.rows_in(layout.dtype), on(device_of(chunk.number, layout)):
            counted.append((chunk.n_rows, column_counts(chunk.values)))
    for drawn in by_slices(lambda some: sample.draw(engine.table[some], some.start), engine.table):
        sample.take(drawn)
    for n_rows, (ones, holes) in counted:
        sums.add_bits(_Counts(n_rows - np.asarray(holes, np.int64), np.asarray(ones, np.int64)))
    return _Looked(float(len(engine.table)), sums.moments(), Powers(0.0, 0.0), sample.rows())


@partial(Program, of_chunk=True)
def column_counts(raw: Any) -> tuple[Array, Array]:
    """How often each column of a chunk of bits is 1, and is missing; padding is neither."""
    bits = raw.bits() if isinstance(raw, Packed) else raw
    return jnp.sum(bits == 1, 0, dtype=jnp.int32), jnp.sum(bits == MISSING, 0, dtype=jnp.int32)


class _Counts(NamedTuple):
    """Of the columns of a chunk of bits: how often each was observed, and was 1."""

    seen: np.ndarray | float
    ones: np.ndarray


def _counts(rows: np.ndarray, complete: bool, weights: np.ndarray | None) -> _Counts:
    if weights is not None:
        hole = None if complete else rows == MISSING
        seen = weights.sum() if hole is None else weights @ ~hole
        return _Counts(seen, weights @ (rows if hole is None else np.where(hole, 0, rows)))
    if complete:
        return _Counts(len(rows), _ones(rows))
    return _Counts(len(rows) - _ones((rows == MISSING).view(np.uint8)), _ones((rows == 1).view(np.uint8)))


class _RealSums(NamedTuple):
    """Of the columns of a chunk of real numbers: how often each was observed, sums, and sums about a point."""

    seen: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    about: np.ndarray | None
    total_about: np.ndarray | float = 0.0
    squares_about: np.ndarray | float = 0.0


def _real_sums(rows: np.ndarray, weights: np.ndarray | None, about: np.ndarray | None = None) -> _RealSums:
    hole = None if is_complete(rows) else np.isnan(rows)
    if hole is None:
        seen = np.full(rows.shape[1], len(rows) if weights is None else weights.sum(), np.float64)
    else:
        seen = (~hole).sum(0, dtype=np.float64) if weights is None else weights @ ~hole
    clean = rows if hole is None else np.where(hole, 0, rows)
    total = clean.sum(0, dtype=np.float64) if weights is None else weights @ clean
    sums = _RealSums(seen, total, _squares(clean, weights), about)
    if about is None:
        return sums
    away = _away(rows, hole, about)
    far = away.sum(0) if weights is None else weights @ away
    return sums._replace(total_about=far, squares_about=_squares(away, weights))


def _point_among(rows: np.ndarray, sums: _RealSums) -> np.ndarray | None:
    """A point in the middle of the first rows, if columns are far from 0 for what they vary; else None."""
    middle = np.where(sums.seen > 0, sums.total / np.where(sums.seen > 0, sums.seen, 1), 0)
    away = _away(rows, None if is_complete(rows) else np.isnan(rows), middle)
    return middle if (middle**2 > FAR * np.mean(away**2, axis=0)).any() else None


def _lengths(rows: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Sums of the squares of rows: all together, each as often as it counts, and the largest."""
    rows = rows if is_complete(rows) else np.nan_to_num(rows)
    powers = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if weights is None:
        return float(powers.sum()), float(powers.max(initial=0))
    return float(weights @ powers), float(powers[weights > 0].max(initial=0))


class _Lengths:
    """Adds up lengths of rows."""

    def __init__(self) -> None:
        self.n, self.total, self.largest = 0.0, 0.0, 0.0

    def add(self, part: _Part) -> None:
        self.n, self.total = self.n + part.n_rows, self.total + part.power
        self.largest = max(self.largest, part.largest)

    def powers(self) -> Powers:
        return Powers(self.total / self.n if self.n else 0.0, self.largest)


def _rows_of(chunk: Chunk) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows of a chunk without padding, and their weights."""
    weights = None if chunk.weights is None else np.asarray(chunk.weights)[: chunk.n_rows]
    return np.asarray(chunk.values)[: chunk.n_rows], weights


class _Sample:
    """Those rows whose numbers have the lowest ranks: a random sample that does not depend on how rows arrive."""

    def __init__(self, n_columns: int) -> None:
        self.size = sampled_rows(n_columns)
        self.kept, self.ranks = [np.zeros((0, n_columns))], [np.zeros(0, np.uint64)]
        self.waiting = 0  # rows that are kept though they may not be of the lowest
        self.highest = np.uint64(2**64 - 1)  # that a row may have to be looked at

    def draw(self, rows: np.ndarray | _Listed, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows that may be of the sample, and their ranks; by any thread, since the highest rank only goes down."""
        rank = _hash(np.arange(first_row, first_row + len(rows), dtype=np.uint64))
        low = np.flatnonzero(rank <= self.highest)
        if len(low) > self.size:
            low = low[np.argpartition(rank[low], self.size)[: self.size]]
        return _decoded(rows[low]), rank[low]

    def take(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        """Take what was drawn."""
        if not len(drawn[0]):
            return
        self.kept.append(drawn[0])
        self.ranks.append(drawn[1])
        self.waiting += len(drawn[0])
        if self.waiting >= self.size:
            self._choose()

    def _choose(self) -> None:
        """Keep the lowest; seldom, since this copies the sample."""
        kept, ranks = np.concatenate(self.kept), np.concatenate(self.ranks)
        lowest = np.argsort(ranks)[: self.size]
        self.kept, self.ranks, self.waiting = [kept[lowest]], [ranks[lowest]], 0
        if len(lowest) == self.size:
            self.highest = self.ranks[0][-1]

    def rows(self) -> np.ndarray:
        self._choose()
        (kept,) = self.kept
        # a fixed number of rows means one shape, hence one compilation of `init`, for tables of any length
        return np.resize(kept, (self.size, kept.shape[1]))


class _Drawn:
    """A random sample of the rows of a table in which each counts as often as its weight says.

    Where weights are counts it is the sample of the table written out, each row as often as it counts; else rows are
    drawn systematically, in proportion to their weights.
    """

    def __init__(self, n_columns: int, weights: np.ndarray) -> None:
        size, total, ends = sampled_rows(n_columns), float(weights.sum()), np.cumsum(weights)
        if total <= WRITTEN_OUT and np.array_equal(weights, np.rint(weights)):
            places = np.argsort(_hash(np.arange(int(total), dtype=np.uint64)))[:size]
            numbers = np.resize(np.searchsorted(ends, places, side="right"), size)
        else:
            numbers = np.searchsorted(ends, (np.arange(size) + 0.5) / size * total, side="right")
            numbers = np.minimum(numbers, np.flatnonzero(weights)[-1])[
                np.argsort(_hash(np.arange(size, dtype=np.uint64)))
            ]
        self.numbers, self.kept = numbers, np.zeros((size, n_columns))

    def draw(self, rows: np.ndarray | _Listed, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the sample, and their places in it."""
        here = (self.numbers >= first_row) & (self.numbers < first_row + len(rows))
        return _decoded(rows[self.numbers[here] - first_row]), here

    def take(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        """Take what was drawn."""
        self.kept[drawn[1]] = drawn[0]

    def rows(self) -> np.ndarray:
        return self.kept


def _decoded(rows: np.ndarray) -> np.ndarray:
    """Encoded rows as numbers, NaN where missing."""
    numbers = rows.astype(float)
    if rows.dtype == np.uint8:
        numbers[rows == MISSING] = np.nan
    return numbers


class _Sums:
    """Sums over rows that give the moments of columns.

    A mean of squares less a squared mean has no digits left where a column is far from 0 (years, times): such columns
    are summed about a point among their first rows, too.
    """

    def __init__(self, n_columns: int) -> None:
        self.seen, self.total, self.squares = np.zeros(n_columns), np.zeros(n_columns), np.zeros(n_columns)
        self.about: np.ndarray | None = None
        self.total_about, self.squares_about = np.zeros(n_columns), np.zeros(n_columns)

    def add(self, part: _RealSums) -> None:
        self.seen += part.seen
        self.total += part.total
        self.squares += part.squares
        self.about = part.about
        self.total_about += part.total_about
        self.squares_about += part.squares_about

    def add_bits(self, counts: _Counts) -> None:
        self.seen += counts.seen
        self.total += counts.ones
        self.squares += counts.ones

    def moments(self) -> Moments:
        n = np.where(self.seen > 0, self.seen, 1)
        mean = np.where(self.seen > 0, self.total / n, 0.5)
        variance = np.where(self.seen > 0, self.squares / n - mean**2, 0.25)
        if self.about is not None:
            near = self.squares_about / n - (self.total_about / n) ** 2
            far = (self.seen > 0) & (mean**2 > FAR * near)
            mean = np.where(far, self.about + self.total_about / n, mean)
            variance = np.where(far, near, variance)
        return Moments(self.seen, mean, np.maximum(variance, 0))


def _ones(bits: np.ndarray) -> np.ndarray:
    """Ones of each column, of 255 rows at a time in bytes, which is ten times as fast as in larger numbers."""
    whole = len(bits) // 255 * 255
    parts = bits[:whole].reshape(-1, 255, bits.shape[1]).sum(1, dtype=np.uint8)
    return parts.sum(0, dtype=np.int64) + bits[whole:].sum(0, dtype=np.uint8)


def _squares(rows: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sums of squares of each column."""
    if weights is None:
        return np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
    return np.einsum("i,ij,ij->j", weights, rows, rows, dtype=np.float64)


def _away(rows: np.ndarray, hole: np.ndarray | None, about: np.ndarray) -> np.ndarray:
    away = rows - about
    return away if hole is None else np.where(hole, 0, away)


def shapes_only(engine: Engine) -> Summary:
    """A summary that costs no pass: right in its shapes, NaN in all its values, so that no use goes unnoticed."""
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


def _hash(numbers: np.ndarray) -> np.ndarray:
    """A fixed random rank for each row number, whatever the batching (the finaliser of splitmix64)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
