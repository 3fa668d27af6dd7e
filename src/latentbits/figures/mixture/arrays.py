"""Arrays that a picture of latent classes shows; nothing here draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm

from latentbits.core.errors import DataError
from latentbits.figures.any_model.arrays import telling_columns

__all__ = ["Profiles", "logit_interval", "profiles"]


class Profiles(NamedTuple):
    """Classes, the largest first, over some of the columns."""

    order: np.ndarray  # (k,): number of each class in the model
    shares: np.ndarray  # (k,):
    columns: np.ndarray  # (m,): numbers of the columns shown, ascending
    # means, low, high: (k, m): P(bit = 1) and its interval; NaN where there is none
    means: np.ndarray
    low: np.ndarray
    high: np.ndarray


def logit_interval(share: np.ndarray, error: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Compute the interval of a probability from normal log-odds: within 0 and 1, unlike its standard error.

    NaN for a probability of 0 or 1, or one without an error.

    >>> low, high = logit_interval(np.array([0.5, 0.98, 1.0]), np.array([0.1, 0.02, np.nan]))
    >>> bool(np.isclose(low[0] + high[0], 1)), bool(0.8 < low[1] < 0.98 < high[1] < 1), bool(np.isnan(low[2]))
    (True, True, True)
    """
    share, error = np.asarray(share, np.float64), np.asarray(error, np.float64)
    inside = (share > 0) & (share < 1) & np.isfinite(error)
    safe = np.where(inside, share, 0.5)
    half = norm.isf((1 - level) / 2) * np.where(inside, error, np.nan) / (safe * (1 - safe))
    return expit(logit(safe) - half), expit(logit(safe) + half)


def profiles(shares: np.ndarray, means: np.ndarray, errors: np.ndarray | None = None, most: int = 60) -> Profiles:
    """Sort classes by share, and choose the columns in which they differ most, in the order of the table.

    `shares`, `means`: (k,) and (k, d).  `errors` (k, d) or None: standard errors of `means`; NaN where there is none.
    `most`: number of columns wanted.

    >>> found = profiles(np.array([0.3, 0.7]), np.array([[0.1, 0.5, 0.9], [0.2, 0.5, 0.1]]), most=2)
    >>> found.order.tolist(), found.columns.tolist()
    ([1, 0], [0, 2])
    """
    shares, means = np.asarray(shares, np.float64), np.asarray(means, np.float64)
    if means.ndim != 2 or shares.shape != means.shape[:1] or (errors is not None and np.shape(errors) != means.shape):
        found = f"{shares.shape}, {means.shape}" + ("" if errors is None else f" and {np.shape(errors)}")
        raise DataError(f"shares must be (k,), means and errors (k, d); found {found}")
    order = np.argsort(-shares, kind="stable")
    columns = np.sort(telling_columns(shares, means, most))
    chosen = means[order][:, columns]
    spread = np.full(chosen.shape, np.nan) if errors is None else np.asarray(errors, np.float64)[order][:, columns]
    return Profiles(order, shares[order], columns, chosen, *logit_interval(chosen, spread))
