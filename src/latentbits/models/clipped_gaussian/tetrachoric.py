"""From the moments of bits to those of the Gaussian behind them, pair by pair: eqs. 7, 9 and 10, and their inverses.

A bit is s = +1 where phi + x > 0 and -1 elsewhere, and x has unit variance here.  Its mean gives phi (eq. 9).  The
covariance C of two bits gives the correlation rho of their x, which is known as the tetrachoric correlation:

    C = (2 / pi) Int_0^rho dr (1 - r^2)^(-1/2) exp(-(phi_i^2 + phi_j^2 - 2 r phi_i phi_j) / (2 (1 - r^2)))    (10)

`equations.py` derives it, and has all of these plainly.

Turning a bit round changes the signs of its phi and of rho and C.  So each pair is solved as one of rare bits, with
thresholds h = -|phi_i| and k = -|phi_j|: then P = Phi(h) and Q = Phi(k) are at most 1/2, the share of rows in which
both occur is ``P Q + C / 4``, and all terms are no larger than P and Q, which keeps small probabilities exact.  With
c = (1 - rho^2)^(1/2), u = (k - rho h) / c, v = (h - rho k) / c and Owen's T that share is

    Phi_2(h, k; rho) = (P + Q) / 2 - T(h, u / h) - T(k, v / k)

In theta = asin(rho) its derivative is w = exp(-(h^2 + u^2) / 2) / (2 pi), without a singularity at rho = 1; and
d log w / d theta = u v / c.

Everything here is NumPy in float64 and runs on the host: it is done once, after a pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from latentbits.core import interrupts
from latentbits.core.limits import Pace, TimeLeft, no_limit

__all__ = [
    "Correlations",
    "Moments",
    "correlations",
    "count",
    "covariance",
    "from_covariance",
    "invert",
    "of_tables",
    "slope",
    "thresholds",
]

PAIRS = 65_536  # at a time, which bounds the memory
BLOCK = 16_384  # of them together in the solver: its twenty or so arrays stay in the second-level cache
FLAT = 1e-5  # of dC/drho: below, a rounding error of C, let alone a sampling error, is a large one of rho
ROWS = 65_536  # at a time in `count`; float32 holds whole numbers up to 2^24
EPS = float(np.finfo(float).eps)
# Of the rows of a table: sums of weights that are no whole numbers differ by so much from what they should be, and a
# cell with no more is empty.  One row of as many as there may be is more.
NOTHING = 1e-12
# Gauss-Legendre on [0, 1], for a first correction of the guess.
NODES = ((0.11270166537925831, 5 / 18), (0.5, 4 / 9), (0.8872983346207417, 5 / 18))


Numbers = np.ndarray | Sequence[Any] | float | int


class Moments(NamedTuple):
    """Counts of rows, column by column and pair by pair; of two sets of rows they add up."""

    n_rows: float
    ones: np.ndarray  # (d,): rows with a one
    observed: np.ndarray  # (d,): rows with a bit, i.e. not missing
    pair_ones: np.ndarray  # (d, d): rows where both are one
    pair_left: np.ndarray  # (d, d): [i, j] rows where i is one and j is not missing
    pair_observed: np.ndarray  # (d, d): rows where neither is missing


class Correlations(NamedTuple):
    """What the moments say of each column and each pair."""

    means: np.ndarray  # (d,): share of ones; 0.5 of a column that was never observed
    binary: np.ndarray  # (d, d): C^ss from the counts as they are; rows of constant columns are 0
    latent: np.ndarray  # (d, d): C^xx with diagonal 1; rows and columns of constant columns are 0, diagonal too
    error: np.ndarray  # (d, d): standard error of each latent correlation; diagonal 0; NaN where undetermined
    undetermined: np.ndarray  # (d, d): pairs of which the data say nothing, or of which rho has no hold on them
    corrected: np.ndarray  # (d, d): pairs with an empty cell that got the continuity correction


def thresholds(means: Numbers) -> np.ndarray:
    """phi of bits with these shares of ones, for unit variance (eq. 9: 2^(1/2) erfinv(<s>) = Phi^-1 of the share).

    >>> thresholds(np.array([0.025, 0.975])).round(3).tolist()
    [-1.96, 1.96]
    """
    return np.asarray(ndtri(np.asarray(means, float)))


def covariance(phi_i: Numbers, phi_j: Numbers, rho: Numbers) -> np.ndarray:
    """C^ss of two bits whose Gaussians have correlation `rho` (eq. 10), elementwise.

    >>> float(covariance(0.0, 0.0, 0.5).round(9))  # (2 / pi) asin(1 / 2)
    0.333333333
    """
    (left, right, r), shape = _flat(phi_i, phi_j, rho)
    with np.errstate(all="ignore"):
        h, k, sign = _turn(left, right)
        r = sign * np.clip(r, -1, 1)
        p, q = ndtr(h), ndtr(k)
        joint = _joint(h, k, (p + q) / 2, r)[0]
        joint = np.where(r == 1, np.minimum(p, q), np.where(r == -1, 0.0, joint))
        found = 4 * (joint - p * q)
        found = np.where((h == 0) & (k == 0), 2 / np.pi * np.arcsin(r), found)
        found = np.where(p * q == 0, 0.0 * r, found)  # a bit that never occurs; NaN stays NaN
    return (sign * found).reshape(shape)


def slope(phi_i: Numbers, phi_j: Numbers, rho: Numbers) -> np.ndarray:
    """dC^ss / drho, the integrand of eq. 10: four times the density of the Gaussians at the thresholds, elementwise.

    At rho = 1 it is infinite where the thresholds are equal (at -1, opposite), and 0 elsewhere.

    >>> slope(1.0, [1.0, 2.0], 1.0).tolist()
    [inf, 0.0]
    """
    (left, right, r), shape = _flat(phi_i, phi_j, rho)
    with np.errstate(all="ignore"):
        # The exponent of eq. 10 in partial fractions: each is harmless where the other's denominator vanishes.
        apart, sums = (left - right) ** 2, (left + right) ** 2
        exponent = np.where(apart == 0, 0.0, apart / (4 * (1 - r)))
        exponent = exponent + np.where(sums == 0, 0.0, sums / (4 * (1 + r)))
        weight = np.exp(-exponent)
        return np.where(weight == 0, 0.0, 2 / np.pi * weight / np.sqrt((1 - r) * (1 + r))).reshape(shape)


def invert(phi_i: Numbers, phi_j: Numbers, covariance: Numbers) -> np.ndarray:
    """rho from C^ss: eq. 10 solved for its upper limit, elementwise.

    A covariance at or beyond what two bits of these means can have (Frechet's bounds) gives +1 or -1.

    >>> np.allclose(invert(0.0, 0.0, [1 / 3, 1.0]), [0.5, 1])  # eq. 7: sin(pi C / 2)
    True
    >>> float(invert(0.5, -1.0, covariance(0.5, -1.0, 0.3)).round(9))
    0.3
    """
    given, shape = _flat(phi_i, phi_j, covariance)
    found = np.empty(given[0].size)
    with np.errstate(all="ignore"):
        for first in range(0, found.size, PAIRS):
            left, right, wanted = (a[first : first + PAIRS] for a in given)
            h, k, sign = _turn(left, right)
            p, q = ndtr(h), ndtr(k)
            wanted = sign * wanted
            rho = _solve(h, k, p, q, p * q + wanted / 4)
            rho[wanted >= 4 * (np.minimum(p, q) - p * q)] = 1  # in the same arithmetic as `covariance`
            rho[wanted == 0] = 0
            unbiased = (left == 0) & (right == 0)
            rho[unbiased] = _arcsine_law(wanted[unbiased])
            found[first : first + PAIRS] = sign * rho + 0.0  # no negative zero
    return found.reshape(shape)


def count(X: np.ndarray) -> Moments:
    """Moments of an encoded table in memory, (rows, d) of 0, 1 and 255 for missing.

    >>> moments = count(np.array([[1, 1], [1, 0], [0, 255]], np.uint8))
    >>> moments.pair_ones.tolist(), moments.pair_left.tolist()
    ([[2.0, 1.0], [1.0, 1.0]], [[2.0, 2.0], [1.0, 1.0]])
    """
    n, d = X.shape
    complete = not n or X.max(initial=0) <= 1
    both, left, seen = np.zeros((3, d, d))
    for first in range(0, n, ROWS):
        part = X[first : first + ROWS]
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
    """Means, C^ss and C^xx with standard errors from the counts; each pair from its own rows, margins included.

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
    varies = (ones > 0) & (observed - ones > NOTHING * observed)
    complete = bool(np.all(observed == n_rows))
    seen = _some(moments.pair_observed)
    binary = _binary(moments, seen, bias)
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
    """Latent correlations of 2 x 2 tables, which of them are undetermined, and which were corrected.

    Parameters
    ----------
    both, left, right, rows
        Of each table, (m,): rows where both bits are 1, where the first is, where the second is, and all.
    bias, correction
        As in `correlations`.
    """
    with np.errstate(all="ignore"):
        table = _turned(*(np.asarray(x, np.float64) for x in (both, left, right, rows)))
        nothing = np.zeros((2, 0))  # each table has its own margins
        rho, _, undetermined, corrected = _pairs(table, nothing, nothing, False, bias, correction)
    return rho, undetermined, corrected


def from_covariance(means: np.ndarray, binary: np.ndarray) -> Correlations:
    """What shares of ones and C^ss (of the bits as +1 and -1) say where there are no counts, and so no errors.

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
    least, most = np.maximum(left + right - 1, 0), np.minimum(left, right)
    latent[(binary > 0) & (binary >= 4 * (most - left * right) - 4 * EPS)] = 1
    latent[(binary < 0) & (binary <= 4 * (least - left * right) + 4 * EPS)] = -1
    undetermined = ~pair | (slope(phi[:, None], phi, latent) < FLAT)
    error = np.full((d, d), np.nan)
    latent = np.where(pair, latent, 0.0)
    for matrix, value in ((latent, varies), (undetermined, False), (error, 0.0)):
        np.fill_diagonal(matrix, value)
    return Correlations(np.asarray(means, float), binary, latent, error, undetermined, np.zeros((d, d), bool))


def _binary(moments: Moments, seen: np.ndarray, bias: bool) -> np.ndarray:
    """C^ss of each pair from its own rows: of the bits as +1 and -1."""
    both, left = moments.pair_ones / seen, moments.pair_left / seen
    if bias:
        return 4 * (both - left * left.T)
    return np.where(moments.pair_observed > 0, 1 + 4 * both - 2 * left - 2 * left.T, 0.0)


def _blocks(d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs i < j, some whole rows of the triangle at a time."""
    first = 0
    while first < d - 1:
        last, size = first + 1, d - 1 - first
        while last < d - 1 and size + d - 1 - last <= PAIRS:
            size += d - 1 - last
            last += 1
        rows = np.arange(first, last)
        lengths = d - 1 - rows
        ends = np.cumsum(lengths)
        yield np.repeat(rows, lengths), np.arange(size) + np.repeat(rows + 1 - ends + lengths, lengths)
        first = last


def _some(rows: np.ndarray) -> np.ndarray:
    """Numbers of rows to divide by, 1 where there are none."""
    return np.where(rows > 0, rows, 1)


def _cell(rows: np.ndarray, of: np.ndarray) -> np.ndarray:
    """A number of rows that is a difference of others."""
    return np.where(rows > NOTHING * of, rows, 0.0)


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
    """Latent correlation, its standard error, whether it is undetermined and whether corrected, of some pairs."""
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
    if not bias:
        wanted = sign * (1 + 4 * both - 2 * (left + right) / rows)
        rho = np.where(nothing, 0.0, _arcsine_law(wanted))
        error = np.pi / 2 * np.sqrt((1 - rho**2) * (1 - wanted**2) / rows)
        return rho, np.where(nothing | bare, np.nan, error), nothing, corrected
    if complete:
        (h, p), (k, q) = column_i, column_j
    else:
        p, q = left / rows, right / rows
        h, k = -np.abs(ndtri(p)), -np.abs(ndtri(q))
    rho = _solve(h, k, p, q, both)
    # Empty cells by the counts: with thresholds of finite precision the bounds of the shares are not met exactly.
    rho = np.where(empty_differ & ~corrected, 1.0, np.where(empty_agree & ~corrected, -1.0, rho))
    density, error = _error(h, k, p, q, both, rho)
    error /= np.sqrt(rows)
    # Where a cell is empty, the truth may be as far as the bound that the correction has left.
    error = np.where(corrected, np.hypot(error, np.where(empty_differ, 1 - rho, 1 + rho)), error)
    undetermined = nothing | ~(4 * density >= FLAT)
    return np.where(nothing, 0.0, sign * rho), np.where(undetermined | bare, np.nan, error), undetermined, corrected


def _error(
    h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Density of the two Gaussians at the thresholds, and the standard error of rho from a single row."""
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


def _flat(*given: Numbers) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """The same shape for all, and then flat; and that shape."""
    arrays = np.broadcast_arrays(*(np.asarray(a, float) for a in given))
    return [a.reshape(-1) for a in arrays], arrays[0].shape


def _turn(phi_i: np.ndarray, phi_j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds of the rare states, and the sign that rho and C take on."""
    return -np.abs(phi_i), -np.abs(phi_j), np.where((phi_i > 0) == (phi_j > 0), 1.0, -1.0)


def _arcsine_law(given: np.ndarray) -> np.ndarray:
    """Eq. 7."""
    return np.sin(np.pi / 2 * np.clip(given, -1, 1))


def _joint(
    h: np.ndarray, k: np.ndarray, half: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Phi_2(h, k; rho) for h, k <= 0, |rho| < 1 and half = (P + Q) / 2; and u, v, c.

    Not for h = k = 0.  A single zero, which must be -0.0, makes its u / h the infinity that is meant.
    """
    gap = 1 - rho  # exact for rho >= 1/2, so that k - rho h loses nothing as rho goes to 1
    c = np.sqrt(gap * (1 + rho))
    difference = k - h
    u, v = (difference + h * gap) / c, (k * gap - difference) / c
    return half - owens_t(h, u / h) - owens_t(k, v / k), u, v, c


def _step(wanted: np.ndarray, w: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """theta to go so that the joint share grows by `wanted`, if w goes on as exp(bend theta): of third order."""
    newton = wanted / w
    curved = newton * bend
    return np.where(curved == 0, newton, np.log1p(np.maximum(curved, -0.95)) / bend)


def _guess(h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray) -> np.ndarray:
    """theta from the log odds ratio of the table.

    At independence theta = g x - b (g x)^2 for the log odds ratio x; this has the same start, and ends at +-pi/2.
    """
    x = np.log(both * (1 - p - q + both) / ((p - both) * (q - both)))
    g = 2 * np.pi * (p * (1 - p)) * (q * (1 - q)) * np.exp(0.5 * (h * h + k * k))
    x *= g
    bx = 0.5 * (h * k - (1 - 2 * p) * (1 - 2 * q) / g) * x
    x *= 2 / np.pi * (1 - bx / (1 + np.abs(bx)))
    return np.pi / 2 * x / np.sqrt(1 + x * x)


def _approach(
    h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray, theta: np.ndarray
) -> np.ndarray:
    """One step from the guess with eq. 10 by three nodes: enough for most pairs to need Owen's T only once."""
    rho = np.sin(theta)
    product, squares = h * k, 0.5 * (h * h + k * k)
    total = np.zeros_like(rho)
    for node, weight in NODES:
        r = node * rho
        rest = 1 - r * r
        total += weight * np.exp((product * r - squares) / rest) / np.sqrt(rest)
    c = np.sqrt((1 - rho) * (1 + rho))
    u, v = (k - rho * h) / c, (h - rho * k) / c
    w = np.exp(-0.5 * (h * h + u * u))
    return theta + _step(2 * np.pi * (both - p * q) - total * rho, w, u * v / c)


def _solve(h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray) -> np.ndarray:
    """rho for rare bits (h, k <= 0) that occur together in this share of rows: +-1 at or beyond the bounds 0 and P, Q.

    All pairs take the first step, block by block; the few that are not there yet go on together.
    """
    found = np.empty(h.shape)
    unfinished = []
    for first in range(0, len(h), BLOCK):
        part = slice(first, first + BLOCK)
        of_block = h[part], k[part], p[part], q[part], both[part]
        outside = (both[part] <= 0) | (both[part] >= np.minimum(p[part], q[part]))
        theta = _approach(*of_block, _guess(*of_block))
        theta = np.where(np.abs(theta) < np.pi / 2, theta, 0.0)  # NaN too
        half = 0.5 * (p[part] + q[part])
        theta, low, high, done = _improve(h[part], k[part], half, both[part], theta, -np.pi / 2, np.pi / 2)
        found[part] = np.sin(theta)
        unbiased = (h[part] == 0) & (k[part] == 0)
        found[part][unbiased] = _arcsine_law(4 * both[part][unbiased] - 1)
        found[part][outside] = np.where(both[part][outside] <= 0, -1.0, 1.0)
        found[part][np.isnan(both[part])] = np.nan
        (rest,) = np.nonzero(~(done | outside | unbiased | np.isnan(both[part])))
        unfinished.append((rest + first, half[rest], theta[rest], low[rest], high[rest]))
    if not unfinished:
        return found
    index, half, theta, low, high = (np.concatenate(each) for each in zip(*unfinished, strict=True))
    h, k, both = h[index], k[index], both[index]
    turn = 1
    while len(index):
        # Steps may be short for long where w is next to nothing: in the end every second one halves the bracket.
        turn += 1
        theta, low, high, done = _improve(h, k, half, both, theta, low, high, halve=turn > 6 and turn % 2 == 1)
        found[index] = np.sin(theta)
        (rest,) = np.nonzero(~done)
        index, h, k, half, both, theta, low, high = (a[rest] for a in (index, h, k, half, both, theta, low, high))
    return found


def _improve(
    h: np.ndarray,
    k: np.ndarray,
    half: np.ndarray,
    both: np.ndarray,
    theta: np.ndarray,
    low: np.ndarray | float,
    high: np.ndarray | float,
    halve: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One step in theta, which stays between `low` and `high`; these, closer together; and whether theta is right now.

    After a step t of third order the error is about (u^2 + v^2) / c^2 t^3 / 6.
    """
    share, u, v, c = _joint(h, k, half, np.sin(theta))
    wanted = both - share
    step = _step(wanted, np.exp(-0.5 * (h * h + u * u)) / (2 * np.pi), u * v / c)
    # The share is not known better than this; where theta has next to no hold on it, a step means nothing any more.
    blind = np.abs(wanted) <= EPS * half
    step = np.where(blind & ~(np.abs(step) < 1e-6), 0.0, step)
    up = wanted > 0
    low, high = np.where(up, theta, low), np.where(up, high, theta)
    new = theta + step
    within = (new >= low) & (new <= high)
    done = blind | (within & (np.abs(step) ** 3 * (u * u + v * v) < 1e-13 * c * c)) | (high - low < 1e-12)
    if halve:
        within &= done
    return np.where(within, new, 0.5 * (low + high)), low, high, done
