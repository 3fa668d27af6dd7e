"""EM's update of trees, with pseudo-counts, or L-BFGS in units of its information (`core/lbfgs.py`).

Roots of probabilities are coordinates in which the information of the complete data is four times a count, so that EM
is a step along the gradient there, and any numbers are probabilities once they are squared and divided by their sum.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jaxtyping import Float, ScalarLike

from latentbits.core import lbfgs
from latentbits.core.arrays import Array, namespace
from latentbits.core.lbfgs import LBFGS
from latentbits.core.model import Progress
from latentbits.core.special import TINY, log_probabilities
from latentbits.models.latent_tree.entropy import best_shares, entropies, spread_out
from latentbits.models.latent_tree.messages import Counts
from latentbits.models.latent_tree.records import Params, Settings, Shared, Stats

__all__ = ["forms", "log", "objective", "softened", "start", "update"]

# Differences: 12 fits of trees took 1.05 times the passes with 20, and 1.03 times with 5.
MEMORY = 10
# Relative, of the objective: on digits it scatters by 7e-9 where rows are in float32, and a fall that is none costs the
# memory.
ROUNDING = 3e-8


def _means(counts: Counts, smoothing: ScalarLike) -> Float[Array, " columns"]:
    # posteriors sum to 1, so these are the plain column means, the same at every iteration
    ones, zeros = (x.sum((0, 2)) for x in (counts.ones, counts.zeros))
    return (ones + smoothing / 2) / namespace(ones).maximum(ones + zeros + smoothing, TINY)


def _pseudo(settings: Settings, params: Params, counts: Counts) -> Counts:
    """Make the pseudo-counts of `smoothing` rows per variable, even over states, with the column's mean."""
    xp, there = namespace(params), params.transition > 0
    moved = settings.smoothing * there / xp.maximum(there.sum((2, 3), keepdims=True), 1)
    states = there.any(2)
    seen = settings.smoothing * states / xp.maximum(states.sum(2, keepdims=True), 1)
    mean = _means(counts, settings.smoothing)[:, None]
    return Counts(moved, seen * mean, seen * (1 - mean))


def softened(settings: Settings, emission: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute P(bit = 1 | state) of bits that are sometimes flipped."""
    return emission + settings.softening * (1 - 2 * emission)


def _before_flips(settings: Settings, params: Params, counts: Counts) -> Counts:
    """Infer expected counts of the bits before they were flipped from counts of the bits seen."""
    xp, e, seen_one = namespace(params), params.emission, softened(settings, params.emission)
    kept = (1 - settings.softening) * e / xp.maximum(seen_one, TINY)  # of ones, how many were ones
    flipped = settings.softening * e / xp.maximum(1 - seen_one, TINY)  # of zeros
    ones = counts.ones * kept + counts.zeros * flipped
    return Counts(counts.moved, ones, counts.ones * (1 - kept) + counts.zeros * (1 - flipped))


def objective(settings: Settings, params: Params, shared: Shared | None, stats: Stats) -> Float[Array, ""]:
    more = _pseudo(settings, params, stats.counts)
    penalty = (more.moved * log(params.transition)).sum()
    if settings.hidden:
        log_one, log_zero = log_probabilities(params.emission)
        penalty += (more.ones * log_one + more.zeros * log_zero).sum()
    if settings.spread:
        own = jax.vmap(entropies)(*forms(params), params.transition, params.emission)
        penalty += stats.n_rows * settings.entropy * jnp.sum(entr(params.weights) + params.weights * own)
    return stats.log_likelihood.sum() + penalty


def log(p: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return the logarithm, 0 of what cannot happen."""
    xp = namespace(p)
    return xp.log(xp.where(p > 0, p, 1))


def update(
    settings: Settings,
    state: LBFGS | None,
    params: Params,
    shared: Shared | None,
    stats: Stats,
    progress: Progress | None,
) -> tuple[LBFGS | None, Params]:
    xp, counts = namespace(params, stats), _before_flips(settings, params, stats.counts)
    counts = jax.tree.map(operator.add, counts, _pseudo(settings, params, stats.counts))
    # a root's transitions are one distribution; what hangs above it has no state
    root = (params.parent == params.parent.shape[1])[:, :, None, None]
    moved = xp.where(root, counts.moved.sum(2, keepdims=True), counts.moved)
    if settings.spread:
        return None, _spread_out(settings, params, counts.replace(moved=moved), stats)
    bits = xp.stack([counts.ones, counts.zeros], -1) * settings.hidden  # else states are the bits
    owned = _Shares(stats.members, xp.where(root, moved / moved.shape[3], moved), bits)
    total = jax.tree.map(lambda n: xp.broadcast_to(n.sum(-1, keepdims=True), n.shape), owned)
    at = _Shares.of(params)
    plain = jax.tree.map(
        lambda n, n_all, p: xp.where(n_all > 0, n / xp.where(n_all > 0, n_all, 1), p), owned, total, at
    )
    if state is None:
        return None, params.replace(weights=plain.weights, transition=plain.transition, emission=plain.bits[..., 0])
    x, image, n, n_all = (parts.flat() for parts in (at, plain, owned, total))
    x, value = xp.sqrt(x), objective(settings, params, shared, stats)
    gradient = xp.where(x > 0, 2 * (n / xp.where(x > 0, x, 1) - n_all * x), 0)
    information = 4 * xp.maximum(n_all, 1)
    slack = ROUNDING * xp.abs(value)
    state, ahead = lbfgs.advance(
        state, x, value, gradient, xp.sqrt(information), xp.sqrt(image) - x, slack, forgets=True
    )
    return state, _params_at(params, ahead)


class _Shares(NamedTuple):
    """Learned numbers, as distributions along the last axis; or counts in their place."""

    weights: Float[Array, " trees"]
    transition: Float[Array, "trees columns states states"]
    bits: Float[Array, "trees columns states 2"]

    @classmethod
    def of(cls, params: Params) -> _Shares:
        e = params.emission
        return cls(params.weights, params.transition, namespace(e).stack([e, 1 - e], -1))

    def flat(self) -> Float[Array, " size"]:
        """Return all numbers one after the other."""
        return namespace(self).concatenate([x.ravel() for x in self])


def start(params: Params) -> LBFGS:
    """Begin with no point seen."""
    return lbfgs.start(namespace(params).sqrt(_Shares.of(params).flat()), MEMORY)


def _params_at(params: Params, x: Float[Array, " size"]) -> Params:
    """Return the parameters at a point; states that do not exist keep probability 0."""
    xp, now = namespace(x), _Shares.of(params)
    ends = np.cumsum([part.size for part in now])
    squares = [part.reshape(like.shape) for part, like in zip(xp.split(x**2, ends[:-1]), now)]
    weights, transition, bits = (s / xp.maximum(s.sum(-1, keepdims=True), TINY**2) for s in squares)
    return params.replace(weights=weights, transition=transition, emission=bits[..., 0])


def forms(params: Params) -> tuple[Array, Array, Array]:
    return params.parent, params.steps, params.leaves


def _spread_out(settings: Settings, params: Params, counts: Counts, stats: Stats) -> Params:
    """Update with the entropy's reward (`entropy.py`); the shares of trees come last."""
    worth = jnp.asarray(stats.n_rows * settings.entropy)
    sweep = jax.vmap(partial(spread_out, hidden=settings.hidden))
    learned = params.transition, params.emission
    transition, emission, own = sweep(*forms(params), *learned, counts, worth * params.weights)
    weights = best_shares(stats.members, own, worth)
    return params.replace(weights=weights, transition=transition, emission=emission)
