"""Mixtures of Bernoulli products whose weights depend on covariates of a row (latent class regression).

    p(x | z) = sum_k P(k | z) prod_j m_kj^x_j (1 - m_kj)^(1 - x_j),      P(k | z) = softmax_k(c_k . (1, z))

Covariates are further columns of the table, after the bits: real numbers, none missing.  Inside, they are moved and
turned so that they are uncorrelated and of unit variance, and coefficients of the classes add up to zero.  In these
coordinates a bound on the second derivatives of the logs of the probabilities (Boehning 1992) is n / 2 in every
direction, so that a step of 2 / n times the gradient, which is a sum over rows, never makes the expected complete
likelihood worse: it takes the place of the M-step for the weights.  And the map of EM is again a step along the
gradient in a diagonal metric, as `core/secants.py` needs it.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Key, ScalarLike

from latentbits.core import secants
from latentbits.core.arrays import AnyKey, Array, namespace, times
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.model import Iterate, LogLikelihood, Model, Progress, Summary
from latentbits.core.module import Module
from latentbits.core.secants import Secants
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows
from latentbits.models.mixture import coordinates, tuning
from latentbits.models.mixture import model as mixture
from latentbits.models.mixture.coordinates import Counts
from latentbits.models.mixture.model import Posterior

__all__ = ["Params", "model"]


class Params(Module):
    """P(bit = 1) of each column in each class, and how membership depends on covariates."""

    weights: Float[Array, " components"]  # share of each class in the rows that were learned from
    means: Float[Array, "components columns"]  # P(bit = 1)
    # of the logs of P(class | z): the intercept, and the slopes of the covariates as they are inside
    slopes: Float[Array, "components covariates_and_one"]
    # centre, turn: covariates are (z - centre) @ turn inside
    centre: Float[Array, " covariates"]
    turn: Float[Array, "covariates covariates"]


class Stats(Module):
    """Sums over rows: those of a mixture, and the gradient by the slopes."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]  # see sum_rows
    owned: Counts
    by_slope: Float[Array, "components covariates_and_one"]


class Whitening(Module):
    """Centre of the covariates, and the matrix that turns them."""

    centre: Float[Array, " covariates"] | Float[np.ndarray, " covariates"]
    turn: Float[Array, "covariates covariates"] | Float[np.ndarray, "covariates covariates"]


def _bits(params: Params, batch: Batch) -> Batch:
    d = params.means.shape[1]
    observed = None if batch.observed is None else batch.observed[:, :d]
    return Batch(batch.values[:, :d], observed, batch.weight, batch.rows, batch.key, batch.high)


def _inner(params: Params, batch: Batch) -> Float[Array, "rows covariates_and_one"]:
    """Prepend a one to the covariates in their inner coordinates."""
    z = (batch.values[:, params.means.shape[1] :] - params.centre) @ params.turn
    xp = namespace(z)
    return xp.concatenate([xp.ones((len(z), 1), z.dtype), z], 1)


def _memberships(params: Params, batch: Batch) -> Float[Array, "rows components"]:
    """Compute log P(class | z)."""
    logits = times(_inner(params, batch), params.slopes.T)
    return logits - mixture.shares_of(logits)[1][:, None]


def _prepare(params: Params, state: Secants | None, progress: Progress | None) -> mixture.Shared:
    log_one, log_zero = log_probabilities(params.means)
    # the weights of a row are its own, and come later
    return mixture.Shared(namespace(params).zeros_like(params.weights), log_one, log_zero, log_zero.sum(1))


def _log_joint(params: Params, shared: mixture.Shared, batch: Batch) -> Float[Array, "rows components"]:
    return mixture.log_joint_of(shared, _bits(params, batch)) + _memberships(params, batch)


def _e_step(params: Params, shared: mixture.Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    share, log_likelihood = mixture.shares_of(_log_joint(params, shared, batch))
    more = (share - namespace(share).exp(_memberships(params, batch))) * batch.weight[:, None]
    return Stats(
        batch.weight.sum(),
        sum_rows(batch.weight, log_likelihood),
        mixture.owned_by(coordinates.Params(params.weights, params.means), share, _bits(params, batch)),
        over_rows(more, _inner(params, batch)),
    ), None


def _log_likelihood(params: Params, shared: mixture.Shared, batch: Batch) -> LogLikelihood:
    return LogLikelihood.exact(mixture.shares_of(_log_joint(params, shared, batch))[1])


def _infer(params: Params, shared: mixture.Shared, batch: Batch) -> Posterior:
    return mixture.posterior(mixture.shares_of(_log_joint(params, shared, batch))[0])


def _decode(params: Params, latents: Float[Array, "rows components"]) -> Float[Array, "rows columns"]:
    return latents @ params.means


def _complete(params: Params, shared: mixture.Shared, batch: Batch) -> Float[Array, "rows columns"]:
    xp = namespace(params, batch.values)
    filled = xp.clip(mixture.shares_of(_log_joint(params, shared, batch))[0] @ params.means, 0, 1)
    return xp.concatenate([filled, batch.values[:, filled.shape[1] :]], 1)


def _sample(params: Params, shared: mixture.Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    """Draw bits with the class shares of the rows that were learned from."""
    shares = jnp.log(jnp.maximum(params.weights, TINY))

    def draw(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, bits = jax.random.split(key)
        means = params.means[jax.random.categorical(which, shares)]
        return jax.random.bernoulli(bits, means).astype(means.dtype)

    return jax.vmap(draw)(keys)


# ---------------------------------------------------------------- learning


def _coordinates(params: Params) -> Float[Array, "components coordinates"]:
    xp = namespace(params)
    means = xp.clip(params.means, TINY, 1 - TINY)
    return xp.concatenate([params.slopes, 2 * xp.arcsin(xp.sqrt(means))], 1)


def _params_at(params: Params, at: Float[Array, "components coordinates"], owned: Counts) -> Params:
    q = params.slopes.shape[1]
    weights = owned.members / owned.members.sum()
    return Params(weights, namespace(at).sin(at[:, q:] / 2) ** 2, at[:, :q], params.centre, params.turn)


def _objective(settings: mixture.Settings, params: Params, shared: mixture.Shared, stats: Stats) -> Float[Array, ""]:
    mean = mixture.column_means(stats.owned, settings.smoothing)
    pseudo = shared.log_one @ mean + shared.log_zero @ (1 - mean)
    return stats.log_likelihood.sum() + settings.smoothing * pseudo.sum()


def _start(params: Params) -> Secants:
    return secants.start(_coordinates(params).ravel())


def _update(
    settings: mixture.Settings,
    state: Secants | None,
    params: Params,
    shared: mixture.Shared,
    stats: Stats,
    progress: Progress,
) -> tuple[Secants | None, Params]:
    xp, counts = namespace(stats), mixture.with_prior(stats.owned, settings.smoothing)
    means = mixture.maximised(coordinates.Params(params.weights, params.means), counts).means
    plain = replace(params, means=means, slopes=params.slopes + 2 / stats.n_rows * stats.by_slope)
    at, image = _coordinates(params), _coordinates(plain)
    if state is None:
        return None, _params_at(params, image, stats.owned)
    by_angle = coordinates.gradient(coordinates.Params(params.weights, params.means), counts)[:, 1:]
    information = xp.concatenate([xp.full_like(params.slopes, stats.n_rows / 2), xp.maximum(counts.observed, 1)], 1)
    value = _objective(settings, params, shared, stats)
    state, ahead = secants.advance(
        state,
        at.ravel(),
        value,
        image.ravel(),
        xp.concatenate([stats.by_slope, by_angle], 1).ravel(),
        xp.sqrt(information).ravel(),
        slack=tuning.FLOAT64_ROUNDING * xp.abs(value),
        floor=tuning.FLOAT64_ROUNDING**2 * 1000 * stats.n_rows * at.size,
    )
    return state, _params_at(params, ahead.reshape(at.shape), stats.owned)


def _init(settings: mixture.Settings, whitening: Whitening, key: AnyKey, summary: Summary) -> Params:
    """Start as a mixture without covariates does: all rows have the same weights."""
    d = summary.mean.shape[0] - whitening.centre.shape[0]
    bits = summary.of_first(d)
    start = mixture.from_short_runs(settings, key, bits)
    xp = namespace(start)
    log_weight = xp.log(xp.maximum(start.weights, 1e-3))
    flat = xp.zeros((len(log_weight), whitening.centre.shape[0]), start.means.dtype)
    slopes = xp.concatenate([(log_weight - log_weight.mean())[:, None], flat], 1)
    return Params(start.weights, start.means, slopes, xp.asarray(whitening.centre), xp.asarray(whitening.turn))


def model(
    n_components: int,
    centre: Float[np.ndarray, " covariates"],
    turn: Float[np.ndarray, "covariates covariates"],
    smoothing: ScalarLike = 0.0,
    accelerate: bool = True,
) -> Model:
    """Make a mixture of Bernoulli products whose weights depend on covariates.

    Parameters
    ----------
    n_components
        Number of classes, k.
    centre, turn
        Covariates (z - centre) @ turn have mean 0 and are uncorrelated, with variance 1, in the table to learn from.
    smoothing
        Pseudo-rows that each class sees beside the data, each with the column means of the data.  They concern the
        probabilities of bits alone.
    accelerate
        Secants (`core/secants.py`).  Without, EM goes step by step.
    """
    settings, n_covariates = mixture.Settings(smoothing, n_components), len(centre)
    return Model(
        name="Bernoulli mixture with covariates",
        init=Partial(_init, settings, Whitening(centre, turn)),
        prepare=_prepare,
        e_step=_e_step,
        update=Partial(_update, settings),
        objective=Partial(_objective, settings),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 2 * (n_columns + n_covariates) + 4 * n_components,
        stages=(Iterate("EM"),),
        start=_start if accelerate else None,
        left=secants.left if accelerate else None,
        on_host=True,
        rows_on_host="small",
    )
