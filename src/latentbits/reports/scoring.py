"""Scores of rows given the items: posterior mean, mode, maximum likelihood, and weighted likelihood.

The last maximises log-likelihood + 1/2 log I, with I the test information.  Without lower asymptotes that solves the
equation of Warm (1989); with them his, which has the sum of P' P'' / (P (1 - P)) in place of I', is another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from latentbits.reports.items import Answers, Grid, Items, curves, grid_for, log_curves, slices
from latentbits.reports.record import Report, Table

__all__ = ["METHODS", "Estimates", "PlausibleValues", "draw", "estimates", "log_posterior", "posterior_means"]

METHODS = ("eap", "map", "ml", "wle")
REACH_ASINH = 5.0  # u: the search for a maximum in one dimension covers sinh(u), some 74 on either side
N_GRID_POINTS = 401  # in u: steps of 0.025


class Estimates(NamedTuple):
    """Scores of patterns and their standard errors, both (patterns, dimensions)."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class PlausibleValues(Report):
    """Draws from the posterior of each row: to be analysed one after the other, and the results put together.

    Attributes
    ----------
    draws
        (draws, rows, dimensions).
    """

    draws: np.ndarray

    def table(self) -> Table:
        """Make one row for each row of the table, and a column for each draw and dimension."""
        n_draws, n, q = self.draws.shape
        names = {f"draw {i + 1}" + (f", {k + 1}" if q > 1 else ""): (i, k) for i in range(n_draws) for k in range(q)}
        return Table([str(row) for row in range(n)], {name: self.draws[i, :, k] for name, (i, k) in names.items()})

    def __str__(self) -> str:
        n_draws, n, q = self.draws.shape
        return f"{n_draws} plausible values of {n} rows" + (f" in {q} dimensions" if q > 1 else "")


def estimates(items: Items, answers: Answers, method: str) -> Estimates:
    """Score patterns.

    `items`: of one dimension for "wle", of up to three for "eap".  `method`: one of `METHODS`.  Returns estimates
    whose errors are the posterior's standard deviation for "eap", (I + 1)^(-1/2) for "map", and I^(-1/2), with the test
    information I at the score, for "ml" and "wle".  A score that is infinite (in several dimensions: that has an
    infinite coordinate, which is NaN) or that nothing was answered for (NaN) has no error.
    """
    if method == "eap":
        return posterior_means(items, answers)
    if items.n_dimensions > 1:
        if method == "wle":
            raise ValueError(f"scores of weighted likelihood are for one dimension, and there are {items.n_dimensions}")
        return _in_space(items, answers, 1.0 if method == "map" else 0.0)
    return _on_line(items, answers, 1.0 if method == "map" else 0.0, warm=method == "wle")


def log_posterior(items: Items, rule: Grid, right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Compute log P(answers, point) at the points of a grid, (patterns, points)."""
    log_right, log_wrong = log_curves(items, rule.points)
    return right @ log_right.T + wrong @ log_wrong.T + np.log(rule.weights)


def posterior_means(items: Items, answers: Answers) -> Estimates:
    """Compute means and standard deviations of the posteriors, on a grid."""
    rule = grid_for(items)
    value = np.zeros((len(answers.rows), items.n_dimensions))
    error = np.ones_like(value)
    for some in slices(len(value), len(rule.weights)):
        part = answers.only(some)
        posterior = log_posterior(items, rule, part.right, part.wrong)
        posterior = np.exp(posterior - posterior.max(1, keepdims=True))
        posterior /= posterior.sum(1, keepdims=True)
        value[some] = posterior @ rule.points
        error[some] = np.sqrt(np.maximum(posterior @ rule.points**2 - value[some] ** 2, 0))
    return Estimates(value, error)


def _on_line(items: Items, answers: Answers, prior: float, warm: bool) -> Estimates:
    """Find maxima in one dimension: the best of many points, and between its neighbours where the derivative is 0."""
    slope = items.slopes[:, 0]
    value, error = np.full((2, len(answers.rows)), np.nan)
    line = np.sinh(np.linspace(-REACH_ASINH, REACH_ASINH, N_GRID_POINTS)) / min(1.0, np.abs(slope).max(initial=1e-9))
    log_right, log_wrong = log_curves(items, line[:, None])
    at_line = curves(items, line[:, None]).information * slope**2
    for some in slices(len(value), max(N_GRID_POINTS, 8 * len(slope))):
        part = answers.only(some)
        right, wrong = part.right, part.wrong
        height = right @ log_right.T + wrong @ log_wrong.T - 0.5 * prior * line**2
        if warm:
            height += 0.5 * np.log(np.maximum((right + wrong) @ at_line.T, np.finfo(float).tiny))
        best = height.argmax(1)
        inside = np.clip(best, 1, N_GRID_POINTS - 2)
        low, high = line[inside - 1], line[inside + 1]
        for _ in range(60):  # of a step: more than the digits of float64
            middle = 0.5 * (low + high)
            rising = _rise(items, middle, right, wrong, prior, warm) > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        found = 0.5 * (low + high)
        if not prior:
            informative = (right + wrong) * (slope != 0)
            up = (right * (slope > 0) + wrong * (slope < 0)).sum(1)
            none = informative.sum(1) == 0
            if not warm:
                top, bottom = up == informative.sum(1), up == 0
                found = np.where(
                    top | (best == N_GRID_POINTS - 1), np.inf, np.where(bottom | (best == 0), -np.inf, found)
                )
            found[none] = np.nan
        value[some] = found
        finite = np.where(np.isfinite(found), found, 0)
        information = (right + wrong) * curves(items, finite[:, None]).information * slope**2
        with np.errstate(divide="ignore"):
            error[some] = np.where(np.isfinite(found), 1 / np.sqrt(information.sum(1) + prior), np.nan)
    return Estimates(value[:, None], error[:, None])


def _rise(items: Items, z: np.ndarray, right: np.ndarray, wrong: np.ndarray, prior: float, warm: bool) -> np.ndarray:
    """Compute the derivative of what is maximised, for each pattern at its point."""
    slope, at = items.slopes[:, 0], curves(items, z[:, None])
    rise = (right * at.up - wrong * at.down) @ slope - prior * z
    if warm:
        information = (right + wrong) * at.information * slope**2
        change = information * slope * (2 - 3 * at.sigmoid - at.up)
        rise += 0.5 * change.sum(1) / np.maximum(information.sum(1), np.finfo(float).tiny)
    return rise


def _in_space(items: Items, answers: Answers, prior: float) -> Estimates:
    """Find maxima in several dimensions, by Fisher's scoring with halved steps."""
    a, q = items.slopes, items.n_dimensions
    value, error = np.full((2, len(answers.rows), q), np.nan)
    for some in slices(len(value), 4 * len(a) * q * q):
        part = answers.only(some)
        right, wrong = part.right, part.wrong
        z, open_rows = np.zeros((len(right), q)), np.ones(len(right), bool)
        height = _height(items, z, right, wrong, prior)
        for _ in range(100):  # of Fisher scoring
            information = _information(items, z, right + wrong, prior)
            solvable = np.linalg.eigvalsh(information)[:, 0] > 1e-10
            information[~solvable] = np.eye(q)
            at = curves(items, z)
            step = np.linalg.solve(information, ((right * at.up - wrong * at.down) @ a - prior * z)[..., None])[..., 0]
            step[~(solvable & open_rows)] = 0
            for _ in range(30):
                new = _height(items, z + step, right, wrong, prior)
                worse = new < height - 1e-12 * np.abs(height)
                if not worse.any():
                    break
                step[worse] *= 0.5
            z, height = z + step, new
            open_rows &= np.abs(z @ a.T).max(1) < 30.0  # beyond 30 logits a maximum is taken to be infinite
            if np.abs(step).max(initial=0) < 1e-10:
                break
        covariance = np.full((len(z), q, q), np.nan)
        found = open_rows & solvable & (np.abs(step).max(1) < 1e-6)
        covariance[found] = np.linalg.inv(_information(items, z, right + wrong, prior)[found])
        value[some] = np.where(found[:, None], z, np.nan)
        error[some] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    return Estimates(value, error)


def _height(items: Items, z: np.ndarray, right: np.ndarray, wrong: np.ndarray, prior: float) -> np.ndarray:
    log_right, log_wrong = log_curves(items, z)
    # an answer that was not given counts nothing, also where its logarithm is infinite
    given = np.where(right > 0, log_right, 0) + np.where(wrong > 0, log_wrong, 0)
    return given.sum(-1) - 0.5 * prior * np.sum(z**2, -1)


def _information(items: Items, z: np.ndarray, seen: np.ndarray, prior: float) -> np.ndarray:
    products = items.slopes[:, :, None] * items.slopes[:, None, :]
    return np.tensordot(curves(items, z).information * seen, products, 1) + prior * np.eye(items.n_dimensions)


def draw(
    items: Items,
    answers: Answers,
    prior: tuple[np.ndarray, np.ndarray],
    mean: np.ndarray,
    covariance: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw from the posterior of every row of the table, (rows, dimensions).

    By an independence sampler: Student proposals around a mean near the posterior's own, with such a covariance, whose
    tails are the heavier, so that most are accepted.

    `prior`: mean and standard deviation of each row's latents before it has answered, both (rows, 1).  `mean`,
    `covariance`: of the proposals of each row, (rows, dimensions) and (rows, dimensions, dimensions).
    """
    n, q = mean.shape
    drawn = np.empty((n, q))
    root = np.linalg.cholesky(covariance)

    for some in slices(n, 8 * len(items.names)):
        rows = answers.rows[answers.place[some]]
        right, wrong = (rows == 1).astype(float), (rows == 0).astype(float)
        centre, spread = (part[some] for part in prior)
        df = 5  # degrees of freedom of the Student proposals
        z, ratio = np.zeros((len(rows), q)), np.full(len(rows), -np.inf)
        for _ in range(64):  # of an independence sampler that accepts most proposals
            far = rng.standard_normal((len(rows), q)) / np.sqrt(rng.chisquare(df, (len(rows), 1)) / df)
            new = mean[some] + np.einsum("nij,nj->ni", root[some], far)
            proposed = -0.5 * (df + q) * np.log1p(np.sum(far**2, 1) / df)
            before = -0.5 * np.sum(((new - centre) / spread) ** 2, 1)
            new_ratio = _height(items, new, right, wrong, 0.0) + before - proposed
            taken = np.log(rng.random(len(rows))) < new_ratio - ratio
            z[taken], ratio[taken] = new[taken], new_ratio[taken]
        drawn[some] = z
    return drawn
