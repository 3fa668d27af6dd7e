"""Items that depend on each other beyond the latents: Q3 (Yen 1984) and X² of pairs (Chen & Thissen 1997)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.reports.items import Answers, Items, curves, in_place, still, whole
from latentbits.reports.limited_information import pair_margins, pairs_of, phi
from latentbits.reports.record import Report, Table

__all__ = ["LocalDependence", "local_dependence"]


@dataclass(frozen=True)
class LocalDependence(Report):
    """Dependence that the latents leave unexplained between two items.

    Attributes
    ----------
    item
        Names.
    q3
        (items, items) correlations of the residuals at the posterior means.  Without dependence they are a little below
        0, about -1 / (items - 1), since the residuals have helped to place the rows.
    x2
        (items, items) Pearson's X² of observed and expected counts of the two items' four patterns, about chi-square
        with 1 degree of freedom.
    signed_x2
        The same, negative where the items are correlated less than the model expects.
    n
        (items, items) rows that have answered both.
    notes
        What has to be said of these numbers.
    """

    item: list[str]
    q3: np.ndarray
    x2: np.ndarray
    signed_x2: np.ndarray
    n: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each pair, the most dependent first."""
        a, b = np.triu_indices(len(self.item), 1)
        order = np.argsort(-np.nan_to_num(self.x2[a, b]), kind="stable")
        a, b = a[order], b[order]
        names = [f"{self.item[i]}, {self.item[j]}" for i, j in zip(a, b)]
        columns = {"signed X2": self.signed_x2[a, b], "Q3": self.q3[a, b], "n": self.n[a, b]}
        return Table(names, columns, notes=self.notes)

    def shown(self) -> tuple[Table, ...]:
        """Keep the most dependent pairs."""
        return (self.table().largest("pairs"),)

    def among(self, names: list[str], which: np.ndarray) -> LocalDependence:
        """Put the report in its place among all columns of a table; the others have nothing."""
        q3, x2, signed = (in_place(matrix, which) for matrix in (self.q3, self.x2, self.signed_x2))
        return replace(self, item=names, q3=q3, x2=x2, signed_x2=signed, n=in_place(self.n, which, 0))


def local_dependence(items: Items, answers: Answers, latents: np.ndarray) -> LocalDependence:
    """Compute Q3 and X² of all pairs of items; residuals are taken at the latents of each pattern."""
    pairs, expected = pairs_of(answers), pair_margins(items)
    n = pairs.n
    one = np.diag(expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        x2 = np.zeros_like(n)
        for seen, share in (
            (pairs.both, expected),
            (pairs.first - pairs.both, one[:, None] - expected),
            (pairs.first.T - pairs.both, one[None, :] - expected),
            (n - pairs.first - pairs.first.T + pairs.both, 1 - one[:, None] - one[None, :] + expected),
        ):
            x2 += np.where(n > 0, (seen - n * share) ** 2 / (n * share), np.nan)
        more = phi(pairs.first / n, pairs.first.T / n, pairs.both / n) - phi(one[:, None], one[None, :], expected)
    q3 = _correlations(np.where(answers.rows != MISSING, answers.right - curves(items, latents).right, np.nan), answers)
    same = ~answers.varying
    for matrix in (x2, q3):
        np.fill_diagonal(matrix, np.nan)
        matrix[same] = matrix[:, same] = np.nan
    a, b = np.triu_indices(len(items.names), 1)
    never = np.count_nonzero(n[a, b] == 0)
    notes = [f"{never} pairs of items were never answered together"] if never else []
    if len(items.names) < 2:
        notes.append("a single item has no pairs")
    if alike := still(items, answers):
        notes.append(f"{alike}, so their dependence is unknown")
    return LocalDependence(items.names, q3, x2, np.sign(more) * x2, whole(n), tuple(notes))


def _correlations(residuals: np.ndarray, answers: Answers) -> np.ndarray:
    """Compute correlations of columns over the rows that have both."""
    seen = (~np.isnan(residuals)).astype(float)
    r, w = np.nan_to_num(residuals), answers.counts[:, None]
    n, total = (seen * w).T @ seen, (r * w).T @ seen
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        variance = (r**2 * w).T @ seen / n - mean**2
        return ((r * w).T @ r / n - mean * mean.T) / np.sqrt(variance * variance.T)
