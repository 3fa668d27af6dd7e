"""Differences of classes in an outside variable, with the correction for rows that are put into the wrong class.

Rows are given their most probable class; with P(given s | class t) known from the posteriors, what was observed of the
given classes shows what holds for the classes themselves:

- by weights (Bolck, Croon & Hagenaars 2004; Vermunt 2010): each row counts for class t with the entry of the inverse of
  that matrix that belongs to the class it was given, which may be negative;
- by maximum likelihood (Vermunt 2010): a mixture of the outside variable's distributions in which the given class is an
  indicator of the class with known errors; by EM.

Errors are those of the sandwich form, which hold classes and their errors of classification for known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from latentbits.reports.classes import BOUND_PROBABILITY, class_names
from latentbits.reports.information import inverse_on, moving, row_part, wald
from latentbits.reports.record import Report, Table

__all__ = ["METHODS", "ClassDifferences", "class_differences"]

METHODS = ("bch", "ml")


@dataclass(frozen=True)
class ClassDifferences(Report):
    """Mean of an outside variable in each class, or shares of its categories, corrected for wrong classification.

    Attributes
    ----------
    estimate, error : (classes,) or (classes, categories)
        Means or shares, and their standard errors.
    uncorrected
        The same by the classes that rows were given, as if these were right.
    covariance
        Of the estimates, class after class.
    statistic, df, p
        Wald's test that all classes are alike.
    pairs : (pairs, 2)
        Numbers of the classes of each pair, from 0.
    difference, difference_error : (pairs,) or (pairs, categories)
        First less second, and its standard error.
    pair_statistic, pair_df, pair_p : (pairs,)
        Wald's test that the two are alike, not adjusted for their number.
    categories
        Labels; empty for a continuous variable.
    method
        "bch" or "ml".
    n_rows
        Rows that were used, each as often as it counts.
    notes
        What has to be said of these numbers.
    """

    estimate: np.ndarray
    error: np.ndarray
    uncorrected: np.ndarray
    covariance: np.ndarray
    statistic: float
    df: int
    p: float
    pairs: np.ndarray
    difference: np.ndarray
    difference_error: np.ndarray
    pair_statistic: np.ndarray
    pair_df: np.ndarray
    pair_p: np.ndarray
    categories: list[str]
    method: str
    n_rows: float
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each class, and below them one for each pair."""
        k = len(self.estimate)
        names = class_names(k)
        pairs = [f"{names[a]} - {names[b]}" for a, b in self.pairs.tolist()]
        columns: dict[str, Any] = {}
        for c, name in enumerate(self.categories or ["mean"]):
            values, errors = ((x[:, c] if self.categories else x) for x in (self.estimate, self.error))
            gaps, gap_errors = ((x[:, c] if self.categories else x) for x in (self.difference, self.difference_error))
            columns[name] = np.concatenate([values, gaps])
            columns[f"error of {name}" if self.categories else "standard error"] = np.concatenate([errors, gap_errors])
        nothing = np.full(k, np.nan)
        columns["X2"] = np.concatenate([nothing, self.pair_statistic])
        columns["p"] = np.concatenate([nothing, self.pair_p])
        alike = f"all classes alike: X2 {self.statistic:.4g}, df {self.df}, p {self.p:.4g}"
        return Table([*names, *pairs], columns, f"{alike} ({self.method})", self.notes)


class _Found(NamedTuple):
    """Estimates (classes, categories), their covariance, class after class, and notes."""

    estimate: np.ndarray
    covariance: np.ndarray
    notes: list[str]


def class_differences(
    given: np.ndarray, y: np.ndarray, counts: np.ndarray, errors: np.ndarray, method: str, categories: list[str]
) -> ClassDifferences:
    """Compare classes in y.

    Parameters
    ----------
    given : (rows,)
        Number of the class that each row was given.
    y : (rows,)
        Real numbers; or whole numbers from 0 that stand for categories.
    counts : (rows,)
        How often each row counts.
    errors : (classes, classes)
        P(given s | class t), rows are classes t.
    method : {"bch", "ml"}
        By weights or by maximum likelihood.
    categories
        Their labels; empty for real numbers.
    """
    k, several = len(errors), max(len(categories), 1)
    (given, y), counts = _merged(given, y, counts)
    rank = np.linalg.matrix_rank(errors, tol=1e-6)
    if not np.isfinite(errors).all() or rank < k:
        raise ValueError(
            f"the classes that rows are given distinguish only {rank} of {k} classes, so nothing can be corrected: "
            "perhaps a class is the most probable one of no row; fit fewer classes"
        )
    values = np.eye(several)[y.astype(int)] if categories else y[:, None]
    given = given.astype(int)
    by_given = np.eye(k)[given]
    with np.errstate(divide="ignore", invalid="ignore"):
        uncorrected = (by_given.T @ (counts[:, None] * values)) / (by_given.T @ counts)[:, None]
    weights = by_given @ np.linalg.inv(errors)
    found = _weighted(weights, values, counts)
    if method == "ml":
        shares = counts @ weights / counts.sum()
        likely, start = errors[:, given].T, found.estimate
        if categories:
            found = _categories(likely, shares, start, values, counts)
        else:
            found = _normal(likely, shares, start[:, 0], y, counts)
    elif categories and ((found.estimate < 0) | (found.estimate > 1)).any():
        found.notes.append("weights may be negative, and so some shares are below 0 or above 1: method='ml' has none")
    return _compared(found, uncorrected, categories, method, float(counts.sum()))


def _merged(given: np.ndarray, y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find distinct pairs of class and value, as two lines, and count them."""
    found, place = np.unique(np.column_stack([given, y]), axis=0, return_inverse=True)
    return np.array([found[:, 0], found[:, 1]]), np.bincount(place.ravel(), counts)


def _weighted(weights: np.ndarray, values: np.ndarray, counts: np.ndarray) -> _Found:
    """Compute means by weights that may be negative, and the sandwich of their estimating equations."""
    (_, k), m = weights.shape, values.shape[1]
    total = counts @ weights
    notes = []
    if (total <= 0).any():
        notes.append("weights of a class sum to nothing or less, so that it has no mean (NaN)")
        total = np.where(total > 0, total, np.nan)
    estimate = (weights.T @ (counts[:, None] * values)) / total[:, None]
    scores = (weights[:, :, None] * (values[:, None] - estimate)).reshape(len(values), k * m)
    meat = scores.T @ (counts[:, None] * scores)
    bread = np.repeat(total, m)
    return _Found(estimate, meat / np.outer(bread, bread), notes)


def _em(
    likely: np.ndarray, shares: np.ndarray, start: Any, log_density: Any, improve: Any, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Find shares, posteriors and parameters of the outside variable at the maximum of the likelihood."""
    n, before, params = counts.sum(), -np.inf, start
    shares = np.maximum(shares, 0.01)
    shares = shares / shares.sum()
    for _ in range(20_000):  # EM of overlapping classes crawls; a pass is over distinct values alone
        density = log_density(params)
        top = density.max(1, keepdims=True)
        joint = shares * likely * np.exp(density - top)
        total = joint.sum(1, keepdims=True)
        posterior = joint / total
        value = float(counts @ (np.log(total) + top)[:, 0])
        weighted = counts[:, None] * posterior
        if value - before < 1e-10 * n:
            break
        before, shares, params = value, weighted.sum(0) / n, improve(weighted)
    return shares, posterior, params


def _normal(likely: np.ndarray, shares: np.ndarray, means: np.ndarray, y: np.ndarray, counts: np.ndarray) -> _Found:
    """Find the normal distribution of each class: its mean and variance."""
    n, k = likely.shape
    overall = float(counts @ (y - counts @ y / counts.sum()) ** 2 / counts.sum())
    least = max(1e-6 * overall, np.finfo(float).tiny)

    def log_density(params: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        mean, variance = params
        return -0.5 * ((y[:, None] - mean) ** 2 / variance + np.log(variance))

    def improve(weighted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = np.maximum(weighted.sum(0), np.finfo(float).tiny)
        mean = y @ weighted / total
        variance = np.einsum("nk,nk->k", weighted, (y[:, None] - mean) ** 2) / total
        return mean, np.maximum(variance, least)

    start = (np.clip(np.nan_to_num(means, nan=float(np.mean(y))), y.min(), y.max()), np.full(k, max(overall, least)))
    by_bits = (shares * likely).argmax(1)
    shares, posterior, (mean, variance) = _em(likely, shares, start, log_density, improve, counts)
    moved = counts @ (posterior.argmax(1) != by_bits) / counts.sum()
    gap = y[:, None] - mean
    own = np.stack(
        [
            np.broadcast_to(1 / np.maximum(shares, BOUND_PROBABILITY), (n, k)),
            gap / variance,
            (gap**2 / variance - 1) / (2 * variance),
        ],
        2,
    )
    weighted = counts[:, None] * posterior
    members, first, second = weighted.sum(0), (weighted * gap).sum(0), (weighted * gap**2).sum(0)
    complete = np.zeros((k, 3, 3))
    complete[:, 0, 0] = members / np.maximum(shares, BOUND_PROBABILITY) ** 2
    complete[:, 1, 1] = members / variance
    complete[:, 1, 2] = complete[:, 2, 1] = first / variance**2
    complete[:, 2, 2] = second / variance**3 - members / (2 * variance**2)
    free = np.ones((k, 3), bool)
    free[shares < BOUND_PROBABILITY] = False
    free[:, 2] &= variance > least
    notes = []
    if not free.all():
        notes.append("a class has no rows left, or all of its rows are alike in y: errors hold what is fixed by that")
    if moved > 0.2:  # of the rows, which y put into another class than the bits do
        notes.append(
            f"y puts {moved:.0%} of the rows into another class than X does: where y is not normal within classes, "
            "what is compared are parts of y, and not the classes of X. method='bch' assumes nothing of y"
        )
    free[:, 1] &= free[:, 2]
    covariance = _sandwich(own, posterior, complete, counts, free, [np.arange(k) * 3])
    places = np.arange(k) * 3 + 1
    if covariance is None:
        notes.append("the information is singular, so there are no standard errors (NaN)")
        return _Found(mean[:, None], np.full((k, k), np.nan), notes)
    return _Found(mean[:, None], covariance[np.ix_(places, places)], notes)


def _categories(
    likely: np.ndarray, shares: np.ndarray, start: np.ndarray, values: np.ndarray, counts: np.ndarray
) -> _Found:
    """Categories with shares for each class."""
    n, k = likely.shape
    m = values.shape[1]
    place = values.argmax(1)

    def log_density(p: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(p, 1e-300)).T[place]

    def improve(weighted: np.ndarray) -> np.ndarray:
        found = weighted.T @ values
        return found / np.maximum(found.sum(1, keepdims=True), np.finfo(float).tiny)

    begin = np.clip(np.nan_to_num(start, nan=1 / m), 0.01, 1)
    shares, posterior, p = _em(likely, shares, begin / begin.sum(1, keepdims=True), log_density, improve, counts)
    free = np.concatenate(
        [(shares >= BOUND_PROBABILITY)[:, None], (p >= BOUND_PROBABILITY) & (p <= 1 - BOUND_PROBABILITY)], 1
    )
    free[shares < BOUND_PROBABILITY] = False
    inside = np.where(free, np.concatenate([shares[:, None], p], 1), 1.0)
    own = np.concatenate([np.ones((n, k, 1)), np.broadcast_to(values[:, None], (n, k, m))], 2) / inside
    own[:, ~free] = 0
    weighted = counts[:, None] * posterior
    met = np.concatenate([weighted.sum(0)[:, None], weighted.T @ values], 1)
    complete = np.einsum("ki,ij->kij", np.where(free, met / inside**2, 0), np.eye(1 + m))
    sums = [np.arange(k) * (1 + m), *(c * (1 + m) + 1 + np.arange(m) for c in range(k))]
    covariance = _sandwich(own, posterior, complete, counts, free, sums)
    places = np.arange(k * (1 + m)).reshape(k, 1 + m)[:, 1:].ravel()
    notes = []
    if not free.all():
        notes.append("shares at 0 or 1 are held there, without a standard error (NaN)")
    if covariance is None:
        notes.append("the information is singular, so there are no standard errors (NaN)")
        return _Found(p, np.full((k * m, k * m), np.nan), notes)
    return _Found(p, covariance[np.ix_(places, places)], notes)


def _sandwich(
    own: np.ndarray,
    posterior: np.ndarray,
    complete: np.ndarray,
    counts: np.ndarray,
    free: np.ndarray,
    sums: list[np.ndarray],
) -> np.ndarray | None:
    """Compute the covariance of estimates by their information and the spread of scores; NaN of what is not free."""
    k, size = own.shape[1:]
    information, mean = row_part(posterior, own, counts)
    for c in range(k):
        information[c * size : (c + 1) * size, c * size : (c + 1) * size] += complete[c]
    spread = mean.T @ (counts[:, None] * mean)
    found = inverse_on(information, moving(free.ravel(), sums), spread)
    if found is not None:
        found[~free.ravel()] = found[:, ~free.ravel()] = np.nan
    return found


def _compared(
    found: _Found, uncorrected: np.ndarray, categories: list[str], method: str, n_rows: float
) -> ClassDifferences:
    """Test equality, of all classes and of pairs."""
    k, m = found.estimate.shape
    test = max(m - 1, 1)  # the last category is what the others leave
    at = np.arange(k * m).reshape(k, m)
    pairs = np.column_stack(np.triu_indices(k, 1))
    notes = list(found.notes)

    def alike(contrasts: np.ndarray) -> tuple[float, int]:
        # combinations of classes, of each category but the last
        matrix = np.zeros((len(contrasts) * test, k * m))
        for row, contrast in enumerate(contrasts):
            for c in range(test):
                matrix[row * test + c, at[:, c]] = contrast
        used = matrix.any(0)
        inner = found.covariance[np.ix_(used, used)]
        return wald(matrix @ found.estimate.ravel(), matrix[:, used] @ inner @ matrix[:, used].T)

    one = np.eye(k)
    statistic, df = alike(one[:-1] - one[1:])
    tests = [alike((one[a] - one[b])[None]) for a, b in pairs.tolist()]
    pair_statistic, pair_df = np.array([t[0] for t in tests]), np.array([t[1] for t in tests], int)
    if k > 1 and np.isnan([statistic, *pair_statistic]).any():
        notes.append("a test is missing (NaN) where a standard error is, or where estimates are tied to each other")
    by_pair = np.zeros((len(pairs), m))
    for c in range(m):
        own = found.covariance[np.ix_(at[:, c], at[:, c])]
        variance = np.diag(own)
        by_pair[:, c] = variance[pairs[:, 0]] + variance[pairs[:, 1]] - 2 * own[pairs[:, 0], pairs[:, 1]]
    errors = np.sqrt(np.diag(found.covariance)).reshape(k, m)
    gaps, gap_errors = found.estimate[pairs[:, 0]] - found.estimate[pairs[:, 1]], np.sqrt(np.maximum(by_pair, 0))

    def shaped(values: np.ndarray) -> np.ndarray:
        return values if categories else values[:, 0]

    return ClassDifferences(
        estimate=shaped(found.estimate),
        error=shaped(errors),
        uncorrected=shaped(uncorrected),
        covariance=found.covariance,
        statistic=statistic,
        df=df,
        p=float(chi2.sf(statistic, df)) if df else float("nan"),
        pairs=pairs,
        difference=shaped(gaps),
        difference_error=shaped(gap_errors),
        pair_statistic=pair_statistic,
        pair_df=pair_df,
        pair_p=chi2.sf(pair_statistic, np.maximum(pair_df, 1)),
        categories=categories,
        method=method,
        n_rows=n_rows,
        notes=tuple(notes),
    )
