"""Rows that do not answer as expected: the standardised log-likelihood l_z (Drasgow, Levine & Williams 1985)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.reports.items import Answers, Items, curves, log_curves, slices
from latentbits.reports.record import Report, Table

__all__ = ["PersonFit", "person_fit"]

MOST_ROWS_SHOWN = 20  # lines of a screen; the table has all


@dataclass(frozen=True)
class PersonFit(Report):
    """How well each row follows the model.

    Attributes
    ----------
    lz
        (rows,) log-likelihood of the answers at the score, less its expectation, over its standard deviation; far
        below 0 where easy items are wrong and hard ones right.  NaN without an answer or a finite score.
    score
        (rows, dimensions) where it was taken.
    n
        (rows,) items answered.
    notes
        What has to be said of these numbers.
    """

    lz: np.ndarray
    score: np.ndarray
    n: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each row of the table."""
        return self._rows(np.arange(len(self.lz)), self.notes)

    def shown(self) -> tuple[Table, ...]:
        """Keep the rows that fit least."""
        order = np.argsort(self.lz, kind="stable")
        more = len(order) - MOST_ROWS_SHOWN
        notes = (*self.notes, f"the {MOST_ROWS_SHOWN} lowest of {len(order)} rows") if more > 0 else self.notes
        return (self._rows(order[:MOST_ROWS_SHOWN], notes),)

    def _rows(self, rows: np.ndarray, notes: tuple[str, ...]) -> Table:
        several = self.score.shape[1] > 1
        places = {f"score {k + 1}" if several else "score": self.score[rows, k] for k in range(self.score.shape[1])}
        return Table([str(row) for row in rows], {"l_z": self.lz[rows], **places, "n": self.n[rows]}, notes=notes)


def person_fit(items: Items, answers: Answers, latents: np.ndarray) -> PersonFit:
    """Compute l_z of every row, at the latents of its pattern."""
    lz = np.full(len(answers.rows), np.nan)
    for some in slices(len(lz), 8 * len(items.names)):
        part, at = answers.only(some), curves(items, latents[some])
        seen = part.rows != MISSING
        log_right, log_wrong = log_curves(items, latents[some])
        odds = log_right - log_wrong
        with np.errstate(divide="ignore", invalid="ignore"):
            # log-likelihood less its expectation is the sum of (x - P) logit P
            away = np.sum(np.where(seen, (part.right - at.right) * odds, 0), 1)
            variance = np.sum(np.where(seen, at.right * at.wrong * odds**2, 0), 1)
            lz[some] = np.where(seen.any(1), away / np.sqrt(variance), np.nan)
    notes = ["l_z is at estimated scores, so it varies less than a standard normal, above all with few items"]
    lost = np.isnan(lz)[answers.place].sum()
    if lost:
        notes.append(f"{lost} rows have no l_z: they have no answer, or no finite score")
    n = np.count_nonzero(answers.rows != MISSING, axis=1)
    return PersonFit(lz[answers.place], latents[answers.place], n[answers.place], tuple(notes))
