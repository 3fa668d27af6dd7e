"""Mean slopes of each column along a curved surface, and information criteria; traits for the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.latent_trait import summary_of_columns
from latentbits.reports.summaries.records import Rows, Shown, Summary

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the slopes of the columns, on average over the surface, and information criteria."""
    slopes = {f"mean_slope_{k + 1}": slopes for k, slopes in enumerate(model.mean_slopes_)}
    return summary_of_columns(model, rows, slopes)


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the traits, the longest first, by their mean slopes."""
    extent = ", on average: the surface is curved, and elsewhere on it the pull is another"
    return Shown(gallery_along("trait", name, model.mean_slopes_, places_of(model, values), extent))
