"""Arrays that pictures of a spectrum, of clipped lines and of a morph show; nothing here draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.windows import Window

__all__ = [
    "LineCell",
    "Spectrum",
    "cells_of_lines",
    "flips",
    "line_window",
    "spectrum_of",
    "telling_loadings",
    "words_of_signs",
]


class Spectrum(NamedTuple):
    """Eigenvalues, the largest first, and what each counts as."""

    eigenvalues: np.ndarray  # (d,): descending
    kinds: np.ndarray  # (d,): 1 where positive, -1 where negative, 0 where zero but for rounding
    # sum of the sizes of the negative ones over that of all: 0 for a covariance, large where no Gaussian fits
    negative_share: float


def spectrum_of(eigenvalues: np.ndarray, tol: float = 1e-12) -> Spectrum:
    """Sort eigenvalues and separate positive, negative and vanishing ones.

    `eigenvalues` (d,): in any order.  `tol`: those smaller than this share of the largest count as zero.

    >>> found = spectrum_of(np.array([-1.0, 3.0, 1e-15]))
    >>> found.eigenvalues.tolist(), found.kinds.tolist(), found.negative_share
    ([3.0, 1e-15, -1.0], [1, 0, -1], 0.25)
    """
    values = np.sort(np.asarray(eigenvalues, np.float64))[::-1]
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"eigenvalues must be finite numbers in one dimension, found shape {np.shape(eigenvalues)}")
    size = np.abs(values)
    kinds = np.where(size <= tol * size.max(), 0, np.sign(values)).astype(int)
    total = float(size[kinds != 0].sum())
    return Spectrum(values, kinds, float(size[kinds < 0].sum()) / total if total > 0 else 0.0)


def flips(bits: np.ndarray) -> np.ndarray:
    """Count the bits that change from each row to the next.

    >>> flips(np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1]])).tolist()
    [1, 2]
    """
    bits = np.asarray(bits)
    return np.count_nonzero(bits[1:] != bits[:-1], axis=1)


def telling_loadings(weights: np.ndarray, most: int) -> np.ndarray:
    """Choose the columns that hidden variables explain most, grouped by the variable with the largest weight.

    `weights` (k, d): one hidden variable a row.  `most`: number of columns wanted.  Returns (m,) array of column
    numbers, m = min(most, d).

    >>> telling_loadings(np.array([[0.1, 0.9, 0.0], [0.7, 0.1, 0.1]]), 2).tolist()
    [1, 0]
    """
    size = np.abs(np.asarray(weights, np.float64))
    chosen = np.argsort(-np.square(size).sum(axis=0), kind="stable")[:most]
    top = np.argmax(size[:, chosen], axis=0)
    return chosen[np.lexsort((-size[top, chosen], top))]


# --- cells of lines in a plane ---


class LineCell(NamedTuple):
    """One cell: its corners within a window in order (m, 2), its signs (N,) of -1 and 1, its centre of area (2,)."""

    corners: np.ndarray
    signs: np.ndarray
    middle: np.ndarray


def line_window(weights: np.ndarray, phi: np.ndarray, least: float = 3.0) -> Window:
    """Choose a square about the origin that has all crossings of the lines phi_i + w_i . y = 0 well inside.

    `weights`, `phi`: (N, 2) and (N,).  `least`: how far it reaches at least.
    """
    weights, phi = _checked(weights, phi)
    far = least
    for i in range(len(phi)):
        for j in range(i):
            pair = weights[[i, j]]
            if abs(np.linalg.det(pair)) > 1e-9 * np.abs(pair).max() ** 2:
                far = max(far, 1.6 * float(np.abs(np.linalg.solve(pair, -phi[[i, j]])).max()))
    return -far, far, -far, far


def cells_of_lines(weights: np.ndarray, phi: np.ndarray, window: Window) -> list[LineCell]:
    """Find the cells into which the lines phi_i + w_i . y = 0 cut a window, with the signs of phi_i + w_i . y.

    Two cells that share an edge differ in one sign.

    `weights`, `phi`: (N, 2) and (N,).  `window`: (left, right, bottom, top).

    >>> cells = cells_of_lines(np.eye(2), np.zeros(2), (-1.0, 1.0, -1.0, 1.0))
    >>> [cell.signs.tolist() for cell in cells]
    [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    """
    weights, phi = _checked(weights, phi)
    left, right, bottom, top = window
    whole = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
    found: list[tuple[np.ndarray, list[int]]] = [(whole, [])]
    for weight, bias in zip(weights, phi):
        cut = [
            (part, [*signs, side])
            for corners, signs in found
            for side in (1, -1)
            if len(part := _half(corners, side * weight, side * bias))
        ]
        found = cut
    return [LineCell(corners, np.array(signs), _centre(corners)) for corners, signs in found]


def words_of_signs(signs: np.ndarray) -> str:
    """Write signs, with a minus as wide as a plus.

    >>> words_of_signs(np.array([1, -1, 1]))
    '+−+'
    """
    return "".join("+" if sign > 0 else "−" for sign in signs)


def _checked(weights: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weights, phi = np.asarray(weights, np.float64), np.asarray(phi, np.float64)
    if weights.ndim != 2 or weights.shape[1] != 2 or phi.shape != (len(weights),):
        raise DataError(f"lines need weights (N, 2) and phi (N,), found {weights.shape} and {phi.shape}")
    return weights, phi


def _half(corners: np.ndarray, weight: np.ndarray, bias: float) -> np.ndarray:
    """Cut a convex polygon to the half where weight . y + bias > 0; no corners where nothing is left."""
    height = corners @ weight + bias
    tiny = 1e-12 * (np.abs(corners).max() * np.abs(weight).max() + abs(bias))
    if not (height > tiny).any():
        return np.empty((0, 2))
    kept: list[np.ndarray] = []
    for here, there, above, next_above in zip(
        corners, np.roll(corners, -1, axis=0), height, np.roll(height, -1), strict=True
    ):
        if above >= 0:
            kept.append(here)
        if above * next_above < 0:
            kept.append(here + above / (above - next_above) * (there - here))
    return np.array(kept)


def _centre(corners: np.ndarray) -> np.ndarray:
    """Find the centre of area of a polygon."""
    here, there = corners, np.roll(corners, -1, axis=0)
    cross = here[:, 0] * there[:, 1] - there[:, 0] * here[:, 1]
    return ((here + there) * cross[:, None]).sum(axis=0) / (3 * cross.sum())
