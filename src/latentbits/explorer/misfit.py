"""Rows and columns that the model of the map fits worst."""

from __future__ import annotations

import numpy as np

from latentbits.explorer.content import Map, Misfit

__all__ = ["misfit_of"]

LOG_2 = float(np.log(2))
MOST_ROWS = 100  # that are named
MOST_CELLS = 2**25  # looked at, in a second or two; of more rows the first are taken, which are a random sample
CHUNK_CELLS = 2**18  # cells at once, that stay near the processor
SURPRISING_P = 0.1  # P of a cell given the others, as beside the map
FAR_SDS = 1.6448536  # standard deviations, that a Gaussian number is off with this chance
N_ODD_CELLS = 3  # cells of such a row that are named


def misfit_of(where: Map, values: np.ndarray, weights: np.ndarray | None = None) -> Misfit:
    """Find rows (n, d) of the map whose surprising cells cost most beyond what is expected; and judge all columns.

    Every cell is judged by the other cells of its row.  With l the log odds of a bit, Gaussian with mean a and variance
    v given the row, p(bit | other bits) is 1 / E[1 / p(bit | l)] = sigmoid(s a - v / 2), s = 1 for a bit that is on and
    -1 for one that is off.  For a real column with noise variance f and residual r the other cells leave
    r / (1 - v / f), with variance f / (1 - v / f).  All bits of a row together say nothing of its fit: at the best
    place, what they cost beyond the expected hardly depends on which of them disagree.
    """
    d = values.shape[1]
    n = min(len(values), max(MOST_CELLS // d, 1))
    counts = np.ones(n) if weights is None else np.asarray(weights[:n], np.float64)
    per_row, sums = np.empty((n, 5)), np.zeros((4, d))
    step = max(CHUNK_CELLS // d, 1)
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        cells, own = np.asarray(values[part], np.float32), counts[part]
        seen = ~np.isnan(cells)
        cost, *of_rows = (np.where(seen, one, 0.0) for one in _told_by_others(where, part, cells))
        per_row[part] = np.column_stack([one.sum(axis=1) for one in of_rows])
        filled = np.where(seen, cells, 0.0)
        sums += np.stack([own @ cost, own @ seen, own @ filled, own @ filled**2])
    cost_of, seen_of, ones, squares = sums
    beyond, sd = per_row[:, 0] - per_row[:, 1], np.sqrt(per_row[:, 2])
    worst = np.argsort(-beyond, kind="stable")[:MOST_ROWS]
    worst = worst[beyond[worst] > 0]
    odd, surprise = _oddest(where, worst, values)
    with np.errstate(invalid="ignore", divide="ignore"):  # a column of which nothing is known
        mean = ones / seen_of
        alone = _entropy(mean) if where.noise is None else _gaussian(squares / seen_of - mean**2)
        column_bits = cost_of / seen_of
    return Misfit(
        n_rows=n,
        rows=worst,
        beyond=beyond[worst],
        sd=sd[worst],
        n_odd=per_row[worst, 3].astype(int),
        expected_odd=per_row[worst, 4],
        odd=odd,
        surprise=surprise,
        column_bits=column_bits,
        column_alone=alone,
    )


def _told_by_others(where: Map, part: slice | np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute -log2 p(cell | the others); what of it counts against the row, its expectation and variance; and
    whether it is surprising, and the chance of that.  A bit counts where it is surprising, a number always.
    """
    kind = cells.dtype
    one, two = where.weights
    a = where.means[part].astype(kind) @ where.weights.astype(kind) + where.bias.astype(kind)
    v = where.covariances[part].astype(kind) @ np.stack([one**2, two**2, 2 * one * two]).astype(kind)
    if where.noise is None:
        log_odds = (2 * cells - 1) * a - v / 2  # of what was observed
        rest = np.log1p(np.exp(-np.abs(log_odds))) / LOG_2
        rare = rest + np.abs(log_odds) / LOG_2  # cost of the less likely bit
        m = np.exp2(-rare)
        counts, met = m < SURPRISING_P, log_odds < 0
        cost = np.where(met, rare, rest)
        expected = np.where(counts, m * rare, 0.0)
        return cost, met * counts * rare, expected, expected * (rare - expected), met & counts, m * counts
    left = np.maximum(1 - v / where.noise, 1e-6)  # of what the row says of a cell, the part that is not the cell itself
    square = (cells - a) ** 2 / left / where.noise
    cost = _gaussian(where.noise / left) + (square - 1) / 2 / LOG_2
    none = 0 * cells
    return cost, square / 2 / LOG_2, 0.5 / LOG_2 + none, 0.5 / LOG_2**2 + none, square > FAR_SDS**2, SURPRISING_P + none


def _oddest(where: Map, rows: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find columns (r, c) in which rows are most surprising; and P(what was observed), or standard deviations off."""
    cost, against, *_ = _told_by_others(where, rows, np.asarray(values[rows], np.float64))
    key = cost if where.noise is None else against
    columns = np.argsort(np.where(np.isnan(key), np.inf, -key), axis=1, kind="stable")[:, :N_ODD_CELLS]
    much = np.take_along_axis(key, columns, axis=1)
    return columns, 2.0**-much if where.noise is None else np.sqrt(2 * LOG_2 * much)


def _entropy(p: np.ndarray) -> np.ndarray:
    """Compute that of a bit, in bits."""
    q = np.clip(p, 1e-300, 1), np.clip(1 - p, 1e-300, 1)
    return np.where(np.isnan(p), np.nan, -p * np.log2(q[0]) - (1 - p) * np.log2(q[1]))


def _gaussian(variance: np.ndarray) -> np.ndarray:
    """Compute the mean -log2 density of a Gaussian number, in bits."""
    return np.log2(2 * np.pi * np.e * variance) / 2
