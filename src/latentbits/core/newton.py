"""Newton's method for an objective of few parameters whose information is summed over rows, with a way back.

The observed information is measured in units of a positive definite one (that of the complete data, or Fisher's), in
which its eigenvalues are near 1 where nothing is hidden and near 0 where the objective is flat.  Steps divide the
gradient by them, by their size where the objective bends up, and by no less than a damping that grows when a step is
taken back.  The same quadratic model tells what is left to gain.
"""

from __future__ import annotations

from jaxtyping import Float

from latentbits.core.arrays import Array, cholesky, eigh, namespace, pick, solve_triangular
from latentbits.core.module import Module

__all__ = ["Newton", "advance", "start"]

LONGEST_STEP = 2.0  # in each parameter


class Newton(Module):
    """The best point, the step from it along axes of the information, and the damping; `left` is left to gain."""

    value: Float[Array, ""]
    best: Float[Array, " size"]
    bends: Float[Array, " size"]
    axes: Float[Array, "size size"]
    slope: Float[Array, " size"]
    damping: Float[Array, ""]
    left: Float[Array, ""]


def start(x: Float[Array, " size"]) -> Newton:
    """Return the state before the first point."""
    xp = namespace(x)
    nothing, far = xp.zeros_like(x), xp.asarray(xp.inf, x.dtype)
    return Newton(-far, x, nothing, xp.zeros((x.size, x.size), x.dtype), nothing, xp.full_like(far, 0.1), far)


def advance(
    state: Newton,
    x: Float[Array, " size"],
    value: Float[Array, ""],
    gradient: Float[Array, " size"],
    information: Float[Array, "size size"],
    unit: Float[Array, "size size"],
) -> tuple[Newton, Float[Array, " size"]]:
    """Return the next point, given objective, gradient and information at x, and the information that is the unit."""
    xp = namespace(x)
    good = value >= state.value - 1e-13 * xp.abs(value)  # the objective is known to 1e-13
    scale = 1 / xp.sqrt(xp.maximum(xp.diag(unit), 1e-300))
    root = cholesky(unit * xp.outer(scale, scale) + 1e-9 * xp.eye(x.size))
    inverse = solve_triangular(root, xp.diag(scale), lower=True)
    bends, turned = eigh(inverse @ information @ inverse.T)
    axes = inverse.T @ turned
    slope = axes.T @ gradient
    # where it bends up, what a step of the longest kind would gain: much at a saddle, nothing where a value runs away
    reach = LONGEST_STEP / xp.maximum(xp.abs(axes).max(0), 1e-300)
    upward = xp.abs(slope) * reach + 0.5 * xp.abs(bends) * reach**2
    # below -1e-6 the objective bends up; 1e-9 is along directions that the data do not determine
    left = xp.sum(xp.where(bends < -1e-6, upward, 0.5 * slope**2 / xp.maximum(bends, 1e-9)))
    damping = xp.maximum(state.damping / 8, 1e-10)
    here = Newton(value, x, bends, axes, slope, damping, left)
    back = state.replace(damping=xp.maximum(16 * state.damping, 1e-4))
    state = pick(good, here, back)
    step = state.axes @ (state.slope / xp.maximum(xp.abs(state.bends), state.damping))
    step = xp.where(xp.isfinite(step).all(), step, 0.0)  # where a value has run so far that nothing bends any more
    return state, state.best + step * xp.minimum(1, LONGEST_STEP / xp.maximum(xp.abs(step).max(initial=0), 1e-300))
