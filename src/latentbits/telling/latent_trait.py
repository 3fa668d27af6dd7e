"""Weights of each column, and information criteria; traits for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.telling.along import gallery_along, places_of
from latentbits.telling.numbers import criteria_facts, criteria_lines
from latentbits.telling.records import Printed, Shown, Table, Told, Values

__all__ = ["printed_columns", "show", "tell"]

MOST_SHOWN = 100  # columns printed; all of them go into a file


def tell(model: Any, table: Table) -> Told:
    """Weights and intercept of each column, and information criteria."""
    found = model.criteria(table.values, table.weights)
    names = tuple(f"weight_{k + 1}" for k in range(len(model.components_)))
    items = Values(table.names, (*names, "intercept"), np.column_stack([model.components_.T, model.intercept_]))
    return Told(
        criteria_facts(found) | {"items": items.lines()},
        (printed_columns(items), Printed(["", "value"], criteria_lines(found))),
        {"items": lambda: items},
    )


def printed_columns(items: Values) -> Printed:
    """What is known of each column as a table that is printed."""
    lines = [[name, *(f"{value:.3f}" for value in line)] for name, line in zip(items.names, items.values[:MOST_SHOWN])]
    some = f" ({MOST_SHOWN} of {len(items.names)}; --items writes all)" if len(items.names) > MOST_SHOWN else ""
    return Printed(["column", *(name.replace("_", " ") for name in items.columns)], lines, title=f"Columns{some}")


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The traits, the longest first."""
    return Shown(gallery_along("trait", name, model.components_, places_of(model, values)))
