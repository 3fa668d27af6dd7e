"""Means and covariances that a user asks for: can any bits have them?"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.estimators.tables.refusals import at_column

__all__ = ["checked_moments"]


def checked_moments(mean: Any, cov: Any, bias: bool) -> tuple[np.ndarray, np.ndarray]:
    """Check means and covariances of bits; an error says why no bits can have them."""
    means, covariance = np.asarray(mean, float), np.asarray(cov, float)
    d = means.size
    if means.ndim != 1 or d == 0 or covariance.shape != (d, d):
        raise ValueError(f"mean must have shape (d,) and cov (d, d), found {means.shape} and {covariance.shape}")
    if not (np.isfinite(means).all() and np.isfinite(covariance).all()):
        raise ValueError("mean and cov must be finite numbers")
    outside = np.flatnonzero((means < 0) | (means > 1))
    if len(outside):
        raise ValueError(f"mean must be between 0 and 1, found {means[outside[0]]} for {at_column(outside[0], None)}")
    if not bias and not np.allclose(means, 0.5):
        raise ValueError("bias=False needs means of 1/2")
    if not np.allclose(covariance, covariance.T, atol=1e-10):
        raise ValueError("cov must be symmetric")
    hint = _divided_by_one_less(means, np.diag(covariance))
    wrong = np.flatnonzero(np.abs(np.diag(covariance) - means * (1 - means)) > 1e-6)
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"the diagonal of cov must be mean (1 - mean), the variance of a bit: {at_column(i, None)} has "
            f"{covariance[i, i]:.6g} instead of {means[i] * (1 - means[i]):.6g}{hint}"
        )
    both = covariance + np.outer(means, means)
    least = np.maximum(0, means[:, None] + means - 1)
    most = np.minimum(means[:, None], means)
    off = ~np.eye(d, dtype=bool) & ((both < least - 1e-9) | (both > most + 1e-9))
    if off.any():
        i, j = (int(k) for k in np.argwhere(off)[0])
        product = means[i] * means[j]
        raise ValueError(
            f"no bits have a covariance of {covariance[i, j]:.6g} between {at_column(i, None)} and "
            f"{at_column(j, None)}: with means {means[i]:.6g} and {means[j]:.6g} it lies between "
            f"{least[i, j] - product:.6g} and {most[i, j] - product:.6g}{hint}"
        )
    return means, covariance


def _divided_by_one_less(means: np.ndarray, diagonal: np.ndarray) -> str:
    """Advise on covariances of n rows that were divided by n - 1; say nothing of others.

    >>> _divided_by_one_less(np.array([0.5, 0.2]), np.array([0.25, 0.16]) * 10 / 9)
    '. All are n/(n - 1) times that for n = 10 rows: numpy.cov divides by n - 1; numpy.cov(X.T, bias=True) is meant'
    >>> _divided_by_one_less(np.array([0.5, 0.2]), np.array([0.25, 0.16]))
    ''
    """
    variances = means * (1 - means)
    varying = variances > 0
    factors = diagonal[varying] / variances[varying]
    if not len(factors) or factors.min() <= 1 or np.ptp(factors) > 1e-9:
        return ""
    n = factors.mean() / (factors.mean() - 1)
    if n > 1e6 or abs(n - round(n)) > 1e-9 + 1e-14 * n**2:  # no whole number, but for rounding
        return ""
    return (
        f". All are n/(n - 1) times that for n = {round(n)} rows: numpy.cov divides by n - 1; numpy.cov(X.T, "
        "bias=True) is meant"
    )
