"""Mean slopes of each column along a curved surface, and information criteria; traits for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.telling.along import gallery_along, places_of
from latentbits.telling.latent_trait import printed_columns
from latentbits.telling.numbers import criteria_facts, criteria_lines
from latentbits.telling.records import Printed, Shown, Table, Told, Values

__all__ = ["show", "tell"]


def tell(model: Any, table: Table) -> Told:
    """Slopes of each column, which has none but on average, and information criteria."""
    found = model.criteria(table.values, table.weights)
    names = tuple(f"mean_slope_{k + 1}" for k in range(len(model.mean_slopes_)))
    items = Values(table.names, names, model.mean_slopes_.T)
    return Told(
        criteria_facts(found) | {"items": items.lines()},
        (printed_columns(items), Printed(["", "value"], criteria_lines(found))),
        {"items": lambda: items},
    )


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The traits, the longest first, as they are on average."""
    extent = ", on average: the surface is curved, and elsewhere on it the pull is another"
    return Shown(gallery_along("trait", name, model.mean_slopes_, places_of(model, values), extent))
