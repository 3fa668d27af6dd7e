"""Whitening of image patches that stays near to the pixels (ZCA), and the way back to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = ["Whitening", "fit_zca"]

BLOCK_PATCHES = 8192  # patches that are whitened or summed at a time, to bound temporary arrays


class Whitening(NamedTuple):
    """Linear map to whitened pixels and its inverse; `mean` (d,), `whiten` (d, d) and `colour` (d, d) are symmetric.

    >>> patches = np.random.default_rng(0).normal(size=(50, 4)).cumsum(axis=1)
    >>> fitted = fit_zca(patches, floor=0)
    >>> bool(np.allclose(fitted.invert(fitted.apply(patches)), patches, atol=1e-4))
    True
    """

    mean: np.ndarray
    whiten: np.ndarray
    colour: np.ndarray

    def apply(self, patches: np.ndarray) -> np.ndarray:
        """Whiten patches (n, d); float32."""
        return _in_blocks(patches, lambda rows: (rows - self.mean) @ self.whiten)

    def invert(self, whitened: np.ndarray) -> np.ndarray:
        """Undo the whitening of patches."""
        return _in_blocks(whitened, lambda rows: rows @ self.colour + self.mean)

    def to_pixels(self, components: np.ndarray) -> np.ndarray:
        """Turn components (H, d) of whitened patches into what they add to pixels."""
        return np.asarray(components, np.float64) @ self.colour


def fit_zca(patches: np.ndarray, floor: float = 0.1) -> Whitening:
    """Fit the symmetric (zero-phase) whitening of patches: C^-1/2 for their covariance C.

    Parameters
    ----------
    patches : (n, d) array
    floor : float
        Directions with less variance than this share of the mean over all directions are divided as if they had that
        much: the finest detail of images is mostly noise, and the direction of constant patches may have none.

    Returns
    -------
    Whitening
    """
    patches = np.asarray(patches)
    if patches.ndim != 2 or len(patches) < 2:
        raise DataError(f"patches must be (n, d) with n of at least 2, found shape {patches.shape}")
    if not 0 <= floor < np.inf:
        raise DataError(f"floor must be at least 0, found {floor!r}")
    mean, covariance = _moments(patches)
    if not np.isfinite(covariance).all():
        raise DataError("patches must be finite")
    values, axes = np.linalg.eigh(covariance)
    least = max(floor * values.mean(), 1e-10 * values[-1])  # or rounding would be whitened too
    if not least > 0:
        raise DataError("patches must differ: their variance is 0 in every pixel")
    spread = np.sqrt(np.maximum(values, least))
    return Whitening(mean, (axes / spread) @ axes.T, (axes * spread) @ axes.T)


def _moments(patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean (d,) and covariance (d, d) in float64; PCA of scikit-learn would copy all patches to float64."""
    mean = patches.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for start in range(0, len(patches), BLOCK_PATCHES):
        rows = patches[start : start + BLOCK_PATCHES] - mean
        covariance += rows.T @ rows
    return mean, covariance / len(patches)


def _in_blocks(patches: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    patches = np.asarray(patches)
    out = np.empty(patches.shape, np.float32)
    for start in range(0, len(patches), BLOCK_PATCHES):
        out[start : start + BLOCK_PATCHES] = change(patches[start : start + BLOCK_PATCHES])
    return out
