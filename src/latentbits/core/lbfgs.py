"""L-BFGS ascent that never owns the loop: each pass tells value and gradient at one point, and gets the next.

The direction is optax's limited-memory BFGS (Nocedal & Wright 2006, algorithm 7.4).  The line search is by halves: a
step whose value is not enough above the last good point's is taken back and shortened.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

__all__ = ["LBFGS", "advance", "start"]

ENOUGH = 1e-4  # of the gain that the slope promises (Armijo)


class LBFGS(eqx.Module):
    """What is carried from pass to pass.

    Attributes
    ----------
    value, point, gradient
        The last good point, what was found there, and its gradient.
    direction, step
        Where the search goes from it, and how far the last trial was.
    memory
        optax's differences of points and gradients.
    """

    value: Float[Array, ""]
    point: Float[Array, " size"]
    gradient: Float[Array, " size"]
    direction: Float[Array, " size"]
    step: Float[Array, ""]
    memory: Any


def start(x: Float[Array, " size"], memory: int = 10) -> LBFGS:
    """Nothing seen yet."""
    zero = jnp.zeros_like(x)
    worst = jnp.asarray(-jnp.inf, x.dtype)
    return LBFGS(worst, x, zero, zero, jnp.ones((), x.dtype), optax.scale_by_lbfgs(memory).init(x))


def advance(
    state: LBFGS, x: Float[Array, " size"], value: Float[Array, ""], gradient: Float[Array, " size"], memory: int = 10
) -> tuple[LBFGS, Float[Array, " size"]]:
    """Take note of value and gradient at x, and say where to look next.

    `value` and `gradient` should be per row, so that the first step, of length 1 at most, is a sensible one.
    """
    optimiser = optax.scale_by_lbfgs(memory)
    good = value >= state.value + ENOUGH * state.step * (state.direction @ state.gradient)

    # a pair of differences that bends upwards would turn the direction round: what was remembered goes
    bend = (x - state.point) @ (state.gradient - gradient)
    first = state.memory.count == 0
    kept = _pick((bend > 0) | first, state.memory, optimiser.init(x))
    downhill, remembered = optimiser.update(-gradient, kept, x)
    climbs = -downhill @ gradient > 0
    direction = jnp.where(climbs, -downhill, gradient / jnp.maximum(1, jnp.linalg.norm(gradient)))
    accepted = LBFGS(value, x, gradient, direction, jnp.ones_like(state.step), remembered)

    # the parabola through the value and slope at the good point and the value at the trial has its top here
    slope = state.step * (state.direction @ state.gradient)
    top = 0.5 * slope / jnp.maximum(slope - (value - state.value), jnp.finfo(x.dtype).tiny)
    shorter = state.step * jnp.clip(jnp.where(jnp.isfinite(top), top, 0.1), 0.1, 0.5)
    refused = eqx.tree_at(lambda s: s.step, state, shorter)

    state = _pick(good, accepted, refused)
    return state, state.point + state.step * state.direction


def _pick(condition: Bool[Array, ""], a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)
