"""Precision in which rows are computed, the nats that it costs a log-likelihood, and how these are reported.

With ``dtype="auto"`` rows are float32, unless that would put the log-likelihood of a row wrong by more than
`NEGLIGIBLE_NATS_PER_ROW`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.core.model import LogLikelihood
from latentbits.core.tree import rounding

__all__ = [
    "DOUBLE",
    "FLOAT32_MOST_COLUMNS",
    "NEGLIGIBLE_NATS_PER_ROW",
    "SINGLE",
    "WARNING_NATS_PER_ROW",
    "error_of_sum",
    "imprecise",
    "rounded",
]

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
NEGLIGIBLE_NATS_PER_ROW = 1e-3  # rounding below it is what float32 means, and is not reported
# Columns from which float32 loses more.  Measured against float64 for 40 rows of bits with means of 1/2, of about 0.01,
# or anywhere, under products, mixtures and machines: the largest errors are 0.0005 nats with 1000 columns, 0.002 with
# 3000, 0.01 with 10 000 and 0.05 with 30 000, often of one sign in all rows.  Latent traits and noisy ORs do not lose
# more.
FLOAT32_MOST_COLUMNS = 2000
WARNING_NATS_PER_ROW = 1e-2  # an error of a mean that is worth a warning, unless rows differ far more


def rounded(found: Any, n_columns: int, dtype: np.dtype, *, known: bool) -> LogLikelihood:
    """Add to log-likelihoods what rounding has cost each: as the model says beside them, or for their columns."""
    rows, lost = found if known else (found, rounding(n_columns, dtype) * np.abs(np.asarray(found.value, np.float64)))
    return with_rounding(rows, lost)


def with_rounding(rows: LogLikelihood, lost: np.ndarray) -> LogLikelihood:
    """Add to the errors of log-likelihoods what rounding has cost each, in nats."""
    large = np.where(np.isfinite(lost) & (lost > NEGLIGIBLE_NATS_PER_ROW), lost, 0).astype(np.float64)
    error = np.hypot(rows.error, large) if large.any() else rows.error
    return rows.replace(error=error, rounding=large)


def sum_of(rows: LogLikelihood, weights: np.ndarray | None = None) -> float:
    """Sum the log-likelihoods of all rows, each as often as it counts; a row that does not count may have any."""
    value = np.asarray(rows.value, np.float64)
    return float(np.sum(value) if weights is None else np.sum(weights * np.where(weights > 0, value, 0)))


def error_of_sum(rows: LogLikelihood, average_out: bool, weights: np.ndarray | None = None) -> float:
    """Compute the standard error of the sum over rows.

    `rows`: the log-likelihoods, from `with_rounding`.  `average_out`: whether errors of rows are chance, but for the
    rounding; if not, they may all have one sign.  `weights`: how often each row counts; None for once.
    """
    error, lost = np.asarray(rows.error, np.float64), np.asarray(rows.rounding, np.float64)
    own = np.sqrt(np.maximum(error**2 - lost**2, 0))
    if weights is not None:
        own, lost = weights * own, weights * lost
    common = float(len(own) if weights is None else weights.sum()) * float(np.max(rows.common_error))
    if average_out:
        return float(np.sqrt(np.sum(own**2) + common**2)) + float(np.sum(lost))
    digits = float(np.finfo(rows.value.dtype).eps) * abs(sum_of(rows, weights))
    return float(np.sum(own) + np.sum(lost)) + digits + common


def imprecise(lost: float, dtype: str) -> str:
    """Say how many nats per row are open in this precision, and what to do."""
    advice = (
        "dtype='auto' takes float64 where that matters"
        if dtype == SINGLE.name
        else "subtract from each column a number near its values, or give it in other units"
    )
    return f"computed with rows in {dtype}, whose digits leave ±{lost:.2g} nats per row open: {advice}"
