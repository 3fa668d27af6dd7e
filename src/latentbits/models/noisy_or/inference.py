"""Answers of a fitted network about rows: how probable they are, their causes, and their missing bits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood
from latentbits.core.module import Module
from latentbits.models.noisy_or import enumeration, tuning
from latentbits.models.noisy_or.annealing import annealed_evidence
from latentbits.models.noisy_or.map_states import probable_states
from latentbits.models.noisy_or.network import Params, sample_layers
from latentbits.models.noisy_or.sampling import rows_last, sampled_means
from latentbits.models.noisy_or.settings import Settings, is_exact
from latentbits.models.noisy_or.state import Shared

__all__ = ["Posterior", "complete", "decode", "infer", "log_likelihood", "sample"]


class Posterior(Module):
    """P(S_i = 1 | x) of all hidden units, the lowest layer first; and their most probable states together."""

    mean: Float[Array, "rows units"]
    mode: Float[Array, "rows units"]
    log_joint: Float[Array, " rows"]


def log_likelihood(net: Settings, params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
    """Compute log p(x) of each row: a sum over states, or by annealing with an error."""
    if is_exact(net.layer_sizes, tuning.EXACT_LIKELIHOOD_MOST_PAIRS):
        # of a large network p(S) takes long, and only this needs it
        log_prior = shared.log_prior or enumeration.log_prior(params)
        return LogLikelihood.exact(enumeration.log_evidence(params, log_prior, batch.values, batch.observed))
    on, off, _ = rows_last(batch)
    found = annealed_evidence(params, on, off, batch.keys, net.n_chains, net.n_steps)
    return LogLikelihood(found.value, found.error, jnp.zeros((), found.value.dtype))


def infer(net: Settings, params: Params, shared: Shared, batch: Batch) -> Posterior:
    """Infer the hidden units given each row."""
    if net.exact_means:
        means = enumeration.posterior_means(params, shared.log_prior, batch.values, batch.observed)
        mean = jnp.concatenate(means, axis=1)
    else:
        mean = jnp.concatenate(sampled_means(params, batch)[0]).T
    on, off, _ = rows_last(batch)
    mode, log_joint = probable_states(params, on, off, batch.keys)
    return Posterior(mean, mode, log_joint)


def complete(net: Settings, params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    """Compute P(bit = 1) given what was observed of the row."""
    if net.exact_means:
        return enumeration.completion(params, shared.log_prior, batch.values, batch.observed)
    return sampled_means(params, batch)[1].T


def decode(params: Params, latents: Float[Array, "rows units"]) -> Float[Array, "rows columns"]:
    """Decode, as E[exp(-u)] is a product over independent causes: P(bit = 1) = 1 - exp(-b) prod_i (1 - m_i f_ij)."""
    m, f = latents[:, : len(params.weights[0])], -jnp.expm1(-params.weights[0])

    def cause(quiet: Array, of: tuple[Array, Array]) -> tuple[Array, None]:
        return quiet * (1 - of[0][:, None] * of[1]), None

    start = jnp.broadcast_to(jnp.exp(-params.biases[0]), (len(m), f.shape[1])).astype(m.dtype)
    return 1 - jax.lax.scan(cause, start, (m.T, f))[0]


def sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    """Draw rows, from the top layer down."""
    return jax.vmap(lambda key: sample_layers(params, key)[0])(keys)
