"""Items: discriminations and difficulties with their errors, and the population; traits for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.models.latent_trait.items import Params
from latentbits.telling.latent_trait import show
from latentbits.telling.numbers import criteria_facts, criteria_lines
from latentbits.telling.records import Printed, Table, Told, Values

__all__ = ["MOST_SHOWN", "REPORTS", "printed_items", "show", "tell"]

# what `fit --report` tells besides the fit: titles, and methods of the model
REPORTS = (("Items", "item_fit"), ("Pairs of items", "local_dependence"), ("Reliability", "reliability"))
MOST_SHOWN = 100  # items printed; all of them go into a file


def tell(model: Any, table: Table) -> Told:
    """Item parameters and information criteria.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.
    """
    found = model.criteria(table.values, table.weights)
    spread = model.standard_errors(table.values, table.weights) if table.errors else None
    items, trait = _items(model, table, spread), _population(model, spread)
    facts = {f"trait_{name}": value for name, value, _ in trait}
    facts |= {f"trait_{name}_error": error for name, _, error in trait if error is not None}
    lines = [[f"{name} of the trait", _cell(value, error)] for name, value, error in trait]
    return Told(
        criteria_facts(found) | facts | {"items": items.lines()},
        (printed_items(items, _held(model)), Printed(["", "value"], [*criteria_lines(found), *lines])),
        {"items": lambda: items},
    )


def _population(model: Any, spread: Any) -> list[tuple[str, float, float | None]]:
    """Mean and variance of the trait, where they were learned, each with its error if there are any."""
    if not isinstance(model.params_, Params):
        return []
    free = len(model.params_.prior_mean)
    learned = {"mean": model.params_.mean_places[0] < free, "variance": model.params_.sd_places[0] < free}
    errors = {"mean": "group_means", "variance": "group_variances"}
    return [
        (name, float(getattr(model.population_, name)[0]), None if spread is None else float(spread[errors[name]][0]))
        for name, is_free in learned.items()
        if is_free
    ]


def _held(model: Any) -> dict[str, np.ndarray]:
    """By quantity, which items have one that is fixed, and no estimate."""
    if not isinstance(model.params_, Params):
        return {}
    places = np.asarray(model.params_.item_places[0]) >= len(model.params_.prior_mean)
    held = {"discrimination": places[:, 0], "intercept": places[:, 1], "difficulty": places[:, :2].all(1)}
    return held | {"asymptote": places[:, 2] if places.shape[1] == 3 else np.ones(len(places), bool)}


def _items(model: Any, table: Table, spread: Any) -> Values:
    """One line an item, one column a quantity; with errors, each has its own after it."""
    q = len(model.components_)
    slopes = [] if q == 1 else [f"slope_{k + 1}" for k in range(q)]
    parts = {
        "discrimination": (model.discrimination_, spread and spread.discrimination),
        "difficulty": (model.difficulty_, spread and spread.difficulty),
        "intercept": (model.intercept_, spread and spread.intercept),
        **({"asymptote": (model.asymptote_, spread and spread.asymptote)} if _guessed(model) else {}),
        **{name: (model.components_[k], spread and spread.components[k]) for k, name in enumerate(slopes)},
    }
    columns = {}
    for name, (value, error) in parts.items():
        columns[name] = value
        if error is not None:
            columns[f"{name}_error"] = error
    return Values(table.names, tuple(columns), np.column_stack(list(columns.values())))


def _guessed(model: Any) -> bool:
    """Whether any item has a lower asymptote."""
    return bool(np.any(model.asymptote_ > 0)) or bool(model._guessed)


def printed_items(items: Values, held: Mapping[str, np.ndarray] | None = None) -> Printed:
    """Items as a table that is printed."""
    lines = [
        [name, *_cells(items.columns, line, [one for one, which in (held or {}).items() if which[i]])]
        for i, (name, line) in enumerate(zip(items.names, items.values[:MOST_SHOWN]))
    ]
    heads = [name.replace("_", " ") for name in items.columns if not name.endswith("_error")]
    note = ", ± standard error" if any(name.endswith("_error") for name in items.columns) else ""
    some = f" ({MOST_SHOWN} of {len(items.names)}; --items writes all)" if len(items.names) > MOST_SHOWN else ""
    return Printed(["item", *heads], lines, title=f"Items{note}{some}")


def _cells(columns: Sequence[str], line: Sequence[float], held: Sequence[str]) -> list[str]:
    """Numbers of one item, each with its error beside it where there is one, or said to be fixed."""
    values = dict(zip(columns, line))
    return [
        f"{value:.3f} (fixed)" if name in held else _cell(value, values.get(f"{name}_error"))
        for name, value in values.items()
        if not name.endswith("_error")
    ]


def _cell(value: float, error: float | None) -> str:
    """A number with its error, if that is known."""
    return f"{value:.3f}" + ("" if error is None or np.isnan(error) else f" ± {error:.3f}")
