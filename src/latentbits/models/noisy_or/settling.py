"""The end of learning where all states can be summed over: exact EM, made faster by secants (`core/secants.py`).

EM counts trials and successes of coins (`learning.py`), as it does for the means of a mixture, and crawls where causes
of the same children are hard to tell apart.  Of a coin of which so much is known, the coordinate

    theta_ij = 2 arcsin sqrt(f_ij),     f_ij = 1 - exp(-w_ij),

has an information of 1 for each trial, whatever f_ij.  In it an effect of 0, of which a network has many, is an
ordinary maximum.  With the prior (8), whose beta is so many trials without success, the gradient is

    [A - (N + beta) f] / sqrt(f (1 - f))  +  (alpha - 1) sqrt(f / (1 - f)) / w .
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from latentbits.core import secants
from latentbits.core.secants import Secants
from latentbits.core.special import TINY

__all__ = ["advance", "left", "start"]

ROUNDING = 1e-7  # of a row's log-likelihood and of its statistics, in float32
LONGEST = 0.3  # change of an angle: longer steps leave what the quadratic model is good for, and are mostly taken back


def _effect(w: Float[Array, " size"]) -> Float[Array, " size"]:
    """f, `TINY` away from 0, at which EM stays for ever."""
    return jnp.maximum(-jnp.expm1(-w), TINY)


def _angle(w: Float[Array, " size"]) -> Float[Array, " size"]:
    return 2 * jnp.arcsin(jnp.sqrt(_effect(w)))


def start(w: Float[Array, " size"]) -> Secants:
    """Nothing seen yet, at these weights and biases."""
    return secants.start(_angle(w))


def left(state: Secants) -> Float[Array, ""]:
    """What is left to gain, by the quadratic model of the secants."""
    return state.left


def advance(
    state: Secants,
    w: Float[Array, " size"],
    image: Float[Array, " size"],
    seen: Float[Array, " size"],
    credit: Float[Array, " size"],
    alpha: Any,
    beta: Any,
    value: Float[Array, ""],
    n_rows: Float[Array, ""],
) -> tuple[Secants, Float[Array, " size"]]:
    """Weights and biases of the next pass.

    Parameters
    ----------
    w, image
        Where this pass was made, and what EM (9) makes of it.
    seen, credit
        Trials and successes.
    alpha, beta
        Of the prior; without an alpha it is 1.
    value
        The objective at w.
    """
    f, total = _effect(w), seen + beta
    gradient = (credit - total * f) / jnp.sqrt(f * (1 - f))
    if alpha is not None:
        gradient = gradient + (alpha - 1) * jnp.sqrt(f / (1 - f)) / jnp.maximum(w, TINY)
    state, ahead = secants.advance(
        state,
        _angle(w),
        value,
        _angle(image),
        gradient,
        jnp.sqrt(jnp.maximum(total, 1)),
        slack=ROUNDING * jnp.abs(value),
        floor=ROUNDING**2 * 1000 * n_rows * w.size,
    )
    step = ahead - state.best
    ahead = state.best + step * jnp.minimum(1, LONGEST / jnp.maximum(jnp.max(jnp.abs(step)), TINY))
    return state, -jnp.log1p(-jnp.minimum(jnp.sin(ahead / 2) ** 2, 1 - TINY))
