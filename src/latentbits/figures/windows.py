"""The window of a picture of a plane, and where lines cross it."""

from __future__ import annotations

import numpy as np

__all__ = ["Window", "boundary_ends"]

Window = tuple[float, float, float, float]  # left, right, bottom, top: the order of an extent in matplotlib


def boundary_ends(weights: np.ndarray, bias: np.ndarray, window: Window) -> np.ndarray:
    """Find the points where the lines w . x + b = 0 enter and leave a window.

    `weights`, `bias`: (d, 2) and (d,).  `window`: (left, right, bottom, top).  Returns (d, 2, 2) array of two points
    each; NaN for lines that miss the window or have no direction.

    >>> ends = boundary_ends(np.array([[1.0, 0.0]]), np.array([-0.5]), (0.0, 1.0, 2.0, 3.0))
    >>> np.allclose(ends, [[[0.5, 2], [0.5, 3]]])
    True
    """
    weights, bias = np.asarray(weights, np.float64), np.asarray(bias, np.float64)
    low, high = np.array(window[::2]), np.array(window[1::2])
    centre = (low + high) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        length = np.sqrt(np.square(weights).sum(axis=1))
        normal = weights / length[:, None]
        foot = centre - ((weights @ centre + bias) / length)[:, None] * normal
        along = np.column_stack([-normal[:, 1], normal[:, 0]])
        steps = np.sort(np.stack([(low - foot) / along, (high - foot) / along]), axis=0)
        # a line along an axis is inside the other slab for all steps (-inf to inf) or for none (NaN or inf, inf)
        enter, leave = np.max(steps[0], axis=1), np.min(steps[1], axis=1)
        ends = foot[:, None] + np.stack([enter, leave], axis=1)[:, :, None] * along[:, None]
    ends[~(enter < leave)] = np.nan
    return ends
