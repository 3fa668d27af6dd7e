"""L-BFGS ascent that never owns the loop: each pass tells value and gradient at one point, and gets the next.

The direction is the compact form of the limited-memory BFGS matrix (Byrd, Nocedal & Schnabel 1994, theorem 2.2): a few
products with all differences at once, where the usual recursion (Nocedal & Wright 2006, algorithm 7.4) takes two loops
over them.  The line search is by halves: a step whose value is not enough above the last good point's is taken back and
shortened.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["LBFGS", "advance", "penalised", "start"]

ARMIJO_SHARE = (
    1e-4  # least part of the gain promised by the slope that a step has to bring: Armijo's rule with its usual constant
)


class LBFGS(eqx.Module):
    """State between two passes.

    Attributes
    ----------
    value, point, gradient
        The last good point, what was found there, and its gradient; -inf before there is one.
    direction, step
        Where the search goes from it, and how far the last trial was.
    points, falls
        Differences of points, and by how much the gradient fell along each, the latest last; zeros where there are no
        more.
    """

    value: Float[Array, ""]
    point: Float[Array, " size"]
    gradient: Float[Array, " size"]
    direction: Float[Array, " size"]
    step: Float[Array, ""]
    points: Float[Array, "memory size"]
    falls: Float[Array, "memory size"]


def start(x: Float[Array, " size"], memory: int = 10) -> LBFGS:
    """Return the state before the first point."""
    zero, none = jnp.zeros_like(x), jnp.zeros((memory, x.size), x.dtype)
    return LBFGS(jnp.asarray(-jnp.inf, x.dtype), x, zero, zero, jnp.ones((), x.dtype), none, none)


def advance(
    state: LBFGS, x: Float[Array, " size"], value: Float[Array, ""], gradient: Float[Array, " size"]
) -> tuple[LBFGS, Float[Array, " size"]]:
    """Record value and gradient at x; return the next point.

    `value` and `gradient` should be per row, so that the first step, of length 1 at most, is a sensible one.
    """
    # one product for all that is asked of these few vectors
    moved, fall = x - state.point, state.gradient - gradient
    products = jnp.stack([moved, state.direction]) @ jnp.stack([fall, state.gradient]).T
    bend, slope = products[0, 0], state.step * products[1, 1]
    good = value >= state.value + ARMIJO_SHARE * slope

    # a pair of differences that bends upwards would turn the direction round: what was remembered goes
    keeps = (bend > 0) & ~jnp.isneginf(state.value)
    points = jnp.where(keeps, jnp.concatenate([state.points[1:], moved[None]]), 0)
    falls = jnp.where(keeps, jnp.concatenate([state.falls[1:], fall[None]]), 0)
    direction = _direction(points, falls, gradient)

    # the parabola through the value and slope at the good point and the value at the trial has its top here
    top = 0.5 * slope / jnp.maximum(slope - (value - state.value), jnp.finfo(x.dtype).tiny)
    shorter = state.step * jnp.clip(jnp.where(jnp.isfinite(top), top, 0.1), 0.1, 0.5)

    accepted = LBFGS(value, x, gradient, direction, jnp.ones_like(state.step), points, falls)
    refused = eqx.tree_at(lambda s: s.step, state, shorter)
    state = jax.tree.map(lambda a, b: jnp.where(good, a, b), accepted, refused)
    return state, state.point + state.step * state.direction


def penalised(state: LBFGS, more: Float[Array, ""], slope: Callable[[Array], Array]) -> LBFGS:
    """Change the state to what it would be with a larger quadratic penalty."""
    value = state.value - 0.5 * more * state.point @ slope(state.point)
    falls = state.falls + more * jax.vmap(slope)(state.points)
    return eqx.tree_at(
        lambda s: (s.value, s.gradient, s.falls), state, (value, state.gradient - more * slope(state.point), falls)
    )


def _direction(
    points: Float[Array, "memory size"], falls: Float[Array, "memory size"], gradient: Float[Array, " size"]
) -> Float[Array, " size"]:
    """Multiply the gradient by the remembered inverse Hessian; without memory, scale it to a length of at most 1."""
    memory = len(points)
    everything = jnp.concatenate([points, falls, gradient[None]])
    gram = everything @ everything.T
    cross, square = gram[:memory, memory:-1], gram[memory:, memory:]
    own = jnp.arange(memory)[:, None] == jnp.arange(memory)
    bends = jnp.sum(jnp.where(own, cross, 0), 1)
    length = jnp.sqrt(square[-1, -1])
    scale = jnp.where(square[-2, -2] > 0, bends[-1] / square[-2, -2], 1 / jnp.maximum(1, length))
    # rows of empty slots are zero: their diagonal of 1 keeps the system solvable and their share 0
    system = jnp.where(own & (cross == 0), 1, jnp.triu(cross))
    along, across = gram[:memory, -1], square[:-1, -1]
    first = jax.scipy.linalg.solve_triangular(system, along)
    rest = bends * first + scale * (square[:-1, :-1] @ first - across)
    second = jax.scipy.linalg.solve_triangular(system, rest, trans=1)
    shares = jnp.concatenate([second, -scale * first, scale[None]])
    direction = shares @ everything
    climbs = shares @ gram[:, -1] > 0
    return jnp.where(climbs, direction, gradient / jnp.maximum(1, length))
