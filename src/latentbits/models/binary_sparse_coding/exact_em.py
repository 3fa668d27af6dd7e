"""The end of learning where all states can be summed over: exact EM, on all rows, until nothing is left to gain.

The schedule of truncated EM ends after its iterations, wherever it is: what few states, the cut and the added noise
have left, and with many missing entries, which make EM slow, most of the way.  From there the likelihood is climbed,
which says when it is over.  EM crawls where half of what it counts is guessed; Anderson's method extrapolates it.
"""

from __future__ import annotations

from jax.tree_util import Partial
from jaxtyping import Float

from latentbits.core import anderson
from latentbits.core.anderson import Anderson
from latentbits.core.arrays import Array, namespace
from latentbits.core.model import Evaluate, Iterate, Model, Prepare, Progress
from latentbits.core.module import Module
from latentbits.models.binary_sparse_coding.maximisation import maximum
from latentbits.models.binary_sparse_coding.posterior import Params, Shared
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.tuning import LEAST_PRIOR

__all__ = ["Settling", "at_rest", "settle"]


class Settling(Module):
    """The acceleration, and the unit in which components are measured by it."""

    anderson: Anderson
    unit: Float[Array, ""]


def _flat(components: Array, noise_std: Array, prior: Array, unit: Array) -> Float[Array, " size"]:
    """Return coordinates in which any numbers are parameters."""
    xp = namespace(components)
    ends = xp.stack([xp.log(noise_std), xp.log(prior) - xp.log1p(-prior)])
    return xp.concatenate([components.reshape(-1) / unit, ends])


def _start(params: Params) -> Settling:
    unit = params.noise_std
    place = _flat(params.components, unit, params.prior, unit)
    return Settling(anderson.start(place, 1, 5), unit)  # five former steps


def _update(
    quietest: float | Float[Array, ""],
    state: Settling,
    params: Params,
    shared: Shared,
    stats: Stats,
    progress: Progress,
) -> tuple[Settling, Params]:
    xp = namespace(params)
    best = maximum(params, stats, len(params.components), quietest)
    x = _flat(params.components, params.noise_std, params.prior, state.unit)
    image = _flat(best.components, best.noise_std, best.prior, state.unit)
    value = stats.free_energy.sum()
    accelerated, ahead, _ = anderson.advance(state.anderson, x, value, image[None])
    prior = xp.clip(1 / (1 + xp.exp(-ahead[-1])), LEAST_PRIOR, 1 - LEAST_PRIOR)
    W = state.unit * ahead[:-2].reshape(params.components.shape)
    new = Params(W, xp.exp(ahead[-2]), prior, params.reseeded, params.truncation_loss)
    return Settling(accelerated, state.unit), new


def settle(quietest: float, prepare: Prepare) -> Iterate:
    """Make the stage of exact EM of all rows; `prepare` makes what a pass at temperature 1 shares."""
    update = Partial(_update, float(quietest))
    # four passes without a gain: an extrapolation, and shorter steps, that are taken back
    return Iterate("exact EM", prepare=prepare, start=_start, update=update, patience=4)


def at_rest(settler: Model) -> Model:
    """Make the record that evaluates parameters, by the programs of exact EM."""
    (stage,) = settler.stages
    assert isinstance(stage, Iterate)
    return settler._replace(
        stages=(Evaluate("evaluation", prepare=stage.prepare, start=stage.start),), needs_summary=False
    )
