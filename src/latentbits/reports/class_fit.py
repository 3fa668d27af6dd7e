"""How well latent classes describe a table: its patterns, its pairs of columns, and how clearly rows are classified."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2

from latentbits.core.batch import MISSING
from latentbits.reports.classes import BOUND_PROBABILITY, as_counts, assign, class_names
from latentbits.reports.fit import FitReport
from latentbits.reports.patterns import Patterns, blocks_of
from latentbits.reports.record import Report, Table

__all__ = [
    "BivariateResiduals",
    "ClassFitReport",
    "Classification",
    "bivariate_residuals",
    "class_fit",
    "classification",
    "regression_fit",
    "saturated",
]


@dataclass(frozen=True)
class ClassFitReport(FitReport):
    """A `FitReport` with the statistics of latent classes.

    Attributes
    ----------
    g2, x2
        Likelihood ratio 2 sum O log(O / E) and Pearson's sum (O - E)^2 / E over all patterns that could be, observed or
        not.  With missing bits G2 is against the saturated model at its own maximum, and there is no X2 (NaN).
    df
        Patterns that could be, less 1, less the free parameters; columns that never vary make no patterns.
    g2_p, x2_p
        P(chi-squared with `df` degrees of freedom is as large); NaN where that would say nothing.
    entropy
        1 - EN / (n log k), EN the sum of the entropies of the rows' posteriors: 1 where each row is surely of one
        class, 0 where the classes of rows are anyone's guess.  NaN for one class.
    smallest_class
        Share of the smallest class.
    n_at_bound
        Probabilities at 0 or 1.
    """

    g2: float
    x2: float
    df: int | float
    g2_p: float
    x2_p: float
    entropy: float
    smallest_class: float
    n_at_bound: int

    def table(self) -> Table:
        return replace(super().table(), notes=self.notes)


def class_fit(
    report: FitReport,
    rows: Patterns,
    weights: np.ndarray,
    means: np.ndarray,
    idle: tuple[int, ...] = (),
    smoothing: float = 0.0,
) -> ClassFitReport:
    """Add the statistics of the patterns to a report.

    `report`: the report that every family has.  `rows`: the table.  `weights`, `means` (classes,) and (classes,
    columns): of the model.  `idle`: columns that never vary, or were never seen: they have no parameters and make no
    patterns.  `smoothing`: that of the fit; only without any the statistics are those of a maximum of the likelihood.
    """
    k, d = means.shape
    n, found = rows.n_rows, assign(rows, weights, means)
    cells = 2.0 ** min(d - len(idle), 1023)
    df = cells - 1 - report.n_parameters
    df = int(df) if abs(df) < 2**53 else df
    active = np.setdiff1d(np.arange(d), idle)
    g2, x2, notes = _statistics(rows, active, found.log_likelihood)
    at_bound = np.minimum(means, 1 - means)[:, active] < BOUND_PROBABILITY
    if at_bound.any():
        notes.append(
            f"{at_bound.sum()} of {at_bound.size} probabilities are at 0 or 1; the degrees of freedom count them as "
            "free parameters"
        )
    why_not = _no_chi_squared(n, cells, df, rows, smoothing)
    if why_not:
        notes.append(f"no p of G2 and X2: {why_not}")
    elif n < 5 * cells:  # with fewer rows a cell chi-squared is a poor guide
        notes.append(
            f"{n:g} rows in {cells:.0f} possible patterns are sparse: p of G2 and X2 by chi-squared are a poor guide, "
            "a bootstrap is a better one"
        )
    p = [np.nan if why_not or np.isnan(value) else float(chi2.sf(value, df)) for value in (g2, x2)]
    return ClassFitReport(
        **{**dict(report), "notes": (*report.notes, *notes)},
        g2=max(g2, 0.0),  # a saturated model may come out at a rounding error below it
        x2=max(x2, 0.0),
        df=df,
        g2_p=p[0],
        x2_p=p[1],
        entropy=_entropy(found.uncertainty, n, k),
        smallest_class=float(weights.min()),
        n_at_bound=int(at_bound.sum()),
    )


def _entropy(uncertainty: float, n_rows: float, n_classes: int) -> float:
    """Return 1 where each of the rows is surely of one class, 0 where all is to guess, NaN for one class."""
    return float("nan") if n_classes == 1 else float(1 - uncertainty / (n_rows * math.log(n_classes)))


def regression_fit(report: FitReport, share: np.ndarray, counts: np.ndarray, means: np.ndarray) -> ClassFitReport:
    """Add the statistics of classes whose shares depend on covariates: a pattern of bits has no one probability then.

    `report`: the report that every family has.  `share`, `counts` (rows, classes) and (rows,): posteriors of the rows,
    and how often each counts.  `means` (classes, columns): of the model.
    """
    k = len(means)
    uncertainty = -counts @ np.sum(share * np.log(np.where(share > 0, share, 1)), axis=1)
    note = "G2 and X2 are not defined with covariates, on which the probability of a pattern depends"
    return ClassFitReport(
        **{**dict(report), "notes": (*report.notes, note)},
        g2=np.nan,
        x2=np.nan,
        df=np.nan,
        g2_p=np.nan,
        x2_p=np.nan,
        entropy=_entropy(uncertainty, counts.sum(), k),
        smallest_class=float((counts @ share / counts.sum()).min()),
        n_at_bound=int((np.minimum(means, 1 - means) < BOUND_PROBABILITY).sum()),
    )


def _no_chi_squared(n: float, cells: float, df: float, rows: Patterns, smoothing: float) -> str:
    """Say why a chi-squared distribution would say nothing; empty where it does."""
    if df <= 0:
        return f"there are no more patterns than parameters (df {df:g})"
    if smoothing > 0:
        return f"smoothing={smoothing:g} keeps the model away from the maximum of the likelihood"
    if not np.array_equal(rows.counts, np.round(rows.counts)):
        return "weights that are no whole numbers are no counts of patterns"
    if n**2 < 10 * cells:  # below ten squared rows a cell it is none (Koehler & Larntz 1980)
        return f"{n:g} rows are too few for {cells:.4g} possible patterns (then a bootstrap)"
    return ""


def _statistics(rows: Patterns, active: np.ndarray, log_likelihood: np.ndarray) -> tuple[float, float, list[str]]:
    """Compute G2 and X2, with notes."""
    n, total = rows.n_rows, float(rows.counts @ log_likelihood)
    if not rows.has_holes:
        expected = n * np.exp(log_likelihood)
        g2 = 2 * (float(rows.counts @ np.log(rows.counts / n)) - total)
        with np.errstate(divide="ignore"):
            seen = float(np.sum((rows.counts - expected) ** 2 / expected))
        return g2, seen + max(n - float(expected.sum()), 0.0), []  # patterns that were not met add what is expected
    best = saturated(rows.bits[:, active], rows.counts)
    if best is None:
        return np.nan, np.nan, ["bits are missing, and patterns are too many for a saturated model of them: no G2, X2"]
    return (
        2 * (best - total),
        np.nan,
        ["bits are missing: G2 is against the saturated model fitted to what was observed, X2 is not defined"],
    )


def saturated(bits: np.ndarray, counts: np.ndarray) -> float | None:
    """Find the largest log-likelihood of any distribution of patterns, where bits are missing at random, by EM.

    None where it would take long.  The log-likelihood is concave in the probabilities of patterns, and n log of the
    largest factor by which EM would change one bounds what is left to gain.
    """
    bits, place = np.unique(bits, axis=0, return_inverse=True)
    counts = np.bincount(place.ravel(), counts)
    d, n = bits.shape[1], counts.sum()
    if len(bits) * 2.0**d > 2**20:  # patterns x cells for which this takes seconds
        return None
    cells = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    agrees = np.ones((len(bits), 2**d), bool)
    for j in range(d):
        agrees &= (bits[:, j] == MISSING)[:, None] | (bits[:, j][:, None] == cells[:, j])
    agrees = agrees[:, agrees.any(0)].astype(float)
    p = np.full(agrees.shape[1], 1 / agrees.shape[1])
    for _ in range(5000):
        inside = agrees @ p
        factor = agrees.T @ (counts / inside) / n
        if n * math.log(factor.max()) < 1e-3:  # nats by which it may be short of its maximum
            return float(counts @ np.log(inside))
        p *= factor
    return None


@dataclass(frozen=True)
class Classification(Report):
    """How clearly rows belong to classes.

    Attributes
    ----------
    counts : (classes,)
        Rows by their most probable (modal) class.
    posterior_by_modal : (classes, classes)
        Mean posterior of class t (columns) among the rows whose modal class is s (rows).
    modal_by_class : (classes, classes)
        P(modal class is s | class t): rows are true classes t.  The errors that `class_differences` corrects for.
    expected_error
        Share of rows that are expected not to be of their modal class.
    entropy
        As in `ClassFitReport`.
    notes
        What has to be said of these numbers.
    """

    counts: np.ndarray
    posterior_by_modal: np.ndarray
    modal_by_class: np.ndarray
    expected_error: float
    entropy: float
    notes: tuple[str, ...]

    def table(self) -> Table:
        names = class_names(len(self.counts))
        # what differs from 0 by rounding alone is shown as 0
        columns = {f"posterior of {name}": self.posterior_by_modal[:, t].round(12) for t, name in enumerate(names)}
        title = f"expected error {self.expected_error:.4g}, entropy {self.entropy:.4g}"
        return Table(
            [f"modal {name}" for name in names], {"rows": as_counts(self.counts), **columns}, title, self.notes
        )


def classification(rows: Patterns, weights: np.ndarray, means: np.ndarray) -> Classification:
    """Make both tables of classification, over all rows; `weights` (classes,), or (rows, classes) by covariates."""
    k, n, found = len(means), rows.n_rows, assign(rows, weights, means)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_modal = found.table / found.counts[:, None]
        by_class = (found.table / found.table.sum(0)).T
    empty = [name for name, count in zip(class_names(k), found.counts) if count == 0]
    notes = (f"no row is most probably of {', '.join(empty)}",) if empty else ()
    return Classification(
        counts=found.counts,
        posterior_by_modal=by_modal,
        modal_by_class=by_class,
        expected_error=float(max(1 - np.trace(found.table) / n, 0.0)),
        entropy=_entropy(found.uncertainty, n, k),
        notes=notes,
    )


@dataclass(frozen=True)
class BivariateResiduals(Report):
    """How well classes explain that columns go together: large where two columns do so within classes.

    Attributes
    ----------
    names
        Of the columns.
    pairs : (pairs, 2)
        Numbers of the columns of each pair.
    x2 : (pairs,)
        Pearson's X2 of the observed against the expected 2 x 2 table of the rows in which both were observed.
    n_rows : (pairs,)
        How many these are.
    matrix : (columns, columns)
        The same X2, NaN on the diagonal.
    notes
        What has to be said of these numbers.
    """

    names: list[str]
    pairs: np.ndarray
    x2: np.ndarray
    n_rows: np.ndarray
    matrix: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each pair, the largest first."""
        order = np.argsort(-np.nan_to_num(self.x2, nan=-1), kind="stable")
        index = [f"{self.names[i]} - {self.names[j]}" for i, j in self.pairs[order].tolist()]
        return Table(index, {"X2": self.x2[order].round(12), "rows": as_counts(self.n_rows[order])}, notes=self.notes)

    def shown(self) -> tuple[Table, ...]:
        """Keep the largest."""
        return (self.table().largest("pairs"),)


def bivariate_residuals(rows: Patterns, weights: np.ndarray, means: np.ndarray, names: list[str]) -> BivariateResiduals:
    """Set observed against expected 2 x 2 tables of all pairs of columns.

    `weights` are those of all rows, (classes,), or of each, (rows, classes), by covariates.
    """
    k, d = means.shape
    both, members = np.zeros((2, 2, d, d)), np.zeros((k, d, d))  # rows of a class that have observed a pair
    for some in blocks_of(len(rows.bits), (4 + k) * d):
        bits, counts = rows.bits[some], rows.counts[some][:, None]
        parts = [(bits == value).astype(float) for value in (0, 1)]
        for a in (0, 1):
            for b in (0, 1):
                both[a, b] += (counts * parts[a]).T @ parts[b]
        if weights.ndim == 2:
            seen = parts[0] + parts[1]
            members += np.stack([(counts * own[:, None] * seen).T @ seen for own in weights[some].T])
    n = both.sum((0, 1))
    if weights.ndim == 1:
        members = weights[:, None, None] * n
    sides = [1 - means, means]
    matrix = np.zeros((d, d))
    for a in (0, 1):
        for b in (0, 1):
            expected = np.einsum("kij,ki,kj->ij", members, sides[a], sides[b])
            # a table that was never met, and is not expected, fits
            with np.errstate(divide="ignore", invalid="ignore"):
                part = (both[a, b] - expected) ** 2 / expected
            matrix += np.where((expected == 0) & (both[a, b] == 0), 0, part)
    matrix[n == 0] = np.nan
    np.fill_diagonal(matrix, np.nan)
    first, second = np.triu_indices(d, 1)
    notes = ["X2 of a pair has no chi-squared distribution, because the model was fitted to the pair too"]
    if d < 2:
        notes = ["a single column has no pairs"]
    if rows.has_holes:
        notes.append("bits are missing: a pair is of the rows in which both were observed, as if these were any rows")
    if (n[first, second] == 0).any():
        notes.append("some pairs were never observed together (NaN)")
    return BivariateResiduals(
        names=names,
        pairs=np.column_stack([first, second]),
        x2=matrix[first, second],
        n_rows=n[first, second],
        matrix=matrix,
        notes=tuple(notes),
    )
