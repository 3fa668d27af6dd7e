"""Arrays that pictures of the items of a test show; nothing here draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from latentbits.core.errors import DataError
from latentbits.figures.placing import spread_apart

__all__ = ["GroupsOfPersons", "NameColumns", "WrightMap", "name_columns", "observed_by_others", "wilson", "wright_map"]


class GroupsOfPersons(NamedTuple):
    """Groups of persons for each item, made by what their other answers say; all are (d, g), NaN for an empty group.

    Attributes
    ----------
    expected, observed
        Share of ones: the mean of the model's P(1 | the person's other answers), and what they answered.
    low, high
        Interval of `observed`, by Wilson's formula.
    counts
        Persons who answered the item.
    places
        Where along the trait the item's curve has the value `expected`.
    """

    expected: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    places: np.ndarray


def wilson(share: np.ndarray, counts: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Compute Wilson's interval of a share: within 0 and 1, and not empty where the share is 0 or 1.

    >>> low, high = wilson(np.array([0.0, 0.5]), np.array([20, 20]))
    >>> bool(low[0] < 1e-9), bool(high[0] > 0.1), bool(np.isclose(low[1] + high[1], 1))
    (True, True, True)
    """
    z = norm.isf((1 - level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (share + z**2 / (2 * counts)) / (1 + z**2 / counts)
        half = z * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2)) / (1 + z**2 / counts)
    return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)


def observed_by_others(
    bits: np.ndarray,
    nodes: np.ndarray,
    log_weights: np.ndarray,
    curves: np.ndarray,
    weights: np.ndarray | None = None,
    n_groups: int | None = None,
) -> GroupsOfPersons:
    """Compute the share of persons who answered each item with 1, in groups by their answers to the other items.

    An item's own answer has no part in where a person is put: else the observed shares would be too steep, the more so
    the fewer items there are.  And a group stands where the curve has what the model expects of it, not at the mean of
    shrunken scores: then, if the model is right, all that lies between points and curve is chance.

    Parameters
    ----------
    bits : (n, d) array
        0, 1, or NaN where nothing was answered.
    nodes, log_weights : (m,) arrays
        A rule for expectations over the trait; nodes ascending.
    curves : (m, d) array
        P(1) of each item at the nodes.
    weights : (n,) array or None
        How often each person counts; None for once.
    n_groups : int or None
        Equally large as far as ties allow; None is 3 to 10, one for 50 persons.

    Examples
    --------
    >>> nodes = np.linspace(-6, 6, 61)
    >>> curves = 1 / (1 + np.exp(-nodes[:, None] - np.zeros(3)))
    >>> bits = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]] * 25)
    >>> observed_by_others(bits, nodes, -(nodes**2) / 2, curves, n_groups=3).counts[1].tolist()
    [25.0, 50.0, 25.0]
    """
    bits, counts = _distinct(np.asarray(bits, np.float64), weights)
    expected = _expected_by_others(bits, np.asarray(log_weights), np.asarray(curves, np.float64))
    d = bits.shape[1]
    if n_groups is None:
        n_groups = int(np.clip(counts.sum() // 50, 3, 10))  # about 50 persons in a group
    means, ones, sizes = np.zeros((3, d, n_groups))
    for item in range(d):
        answered = ~np.isnan(bits[:, item]) & (counts > 0)
        own, times = expected[answered, item], counts[answered]
        group = _equal_groups(own, times, n_groups)
        sizes[item] = np.bincount(group, times, minlength=n_groups)
        means[item] = np.bincount(group, times * own, minlength=n_groups)
        ones[item] = np.bincount(group, times * bits[answered, item], minlength=n_groups)
    with np.errstate(invalid="ignore"):
        means, shares = means / sizes, ones / sizes
    low, high = wilson(shares, sizes)
    places = np.stack([_inverse(nodes, curves[:, item], means[item]) for item in range(d)])
    return GroupsOfPersons(means, shares, low, high, sizes, places)


def _distinct(bits: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Find the distinct rows, and the weight of each."""
    codes = np.where(np.isnan(bits), 2, bits).astype(np.uint8)
    rows, which = np.unique(codes, axis=0, return_inverse=True)
    counts = np.bincount(which.ravel(), weights, minlength=len(rows)).astype(np.float64)
    return np.where(rows == 2, np.nan, rows), counts


def _expected_by_others(bits: np.ndarray, log_weights: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Compute P(item = 1 | the other answers of the row), (n, d)."""
    tiny = np.finfo(np.float64).tiny
    log_one, log_zero = np.log(np.maximum(curves, tiny)), np.log(np.maximum(1 - curves, tiny))  # (m, d)
    expected = np.empty(bits.shape)
    step = max(1, 2**22 // len(curves))  # rows x nodes held at once
    for start in range(0, len(bits), step):
        some = bits[start : start + step]
        ones, zeros = some == 1, some == 0
        joint = ones @ log_one.T + zeros @ log_zero.T + log_weights
        for item in range(bits.shape[1]):
            own = ones[:, [item]] * log_one[:, item] + zeros[:, [item]] * log_zero[:, item]
            others = joint - own
            share = np.exp(others - logsumexp(others, axis=1, keepdims=True))
            expected[start : start + step, item] = share @ curves[:, item]
    return expected


def _equal_groups(values: np.ndarray, counts: np.ndarray, n_groups: int) -> np.ndarray:
    """Group values by size; equal values stay together, and groups are about equally large."""
    order = np.argsort(values, kind="stable")
    steps = np.concatenate([[False], np.diff(values[order]) > 1e-9])  # what differs by rounding is equal
    tied = np.empty(len(values), int)
    tied[order] = np.cumsum(steps)
    each = np.bincount(tied, counts)
    middle = np.cumsum(each) - each / 2
    return np.minimum((n_groups * middle / each.sum()).astype(int), n_groups - 1)[tied] if len(values) else tied


def _inverse(nodes: np.ndarray, curve: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Invert a rising or falling curve at given values; NaN for NaN, and 0 where it hardly changes."""
    if np.ptp(curve) < 1e-6:  # a curve that rises by less says nothing of the place
        return np.where(np.isnan(values), np.nan, 0.0)
    up = curve if curve[-1] > curve[0] else curve[::-1]
    places = nodes if curve[-1] > curve[0] else nodes[::-1]
    return np.interp(values, up, places)


# --- Wright map ---


class WrightMap(NamedTuple):
    """Persons and items on one scale."""

    # low, high: ends of the scale
    low: float
    high: float
    edges: np.ndarray  # (b + 1,):
    persons: np.ndarray  # (b,): persons in each bin
    places: np.ndarray  # (d,): difficulties; those beyond the scale at its end
    beyond: np.ndarray  # (d,): -1, 0 or 1: below the scale, on it, above it


def wright_map(scores: np.ndarray, difficulty: np.ndarray, weights: np.ndarray | None = None) -> WrightMap:
    """Place persons and items on the scale that both share.

    Parameters
    ----------
    scores : (n,) array
        Of persons; NaN is left out.
    difficulty : (d,) array
        Of items; NaN or infinite for one that does not discriminate, which has no place (NaN).
    weights : (n,) array or None
        How often each person counts; None for once.

    Examples
    --------
    >>> found = wright_map(np.array([-1.0, 0.0, 1.0]), np.array([0.5, 40.0, np.inf]))
    >>> found.beyond.tolist(), int(found.persons.sum())
    ([0, 1, 1], 3)
    """
    scores, difficulty = np.asarray(scores, np.float64), np.asarray(difficulty, np.float64)
    known = np.isfinite(scores)
    if not known.any():
        raise DataError("a Wright map needs scores of persons, and none is a finite number")
    # standard deviations of the trait: items beyond are written at the edge
    near = difficulty[np.abs(difficulty) <= 6.0]
    inside = np.concatenate([scores[known], near])
    reach = max(float(np.ptp(inside)), 1.0)
    low, high = float(inside.min() - 0.04 * reach), float(inside.max() + 0.04 * reach)
    n_bins = int(np.clip(2 * np.cbrt(known.sum()), 8, 32))
    times = None if weights is None else np.asarray(weights, np.float64)[known]
    persons, edges = np.histogram(scores[known], n_bins, (low, high), weights=times)
    beyond = np.select([difficulty < low, difficulty > high], [-1, 1], 0)
    return WrightMap(low, high, edges, persons, np.clip(difficulty, low, high), beyond)


class NameColumns(NamedTuple):
    """Places of names beside a scale: `columns` (d,) from 0, the nearest; `heights` (d,) of their middles in points."""

    columns: np.ndarray
    heights: np.ndarray


def name_columns(
    places: np.ndarray, widths: Sequence[float] | np.ndarray, line: float, size: tuple[float, float]
) -> NameColumns:
    """Place names beside a scale, in several columns, each at its height and none on another.

    A name goes to the nearest column that is free at its height.  Where none is, names are moved up or down, in order.

    `places` (d,): wanted heights, in points, as are all lengths here.  `widths`: (d,).  `line`: height of a line of
    text.  `size`: (width, height) of the room.

    >>> found = name_columns(np.array([10.0, 50.0, 51.0]), [20.0, 20.0, 20.0], 10.0, (100.0, 100.0))
    >>> found.columns.tolist(), found.heights.tolist()
    ([0, 0, 1], [10.0, 50.0, 51.0])
    """
    places = np.asarray(places, np.float64)
    most = max(1, int(size[0] // max(np.max(widths, initial=1.0), 1.0)))
    columns, heights, last = np.zeros(len(places), int), places.copy(), np.full(most, -np.inf)
    for item in np.argsort(places, kind="stable"):
        # names half a line from their place still tell it
        free = np.flatnonzero(places[item] - last >= line * 0.5)
        column = int(free[0]) if len(free) else int(np.argmin(last))
        columns[item], last[column] = column, max(places[item], last[column] + line)
    for column in range(most):
        here = columns == column
        heights[here] = spread_apart(places[here], np.full(here.sum(), line), 0.0, size[1])
    return NameColumns(columns, heights)
