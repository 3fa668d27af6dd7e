"""A random sample of rows that does not depend on how rows arrive."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from latentbits.core.batch import MISSING

__all__ = ["SAMPLED_ROWS", "RowSample", "Rows", "WeightedRowSample", "sampled_rows"]

SAMPLED_ROWS = 1024
SAMPLED_BYTES = 2**25  # fewer rows are sampled where these would take more
LISTED_ROWS = 2.0**24  # up to this total count, a table with counts has the sample of the table written out


def sampled_rows(n_columns: int) -> int:
    """Return the number of rows in a sample, which depends on the number of columns alone."""
    return int(np.clip(SAMPLED_BYTES // (8 * n_columns), 16, SAMPLED_ROWS))


class Rows(Protocol):
    """Rows that can be read by number."""

    def __len__(self) -> int: ...

    def __getitem__(self, numbers: np.ndarray, /) -> np.ndarray: ...


class RowSample:
    """Sample of the rows whose numbers have the lowest ranks, however rows arrive."""

    def __init__(self, n_columns: int) -> None:
        self.size = sampled_rows(n_columns)
        self.kept, self.ranks = [np.zeros((0, n_columns))], [np.zeros(0, np.uint64)]
        self.waiting = 0  # kept rows that may not be among the lowest
        self.highest = np.uint64(2**64 - 1)  # rows of higher rank are not in the sample

    def draw(self, rows: Rows, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Select rows that may be in the sample, and their ranks; any thread may, since `highest` only falls."""
        rank = _hash(np.arange(first_row, first_row + len(rows), dtype=np.uint64))
        low = np.flatnonzero(rank <= self.highest)
        if len(low) > self.size:
            low = low[np.argpartition(rank[low], self.size)[: self.size]]
        return _decoded(rows[low]), rank[low]

    def take(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        """Add rows that were drawn."""
        if not len(drawn[0]):
            return
        self.kept.append(drawn[0])
        self.ranks.append(drawn[1])
        self.waiting += len(drawn[0])
        if self.waiting >= self.size:
            self._choose()

    def _choose(self) -> None:
        """Keep the rows of lowest rank; seldom, since this copies the sample."""
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


class WeightedRowSample:
    """Sample of the rows of a table with weights.

    Where weights are counts it is the sample of the table written out, in which each row is repeated by its count.
    Else rows are drawn systematically, in proportion to their weights.
    """

    def __init__(self, n_columns: int, weights: np.ndarray) -> None:
        size, total, ends = sampled_rows(n_columns), float(weights.sum()), np.cumsum(weights)
        if total <= LISTED_ROWS and np.array_equal(weights, np.rint(weights)):
            places = np.argsort(_hash(np.arange(int(total), dtype=np.uint64)))[:size]
            numbers = np.resize(np.searchsorted(ends, places, side="right"), size)
        else:
            numbers = np.searchsorted(ends, (np.arange(size) + 0.5) / size * total, side="right")
            numbers = np.minimum(numbers, np.flatnonzero(weights)[-1])[
                np.argsort(_hash(np.arange(size, dtype=np.uint64)))
            ]
        self.numbers, self.kept = numbers, np.zeros((size, n_columns))

    def draw(self, rows: Rows, first_row: int) -> tuple[np.ndarray, np.ndarray]:
        """Select the rows that are in the sample, and their places in it."""
        here = (self.numbers >= first_row) & (self.numbers < first_row + len(rows))
        return _decoded(rows[self.numbers[here] - first_row]), here

    def take(self, drawn: tuple[np.ndarray, np.ndarray]) -> None:
        """Add rows that were drawn."""
        self.kept[drawn[1]] = drawn[0]

    def rows(self) -> np.ndarray:
        return self.kept


def _decoded(rows: np.ndarray) -> np.ndarray:
    """Decode rows to numbers, NaN where missing."""
    numbers = rows.astype(float)
    if rows.dtype == np.uint8:
        numbers[rows == MISSING] = np.nan
    return numbers


def _hash(numbers: np.ndarray) -> np.ndarray:
    """Give each row number a fixed random rank (the finaliser of splitmix64)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
