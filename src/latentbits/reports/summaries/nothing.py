"""A model without anything hidden, of another library: an empty summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Rows, Shown, Summary

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    return Summary()


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    return Shown()
