"""Arrays that a picture shows; nothing here draws."""

from __future__ import annotations

import numpy as np

__all__ = ["HIDDEN_SHARE", "hide_lower_half", "hide_some", "numbers_on", "share_right", "telling_columns", "tile"]

HIDDEN_SHARE = 0.25  # of the cells of a table that are hidden to see how well they are guessed


def numbers_on(active: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the share of the rows in which 0, 1, ... m causes are on.

    `active` (n, m): P(cause is on | row).  `weights` (n,) or None: how often each row counts; None for once.

    >>> numbers_on(np.array([[0.0, 1.0], [0.9, 1.0]])).tolist()
    [0.0, 0.5, 0.5]
    """
    together = np.sum(active > 0.5, axis=1)
    counts = np.bincount(together, weights, minlength=active.shape[1] + 1)
    return counts / counts.sum()


def hide_lower_half(n: int, image_shape: tuple[int, int]) -> np.ndarray:
    """Mark the bits of n images that are hidden if the lower half is; an odd row in the middle stays.

    >>> hide_lower_half(1, (3, 2)).tolist()
    [[False, False, False, False, True, True]]
    """
    height, width = image_shape
    line = np.repeat(np.arange(height) >= (height + 1) // 2, width)
    return np.tile(line, (n, 1))


def hide_some(shape: tuple[int, ...], rng: np.random.Generator, share: float = HIDDEN_SHARE) -> np.ndarray:
    """Mark bits of a table as hidden, each with the same probability."""
    return rng.random(shape) < share


def share_right(guess: np.ndarray, truth: np.ndarray, hidden: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Compute the share of hidden bits whose probability is on the right side of 1/2; NaN if none can be checked.

    Rows count as often as their weights say; None for once.

    >>> share_right(np.array([[0.9, 0.2, 0.6]]), np.array([[1.0, 1.0, np.nan]]), np.array([[True, True, True]]))
    0.5
    """
    asked = hidden & ~np.isnan(truth)
    if not asked.any():
        return float("nan")
    counts = None if weights is None else np.broadcast_to(weights[:, None], asked.shape)[asked]
    return float(np.average((guess[asked] > 0.5) == (truth[asked] > 0.5), weights=counts))


def telling_columns(weights: np.ndarray, means: np.ndarray, most: int) -> np.ndarray:
    """Choose the columns in which components differ most, grouped by the component in which each is most frequent.

    `weights`, `means`: (k,) and (k, d).  `most`: number of columns wanted.  Returns (m,) array of column numbers, m =
    min(most, d).
    """
    share = np.asarray(weights) / np.sum(weights)
    spread = share @ np.square(means - share @ means)
    chosen = np.argsort(-spread, kind="stable")[:most]
    top = np.argmax(means[:, chosen], axis=0)
    return chosen[np.lexsort((-means[top, chosen], top))]


def tile(images: np.ndarray, image_shape: tuple[int, int], n_columns: int, gap: int = 1) -> np.ndarray:
    """Arrange images side by side in one array, with NaN between them and where the last row has none.

    Parameters
    ----------
    images : (n, height * width) array
    image_shape : (height, width)
    n_columns : int
        Images in a row.
    gap : int
        Pixels between neighbours.
    """
    height, width = image_shape
    n_rows = -(-len(images) // n_columns)
    sheet = np.full((n_rows * (height + gap) - gap, n_columns * (width + gap) - gap), np.nan)
    for place, image in enumerate(images):
        top, left = (place // n_columns) * (height + gap), (place % n_columns) * (width + gap)
        sheet[top : top + height, left : left + width] = np.reshape(image, image_shape)
    return sheet
