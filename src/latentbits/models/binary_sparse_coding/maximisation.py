"""The M-step: components, noise and sparseness that go best with the expectations, eqs. (6) to (8)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from latentbits.core.arrays import Array, cholesky, each, namespace, on_device, solve_triangular
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.selection import correction
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.tuning import LEAST_PRIOR, LEAST_USED_ROWS

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
    solved = _solved(xp.where(both, _second_moments(stats), xp.eye(s.shape[-1])), sy * used[..., None])
    return xp.where(used[..., None], solved, params.components), used


def _solved(system: Float[Array, "*starts n n"], right: Float[Array, "*starts n m"]) -> Float[Array, "*starts n m"]:
    """Solve a positive definite system; nan where it is not.

    Sums in float32 have seven digits.  With fewer rows than causes, or with causes that are on in the same rows, the
    last pivots are rounding, and the solution would be made of it: such a system gets a ridge, whose pull towards 0 two
    steps of refinement take back in all directions but those.
    """
    if system.ndim > 2:
        return each(_solved, system, right)
    xp = namespace(system)
    factor = _cholesky(system, 1e-10)
    # of a cause's expected rows: below, float32 has no digits left
    sound = (factor.diagonal() ** 2 > 1e-6 * system.diagonal()).all()  # nan is not

    def found() -> Float[Array, "n m"]:
        return _by_factor(factor, right)

    def refined() -> Float[Array, "n m"]:
        ridged = _cholesky(system, 1e-5)
        found = xp.zeros_like(right)
        for _ in range(3):
            found = found + _by_factor(ridged, right - system @ found)
        return found

    if on_device(system):
        return jax.lax.cond(sound, found, refined)
    return found() if sound else refined()


def _by_factor(factor: Float[Array, "n n"], right: Float[Array, "n m"]) -> Float[Array, "n m"]:
    # on a GPU one triangular solve and two products take less time than two solves
    inverse = solve_triangular(factor, namespace(factor).eye(len(factor)), lower=True)
    return inverse.mT @ (inverse @ right)


def _cholesky(system: Float[Array, "n n"], ridge: float) -> Float[Array, "n n"]:
    """Return the factor of the system with its diagonal a little larger; nan where it has none."""
    xp = namespace(system)
    ridged = system + xp.diag(ridge * system.diagonal())
    return jnp.linalg.cholesky(ridged, symmetrize_input=False) if on_device(system) else cholesky(ridged)
