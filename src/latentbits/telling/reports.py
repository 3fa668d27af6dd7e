"""The reports that a family can give of a fit, each under its title."""

from __future__ import annotations

import warnings
from typing import Any

from latentbits.estimators.families import family_of
from latentbits.reports.record import Report
from latentbits.telling.records import Table

__all__ = ["reports_of"]

OF_ALL = (("Fit", "fit_report"),)


def reports_of(model: Any, table: Table) -> tuple[dict[str, Report], dict[str, str]]:
    """By title, what the methods of a model report of the table, and why others cannot.

    A family has more of them where its module of `telling` names them: ``REPORTS = (("Items", "item_fit"),)``.
    """
    found, left_out = {}, {}
    for title, method in (*OF_ALL, *getattr(family_of(model).teller, "REPORTS", ())):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="X does not have valid feature names")  # columns are in order
                found[title] = getattr(model, method)(table.values, sample_weight=table.weights)
        except ValueError as error:
            left_out[title] = str(error)
    return found, left_out
