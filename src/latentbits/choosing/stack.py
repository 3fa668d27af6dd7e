"""The stack: a mixture of fitted models, with the weights that give unseen rows the highest likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.special import logsumexp

__all__ = ["Stack", "crossed", "log_mixture", "stack"]

SHORTEST_STEP = 2.0**-30  # of the whole step


class Stack(NamedTuple):
    """A mixture of models."""

    weights: np.ndarray  # (models,): at least 0, with sum 1
    log_likelihood: float  # of the rows that they were chosen on, nats per row
    gap: float  # no weights at all gain more than this, nats per row


def log_mixture(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute log sum_k w_k p_k(x) of each row, from the log p_k(x), (rows, models)."""
    used = weights > 0
    return logsumexp(rows[:, used], axis=1, b=weights[used])


def stack(rows: np.ndarray, sample_weight: np.ndarray | None = None) -> Stack:
    """Find the weights of a mixture of models with the highest log-likelihood, p(x) = sum_k w_k p_k(x).

    The log-likelihood is concave in the weights, so there is one best value, and its gradient g says how far away it
    is: no weights gain more than max(g) - 1.  Newton's method, with weights that stay at least 0 (each step is a
    problem of non-negative least squares, as in Kim et al. 2020), goes on until that is below 1e-9 nats per row.

    `rows` (rows, models): log p_k(x) in nats, of rows that no model has learned from; -inf where a model holds a row
    impossible.  `sample_weight` (rows,) or None: how often each row counts; None for once.

    >>> import numpy as np
    >>> np.allclose(stack(np.log([[0.5, 0.1], [0.5, 0.2]])).weights, [1, 0])
    True
    >>> np.allclose(stack(np.log([[0.9, 0.1], [0.1, 0.9]])).weights, 0.5)
    True
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"rows must be a table of log-likelihoods, rows by models; its shape is {rows.shape}")
    top = rows.max(axis=1)
    if not np.isfinite(top).all():
        bad = int(np.flatnonzero(~np.isfinite(top))[0])
        raise ValueError(f"row {bad} has no finite log-likelihood under any model, or one that is not a number")
    counts = np.full(len(rows), 1 / len(rows)) if sample_weight is None else sample_weight / sample_weight.sum()
    return _climb(np.exp(rows - top[:, None]), rows, counts)


def _climb(likelihoods: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> Stack:
    """Climb from equal weights; `likelihoods` are those of `rows`, each row divided by its largest."""
    n_models = rows.shape[1]

    def value(weights: np.ndarray) -> float:
        mixed = likelihoods @ weights
        return float(counts @ np.log(mixed)) if (mixed > 0).all() else -np.inf

    weights, gap = np.full(n_models, 1 / n_models), np.inf
    best = value(weights)
    for _ in range(500):  # a dozen are needed
        share = likelihoods / (likelihoods @ weights)[:, None]
        gradient = counts @ share
        gap = max(0.0, float(gradient.max()) - 1)
        if gap < 1e-9:
            break
        goal, length = _newton(share, gradient, counts), 1.0
        while length > SHORTEST_STEP and not value(moved := _simplex(weights, goal, length)) > best:
            length /= 2
        if length <= SHORTEST_STEP:  # as a step of EM never loses
            moved = weights * gradient / (weights @ gradient)
        weights, best = moved, max(best, value(moved))
    return _no_worse_than_one(Stack(weights, float(counts @ log_mixture(rows, weights)), gap), rows, counts)


def _newton(share: np.ndarray, gradient: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Find weights at least 0, of any sum, at which the quadratic model of log-likelihood - sum is highest."""
    values, vectors = np.linalg.eigh(share.T @ (counts[:, None] * share))
    root = np.sqrt(np.maximum(values, 1e-12 * values[-1]))  # of the largest: below it two models say the same
    goal, _ = nnls(root[:, None] * vectors.T, vectors.T @ (2 * gradient - 1) / root)
    return goal


def _simplex(weights: np.ndarray, goal: np.ndarray, length: float) -> np.ndarray:
    """Go a part of the way, with sum 1 again."""
    moved = weights + length * (goal - weights)
    return moved / moved.sum() if moved.sum() > 0 else weights


def _no_worse_than_one(found: Stack, rows: np.ndarray, counts: np.ndarray) -> Stack:
    """Take the best model alone where it is level: what is gained must not be rounding."""
    finite = np.isfinite(rows).all(axis=0)
    alone = np.where(finite, counts @ np.where(finite, rows, 0.0), -np.inf)
    if alone.max() < found.log_likelihood:
        return found
    weights = np.zeros(len(alone))
    weights[alone.argmax()] = 1.0
    return Stack(weights, float(alone.max()), found.gap)


def crossed(rows: np.ndarray, seed: int | None, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Compute log p(x) of each row under a stack whose weights were chosen on other rows.

    The rows are cut into two halves at random, and the weights for one are chosen on the other: as no row takes part
    in choosing the weights that it is scored with, the mean is of unseen rows.  Weights chosen on all rows are a little
    better known than either half's, so that if anything it is too low.

    `rows` (rows, models): as for `stack`.  `seed`: of the halves.  `sample_weight` (rows,) or None: as for `stack`.
    """
    if len(rows) < 2:
        raise ValueError("two rows at least are needed: weights are chosen on one half for the other")
    half = np.random.default_rng(seed).permutation(len(rows)) % 2 == 0
    scored = np.empty(len(rows))
    for part in (half, ~half):
        own = None if sample_weight is None else sample_weight[~part]
        scored[part] = log_mixture(rows[part], stack(rows[~part], own).weights)
    return scored
