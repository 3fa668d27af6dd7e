"""The M-step: components, noise and sparseness that go best with the expectations, eqs. (6) to (8)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from latentbits.core.arrays import Array
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.selection import correction
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.tuning import LEAST_PRIOR, LEAST_USED_ROWS

__all__ = ["Maximum", "maximum", "noise_about"]


class Maximum(NamedTuple):
    """W, sigma and pi; and which causes the rows use."""

    components: Float[Array, "causes columns"]
    noise_std: Float[Array, ""]
    prior: Float[Array, ""]
    used: Bool[Array, " causes"]


def maximum(
    params: Params,
    stats: Stats,
    max_active: int,
    quietest: float | Float[Array, ""],
    fewest: float = LEAST_USED_ROWS,
    about_old: bool = False,
) -> Maximum:
    """Find where the expected log-probability of rows and states is highest.

    Parameters
    ----------
    params, stats
        The sums over rows, and the parameters that they were made with.
    max_active
        gamma of the states that were summed over, for the correction of (8); with all causes there is none.
    quietest
        The noise stays above this part of the rows' root mean square.
    fewest
        A cause that is expected in fewer rows keeps its component.
    about_old
        Whether the noise is measured about the components of `params`, as (7) is printed, or about the new ones.
    """
    W, used = _components(params, stats, fewest)
    sigma = noise_about(params.components if about_old else W, params, stats, quietest)
    active = stats.s.sum() / stats.used
    prior = jnp.clip(correction(params.prior, len(W), max_active) * active, LEAST_PRIOR, 1 - LEAST_PRIOR)
    return Maximum(W, sigma, prior, used)


def noise_about(
    W: Float[Array, "causes columns"], params: Params, stats: Stats, quietest: float | Float[Array, ""]
) -> Float[Array, ""]:
    """Compute sigma with components W by (7), from expectations that were made with `params`."""
    squares = stats.squares.sum() + stats.guessed + stats.missing * jnp.square(params.noise_std)
    residual = squares - 2 * jnp.sum(W * stats.sy) + jnp.sum((W @ W.T) * _second_moments(stats))
    n_entries = stats.used * W.shape[1]
    sigma = jnp.sqrt(jnp.maximum(residual, quietest**2 * squares) / n_entries)
    return jnp.where(squares > 0, sigma, params.noise_std)


def _second_moments(stats: Stats) -> Float[Array, "causes causes"]:
    """Compute sum_n <s s'>."""
    return stats.ss + stats.ss.T + jnp.diag(stats.s)


def _components(
    params: Params, stats: Stats, fewest: float
) -> tuple[Float[Array, "causes columns"], Bool[Array, " causes"]]:
    """Solve (6) for the causes that are used; return which those are, too."""
    s, sy = stats.s, stats.sy
    used = s > fewest
    system = jnp.where(used[:, None] & used, _second_moments(stats), jnp.eye(len(s)))
    factor = _cholesky(system, 1e-10)
    # with fewer rows than causes, sums in float32 are not positive definite in their last digits
    factor = jax.lax.cond(jnp.isfinite(factor).all(), lambda: factor, lambda: _cholesky(system, 1e-5))
    # on a GPU one triangular solve and two products take less time than two solves
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(s)), lower=True)
    solved = inverse.T @ (inverse @ (sy * used[:, None]))
    return jnp.where(used[:, None], solved, params.components), used


def _cholesky(system: Float[Array, "n n"], ridge: float) -> Float[Array, "n n"]:
    diagonal = jnp.diagonal(system)
    return jnp.linalg.cholesky(system + jnp.diag(ridge * diagonal), symmetrize_input=False)
