"""The reports that a family can give of a fit, each under its title."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from latentbits.reports.record import Report
from latentbits.reports.summaries.records import Rows

__all__ = ["reports_of"]

OF_ALL = (("Fit", "fit_report"),)


def reports_of(
    model: Any, rows: Rows, more: Sequence[tuple[str, str]] = ()
) -> tuple[dict[str, Report], dict[str, str]]:
    """Give by title what the methods of a model report of the rows, and the reason where one cannot.

    `more` are the `REPORTS` of the family's module here: ``(("Items", "item_fit"),)``.
    """
    found, left_out = {}, {}
    for title, method in (*OF_ALL, *more):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="X does not have valid feature names")  # columns are in order
                found[title] = getattr(model, method)(rows.values, sample_weight=rows.weights)
        except ValueError as error:
            left_out[title] = str(error)
    return found, left_out
