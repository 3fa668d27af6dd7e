"""Two bits and the two Gaussians behind them: eqs. 7, 9 and 10, and their inverses.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, owens_t

from latentbits.models.clipped_gaussian.tuning import INVERTED_PAIRS_AT_ONCE, SOLVED_PAIRS_AT_ONCE

__all__ = ["Numbers", "arcsine_law", "covariance", "invert", "slope", "solve", "thresholds"]

Numbers = np.ndarray | Sequence[Any] | float | int


def thresholds(means: Numbers) -> np.ndarray:
    """Return phi of bits with these shares of ones, for variance 1 (eq. 9: 2^(1/2) erfinv(<s>) = Phi^-1 of the share).

    >>> thresholds(np.array([0.025, 0.975])).round(3).tolist()
    [-1.96, 1.96]
    """
    return np.asarray(ndtri(np.asarray(means, float)))


def covariance(phi_i: Numbers, phi_j: Numbers, rho: Numbers) -> np.ndarray:
    """Compute C^ss of two bits whose Gaussians have correlation `rho` (eq. 10), elementwise.

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
    """Compute dC^ss / drho, the integrand of eq. 10: four times the Gaussians' density at the thresholds, elementwise.

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
    """Find rho from C^ss: eq. 10 solved for its upper limit, elementwise.

    A covariance at or beyond what two bits of these means can have (Frechet's bounds) gives +1 or -1.

    >>> np.allclose(invert(0.0, 0.0, [1 / 3, 1.0]), [0.5, 1])  # eq. 7: sin(pi C / 2)
    True
    >>> float(invert(0.5, -1.0, covariance(0.5, -1.0, 0.3)).round(9))
    0.3
    """
    given, shape = _flat(phi_i, phi_j, covariance)
    found = np.empty(given[0].size)
    with np.errstate(all="ignore"):
        for first in range(0, found.size, INVERTED_PAIRS_AT_ONCE):
            left, right, wanted = (a[first : first + INVERTED_PAIRS_AT_ONCE] for a in given)
            h, k, sign = _turn(left, right)
            p, q = ndtr(h), ndtr(k)
            wanted = sign * wanted
            rho = solve(h, k, p, q, p * q + wanted / 4)
            rho[wanted >= 4 * (np.minimum(p, q) - p * q)] = 1  # in the same arithmetic as `covariance`
            rho[wanted == 0] = 0
            unbiased = (left == 0) & (right == 0)
            rho[unbiased] = arcsine_law(wanted[unbiased])
            found[first : first + INVERTED_PAIRS_AT_ONCE] = sign * rho + 0.0  # no negative zero
    return found.reshape(shape)


def _flat(*given: Numbers) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Give all the same shape, and then make them flat; return that shape, too."""
    arrays = np.broadcast_arrays(*(np.asarray(a, float) for a in given))
    return [a.reshape(-1) for a in arrays], arrays[0].shape


def _turn(phi_i: np.ndarray, phi_j: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds of the rare states, and the sign that rho and C take on."""
    return -np.abs(phi_i), -np.abs(phi_j), np.where((phi_i > 0) == (phi_j > 0), 1.0, -1.0)


def arcsine_law(given: np.ndarray) -> np.ndarray:
    """Compute eq. 7."""
    return np.sin(np.pi / 2 * np.clip(given, -1, 1))


def _joint(
    h: np.ndarray, k: np.ndarray, half: np.ndarray, rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute Phi_2(h, k; rho) for h, k <= 0, |rho| < 1 and half = (P + Q) / 2; and u, v, c.

    Not for h = k = 0.  A single zero, which must be -0.0, makes its u / h the infinity that is meant.
    """
    gap = 1 - rho  # exact for rho >= 1/2, so that k - rho h loses nothing as rho goes to 1
    c = np.sqrt(gap * (1 + rho))
    difference = k - h
    u, v = (difference + h * gap) / c, (k * gap - difference) / c
    return half - owens_t(h, u / h) - owens_t(k, v / k), u, v, c


def _step(wanted: np.ndarray, w: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """Find theta to go so that the joint share grows by `wanted`, if w goes on as exp(bend theta): of third order."""
    newton = wanted / w
    curved = newton * bend
    return np.where(curved == 0, newton, np.log1p(np.maximum(curved, -0.95)) / bend)


def _guess(h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Guess theta from the log odds ratio of the table.

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
    """Make one step from the guess with eq. 10 by three nodes: most pairs then need Owen's T only once."""
    rho = np.sin(theta)
    product, squares = h * k, 0.5 * (h * h + k * k)
    total = np.zeros_like(rho)
    # Gauss-Legendre on [0, 1]
    for node, weight in ((0.11270166537925831, 5 / 18), (0.5, 4 / 9), (0.8872983346207417, 5 / 18)):
        r = node * rho
        rest = 1 - r * r
        total += weight * np.exp((product * r - squares) / rest) / np.sqrt(rest)
    c = np.sqrt((1 - rho) * (1 + rho))
    u, v = (k - rho * h) / c, (h - rho * k) / c
    w = np.exp(-0.5 * (h * h + u * u))
    return theta + _step(2 * np.pi * (both - p * q) - total * rho, w, u * v / c)


def solve(h: np.ndarray, k: np.ndarray, p: np.ndarray, q: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Find rho for rare bits (h, k <= 0) that occur together in this share of rows: +-1 from the bounds 0 and P, Q on.

    All pairs take the first step, block by block; the few that are not there yet go on together.
    """
    found = np.empty(h.shape)
    unfinished = []
    for first in range(0, len(h), SOLVED_PAIRS_AT_ONCE):
        part = slice(first, first + SOLVED_PAIRS_AT_ONCE)
        of_block = h[part], k[part], p[part], q[part], both[part]
        outside = (both[part] <= 0) | (both[part] >= np.minimum(p[part], q[part]))
        # the first step, from a guess
        theta = _approach(*of_block, _guess(*of_block))
        theta = np.where(np.abs(theta) < np.pi / 2, theta, 0.0)  # NaN too
        half = 0.5 * (p[part] + q[part])
        theta, low, high, done = _improve(h[part], k[part], half, both[part], theta, -np.pi / 2, np.pi / 2)
        # what is known without it, and what is left to do
        found[part] = np.sin(theta)
        unbiased = (h[part] == 0) & (k[part] == 0)
        found[part][unbiased] = arcsine_law(4 * both[part][unbiased] - 1)
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
    """Make a step in theta, between `low` and `high`; return these, closer together, and whether it is right.

    After a step t of third order the error is about (u^2 + v^2) / c^2 t^3 / 6.
    """
    share, u, v, c = _joint(h, k, half, np.sin(theta))
    wanted = both - share
    step = _step(wanted, np.exp(-0.5 * (h * h + u * u)) / (2 * np.pi), u * v / c)
    # The share is not known better than this; where theta has next to no hold on it, a step means nothing any more.
    blind = np.abs(wanted) <= np.finfo(float).eps * half
    step = np.where(blind & ~(np.abs(step) < 1e-6), 0.0, step)
    up = wanted > 0
    low, high = np.where(up, theta, low), np.where(up, high, theta)
    new = theta + step
    within = (new >= low) & (new <= high)
    done = blind | (within & (np.abs(step) ** 3 * (u * u + v * v) < 1e-13 * c * c)) | (high - low < 1e-12)
    if halve:
        within &= done
    return np.where(within, new, 0.5 * (low + high)), low, high, done
