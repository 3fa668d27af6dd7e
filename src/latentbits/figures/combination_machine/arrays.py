"""Arrays that pictures of combination machines show: matched units, projections, Gaussians; nothing draws."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from latentbits.core.errors import DataError
from latentbits.core.states import all_states

__all__ = [
    "Gaussians",
    "Match",
    "gaussians_of",
    "match_units",
    "matched_order",
    "principal_components",
    "project",
    "separation",
    "words_of_match",
]

MOST_UNITS = 10  # whose 2^m Gaussians are listed


class Match(NamedTuple):
    """Correspondence of a learned unit to the units of a target."""

    units: tuple[int, ...]  # numbers of the target's units: none, one, or two that are merged
    signs: tuple[int, ...]  # 1 or -1 for each of them: negated where -1
    # between the learned weights and those of the target, signs included; where `units` is empty, of the most similar
    # single one
    cosine: float


def match_units(learned: np.ndarray, target: np.ndarray, least: float = 0.8) -> list[Match]:
    """Match learned units to those of a target by the cosine between their weights (section 4).

    Units are first assigned one to one, so that the absolute cosines add up to the most: a machine with one unit
    negated can have almost the same distribution.  A learned unit that is similar to none so assigned is compared with
    any single unit of the target (two learned units may share one), then with the sums and differences of any two.

    Parameters
    ----------
    learned, target : (m, d) and (k, d) arrays
    least : float
        The cosine from which weights count as similar.

    Examples
    --------
    >>> target = np.eye(4)
    >>> found = match_units(np.array([[0, 2.0, 0, 0], [0, 0, 1.0, -1.0], [-3.0, 0, 0, 0.1]]), target)
    >>> [words_of_match(one) for one in found]
    ['2', '3 − 4', '−1']
    """
    learned, target = _checked("learned", learned), _checked("target", target)
    if learned.shape[1] != target.shape[1]:
        raise DataError(f"learned has {learned.shape[1]} inputs, target {target.shape[1]}")
    cosine = _unit(learned) @ _unit(target).T
    of = dict(zip(*(place.tolist() for place in linear_sum_assignment(-np.abs(cosine)))))
    pairs, signs = _pairs(target)
    merged = _unit(learned) @ _unit(pairs).T if len(pairs) else np.zeros((len(learned), 0))
    return [_match(place, of.get(place), cosine, merged, signs, least) for place in range(len(learned))]


def _match(
    place: int, assigned: int | None, cosine: np.ndarray, merged: np.ndarray, signs: list[_Pair], least: float
) -> Match:
    """Match one learned unit: the one assigned to it if similar, else the most similar one, else the best pair."""
    own = np.abs(cosine[place])
    nearest = int(np.argmax(own)) if len(own) else 0
    for one in (assigned, nearest):
        if one is not None and len(own) and own[one] >= least:
            return Match((one,), (1 if cosine[place, one] > 0 else -1,), float(own[one]))
    if merged.shape[1]:
        best = int(np.argmax(np.abs(merged[place])))
        if abs(merged[place, best]) >= least:
            first, second, sign = signs[best]
            side = 1 if merged[place, best] > 0 else -1
            return Match((first, second), (side, side * sign), float(abs(merged[place, best])))
    return Match((), (), float(own[nearest]) if len(own) else 0.0)


_Pair = tuple[int, int, int]


def _pairs(target: np.ndarray) -> tuple[np.ndarray, list[_Pair]]:
    """Compute sum and difference of any two units, with their numbers and the sign between them."""
    names = [(i, k, sign) for i, k in combinations(range(len(target)), 2) for sign in (1, -1)]
    return np.array([target[i] + sign * target[k] for i, k, sign in names]).reshape(-1, target.shape[1]), names


def matched_order(matches: list[Match]) -> list[int]:
    """Order learned units by the target's: single ones, then merged ones, then those that match none.

    >>> matched_order([Match((), (), 0.1), Match((2,), (1,), 0.9), Match((0, 1), (1, 1), 0.9), Match((0,), (-1,), 0.9)])
    [3, 1, 2, 0]
    """
    kind = {1: 0, 2: 1, 0: 2}
    return sorted(range(len(matches)), key=lambda place: (kind[len(matches[place].units)], matches[place].units, place))


def words_of_match(match: Match) -> str:
    """Write numbers from 1, with signs; a dash where there is none.

    >>> words_of_match(Match((9, 1), (1, -1), 0.9)), words_of_match(Match((), (), 0.3))
    ('10 − 2', '–')
    """
    if not match.units:
        return "–"
    first, *others = (f"{unit + 1}" for unit in match.units)
    head = ("" if match.signs[0] > 0 else "−") + first
    return head + "".join(f" {'+' if sign > 0 else '−'} {name}" for sign, name in zip(match.signs[1:], others))


# --- projections ---


def project(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute ``x . w / |w|`` of every row on the direction of every unit; figure 4.1 (d).

    `X` (n, d), of 0 and 1: as +-1; a missing (NaN) bit counts as 0, the middle.  `weights`: (m, d).  Returns (n, m)
    array.

    >>> project(np.array([[1, 1], [0, 1]]), np.array([[3.0, 4.0]])).round(3).tolist()
    [[1.4], [0.2]]
    """
    x = np.nan_to_num(2 * np.asarray(X, np.float64) - 1)
    return np.round(x @ _unit(_checked("weights", weights)).T, 12)


def separation(values: np.ndarray, on: np.ndarray) -> float:
    """Measure the gap of two groups in root-mean-square standard deviations; above 2, a sum has two peaks.

    `values`: (n,).  `on` (n,): which group; nan where one is empty.

    >>> separation(np.array([-1.0, 1.0, 9.0, 11.0]), np.array([False, False, True, True]))
    10.0
    """
    values, on = np.asarray(values, np.float64), np.asarray(on, bool)
    if on.all() or not on.any():
        return float("nan")
    high, low = values[on], values[~on]
    spread = np.sqrt((high.var() + low.var()) / 2)
    return float(abs(high.mean() - low.mean()) / spread) if spread > 0 else float("inf")


class Principal(NamedTuple):
    """`components` (k, d), unit vectors with the largest variance first; `shares` (k,) of all variance."""

    components: np.ndarray
    shares: np.ndarray


def principal_components(X: np.ndarray, n_components: int) -> Principal:
    """Find the eigenvectors of the covariance of +-1 bits with the largest eigenvalues (section 2.4).

    The sign is that of the larger side: the sum of cubes is positive.

    `X`: (n, d), of 0 and 1.
    """
    x = 2 * np.asarray(X, np.float64) - 1
    if x.ndim != 2 or not np.isfinite(x).all():
        raise DataError(f"X must be a table of bits without holes, found shape {x.shape}")
    values, vectors = np.linalg.eigh(np.cov(x.T, ddof=0).reshape(x.shape[1], -1))
    found = vectors.T[::-1][:n_components]
    signs = np.where((found**3).sum(1) < 0, -1.0, 1.0)
    return Principal(found * signs[:, None], values[::-1][:n_components] / max(values.sum(), np.finfo(float).tiny))


# --- the real machine as a mixture ---


class Gaussians(NamedTuple):
    """`states` (2^m, m) of 0 and 1; `means` (2^m, d): b + w(h); `shares` (2^m,): P(h), equation 3.7."""

    states: np.ndarray
    means: np.ndarray
    shares: np.ndarray


def gaussians_of(weights: np.ndarray, hidden_bias: np.ndarray, input_bias: np.ndarray | None = None) -> Gaussians:
    """List the 2^m Gaussians, each of unit variance, that a real-valued machine is a mixture of (section 2.3).

    Parameters
    ----------
    weights, hidden_bias : (m, d) and (m,) arrays
        At most ten units.
    input_bias : (d,) array, optional

    Examples
    --------
    >>> found = gaussians_of(np.array([[2.0, 0.0]]), np.array([-2.0]))  # theta = -|w|^2 / 2: on half of the time
    >>> np.allclose(found.means, [[0, 0], [2, 0]]), np.allclose(found.shares, 0.5)
    (True, True)
    """
    weights, theta = _checked("weights", weights), np.asarray(hidden_bias, np.float64)
    if theta.shape != (len(weights),) or len(theta) > MOST_UNITS:
        raise DataError(
            f"a machine of at most {MOST_UNITS} units has as many biases, found {weights.shape} and {theta.shape}"
        )
    h = all_states(len(theta)).astype(np.float64)
    means = h @ weights + (0.0 if input_bias is None else np.asarray(input_bias, np.float64))
    log_share = h @ theta + 0.5 * (means**2).sum(1)
    return Gaussians(h.astype(np.uint8), means, np.exp(log_share - logsumexp(log_share)))


# --- tables ---


def _checked(name: str, weights: np.ndarray) -> np.ndarray:
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 2 or not np.isfinite(weights).all():
        raise DataError(f"{name} must be a finite (units, inputs) array, found shape {weights.shape}")
    return weights


def _unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length one; a row of zeros stays."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
