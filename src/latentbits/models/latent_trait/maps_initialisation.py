"""Where learning of several maps begins: groups of sampled rows by k-means, and in each a map as it begins alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.model import Summary
from latentbits.models.latent_trait import initialisation, tuning
from latentbits.models.latent_trait.column_kinds import Columns
from latentbits.models.latent_trait.map_params import Params
from latentbits.models.latent_trait.structure import Count, Structure

__all__ = ["init_params"]


def init_params(structure: Structure, n_maps: Count, key: Key[Array, ""], summary: Summary) -> Params:
    """Group the sampled rows by k-means, and begin in each group a map as it would alone."""
    columns, n = structure.columns, n_maps.n
    for_groups, for_maps = jax.random.split(key)
    group = _groups(columns, n, for_groups, summary)
    found = [
        initialisation.init_params(structure.q, columns, False, own, _within(columns, own, group == number, summary))
        for number, own in enumerate(jax.random.split(for_maps, n))
    ]
    # maps share the units of continuous columns: those of all rows
    real = np.asarray(columns.continuous, int)
    variance = jnp.where(summary.variance[real] > 0, summary.variance[real], 1.0)
    variance = jnp.full_like(variance, variance.mean()) if columns.shared_noise else variance
    centre, scale = summary.mean[real], jnp.sqrt(variance)
    first, last = columns.starts(len(found[0].bias))[:2]
    weights, biases, noise = [], [], []
    for one in found:
        longer = one.scale / scale
        weights.append(one.weights.at[first:last].multiply(longer[:, None]))
        biases.append(one.bias.at[first:last].set((one.centre - centre) / scale))
        noise.append(one.log_variance + 2 * jnp.log(longer))
    # shares of the groups, none of them 0
    count = jnp.stack([jnp.sum(group == number) for number in range(n)]) + 1.0
    log_share = jnp.log(count / count.sum())
    return Params(log_share, jnp.stack(weights), jnp.stack(biases), jnp.stack(noise), centre, scale)


def _groups(columns: Columns, n_maps: int, key: Key[Array, ""], summary: Summary) -> Int[Array, " sampled"]:
    """Group sampled rows by k-means, from rows that are far from each other (k-means++)."""
    units = jnp.ones_like(summary.mean)
    real = np.asarray(columns.continuous, int)
    units = units.at[real].set(1 / jnp.sqrt(jnp.maximum(summary.variance[real], 1e-12)))
    table = jnp.where(summary.sample_observed > 0, (summary.sample - summary.mean) * units, 0)

    def distances(centres: Float[Array, "groups columns"]) -> Float[Array, "sampled groups"]:
        return jnp.sum(centres**2, 1) - 2 * table @ centres.T + jnp.sum(table**2, 1, keepdims=True)

    # starts, each far from those before
    keys = jax.random.split(key, n_maps)
    centres = table[jax.random.randint(keys[0], (1,), 0, len(table))]
    for own in keys[1:]:
        far = jnp.maximum(distances(centres).min(1), 0) + 1e-12
        centres = jnp.concatenate([centres, table[jax.random.categorical(own, jnp.log(far))][None]])

    def body(_: Any, centres: Float[Array, "groups columns"]) -> Float[Array, "groups columns"]:
        chosen = jax.nn.one_hot(jnp.argmin(distances(centres), 1), n_maps, dtype=table.dtype)
        count = chosen.sum(0)[:, None]
        return jnp.where(count > 0, chosen.T @ table / jnp.maximum(count, 1), centres)

    return jnp.argmin(distances(jax.lax.fori_loop(0, tuning.KMEANS_ROUNDS, body, centres)), 1)


def _within(columns: Columns, key: Key[Array, ""], member: Bool[Array, " sampled"], summary: Summary) -> Summary:
    """Summarise a group of rows: as many as were sampled, drawn from it with repetition."""
    there = summary.sample_observed * member[:, None].astype(summary.sample.dtype)
    count = there.sum(0)
    # as if one more row had been seen, with the means of all: a group may be small
    mean = ((summary.sample * there).sum(0) + summary.mean) / (count + 1)
    spread = (jnp.square(summary.sample - mean) * there).sum(0) + summary.variance
    variance = spread / (count + 1)
    if columns.binary is None or columns.binary:
        at = np.arange(len(mean)) if columns.binary is None else np.asarray(columns.binary, int)
        variance = variance.at[at].set((mean * (1 - mean))[at])
    # rows of the group, drawn to fill the sample
    n = len(member)
    drawn = jax.random.categorical(key, jnp.where(member, 0.0, -jnp.inf), shape=(n,))
    drawn = jnp.where(member.any(), drawn, jnp.arange(n))
    share = (member.sum() + 1) / (n + 1)
    return Summary(
        summary.n_rows * share,
        mean,
        variance,
        summary.observed * share,
        summary.sample[drawn],
        summary.sample_observed[drawn],
    )
