"""The M-step: components, noise and sparseness that go best with the expectations, eqs. (6) to (8)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from latentbits.core.arrays import Array, each, namespace, on_device, solve_triangular
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.selection import correction
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.tuning import LEAST_PIVOT_SHARE, LEAST_PRIOR, LEAST_USED_ROWS

__all__ = ["Maximum", "maximum", "noise_about"]


class Maximum(NamedTuple):
    """W, sigma and pi; and which causes the rows use."""

    components: Float[Array, "*starts causes columns"]
    noise_std: Float[Array, "*starts"]
    prior: Float[Array, "*starts"]
    used: Bool[Array, "*starts causes"]


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
    active = stats.s.sum(-1) / stats.used
    prior = correction(params.prior, W.shape[-2], max_active) * active
    return Maximum(W, sigma, namespace(params).clip(prior, LEAST_PRIOR, 1 - LEAST_PRIOR), used)


def noise_about(
    W: Float[Array, "*starts causes columns"], params: Params, stats: Stats, quietest: float | Float[Array, "*starts"]
) -> Float[Array, "*starts"]:
    """Compute sigma with components W by (7), from expectations that were made with `params`."""
    xp = namespace(params)
    squares = stats.squares.sum(-1) + stats.guessed + stats.missing * xp.square(params.noise_std)
    residual = squares - 2 * xp.sum(W * stats.sy, (-2, -1)) + xp.sum((W @ W.mT) * _second_moments(stats), (-2, -1))
    n_entries = stats.used * W.shape[-1]
    sigma = xp.sqrt(xp.maximum(residual, quietest**2 * squares) / n_entries)
    return xp.where(squares > 0, sigma, params.noise_std)


def _second_moments(stats: Stats) -> Float[Array, "*starts causes causes"]:
    """Compute sum_n <s s'>."""
    return stats.ss + stats.ss.mT + stats.s[..., None] * np.eye(stats.s.shape[-1])


def _components(
    params: Params, stats: Stats, fewest: float
) -> tuple[Float[Array, "*starts causes columns"], Bool[Array, "*starts causes"]]:
    """Solve (6) for the causes that are used; return which those are, too."""
    xp, s, sy = namespace(stats), stats.s, stats.sy
    used = s > fewest
    both = used[..., None] & used[..., None, :]
    inverse = _inverse_factor(xp.where(both, _second_moments(stats), xp.eye(s.shape[-1])))
    # on a GPU one triangular solve and two products take less time than two solves
    solved = inverse.mT @ (inverse @ (sy * used[..., None]))
    return xp.where(used[..., None], solved, params.components), used


def _inverse_factor(system: Float[Array, "*starts n n"]) -> Float[Array, "*starts n n"]:
    """Return R^-1 of S = R R', lower triangular."""
    if system.ndim > 2:
        return each(_inverse_factor, system)
    return solve_triangular(_factor(system), namespace(system).eye(len(system)), lower=True)


def _factor(system: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Return the Cholesky factor of a matrix with a ridge, a larger one where it needs that; nan where none will do.

    Sums in float32 have seven digits: with fewer rows than causes, or with causes that are on in the same rows, they
    are not positive definite in their last digits, and the inverse would be made of these.
    """
    small, large = (system + namespace(system).diag(ridge * system.diagonal()) for ridge in (1e-10, 1e-5))
    if on_device(system):
        factor = jnp.linalg.cholesky(small, symmetrize_input=False)
        again = partial(jnp.linalg.cholesky, large, symmetrize_input=False)
        return jax.lax.cond(_is_sound(factor, system), lambda: factor, again)
    host: Any = np
    for ridged in (small, large):
        with suppress(np.linalg.LinAlgError):
            factor = host.linalg.cholesky(ridged)
            if ridged is large or _is_sound(factor, system):
                return factor
    return host.full_like(system, np.nan)


def _is_sound(factor: Float[Array, "n n"], system: Float[Array, "n n"]) -> Bool[Array, ""]:
    """Say whether every pivot is more than rounding; nan is not."""
    return (factor.diagonal() ** 2 > LEAST_PIVOT_SHARE * system.diagonal()).all()
