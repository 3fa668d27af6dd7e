"""The items of a fitted latent trait model, as a table for people, for files and for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from latentbits.cli.console import print_table, say
from latentbits.cli.inputs import Rows, without_names

__all__ = ["Items", "describe", "show_items", "write_items"]

MOST_SHOWN = 100  # items printed; all of them go into a file


@dataclass(frozen=True, eq=False)
class Items:
    """One line an item, one column a quantity; with errors, each has its own after it."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    values: Any  # (items, columns)
    fit: dict[str, Any]  # log-likelihood, AIC, BIC and what they are made of

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        lines = [dict(zip(self.columns, line)) for line in self.values.tolist()]
        return {**self.fit, "items": [{"item": name, **line} for name, line in zip(self.names, lines)]}


def describe(model: Any, rows: Rows, errors: bool) -> Items:
    """Item parameters and information criteria of a model fitted to these rows.

    In one dimension an item has a discrimination and a difficulty; in several also its slopes and intercept.

    Parameters
    ----------
    model
        A fitted LatentTrait.
    rows
        The table that it was fitted to.
    errors
        Whether to compute standard errors.
    """
    import numpy as np

    q, n = model.n_components, rows.shape[0]
    with without_names(model):
        total, total_error = model.log_likelihood(rows.values, return_error=True)
        spread = model.standard_errors(rows.values) if errors else None
    slopes = [] if q == 1 else [f"slope_{k + 1}" for k in range(q)]
    parts = {
        "discrimination": (model.discrimination_, spread and spread.discrimination),
        "difficulty": (model.difficulty_, spread and spread.difficulty),
        "intercept": (model.intercept_, spread and spread.intercept),
        **{name: (model.components_[k], spread and spread.components[k]) for k, name in enumerate(slopes)},
    }
    names, values = [], []
    for name, (value, error) in parts.items():
        names.append(name)
        values.append(value)
        if error is not None:
            names.append(f"{name}_error")
            values.append(error)
    p = model.n_parameters_
    return Items(
        rows.all_names,
        tuple(names),
        np.column_stack(values),
        {
            "log_likelihood": total,
            "log_likelihood_error": total_error,
            "n_parameters": p,
            "aic": 2 * p - 2 * total,
            "bic": math.log(n) * p - 2 * total,
        },
    )


def show_items(found: Items) -> None:
    """The table of items and the information criteria, on stdout."""
    lines = [[name, *_cells(found.columns, line)] for name, line in zip(found.names, found.values[:MOST_SHOWN])]
    heads = [name.replace("_", " ") for name in found.columns if not name.endswith("_error")]
    note = ", ± standard error" if any(name.endswith("_error") for name in found.columns) else ""
    some = f" ({MOST_SHOWN} of {len(found.names)}; --items writes all)" if len(found.names) > MOST_SHOWN else ""
    print_table(["item", *heads], lines, title=f"Items{note}{some}")
    fit = found.fit
    lines = [
        ["log-likelihood, nats", f"{fit['log_likelihood']:.3f}" + _beside(fit["log_likelihood_error"])],
        ["parameters", str(fit["n_parameters"])],
        ["AIC", f"{fit['aic']:.3f}" + _beside(2 * fit["log_likelihood_error"])],
        ["BIC", f"{fit['bic']:.3f}" + _beside(2 * fit["log_likelihood_error"])],
    ]
    print_table(["", "value"], lines)


def _beside(error: float) -> str:
    """The error beside a number with three decimals, where it can be seen there."""
    return f" ± {error:.3f}" if error >= 0.0005 else ""


def _cells(columns: Sequence[str], line: Sequence[float]) -> list[str]:
    """Numbers of one item, each with its error beside it where there is one."""
    values = dict(zip(columns, line))
    return [
        f"{value:.3f}" + (f" ± {values[f'{name}_error']:.3f}" if f"{name}_error" in values else "")
        for name, value in values.items()
        if not name.endswith("_error")
    ]


def write_items(found: Items, path: str) -> None:
    """The table of items, as csv, tsv, npz or parquet."""
    from latentbits.data.write import write

    write(path, found.values, found.columns, {"item": found.names})
    say(f"wrote {path}: {len(found.names)} items")
