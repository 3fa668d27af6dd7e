"""Fit of each item: S-X² (Orlando & Thissen 2000), infit and outfit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from latentbits.core.batch import MISSING
from latentbits.reports.items import Answers, Items, curves, grid_for, in_place, listed, still, whole
from latentbits.reports.record import Report, Table
from latentbits.reports.sum_scores import score_distribution

__all__ = ["ItemFit", "MeanSquares", "item_fit", "mean_squares", "merged", "score_groups"]

SQUARES = ("infit", "infit_z", "outfit", "outfit_z")


@dataclass(frozen=True)
class ItemFit(Report):
    """How well each item follows its curve.

    Attributes
    ----------
    item
        Names.
    s_x2, df, p
        S-X² of Orlando and Thissen: observed against expected shares of ones by sum score; p is NaN where scores are
        too few to leave a degree of freedom.  NaN, with 0 degrees of freedom, for items that do not vary in the table.
    infit, outfit
        Mean squared residual, weighted by its variance, and standardised one: 1 where an item varies as it should, more
        where it is noisier.  At posterior means, which are drawn together, both are below 1 for a model that holds.
    infit_z, outfit_z
        These as normal deviates (the cube root of Wilson and Hilferty).
    n
        Answers to each item.
    notes
        What has to be said of these numbers.
    """

    item: list[str]
    s_x2: np.ndarray
    df: np.ndarray
    p: np.ndarray
    infit: np.ndarray
    infit_z: np.ndarray
    outfit: np.ndarray
    outfit_z: np.ndarray
    n: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each item."""
        columns = {"S-X2": self.s_x2, "df": self.df, "p": self.p, "infit": self.infit, "z infit": self.infit_z}
        columns |= {"outfit": self.outfit, "z outfit": self.outfit_z, "n": self.n}
        return Table(self.item, columns, notes=self.notes)

    def among(self, names: list[str], which: np.ndarray) -> ItemFit:
        """Put the report in its place among all columns of a table; the others have nothing."""
        numbers: dict[str, Any] = {name: in_place(self[name], which) for name in ("s_x2", "p", *SQUARES)}
        counts: dict[str, Any] = {name: in_place(self[name], which, 0) for name in ("df", "n")}
        return replace(self, item=names, **numbers, **counts)


class MeanSquares(NamedTuple):
    """Infit and outfit of each item, with their deviates, and the number of its answers; see `ItemFit`."""

    infit: np.ndarray
    infit_z: np.ndarray
    outfit: np.ndarray
    outfit_z: np.ndarray
    n: np.ndarray


def item_fit(items: Items, answers: Answers, latents: np.ndarray, min_expected: float = 1.0) -> ItemFit:
    """Fit of each item.

    Parameters
    ----------
    latents
        (patterns, dimensions) where residuals are taken; infinite ones are moved to a tenth of a logit beyond the last
        finite one.
    min_expected
        Score groups with a smaller expected cell are merged with a neighbour; 0 merges none.
    """
    notes = []
    full = answers.only(answers.complete)
    n_full, n_rows = full.counts.sum(), answers.counts[answers.answered].sum()
    if n_full < n_rows:
        notes.append(f"S-X2 is of the {n_full:g} of {n_rows:g} rows that have answered every item")
    d = len(items.names)
    s_x2, df, varies = np.full(d, np.nan), np.zeros(d, int), answers.varying
    if alike := still(items, answers):
        notes.append(f"{alike}, so they have no S-X2")
    if n_full:
        observed, expected = score_groups(items, full)
        for i in np.flatnonzero(varies):
            o, e = merged(observed[i], expected[i], min_expected)
            df[i] = max(len(o) - int(items.n_own[i]), 0)
            s_x2[i] = np.sum((o - e) ** 2 / e) if len(o) else np.nan
    p = np.where(df > 0, chi2.sf(s_x2, np.maximum(df, 1)), np.nan)
    if names := [name for name, left in zip(items.names, np.where(varies, df, 1)) if left <= 0]:
        notes.append(f"sum scores are too few, or too sparse, to test {listed(names)} by S-X2")
    if 0 < n_full < 200:
        notes.append(f"{n_full:g} rows are few: S-X2 is only roughly chi-square distributed")
    lost = answers.counts[answers.answered & np.isnan(latents).any(1)].sum()
    if lost:
        notes.append(f"{lost:g} rows without a score are left out of infit and outfit")
    moved, n_moved = _finite(latents, answers.counts, 0.1 / np.abs(items.slopes).mean())  # of a logit
    if n_moved:
        notes.append(
            f"{n_moved:g} rows with infinite scores are put just beyond the last finite one for infit and outfit"
        )
    squares = mean_squares(items, answers, moved)
    return ItemFit(items.names, s_x2, df, p, **squares._asdict(), notes=tuple(notes))


def score_groups(items: Items, answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Count 0 and 1, observed and expected, by sum score 1, 2, ..., items - 1, each (items, scores, 2).

    The share of the rows with a score that have a one in an item is P(1, the other items make up the rest) / P(score).
    """
    rule, d = grid_for(items), len(items.names)
    p = curves(items, rule.points).right
    scores = answers.rows.sum(1, dtype=int)
    n = np.bincount(scores, answers.counts, minlength=d + 1)
    ones = np.stack([np.bincount(scores, answers.counts * answers.right[:, i], minlength=d + 1) for i in range(d)])
    chance = rule.weights @ score_distribution(p)
    expected = np.zeros((d, d + 1))
    for i in range(d):
        others = score_distribution(np.delete(p, i, axis=1))
        expected[i, 1:] = (rule.weights * p[:, i]) @ others / chance[1:]
    inner = slice(1, d)
    both = np.stack([n - ones, ones], 2)[:, inner]
    return both, (np.stack([1 - expected, expected], 2) * n[:, None])[:, inner]


def merged(observed: np.ndarray, expected: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Score groups put together until they are not too sparse, by the rule of the R package mirt.

    Groups without a row are dropped; one of a single row goes into the next, the last into the one before.  Then, from
    the lowest score up, so does a group with an expected cell below `least`: the first into the second, the last into
    the one before, another into the smaller of its neighbours, of equal ones into that of the lower score.
    """
    there = observed.sum(1) > 0
    groups = [np.stack(pair) for pair in zip(observed[there], expected[there])]  # each (observed or expected, cell)

    def join(i: int, j: int) -> None:
        groups[j] = groups[j] + groups[i]
        del groups[i]

    i = 0
    while i < len(groups) - 1:
        if groups[i][0].sum() == 1:
            join(i, i + 1)  # which is then not alone, and is gone past
        i += 1
    if len(groups) > 1 and groups[-1][0].sum() == 1:
        join(len(groups) - 1, len(groups) - 2)
    while len(groups) > 1:
        sparse = [i for i, group in enumerate(groups) if group[1].min() < least]
        if not sparse:
            break
        i = sparse[0]
        if i in (0, len(groups) - 1):
            join(i, 1 if i == 0 else i - 1)
        else:
            join(i, i - 1 if groups[i - 1][0].sum() <= groups[i + 1][0].sum() else i + 1)
    pairs = np.stack(groups) if groups else np.zeros((0, 2, observed.shape[1]))
    return pairs[:, 0], pairs[:, 1]


def mean_squares(items: Items, answers: Answers, latents: np.ndarray) -> MeanSquares:
    """Compute infit and outfit by item, of the rows that have latents."""
    placed = np.isfinite(latents).all(1)
    answers, at = answers.only(placed), curves(items, latents[placed])
    p, variance = at.right, at.right * at.wrong
    w = (answers.rows != MISSING) * answers.counts[:, None]
    square = (answers.right - p) ** 2
    kurtosis = variance * (p**3 + at.wrong**3)
    n = w.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        outfit = np.sum(w * square / variance, 0) / n
        infit = np.sum(w * square, 0) / np.sum(w * variance, 0)
        outfit_spread = np.sqrt(np.sum(w * kurtosis / variance**2, 0) / n**2 - 1 / n)
        infit_spread = np.sqrt(np.sum(w * (kurtosis - variance**2), 0)) / np.sum(w * variance, 0)
        zs = [_deviate(square, spread) for square, spread in ((infit, infit_spread), (outfit, outfit_spread))]
    return MeanSquares(infit, zs[0], outfit, zs[1], whole(n))


def _deviate(square: np.ndarray, spread: np.ndarray) -> np.ndarray:
    spread = np.minimum(spread, 2**0.5)  # beyond, the cube root is far from normal
    return (np.cbrt(square) - 1) * 3 / spread + spread / 3


def _finite(latents: np.ndarray, counts: np.ndarray, step: float) -> tuple[np.ndarray, float]:
    """Move infinite latents to a step beyond the others, and count them."""
    infinite = np.isinf(latents)
    if not infinite.any():
        return latents, 0.0
    finite = latents[np.isfinite(latents)]
    last = (finite.min() - step, finite.max() + step) if finite.size else (-step, step)
    moved = np.where(infinite, np.where(latents > 0, last[1], last[0]), latents)
    return moved, float(counts[infinite.any(1)].sum())
