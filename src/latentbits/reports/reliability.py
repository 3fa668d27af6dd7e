"""How reliably a test measures: marginal and empirical reliability, alpha, and the information of the test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentbits.reports.items import Answers, Items, curves, grid_for
from latentbits.reports.record import Report, Table
from latentbits.reports.scoring import METHODS, Estimates

__all__ = ["Reliability", "TestInformation", "alpha", "empirical", "marginal", "reliability", "test_information"]


@dataclass(frozen=True)
class Reliability(Report):
    """Share of the variance of scores that is not error.

    Attributes
    ----------
    marginal
        Mean of I / (I + 1) over the population, I the test information; NaN in several dimensions.
    eap, map, ml, wle
        (dimensions,) var(score) / (var(score) + mean squared error) over the rows with a finite score of that kind; NaN
        where it is not defined.
    alpha
        Cronbach's alpha of the complete rows: for bits, KR-20.
    notes
        What has to be said of these numbers.
    """

    marginal: float
    eap: np.ndarray
    map: np.ndarray
    ml: np.ndarray
    wle: np.ndarray
    alpha: float
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each kind, a column for each dimension."""
        q = len(self.eap)
        once = [np.nan] * (q - 1)
        rows = [[self.marginal, *once], *(self[method] for method in METHODS), [self.alpha, *once]]
        names = ["marginal", *(f"empirical, {method.upper()}" for method in METHODS), "alpha"]
        titles = ["reliability"] if q == 1 else [f"reliability {k + 1}" for k in range(q)]
        return Table(names, {title: [row[k] for row in rows] for k, title in enumerate(titles)}, notes=self.notes)


@dataclass(frozen=True)
class TestInformation(Report):
    """Information of a test about the latent, by the place of the latent.

    Attributes
    ----------
    theta
        (points,).
    information
        Sum over the items of the Fisher information.
    error
        Its inverse root: the standard error of a maximum-likelihood score there.
    """

    __test__ = False  # the name is no test's

    theta: np.ndarray
    information: np.ndarray
    error: np.ndarray

    def table(self) -> Table:
        """Make one row for each point."""
        columns = {"information": self.information, "error": self.error}
        return Table([f"{point:g}" for point in self.theta], columns)


def test_information(items: Items, theta: np.ndarray) -> TestInformation:
    """Compute the information of the test at points of one dimension."""
    information = curves(items, theta[:, None]).information @ items.slopes[:, 0] ** 2
    with np.errstate(divide="ignore"):
        return TestInformation(theta, information, 1 / np.sqrt(information))


test_information.__test__ = False  # type: ignore[attr-defined]


def marginal(items: Items) -> float:
    """Compute the mean of I / (I + 1) over a standard normal."""
    rule = grid_for(items)
    information = test_information(items, rule.points[:, 0]).information
    return float(rule.weights @ (information / (information + 1)))


def empirical(scores: Estimates, counts: np.ndarray) -> np.ndarray:
    """Divide the variance of scores by its sum with their mean squared error, by dimension, over finite scores."""
    kept = np.isfinite(scores.value).all(1) & np.isfinite(scores.error).all(1)
    value, error, w = scores.value[kept], scores.error[kept], counts[kept]
    n = w.sum()
    if n <= 1:
        return np.full(scores.value.shape[1], np.nan)
    variance = w @ (value - w @ value / n) ** 2 / (n - 1)
    return variance / (variance + w @ error**2 / n)


def alpha(answers: Answers) -> float:
    """Compute Cronbach's alpha of complete rows; NaN where there are none, or sums do not vary."""
    d, n = answers.rows.shape[1], answers.counts.sum()
    if d < 2 or n <= 1:
        return float("nan")
    right, w = answers.right, answers.counts
    items, total = (w @ (x - w @ x / n) ** 2 for x in (right, right.sum(1)))
    return float(d / (d - 1) * (1 - items.sum() / total)) if total > 0 else float("nan")


def reliability(items: Items, answers: Answers, scores: dict[str, Estimates]) -> Reliability:
    """Compute every kind of reliability, from scores of the patterns by method."""
    q, notes = items.n_dimensions, []
    kept = answers.answered
    found = {}
    for method in METHODS:
        found[method] = np.full(q, np.nan)
        if method in scores:
            of_rows = Estimates(scores[method].value[kept], scores[method].error[kept])
            found[method] = empirical(of_rows, answers.counts[kept])
            infinite = answers.counts[kept][~np.isfinite(of_rows.value).all(1)].sum()
            if infinite:
                notes.append(f"{infinite:g} rows have no finite {method.upper()} score and are left out of that one")
    if answers.counts[kept].sum() <= 1:
        notes.append("there are no empirical reliabilities of a single row")
    whole = answers.only(answers.complete)
    of_sums = alpha(whole)
    if whole.counts.sum() < answers.counts[kept].sum():
        notes.append(f"alpha is of the {whole.counts.sum():g} rows that have answered every item")
    if np.isnan(of_sums):
        notes.append("there is no alpha: it takes two columns or more, and complete rows whose sums differ")
    if q > 1:
        notes.append("marginal reliability and WLE are for one dimension")
    return Reliability(marginal(items) if q == 1 else float("nan"), **found, alpha=of_sums, notes=tuple(notes))
