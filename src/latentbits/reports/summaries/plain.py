"""Any model: what each of its latents, alone at 1, makes of the columns; for families without a summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Gallery, Layer, Rows, Shown, Summary, strongest_rows

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Add nothing to what every fit prints."""
    return Summary()


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the latents as causes, in the order of their mean over rows."""
    active = np.asarray(model.transform(values), np.float64)
    usage = np.average(active, axis=0, weights=weights)
    order = np.argsort(-usage, kind="stable")
    active = active[:, order]
    decoded = np.asarray(model.inverse_transform(np.eye(len(order))))[order]
    names = tuple(f"cause {i + 1}" for i in range(len(order)))
    layer = Layer("Causes", names, decoded, None, usage[order], active, strongest_rows(active))
    about = "Shown is what the model expects of each column where a cause alone is on."
    return Shown(Gallery(name, about, "signed" if model.real_valued else "probability", (layer,)))
