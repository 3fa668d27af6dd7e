"""Exact EM, accelerated by secants, in coordinates in which complete data inform as much on each weight everywhere.

    theta_ij = 2 arcsin sqrt(f_ij),     f_ij = 1 - exp(-w_ij)

If it were known which coins have succeeded (`learning.py`), A of N would have, and with the prior's rate beta the
information of each theta would be N + beta, whatever f is.  So a step of EM is one along the gradient in these units,
as `core/secants.py` wants it.  By Fisher's identity the gradient of log p(x) and of the prior is that of the complete
data with expected counts,

    d / d theta = [A - (N + beta) f + (alpha - 1) f / w] / sqrt(f (1 - f)) .

A bias is the weight of a cause that is always on.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Float

from latentbits.core import secants
from latentbits.core.arrays import Array, namespace
from latentbits.core.secants import Secants
from latentbits.core.special import TINY
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.learning import Stats
from latentbits.models.noisy_or.network import Params

__all__ = ["climb", "gradient", "start"]


def start(params: Params) -> Secants:
    """Start with nothing seen yet."""
    return secants.start(_angles(_flat(params)))


def climb(
    state: Secants,
    params: Params,
    image: Params,
    stats: Stats,
    value: Float[Array, ""],
    alpha: Any,
    beta: Any,
) -> tuple[Secants, Params]:
    """Choose where to go next, given the objective and the counts at the parameters, and their image under EM.

    Where EM is kept from going on by the least or the most that a weight may be, there is nothing to gain.
    """
    weights = _flat(params)
    xp = namespace(weights)
    x, to = _angles(weights), _angles(_flat(image))
    epsilon = stats.rounding / xp.maximum(stats.n_rows, 1)
    trials, successes = _flat((stats.seen, stats.bias_seen)), _flat((stats.credit, stats.bias_credit))
    state, ahead = secants.advance(
        state,
        x,
        value,
        to,
        xp.where(x == to, 0.0, gradient(weights, trials, successes, alpha, beta)),
        xp.sqrt(xp.maximum(trials + beta, 1)),
        slack=tuning.CLIMB_VALUE_ROUNDING_EPS * epsilon * xp.abs(value),
        floor=epsilon**2 * 1000 * stats.n_rows * x.size,
        unseen=1e-4,  # of directions that secants have not seen: a cause that is hardly needed fades slowly
    )
    return state, _like(params, -xp.log(xp.maximum(xp.cos(ahead / 2) ** 2, TINY)))


def gradient(
    weights: Float[Array, " size"],
    trials: Float[Array, " size"],
    successes: Float[Array, " size"],
    alpha: Any,
    beta: Any,
) -> Float[Array, " size"]:
    """Differentiate the objective by the coordinates."""
    xp, f = namespace(weights), _successful(weights)
    by_shape = 0.0 if alpha is None else (alpha - 1) * f / xp.maximum(weights, TINY)
    return (successes - (trials + beta) * f + by_shape) / xp.sqrt(f * (1 - f))


def _successful(weights: Float[Array, " size"]) -> Float[Array, " size"]:
    """Compute f, `TINY` away from 0, at which EM would stay for ever."""
    xp = namespace(weights)
    return xp.clip(-xp.expm1(-weights), TINY, 1 - TINY)


def _angles(weights: Float[Array, " size"]) -> Float[Array, " size"]:
    xp = namespace(weights)
    return 2 * xp.arcsin(xp.sqrt(_successful(weights)))


def _flat(tree: Any) -> Float[Array, " size"]:
    """Join weights, then biases, as one array."""
    leaves = jax.tree.leaves(tree)
    return namespace(leaves[0]).concatenate([x.ravel() for x in leaves])


def _like(params: Params, flat: Float[Array, " size"]) -> Params:
    leaves, structure = jax.tree.flatten(params)
    ends = [sum(x.size for x in leaves[: i + 1]) for i in range(len(leaves) - 1)]
    parts = namespace(flat).split(flat, ends)
    return jax.tree.unflatten(structure, [part.reshape(x.shape) for part, x in zip(parts, leaves, strict=True)])
