"""Sum scores: their distribution by the recursion of Lord and Wingersky (1984), and what they say of the latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentbits.reports.items import Answers, Items, curves, grid_for, listed, whole
from latentbits.reports.record import Report, Table

__all__ = ["SumScores", "score_distribution", "sum_scores"]


@dataclass(frozen=True)
class SumScores(Report):
    """Latents by the number of ones: what is known of a row of which nothing else is known.

    Attributes
    ----------
    score
        0, 1, ... up to the number of items.
    eap, sd
        Posterior mean and standard deviation given the sum score; (scores, dimensions) in several dimensions.  NaN
        where items that all answer alike make the score impossible.
    observed, expected
        Complete rows with this score, and how many the model expects.
    notes
        What has to be said of these numbers.
    """

    score: np.ndarray
    eap: np.ndarray
    sd: np.ndarray
    observed: np.ndarray
    expected: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each score."""
        columns: dict[str, np.ndarray] = {}
        for name, values in (("EAP", self.eap), ("SD", self.sd)):
            several = values[:, None] if values.ndim == 1 else values
            columns |= {name + (f" {k + 1}" if values.ndim > 1 else ""): several[:, k] for k in range(several.shape[1])}
        columns |= {"observed": self.observed, "expected": self.expected}
        return Table([str(score) for score in self.score], columns, notes=self.notes)


def score_distribution(p: np.ndarray) -> np.ndarray:
    """Compute P(sum score | point) from P(1 | point): (points, items) to (points, scores)."""
    found = np.zeros((len(p), p.shape[1] + 1))
    found[:, 0] = 1
    for i in range(p.shape[1]):
        one = p[:, [i]]
        found[:, 1:] = found[:, 1:] * (1 - one) + found[:, :-1] * one
        found[:, 0] *= 1 - p[:, i]
    return found


def sum_scores(items: Items, answers: Answers) -> SumScores:
    """Make the table of sum scores; observed counts are those of complete rows.

    Parameters
    ----------
    items
        With an intercept of plus or minus infinity, and slopes of 0, where all answer alike.
    """
    rule = grid_for(items)
    joint = score_distribution(curves(items, rule.points).right) * rule.weights[:, None]
    shares = joint.sum(0)
    with np.errstate(invalid="ignore"):
        mean = joint.T @ rule.points / shares[:, None]
        sd = np.sqrt(np.maximum(joint.T @ rule.points**2 / shares[:, None] - mean**2, 0))
    always, never = items.intercepts == np.inf, items.intercepts == -np.inf
    unlike = ((answers.rows == 0) & always | (answers.rows == 1) & never).any(1)
    full = answers.only(answers.complete & ~unlike)
    observed = np.bincount(full.rows.sum(1, dtype=int), full.counts, minlength=len(shares))
    notes = []
    if left_out := answers.counts[~answers.complete].sum():
        notes.append(f"{left_out:g} rows with missing answers have no sum score")
    if (always | never).any():
        alike = [name for name, same in zip(items.names, always | never) if same]
        notes.append(f"in the sum, though in the fit all rows answer alike: {listed(alike)}")
    if other := answers.counts[answers.complete & unlike].sum():
        notes.append(f"{other:g} rows that answer these otherwise are left out")
    score, line = np.arange(len(shares)), items.n_dimensions == 1
    mean, sd = (mean[:, 0], sd[:, 0]) if line else (mean, sd)
    return SumScores(score, mean, sd, whole(observed), observed.sum() * shares, tuple(notes))
