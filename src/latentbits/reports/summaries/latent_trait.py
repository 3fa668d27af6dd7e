"""Weights of each column, and information criteria; traits for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.reports.numbers import measured
from latentbits.reports.record import Table
from latentbits.reports.render import records
from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.records import Rows, Shown, Summary, criteria_facts, criteria_table, shown_items

__all__ = ["show", "summarize", "summary_of_columns"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give weights and intercept of each column, and information criteria."""
    weights = {f"weight_{k + 1}": line for k, line in enumerate(model.components_)}
    return summary_of_columns(model, rows, {**weights, "intercept": model.intercept_})


def summary_of_columns(model: Any, rows: Rows, quantities: dict[str, np.ndarray]) -> Summary:
    """Give the quantities of the columns, by name, and information criteria."""
    found = model.criteria(rows.values, rows.weights)
    columns = {name: measured(values, form=".3f") for name, values in quantities.items()}
    items = Table(list(rows.names), columns, corner="item")
    return Summary(
        criteria_facts(found) | {"items": records(items)},
        (shown_items(replace(items, title="Columns")), criteria_table(found)),
        {"items": lambda: items},
    )


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the traits, the longest first."""
    return Shown(gallery_along("trait", name, model.components_, places_of(model, values)))
