"""Gibbs sampling of the hidden layers, all rows at once and unit after unit (section 3 of the paper).

The log-odds of S_i = 1 given all other units are, by (5) to (7),

    log h(u_i; 1) - log h(u_i; 0)  +  sum_{j in ch(i)} log h(u_j + w_ij; S_j) - log h(u_j; S_j),     u_j without i,

feedback from above and evidence from below.  A child that is off adds -w_ij, which makes a matrix product for all units of
a layer at once.  A child that is on adds log (1 - Q_j q_ij) / (1 - Q_j) with Q = exp(-u) and q = exp(-w).  So Q is what is
kept, for children that are on alone; a unit that turns on or off multiplies it by q or 1 / q, and one logarithm is taken
of a product of several ratios.  (6) gives P(change) = 1 / (1 + exp(-Delta x_i)), which is the same: P(S_i = 1) is the
logistic function of the log-odds.

Arrays are (units, rows) here: rows are next to each other in memory, and sums over children add whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from latentbits.models.noisy_or.network import Params

__all__ = ["Chains", "Clamp", "gibbs", "start_states", "sweep"]

FACTORS = 8  # ratios whose product is in the range of float32, each being at most 1 / (1 - exp(-LEAST_BIAS))


class Chains(eqx.Module):
    """Where the chains stand.

    Attributes
    ----------
    states
        Of the hidden layers, bottom first, each (units, rows).
    flip
        The largest probability of a change that a row's last sweep met.
    sweeps
        How many sweeps each row has made.
    """

    states: tuple[Float[Array, "_ rows"], ...]
    flip: Float[Array, " rows"]
    sweeps: Int[Array, " rows"]


def start_states(keys: Key[Array, " rows"], sizes: Sequence[int], on: float, dtype: jnp.dtype) -> tuple[Array, ...]:
    """Hidden states to begin with: each unit on with the same probability."""
    u = jax.vmap(lambda key: jax.random.uniform(key, (sum(sizes),), dtype))(keys).T
    drawn = (u < on).astype(dtype)
    edges = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    return tuple(drawn[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True))


def _grouped(children: Float[Array, "children rows"]) -> Float[Array, "groups factors rows"]:
    """Children in groups of `FACTORS`, filled up with zeros, which are children that count nothing."""
    spare = -children.shape[0] % FACTORS
    padded = jnp.concatenate([children, jnp.zeros((spare, *children.shape[1:]), children.dtype)])
    return padded.reshape(-1, FACTORS, *children.shape[1:])


def _sweep_layer(
    weights: Float[Array, "units children"],
    off_above: Float[Array, "units rows"],
    inputs: Float[Array, "children rows"],
    on: Float[Array, "children rows"],
    off: Float[Array, "children rows"],
    state: Float[Array, "units rows"],
    uniform: Float[Array, "units rows"],
    evidence: Float[Array, ""],
    coldness: Float[Array, ""],
    frozen: Bool[Array, "units rows"],
) -> tuple[Float[Array, "units rows"], Float[Array, " rows"]]:
    """One unit of a layer after the other.

    Parameters
    ----------
    off_above
        u of these units, from above.
    inputs, on, off
        u of the children with the present states; 1 where a child is on, and where it is off.
    evidence
        Power of the children's probability.
    """
    feedback = jnp.log(-jnp.expm1(-off_above)) + off_above
    against = weights @ off
    quiet = _grouped(on * jnp.exp(-inputs))
    factors = _grouped(jnp.exp(-weights).T)  # (groups, FACTORS, units)
    inverse = _grouped(jnp.exp(weights).T)

    def unit(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        quiet, state, flip = carry
        q, r = factors[:, :, i, None], inverse[:, :, i, None]
        s = state[i]
        without = quiet * jnp.where(s > 0, r, 1)
        ratio = jnp.prod(1 - without * q, axis=1) / jnp.prod(jnp.maximum(1 - without, 1e-6), axis=1)
        odds = coldness * (feedback[i] + evidence * (jnp.sum(jnp.log(ratio), axis=0) - against[i]))
        p = jax.nn.sigmoid(odds)
        new = jnp.where(frozen[i], s, (uniform[i] < p).astype(s.dtype))
        flip = jnp.maximum(flip, jnp.where(frozen[i], 0, jnp.where(s > 0, 1 - p, p)))
        return without * jnp.where(new > 0, q, 1), state.at[i].set(new), flip

    _, state, flip = jax.lax.fori_loop(0, len(weights), unit, (quiet, state, jnp.zeros_like(state[0])))
    return state, flip


def sweep(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    states: Sequence[Float[Array, "_ rows"]],
    keys: Key[Array, " rows"],
    *,
    evidence: Float[Array, ""] | float = 1.0,
    coldness: Float[Array, ""] | float = 1.0,
    frozen: Sequence[Bool[Array, "_ rows"]] | None = None,
) -> tuple[tuple[Float[Array, "_ rows"], ...], Float[Array, " rows"]]:
    """Every hidden unit of every row once, the lowest layer first.

    Parameters
    ----------
    on, off
        1 where an input is on, and where it is off; neither, where it is missing.
    keys
        One per row, of this sweep.
    evidence
        Power of the inputs' probability given the lowest hidden layer.
    coldness
        Inverse temperature of the whole distribution.
    frozen
        Units that keep their state.

    Returns
    -------
    states
        After the sweep.
    flip
        The largest probability of a change in each row.
    """
    dtype = on.dtype
    sizes = [len(s) for s in states]
    uniform = jax.vmap(lambda key: jax.random.uniform(key, (sum(sizes),), dtype))(keys).T
    column = [b[:, None] for b in params.biases]
    states, flips, first = list(states), jnp.zeros(on.shape[1], dtype), 0
    for layer, size in enumerate(sizes, start=1):
        below_on, below_off = (on, off) if layer == 1 else (states[layer - 2], 1 - states[layer - 2])
        s = states[layer - 1]
        u_below = column[layer - 1] + params.weights[layer - 1].T @ s
        u_own = column[layer] + (params.weights[layer].T @ states[layer] if layer < len(sizes) else jnp.zeros_like(s))
        states[layer - 1], flip = _sweep_layer(
            params.weights[layer - 1],
            u_own,
            u_below,
            below_on,
            below_off,
            s,
            uniform[first : first + size],
            jnp.asarray(evidence if layer == 1 else 1.0, dtype),
            jnp.asarray(coldness, dtype),
            jnp.zeros(s.shape, bool) if frozen is None else frozen[layer - 1],
        )
        flips = jnp.maximum(flips, flip)
        first += size
    return tuple(states), flips
