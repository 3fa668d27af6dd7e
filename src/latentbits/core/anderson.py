"""Anderson acceleration of a fixed-point map that climbs an objective, with a way back.

EM is a map x -> G(x) that never lowers its objective and often crawls.  From the last few points and their images the
next point is extrapolated as if the map were linear (Anderson 1965; for EM: Henderson & Varadhan 2019).  The next
pass tells the objective there: when it fell, the extrapolation is taken back, and the image of the best point is used.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from latentbits.core.packed import pairs, solve

__all__ = ["Anderson", "advance", "start"]

RIDGE = 1e-8  # relative; the last differences of a converging map are nearly parallel


class Anderson(eqx.Module):
    """What is carried from step to step.

    Attributes
    ----------
    value, best
        The best objective so far, and where it was.
    images
        Images of the best point to fall back on, the boldest first: each must climb if the one before it did not.
    refused
        Times in a row that a step from `best` was taken back.
    n_kept
        Differences in memory, counted without end.
    point, residual
        The last good point, and G(x) - x there.
    points, residuals
        Differences of both between one good point and the next, the last few.
    """

    value: Float[Array, ""]
    best: Float[Array, " size"]
    images: Float[Array, "images size"]
    refused: Int[Array, ""]
    n_kept: Int[Array, ""]
    point: Float[Array, " size"]
    residual: Float[Array, " size"]
    points: Float[Array, "memory size"]
    residuals: Float[Array, "memory size"]


def start(x: Float[Array, " size"], n_images: int, memory: int) -> Anderson:
    """Nothing seen yet."""
    zeros = jnp.zeros((memory, x.size), x.dtype)
    none = jnp.asarray(0, jnp.int32)
    best = jnp.asarray(-jnp.inf, x.dtype)
    return Anderson(best, x, jnp.broadcast_to(x, (n_images, x.size)), none, none, x, jnp.zeros_like(x), zeros, zeros)


def advance(
    state: Anderson,
    x: Float[Array, " size"],
    value: Float[Array, ""],
    images: Float[Array, "images size"],
    slack: Float[Array, ""] | float = 0.0,
) -> tuple[Anderson, Float[Array, " size"], Bool[Array, ""]]:
    """One step: where to go next, given the objective at x and its images, the boldest first.

    Parameters
    ----------
    slack
        How much the objective may seem to fall: the accuracy to which it is known.

    Returns
    -------
    state, next point, and whether x was kept (its objective did not fall).
    """
    good = value >= state.value - slack
    memory = state.points.shape[0]
    residual = images[0] - x
    # the very first good point has no predecessor to differ from
    first = jnp.isneginf(state.value) | (state.refused > 0)
    slot = jnp.arange(memory)[:, None] == state.n_kept % memory
    points = jnp.where(slot & ~first, x - state.point, state.points)
    residuals = jnp.where(slot & ~first, residual - state.residual, state.residuals)
    n_kept = state.n_kept + ~first
    ahead = _extrapolated(x, residual, points, residuals)
    accepted = Anderson(value, x, images, jnp.zeros_like(state.refused), n_kept, x, residual, points, residuals)

    # the image itself, then the more cautious ones, then shorter and shorter steps along the last
    n_images = images.shape[0]
    extrapolated = (state.n_kept > 0) | (state.refused > 0)  # a refusal empties the memory
    place = state.refused + jnp.where(extrapolated, 0, 1)
    image = state.images[jnp.clip(place, 0, n_images - 1)]
    shorter = 0.5 ** jnp.maximum(place - (n_images - 1), 0)
    back = state.best + shorter * (image - state.best)
    nothing = jnp.zeros_like(state.points)
    refused = Anderson(
        state.value,
        state.best,
        state.images,
        place + 1,
        jnp.zeros_like(state.n_kept),
        state.best,
        state.residual,
        nothing,
        nothing,
    )
    pick = lambda a, b: jnp.where(good, a, b)  # noqa: E731
    kept = Anderson(*(pick(getattr(accepted, f), getattr(refused, f)) for f in Anderson.__dataclass_fields__))
    return kept, pick(ahead, back), good


def _extrapolated(
    x: Float[Array, " size"],
    residual: Float[Array, " size"],
    points: Float[Array, "memory size"],
    residuals: Float[Array, "memory size"],
) -> Float[Array, " size"]:
    """x + residual, less the part of the residual that former differences explain."""
    gram = residuals @ residuals.T
    # slots that hold nothing are zero: their diagonal of 1 keeps the system solvable and their share 0
    diagonal = jnp.diag(gram)
    unit = jax.lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    scaled = gram * jnp.outer(unit, unit) + jnp.diag(jnp.where(diagonal > 0, RIDGE, 1.0))
    j, k = pairs(len(diagonal))
    share = unit * solve(scaled[j, k][None], (unit * (residuals @ residual))[None])[0]
    return x + residual - share @ (points + residuals)
