"""The most probable states of each row, and their probabilities."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latentbits.core.batch import Batch
from latentbits.models.binary_sparse_coding.posterior import Params, Shared, States, energies, terms

__all__ = ["Probable", "probable_states"]


class Probable(eqx.Module):
    """States in the order of their probability."""

    states: Float[Array, "rows best causes"]
    probabilities: Float[Array, "rows best"]


def probable_states(params: Params, shared: Shared, batch: Batch, states: States, n: int) -> Probable:
    """The n most probable states of K_n (4) of each row; with fewer states than that, all."""
    t = terms(params, shared, batch, states)
    energy = energies(states, t)
    lone = jnp.put_along_axis(t.linear, t.candidates, -jnp.inf, axis=0, inplace=False)
    everything = jnp.concatenate([energy, lone]).T
    n_states, n_causes = len(energy), len(t.linear)
    # candidates are in both parts, with -inf in the second: there are so many states in all
    n = min(n, n_states + n_causes - states.bits.shape[1])
    best, place = jax.lax.top_k(everything, n)
    bits = jnp.asarray(states.bits, t.base.dtype)[jnp.minimum(place, n_states - 1)]  # (rows, n, candidates)
    among = jax.vmap(lambda row, mine: jnp.zeros((n, n_causes), row.dtype).at[:, mine].set(row))(bits, t.candidates.T)
    alone = jax.nn.one_hot(place - n_states, n_causes, dtype=bits.dtype)  # zeros for the others
    total = jax.nn.logsumexp(everything, axis=1, keepdims=True)
    return Probable(jnp.where(place[..., None] < n_states, among, alone), jnp.exp(best - total))
