"""The most probable hidden states of a row, by Gibbs chains that get colder."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.gibbs import folded, sweep
from latentbits.models.noisy_or.network import Params, log_joint
from latentbits.models.noisy_or.sampling import states_on

__all__ = ["probable_states"]


def probable_states(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    keys: Key[Array, " rows"],
) -> tuple[Float[Array, "rows units"], Float[Array, " rows"]]:
    """Find the best state that several chains of a row meet, all layers side by side; and its log joint probability.

    Chains start with all units on, and their inverse temperature goes from 1 to 8, where a unit rarely changes to a
    worse state.  This mostly finds the best state, but nothing guarantees it.
    """
    x, observed = on.T, (on + off).T

    def chain(best: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], None]:
        own = folded(keys, number)

        def step(at: tuple[tuple[Array, ...], tuple[Array, Array]], k: Array) -> tuple[Any, None]:
            states, best = at
            coldness = 8.0 ** (k / (tuning.MODE_SWEEPS - 1))  # coldness rises from 1
            states, _, _ = sweep(params, on, off, states, folded(own, k), coldness=coldness)
            value = log_joint(params, x, observed, [s.T for s in states])
            better = value > best[1]
            kept = jnp.where(better, jnp.concatenate(states), best[0])
            return (states, (kept, jnp.where(better, value, best[1]))), None

        (_, best), _ = jax.lax.scan(step, (all_on, best), jnp.arange(tuning.MODE_SWEEPS))
        return best, None

    all_on = states_on(params, on.shape[1])
    nothing = jnp.zeros((sum(map(len, all_on)), on.shape[1]), on.dtype), jnp.full(on.shape[1], -jnp.inf, on.dtype)
    (states, value), _ = jax.lax.scan(chain, nothing, jnp.arange(8))
    return states.T, value
