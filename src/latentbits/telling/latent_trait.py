"""Items: discriminations and difficulties with their errors, information criteria; and traits for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.telling.along import gallery_along, places_of
from latentbits.telling.numbers import criteria_facts, criteria_lines
from latentbits.telling.records import Printed, Shown, Table, Told, Values

__all__ = ["show", "tell"]

MOST_SHOWN = 100  # items printed; all of them go into a file


def tell(model: Any, table: Table) -> Told:
    """Item parameters and information criteria.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.
    """
    found = model.criteria(table.values, table.weights)
    items = _items(model, table)
    return Told(
        criteria_facts(found) | {"items": items.lines()},
        (_printed(items), Printed(["", "value"], criteria_lines(found))),
        {"items": lambda: items},
    )


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The traits, the longest first."""
    return Shown(gallery_along("trait", name, model, places_of(model, values)))


def _items(model: Any, table: Table) -> Values:
    """One line an item, one column a quantity; with errors, each has its own after it."""
    q, spread = model.n_components, model.standard_errors(table.values, table.weights) if table.errors else None
    slopes = [] if q == 1 else [f"slope_{k + 1}" for k in range(q)]
    parts = {
        "discrimination": (model.discrimination_, spread and spread.discrimination),
        "difficulty": (model.difficulty_, spread and spread.difficulty),
        "intercept": (model.intercept_, spread and spread.intercept),
        **{name: (model.components_[k], spread and spread.components[k]) for k, name in enumerate(slopes)},
    }
    columns = {}
    for name, (value, error) in parts.items():
        columns[name] = value
        if error is not None:
            columns[f"{name}_error"] = error
    return Values(table.names, tuple(columns), np.column_stack(list(columns.values())))


def _printed(items: Values) -> Printed:
    lines = [[name, *_cells(items.columns, line)] for name, line in zip(items.names, items.values[:MOST_SHOWN])]
    heads = [name.replace("_", " ") for name in items.columns if not name.endswith("_error")]
    note = ", ± standard error" if any(name.endswith("_error") for name in items.columns) else ""
    some = f" ({MOST_SHOWN} of {len(items.names)}; --items writes all)" if len(items.names) > MOST_SHOWN else ""
    return Printed(["item", *heads], lines, title=f"Items{note}{some}")


def _cells(columns: Sequence[str], line: Sequence[float]) -> list[str]:
    """Numbers of one item, each with its error beside it where there is one."""
    values = dict(zip(columns, line))
    return [
        f"{value:.3f}" + (f" ± {values[f'{name}_error']:.3f}" if f"{name}_error" in values else "")
        for name, value in values.items()
        if not name.endswith("_error")
    ]
