"""Items: discriminations and difficulties with their errors, and the population; traits for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.models.latent_trait.item_params import Params
from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Table
from latentbits.reports.render import records
from latentbits.reports.summaries.latent_trait import show
from latentbits.reports.summaries.records import Rows, Summary, criteria_facts, criteria_table, shown_items
from latentbits.reports.summaries.reports import Entry

__all__ = ["REPORTS", "show", "summarize"]

# the reports of `fit --report` besides that of the fit: titles, and methods of the model
REPORTS: tuple[Entry, ...] = (
    ("Items", "item_fit"),
    ("Pairs of items", "local_dependence"),
    ("Reliability", "reliability"),
)


def summarize(model: Any, rows: Rows) -> Summary:
    """Give item parameters, the population, and information criteria.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.
    """
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


def _population(model: Any, errors: Any) -> dict[str, Measured]:
    """Give the mean and the variance of the trait where they were learned, each with its error if there are any."""
    if not isinstance(model.params_, Params):
        return {}
    free = len(model.params_.prior_mean)
    learned = {"mean": model.params_.mean_places[0] < free, "variance": model.params_.sd_places[0] < free}
    own = {"mean": "group_means", "variance": "group_variances"}
    return {
        name: Measured(
            float(getattr(model.population_, name)[0]),
            None if errors is None else float(errors[own[name]][0]),
            form=".3f",
        )
        for name, is_free in learned.items()
        if is_free
    }


def _items(model: Any, rows: Rows, errors: Any) -> Table:
    """Make one row an item, one column a quantity, with its error where there is one."""
    names = ["discrimination", "difficulty", "intercept", *(["asymptote"] if _guessed(model) else [])]
    values = {name: getattr(model, f"{name}_") for name in names}
    own = {name: None if errors is None else errors[name] for name in names}
    if len(model.components_) > 1:
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
    """Mark by quantity the items that have a fixed one, and no estimate."""
    if not isinstance(model.params_, Params):
        return {}
    places = np.asarray(model.params_.item_places[0]) >= len(model.params_.prior_mean)
    fixed = {"discrimination": places[:, 0], "intercept": places[:, 1], "difficulty": places[:, :2].all(1)}
    return fixed | {"asymptote": places[:, 2] if places.shape[1] == 3 else np.ones(len(places), bool)}


def _guessed(model: Any) -> bool:
    """Say whether any item has a lower asymptote."""
    return bool(np.any(model.asymptote_ > 0)) or bool(model._guessed)
