"""Answers from Gibbs chains, where states cannot be summed over: posterior means, rows given some units."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.gibbs import folded, gibbs, gibbs_means
from latentbits.models.noisy_or.network import Params, sample_layers

__all__ = ["drawn_states", "rows_last", "sample_given", "sampled_means", "states_on"]


def rows_last(batch: Batch) -> tuple[Array, Array, Array | None]:
    """Turn a batch to (columns, rows): inputs that are on, those that are off, and observed ones."""
    on = batch.values.T
    observed = None if batch.observed is None else batch.observed.T
    return on, (1 if observed is None else observed) - on, observed


def states_on(params: Params, n_rows: int) -> tuple[Float[Array, "_ rows"], ...]:
    """Turn all hidden units on; of very many causes of one child, as many as float32 has an exp(-u) for."""
    states = []
    for layer, weights in enumerate(params.weights):
        # exp(-u) and what is left of it are float32 numbers
        most = 60.0 / jnp.max(params.biases[layer] + jnp.sum(weights, axis=0))
        place = (
            jnp.arange(1, len(weights) + 1, dtype=weights.dtype) * 0.618034 % 1
        )  # by the golden section: evenly spread
        states.append(jnp.broadcast_to((place < most).astype(weights.dtype)[:, None], (len(weights), n_rows)))
    return tuple(states)


def drawn_states(params: Params, keys: Key[Array, " rows"]) -> tuple[Float[Array, "_ rows"], ...]:
    """Draw hidden states to begin with from the network, (units, rows)."""
    drawn = jax.vmap(lambda key: tuple(sample_layers(params, key)[1:]))(keys)
    return tuple(s.T for s in drawn)


def sampled_means(
    params: Params, batch: Batch
) -> tuple[tuple[Float[Array, "_ rows"], ...], Float[Array, "columns rows"]]:
    """Average hidden units and P(bit = 1 | S^1) over a few chains a row: posterior means."""
    on, off, _ = rows_last(batch)
    keys = batch.keys
    column = params.biases[0][:, None]

    def chain(number: Array) -> tuple[tuple[Array, ...], Array]:
        own = folded(keys, number)
        states = drawn_states(params, folded(own, 1))
        states = gibbs(params, on, off, states, folded(own, 2), 50).states

        def step(k: Array, at: Any) -> Any:
            states, means, bits = at
            chances, states = gibbs_means(params, on, off, states, folded(own, k + 3), 0, 1)
            means = tuple(m + c for m, c in zip(means, chances, strict=True))
            return states, means, bits - jnp.expm1(-(column + params.weights[0].T @ states[0]))

        zeros = tuple(jnp.zeros_like(s) for s in states)
        _, means, bits = jax.lax.fori_loop(0, tuning.MEAN_SWEEPS, step, (states, zeros, jnp.zeros_like(on)))
        return tuple(m / tuning.MEAN_SWEEPS for m in means), bits / tuning.MEAN_SWEEPS

    return jax.tree.map(lambda x: jnp.mean(x, 0), jax.lax.map(chain, jnp.arange(2)))


def sample_given(params: Params, batch: Batch) -> Float[Array, "rows columns"]:
    """Draw inputs given some units: rows of `batch` hold states of all units, inputs first, missing where free."""
    sizes = [len(b) for b in params.biases]
    edges = [sum(sizes[: k + 1]) for k in range(len(sizes) - 1)]
    values, known = jnp.split(batch.values.T, edges), jnp.split(batch.mask.T > 0, edges)
    keys = batch.keys
    drawn = drawn_states(params, folded(keys, 0))
    begin = tuple(jnp.where(k, v, s) for k, v, s in zip(known[1:], values[1:], drawn, strict=True))
    on = values[0]
    frozen = tuple(known[1:])
    # from a state of the network to one given the clamped units
    states = gibbs(params, on, known[0] - on, begin, folded(keys, 1), 200, frozen=frozen).states
    p = -jnp.expm1(-(params.biases[0][:, None] + params.weights[0].T @ states[0]))
    u = jax.vmap(lambda key: jax.random.uniform(key, (sizes[0],), p.dtype))(folded(keys, 2)).T
    return jnp.where(known[0], on, (u < p).astype(p.dtype)).T
