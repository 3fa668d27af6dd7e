"""The way from one row to another through the space of the hidden variables, and by PCA of the bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Morph", "along", "one_row"]


class Morph(NamedTuple):
    """The way from one row to another.

    Attributes
    ----------
    position : (n_steps,)
        From 0 at the first row to 1 at the second.
    latents : (n_steps, n_components)
        y along the straight line between the two.
    bits : (n_steps, n_columns)
        sgn(phi + W y) there, as 0 and 1: bits flip one after another, in the model's order.
    cross_fade : (n_steps, n_columns)
        The same by linear PCA of the bits with as many components: shades between the two rows.
    """

    position: np.ndarray
    latents: np.ndarray
    bits: np.ndarray
    cross_fade: np.ndarray


def along(
    y: np.ndarray,
    ends: np.ndarray,
    n_steps: int,
    components: np.ndarray,
    thresholds: np.ndarray,
    means: np.ndarray,
    covariance: np.ndarray,
) -> Morph:
    """Go in straight lines from one of two rows to the other: their hidden variables are y, their bits the ends.

    PCA goes by the covariance of the bits.
    """
    position = np.linspace(0, 1, n_steps)
    latents = y[0] + position[:, None] * (y[1] - y[0])
    bits = (thresholds + latents @ components > 0).astype(np.uint8)
    vectors = np.linalg.eigh(covariance)[1][:, ::-1][:, : len(components)]
    away = np.where(np.isnan(ends), 0.0, ends - means)
    kept = means + away @ vectors @ vectors.T
    return Morph(position, latents, bits, kept[0] + position[:, None] * (kept[1] - kept[0]))


def one_row(name: str, x: Any, n_columns: int, names: Any) -> np.ndarray:
    """Take one row as numbers; of a Series, or a frame of one row, by the names of its columns."""
    x = x.iloc[0] if hasattr(x, "iloc") and getattr(x, "ndim", 1) == 2 and len(x) == 1 else x
    if names is not None and hasattr(x, "reindex"):
        missing = [str(column) for column in names if column not in x.index]
        if missing:
            raise ValueError(f"{name} has no {missing[0]!r}: it must have the columns that the model was fitted to")
        x = x.reindex(names)
    row = np.asarray(x, float).ravel()
    if len(row) != n_columns or np.ndim(x) > 2:
        raise ValueError(f"{name} must be one row of {n_columns} bits, found {np.shape(x)}")
    return row
