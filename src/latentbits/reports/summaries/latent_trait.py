"""Items: discriminations and difficulties with their errors, information criteria; and traits for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Table
from latentbits.reports.render import records
from latentbits.reports.summaries import curved_trait, trait_maps
from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.records import Rows, Shown, Summary, criteria_facts, criteria_table, shown_items
from latentbits.reports.summaries.reports import Entry

__all__ = ["REPORTS", "show", "summarize"]

# the reports of `fit --report` besides that of the fit: titles, and methods of the model
REPORTS: tuple[Entry, ...] = (
    ("Items", "item_fit"),
    ("Pairs of items", "local_dependence"),
    ("Reliability", "reliability"),
)


def summarize(model: Any, rows: Rows) -> Summary:
    """Give item parameters and information criteria.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.
    """
    if model.n_maps > 1:
        return trait_maps.summarize(model, rows)
    if model.decoder == "mlp":
        return curved_trait.summarize(model, rows)
    found = model.criteria(rows.values, rows.weights)
    errors = model.standard_errors(rows.values, rows.weights) if rows.errors else None
    items, trait = _items(model, rows, errors), _population(model, errors)
    facts = criteria_facts(found) | {f"trait_{name}": one.value for name, one in trait.items()}
    facts |= {f"trait_{name}_error": one.error for name, one in trait.items() if one.error is not None}
    title = "Items, ± standard error" if rows.errors else "Items"
    criteria = criteria_table(found, {f"{name} of the trait": one for name, one in trait.items()})
    return Summary(
        facts | {"items": records(items)},
        (shown_items(replace(items, title=title)), criteria),
        {"items": lambda: items},
    )


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the traits, the longest first."""
    if model.n_maps > 1:
        return trait_maps.show(name, model, values, n_rows, weights)
    if model.decoder == "mlp":
        return curved_trait.show(name, model, values, n_rows, weights)
    return Shown(gallery_along("trait", name, model.components_, places_of(model, values)))


def _population(model: Any, errors: Any) -> dict[str, Measured]:
    """Give the mean and the variance of the trait where they were learned, each with its error if there are any."""
    learned = {"standard": (), "variance": ("variance",), "free": ("mean", "variance")}[model.population]
    values = {"mean": "trait_mean_", "variance": "trait_variance_"}
    own = {"mean": "group_means", "variance": "group_variances"}
    return {
        name: Measured(
            float(getattr(model, values[name])), None if errors is None else float(errors[own[name]][0]), form=".3f"
        )
        for name in learned
    }


def _items(model: Any, rows: Rows, errors: Any) -> Table:
    """Make one row an item, one column a quantity, with its error where there is one."""
    names = ["discrimination", "difficulty", "intercept", *(["asymptote"] if _guessed(model) else [])]
    values = {name: getattr(model, f"{name}_") for name in names}
    own = {name: None if errors is None else errors[name] for name in names}
    if model.n_components > 1:
        for k, slopes in enumerate(model.components_):
            values[f"slope_{k + 1}"], own[f"slope_{k + 1}"] = slopes, None if errors is None else errors.components[k]
    fixed = _fixed(model)
    columns = {
        name: measured(values[name], own[name], ".3f", _notes(fixed.get(name), len(rows.names))) for name in values
    }
    return Table(list(rows.names), columns, corner="item")


def _notes(fixed: np.ndarray | None, n: int) -> list[str]:
    return [""] * n if fixed is None else ["fixed" if one else "" for one in fixed]


def _fixed(model: Any) -> dict[str, np.ndarray]:
    """Give by quantity the items whose own is fixed, and no estimate."""
    if not hasattr(model, "asymptote_"):
        return {}
    places = model.params_.item_places[0] >= len(model.params_.prior_mean)
    fixed = {"discrimination": places[:, 0], "intercept": places[:, 1], "difficulty": places[:, :2].all(1)}
    return fixed | {"asymptote": places[:, 2] if places.shape[1] == 3 else np.ones(len(places), bool)}


def _guessed(model: Any) -> bool:
    """Say whether any item has a lower asymptote."""
    return bool(np.any(getattr(model, "asymptote_", 0) > 0)) or model.asymptote is not False
