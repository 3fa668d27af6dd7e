"""M2: how well a model reproduces the shares of ones and of pairs of ones (Maydeu-Olivares & Joe 2005, 2006).

The table of all patterns is too sparse for X² and G² as soon as items are more than a few; its margins of one and two
items are not.  With e their residuals, Ξ the covariance of these margins under the model and Δ the derivatives of the
margins by the parameters, M2 = e' C e with C = Ξ⁻¹ - Ξ⁻¹ Δ (Δ' Ξ⁻¹ Δ)⁻¹ Δ' Ξ⁻¹.  It is about chi-square distributed, by
whatever consistent estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from latentbits.core.batch import MISSING
from latentbits.reports.fit import FitReport
from latentbits.reports.items import Answers, Items, curves, grid_for, slices, still
from latentbits.reports.record import Table

__all__ = [
    "ItemFitReport",
    "LimitedFit",
    "Pairs",
    "limited_fit",
    "margins",
    "pair_margins",
    "pairs_of",
    "phi",
    "with_limited_fit",
    "without_m2",
]  # fmt: skip

MOST_MARGINS = 8000  # 126 items: the square of it in float64 is 512 MB
DEPENDENT_SHARE = 1e-7  # of the largest singular value
SPARSE_COUNT = 1.0  # expected count of a cell


@dataclass(frozen=True)
class ItemFitReport(FitReport):
    """How well a latent trait model describes a table for what it costs, and whether it is good enough.

    Attributes
    ----------
    m2, m2_df, m2_p
        M2 of Maydeu-Olivares and Joe, from the shares of ones and of pairs of ones, its degrees of freedom, and the
        probability of one as large if the model holds.
    rmsea, rmsea_low, rmsea_high
        Misfit for each degree of freedom, sqrt(max(M2 - df, 0) / (df (n - 1))), and its 90 % interval.
    srmsr
        Root of the mean squared difference of observed and expected correlations (phi) over all pairs of items.
    tli, cfi
        Tucker-Lewis and comparative fit index: what the model gains on independent items, which have an M2 of
        their own.
    """

    m2: float
    m2_df: int
    m2_p: float
    rmsea: float
    rmsea_low: float
    rmsea_high: float
    srmsr: float
    tli: float
    cfi: float

    def table(self) -> Table:
        """Make one row for each number."""
        return replace(super().table(), notes=self.notes)


class LimitedFit(NamedTuple):
    """Statistics of a fit by margins: the numbers of `ItemFitReport`, where they are described."""

    m2: float
    m2_df: int
    m2_p: float
    rmsea: float
    rmsea_low: float
    rmsea_high: float
    srmsr: float
    tli: float
    cfi: float
    notes: tuple[str, ...]


class Pairs(NamedTuple):
    """Answers to two items at a time, (items, items) each; counts of those who have answered both."""

    n: np.ndarray  # have answered both; on the diagonal, the item
    both: np.ndarray  # ones in both
    first: np.ndarray  # ones in the first of the two


def with_limited_fit(report: FitReport, found: LimitedFit) -> ItemFitReport:
    """Add the statistics of margins to the report that all families have."""
    return ItemFitReport(**{**dict(report), **found._asdict(), "notes": (*report.notes, *found.notes)})


def without_m2(why: str) -> LimitedFit:
    """Give no numbers, and the reason."""
    numbers: dict[str, Any] = dict.fromkeys(LimitedFit._fields, float("nan"))
    return LimitedFit(**{**numbers, "m2_df": 0, "notes": (why,)})


def pairs_of(answers: Answers) -> Pairs:
    """Count the answers to two items at a time."""
    right, w = answers.right, answers.counts[:, None]
    seen = (answers.rows != MISSING).astype(float)
    return Pairs((seen * w).T @ seen, (right * w).T @ right, (right * w).T @ seen)


def pair_margins(items: Items) -> np.ndarray:
    """Compute P(1 and 1) of two items at a time; on the diagonal, of the item."""
    rule = grid_for(items)
    p = curves(items, rule.points).right
    both = (p * rule.weights[:, None]).T @ p
    np.fill_diagonal(both, rule.weights @ p)
    return both


def phi(one: np.ndarray, other: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Compute the correlation of two bits from the shares of ones and of both; NaN where one of them does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (both - one * other) / np.sqrt(one * (1 - one) * other * (1 - other))


def limited_fit(items: Items, answers: Answers, tied: bool = False) -> LimitedFit:
    """Compute M2, and the indices that are made of it.

    `items`: those that vary.  `answers`: to these items.  `tied`: all items share one slope.
    """
    d, q = items.slopes.shape
    s = d * (d + 1) // 2
    if s > MOST_MARGINS:
        return without_m2(
            f"M2 of {d} items takes a matrix of {s} x {s} numbers, and this stops at {MOST_MARGINS}: take fewer items"
        )
    pairs = pairs_of(answers)
    n, (a, b) = np.diag(pairs.n), np.triu_indices(d, 1)
    if d < 2 or not pairs.n.all():
        return without_m2("there is no M2: it takes two items or more, and for each two of them rows that answer both")
    expected, derivatives, covariance = margins(items, tied)
    ones, both = np.diag(pairs.both) / n, pairs.both[a, b] / pairs.n[a, b]
    notes = []
    n_rows = float(answers.counts[answers.answered].sum())
    whole = bool(answers.complete[answers.answered].all())
    covariance *= 1 / n_rows if whole else _rows_in_common(answers, pairs.n, a, b)
    if not whole:
        notes.append("answers are missing: M2 takes it that this has nothing to do with what they would have been")
    found = _quadratic_form(np.concatenate([ones, both]) - expected, covariance, derivatives)
    if found is None:
        return without_m2("there is no M2: the margins of some items follow from those of others (singular covariance)")
    m2, rank = found
    free = int(items.n_own.sum()) - (d - 1 if tied else q * (q - 1) // 2)
    if rank < free:
        notes.append(f"the margins determine {rank} of {free} parameters: there are more dimensions than answers need")
    few = np.count_nonzero(_smallest_cell(expected[a], expected[b], expected[d:]) * pairs.n[a, b] < SPARSE_COUNT)
    if few:
        notes.append(
            f"{few} of {len(a)} pairs of items have an expected count below {SPARSE_COUNT:g}: p of M2 is approximate"
        )
    own_a, own_b = pairs.first[a, b] / pairs.n[a, b], pairs.first[b, a] / pairs.n[a, b]  # of who answered both
    away = phi(own_a, own_b, both) - phi(expected[a], expected[b], expected[d:])
    varies = answers.varying
    known = away[varies[a] & varies[b] & ~np.isnan(away)]
    srmsr = float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")
    # independent items: with x - p in place of x margins are uncorrelated, and only those of pairs have residuals
    null = float(np.sum(pairs.n[a, b] * phi(ones[a], ones[b], both) ** 2)) if varies.all() else float("nan")
    if alike := still(items, answers):
        notes.append(f"{alike}, so there are no TLI and CFI, and SRMSR is of the other items")
    return _indices(m2, s - rank, null, s - d, n_rows, srmsr, tuple(notes))


def margins(items: Items, tied: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute shares of ones and of pairs of ones, their derivatives by the parameters, and one row's covariance."""
    rule = grid_for(items)
    d, q = items.slopes.shape
    at = curves(items, rule.points)
    p, w = at.right, rule.weights[:, None]
    a, b = np.triu_indices(d, 1)
    own, pair = np.arange(d), d + np.arange(len(a))
    both = (p * w).T @ p
    expected = np.concatenate([np.sum(p * w, 0), both[a, b]])

    rise = at.up * at.right * w  # of P with the logit
    changes = [rise * rule.points[:, [k]] for k in range(q)] + [rise]
    if (items.lower > 0).any():
        changes.append((1 - at.sigmoid) * (items.lower > 0) * w)
    columns = []
    for k, change in enumerate(changes):
        jacobian = np.zeros((len(expected), d))
        jacobian[own, own] = change.sum(0)
        beside = change.T @ p
        jacobian[pair, a], jacobian[pair, b] = beside[a, b], beside[b, a]
        columns.append(jacobian.sum(1, keepdims=True) if tied and k < q else jacobian)

    covariance = np.zeros((len(expected), len(expected)))
    for some in slices(len(p), len(expected)):
        products = np.concatenate([p[some], p[some][:, a] * p[some][:, b]], 1)
        covariance += (products * w[some]).T @ products
    # where two margins share an item, it counts once: x^2 = x
    number = np.zeros((d, d), int)
    number[own, own], number[a, b], number[b, a] = own, pair, pair
    for i in range(d):
        others = p.copy()
        others[:, i] = 1  # beside the item, nothing: its own margin
        triples = (others * p[:, [i]] * w).T @ others
        np.fill_diagonal(triples, expected[number[i]])
        covariance[np.ix_(number[i], number[i])] = triples
    return expected, np.concatenate(columns, 1), covariance - np.outer(expected, expected)


def _rows_in_common(answers: Answers, n: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute the factor of the covariance of two margins: rows that have both, over the rows of each."""
    held, kind = np.unique(answers.rows != MISSING, axis=0, return_inverse=True)
    counts = np.bincount(kind.ravel(), answers.counts, minlength=len(held))
    held = np.concatenate([held, held[:, a] & held[:, b]], 1).astype(float)
    each = np.concatenate([np.diag(n), n[a, b]])
    return (held * counts[:, None]).T @ held / np.outer(each, each)


def _quadratic_form(residual: np.ndarray, covariance: np.ndarray, derivatives: np.ndarray) -> tuple[float, int] | None:
    """Compute e' C e, and the rank of the derivatives; None where the covariance is singular."""
    scale = np.sqrt(np.diag(covariance))
    if not np.all(scale > 0):
        return None
    try:
        root = np.linalg.cholesky(covariance / np.outer(scale, scale))
    except np.linalg.LinAlgError:
        return None
    if np.diag(root).min() < DEPENDENT_SHARE:
        return None
    white = solve_triangular(root, np.column_stack([residual, derivatives]) / scale[:, None], lower=True)
    own, moved = white[:, 0], white[:, 1:]
    length = np.linalg.norm(moved, axis=0)
    kept = length > DEPENDENT_SHARE * length.max()
    basis, sizes, _ = np.linalg.svd(moved[:, kept] / length[kept], full_matrices=False)
    basis = basis[:, sizes > DEPENDENT_SHARE * sizes.max(initial=0)]
    return float(np.sum((own - basis @ (basis.T @ own)) ** 2)), basis.shape[1]


def _smallest_cell(one: np.ndarray, other: np.ndarray, both: np.ndarray) -> np.ndarray:
    return np.min([both, one - both, other - both, 1 - one - other + both], axis=0)


def _indices(
    m2: float, df: int, null: float, null_df: int, n_rows: float, srmsr: float, notes: tuple[str, ...]
) -> LimitedFit:
    nothing = float("nan")
    beyond, null_beyond = m2 - df, null - null_df
    if df <= 0:
        notes = (*notes, f"M2 has {df} degrees of freedom: with as many parameters as margins it tests nothing")
        return LimitedFit(m2, df, nothing, nothing, nothing, nothing, srmsr, nothing, nothing, notes)
    if n_rows <= 1:
        return without_m2("there is no M2 of a single row")
    low, high = (
        np.sqrt(_noncentrality(m2, df, share) / (df * (n_rows - 1)))
        for share in (0.95, 0.05)  # on either side of the interval of RMSEA
    )
    rmsea = np.sqrt(max(beyond, 0) / (df * (n_rows - 1)))
    tli = cfi = nothing
    if np.isnan(null):  # items do not vary, which a note says
        pass
    elif null_beyond > 0:
        tli = (null / null_df - m2 / df) / (null / null_df - 1)
        cfi = 1 - max(beyond, 0) / max(null_beyond, beyond)
    else:
        notes = (*notes, "independent items fit too, so TLI and CFI have nothing to compare with")
    p = float(chi2.sf(m2, df))
    return LimitedFit(m2, df, p, float(rmsea), float(low), float(high), srmsr, float(tli), float(cfi), notes)


def _noncentrality(m2: float, df: int, share: float) -> float:
    """Find the noncentrality under which M2 is below the one found with this probability; 0 where it is less at any."""

    def excess(noncentrality: float) -> float:
        below = ncx2.cdf(m2, df, noncentrality) if noncentrality > 0 else chi2.cdf(m2, df)
        return float(below) - share

    if excess(0.0) <= 0:
        return 0.0
    top = m2 + 10
    while excess(top) > 0:
        top *= 2
    return float(brentq(excess, 0.0, top, xtol=1e-10))
