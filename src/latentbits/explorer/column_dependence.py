"""Whether columns of bits go together at all: a test that needs no model, for tables that models explain little."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import gamma

__all__ = ["Together", "go_together"]

MOST_ROWS, MOST_COLUMNS = 5000, 200  # looked at: rows as they come, columns that vary most
N_SHUFFLES = 200


class Together(NamedTuple):
    """How much columns go together."""

    # first, second, correlation: the two columns whose correlation is largest by size
    first: int
    second: int
    correlation: float
    n_pairs: int  # how many pairs of columns there are
    p: float  # the chance that the squared correlations of all pairs add up to as much in columns that are independent


def go_together(values: np.ndarray, seed: int = 0) -> Together | None:
    """Test all pairs at once; None where fewer than two columns vary.

    The values of every column are shuffled by themselves, which keeps its share of ones and nothing else.  A sum of
    squared correlations is nearly gamma distributed: its tail is that of a gamma of the mean and the variance of the
    shuffled tables.

    >>> go_together(np.tile([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]], (9, 1)).astype(float))[:2]
    (1, 2)
    """
    rows = values[:MOST_ROWS]
    seen = ~np.isnan(rows)
    share = np.nansum(rows, axis=0) / np.maximum(1, seen.sum(axis=0))
    spread = share * (1 - share)
    chosen = np.sort(np.argsort(-spread, kind="stable")[:MOST_COLUMNS])
    chosen = chosen[spread[chosen] > 0]
    if len(chosen) < 2:
        return None
    standard = _standard(rows[:, chosen])
    rng = np.random.default_rng(seed)
    by_chance = [_total(_correlations(rng.permuted(standard, axis=0))) for _ in range(N_SHUFFLES)]
    mean, variance = float(np.mean(by_chance)), float(np.var(by_chance, ddof=1))
    found = _correlations(standard)
    p = float(gamma.sf(_total(found), mean**2 / variance, scale=variance / mean)) if variance > 0 else 1.0
    i, j = np.unravel_index(np.argmax(np.abs(np.triu(found, 1))), found.shape)
    n_pairs = len(chosen) * (len(chosen) - 1) // 2
    return Together(int(chosen[i]), int(chosen[j]), float(found[i, j]), n_pairs, p)


def _standard(values: np.ndarray) -> np.ndarray:
    """Standardise columns to mean 0 and mean square 1, with 0 for what is missing."""
    return np.nan_to_num((values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)).astype(np.float32)


def _correlations(standard: np.ndarray) -> np.ndarray:
    """Correlate columns, missing cells at their means: nearer to 0 than by rows that have both."""
    return standard.T @ standard / np.float32(len(standard))


def _total(correlations: np.ndarray) -> float:
    return float(np.square(np.triu(correlations, 1), dtype=np.float64).sum())
