"""The observed information of the weights and biases of bits, by Louis's identity, and what identifies them.

With the score g(x) of a row if its latents were known, and the curvature H(x),

    information = sum over rows of  <H> - <g g'> + <g><g>'          (Louis 1982)

all expectations over the row's posterior.  From two latent dimensions on, a rotation of the latents changes no
likelihood, so the information is singular in q (q - 1) / 2 directions, and standard errors have a meaning only once it
is said which rotation is meant: here the one with orthogonal components, `components @ components.T` diagonal.

A row that counts w times is w rows in this.  Where weights are those of a sample in which rows had unequal chances, the
covariance of the estimates is the sandwich

    information^-1  [sum over rows of  w^2 <g><g>']  information^-1          (Binder 1983; Huber 1967 with weights of 1)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core import nodes
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import unpack
from latentbits.models.latent_trait import bits, column_kinds, quadrature
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Params

__all__ = ["Stats", "covariance", "e_step", "row_floats"]


class Stats(Module):
    """The information, over (w_1, b_1, w_2, ...), the spread of the scores, and how often each bit is set and seen."""

    n_rows: Float[Array, ""]
    ones: Float[Array, " columns"]
    observed: Float[Array, " columns"]
    information: Float[Array, "params params"]
    spread: Float[Array, "params params"]


@cache
def e_step(q: int, n_nodes: int) -> Callable[..., tuple[Stats, None]]:
    """Make the pass that sums the information, by as many nodes as learning takes, in place of a model's E-step."""

    def summed(params: Params, shared: Any, batch: Batch, row_state: None) -> tuple[Stats, None]:
        rows = column_kinds.rows_of(ALL_BITS, params, batch)
        n, d = batch.values.shape
        on_grid = q <= nodes.MOST_GRID
        at = quadrature.accurately_placed(ALL_BITS, params, rows, far=on_grid and n_nodes > nodes.MOST_GAUSS)
        at = at if on_grid else nodes.for_net(at, batch.rows)
        integral = quadrature.integrate(ALL_BITS, params, rows, at, quadrature.learning_rule(q, n_nodes))
        stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)
        tanh = integral.probabilities[0]
        sign = 2 * batch.values - 1 if batch.observed is None else (2 * batch.values - 1) * batch.observed
        error = (sign[:, None] - tanh) / 2  # t - p
        extended = jnp.concatenate([integral.points, jnp.ones_like(integral.points[..., :1])], -1)
        share = integral.share * batch.weight[:, None]
        scores = error[..., None] * extended[:, :, None]  # rows, points, columns, q + 1
        mean = jnp.einsum("nk,nkdi->ndi", integral.share, scores).reshape(n, -1)
        scores = (jnp.sqrt(share)[..., None, None] * scores).reshape(-1, d * (q + 1))
        blocks = unpack(bits.point_curvature(batch.observed, tanh, share, integral.points), q + 1)
        complete = jnp.einsum("dij,de->diej", blocks, jnp.eye(d, dtype=blocks.dtype)).reshape(d * (q + 1), -1)
        weighted = batch.weight[:, None] * mean
        missing = scores.T @ scores - weighted.T @ mean
        spread = weighted.T @ weighted
        return Stats(batch.weight.sum(), stats.bits.ones, stats.bits.observed, complete - missing, spread), None

    return summed


def row_floats(q: int, d: int, n_nodes: int) -> int:
    """Count the numbers held per row by the pass."""
    return 3 * len(quadrature.learning_rule(q, n_nodes).nodes) * d * (q + 1)


def covariance(
    information: np.ndarray,
    weights: np.ndarray,
    free: np.ndarray,
    tied: bool,
    precision: float,
    spread: np.ndarray | None = None,
) -> np.ndarray:
    """Compute the covariance of the estimates of (w_1, b_1, w_2, ...), NaN where a column has no finite estimate.

    `information`: field of `Stats`.  `weights`: (d, q), at the estimate, in the rotation with orthogonal components.
    `free`: (d,) which columns have a finite estimate; the others are held where they are.  `tied`: all columns share
    one weight.  `precision`: precision of the prior on the weights: the information of the data and of the prior add.
    `spread`: field of `Stats`, for the sandwich; None takes the inverse of the information.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where the information is not positive definite on what is identified.
    """
    d, q = weights.shape
    is_weight = np.tile(np.arange(q + 1) < q, d)
    total = information + precision * np.diag(is_weight.astype(float))
    kept = np.repeat(free, q + 1)
    if tied:
        kept = kept | is_weight
    basis = _tangents(weights, tied, kept)
    inner = basis.T @ total @ basis
    half = np.linalg.solve(np.linalg.cholesky((inner + inner.T) / 2), basis.T)
    inverse = half.T @ half
    found = inverse if spread is None else inverse @ spread @ inverse
    found[~kept] = found[:, ~kept] = np.nan
    return found


def _tangents(weights: np.ndarray, tied: bool, kept: np.ndarray) -> np.ndarray:
    """Find directions in which the parameters that are kept can move while they stay identified, as columns."""
    d, q = weights.shape
    if tied:
        basis = np.zeros((2 * d, d + 1))
        basis[0::2, 0] = 1
        basis[1::2, 1:] = np.eye(d)
        return basis[:, np.append(True, kept[1::2])]
    constraints = list(np.eye(d * (q + 1))[~kept])
    for j in range(q):
        for k in range(j + 1, q):
            # component j . component k = 0
            slope = np.zeros((d, q + 1))
            slope[:, j], slope[:, k] = weights[:, k], weights[:, j]
            constraints.append(slope.ravel() * kept)
    if not constraints:
        return np.eye(d * (q + 1))
    turned, _ = np.linalg.qr(np.array(constraints).T, mode="complete")
    return turned[:, len(constraints) :]
