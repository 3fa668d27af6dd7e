"""Any model: what each of its latents, alone at 1, makes of the columns; for families that tell no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Gallery, Layer, Shown, Table, Told, strongest_rows

__all__ = ["show", "tell"]


def tell(model: Any, table: Table) -> Told:
    """Nothing beyond what is told of any fit."""
    return Told()


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The latents as causes, in the order of how much rows have of them."""
    active = np.asarray(model.transform(values), np.float64)
    usage = np.average(active, axis=0, weights=weights)
    order = np.argsort(-usage, kind="stable")
    active = active[:, order]
    decoded = np.asarray(model.inverse_transform(np.eye(len(order))))[order]
    names = tuple(f"cause {i + 1}" for i in range(len(order)))
    layer = Layer("Causes", names, decoded, None, usage[order], active, strongest_rows(active))
    about = "Shown is what the model expects of each column where a cause alone is on."
    return Shown(Gallery(name, about, "signed" if model.real_valued else "probability", (layer,)))
