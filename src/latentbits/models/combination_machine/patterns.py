"""Sums over the patterns of the few missing bits of each row, all rows at once.

A row with its holes filled has the weight of 2.4, and hidden fields that differ from those of its observed bits by the
signed weights of the holes.  The signs are the same for all rows, so the fields of a block of patterns are one matrix
product: patterns by holes, times holes by rows and hidden units.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.core.states import all_states, state_block
from latentbits.models.combination_machine.machine import Machine, hidden_field
from latentbits.models.combination_machine.tuning import FLOATS_PER_PATTERN_BLOCK

__all__ = ["Conditional", "Filled", "by_inputs", "moments_by_inputs", "over_patterns"]


class Conditional(Module):
    """Expectations given the observed inputs."""

    # log_sum, error: log of the sum of exp(-E) over the missing inputs and all hidden states, log p(x_o) + log Z; its
    # standard error, 0 where exact
    log_sum: Float[Array, " rows"]
    error: Float[Array, " rows"]
    # hidden, inputs: E[h_i | x_o], and E[x_j | x_o], which is x_j itself where it was observed
    hidden: Float[Array, "rows hidden"]
    inputs: Float[Array, "rows inputs"]


class Filled(Module):
    """Sums over the patterns of each row; NaN for a row with more holes than were asked for."""

    log_sum: Float[Array, " rows"]  # log of the sum of exp(-E) over the patterns and all hidden states
    hidden: Float[Array, "rows hidden"]  # E[h_i | x_o]
    bits: Float[Array, "holes rows"]  # E[x_j | x_o] at the holes
    # E[h_i x_j | x_o] at the holes; of no hole if they are not asked for
    products: Float[Array, "some_holes rows hidden"]
    # place, is_hole: the column of each hole, and whether it is one: rows with fewer holes have columns to spare
    place: Int[Array, "rows holes"]
    is_hole: Bool[Array, "rows holes"]


class _Total(Module):
    """Running sums over patterns, all divided by exp(top)."""

    top: Float[Array, " rows"]
    mass: Float[Array, " rows"]
    hidden: Float[Array, "rows hidden"]
    bits: Float[Array, "holes rows"]
    products: Float[Array, "some_holes rows hidden"]


def by_inputs(
    machine: Machine, x: Float[Array, "rows inputs"], observed: Float[Array, "rows inputs"], most: int
) -> Conditional:
    """Sum over the patterns of the missing bits, exactly; NaN for rows that have more than `most`."""
    filled = over_patterns(machine, x, observed, most, with_products=False)
    rows = jnp.arange(x.shape[0])[:, None]
    bits = jnp.clip(filled.bits.T, -1, 1)
    inputs = x.at[rows, filled.place].add(jnp.where(filled.is_hole, bits, 0))
    return Conditional(filled.log_sum, jnp.zeros_like(filled.log_sum), jnp.clip(filled.hidden, 0, 1), inputs)


def moments_by_inputs(
    machine: Machine,
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"],
    most: int,
) -> tuple[Float[Array, " rows"], Machine]:
    """Sum over the patterns of the missing bits, exactly; no row may have more than `most`."""
    filled = over_patterns(machine, x, observed, most, with_products=True)
    hidden = weight[:, None] * filled.hidden
    counted = jnp.where(filled.is_hole, weight[:, None], 0).T
    products = (hidden.T @ x).T.at[filled.place.T].add(counted[:, :, None] * filled.products)
    inputs = (weight @ x).at[filled.place.T].add(counted * filled.bits)
    return filled.log_sum, Machine(products.T, jnp.sum(hidden, 0), inputs)


def over_patterns(
    machine: Machine,
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    most: int,
    with_products: bool,
) -> Filled:
    """Sum over the 2^most patterns of the first `most` holes of every row.

    `x`, `observed`: bits as -1 and +1, 0 where missing; 1 where they are observed.  `most`: the largest number of
    holes.  `with_products`: whether `products` are wanted.
    """
    m, d = machine.weights.shape
    most = min(most, d)
    low = min(most, max(FLOATS_PER_PATTERN_BLOCK // max(m, 1), 1).bit_length() - 1)  # holes whose patterns make a block
    place = jnp.argsort(observed, axis=1, stable=True)[:, :most]  # the missing ones first
    is_hole = jnp.take_along_axis(observed, place, axis=1) == 0
    weights = jnp.where(is_hole.T[:, :, None], machine.weights.T[place.T], 0)
    biases = jnp.where(is_hole, machine.input_bias[place], 0).T
    field, own = hidden_field(machine, x), x @ machine.input_bias
    signs = jnp.asarray(2.0 * all_states(low) - 1, x.dtype)

    def add(total: _Total, number: Array) -> tuple[_Total, None]:
        high = 2 * state_block(number, 1, most - low)[0].astype(x.dtype) - 1
        fields = jnp.tensordot(signs, weights[:low], 1) + (field + jnp.tensordot(high, weights[low:], 1))
        softplus, on = _softplus_and_sigmoid(fields)
        log_weight = jnp.sum(softplus, 2) + (signs @ biases[:low] + (own + high @ biases[low:]))
        top = jnp.maximum(total.top, jnp.max(log_weight, 0))
        kept = jnp.exp(total.top - top)
        share = jnp.exp(log_weight - top)
        on = share[:, :, None] * on
        mass, hidden, products = jnp.sum(share, 0), jnp.sum(on, 0), total.products
        bits = jnp.concatenate([signs.T @ share, high[:, None] * mass])
        if with_products:
            new = jnp.concatenate([jnp.tensordot(signs.T, on, 1), high[:, None, None] * hidden])
            products = kept[:, None] * products + new
        return _Total(
            top,
            kept * total.mass + mass,
            kept[:, None] * total.hidden + hidden,
            kept * total.bits + bits,
            products,
        ), None

    products = jnp.zeros_like(weights if with_products else weights[:0])
    nothing = _Total(
        jnp.full_like(own, -jnp.inf), jnp.zeros_like(own), jnp.zeros_like(field), jnp.zeros_like(biases), products
    )
    total, _ = jax.lax.scan(add, nothing, jnp.arange(2 ** (most - low), dtype=jnp.int32))

    n_holes = jnp.sum(observed == 0, 1)
    mass = jnp.where(n_holes <= most, total.mass, jnp.nan)
    spare = (most - n_holes) * np.log(2.0)  # columns to spare have no weights here, and count every pattern twice
    return Filled(
        total.top + jnp.log(mass) - spare.astype(x.dtype),
        total.hidden / mass[:, None],
        total.bits / mass,
        total.products / mass[:, None],
        place,
        is_hole,
    )


def _softplus_and_sigmoid(
    field: Float[Array, "*shape"],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Compute ``log(1 + exp f)`` and its derivative from one exponential."""
    small = jnp.exp(-jnp.abs(field))
    return jnp.maximum(field, 0) + jnp.log1p(small), jnp.where(field > 0, 1, small) / (1 + small)
