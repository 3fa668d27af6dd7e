"""Rows drawn from a combination machine without error, where its states can be counted.

The machine is a mixture of 2^m products (section 2.3), so a row is drawn by drawing a hidden state, then the inputs
given it.  States are numbered by a high and a low half: the half of a state is drawn from 2^(m/2) sums, then the other
given it, so that nothing of size 2^m is searched for each row.  A binary machine with fewer inputs than hidden units
draws the state of its inputs in the same way.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, UInt8

from latentbits.core.arrays import Array
from latentbits.core.states import all_states
from latentbits.models.combination_machine.machine import Machine, Units, input_field
from latentbits.models.combination_machine.partition import n_enumerated

__all__ = ["among", "ancestral"]


def ancestral(units: Units, machine: Machine, keys: Key[Array, " rows"]) -> Float[Array, "rows inputs"]:
    """Draw independent rows, one per key, without error: all states of the smaller side are weighed."""
    m, d = machine.weights.shape
    if n_enumerated(units, m, d) < m:
        bits = _draw_states(keys, _input_table(machine), d)
        return 2 * bits.astype(machine.weights.dtype) - 1
    hidden = _draw_states(keys, _hidden_table(units, machine), m).astype(machine.weights.dtype)
    inner = jax.vmap(lambda key: jax.random.fold_in(key, 2))(keys)
    return jax.vmap(units.draw)(inner, input_field(machine, hidden))


def among(
    units: Units, machine: Machine, keys: Key[Array, " rows"], states: UInt8[np.ndarray, "states hidden"]
) -> Float[Array, "rows inputs"]:
    """Draw rows of a machine that has these hidden states only."""
    h = jnp.asarray(states, machine.weights.dtype)
    weight = h @ machine.hidden_bias + jnp.sum(units.log_sum(input_field(machine, h)), 1)

    def draw(key: Key[Array, ""]) -> Float[Array, " inputs"]:
        state_key, input_key = jax.random.split(key)
        return units.draw(input_key, input_field(machine, h[jax.random.categorical(state_key, weight)]))

    return jax.vmap(draw)(keys)


def _halves(n: int, dtype: jnp.dtype) -> tuple[Float[Array, "high half"], Float[Array, "low rest"]]:
    return jnp.asarray(all_states(n - n // 2), dtype), jnp.asarray(all_states(n // 2), dtype)


def _hidden_table(units: Units, machine: Machine) -> Float[Array, "high low"]:
    """Tabulate log P(h) but for log Z (3.4, 3.7), by the high and the low half of the units."""
    high, low = _halves(machine.weights.shape[0], machine.weights.dtype)
    k = high.shape[1]
    above = high @ machine.weights[:k] + machine.input_bias
    below = low @ machine.weights[k:]
    sums = jax.lax.map(lambda a: jnp.sum(units.log_sum(a + below), 1), above)
    return sums + (high @ machine.hidden_bias[:k])[:, None] + low @ machine.hidden_bias[k:]


def _input_table(machine: Machine) -> Float[Array, "high low"]:
    """Tabulate log P(x) but for log Z (2.4), by the first and the last half of the inputs."""
    high, low = (2 * half - 1 for half in _halves(machine.weights.shape[1], machine.weights.dtype))
    k = high.shape[1]
    above = high @ machine.weights[:, :k].T + machine.hidden_bias
    below = low @ machine.weights[:, k:].T
    sums = jax.lax.map(lambda a: jnp.sum(jax.nn.softplus(a + below), 1), above)
    return sums + (high @ machine.input_bias[:k])[:, None] + low @ machine.input_bias[k:]


def _draw_states(keys: Key[Array, " rows"], table: Float[Array, "high low"], n: int) -> Float[Array, "rows units"]:
    """Draw a state for each key: its high half, then its low half given that."""
    tops = jax.nn.logsumexp(table, axis=1)
    high, low = _halves(n, table.dtype)

    def draw(key: Key[Array, ""]) -> Float[Array, " units"]:
        top = jax.random.categorical(jax.random.fold_in(key, 0), tops)
        rest = jax.random.categorical(jax.random.fold_in(key, 1), table[top])
        return jnp.concatenate([high[top], low[rest]])

    return jax.vmap(draw)(keys)
