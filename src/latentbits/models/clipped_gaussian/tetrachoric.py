"""From counts of rows to correlations of the Gaussians behind bits, pair by pair, with their standard errors.

The share of rows in which two bits are rare together is what `bivariate.solve` turns into a correlation: each pair is
solved as one of rare bits, by turning round those that are not.  Everything here is NumPy in float64 and runs on the
host: it is done once, after a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from latentbits.core import interrupts
from latentbits.core.limits import Pace, TimeLeft, no_limit
from latentbits.models.clipped_gaussian.bivariate import arcsine_law, invert, slope, solve, thresholds
from latentbits.models.clipped_gaussian.tuning import (
    COUNTED_ROWS_AT_ONCE,
    EMPTY_CELL_SHARE,
    INVERTED_PAIRS_AT_ONCE,
    LEAST_COVARIANCE_SLOPE,
)

__all__ = ["Correlations", "Moments", "correlations", "count", "covariance_of_bits", "from_covariance", "of_tables"]


class Moments(NamedTuple):
    """Counts of rows, column by column and pair by pair; of two sets of rows they add up."""

    n_rows: float
    ones: np.ndarray  # (d,): rows with a one
    observed: np.ndarray  # (d,): rows with a bit, i.e. not missing
    pair_ones: np.ndarray  # (d, d): rows where both are one
    pair_left: np.ndarray  # (d, d): [i, j] rows where i is one and j is not missing
    pair_observed: np.ndarray  # (d, d): rows where neither is missing


class Correlations(NamedTuple):
    """The correlations of each column and each pair, as the moments give them."""

    means: np.ndarray  # (d,): share of ones; 0.5 of a column that was never observed
    binary: np.ndarray  # (d, d): C^ss from the counts as they are; rows of constant columns are 0
    latent: np.ndarray  # (d, d): C^xx with diagonal 1; rows and columns of constant columns are 0, diagonal too
    error: np.ndarray  # (d, d): standard error of each latent correlation; diagonal 0; NaN where undetermined
    undetermined: np.ndarray  # (d, d): pairs of which the data say nothing, or of which rho has no hold on them
    corrected: np.ndarray  # (d, d): pairs with an empty cell that got the continuity correction


def count(X: np.ndarray) -> Moments:
    """Count the moments of an encoded table in memory, (rows, d) of 0, 1 and 255 for missing.

    >>> moments = count(np.array([[1, 1], [1, 0], [0, 255]], np.uint8))
    >>> moments.pair_ones.tolist(), moments.pair_left.tolist()
    ([[2.0, 1.0], [1.0, 1.0]], [[2.0, 2.0], [1.0, 1.0]])
    """
    n, d = X.shape
    complete = not n or X.max(initial=0) <= 1
    both, left, seen = np.zeros((3, d, d))
    for first in range(0, n, COUNTED_ROWS_AT_ONCE):
        part = X[first : first + COUNTED_ROWS_AT_ONCE]
        ones = (part == 1).astype(np.float32)
        both += ones.T @ ones
        if not complete:
            there = (part != 255).astype(np.float32)
            left += ones.T @ there
            seen += there.T @ there
    if complete:
        left += np.diagonal(both)[:, None]
        seen += n
    return Moments(float(n), np.diagonal(both).copy(), np.diagonal(seen).copy(), both, left, seen)


def correlations(
    moments: Moments, bias: bool = True, correction: float | int = 0.5, left: TimeLeft = no_limit
) -> Correlations:
    """Compute means, C^ss and C^xx with standard errors from the counts; each pair from its own rows, margins included.

    Parameters
    ----------
    moments
        Counts of rows.
    bias
        With False all thresholds are taken to be 0, C^ss is <s_i s_j> and eq. 7 inverts it.
    correction
        Rows that are put into an empty cell of a pair's 2 x 2 table, and into the one diagonally opposite, and taken
        from the two others: the margins stay what they are, and with them the thresholds.  No more is moved than makes
        the table that of independent bits (of two rare bits that may be far less), nor than half of what a cell holds.
        Without it, 0, such a pair has rho = +1 or -1.  With ``bias=False`` only two empty cells, of agreement or of
        disagreement, do that, and only they are corrected.
    left
        Seconds left: where they will not do for all pairs, `FitError` says so after the first.

    Returns
    -------
    Correlations
        The standard errors are those of the delta method, margins estimated too: with rho(p_11, p_1, p_2),
        ``drho = (dp_11 - Phi(u) dp_1 - Phi(v) dp_2) / density``, so that the variance is that of
        ``x_i x_j - Phi(u) x_i - Phi(v) x_j`` over the table, divided by the rows and the density squared.
        (With ``bias=False`` that of <s_i s_j> times the slope of the sine.)  To that of a corrected pair the distance
        to +1 or -1, which it would have without the correction, is added in squares.  Undetermined are pairs that were
        never observed together, those in whose common rows one bit is constant (both have latent correlation 0 here),
        and those with dC^ss / drho below 1e-5, of which the means are so extreme that rho hardly changes the table.
    """
    n_rows, ones, observed, *_ = moments
    d = len(ones)
    means = np.divide(ones, observed, out=np.full(d, 0.5), where=observed > 0)
    varies = (ones > 0) & (observed - ones > EMPTY_CELL_SHARE * observed)
    complete = bool(np.all(observed == n_rows))
    left_ones = moments.pair_left
    binary = covariance_of_bits(moments.pair_ones, left_ones, left_ones.T, moments.pair_observed, bias)
    binary[~varies] = binary[:, ~varies] = 0
    latent, error = np.zeros((2, d, d))
    undetermined, corrected = np.zeros((2, d, d), bool)
    pace = Pace(f"inverting {d * (d - 1) // 2:,} pairs of columns", max(1, d * (d - 1) // 2), left)
    with np.errstate(all="ignore"):
        rare = np.minimum(ones, observed - ones) / _some(observed)
        columns = np.stack([-np.abs(ndtri(rare)), rare])  # used if no bit is missing: otherwise each pair has its own
        for i, j in _blocks(d):
            interrupts.check()
            found = _pairs(_table(moments, i, j), columns[:, i], columns[:, j], complete, bias, correction)
            latent[i, j], error[i, j], undetermined[i, j], corrected[i, j] = found
            pace.add(len(i))
    for matrix in (latent, error, undetermined, corrected):
        matrix += matrix.T
    np.fill_diagonal(latent, varies)
    return Correlations(means, binary, latent, error, undetermined, corrected)


def of_tables(
    both: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray, *, bias: bool, correction: float | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute latent correlations of 2 x 2 tables, which of them are undetermined, and which were corrected.

    `both`, `left`, `right`, `rows`: of each table, (m,): rows where both bits are 1, where the first is, where the
    second is, and all.  `bias`, `correction`: as in `correlations`.
    """
    with np.errstate(all="ignore"):
        table = _turned(*(np.asarray(x, np.float64) for x in (both, left, right, rows)))
        nothing = np.zeros((2, 0))  # each table has its own margins
        rho, _, undetermined, corrected = _pairs(table, nothing, nothing, False, bias, correction)
    return rho, undetermined, corrected


def from_covariance(means: np.ndarray, binary: np.ndarray) -> Correlations:
    """Compute correlations from shares of ones and C^ss (of the bits as +1 and -1): no counts, and so no errors.

    A covariance that is at one of Frechet's bounds but for rounding gives +1 or -1.

    >>> found = from_covariance(np.array([0.5, 0.5]), np.array([[1, 1 / 3], [1 / 3, 1]]))
    >>> found.latent.round(9).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    d = len(means)
    varies = (means > 0) & (means < 1)
    pair = np.outer(varies, varies)
    phi = np.where(varies, thresholds(np.where(varies, means, 0.5)), 0.0)
    binary = np.where(pair, binary, 0.0)
    latent = invert(phi[:, None], phi, binary)
    left, right = means[:, None], means[None]
    # the bounds, and pairs that say nothing
    rounding = np.finfo(float).eps
    least, most = np.maximum(left + right - 1, 0), np.minimum(left, right)
    latent[(binary > 0) & (binary >= 4 * (most - left * right) - 4 * rounding)] = 1
    latent[(binary < 0) & (binary <= 4 * (least - left * right) + 4 * rounding)] = -1
    undetermined = ~pair | (slope(phi[:, None], phi, latent) < LEAST_COVARIANCE_SLOPE)
    error = np.full((d, d), np.nan)
    latent = np.where(pair, latent, 0.0)
    for matrix, value in ((latent, varies), (undetermined, False), (error, 0.0)):
        np.fill_diagonal(matrix, value)
    return Correlations(np.asarray(means, float), binary, latent, error, undetermined, np.zeros((d, d), bool))


def covariance_of_bits(
    both: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray, bias: bool
) -> np.ndarray:
    """Compute C^ss (of the bits as +1 and -1) of pairs, from the counts of their 2 x 2 tables."""
    both, p, q = (x / _some(rows) for x in (both, left, right))
    if bias:
        return 4 * (both - p * q)
    return np.where(rows > 0, 1 + 4 * both - 2 * p - 2 * q, 0.0)


def _blocks(d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Go through all pairs i < j, some whole rows of the triangle at a time."""
    first = 0
    while first < d - 1:
        last, size = first + 1, d - 1 - first
        while last < d - 1 and size + d - 1 - last <= INVERTED_PAIRS_AT_ONCE:
            size += d - 1 - last
            last += 1
        rows = np.arange(first, last)
        lengths = d - 1 - rows
        ends = np.cumsum(lengths)
        yield np.repeat(rows, lengths), np.arange(size) + np.repeat(rows + 1 - ends + lengths, lengths)
        first = last


def _some(rows: np.ndarray) -> np.ndarray:
    """Return numbers of rows to divide by, 1 where there are none."""
    return np.where(rows > 0, rows, 1)


def _cell(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Return a number of rows that is a difference of others, 0 where only rounding is left."""
    return np.where(rows > EMPTY_CELL_SHARE * of, rows, 0.0)


class _Table(NamedTuple):
    """2 x 2 tables of some pairs after both bits were turned so that they are the rarer state: counts of rows."""

    both: np.ndarray  # have the rare state of i and of j
    left: np.ndarray  # the rare state of i
    right: np.ndarray  # the rare state of j
    rows: np.ndarray
    sign: np.ndarray  # -1 where one of the two was turned


def _table(moments: Moments, i: np.ndarray, j: np.ndarray) -> _Table:
    rows = moments.pair_observed[i, j]
    return _turned(moments.pair_ones[i, j], moments.pair_left[i, j], moments.pair_left[j, i], rows)


def _turned(both: np.ndarray, left: np.ndarray, right: np.ndarray, rows: np.ndarray) -> _Table:
    turn_left, turn_right = 2 * left > rows, 2 * right > rows
    both = np.where(turn_left, right - both, both)
    left = np.where(turn_left, rows - left, left)
    both = np.where(turn_right, left - both, both)
    right = np.where(turn_right, rows - right, right)
    return _Table(both, left, right, rows, np.where(turn_left == turn_right, 1.0, -1.0))


def _pairs(
    table: _Table, column_i: np.ndarray, column_j: np.ndarray, complete: bool, bias: bool, correction: float | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute latent correlations of some pairs, their errors, and whether they are undetermined or corrected."""
    *cells, rows, sign = table
    rows = _some(rows)
    both, left, right = (_cell(x, rows) for x in cells)
    nothing = (left == 0) | (right == 0)  # includes pairs without a common row
    only_left, only_right, neither = (_cell(x, rows) for x in (left - both, right - both, rows - left - right + both))
    # Rows to move onto the diagonal of agreement; a negative number moves the other way.
    agree, differ = np.minimum(both, neither), np.minimum(only_left, only_right)
    if bias:
        empty_agree, empty_differ = agree == 0, differ == 0
    else:
        empty_agree, empty_differ = both + neither == 0, only_left + only_right == 0
    room = left * right / rows - both  # to independence, of either sign
    move = np.where(empty_agree, np.minimum(correction, np.minimum(room, differ / 2)), 0.0)
    move -= np.where(empty_differ, np.minimum(correction, np.minimum(-room, agree / 2)), 0.0)
    corrected = (move != 0) & ~nothing
    bare = (empty_agree | empty_differ) & ~corrected  # rho is +-1, where there is no spread to go by
    both = (both + move) / rows
    # without biases the sine law and its error; with them eq. 10, solved
    if not bias:
        wanted = sign * (1 + 4 * both - 2 * (left + right) / rows)
        rho = np.where(nothing, 0.0, arcsine_law(wanted))
        error = np.pi / 2 * np.sqrt((1 - rho**2) * (1 - wanted**2) / rows)
        return rho, np.where(nothing | bare, np.nan, error), nothing, corrected
    if complete:
        (h, p), (k, q) = column_i, column_j
    else:
        p, q = left / rows, right / rows
        h, k = -np.abs(ndtri(p)), -np.abs(ndtri(q))
    rho = solve(h, k, p, q, both)
    # Empty cells by the counts: with thresholds of finite precision the bounds of the shares are not met exactly.
    rho = np.where(empty_differ & ~corrected, 1.0, np.where(empty_agree & ~corrected, -1.0, rho))
    density, error = _error(h, k, p, q, both, rho)
    error /= np.sqrt(rows)
    # Where a cell is empty, the truth may be as far as the bound that the correction has left.
    error = np.where(corrected, np.hypot(error, np.where(empty_differ, 1 - rho, 1 + rho)), error)
    undetermined = nothing | ~(4 * density >= LEAST_COVARIANCE_SLOPE)
    return np.where(nothing, 0.0, sign * rho), np.where(undetermined | bare, np.nan, error), undetermined, corrected


def _error(
    h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the density of the two Gaussians at the thresholds, and the standard error of rho from a single row."""
    gap = 1 - rho
    c = np.sqrt(gap * (1 + rho))
    difference = k - h
    u, v = (difference + h * gap) / c, (k * gap - difference) / c
    density = np.exp(-0.5 * (h * h + u * u)) / (2 * np.pi * c)
    at_u, at_v = ndtr(u), ndtr(v)
    mean = both - at_u * p - at_v * q
    variance = both * (1 - at_u - at_v - mean) ** 2 + (p - both) * (at_u + mean) ** 2
    variance += (q - both) * (at_v + mean) ** 2 + (1 - p - q + both) * mean**2
    error = np.sqrt(variance) / density
    # Equal thresholds at rho = 1 (or none at -1): the rows are all alike, and the density is infinite.
    same = (c == 0) & (difference == 0) & ((rho > 0) | (h == 0))
    return np.where(same, np.inf, density), np.where(same, 0.0, error)
