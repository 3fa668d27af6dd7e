"""Rows of a table as a machine sees them, and those of them that are held out of its learning."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt32

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.deterministic_sums import over_rows
from latentbits.models.combination_machine.machine import Machine, Units

__all__ = ["Bound", "fields", "held_below", "held_out_weight", "inputs_of", "is_held_out", "summed", "takes_ones"]

Bound = np.uint32 | UInt32[Array, ""]


def inputs_of(units: Units, batch: Batch) -> Float[Array, "rows inputs"]:
    """Return the rows as the machine sees them: bits become -1 and +1; what is missing, 0."""
    return 2 * batch.values - batch.mask if units.name == "binary" else batch.values


def takes_ones(units: Units) -> bool:
    """Check whether rows may come as lists of ones; as real numbers, bits have another base measure."""
    return units.name == "binary"


def fields(
    units: Units, machine: Machine, batch: Batch | SparseBatch
) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Compute b . x with the log of the base measure, and w_i . x + theta_i, for complete rows."""
    weights = jnp.concatenate([machine.weights, machine.input_bias[None]])
    if isinstance(batch, SparseBatch):
        found = 2 * batch.times(weights.T) - weights.sum(1)  # all inputs -1, but for the ones
        return found[:, -1], found[:, :-1] + machine.hidden_bias
    x = inputs_of(units, batch)
    found = x @ weights.T
    return found[:, -1] + jnp.sum(units.base(x), 1), found[:, :-1] + machine.hidden_bias


def summed(
    units: Units, batch: Batch | SparseBatch, left: Float[Array, "rows width"]
) -> Float[Array, "width more_inputs"]:
    """Compute ``left.T @ x``, with x bordered by a 1."""
    if isinstance(batch, SparseBatch):
        counts = left.sum(0)[:, None]
        return jnp.concatenate([2 * batch.summed(left) - counts, counts], 1)
    x = inputs_of(units, batch)
    return over_rows(left, jnp.concatenate([x, jnp.ones_like(x[:, :1])], 1))


def held_below(share: float) -> np.uint32:
    """Compute the bound for `is_held_out` that holds out this share of the rows."""
    return np.uint32(share * 2**32)


def is_held_out(rows: UInt32[Array, " rows"], below: Bound) -> Array:
    """Choose rows by their global number, always the same, spread evenly (multiples of the golden ratio).

    None of the first rows is among them, so that a table of a few rows is learned from whole.
    """
    return (rows + np.uint32(14)) * np.uint32(2654435769) < below


def held_out_weight(batch: Batch | SparseBatch, below: Bound) -> Float[Array, " rows"]:
    """Compute how much of each row's weight is held out.

    A row that counts n times is n rows, of which a share is held out.
    """
    once = batch.weight * is_held_out(batch.rows, below)
    copies = jnp.maximum(jnp.round(batch.weight), 1)
    uniform = (batch.rows + np.uint32(14)) * np.uint32(2654435769) / jnp.asarray(2**32, batch.weight.dtype)
    many = jnp.clip(jnp.ceil(copies * (below / jnp.asarray(2**32, batch.weight.dtype)) - uniform), 0, copies)
    return jnp.where(copies == 1, once, many * batch.weight / copies)
