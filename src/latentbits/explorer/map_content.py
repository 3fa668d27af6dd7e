"""Places of rows on a map, and the course of learning, as the records of content.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.explorer.content import Course, Map
from latentbits.figures.latent_trait.arrays import data_window, telling_boundaries

__all__ = ["course_of", "lines_of", "map_of", "short_covariances"]

N_LINES = 6  # columns whose lines are drawn at first


def map_of(name: str, model: Any, values: np.ndarray, n_lines: int = N_LINES) -> Map:
    """Place rows (n, d) by a model with two latent traits; `n_lines` columns have their lines drawn at first."""
    found = model.posterior(values)
    means = np.asarray(found.mean, np.float64)
    weights, bias = np.asarray(model.components_, np.float64), np.asarray(model.intercept_, np.float64)
    noise = getattr(model, "noise_variance_", None)
    return Map(
        name=name,
        means=means,
        covariances=short_covariances(found.covariance),
        weights=weights,
        bias=bias,
        noise=None if noise is None else np.asarray(noise, np.float64),
        cost=-np.asarray(model.score_samples(values), np.float64) / np.log(2),
        lines=lines_of(weights, bias, means, n_lines if noise is None else 0),  # of real columns there is no P = 0.5
        converged=bool(model._finished),
    )


def lines_of(weights: np.ndarray, bias: np.ndarray, means: np.ndarray, n_lines: int) -> np.ndarray:
    """Choose columns of a map whose lines P(bit = 1 | x) = 0.5 separate most rows at these places."""
    return telling_boundaries(weights.T, bias, means, n_lines, data_window(means)) if n_lines else np.zeros(0, int)


def short_covariances(covariances: Any) -> np.ndarray:
    """Take xx, yy and xy of covariances (n, 2, 2)."""
    return np.asarray(covariances, np.float64)[:, [0, 1, 0], [0, 1, 1]]


def course_of(name: str, model: Any, n_rows: float) -> Course:
    """Give the course of the fit of a model to n rows, in bits per row."""
    return Course(name, -np.asarray(model.history_, np.float64) / n_rows / np.log(2))
