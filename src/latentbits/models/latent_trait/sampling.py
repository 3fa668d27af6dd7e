"""Section 3 of the paper: EM by a fixed sample of the latents, which makes it a latent class model with tied classes.

    log p(t) ~ log (1 / L) sum_l prod_i P(t_i | x_l)          (3)

The M-step is a logistic regression for each bit, by iteratively re-weighted least squares.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import products
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import bits
from latentbits.models.latent_trait.column_kinds import Params

__all__ = ["Shared", "Stats", "e_step", "log_likelihoods", "prepare", "prior_sample", "regress"]


class Shared(Module):
    """log P(t_i = 1 | x_l) and log P(t_i = 0 | x_l)."""

    log_one: Float[Array, "samples columns"]
    log_zero: Float[Array, "samples columns"]


class Stats(Module):
    """Sums of the responsibilities P(x_l | t_n): alone, over the rows where a bit is set, and where it is seen."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]
    members: Float[Array, " samples"]
    ones: Float[Array, "samples columns"]
    observed: Float[Array, "samples columns"]


@cache
def prior_sample(n_samples: int, q: int, seed: int = 0) -> np.ndarray:
    """Draw L samples of the latents, (L, q), the same at every pass and for every fit with this seed."""
    return np.random.default_rng(seed).standard_normal((n_samples, q))


def prepare(params: Params, samples: np.ndarray) -> Shared:
    """Compute what does not depend on the rows: L x d logarithms."""
    a = jnp.asarray(samples, params.bias.dtype) @ params.weights.T + params.bias
    return Shared(jax.nn.log_sigmoid(a), jax.nn.log_sigmoid(-a))


def _responsibilities(shared: Shared, batch: Batch) -> tuple[Float[Array, "rows samples"], Float[Array, " rows"]]:
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    joint = batch.values @ shared.log_one.T + zeros @ shared.log_zero.T
    top = joint.max(1, keepdims=True)
    share = jnp.exp(joint - top)
    total = share.sum(1, keepdims=True)
    return share / total, (top + jnp.log(total))[:, 0] - np.log(shared.log_one.shape[0])


def log_likelihoods(shared: Shared, batch: Batch) -> Float[Array, " rows"]:
    """Compute log p(t) by eq. 3."""
    return _responsibilities(shared, batch)[1]


def e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    """Sum the responsibilities of the sample for each row."""
    share, value = _responsibilities(shared, batch)
    share = share * batch.weight[:, None]
    members = sum_over_rows(share)
    everywhere = members[:, None] * jnp.ones_like(params.bias)
    observed = everywhere if batch.observed is None else over_rows(share, batch.observed)
    ones = over_rows(share, batch.values)
    return Stats(batch.weight.sum(), sum_rows(batch.weight, value), members, ones, observed), None


def regress(
    params: Params,
    stats: Stats,
    samples: np.ndarray,
    precision: Float[Array, ""] | float,
    tied: bool,
    longest: Float[Array, ""],
) -> Params:
    """Regress every bit on the sample, logistically, by iteratively re-weighted least squares from where it stands."""
    extended = jnp.concatenate([jnp.asarray(samples), jnp.ones((len(samples), 1))], 1)
    second = products(extended)

    def body(_: Any, at: Params) -> Params:
        p = jax.nn.sigmoid(extended[:, :-1] @ at.weights.T + at.bias)
        here = bits.Stats(
            gradient=(stats.ones - stats.observed * p).T @ extended,
            curvature=(stats.observed * p * (1 - p)).T @ second,
            ones=stats.ones.sum(0),
            observed=stats.observed.sum(0),
        )
        w, b = bits.maximise(at.weights, at.bias, here, precision, tied, longest)
        return Params(w, b, at.log_variance, at.centre, at.scale)

    return jax.lax.fori_loop(0, 8, body, params)  # re-weighted least squares: each is a Newton step
