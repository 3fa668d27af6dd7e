"""Places of rows along traits or factors, which latent traits and clipped Gaussians share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Gallery, Layer, strongest_rows

__all__ = ["gallery_along", "places_of"]


def places_of(model: Any, values: np.ndarray) -> np.ndarray:
    """Find where each row is, (n, k)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* rows cannot be produced", category=UserWarning)
        return np.asarray(model.transform(values), np.float64)


def gallery_along(what: str, name: str, weights: np.ndarray, places: np.ndarray, extent: str = "") -> Gallery:
    """Make a gallery of traits or factors, (k, d) weights; `what` is the word for one, `extent` how far it holds."""
    names = tuple(f"{what} {i + 1}" for i in range(places.shape[1]))
    usage = np.full(places.shape[1], np.nan)  # a row is always somewhere along a trait
    layer = Layer(f"{what.capitalize()}s", names, weights, None, usage, places, strongest_rows(places))
    about = f"Each row has a place along each {what}. Shown is how much a bit is pulled up or down along it{extent}."
    return Gallery(name, about, "signed", (layer,))
