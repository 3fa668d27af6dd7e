"""Items: discriminations and difficulties with their errors, information criteria, maps; and traits for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.numbers import criteria_facts, criteria_lines
from latentbits.reports.summaries.records import Gallery, Layer, Printed, Shown, Table, Told, Values, strongest_rows

__all__ = ["REPORTS", "show", "tell"]

# what `fit --report` tells besides the fit: titles, and methods of the model
REPORTS = (("Items", "item_fit"), ("Pairs of items", "local_dependence"), ("Reliability", "reliability"))
MOST_SHOWN = 100  # items printed; all of them go into a file


def tell(model: Any, table: Table) -> Told:
    """Item parameters and information criteria.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.  Of
    several maps what is printed are their shares, and what is written has the number of the map behind each quantity.
    On a curved surface an item has no slope but on average.
    """
    found = model.criteria(table.values, table.weights)
    if model.n_maps > 1:
        return _tell_maps(model, table, found)
    if model.decoder == "mlp":
        return _tell_curve(model, table, found)
    spread = model.standard_errors(table.values, table.weights) if table.errors else None
    items, trait = _items(model, table, spread), _population(model, spread)
    facts = {f"trait_{name}": value for name, value, _ in trait}
    facts |= {f"trait_{name}_error": error for name, _, error in trait if error is not None}
    lines = [[f"{name} of the trait", _cell(value, error)] for name, value, error in trait]
    return Told(
        criteria_facts(found) | facts | {"items": items.lines()},
        (_printed(items, _held(model)), Printed(["", "value"], [*criteria_lines(found), *lines])),
        {"items": lambda: items},
    )


def _population(model: Any, spread: Any) -> list[tuple[str, float, float | None]]:
    """Mean and variance of the trait, where they were learned, each with its error if there are any."""
    learned = {"standard": (), "variance": ("variance",), "free": ("mean", "variance")}[model.population]
    values = {"mean": "trait_mean_", "variance": "trait_variance_"}
    errors = {"mean": "group_means", "variance": "group_variances"}
    return [
        (name, float(getattr(model, values[name])), None if spread is None else float(spread[errors[name]][0]))
        for name in learned
    ]


def _held(model: Any) -> dict[str, np.ndarray]:
    """By quantity, which items have one that is fixed, and no estimate."""
    if not hasattr(model, "asymptote_"):
        return {}
    places = model.params_.item_places[0] >= len(model.params_.prior_mean)
    held = {"discrimination": places[:, 0], "intercept": places[:, 1], "difficulty": places[:, :2].all(1)}
    return held | {"asymptote": places[:, 2] if places.shape[1] == 3 else np.ones(len(places), bool)}


def _tell_curve(model: Any, table: Table, found: Any) -> Told:
    if table.errors:
        model.standard_errors(table.values)  # says why there are none
    names = tuple(f"mean_slope_{k + 1}" for k in range(model.n_components))
    items = Values(table.names, names, model.mean_slopes_.T)
    return Told(
        criteria_facts(found) | {"items": items.lines()},
        (_printed(items), Printed(["", "value"], criteria_lines(found))),
        {"items": lambda: items},
    )


def _tell_maps(model: Any, table: Table, found: Any) -> Told:
    if table.errors:
        model.standard_errors(table.values)  # says why there are none
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
    """Names and values of what items have on each map."""
    columns: dict[str, np.ndarray] = {}
    for m in range(model.n_maps):
        slopes = (
            {f"slope_{k + 1}": line for k, line in enumerate(model.components_[m])} if model.n_components > 1 else {}
        )
        own = {"discrimination": model.discrimination_[m], "difficulty": model.difficulty_[m],
               "intercept": model.intercept_[m], **slopes}  # fmt: skip
        columns |= {f"{name}_map_{m + 1}": values for name, values in own.items()}
    return tuple(columns), np.column_stack(list(columns.values()))


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The traits, the longest first; of several maps, those of each."""
    if model.decoder == "mlp":
        extent = ", on average: the surface is curved, and elsewhere on it the pull is another"
        return Shown(gallery_along("trait", name, model.mean_slopes_, places_of(model, values), extent))
    if model.n_maps == 1:
        return Shown(gallery_along("trait", name, model.components_, places_of(model, values)))
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


def _items(model: Any, table: Table, spread: Any) -> Values:
    """One line an item, one column a quantity; with errors, each has its own after it."""
    q = model.n_components
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
    return bool(np.any(getattr(model, "asymptote_", 0) > 0)) or model.asymptote is not False


def _printed(items: Values, held: Mapping[str, np.ndarray] | None = None) -> Printed:
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
