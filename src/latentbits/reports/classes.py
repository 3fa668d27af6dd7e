"""Rows under latent classes: which class each is of, with what probability, and what they add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.special import TINY
from latentbits.reports.patterns import Patterns, blocks_of

__all__ = ["BOUND_PROBABILITY", "Assigned", "as_counts", "assign", "class_names", "shares_of"]

BOUND_PROBABILITY = 1e-5  # a probability that is nearer to 0 or 1 than this is at its bound


def class_names(k: int) -> list[str]:
    """Name the classes, counted from 1."""
    return [f"class {c + 1}" for c in range(k)]


def as_counts(rows: np.ndarray) -> np.ndarray:
    """Give numbers of rows, whole where all are, so that they print as such."""
    whole = np.round(rows)
    return whole.astype(np.int64) if np.array_equal(whole, rows) else rows


def shares_of(bits: np.ndarray, weights: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute P(class | row), and log p of each row, in float64; a missing bit has no term.

    `weights` are shares of the classes, (classes,), or those of each row, (rows, classes), by covariates.

    >>> share, _ = shares_of(np.array([[1, 255]], np.uint8), np.array([0.5, 0.5]), np.array([[0.75, 0.1], [0.25, 0.9]]))
    >>> np.allclose(share, [[0.75, 0.25]])
    True
    """
    log_one, log_zero = (np.log(np.clip(p, TINY, 1)) for p in (means, 1 - means))
    joint = (bits == 1) @ log_one.T + (bits == 0) @ log_zero.T + np.log(np.maximum(weights, TINY))
    top = joint.max(1, keepdims=True)
    scaled = np.exp(joint - top)
    total = scaled.sum(1, keepdims=True)
    return scaled / total, (top + np.log(total))[:, 0]


class Assigned(NamedTuple):
    """Sums of the posteriors of all rows."""

    # (classes, classes): sum of the posteriors of class t (columns) over the rows whose most probable class is s
    # (rows)
    table: np.ndarray
    counts: np.ndarray  # (classes,): rows by their most probable class
    uncertainty: float  # sum of the entropies of the posteriors, nats
    log_likelihood: np.ndarray  # (patterns,): log p of each pattern


def assign(rows: Patterns, weights: np.ndarray, means: np.ndarray) -> Assigned:
    """Sum the posteriors of all rows; `weights` as in `shares_of`."""
    k, d = means.shape
    table, counts, uncertainty = np.zeros((k, k)), np.zeros(k), 0.0
    log_likelihood = np.empty(len(rows.bits))
    for some in blocks_of(len(rows.bits), 2 * d + 3 * k):
        share, log_likelihood[some] = shares_of(rows.bits[some], weights if weights.ndim == 1 else weights[some], means)
        modal, n = share.argmax(1), rows.counts[some]
        np.add.at(table, modal, n[:, None] * share)
        counts += np.bincount(modal, n, minlength=k)
        uncertainty -= float(n @ (share * np.log(np.where(share > 0, share, 1))).sum(1))
    return Assigned(table, counts, uncertainty, log_likelihood)
