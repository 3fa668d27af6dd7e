"""The use of several fitted maps: likelihoods, the map and place of each row, means of columns, and draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood, Model
from latentbits.core.module import Module
from latentbits.models.latent_trait import column_kinds, grid, quadrature, steep
from latentbits.models.latent_trait.column_kinds import ALL_BITS
from latentbits.models.latent_trait.map_params import Params, each_map, one_map, responsibilities, rows_of
from latentbits.models.latent_trait.structure import Structure, floats_of_grid

__all__ = ["Posterior", "complete", "decode", "infer", "log_likelihood", "sample", "with_grids"]


class Posterior(Module):
    """Which map each row is on, and where on it.

    Attributes
    ----------
    mean, covariance, mode, mode_covariance
        On the row's most probable map, as of a single one.
    map
        Its number, from 0.
    responsibilities
        P(map | row).
    means
        Posterior means on all maps.
    """

    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    mode: Float[Array, "rows latents"]
    mode_covariance: Float[Array, "rows latents latents"]
    map: Int[Array, " rows"]
    responsibilities: Float[Array, "rows maps"]
    means: Float[Array, "rows maps latents"]


def _answers(structure: Structure, params: Params, batch: Batch, filled: bool = False) -> steep.Answers:
    """Answer for the rows by each map, each answer with a map in front."""
    columns, rows = structure.columns, rows_of(structure.columns, params, batch)
    return each_map(lambda one: steep.answers(columns, one, rows, batch, filled), params)


def log_likelihood(structure: Structure, params: Params, shared: Any, batch: Batch) -> LogLikelihood:
    of_maps = _answers(structure, params, batch)
    share, value = responsibilities(params.log_share, of_maps.log_likelihood)
    return LogLikelihood(value, jnp.sum(share * of_maps.error, 0), jnp.zeros((), value.dtype))  # may have one sign


def infer(structure: Structure, params: Params, shared: Any, batch: Batch) -> Posterior:
    columns, rows = structure.columns, rows_of(structure.columns, params, batch)
    of_maps = _answers(structure, params, batch)

    def peak(one: column_kinds.Params, mean: Float[Array, "rows latents"]) -> tuple[Array, Array]:
        found = quadrature.mode(columns, one, rows, mean)
        return found.mean, found.covariance

    share, _ = responsibilities(params.log_share, of_maps.log_likelihood)
    return _of_best(share, [of_maps.mean, of_maps.covariance, *each_map(peak, params, of_maps.mean)])


def _of_best(share: Float[Array, "maps rows"], places: list[Array]) -> Posterior:
    """Give the places of rows on the maps that they most probably are on: means, modes and their covariances."""
    best = jnp.argmax(share, 0)
    mean, covariance, mode, around = (place[best, jnp.arange(len(best))] for place in places)
    return Posterior(mean, covariance, mode, around, best, share.T, jnp.swapaxes(places[0], 0, 1))


def decode(structure: Structure, params: Params, latents: Float[Array, "rows numbered"]) -> Array:
    """Compute means of the columns at places of maps; the first entry of `latents` is the number of the map."""

    def one(given: Float[Array, " numbered"]) -> Float[Array, " outputs"]:
        return column_kinds.expected(structure.columns, one_map(params, given[0].astype(int)), given[1:])

    return jax.vmap(one)(latents)


def complete(structure: Structure, params: Params, shared: Any, batch: Batch) -> Float[Array, "rows columns"]:
    of_maps = _answers(structure, params, batch, filled=True)
    share, _ = responsibilities(params.log_share, of_maps.log_likelihood)
    return column_kinds.best_guess(structure.columns, jnp.einsum("mn,mno->no", share, of_maps.expected))


def with_grids(record: Model, grids: tuple[grid.Grid, ...]) -> Model:
    """Let nodes that stand for all rows of bits look at them, a grid for each map."""
    return record._replace(
        log_likelihood=Partial(_log_likelihood_on_grids, grids),
        infer=Partial(_infer_on_grids, grids),
        complete=Partial(_complete_on_grids, grids),
        row_floats=floats_of_grid,
    )


def _on_grids(
    grids: tuple[grid.Grid, ...], params: Params, batch: Batch, filled: bool = False
) -> tuple[list[Any], Array, Array]:
    """Integrate by each map; give the share of each in the rows, and log p of these."""
    given = [(g, w, b, batch.values, batch.mask) for g, w, b in zip(grids, params.weights, params.bias)]
    found = [grid.integrate(*of_map, filled) for of_map in given]
    share, value = responsibilities(params.log_share, jnp.stack([one.log_likelihood for one in found]))
    return list(zip(given, found)), share, value


def _log_likelihood_on_grids(grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch) -> LogLikelihood:
    of_maps, share, value = _on_grids(grids, params, batch)
    error = jnp.stack([found.error for _, found in of_maps])
    return LogLikelihood(value, jnp.sum(share * error, 0), jnp.zeros((), value.dtype))


def _infer_on_grids(grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch) -> Posterior:
    of_maps, share, _ = _on_grids(grids, params, batch)
    rows = rows_of(ALL_BITS, params, batch)
    parts = []
    for number, (given, found) in enumerate(of_maps):
        peak = quadrature.mode(ALL_BITS, one_map(params, number), rows, found.mean)
        parts.append((found.mean, grid.covariance(found, *given), peak.mean, peak.covariance))
    return _of_best(share, [jnp.stack(part) for part in zip(*parts)])


def _complete_on_grids(
    grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch
) -> Float[Array, "rows columns"]:
    of_maps, share, _ = _on_grids(grids, params, batch, filled=True)
    return jnp.einsum("mn,mnd->nd", share, jnp.stack([found.expected for _, found in of_maps]))


def sample(structure: Structure, params: Params, shared: Any, keys: Key[Array, " rows"]) -> Array:
    def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, latent, rest = jax.random.split(key, 3)
        own = one_map(params, jax.random.categorical(which, params.log_share))
        return column_kinds.draw(
            structure.columns, own, jax.random.normal(latent, (structure.q,), params.bias.dtype), rest
        )

    return jax.vmap(one)(keys)
