"""Standard errors and intervals of latent classes, by the observed information in the metric of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from latentbits.reports.classes import BOUND_PROBABILITY, class_names, shares_of
from latentbits.reports.information import inverse_on, moving, row_part
from latentbits.reports.patterns import Patterns, blocks_of
from latentbits.reports.record import Report, Table

__all__ = ["MOST_PARAMETERS", "ClassErrors", "class_errors", "information"]

MOST_PARAMETERS = 2000  # whose squares are held and inverted
MOST_CLASSES_NAMED = 5


@dataclass(frozen=True)
class ClassErrors(Report):
    """Standard errors of shares and probabilities of classes, and intervals.

    Attributes
    ----------
    weights, means : (classes,) and (classes, columns)
        Standard errors, NaN of what is held at its bound.
    weights_low, weights_high, means_low, means_high
        Intervals, symmetric on the scale of log-odds.
    covariance : (classes + classes x columns,) * 2
        Of all estimates: shares first, then the probabilities of the first class, of the second, ...
    shares, probabilities
        The estimates.
    names
        Of the columns.
    level
        Of the intervals.
    notes
        What has to be said of these numbers.
    """

    weights: np.ndarray
    means: np.ndarray
    weights_low: np.ndarray
    weights_high: np.ndarray
    means_low: np.ndarray
    means_high: np.ndarray
    covariance: np.ndarray
    shares: np.ndarray
    probabilities: np.ndarray
    names: list[str]
    level: float
    notes: tuple[str, ...]

    def table(self) -> Table:
        classes = class_names(len(self.weights))
        index = [f"share of {c}" for c in classes] + [f"{c}: {name}" for c in classes for name in self.names]

        def stacked(of_weights: np.ndarray, of_means: np.ndarray) -> np.ndarray:
            return np.concatenate([of_weights, of_means.ravel()])

        columns = {
            "estimate": stacked(self.shares, self.probabilities).round(12),
            "standard error": stacked(self.weights, self.means),
            "low": stacked(self.weights_low, self.means_low),
            "high": stacked(self.weights_high, self.means_high),
        }
        return Table(index, columns, f"{100 * self.level:g} % intervals", self.notes)


class Information(NamedTuple):
    """Information of rows on (w_1, m_11, m_12, ..., w_2, m_21, ...): minus the second derivatives, the spread of the
    scores and the first derivatives, each (classes x (1 + columns)) a side; of what is held, 0."""

    matrix: np.ndarray
    spread: np.ndarray
    slope: np.ndarray


def information(
    rows: Patterns, weights: np.ndarray, means: np.ndarray, held: np.ndarray, smoothing: float = 0.0
) -> Information:
    """Compute it by Louis's identity; derivatives by shares are as if they could sum to anything, which `moving` mends.

    Parameters
    ----------
    rows
        The table.
    weights, means : (classes,) and (classes, columns)
        Where to take it.
    held : (classes, 1 + columns)
        Which of (w, m_1, m_2, ...) are at a bound, where derivatives may not exist.
    smoothing
        Each class counts as if it had seen this many more rows, with the column means of the table.
    """
    k, d = means.shape
    size = k * (1 + d)
    matrix, spread = np.zeros((size, size)), np.zeros((size, size))
    w, m = np.where(held[:, 0], 1.0, weights), np.where(held[:, 1:], 0.5, means)
    members, ones, zeros = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    for some in blocks_of(len(rows.bits), 4 * size):
        bits, counts = rows.bits[some], rows.counts[some]
        share, _ = shares_of(bits, weights, means)
        one, zero = (bits == 1).astype(float), (bits == 0).astype(float)
        own = np.empty((len(bits), k, 1 + d))
        own[:, :, 0] = 1 / w
        own[:, :, 1:] = one[:, None] / m - zero[:, None] / (1 - m)
        own[:, held] = 0
        part, mean = row_part(share, own, counts)
        matrix += part
        spread += mean.T @ (rows.squares[some][:, None] * mean)
        weighted = counts[:, None] * share
        members += weighted.sum(0)
        ones += weighted.T @ one
        zeros += weighted.T @ zero
    if smoothing > 0:  # the prior of the fit
        all_ones, all_zeros = ones.sum(0), zeros.sum(0)
        base = (all_ones + smoothing / 2) / (all_ones + all_zeros + smoothing)
        members, ones, zeros = members + smoothing, ones + smoothing * base, zeros + smoothing * (1 - base)
    complete = np.concatenate([(members / w**2)[:, None], ones / m**2 + zeros / (1 - m) ** 2], 1)
    slope = np.concatenate([(members / w - members.sum())[:, None], ones / m - zeros / (1 - m)], 1)
    complete[held] = slope[held] = 0
    matrix[np.diag_indices(size)] += complete.ravel()
    return Information(matrix, spread, slope.ravel())


def class_errors(
    rows: Patterns,
    weights: np.ndarray,
    means: np.ndarray,
    names: list[str],
    smoothing: float = 0.0,
    level: float = 0.95,
    sampling: bool = False,
) -> ClassErrors:
    """Compute standard errors of shares and probabilities.

    `rows`: the table that the model was fitted to.  `weights`, `means` (classes,) and (classes, columns): the
    estimates.  `names`: of the columns.  `smoothing`: that of the fit, whose information is added.  `level`: of the
    intervals.  `sampling`: whether the weights of rows are those of a sample, and not counts: then the sandwich.
    """
    k, d = means.shape
    seen = rows.counts @ (rows.bits <= 1)
    never = np.zeros((k, 1 + d), bool)
    never[:, 1:] = seen == 0
    estimate = np.concatenate([weights[:, None], means], 1)
    at_bound = np.minimum(estimate, 1 - estimate) < BOUND_PROBABILITY
    at_bound[:, 1:] |= at_bound[:, :1] & (k > 1)  # a class without rows
    known = information(rows, weights, means, at_bound | never, smoothing)
    free = ~(at_bound | never)
    pulled = _pulled(estimate, known) & free
    free &= ~pulled
    free[:, 1:] &= free[:, :1] | (k == 1)
    basis = moving(free.ravel(), [np.arange(k) * (1 + d)])
    found = inverse_on(known.matrix, basis, known.spread if sampling else None)
    notes = _notes(~free & ~never, never[0, 1:], names, k)
    if found is None:
        found = np.full_like(known.matrix, np.nan)
        notes.append(
            "the observed information is singular, so nothing has a standard error (NaN): there are more classes than "
            "the data determine, or the fit has not converged"
        )
    if smoothing > 0:
        notes.append(
            f"with smoothing={smoothing:g}: errors of estimates that are drawn to the column means, whose own distance "
            "from the truth is not in them"
        )
    if sampling:
        notes.append("weights are those of a sample: errors of the sandwich form")
    fixed = ~free.ravel()
    if k == 1:
        fixed[0] = False  # a share of 1 that cannot be another
    found[fixed] = found[:, fixed] = np.nan
    places = np.arange(k * (1 + d)).reshape(k, 1 + d)
    order = np.concatenate([places[:, 0], places[:, 1:].ravel()])
    errors = np.sqrt(np.diag(found)).reshape(k, 1 + d)
    low, high = _interval(estimate, errors, level)
    return ClassErrors(
        weights=errors[:, 0],
        means=errors[:, 1:],
        weights_low=low[:, 0],
        weights_high=high[:, 0],
        means_low=low[:, 1:],
        means_high=high[:, 1:],
        covariance=found[np.ix_(order, order)],
        shares=weights,
        probabilities=means,
        names=names,
        level=level,
        notes=tuple(notes),
    )


def _pulled(estimate: np.ndarray, known: Information) -> np.ndarray:
    """Find what is near a bound and would be carried beyond it by Newton's step: learning stopped on the way to it."""
    slope, bend = known.slope.reshape(estimate.shape), np.diag(known.matrix).reshape(estimate.shape)
    gap = np.minimum(estimate, 1 - estimate)
    outwards = np.where(estimate < 0.5, -slope, slope)
    # near a bound it is looked whether the likelihood pulls a probability on to it
    return (gap < 0.01) & (outwards > 0) & (outwards > bend * gap)


def _interval(estimate: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Make intervals symmetric in log-odds; NaN where there is no error, and no width where it is 0."""
    inside = np.where(error > 0, np.clip(estimate, 1e-12, 1 - 1e-12), 0.5)
    half = norm.ppf((1 + level) / 2) * error / (inside * (1 - inside))
    ends = (expit(logit(inside) + sign * half) for sign in (-1, 1))
    low, high = (np.where(error == 0, estimate, np.where(np.isnan(error), np.nan, end)) for end in ends)
    return low, high


def _notes(held: np.ndarray, never: np.ndarray, names: list[str], k: int) -> list[str]:
    """Say what is held at its bound, and what was never seen."""
    notes = []
    classes = class_names(k)
    if k > 1 and held[:, 0].any():
        which = [classes[c] for c in np.flatnonzero(held[:, 0])]
        notes.append(f"no row is of {', '.join(which)}: share and probabilities have no standard error (NaN)")
        held = held & ~held[:, :1]
    which = [f"{classes[c]}: {names[j]}" for c, j in np.argwhere(held[:, 1:])]
    if which:
        more = f" and {len(which) - MOST_CLASSES_NAMED} more" if len(which) > MOST_CLASSES_NAMED else ""
        notes.append(
            f"{len(which)} probabilities are at 0 or 1 and held there, without a standard error (NaN): "
            f"{', '.join(which[:MOST_CLASSES_NAMED])}{more}"
        )
    if never.any():
        which = [names[j] for j in np.flatnonzero(never)]
        notes.append(f"never observed, so without a standard error (NaN): {', '.join(which[:MOST_CLASSES_NAMED])}")
    return notes
