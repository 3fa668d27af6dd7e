"""The most probable states of each row, their probabilities, and functions of rows that an estimator asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.module import Module
from latentbits.models.binary_sparse_coding.posterior import (
    Params,
    Shared,
    States,
    energies,
    expectations,
    state_table,
    terms,
)

__all__ = ["Probable", "log_evidence", "most_probable", "probable_states"]


class Probable(Module):
    """States in the order of their probability."""

    states: Float[Array, "rows best causes"]
    probabilities: Float[Array, "rows best"]


def probable_states(params: Params, shared: Shared, batch: Batch, states: States, n: int) -> Probable:
    """Find the n most probable states of K_n (4) of each row; with fewer states than that, all."""
    t = terms(params, shared, batch, states)
    energy = energies(states, t)
    lone = jnp.put_along_axis(t.linear, t.candidates, -jnp.inf, axis=0, inplace=False)
    everything = jnp.concatenate([energy, lone]).T
    n_states, n_causes = len(energy), len(t.linear)
    # candidates are in both parts, with -inf in the second, and are counted once
    n = min(n, n_states + n_causes - states.bits.shape[1])
    best, place = jax.lax.top_k(everything, n)
    bits = jnp.asarray(states.bits, t.base.dtype)[jnp.minimum(place, n_states - 1)]  # (rows, n, candidates)
    among = jax.vmap(lambda row, mine: jnp.zeros((n, n_causes), row.dtype).at[:, mine].set(row))(bits, t.candidates.T)
    alone = jax.nn.one_hot(place - n_states, n_causes, dtype=bits.dtype)  # zeros for the others
    total = jax.nn.logsumexp(everything, axis=1, keepdims=True)
    return Probable(jnp.where(place[..., None] < n_states, among, alone), jnp.exp(best - total))


# Compiled code is found again by the identity of its function, so these are made once for each size.


@cache
def most_probable(gamma: int, candidates: int, n_states: int) -> Callable[..., Any]:
    """Make the function of rows that gives means, the most probable states and their probabilities."""
    states = state_table(candidates, gamma)

    def function(params: Params, shared: Shared, batch: Batch) -> tuple[Array, ...]:
        best = probable_states(params, shared, batch, states, n_states)
        means = expectations(params, shared, batch, states).means.T
        return means, best.states.astype(jnp.uint8), best.probabilities

    return function


@cache
def log_evidence(gamma: int, candidates: int) -> Callable[..., Any]:
    """Make the function of rows that gives the log of the truncated evidence."""
    states = state_table(candidates, gamma)

    def function(params: Params, shared: Shared, batch: Batch) -> Float[Array, " rows"]:
        return expectations(params, shared, batch, states).log_evidence

    return function
