"""Acceleration of a fixed-point map that climbs, by secants in coordinates in which it is a step along the gradient.

Near a maximum EM is ``z' = z + A^-1 g`` with the gradient g and the information A of the complete data.  In coordinates
in which A is the identity, the derivative I - H of the map is symmetric, with H the information of the data in units of
A: eigenvalues near 0 are what makes EM crawl.  Differences of former points and steps give H on the space
they span.  There the step is divided by |H|, so Newton's step where the objective bends down, and a longer one of the
same direction where it bends up.  (Anderson's method, which divides by H itself, is drawn to saddle points: a mixture
has many.)  The quadratic model also tells what is left to gain, ``g.step / 2``, unless it bends up.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import Array, eigh, namespace, pick
from latentbits.core.module import Module

__all__ = ["Secants", "advance", "left", "start"]

LEAST_CURVATURE = 1e-3  # no step is made longer than by the inverse of this
LEAST_CURVATURE_LEFT = 1e-9  # the same for what is left to gain
UNSEEN_CURVATURE = 1e-2  # how flat directions may be that the differences do not span, for what is left to gain
DEPENDENT_SHARE = 1e-6  # a difference with less than this share outside the span of those before it adds nothing
SURE_PASSES = 3  # passes in a row whose quadratic model has a top
# Gains promised at the last points bound what is left: with one point, 10 of 40 fits of small trees ended early.
PROMISED_POINTS = 3
CAUTION_FACTOR = 3.0  # the axes of so few differences are not those of the objective


class Secants(Module):
    """State between two steps; all may have axes in front, of points that climb side by side."""

    # value, best, image: the best objective so far, where it was, and the image of that point under the map
    value: Float[Array, "*beside"]
    best: Float[Array, "*beside size"]
    image: Float[Array, "*beside size"]
    refused: Int[Array, "*beside"]  # times in a row that a step from `best` was taken back
    residual: Float[Array, "*beside size"]  # image - best
    n_kept: Int[Array, "*beside"]  # differences in memory, counted without end
    # points, residuals: differences of both between one good point and the next, the last few
    points: Float[Array, "*beside memory size"]
    residuals: Float[Array, "*beside memory size"]
    n_sure: Int[Array, "*beside"]  # passes in a row whose quadratic model has a top
    # what that model said is left to gain at the last points that were kept; inf before it is sure
    promised: Float[Array, "*beside promises"]


def start(x: Float[Array, "*beside size"], memory: int = 10) -> Secants:
    """Return the state before the first point."""
    xp = namespace(x)
    *beside, size = x.shape
    zeros, none = xp.zeros((*beside, memory, size), x.dtype), xp.zeros(beside, "int32")
    far, promised = xp.full(beside, xp.inf, x.dtype), xp.full((*beside, PROMISED_POINTS), xp.inf, x.dtype)
    return Secants(-far, x, x, none, xp.zeros_like(x), none, zeros, zeros, none, promised)


def left(state: Secants) -> Float[Array, "*beside"]:
    """Return the nats that are left to gain, all rows together."""
    xp = namespace(state)
    return xp.max(state.promised, axis=-1)


def advance(
    state: Secants,
    x: Float[Array, "*beside size"],
    value: Float[Array, "*beside"],
    image: Float[Array, "*beside size"],
    gradient: Float[Array, "*beside size"],
    scale: Float[Array, "*beside size"],
    slack: Float[Array, "*beside"],
    floor: Float[Array, "*beside"],
    unseen: float = UNSEEN_CURVATURE,
) -> tuple[Secants, Float[Array, "*beside size"]]:
    """Return the next point, given objective, image and gradient at x.

    Parameters
    ----------
    scale
        Square roots of the diagonal of A, which make coordinates those in which the map is a step along the gradient.
    slack
        How much the objective may seem to fall: the accuracy to which it is known.
    floor
        ``gradient.residual`` below which both are rounding, and their differences tell nothing: then what is left is
        bounded by the slowest direction there may be.
    unseen
        How flat directions may be that the differences do not span, for what is left to gain.
    """
    xp = namespace(x)
    good = value >= state.value - slack
    residual = image - x
    memory = state.points.shape[-2]
    # the first good point, and the one after a step that was taken back, has no predecessor to differ from
    follows = xp.isfinite(state.value) & (state.refused == 0)
    slot = ((xp.arange(memory) == (state.n_kept % memory)[..., None]) & follows[..., None])[..., None]
    points = xp.where(slot, (x - state.best)[..., None, :], state.points)
    residuals = xp.where(slot, (residual - state.residual)[..., None, :], state.residuals)
    unit = scale[..., None, :]
    step, whole, hidden, top = _step(residual * scale, points * unit, residuals * unit)
    step, whole = step / scale, whole / scale
    climbs = _dot(gradient, step) > 0
    n_sure = xp.where(top & climbs & follows, state.n_sure + 1, 0)
    promised, short = _dot(gradient, whole), _dot(gradient, residual)
    bound = xp.where(xp.abs(short) < floor, xp.abs(short) / LEAST_CURVATURE, xp.inf)
    told = xp.where(n_sure >= SURE_PASSES, promised + hidden / unseen, xp.inf)
    last = 0.5 * CAUTION_FACTOR * xp.minimum(told, bound)
    promised = xp.concatenate([state.promised[..., 1:], last[..., None]], -1)
    accepted = Secants(
        value,
        x,
        image,
        xp.zeros_like(state.refused),
        residual,
        state.n_kept + follows,
        points,
        residuals,
        n_sure,
        promised,
    )

    # the image itself, which cannot fall but by rounding, and then shorter steps towards it
    nothing = xp.zeros_like(state.points)
    refused = Secants(
        state.value,
        state.best,
        state.image,
        state.refused + 1,
        state.residual,
        xp.zeros_like(state.n_kept),
        nothing,
        nothing,
        xp.zeros_like(state.n_sure),
        xp.full_like(state.promised, xp.inf),
    )
    back = state.best + 0.25 ** state.refused[..., None] * state.residual
    return pick(good, (accepted, x + xp.where(climbs[..., None], step, residual)), (refused, back))


def _dot(a: Float[Array, "*beside size"], b: Float[Array, "*beside size"]) -> Float[Array, "*beside"]:
    return (a * b).sum(-1)


def _step(
    residual: Float[Array, "*beside size"],
    points: Float[Array, "*beside memory size"],
    residuals: Float[Array, "*beside memory size"],
) -> tuple[Float[Array, "*beside size"], Float[Array, "*beside size"], Float[Array, "*beside"], Bool[Array, "*beside"]]:
    """Return the residual, divided by |H| in the space of the differences, and the same without bound on its length.

    And the square of what of it lies outside that space; and whether H is positive there.
    """
    xp = namespace(residual)
    length = xp.sqrt((points**2).sum(-1, keepdims=True))
    unit = xp.where(length > 0, 1 / xp.where(length > 0, length, 1), 0)
    points, residuals = points * unit, residuals * unit
    values, vectors = eigh(points @ points.mT)
    new = values > DEPENDENT_SHARE * xp.maximum(values[..., -1:], DEPENDENT_SHARE)
    combine = (vectors * xp.where(new, 1 / xp.sqrt(xp.where(new, values, 1)), 0)[..., None, :]).mT
    axes, changes = combine @ points, combine @ residuals
    bend = -axes @ changes.mT
    # an axis that is none bends as the complete data do, and so changes nothing
    bend = 0.5 * (bend + bend.mT) + xp.where(new, 0.0, 1.0)[..., None] * xp.eye(new.shape[-1])
    bends, turned = eigh(bend)
    axes = turned.mT @ axes
    along = (axes @ residual[..., None])[..., 0]

    def divided(least: float) -> Float[Array, "*beside size"]:
        more = (1 / xp.maximum(xp.abs(bends), least) - 1) * along
        return residual + (more[..., None, :] @ axes)[..., 0, :]

    hidden = xp.maximum(_dot(residual, residual) - _dot(along, along), 0)
    return divided(LEAST_CURVATURE), divided(LEAST_CURVATURE_LEFT), hidden, bends[..., 0] > 0
