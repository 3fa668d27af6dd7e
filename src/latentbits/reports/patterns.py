"""A table as its distinct rows, each with how often it was met: all that many statistics need of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError

__all__ = ["Patterns", "blocks_of", "distinct"]


class Patterns(NamedTuple):
    """Distinct rows with at least one answer."""

    bits: np.ndarray  # (patterns, columns): 0, 1, or 255 where nothing was observed
    # counts, squares: (patterns,): sums of the weights of the rows that are alike, and of the squares of these
    counts: np.ndarray
    squares: np.ndarray

    @property
    def n_rows(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.counts.sum())

    @property
    def has_holes(self) -> bool:
        """Whether any bit is missing."""
        return bool((self.bits == MISSING).any())


def distinct(blocks: Iterable[tuple[np.ndarray, np.ndarray | None]]) -> Patterns:
    """Find the distinct rows of blocks of encoded bits, each with the weights of its rows (None: each counts once).

    >>> distinct([(np.array([[0, 1], [1, 1], [0, 1]], np.uint8), None)]).counts.astype(int).tolist()
    [2, 1]
    """
    found: Patterns | None = None
    for bits, weights in blocks:
        weights = np.ones(len(bits)) if weights is None else weights
        some = (bits != MISSING).any(1) & (weights > 0)
        part = Patterns(bits[some], weights[some], weights[some] ** 2)
        found = _merged(part if found is None else Patterns(*(np.concatenate(both) for both in zip(found, part))))
        if found.bits.nbytes > 2**31:
            raise ValueError(
                f"more than {len(found.bits)} distinct rows of {found.bits.shape[1]} columns, which are too many to "
                "hold in memory: take a sample of the rows, or fewer columns"
            )
    if found is None or not len(found.bits):
        raise DataError("X has no row with an answer: at least one is needed")
    return found


def _merged(rows: Patterns) -> Patterns:
    _, first, place = np.unique(_codes(rows.bits), return_index=True, return_inverse=True)
    size = len(first)
    sums = (np.bincount(place, values, minlength=size) for values in (rows.counts, rows.squares))
    return Patterns(rows.bits[first], *sums)


def _codes(bits: np.ndarray) -> np.ndarray:
    """Make a number or a string of bytes for each row, the same for rows that are alike."""
    parts = [np.packbits(bits == 1, axis=1)]
    seen = bits != MISSING
    if not seen.all():
        parts.append(np.packbits(seen, axis=1))
    code = np.concatenate(parts, 1)
    width = code.shape[1]
    if width > 8:
        return np.ascontiguousarray(code).view(f"V{width}")[:, 0]
    whole = np.zeros((len(code), 8), np.uint8)
    whole[:, :width] = code
    return whole.view(">u8")[:, 0]


def blocks_of(n_rows: int, floats_per_row: int, most: int = 2**22) -> Iterator[slice]:
    """Cut rows into slices that hold at most `most` numbers at a time."""
    step = max(most // max(floats_per_row, 1), 1)
    for first in range(0, n_rows, step):
        yield slice(first, min(first + step, n_rows))
