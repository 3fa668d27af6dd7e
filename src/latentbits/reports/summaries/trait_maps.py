"""Several maps: their shares, the weights of columns on each, and information criteria; traits for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.numbers import measured
from latentbits.reports.record import Table
from latentbits.reports.render import records
from latentbits.reports.summaries.records import (
    Gallery,
    Layer,
    Rows,
    Shown,
    Summary,
    criteria_facts,
    criteria_table,
    strongest_rows,
)

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the shares of the maps and information criteria; in a file, the weights of the columns on each map."""
    found = model.criteria(rows.values, rows.weights)
    sure = model.responsibilities(rows.values)
    weights = np.ones(len(sure)) if rows.weights is None else rows.weights
    home = np.argmax(sure, axis=1)
    counts = np.bincount(home, weights, model.n_maps)
    sums = np.bincount(home, weights * sure[np.arange(len(sure)), home], model.n_maps)
    means = np.divide(sums, counts, out=np.full(model.n_maps, np.nan), where=counts > 0)
    columns = {
        "share": measured(model.shares_, form=".3f"),
        "rows": measured(counts, form="g"),
        "probability": measured(means, form=".3f"),
    }
    numbers = [str(m + 1) for m in range(model.n_maps)]
    title = "Maps: their shares, the rows most probably on each, and the mean of that probability"
    items = Table(list(rows.names), _quantities(model), corner="column")
    return Summary(
        criteria_facts(found) | {"shares": model.shares_.tolist(), "items": records(items)},
        (Table(numbers, columns, title, corner="map"), criteria_table(found)),
        {"items": lambda: items},
    )


def _quantities(model: Any) -> dict[str, np.ndarray]:
    """Give weights and intercept of the columns on each map, by name, with the number of the map behind it."""
    columns: dict[str, np.ndarray] = {}
    for m, number in enumerate(range(1, model.n_maps + 1)):
        own = {f"weight_{k + 1}": line for k, line in enumerate(model.components_[m])}
        columns |= {
            f"{name}_map_{number}": values for name, values in {**own, "intercept": model.intercept_[m]}.items()
        }
    return columns


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the traits of every map, those of the first map first."""
    means, sure = model.posterior(values).means, model.responsibilities(values)
    places = (sure[:, :, None] * means).reshape(len(values), -1)
    names = tuple(f"map {m + 1}, trait {k + 1}" for m in range(model.n_maps) for k in range(model.n_components))
    slopes = model.components_.reshape(len(names), -1)
    layer = Layer("Traits", names, slopes, None, np.full(len(names), np.nan), places, strongest_rows(places))
    about = (
        "Each row is on one of several maps, and has a place along each trait of it. Shown is how much a bit is pulled "
        "up or down along it; places count as much as it is probable that a row is on that map."
    )
    return Shown(Gallery(name, about, "signed", (layer,)))
