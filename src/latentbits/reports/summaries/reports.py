"""The reports of a fit, each under its title: those of every model, and those that a family adds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from latentbits.reports.record import Report
from latentbits.reports.summaries.records import Rows

__all__ = ["Entry", "reports_of"]

# a title, and the method of the model or the function ``(model, rows) -> Report`` that makes the report
Entry = tuple[str, str | Callable[[Any, Rows], Report]]
OF_ALL: tuple[Entry, ...] = (("Fit", "fit_report"),)


def reports_of(model: Any, rows: Rows, more: Sequence[Entry] = ()) -> tuple[dict[str, Report], dict[str, str]]:
    """Give by title what is reported of a model on the rows, and the reason where a report cannot be made.

    `more` are the `REPORTS` of the family's module here: ``(("Items", "item_fit"),)``.
    """
    found, left_out = {}, {}
    for title, maker in (*OF_ALL, *more):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="X does not have valid feature names")  # columns are in order
                if callable(maker):
                    found[title] = maker(model, rows)
                else:
                    found[title] = getattr(model, maker)(rows.values, sample_weight=rows.weights)
        except ValueError as error:
            left_out[title] = str(error)
    return found, left_out
