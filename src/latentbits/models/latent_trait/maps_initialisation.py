"""Where learning of several maps begins: groups of sampled rows by k-means, and in each a map as it begins alone."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import AnyKey, Array, categorical, namespace, repeat, split, uniform
from latentbits.core.model import Summary
from latentbits.models.latent_trait import initialisation
from latentbits.models.latent_trait.column_kinds import Columns
from latentbits.models.latent_trait.map_params import Params
from latentbits.models.latent_trait.structure import Count, Structure

__all__ = ["init_params"]


def init_params(structure: Structure, n_maps: Count, key: AnyKey, summary: Summary) -> Params:
    """Group the sampled rows by k-means, and begin in each group a map as it would alone."""
    columns, n, xp = structure.columns, n_maps.n, namespace(summary)
    for_groups, for_maps = split(key)
    group = _groups(columns, n, for_groups, summary)
    found = [
        initialisation.init_params(structure.q, columns, False, own, _within(columns, own, group == number, summary))
        for number, own in enumerate(split(for_maps, n))
    ]
    # maps share the units of continuous columns: those of all rows
    real = np.asarray(columns.continuous, int)
    variance = xp.where(summary.variance[real] > 0, summary.variance[real], 1.0)
    variance = xp.full_like(variance, variance.mean()) if columns.shared_noise else variance
    centre, scale = summary.mean[real], xp.sqrt(variance)
    first, last = columns.starts(len(found[0].bias))[:2]
    weights, biases, noise = [], [], []
    for one in found:
        longer = one.scale / scale
        units = xp.concatenate([np.ones(first), longer, np.ones(len(one.bias) - last)])
        weights.append(one.weights * units[:, None])
        biases.append(xp.concatenate([one.bias[:first], (one.centre - centre) / scale, one.bias[last:]]))
        noise.append(one.log_variance + 2 * xp.log(longer))
    # shares of the groups, none of them 0
    count = xp.stack([xp.sum(group == number) for number in range(n)]) + 1.0
    log_share = xp.log(count / count.sum())
    return Params(log_share, xp.stack(weights), xp.stack(biases), xp.stack(noise), centre, scale)


def _groups(columns: Columns, n_maps: int, key: AnyKey, summary: Summary) -> Int[Array, " sampled"]:
    """Group sampled rows by k-means, from rows that are far from each other (k-means++)."""
    xp, is_real = namespace(summary), np.isin(np.arange(len(summary.mean)), columns.continuous)
    units = xp.where(is_real, 1 / xp.sqrt(xp.maximum(summary.variance, 1e-12)), 1.0)
    table = xp.where(summary.sample_observed > 0, (summary.sample - summary.mean) * units, 0)

    def distances(centres: Float[Array, "groups columns"]) -> Float[Array, "sampled groups"]:
        return xp.sum(centres**2, 1) - 2 * table @ centres.T + xp.sum(table**2, 1, keepdims=True)

    # starts, each far from those before
    keys = split(key, n_maps)
    centres = table[(uniform(keys[0], (1,)) * len(table)).astype(int)]
    for own in keys[1:]:
        far = xp.maximum(distances(centres).min(1), 0) + 1e-12
        centres = xp.concatenate([centres, table[categorical(own, xp.log(far))][None]])

    def body(centres: Float[Array, "groups columns"]) -> Float[Array, "groups columns"]:
        chosen = (xp.argmin(distances(centres), 1)[:, None] == np.arange(n_maps)).astype(table.dtype)
        count = chosen.sum(0)[:, None]
        return xp.where(count > 0, chosen.T @ table / xp.maximum(count, 1), centres)

    return xp.argmin(distances(repeat(20, body, centres)), 1)


def _within(columns: Columns, key: AnyKey, member: Bool[Array, " sampled"], summary: Summary) -> Summary:
    """Summarise a group of rows: as many as were sampled, drawn from it with repetition."""
    xp = namespace(summary)
    there = summary.sample_observed * member[:, None].astype(summary.sample.dtype)
    count = there.sum(0)
    # as if one more row had been seen, with the means of all: a group may be small
    mean = ((summary.sample * there).sum(0) + summary.mean) / (count + 1)
    spread = ((summary.sample - mean) ** 2 * there).sum(0) + summary.variance
    variance = spread / (count + 1)
    if columns.binary is None or columns.binary:
        at = np.arange(len(mean)) if columns.binary is None else np.asarray(columns.binary, int)
        variance = xp.where(np.isin(np.arange(len(mean)), at), mean * (1 - mean), variance)
    # rows of the group, drawn to fill the sample
    n = len(member)
    drawn = categorical(key, xp.where(member, 0.0, -xp.inf), shape=(n,))
    drawn = xp.where(member.any(), drawn, xp.arange(n))
    share = (member.sum() + 1) / (n + 1)
    return Summary(
        summary.n_rows * share,
        mean,
        variance,
        summary.observed * share,
        summary.sample[drawn],
        summary.sample_observed[drawn],
    )
