"""How sure the loadings of the map's columns are: standard errors from the observed information of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentbits.estimators.criteria import FEW_SEEN_SHARE
from latentbits.estimators.families import WEAK_PRIOR_SD
from latentbits.explorer.content import Axes, Map, Table
from latentbits.explorer.stability import axes_again
from latentbits.models.latent_trait.information import covariance

__all__ = ["axes_of", "information_of", "loading_errors"]

MOST_COLUMNS = 700  # the information has thrice as many lines, and is inverted
# observed columns up to which, and nodes a trait: many make posteriors Gaussian
NODES = ((40, 13), (100, 7), (MOST_COLUMNS, 5))
MOST_WORK = 2e9  # products, in a second; of more rows a sample gives the information of one
FUNCTIONS = 300  # products that take as long as what is computed of one cell at one node
FEWEST_SAMPLED = 300  # rows
AT_ONCE = 2**22  # numbers
FEWEST_ROWS = 10


def axes_of(where: Map, table: Table, n_learned: int, rounds: Sequence[np.ndarray]) -> Axes:
    """Measure how sure the axes of a map are.

    Parameters
    ----------
    n_learned
        Rows that the map was learned from.
    rounds
        Places (n', q) of the first rows by fits of traits to parts of the rows.
    """
    if not where.converged:
        text = "Whether other parts of the rows give the same axes is unknown: the fit of the map had not converged."
        return Axes(None, "the fit of the map had not converged", text)
    share = 1.0 if table.weights is None else float(np.mean(table.weights))
    errors, why = loading_errors(where, table.values, table.weights, share * n_learned)
    return Axes(errors, why, axes_again(where.means, rounds))


def loading_errors(
    where: Map, values: np.ndarray, weights: np.ndarray | None, n_learned: float
) -> tuple[np.ndarray | None, str]:
    """Compute standard errors (2, d) of the weights of the map, NaN where a column has none; or None, and why in words.

    They are those of the rotation with orthogonal axes, which is the map's, and hold if two traits are all there is
    behind the columns.  The information of very many rows is that of some, times their number.

    Parameters
    ----------
    where, values : (n, d)
        The map and its rows.
    weights : (n,) or None
        How often each row counts.
    n_learned
        Rows that the map was learned from, each as often as it counts.
    """
    d = len(where.bias)
    if where.noise is not None:
        return None, "they are computed for bits only"
    if d > MOST_COLUMNS:
        return None, f"they are computed for up to {MOST_COLUMNS} columns"
    if len(values) < FEWEST_ROWS:
        return None, "there are too few rows"
    each = _nodes(values) ** 2 * d * (FUNCTIONS + 9 * d)
    rows = np.arange(len(values))
    most = max(int(MOST_WORK / each), FEWEST_SAMPLED)
    if sampled := len(rows) > most:
        rows = np.random.default_rng(0).permutation(rows)[:most]
    counts = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)[rows]
    bits, own = values[rows], replace(where, means=where.means[rows], covariances=where.covariances[rows])
    information = (n_learned / counts.sum()) * information_of(own, bits, counts)
    ones, seen = (counts @ np.nan_to_num(bits)), counts @ ~np.isnan(bits)
    varies = (ones > 0) & (ones < seen)
    try:
        found = covariance(information, where.weights.T, varies, False, 1 / WEAK_PRIOR_SD**2)
    except np.linalg.LinAlgError:
        return None, "a sample of the rows was not enough" if sampled else "the rows do not determine both axes"
    return np.sqrt(np.diag(found).reshape(d, 3)[:, :2].T), ""


def information_of(where: Map, bits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Compute that of (w_1, b_1, w_2, b_2, ...) by Louis's identity: of complete rows, less what is lost with x."""
    d, n_nodes = bits.shape[1], _nodes(bits)
    blocks, lost = np.zeros((d, 3, 3)), np.zeros((3 * d, 3 * d))
    step = max(1, AT_ONCE // (n_nodes**2 * 3 * d))
    for start in range(0, len(bits), step):
        part = slice(start, start + step)
        own, many = bits[part], counts[part]
        there, ones = (~np.isnan(own)).astype(np.float64), np.nan_to_num(own)
        points, share, p = _posterior(where, ones, there, part, n_nodes)  # (n, k, 2), (n, k), (n, k, d)
        errors = ones[:, None] - p * there[:, None]
        extended = np.concatenate([points, np.ones_like(points[..., :1])], axis=-1)
        curvature = (many[:, None] * share)[..., None] * p * (1 - p) * there[:, None]
        blocks += np.einsum("nkd,nki,nkj->dij", curvature, extended, extended, optimize=True)
        scores = (errors[..., None] * extended[:, :, None]).reshape(*share.shape, -1)
        mean = (share[:, None] @ scores)[:, 0]
        scores *= np.sqrt(share * many[:, None])[..., None]
        scores = scores.reshape(-1, 3 * d).astype(np.float32)  # half the time, and enough
        lost += scores.T @ scores - (many[:, None] * mean).T @ mean
    complete = np.zeros((d, 3, d, 3))
    complete[np.arange(d), :, np.arange(d)] = blocks
    return complete.reshape(3 * d, 3 * d) - lost


def _posterior(
    where: Map, ones: np.ndarray, there: np.ndarray, part: slice, n_nodes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place points of x about the posterior mean of each row, their shares of the posterior, and P(bit = 1) there."""
    at, weight = np.polynomial.hermite_e.hermegauss(n_nodes)
    steps = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    log_weight = np.log(np.outer(weight, weight).ravel()) + 0.5 * np.square(steps).sum(axis=1)
    xx, yy, xy = where.covariances[part].T
    root = np.linalg.cholesky(np.stack([xx, xy, xy, yy], axis=-1).reshape(-1, 2, 2))
    points = where.means[part][:, None] + steps @ root.transpose(0, 2, 1)
    p = 0.5 * (1 + np.tanh(0.5 * (points @ where.weights + where.bias)))
    # the chance of what is there: 1 where nothing is
    chance = np.where(ones[:, None] > 0.5, p, 1 - p * there[:, None])
    log_p = np.log(chance.clip(1e-300)).sum(axis=-1) + log_weight - 0.5 * np.square(points).sum(axis=-1)
    share = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return points, share / share.sum(axis=1, keepdims=True), p


def _nodes(bits: np.ndarray) -> int:
    """Decide by what nearly every row has observed, and not by what it was asked."""
    seen = np.quantile(np.count_nonzero(~np.isnan(bits), axis=1), FEW_SEEN_SHARE)
    return next(nodes for most, nodes in NODES if seen <= most)
