"""L-BFGS ascent that never owns the loop: each pass tells value and gradient at one point, and gets the next.

The direction is the compact form of the limited-memory BFGS matrix (Byrd, Nocedal & Schnabel 1994, theorem 2.2): a few
products with all differences at once, where the usual recursion (Nocedal & Wright 2006, algorithm 7.4) takes two loops
over them.  The line search is by halves: a step whose value is not enough above the last good point's is taken back and
shortened.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float

from latentbits.core.arrays import Array, each, namespace, pick, solve_triangular
from latentbits.core.module import Module

__all__ = ["LBFGS", "advance", "penalised", "start"]


class LBFGS(Module):
    """State between two passes."""

    # value, point, gradient: the last good point, what was found there, and its gradient; -inf before there is one
    value: Float[Array, ""]
    point: Float[Array, " size"]
    gradient: Float[Array, " size"]
    # direction, step: where the search goes from it, and how far the last trial was
    direction: Float[Array, " size"]
    step: Float[Array, ""]
    # points, falls: differences of points, and by how much the gradient fell along each, the latest last; zeros where
    # there are no more
    points: Float[Array, "memory size"]
    falls: Float[Array, "memory size"]


def start(x: Float[Array, " size"], memory: int = 10) -> LBFGS:
    """Return the state before the first point."""
    xp = namespace(x)
    zero, none = xp.zeros_like(x), xp.zeros((memory, x.size), x.dtype)
    return LBFGS(xp.asarray(-xp.inf, x.dtype), x, zero, zero, xp.ones((), x.dtype), none, none)


def advance(
    state: LBFGS,
    x: Float[Array, " size"],
    value: Float[Array, ""],
    gradient: Float[Array, " size"],
    scale: Float[Array, " size"] | float = 1.0,
    plain: Float[Array, " size"] | None = None,
    slack: Float[Array, ""] | float = 0.0,
    forgets: bool = False,
) -> tuple[LBFGS, Float[Array, " size"]]:
    """Record value and gradient at x; return the next point.

    `value` and `gradient` should be per row, so that the first step, of length 1 at most, is a sensible one.

    Parameters
    ----------
    scale
        Units of the coordinates, in which all directions should bend alike; they may change from pass to pass.
    plain
        The step where nothing is remembered; the gradient, no longer than 1, if None.
    slack
        How much the value may seem to fall: the accuracy to which it is known.
    forgets
        Whether a step that is taken back empties the memory, as differences from far away mislead.
    """
    xp = namespace(x)
    # one product for all that is asked of these few vectors
    moved, fall = x - state.point, state.gradient - gradient
    products = xp.stack([moved, state.direction]) @ xp.stack([fall, state.gradient]).T
    bend, slope = products[0, 0], state.step * products[1, 1]
    good = value >= state.value + 1e-4 * slope - slack  # Armijo's rule with its usual constant

    # a pair of differences that bends upwards would turn the direction round: what was remembered goes
    keeps = (bend > 0) & ~xp.isneginf(state.value)
    points = xp.where(keeps, xp.concatenate([state.points[1:], moved[None]]), 0)
    falls = xp.where(keeps, xp.concatenate([state.falls[1:], fall[None]]), 0)
    direction = (
        _direction(points * scale, falls / scale, gradient / scale, None if plain is None else plain * scale) / scale
    )

    # the parabola through the value and slope at the good point and the value at the trial has its top here
    top = 0.5 * slope / xp.maximum(slope - (value - state.value), xp.finfo(x.dtype).tiny)
    shorter = state.step * xp.clip(xp.where(xp.isfinite(top), top, 0.1), 0.1, 0.5)

    # a value may fall by the slack once, not at every pass
    accepted = LBFGS(xp.maximum(value, state.value), x, gradient, direction, xp.ones_like(state.step), points, falls)
    remembered = (xp.zeros_like(points),) * 2 if forgets else (state.points, state.falls)
    refused = state.replace(step=shorter, points=remembered[0], falls=remembered[1])
    state = pick(good, accepted, refused)
    return state, state.point + state.step * state.direction


def penalised(state: LBFGS, more: Float[Array, ""], slope: Callable[[Array], Array]) -> LBFGS:
    """Change the state to what it would be with a larger quadratic penalty."""
    value = state.value - 0.5 * more * state.point @ slope(state.point)
    falls = state.falls + more * each(slope, state.points)
    return state.replace(value=value, gradient=state.gradient - more * slope(state.point), falls=falls)


def _direction(
    points: Float[Array, "memory size"],
    falls: Float[Array, "memory size"],
    gradient: Float[Array, " size"],
    plain: Float[Array, " size"] | None = None,
) -> Float[Array, " size"]:
    """Multiply the gradient by the remembered inverse Hessian; without memory, make it no longer than 1."""
    xp = namespace(points)
    memory = len(points)
    everything = xp.concatenate([points, falls, gradient[None]])
    gram = everything @ everything.T
    cross, square = gram[:memory, memory:-1], gram[memory:, memory:]
    own = xp.arange(memory)[:, None] == xp.arange(memory)
    bends = xp.sum(xp.where(own, cross, 0), 1)
    length = xp.sqrt(square[-1, -1])
    last = square[-2, -2]
    scale = bends[-1] / xp.where(last > 0, last, 1)
    # rows of empty slots are zero: their diagonal of 1 keeps the system solvable and their share 0
    system = xp.where(own & (cross == 0), 1, xp.triu(cross))
    along, across = gram[:memory, -1], square[:-1, -1]
    first = solve_triangular(system, along)
    rest = bends * first + scale * (square[:-1, :-1] @ first - across)
    second = solve_triangular(system, rest, trans=1)
    shares = xp.concatenate([second, -scale * first, scale[None]])
    direction = shares @ everything
    climbs = shares @ gram[:, -1] > 0
    return xp.where(climbs & (last > 0), direction, gradient / xp.maximum(1, length) if plain is None else plain)
