"""log Z and its gradient from the largest terms of Z (Freund & Haussler 1994, section 3.1).

Z is a sum of exp(g(h)) over 2^m hidden states, g(h) = theta . h + sum_j log_sum(b_j + w(h)_j).  For real inputs without
biases g is half the squared distance of w(h) from a fixed point, and its largest values are the subsets of the weight
vectors whose sums lie furthest from there; the paper leaves open how to find them.  Here a search does, for either kind
of inputs:

- units are taken one after the other, on and off, and the best K states so far are kept with all later units off;
- then rounds of single flips: of all K states and their neighbours the best K are kept, until nothing changes.

So the K terms that are found have no larger neighbour outside.  They need not be the K largest: that is NP-hard.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Bool, Float, UInt32

from latentbits.core.arrays import Array
from latentbits.models.combination_machine.machine import Machine, Units, input_field
from latentbits.models.combination_machine.truncation import log_terms

__all__ = ["largest_moments", "largest_states"]

WORD = 32  # units in an integer, to tell states apart
NONE = -jnp.inf


def largest_moments(
    units: Units, machine: Machine, n_terms: int
) -> tuple[Float[Array, ""], Machine, Float[Array, "terms hidden"]]:
    """Sum the largest terms of Z that a search finds: the log, its gradient (3.5)-(3.9), and their states.

    The sum is never more than Z; the gradient is E[h_i x_j], E[h_i] and E[x_j] given that the state is one of them.
    """
    machine = Machine(machine.weights, machine.hidden_bias, machine.input_bias)
    h, g = largest_states(units, machine, n_terms)
    log_z = jax.nn.logsumexp(g)
    p = jnp.exp(g - log_z)
    x = units.mean(input_field(machine, h))
    return log_z, Machine(h.T @ (p[:, None] * x), p @ h, p @ x), h


def largest_states(
    units: Units, machine: Machine, n_terms: int
) -> tuple[Float[Array, "terms hidden"], Float[Array, " terms"]]:
    """Find states with large terms, the largest first, and the logs g of these; all states where there are no more."""
    machine = lax.stop_gradient(machine)
    m = machine.weights.shape[0]
    n = int(min(n_terms, 2**m)) if m < WORD else n_terms
    h, g = _one_by_one(units, machine, n)

    def grows(state: tuple[Array, Array, Array]) -> Array:
        return state[2]

    def again(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        h, g, _ = state
        ahead, more = _with_neighbours(units, machine, h, g)
        return ahead, more, jnp.any(more > g)

    h, *_ = lax.while_loop(grows, again, (h, g, jnp.asarray(n < 2**m)))
    return h, log_terms(units, machine, h)  # exactly the g of these states, without what flips have rounded


def _one_by_one(units: Units, machine: Machine, n: int) -> tuple[Float[Array, "n hidden"], Float[Array, " n"]]:
    """Find the best n states by a beam: one unit after the other is added, or not, to each."""
    m = machine.weights.shape[0]
    h = jnp.zeros((n, m), machine.weights.dtype)
    g = jnp.full(n, NONE, h.dtype).at[0].set(log_terms(units, machine, h[0]))

    def add(i: Array, beam: tuple[Array, Array]) -> tuple[Array, Array]:
        h, g = beam
        on = h.at[:, i].set(1)
        both = jnp.concatenate([g, jnp.where(g > NONE, log_terms(units, machine, on), NONE)])
        best, place = lax.top_k(both, n)
        return jnp.concatenate([h, on])[place], best

    return lax.fori_loop(0, m, add, (h, g))


def _with_neighbours(
    units: Units, machine: Machine, h: Float[Array, "n hidden"], g: Float[Array, " n"]
) -> tuple[Float[Array, "n hidden"], Float[Array, " n"]]:
    """Find the best n of n states and of all that differ from one of them in one unit; none twice."""
    n, m = h.shape
    field = input_field(machine, h)

    def flipped(i: Array) -> Array:
        sign = 1 - 2 * h[:, i]
        log_sum = jnp.sum(units.log_sum(field + sign[:, None] * machine.weights[i]), 1)
        return h @ machine.hidden_bias + sign * machine.hidden_bias[i] + log_sum

    near = lax.map(flipped, jnp.arange(m))  # (m, n)
    values = jnp.concatenate([g[None], near]).reshape(-1)
    words = jnp.concatenate([_words(h)[None], _words(h)[None] ^ _flips(m)[:, None]]).reshape(len(values), -1)
    values = jnp.where(_seen_before(words), NONE, values)
    best, place = lax.top_k(values, n)
    flip, row = place // n - 1, place % n
    changed = (jnp.arange(m) == flip[:, None]).astype(h.dtype)
    return jnp.abs(h[row] - changed), best


def _words(h: Float[Array, "n hidden"]) -> UInt32[Array, "n words"]:
    """Write states as integers, 32 units in each."""
    m = h.shape[1]
    bits = jnp.pad(h, [(0, 0), (0, -m % WORD)]).astype(jnp.uint32).reshape(len(h), -1, WORD)
    return jnp.sum(bits << jnp.arange(WORD, dtype=jnp.uint32), 2, dtype=jnp.uint32)


def _flips(m: int) -> UInt32[np.ndarray, "hidden words"]:
    """Make the integers that flip one unit of a state, for each unit."""
    found = np.zeros((m, -(-m // WORD)), np.uint32)
    found[np.arange(m), np.arange(m) // WORD] = np.uint32(1) << (np.arange(m, dtype=np.uint32) % WORD)
    return found


def _seen_before(words: UInt32[Array, "states words"]) -> Bool[Array, " states"]:
    """Check whether a state is also at an earlier place."""
    places = jnp.arange(len(words))
    columns = lax.sort((*words.T, places), num_keys=words.shape[1])  # stable: the earliest is the first of its kind
    ordered = jnp.stack(columns[:-1], 1)
    same = jnp.concatenate([jnp.zeros(1, bool), jnp.all(ordered[1:] == ordered[:-1], 1)])
    return jnp.zeros(len(words), bool).at[columns[-1]].set(same)
