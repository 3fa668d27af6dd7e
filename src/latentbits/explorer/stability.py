"""How sure a cause is: whether fits to other parts of the rows have found it, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from latentbits.telling.records import Gallery

__all__ = ["alike", "with_rounds"]

FOUND = 0.9  # correlation over rows from which a cause of another fit is the same


def with_rounds(gallery: Gallery, others: Sequence[Gallery]) -> Gallery:
    """The gallery, whose lowest causes know in how many of the other fits they were found again.

    Parameters
    ----------
    others
        Of models of the same family and size, fitted to parts of the rows; their first rows are those of the gallery.
    """
    if not others:
        return gallery
    lowest = gallery.layers[0]
    found = [alike(lowest.active, other.layers[0].active) >= FOUND for other in others]
    layer = replace(lowest, found_again=np.sum(found, axis=0), n_rounds=len(others))
    return replace(gallery, layers=(layer, *gallery.layers[1:]))


def alike(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """How much each cause of ours (n, m) goes with its partner among theirs (n', k), over the rows that both have.

    Each has one partner at most, so that together they are most alike.  What is on in one fit may be off in another,
    and traits may point the other way: the sign of a correlation does not count.  A cause that never changes has none.

    >>> ours = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    >>> (alike(ours, 1 - ours[:, ::-1]) > 0.999).tolist()
    [True, True]
    """
    n = min(len(ours), len(theirs))
    a, b = (_standard(x[:n]) for x in (ours, theirs))
    match = np.abs(a.T @ b)
    rows, columns = linear_sum_assignment(-match)
    found = np.zeros(ours.shape[1])
    found[rows] = match[rows, columns]
    return found


def _standard(x: np.ndarray) -> np.ndarray:
    """Centred columns of length 1; 0 where there is nothing but rounding."""
    x = x - x.mean(0)
    length = np.linalg.norm(x, axis=0)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 1e-6 * np.sqrt(len(x)))
