"""Causes that are on or off and add up, which combination machines and binary sparse coding share."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.numbers import measured
from latentbits.reports.record import Table
from latentbits.reports.strongest import in_words, telling_weights
from latentbits.reports.summaries.records import Gallery, Layer, Shown, strongest_rows

__all__ = ["largest_weights", "show"]


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the causes, the commonest first."""
    active = np.asarray(model.transform(values))
    usage = np.average(active, axis=0, weights=weights) if active.size else np.zeros(active.shape[1])
    order = np.argsort(-usage, kind="stable")
    active = active[:, order]
    names = tuple(f"cause {i + 1}" for i in range(len(order)))
    layer = Layer("Causes", names, model.components_[order], None, usage[order], active, strongest_rows(active))
    about = "Any number of causes are on in a row. Shown is what a cause that is on adds to each column."
    return Shown(Gallery(name, about, "signed", (layer,)))


def largest_weights(
    cause: str,
    heading: str,
    model: Any,
    names: tuple[str, ...],
    shares: tuple[float, ...],
    form: str,
    biases: np.ndarray | None = None,
) -> Table:
    """Make a table of the commonest causes with their largest weights, each written by `form`."""
    chosen = telling_weights(model.components_, 4)  # a line of 80 characters holds four
    order = np.argsort(-np.array(shares), kind="stable")
    columns: dict[str, Any] = {
        heading: [in_words(names, model.components_[k], chosen[k], form) for k in order],
        "on in": measured(np.array(shares)[order], form=".1%"),
    }
    if biases is not None:
        columns["bias"] = measured(biases[order], form=".2f")
    found = Table([str(k + 1) for k in order], columns, title=f"{cause.capitalize()}s", corner=cause)
    return found.first(30, "{} more: --items writes all")
