"""Rows of an item model: curves of items, their derivatives, and integrals over the trait."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.models.latent_trait import tuning
from latentbits.models.latent_trait.item_params import Params

__all__ = [
    "Integral",
    "Rows",
    "curves",
    "integrate",
    "nodes",
    "nodes_for",
    "rows_of",
    "terms_at",
    "traits",
    "unresolved",
]


def nodes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Space points of N(0, 1) equally, with the logarithms of their weights, which sum to 1."""
    x = np.linspace(-tuning.ITEM_REACH_SD, tuning.ITEM_REACH_SD, n)
    weight = np.exp(-0.5 * x**2)
    return x, np.log(weight / weight.sum())


def unresolved(steepest: Any, n_nodes: int) -> Any:
    """Compare the spacing of nodes with a slope in units of the trait's deviation: whether it is too wide."""
    return steepest * 2 * tuning.ITEM_REACH_SD / (n_nodes - 1) > tuning.RESOLVED_SLOPE_TIMES_SPACING


def nodes_for(params: Params) -> int:
    """Count the nodes that the steepest item asks for, whether a row has answered it or not; twice as close each time.

    NumPy, on the host: it chooses shapes.
    """
    slopes = np.abs(np.asarray(params.items)[..., 0]).max(1, initial=0.0)
    steepest = float(np.max(slopes * np.exp(np.asarray(params.log_sd))))
    n = tuning.ITEM_FEWEST_NODES
    while n < 7681 and unresolved(steepest, n):
        n = 2 * n - 1
    return n


class Rows(NamedTuple):
    """A batch in its parts, with the parameters of each row's group and the mean and deviation of its trait."""

    bits: Float[Array, "rows columns"]
    seen: Float[Array, "rows columns"] | None
    group: Int[Array, " rows"]
    covariates: Float[Array, "rows covariates"]
    items: Float[Array, "rows columns kinds"]
    mean: Float[Array, " rows"]
    sd: Float[Array, " rows"]


def rows_of(params: Params, batch: Batch) -> Rows:
    groups, d, _ = params.items.shape
    beside = batch.values[:, d:]
    group, covariates = _people(params, beside)
    items = params.items[group] if groups > 1 else jnp.broadcast_to(params.items, (len(group), *params.items.shape[1:]))
    seen = None if batch.observed is None else batch.observed[:, :d]
    return Rows(batch.values[:, :d], seen, group, covariates, items, *traits(params, beside))


def _people(params: Params, beside: Float[Array, "rows beside"]) -> tuple[Int[Array, " rows"], Array]:
    """Give the group of each row and its covariates, centred and scaled; they are the columns after the bits."""
    several = len(params.mean) > 1
    group = beside[:, 0].astype(int) if several else jnp.zeros(len(beside), int)
    return group, (beside[:, int(several) :] - params.centre) / params.scale


def traits(params: Params, beside: Float[Array, "rows beside"]) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Compute mean and standard deviation of each row's trait before it has answered, by the columns after the bits."""
    group, covariates = _people(params, beside)
    return params.mean[group] + covariates @ params.coefficients, jnp.exp(params.log_sd[group])


class Terms(NamedTuple):
    """Values and derivatives of rows' log P(t | theta) at points, by z = a theta + d and the logit of the asymptote."""

    value: Array  # log P(t | theta)
    # z, g: first derivatives
    z: Array
    g: Array | None
    # zz, zg, gg: second derivatives
    zz: Array
    zg: Array | None
    gg: Array | None
    fisher: tuple[Array, Array | None, Array | None]  # minus the expectations of these three over t


def curves(
    items: Float[Array, "... columns kinds"],
    guessed: Float[Array | np.ndarray, " columns"],
    z: Float[Array, "... columns"],
) -> tuple[Array, Array, Array | None, Array | None]:
    """Compute sigmoid(z), log P(t = 1), log of the asymptote and of 1 less it (None where there is none at all)."""
    if items.shape[-1] == 2:
        return jax.nn.sigmoid(z), jax.nn.log_sigmoid(z), None, None
    logit = items[..., 2]
    low = jnp.where(guessed > 0, jax.nn.log_sigmoid(logit), -jnp.inf)
    rest = jnp.where(guessed > 0, jax.nn.log_sigmoid(-logit), 0.0)
    return jax.nn.sigmoid(z), jnp.logaddexp(low, rest + jax.nn.log_sigmoid(z)), low, rest


def terms_at(params: Params, rows: Rows, theta: Float[Array, "rows points"]) -> Terms:
    """Compute all derivatives; with r = P(knows | right) = (1 - g) sigmoid(z) / P each is a product of shares."""
    items = rows.items[:, None]
    z = items[..., 0] * theta[..., None] + items[..., 1]
    right = rows.bits[:, None] > 0
    s, log_p, low, rest = curves(items, params.guessed, z)
    failing = jax.nn.log_sigmoid(-z)
    # value, z, g, zz, zg, gg and the Fisher information, where there is no guessing and where there is
    parts: tuple[Any, ...]
    if low is None or rest is None:
        value = jnp.where(right, log_p, failing)
        zz = -s * (1 - s)
        parts = value, rows.bits[:, None] - s, None, zz, None, None, (-zz, None, None)
    else:
        g = jnp.broadcast_to(jnp.exp(low), z.shape)
        r = jnp.exp(rest + jax.nn.log_sigmoid(z) - log_p)
        by_g = (1 - r) * (1 - g) * (1 - s)
        value = jnp.where(right, log_p, rest + failing)
        parts = (
            value,
            jnp.where(right, r * (1 - s), -s),
            jnp.where(right, by_g, -g),
            jnp.where(right, r * (1 - s) * ((1 - r) * (1 - s) - s), -s * (1 - s)),
            jnp.where(right, -r * (1 - s) * (g + by_g), 0.0),
            jnp.where(right, by_g * (1 - 2 * g - by_g), -g * (1 - g)),
            (r * s * (1 - s), by_g * s, by_g * g),
        )
    if rows.seen is not None:
        seen = rows.seen[:, None]
        parts = jax.tree.map(lambda x: x * seen, parts)
    return Terms(*parts)


class Integral(NamedTuple):
    """Integrals of rows: log p, posterior share of each point, the points, and the terms there."""

    log_likelihood: Float[Array, " rows"]
    share: Float[Array, "rows points"]
    theta: Float[Array, "rows points"]
    terms: Terms


def integrate(params: Params, rows: Rows, n_nodes: int) -> Integral:
    x, log_weight = (jnp.asarray(part, params.mean.dtype) for part in nodes(n_nodes))
    theta = rows.mean[:, None] + rows.sd[:, None] * x
    terms = terms_at(params, rows, theta)
    joint = terms.value.sum(-1) + log_weight
    total = jax.nn.logsumexp(joint, 1)
    return Integral(total, jnp.exp(joint - total[:, None]), theta, terms)
