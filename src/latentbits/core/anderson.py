"""Anderson acceleration of a fixed-point map that climbs an objective, with a way back.

EM is a map x -> G(x) that never lowers its objective and often crawls.  From the last few points and their images the
next point is extrapolated as if the map were linear (Anderson 1965; for EM: Henderson & Varadhan 2019).  The next
pass tells the objective there: when it fell, the extrapolation is taken back, and the image of the best point is used.

Near a maximum the step that it takes is one of Newton's, so that half of gradient times step is left to gain.  A single
step may miss a slow direction, so several in a row must promise little (`promise`, `left`).
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import Array, namespace, pick
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import pairs, solve

__all__ = ["ROUNDING", "Anderson", "advance", "left", "promise", "start"]

ROUNDING = 1e-7  # of an objective, relative to it: rows are in float32
# Gains promised at the last points bound what is left: with one point, 6 of 12 fits of a clipped Gaussian ended with 7
# to 50 times as much left.
PROMISED_POINTS = 3


class Anderson(Module):
    """State between two steps."""

    # value, best: the best objective so far, and where it was
    value: Float[Array, ""]
    best: Float[Array, " size"]
    # images of the best point to fall back on, the boldest first: each must climb if the one before it did not
    images: Float[Array, "images size"]
    refused: Int[Array, ""]  # times in a row that a step from `best` was taken back
    n_kept: Int[Array, ""]  # differences in memory, counted without end
    # point, residual: the last good point, and G(x) - x there
    point: Float[Array, " size"]
    residual: Float[Array, " size"]
    # points, residuals: differences of both between one good point and the next, the last few
    points: Float[Array, "memory size"]
    residuals: Float[Array, "memory size"]
    # nats in all that were left to gain by the last points that were kept; see `promise`
    promised: Float[Array, " promises"]


def start(x: Float[Array, " size"], n_images: int, memory: int) -> Anderson:
    """Return the state before the first point."""
    xp = namespace(x)
    zeros = xp.zeros((memory, x.size), x.dtype)
    none = xp.asarray(0, "int32")
    best = xp.asarray(-xp.inf, x.dtype)
    images, promised = xp.broadcast_to(x, (n_images, x.size)), xp.full(PROMISED_POINTS, xp.inf)
    return Anderson(best, x, images, none, none, x, xp.zeros_like(x), zeros, zeros, promised)


def promise(state: Anderson, nats: Float[Array, ""]) -> Anderson:
    """Record the gain that the next step promises, if the point was kept.

    After a step that was taken back there is nothing to extrapolate from, and a plain one in a slow direction promises
    a hundredth of what is left.
    """
    xp = namespace(state)
    promised = xp.append(state.promised[1:], nats)
    return state.replace(promised=xp.where(state.refused > 0, state.promised, promised))


def left(state: Anderson) -> Float[Array, ""]:
    """Return what is left to gain: the most of what was promised; NaN where no step from the best point climbs."""
    xp = namespace(state)
    # steps taken back in a row: a bold one, a cautious one, and a half of that
    return xp.where(state.refused >= 3, xp.nan, xp.max(state.promised))


def advance(
    state: Anderson,
    x: Float[Array, " size"],
    value: Float[Array, ""],
    images: Float[Array, "images size"],
    slack: Float[Array, ""] | float = 0.0,
) -> tuple[Anderson, Float[Array, " size"], Bool[Array, ""]]:
    """Return the next point, given the objective at x and its images, the boldest first.

    Parameters
    ----------
    slack
        How much the objective may seem to fall for other reasons than rounding.  Where it is flat, a step that was
        refused for a fall of its last digits would be the last one.

    Returns
    -------
    state, next point, and whether x was kept (its objective did not fall).
    """
    xp = namespace(x)
    good = value >= state.value - slack - ROUNDING * xp.abs(value)
    memory = state.points.shape[0]
    residual = images[0] - x
    # the very first good point has no predecessor to differ from
    first = xp.isneginf(state.value) | (state.refused > 0)
    slot = xp.arange(memory)[:, None] == state.n_kept % memory
    points = xp.where(slot & ~first, x - state.point, state.points)
    residuals = xp.where(slot & ~first, residual - state.residual, state.residuals)
    n_kept = state.n_kept + ~first
    ahead = _extrapolated(x, residual, points, residuals)
    none = xp.zeros_like(state.refused)
    accepted = Anderson(value, x, images, none, n_kept, x, residual, points, residuals, state.promised)

    # the image itself, then the more cautious ones, then shorter and shorter steps along the last
    n_images = images.shape[0]
    extrapolated = (state.n_kept > 0) | (state.refused > 0)  # a refusal empties the memory
    place = state.refused + xp.where(extrapolated, 0, 1).astype("int32")
    image = state.images[xp.clip(place, 0, n_images - 1)]
    shorter = 0.5 ** xp.maximum(place - (n_images - 1), 0)
    back = state.best + shorter * (image - state.best)
    nothing = xp.zeros_like(state.points)
    refused = Anderson(
        state.value,
        state.best,
        state.images,
        place + 1,
        xp.zeros_like(state.n_kept),
        state.best,
        state.residual,
        nothing,
        nothing,
        state.promised,
    )
    return *pick(good, (accepted, ahead), (refused, back)), good


def _extrapolated(
    x: Float[Array, " size"],
    residual: Float[Array, " size"],
    points: Float[Array, "memory size"],
    residuals: Float[Array, "memory size"],
) -> Float[Array, " size"]:
    """x + residual, less the part of the residual that former differences explain."""
    xp = namespace(x)
    gram = residuals @ residuals.T
    # slots that hold nothing are zero: their diagonal of 1 keeps the system solvable and their share 0
    diagonal = xp.diag(gram)
    unit = 1 / xp.sqrt(xp.where(diagonal > 0, diagonal, 1.0))
    # the last differences of a converging map are nearly parallel
    scaled = gram * xp.outer(unit, unit) + xp.diag(xp.where(diagonal > 0, 1e-8, 1.0))
    j, k = pairs(len(diagonal))
    share = unit * solve(scaled[j, k][None], (unit * (residuals @ residual))[None])[0]
    return x + residual - share @ (points + residuals)
