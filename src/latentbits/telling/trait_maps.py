"""Several maps: their shares, the weights of columns on each, and information criteria; traits for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.telling.numbers import criteria_facts, criteria_lines
from latentbits.telling.records import Gallery, Layer, Printed, Shown, Table, Told, Values, strongest_rows

__all__ = ["show", "tell"]


def tell(model: Any, table: Table) -> Told:
    """Shares of the maps; the file of columns has the number of the map behind each quantity."""
    found = model.criteria(table.values, table.weights)
    sure = model.responsibilities(table.values)
    weights = np.ones(len(sure)) if table.weights is None else table.weights
    home = np.argmax(sure, axis=1)
    lines = []
    for m, share in enumerate(model.shares_):
        here = home == m
        mean = np.average(sure[here, m], weights=weights[here]) if weights[here].sum() > 0 else np.nan
        lines.append([str(m + 1), f"{share:.3f}", f"{weights[here].sum():g}", f"{mean:.3f}"])
    items = Values(table.names, *_quantities_of_maps(model))
    title = "Maps: their shares, the rows most probably on each, and the mean of that probability"
    return Told(
        criteria_facts(found) | {"shares": model.shares_.tolist(), "items": items.lines()},
        (Printed(["map", "share", "rows", "probability"], lines, title=title),
         Printed(["", "value"], criteria_lines(found))),
        {"items": lambda: items},
    )  # fmt: skip


def _quantities_of_maps(model: Any) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and values of what columns have on each map."""
    columns: dict[str, np.ndarray] = {}
    for m in range(model.n_maps):
        each = {f"weight_{k + 1}": line for k, line in enumerate(model.components_[m])}
        each |= {"intercept": model.intercept_[m]}
        columns |= {f"{name}_map_{m + 1}": values for name, values in each.items()}
    return tuple(columns), np.column_stack(list(columns.values()))


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The traits of each map."""
    means, sure = model.posterior(values).means, model.responsibilities(values)
    places = (sure[:, :, None] * means).reshape(len(values), -1)
    names = tuple(f"map {m + 1}, trait {k + 1}" for m in range(model.n_maps) for k in range(model.n_components))
    weights = model.components_.reshape(len(names), -1)
    layer = Layer("Traits", names, weights, None, np.full(len(names), np.nan), places, strongest_rows(places))
    about = (
        "Each row is on one of several maps, and has a place along each trait of it. Shown is how much a bit is pulled "
        "up or down along it; places count as much as it is probable that a row is on that map."
    )
    return Shown(Gallery(name, about, "signed", (layer,)))
