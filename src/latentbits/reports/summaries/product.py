"""Independent bits: nothing is hidden, but guesses of rare shares may cost bits that others save without causes."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.nothing import summarize
from latentbits.reports.summaries.records import Shown

__all__ = ["show", "summarize"]


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Give the bits per row that may be lost by taking s / 2 of s more rows for ones: all that other models may save.

    A column that is never on gets P(1) = (s / 2) / (n + s), and every row pays that much, in nats.
    """
    rare = np.minimum(np.asarray(model.means_), model.smoothing / 2 / (n_rows + model.smoothing))
    return Shown(by_shares=float(-np.log2(1 - rare).sum()))
