"""The use of a fitted model: likelihoods, places of rows, means of columns, and draws."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Float, Key

from latentbits.core import nodes
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood, Model
from latentbits.core.module import Module
from latentbits.models.latent_trait import column_kinds, grid, quadrature, steep
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns, Params
from latentbits.models.latent_trait.structure import Count, Structure, floats_of_grid, with_settings

__all__ = ["Posterior", "Scored", "complete", "decode", "finer", "infer", "log_likelihood", "sample", "with_grid"]


class Posterior(Module):
    """Posterior of the latents of each row.

    Attributes
    ----------
    mean, covariance
        Moments of the exact posterior, by accurate quadrature (EAP and its error).
    mode, mode_covariance
        The most probable latents (MAP), and the inverse curvature there.
    """

    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    mode: Float[Array, "rows latents"]
    mode_covariance: Float[Array, "rows latents latents"]


class Scored(LogLikelihood):
    """log p(x) of each row, and the mean of its latents: one program gives both."""

    # mean of the exact posterior; None above `nodes.MOST_GRID` dimensions, where points are drawn for the likelihood
    # alone
    mean: Float[Array, "rows latents"] | None = None


def _answers(structure: Structure, params: Params, batch: Batch, filled: bool = False) -> steep.Answers:
    return steep.answers(
        structure.columns, params, column_kinds.rows_of(structure.columns, params, batch), batch, filled
    )


def _by_net(structure: Structure, params: Params, batch: Batch) -> quadrature.Integral:
    columns, q = structure.columns, structure.q
    rows = column_kinds.rows_of(columns, params, batch)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    net = nodes.quasi_monte_carlo(nodes.net_points(), q)
    return quadrature.integrate(columns, params, rows, nodes.for_net(at, batch.rows), net)


def log_likelihood(structure: Structure, params: Params, shared: Any, batch: Batch) -> Scored:
    if structure.on_grid:
        found = _answers(structure, params, batch)
        value, error, mean = found.log_likelihood, found.error, found.mean
    else:
        (value, error), mean = _importance(structure, Count(2**nodes.NET), params, shared, batch), None
    return Scored(value, error, jnp.zeros((), value.dtype), mean=mean)


def _importance(
    structure: Structure, n_points: Count, params: Params, shared: Any, batch: Batch
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    columns = structure.columns
    rows = column_kinds.rows_of(columns, params, batch)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    return nodes.importance(
        lambda points: column_kinds.density(columns, params, rows, points)[0], at, batch.keys, n_points.n
    )


def finer(q: int, columns: Columns, level: int) -> Any:
    """Make the program of log p(x) and its standard error above `nodes.MOST_GRID` dimensions, by `nodes.FINER_NETS`."""
    return with_settings(_importance, Structure(q, columns, False, True), Count(2 ** nodes.FINER_NETS[level]))


def infer(structure: Structure, params: Params, shared: Any, batch: Batch) -> Posterior:
    columns = structure.columns
    if structure.on_grid:
        _, _, mean, covariance, _ = _answers(structure, params, batch)
    else:
        mean, covariance = quadrature.covariance_of(_by_net(structure, params, batch))
    peak = quadrature.mode(columns, params, column_kinds.rows_of(columns, params, batch), mean)
    return Posterior(mean, covariance, peak.mean, peak.covariance)


def decode(structure: Structure, params: Params, latents: Float[Array, "rows latents"]) -> Array:
    return column_kinds.expected(structure.columns, params, latents)


def complete(structure: Structure, params: Params, shared: Any, batch: Batch) -> Float[Array, "rows columns"]:
    columns = structure.columns
    if structure.on_grid:
        return column_kinds.best_guess(columns, _answers(structure, params, batch, filled=True).expected)
    integral = _by_net(structure, params, batch)
    means = jnp.einsum("nk,nko->no", integral.share, column_kinds.expected(columns, params, integral.points))
    return column_kinds.best_guess(columns, means)


def with_grid(record: Model, nodes_of_all: grid.Grid) -> Model:
    """Let nodes that stand for all rows of a model of bits look at them (`grid.for_use`)."""
    return record._replace(
        log_likelihood=Partial(_log_likelihood_on_grid, nodes_of_all),
        infer=Partial(_infer_on_grid, nodes_of_all),
        complete=Partial(_complete_on_grid, nodes_of_all),
        row_floats=floats_of_grid,
    )


def _on_grid(
    nodes_of_all: grid.Grid, params: Params, batch: Batch, filled: bool = False
) -> tuple[grid.Integral, tuple[Any, ...]]:
    given = nodes_of_all, params.weights, params.bias, batch.values, batch.mask
    return grid.integrate(*given, filled), given


def _log_likelihood_on_grid(nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch) -> Scored:
    found, _ = _on_grid(nodes_of_all, params, batch)
    return Scored(found.log_likelihood, found.error, jnp.zeros((), found.error.dtype), mean=found.mean)


def _infer_on_grid(nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch) -> Posterior:
    found, given = _on_grid(nodes_of_all, params, batch)
    peak = quadrature.mode(ALL_BITS, params, column_kinds.rows_of(ALL_BITS, params, batch), found.mean)
    return Posterior(found.mean, grid.covariance(found, *given), peak.mean, peak.covariance)


def _complete_on_grid(
    nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch
) -> Float[Array, "rows columns"]:
    return _on_grid(nodes_of_all, params, batch, filled=True)[0].expected


def sample(structure: Structure, params: Params, shared: Any, keys: Key[Array, " rows"]) -> Array:
    def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
        latent, rest = jax.random.split(key)
        return column_kinds.draw(
            structure.columns, params, jax.random.normal(latent, (structure.q,), params.bias.dtype), rest
        )

    return jax.vmap(one)(keys)
