"""The observed information of a mixture by Louis's identity, and the covariance of estimates that are held to sums.

With the score a_k(x) of a row by the parameters of class k, were it of that class, and the complete information B,

    information = sum over rows of  B - <a a'> + <a><a>'          (Louis 1982)

expectations over the row's class.  All is in the metric of the parameters themselves, so that a covariance needs no
more than the inverse in the directions in which they can move: shares sum to 1, and what is at a bound is held there.
"""

from __future__ import annotations

import numpy as np

__all__ = ["LEAST_EIGENVALUE", "inverse_on", "moving", "row_part", "wald"]

LEAST_EIGENVALUE = 1e-10  # the least eigenvalue of an information, in units of its diagonal, that is no rounding


def row_part(share: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum over rows of <a><a>' - <a a'>, and the mean score <a> of each row.

    `share` (rows, classes): P(class | row).  `scores` (rows, classes, own): by the parameters of the class's own.
    `counts` (rows,): how often each row was met.  Returns (classes x own, classes x own) and (rows, classes x own).
    """
    n, k, own = scores.shape
    weighted = share[:, :, None] * scores
    mean = weighted.reshape(n, -1)
    found = mean.T @ (counts[:, None] * mean)
    within = np.matmul((counts[:, None, None] * weighted).transpose(1, 2, 0), scores.transpose(1, 0, 2))
    for c in range(k):
        found[c * own : (c + 1) * own, c * own : (c + 1) * own] -= within[c]
    return found, mean


def moving(free: np.ndarray, sums: list[np.ndarray]) -> np.ndarray:
    """Find the directions in which parameters can move, as columns: what is not free stays, and so do some sums.

    `free` (parameters,): which are estimated.  `sums`: places of the parameters of each sum that is fixed; none is in
    two of them.
    """
    size = len(free)
    tied = np.zeros(size, bool)
    directions = []
    for places in sums:
        tied[places] = True
        some = places[free[places]]
        part = np.zeros((size, max(len(some) - 1, 0)))
        for column in range(part.shape[1]):
            part[some[column], column], part[some[-1], column] = 1, -1
        directions.append(part)
    return np.concatenate([np.eye(size)[:, free & ~tied], *directions], 1)


def inverse_on(information: np.ndarray, basis: np.ndarray, spread: np.ndarray | None = None) -> np.ndarray | None:
    """Compute the covariance of estimates that move along these directions; None where the information is singular.

    With the spread of the scores, a sum of their outer products, it is the sandwich, which holds for a model that is
    not quite right.
    """
    if basis.shape[1] == 0:
        return np.zeros_like(information)
    inner = basis.T @ information @ basis
    diagonal = np.diag(inner)
    if not np.isfinite(inner).all() or (diagonal <= 0).any():
        return None
    unit = 1 / np.sqrt(diagonal)
    bends, axes = np.linalg.eigh((inner + inner.T) / 2 * np.outer(unit, unit))
    if bends[0] < LEAST_EIGENVALUE:
        return None
    out = basis @ (unit[:, None] * axes)  # from the axes to the parameters
    if spread is None:
        return (out / bends) @ out.T
    return (out / bends) @ (out.T @ spread @ out) @ (out / bends).T


def wald(estimate: np.ndarray, covariance: np.ndarray) -> tuple[float, int]:
    """Compute Wald's statistic for all being 0, and its degrees of freedom; NaN where the covariance is singular."""
    df = len(estimate)
    if df == 0 or not np.isfinite(covariance).all():
        return np.nan, df
    inverse = inverse_on(covariance, np.eye(df))
    return (np.nan if inverse is None else float(estimate @ inverse @ estimate)), df
