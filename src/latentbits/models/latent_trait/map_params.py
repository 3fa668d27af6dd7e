"""Maps, one by one and together: their parameters, their posteriors, and the share of each in a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from latentbits.core.arrays import Array, each, on_device
from latentbits.core.batch import Batch
from latentbits.core.module import Module
from latentbits.models.latent_trait import column_kinds
from latentbits.models.latent_trait.column_kinds import Columns, Rows

__all__ = ["Params", "each_map", "one_map", "responsibilities", "rows_of", "turned", "unchecked"]


class Params(Module):
    """Parameters as `kinds.Params`, with a map in front; and the logs of the maps' shares of the rows."""

    log_share: Float[Array, " maps"]
    weights: Float[Array, "maps outputs latents"]
    bias: Float[Array, "maps outputs"]
    log_variance: Float[Array, "maps reals"]
    centre: Float[Array, " reals"]
    scale: Float[Array, " reals"]


def one_map(params: Any, number: Any) -> column_kinds.Params:
    """Take the parameters of one map."""
    own = (params.weights[number], params.bias[number], params.log_variance[number])
    return unchecked(column_kinds.Params, *own, params.centre, params.scale)


def unchecked(record: type, *values: Any) -> Any:
    """Make a record of any arrays: of NumPy, or with a map in front."""
    made: Any = object.__new__(record)
    for field, value in zip(dataclasses.fields(record), values, strict=True):
        object.__setattr__(made, field.name, value)
    return made


def each_map(function: Callable[..., Any], params: Params, *more: Any) -> Any:
    """Apply a function to each map, and to what each has in `more`; answers have a map in front.

    One after the other, so that what is compiled is one map, and sums over rows are those of one map, to the bit.
    """

    def one(weights: Array, bias: Array, log_variance: Array, *rest: Any) -> Any:
        return function(column_kinds.Params(weights, bias, log_variance, params.centre, params.scale), *rest)

    given = params.weights, params.bias, params.log_variance, *more
    return jax.lax.map(lambda own: one(*own), given) if on_device(given) else each(one, *given)


def rows_of(columns: Columns, params: Params, batch: Batch) -> Rows:
    return column_kinds.rows_of(columns, one_map(params, 0), batch)


def turned(posteriors: Any) -> Any:
    """Swap maps in front of rows and rows in front of maps: a state of rows begins with these."""
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), posteriors)


def responsibilities(
    log_share: Float[Array, " maps"], of_maps: Float[Array, "maps rows"]
) -> tuple[Float[Array, "maps rows"], Float[Array, " rows"]]:
    """Compute P(map | row), and log p(row)."""
    joint = log_share[:, None] + of_maps
    top = jnp.max(joint, 0)
    scaled = jnp.exp(joint - top)
    total = jnp.sum(scaled, 0)
    return scaled / total, top + jnp.log(total)
