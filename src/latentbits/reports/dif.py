"""Differential item functioning: does an item work otherwise in another group, the trait being equal?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentbits.reports.record import Report, Table

__all__ = ["DifReport"]


@dataclass(frozen=True)
class DifReport(Report):
    """Tests of each item against all others, which are taken to be the same in all groups.

    Attributes
    ----------
    items, groups
        Names of the items that were tested, and labels of the groups; the first is what others are compared with.
    statistic, df, p, p_adjusted
        Chi-square statistic of each item, its degrees of freedom, and its probability if the item is the same in all
        groups; NaN where it is not determined, which a note says.
    slope_difference, intercept_difference
        (items, groups after the first) Parameters there, less those of the first group.
    signed_difference, unsigned_difference
        (items, groups after the first) How much more probable the answer 1 is there than in the first group for people
        of the same trait, as a mean over the traits of that group; and the mean of the difference's size.
    method, adjustment
        "lr" or "wald"; "holm", "bh" or "none".
    notes
        What could not be computed, and why.
    """

    items: tuple[str, ...]
    groups: tuple[Any, ...]
    statistic: np.ndarray
    df: np.ndarray
    p: np.ndarray
    p_adjusted: np.ndarray
    slope_difference: np.ndarray
    intercept_difference: np.ndarray
    signed_difference: np.ndarray
    unsigned_difference: np.ndarray
    method: str
    adjustment: str
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Make one row for each item."""
        columns: dict[str, Any] = {"chi2": self.statistic, "df": self.df, "p": self.p}
        if self.adjustment != "none":
            columns[f"p ({self.adjustment})"] = self.p_adjusted
        for i, group in enumerate(self.groups[1:]):
            of = "" if len(self.groups) == 2 else f" {group}"
            for name in ("slope", "intercept", "signed", "unsigned"):
                columns[f"{name}{of}"] = self[f"{name}_difference"][:, i]
        compared = ", ".join(str(group) for group in self.groups[1:])
        title = f"items in {compared} against {self.groups[0]}, {self.method} tests"
        return Table(list(self.items), columns, title, self.notes)
