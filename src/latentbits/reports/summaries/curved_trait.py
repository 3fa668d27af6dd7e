"""A curved surface: mean slopes of the columns and information criteria; and its traits for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.reports.numbers import measured
from latentbits.reports.record import Table
from latentbits.reports.render import records
from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.records import Rows, Shown, Summary, criteria_facts, criteria_table, shown_items

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the slopes of the columns, on average over the surface, and information criteria."""
    if rows.errors:
        model.standard_errors(rows.values)  # says why there are none
    found = model.criteria(rows.values, rows.weights)
    columns = {f"mean_slope_{k + 1}": measured(slopes, form=".3f") for k, slopes in enumerate(model.mean_slopes_)}
    items = Table(list(rows.names), columns, corner="item")
    return Summary(
        criteria_facts(found) | {"items": records(items)},
        (shown_items(replace(items, title="Items")), criteria_table(found)),
        {"items": lambda: items},
    )


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the traits, the longest first, by their mean slopes."""
    extent = ", on average: the surface is curved, and elsewhere on it the pull is another"
    return Shown(gallery_along("trait", name, model.mean_slopes_, places_of(model, values), extent))
