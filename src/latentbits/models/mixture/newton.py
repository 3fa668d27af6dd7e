"""Newton's method for mixtures of few parameters: the end of learning, and proof that it is one.

With the scores a_k(x) of a row if its component were known, and the complete information B, the observed information is

    sum over rows of  B - <a a'> + <a><a>'          (Louis 1982)

all expectations over the row's component, in the coordinates of `coordinates.py`.  Its eigenvalues in units of the
complete information lie between 0 and 1 at a maximum: 1 less the rates at which EM closes in.  Steps divide the
gradient by them, by their size where the likelihood bends up (a saddle point, at which EM can rest for hundreds of
passes), and by no less than a damping that grows when a step is taken back.
"""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float

from latentbits.core.arrays import Array, eigh, namespace, pick
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.module import Module
from latentbits.models.mixture import coordinates, tuning
from latentbits.models.mixture.coordinates import Counts, Params

__all__ = ["State", "advance", "complete", "missing_information", "start"]


class State(Module):
    """The best point, its eigenvalues and axes (in units of the complete information), and the damping of steps from
    it.

    `slope` is the gradient along the axes, `unit` the length of a coordinate, `left` what is left to gain.
    """

    value: Float[Array, ""]
    best: Float[Array, " size"]
    bends: Float[Array, " size"]
    axes: Float[Array, "size size"]
    slope: Float[Array, " size"]
    unit: Float[Array, " size"]
    damping: Float[Array, ""]
    left: Float[Array, ""]


def start(params: Params) -> State:
    """Begin with no point seen."""
    xp, at = namespace(params), coordinates.of(params).ravel()
    nothing, axes = xp.zeros_like(at), xp.zeros((at.size, at.size), at.dtype)
    far, damping = xp.asarray(xp.inf, at.dtype), xp.asarray(tuning.NEWTON_FIRST_DAMPING, at.dtype)
    return State(-far, at, nothing, axes, nothing, nothing, damping, far)


def missing_information(
    log_weight: Float[Array, " components"],
    log_odds: Float[Array, "components columns"],
    share: Float[Array, "rows components"],
    batch: Batch,
) -> Float[Array, "size size"]:
    """Sum <a a'> - <a><a>' over rows.

    By logarithms, which are taken in float64: in the precision of the rows, 1 less a mean may have no digits left.
    """
    (n, k), xp = share.shape, namespace(share)
    of_one = xp.exp(-0.5 * log_odds)  # the score of a one, sqrt((1 - m) / m); that of a zero is minus its inverse
    scores = batch.values[:, None] * of_one - (batch.mask - batch.values)[:, None] / of_one
    of_weight = xp.broadcast_to(xp.exp(-0.5 * log_weight)[:, None], (n, k, 1))
    scores = xp.concatenate([of_weight, scores], 2)
    weighted = share[:, :, None] * scores
    mean = weighted.reshape(n, -1)
    own = (batch.weight[:, None, None] * weighted).transpose(1, 2, 0) @ scores.transpose(1, 0, 2)
    apart = xp.eye(k, dtype=own.dtype)[:, None, :, None]  # blocks of different components are 0
    within = (own[:, :, None] * apart).reshape(mean.shape[1], mean.shape[1])
    return within - over_rows(batch.weight[:, None] * mean, mean)


def advance(
    state: State, params: Params, value: Float[Array, ""], counts: Counts, missing: Float[Array, "size size"]
) -> tuple[State, Params]:
    """Choose the next point, given objective, counts and missing information at the parameters."""
    xp, at = namespace(counts), coordinates.of(params)
    good = value >= state.value - 1e-12 * xp.abs(value)
    slope = coordinates.gradient(params, counts).ravel()
    unit = 1 / xp.sqrt(coordinates.complete_information(counts)).ravel()
    bends, axes = eigh((complete(params, counts) - missing) * xp.outer(unit, unit))
    slope = axes.T @ (unit * slope)
    left = xp.where(
        bends[0] < tuning.NEWTON_SADDLE_EIGENVALUE,
        xp.inf,
        0.5 * xp.sum(slope**2 / xp.maximum(bends, tuning.NEWTON_LEAST_EIGENVALUE)),
    )
    damping = xp.maximum(state.damping / 4, tuning.NEWTON_LEAST_DAMPING)
    here = State(value, at.ravel(), bends, axes, slope, unit, damping, left)
    state = pick(good, here, replace(state, damping=xp.maximum(8 * state.damping, 1e-4)))
    return state, coordinates.params_at((state.best + _step(state)).reshape(at.shape))


def complete(params: Params, counts: Counts) -> Float[Array, "size size"]:
    """Return minus the second derivatives of the expected complete log-likelihood.

    In the direction in which all weights grow alike, which changes nothing, it is that of the number of rows.
    """
    xp, inner = namespace(counts), coordinates.inside(params)
    n = counts.members.sum()
    of_weights = counts.members / (2 * inner.weights) + 0.5 * n
    zeros = counts.observed - counts.ones
    of_means = 0.5 * (counts.ones / inner.means + zeros / (1 - inner.means))
    return xp.diag(xp.concatenate([of_weights[:, None], of_means], 1).ravel())


def _step(state: State) -> Float[Array, " size"]:
    xp = namespace(state)
    length = state.slope / xp.maximum(xp.abs(state.bends), state.damping)
    # off a saddle point by what changes the likelihood by about |bend| / 2 nats, the less the more it was damped
    off = xp.where(state.slope >= 0, 1.0, -1.0) * xp.minimum(1, tuning.NEWTON_FIRST_DAMPING / state.damping)
    length = xp.where((state.bends < tuning.NEWTON_SADDLE_EIGENVALUE) & (xp.abs(length) < xp.abs(off)), off, length)
    return state.unit * (state.axes @ length)
