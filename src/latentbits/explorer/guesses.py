"""How well a model guesses what is hidden of rows that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.explorer.content import Guesses
from latentbits.figures.any_model.arrays import HIDDEN_SHARE, hide_lower_half, hide_some, share_right

__all__ = ["N_EXAMPLES", "guesses_of"]

N_EXAMPLES = 16


def guesses_of(
    model: Any,
    rows: np.ndarray,
    average: np.ndarray,
    image_shape: tuple[int, int] | None,
    real: bool,
    seed: int | None,
    weights: np.ndarray | None = None,
) -> Guesses:
    """Hide a part of rows, and let a model fill it in: the lower half of images, some cells of each row of a table.

    Parameters
    ----------
    model
        Fitted, to other rows.
    rows : (n, d) array
        NaN for missing.
    average : (d,) array
        Means of the columns: what would be guessed without a model.
    image_shape, real
        What the rows are.
    seed : int or None
        Of what is hidden.
    weights : (n,) array or None
        How often each row counts; None for once.
    """
    rng = np.random.default_rng(seed)
    hidden = hide_lower_half(len(rows), image_shape) if image_shape else hide_some(rows.shape, rng)
    given = np.where(hidden, np.nan, rows)
    completed = np.asarray(model.complete(given))
    guess = np.broadcast_to(average, rows.shape)
    if real:
        right, alone = _share_right(completed, guess, rows, hidden, weights), 0.0
    else:
        right, alone = (share_right(guessed, rows, hidden, weights) for guessed in (completed, guess))
    some = np.sort(rng.permutation(len(rows))[:N_EXAMPLES])
    part = "the lower half" if image_shape else f"{HIDDEN_SHARE:.0%} of the {'numbers' if real else 'bits'}"
    return Guesses(part, rows[some], given[some], completed[some], right, alone)


def _share_right(
    completed: np.ndarray, average: np.ndarray, truth: np.ndarray, hidden: np.ndarray, weights: np.ndarray | None
) -> float:
    """Compute the share of the variance of the hidden numbers that a model explains; every column counts alike."""
    asked = hidden & ~np.isnan(truth)
    spread = np.nanstd(truth, axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    counts = np.where(asked, 1.0 if weights is None else weights[:, None], 0.0)
    wrong, alone = (np.nansum(counts * np.square((guess - truth) / scale)) for guess in (completed, average))
    return float(1 - wrong / alone) if alone > 0 else float("nan")
