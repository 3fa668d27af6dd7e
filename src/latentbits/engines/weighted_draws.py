"""Numbers of rows that are drawn by their weights, for models that look at a few rows."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt32

from latentbits.core import keys

__all__ = ["DRAWN_ROWS", "drawn_rows"]

DRAWN_ROWS = 1024  # a model uses a few of them, and each of several starts uses others
MOST_ROWS = 2**31  # from which rows can be drawn: models number them by 32 bits


def drawn_rows(ends: np.ndarray, key: keys.Raw) -> UInt32[np.ndarray, " drawn"]:
    """Numbers of rows, each as often as it counts, from the running sum of the weights; none that does not count.

    >>> numbers = drawn_rows(np.cumsum([0.0, 1.0, 0.0, 3.0, 0.0]), keys.of_seed(0))
    >>> np.unique(numbers).tolist(), bool(abs(np.mean(numbers == 3) - 0.75) < 0.07)
    ([1, 3], True)
    """
    ends = ends[:MOST_ROWS]
    places = np.random.default_rng([int(word) for word in key]).random(DRAWN_ROWS) * ends[-1]
    last = np.searchsorted(ends, ends[-1])  # a product may be rounded up to the end
    return np.minimum(np.searchsorted(ends, places, side="right"), last).astype(np.uint32)
