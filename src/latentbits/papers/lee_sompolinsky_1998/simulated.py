"""Data of a known clipped Gaussian: are the correlations, the subspace and the number of components found?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import subspace_angles
from scipy.special import ndtri

from latentbits.estimators.clipped_gaussian import ClippedGaussian

__all__ = ["Truth", "draw_truth", "recover", "simulate"]


class Truth(NamedTuple):
    """Weights (d, P), noise variances (d,) and thresholds (d,) of Gaussians with variance 1."""

    weights: np.ndarray
    noise: np.ndarray
    phi: np.ndarray

    def correlation(self) -> np.ndarray:
        return self.weights @ self.weights.T + np.diag(self.noise)


def draw_truth(n_columns: int, n_components: int, explained: float, rng: np.random.Generator) -> Truth:
    """Draw directions, all of one length: `explained` of each variance is shared.  Means of bits are 0.1 to 0.9."""
    directions = rng.standard_normal((n_columns, n_components))
    weights = np.sqrt(explained) * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return Truth(weights, np.full(n_columns, 1 - explained), ndtri(rng.uniform(0.1, 0.9, n_columns)))


def simulate(truth: Truth, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows of bits."""
    y = rng.standard_normal((n_samples, truth.weights.shape[1]))
    x = y @ truth.weights.T + np.sqrt(truth.noise) * rng.standard_normal((n_samples, len(truth.phi)))
    return (truth.phi + x > 0).astype(np.uint8)


def recover(n_columns: int, n_components: int, n_samples: int, explained: float, seed: int) -> dict[str, Any]:
    """Fit data of a new truth, with the number of components found by parallel analysis."""
    rng = np.random.default_rng(seed)
    truth = draw_truth(n_columns, n_components, explained, rng)
    X = simulate(truth, n_samples, rng)
    noise = "none" if explained == 1 else "unique"
    model = ClippedGaussian("parallel", noise=noise, random_state=seed).fit(X)
    pairs = np.triu_indices(n_columns, 1)
    away = np.abs(model.correlation_ - truth.correlation()) / np.where(np.eye(n_columns), 1, model.correlation_error_)
    full = (_smallest_cell(X) > 0)[pairs]
    told = ~model.undetermined_[pairs]
    away = away[pairs]
    vectors = np.linalg.eigh(model.correlation_)[1][:, -n_components:]  # those of P weights, whatever P was found
    turned = subspace_angles(vectors, truth.weights)
    return {
        "found": int(model.n_components_),
        "largest_error": float(away[told].max()),
        "largest_error_full": float(away[told & full].max()),
        "rms_error_full": float(np.sqrt(np.mean(np.square(away[told & full])))),
        "n_undetermined": int((~told).sum()),
        "n_empty": int((~full).sum()),
        "degrees": float(np.degrees(turned.max())),
    }


def _smallest_cell(X: np.ndarray) -> np.ndarray:
    """Count the rows in the emptiest cell of the 2 x 2 table of each pair of columns, (d, d)."""
    bits = X.astype(np.float64)
    both, ones = bits.T @ bits, bits.sum(axis=0)
    left, right = ones[:, None] - both, ones - both
    return np.minimum.reduce([both, left, right, len(X) - both - left - right])
