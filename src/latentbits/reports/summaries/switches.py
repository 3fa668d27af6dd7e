"""Causes that are on or off and add up, which combination machines and binary sparse coding share."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.strongest import in_words, telling_weights
from latentbits.reports.summaries.records import Gallery, Layer, Printed, Shown, strongest_rows

__all__ = ["print_switches", "show"]

MOST_SHOWN = 30  # causes printed; JSON has all
MOST_NAMES = 4  # columns named for each


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The causes, the commonest first."""
    active = np.asarray(model.transform(values))
    usage = np.average(active, axis=0, weights=weights) if active.size else np.zeros(active.shape[1])
    order = np.argsort(-usage, kind="stable")
    active = active[:, order]
    names = tuple(f"cause {i + 1}" for i in range(len(order)))
    layer = Layer("Causes", names, model.components_[order], None, usage[order], active, strongest_rows(active))
    about = "Any number of causes are on in a row. Shown is what a cause that is on adds to each column."
    return Shown(Gallery(name, about, "signed", (layer,)))


def print_switches(
    header: tuple[str, ...],
    title: str,
    model: Any,
    names: tuple[str, ...],
    shares: tuple[float, ...],
    form: str,
    last: np.ndarray | None = None,
) -> Printed:
    """The commonest causes with their largest weights; `form` writes a weight, `last` is one number more for each."""
    telling = telling_weights(model.components_, MOST_NAMES)
    lines = []
    for cause in np.argsort(-np.array(shares), kind="stable")[:MOST_SHOWN]:
        weights = in_words(names, model.components_[cause], telling[cause], form)
        own = [] if last is None else [f"{last[cause]:.2f}"]
        lines.append([str(cause + 1), weights, f"{shares[cause]:.1%}", *own])
    some = f" ({MOST_SHOWN} of {len(shares)}; --items writes all)" if len(shares) > MOST_SHOWN else ""
    return Printed(header, lines, left=2, title=f"{title}{some}")
