"""What one pass over the rows says of a table: column moments, a random sample of rows, how long rows are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from latentbits.core import interrupts, tree
from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError
from latentbits.core.model import Summary
from latentbits.engines.chunks import Chunk, is_complete, layout_for, rechunk
from latentbits.engines.in_flight import in_order
from latentbits.engines.passes import Elsewhere, Engine
from latentbits.engines.sparse import SparseEngine

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
    """One pass over the rows, on the host; the same answer on every engine, since the chunks are the same."""
    n, sums, sample = _of_ones(engine) or _far_away(engine) or _looked_at(engine)
    if n == 0:
        raise DataError("X has no rows: at least one is needed to learn from.")
    seen, mean, variance = sums.moments()
    return _summary(n, mean, variance, seen, sample.rows())


def _of_ones(engine: Engine) -> tuple[float, _Sums, _Sample | _Drawn] | None:
    """Of lists of ones: no more rows are written out than the sample has."""
    if not isinstance(engine, SparseEngine):
        return None
    n = float(engine.n_rows if engine.weights is None else engine.weights.sum())
    sums, sample = _Sums(engine.n_features), _sample_of(engine)
    sums.add_bits(_Counts(n, engine.column_sums))
    for first in range(0, engine.n_rows, RANKED):
        interrupts.check()
        sample.add(_Listed(engine, first, min(RANKED, engine.n_rows - first)), first)
    return n, sums, sample


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


def _looked_at(engine: Engine) -> tuple[float, _Sums, _Sample | _Drawn]:
    n, sums, sample = 0.0, _Sums(engine.n_features), _sample_of(engine)
    for chunk, counts in _counted(engine):
        interrupts.check()
        rows, weights = _on_host(chunk)
        sums.add(rows, chunk.complete, weights, counts)
        sample.add(rows, chunk.first_row)
        n += len(rows) if weights is None else float(weights.sum())
    return n, sums, sample


def _far_away(engine: Engine) -> tuple[float, _Sums, _Sample] | None:
    """Where the rows are, if they are bits that count once: those are whole numbers, whose sums have no order."""
    parts = engine.on_blocks(_block_sums) if isinstance(engine, Elsewhere) and engine.weights is None else None
    if parts is None:
        return None
    n, sums, sample = 0.0, _Sums(engine.n_features), _Sample(engine.n_features)
    for n_rows, counts, drawn in parts:
        n += n_rows
        sums.add_bits(counts)
        sample.merge(*drawn)
    return n, sums, sample


def _block_sums(rows: np.ndarray, first_row: int) -> tuple[int, _Counts, tuple[np.ndarray, np.ndarray]]:
    """Of one block of bits: how many rows, the counts of the columns, and the rows of lowest rank."""
    sample = _Sample(rows.shape[1])
    sample.add(rows, first_row)
    return len(rows), _counts(rows, is_complete(rows), None), sample.lowest()


def column_moments(engine: Engine) -> Moments:
    """Mean and variance of each column in full precision, whatever the precision of the rows will be."""
    sums = _Sums(engine.n_features)
    for chunk, counts in _counted(engine):
        rows, weights = _on_host(chunk)
        sums.add(rows, chunk.complete, weights, counts)
    return sums.moments()


def row_powers(engine: Engine) -> Powers:
    """How long the rows are, in full precision."""
    n, total, largest = 0.0, 0.0, 0.0
    for chunk in _in_full(engine):
        rows, weights = _on_host(chunk)
        rows = np.nan_to_num(np.asarray(rows, np.float64))
        powers = np.einsum("ij,ij->i", rows, rows)
        weights = np.ones(len(rows)) if weights is None else weights
        n, total = n + float(weights.sum()), total + float(weights @ powers)
        largest = max(largest, float(powers[weights > 0].max(initial=0)))
    return Powers(total / n if n else 0.0, largest)


def _in_full(engine: Engine) -> Iterator[Chunk]:
    """Canonical chunks on the host: sums over them are the same on every engine."""
    return rechunk(engine.blocks(), layout_for(engine.n_features, np.dtype(np.float64)), engine.weights)


class _Counts(NamedTuple):
    """Of the columns of a chunk of bits: how often each was observed, and was 1."""

    seen: np.ndarray | float
    ones: np.ndarray


def _counted(engine: Engine) -> Iterator[tuple[Chunk, _Counts | None]]:
    """Chunks as of `_in_full`, bits with their counts, which all cores take: most of the work of a summary.

    Sums of real numbers depend on those before.
    """

    def counted(chunk: Chunk) -> tuple[Chunk, _Counts | None]:
        rows, weights = _on_host(chunk)
        return chunk, _counts(rows, chunk.complete, weights) if rows.dtype == np.uint8 else None

    return in_order(counted, _in_full(engine))


def _counts(rows: np.ndarray, complete: bool, weights: np.ndarray | None) -> _Counts:
    if weights is not None:
        hole = None if complete else rows == MISSING
        seen = weights.sum() if hole is None else weights @ ~hole
        return _Counts(seen, weights @ (rows if hole is None else np.where(hole, 0, rows)))
    if complete:
        return _Counts(len(rows), _ones(rows))
    return _Counts(len(rows) - _ones((rows == MISSING).view(np.uint8)), _ones((rows == 1).view(np.uint8)))


def _on_host(chunk: Chunk) -> tuple[np.ndarray, np.ndarray | None]:
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

    def add(self, rows: np.ndarray | _Listed, first_row: int) -> None:
        rank = _hash(np.arange(first_row, first_row + len(rows), dtype=np.uint64))
        low = np.flatnonzero(rank <= self.highest)
        if not len(low):
            return
        if len(low) > self.size:
            low = low[np.argpartition(rank[low], self.size)[: self.size]]
        self.merge(_decoded(rows[low]), rank[low])

    def merge(self, drawn: np.ndarray, rank: np.ndarray) -> None:
        """Take rows with their ranks."""
        self.kept.append(drawn)
        self.ranks.append(rank)
        self.waiting += len(drawn)
        if self.waiting >= self.size:
            self._choose()

    def lowest(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of lowest rank, and these."""
        self._choose()
        return self.kept[0], self.ranks[0]

    def _choose(self) -> None:
        """Keep the lowest; seldom, since this copies the sample."""
        kept, ranks = np.concatenate(self.kept), np.concatenate(self.ranks)
        lowest = np.argsort(ranks)[: self.size]
        self.kept, self.ranks, self.waiting = [kept[lowest]], [ranks[lowest]], 0
        if len(lowest) == self.size:
            self.highest = self.ranks[0][-1]

    def rows(self) -> np.ndarray:
        kept, _ = self.lowest()
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

    def add(self, rows: np.ndarray | _Listed, first_row: int) -> None:
        here = (self.numbers >= first_row) & (self.numbers < first_row + len(rows))
        self.kept[here] = _decoded(rows[self.numbers[here] - first_row])

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

    def add(
        self, rows: np.ndarray, complete: bool, weights: np.ndarray | None = None, counts: _Counts | None = None
    ) -> None:
        """Rows of real numbers, or of bits, which come with their counts."""
        if counts is not None:
            self.add_bits(counts)
            return
        first = not self.seen.any()
        hole = None if complete else np.isnan(rows)
        if weights is None:
            self.seen += len(rows) if hole is None else (~hole).sum(0)
        else:
            self.seen += weights.sum() if hole is None else weights @ ~hole
        clean = rows if hole is None else np.where(hole, 0, rows)
        self.total += clean.sum(0, dtype=np.float64) if weights is None else weights @ clean
        self.squares += _squares(clean, weights)
        if first:
            middle = np.where(self.seen > 0, self.total / np.where(self.seen > 0, self.seen, 1), 0)
            away = _away(rows, hole, middle)
            if (middle**2 > FAR * np.mean(away**2, axis=0)).any():
                self.about = middle
        if self.about is not None:
            away = _away(rows, hole, self.about)
            self.total_about += away.sum(0) if weights is None else weights @ away
            self.squares_about += _squares(away, weights)

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
