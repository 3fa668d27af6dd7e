"""Probabilities of many tests at once, adjusted: Holm, and Benjamini and Hochberg."""

from __future__ import annotations

import numpy as np

__all__ = ["ADJUSTMENTS", "adjusted"]

ADJUSTMENTS = ("holm", "bh")


def adjusted(p: np.ndarray, adjustment: str | None) -> np.ndarray:
    """Adjust probabilities for many tests by Holm (any false finding) or Benjamini and Hochberg (their share).

    NaN are no tests.

    >>> adjusted(np.array([0.01, 0.04, np.nan, 0.03]), "holm").round(2).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    out = np.array(p, float)
    if adjustment is None:
        return out
    tests = np.flatnonzero(~np.isnan(out))
    order = tests[np.argsort(out[tests], kind="stable")]
    n = len(order)
    if adjustment == "holm":
        out[order] = np.minimum(1, np.maximum.accumulate((n - np.arange(n)) * out[order]))
    else:
        out[order] = np.minimum.accumulate((n / np.arange(1, n + 1) * out[order])[::-1])[::-1]
    return out
