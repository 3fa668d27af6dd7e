"""Kinds of rows: how common each is, and what its rows look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.telling.nothing import tell
from latentbits.telling.records import Gallery, Layer, Shown, strongest_rows

__all__ = ["show", "tell"]


def show(name: str, model: Any, values: np.ndarray, n_rows: int) -> Shown:
    """The components, the largest first."""
    order = np.argsort(-model.weights_, kind="stable")
    active = np.asarray(model.transform(values))[:, order]
    names = tuple(f"kind {i + 1}" for i in range(len(order)))
    layer = Layer(
        "Kinds of rows", names, model.means_[order], None, model.weights_[order], active, strongest_rows(active)
    )
    about = "Each row is of one kind. Shown is P(bit = 1) in rows of that kind."
    return Shown(Gallery(name, about, "probability", (layer,)))
