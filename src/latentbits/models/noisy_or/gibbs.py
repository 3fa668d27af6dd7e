"""Gibbs sampling of the hidden layers, all rows at once and unit after unit (section 3 of the paper).

The log-odds of S_i = 1 given all other units are, by (5) to (7),

    log h(u_i; 1) - log h(u_i; 0)  +  sum_{j in ch(i)} log h(u_j + w_ij; S_j) - log h(u_j; S_j),     u_j without i,

feedback from above and evidence from below.  A child that is off adds -w_ij, which makes a matrix product for all units
of a layer at once.  A child that is on adds log (1 - Q_j q_ij) / (1 - Q_j) with Q = exp(-u) and q = exp(-w).  So Q is
what is kept, for children that are on alone; a unit that turns on or off multiplies it by q or 1 / q, and one logarithm
is taken of a product of several ratios.  (6) gives P(change) = 1 / (1 + exp(-Delta x_i)), which is the same: P(S_i = 1)
is the logistic function of the log-odds.

Arrays are (units, rows) here: rows are next to each other in memory, and sums over children add whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from latentbits.models.noisy_or.network import Params

__all__ = ["Chains", "gibbs", "gibbs_means", "start_states", "sweep"]

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
    return tuple(drawn[a:b] for a, b in pairwise(accumulate(sizes, initial=0)))


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
) -> tuple[Float[Array, "units rows"], Float[Array, "units rows"]]:
    """One unit of a layer after the other; the new states, and P(S_i = 1 | rest) each was drawn from.

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
        quiet, state, chance = carry
        q, r = factors[:, :, i, None], inverse[:, :, i, None]
        s = state[i]
        without = quiet * jnp.where(s > 0, r, 1)
        ratio = jnp.prod(1 - without * q, axis=1) / jnp.prod(jnp.maximum(1 - without, 1e-6), axis=1)
        odds = coldness * (feedback[i] + evidence * (jnp.sum(jnp.log(ratio), axis=0) - against[i]))
        p = jnp.where(frozen[i], s, jax.nn.sigmoid(odds))
        new = (uniform[i] < p).astype(s.dtype)
        return without * jnp.where(new > 0, q, 1), state.at[i].set(new), chance.at[i].set(p)

    _, state, chance = jax.lax.fori_loop(0, len(weights), unit, (quiet, state, state))
    return state, chance


def _sweep(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    states: Sequence[Float[Array, "_ rows"]],
    keys: Key[Array, " rows"],
    evidence: Float[Array, ""] | float,
    coldness: Float[Array, ""] | float,
    frozen: Sequence[Bool[Array, "_ rows"]] | None,
) -> tuple[tuple[Array, ...], tuple[Array, ...], Float[Array, " rows"]]:
    """`sweep`, with P(S_i = 1 | rest) of every unit at its turn (a frozen unit's state) in the middle."""
    dtype = on.dtype
    sizes = [len(s) for s in states]
    uniform = jax.vmap(lambda key: jax.random.uniform(key, (sum(sizes),), dtype))(keys).T
    column = [b[:, None] for b in params.biases]
    now, chances, flip, first = list(states), [], jnp.zeros(on.shape[1], dtype), 0
    for layer, size in enumerate(sizes, start=1):
        below_on, below_off = (on, off) if layer == 1 else (now[layer - 2], 1 - now[layer - 2])
        s = now[layer - 1]
        u_below = column[layer - 1] + params.weights[layer - 1].T @ s
        u_own = column[layer] + (params.weights[layer].T @ now[layer] if layer < len(sizes) else jnp.zeros_like(s))
        now[layer - 1], chance = _sweep_layer(
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
        chances.append(chance)
        flip = jnp.maximum(flip, jnp.abs(chance - s).max(0))
        first += size
    return tuple(now), tuple(chances), flip


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
    states, _, flip = _sweep(params, on, off, states, keys, evidence, coldness, frozen)
    return states, flip


def _of_sweep(keys: Key[Array, " rows"], k: Int[Array, ""]) -> Key[Array, " rows"]:
    return jax.vmap(lambda key: jax.random.fold_in(key, k))(keys)


def gibbs(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    states: Sequence[Float[Array, "_ rows"]],
    keys: Key[Array, " rows"],
    n_sweeps: Int[Array, ""] | int,
    *,
    coldness: Float[Array, ""] | float = 1.0,
    stop_below: Float[Array, ""] | float | None = None,
    frozen: Sequence[Bool[Array, "_ rows"]] | None = None,
) -> Chains:
    """Sweeps in one loop; a row's sweep k draws from its key folded with k.

    Parameters
    ----------
    on, off, coldness, frozen
        As for `sweep`.
    keys
        One per row.
    stop_below
        A row rests after a sweep in which no unit's probability of a change reached this (the paper's 0.05), and the
        loop ends with the last row.
    """
    rows = on.shape[1]

    def moving(at: tuple[Array, Chains]) -> Array:
        k, chains = at
        return (k < n_sweeps) & (True if stop_below is None else (chains.flip >= stop_below).any())

    def body(at: tuple[Array, Chains]) -> tuple[Array, Chains]:
        k, chains = at
        moved, _, flip = _sweep(params, on, off, chains.states, _of_sweep(keys, k), 1.0, coldness, frozen)
        if stop_below is None:
            return k + 1, Chains(moved, flip, chains.sweeps + 1)
        moves = chains.flip >= stop_below
        kept = tuple(jnp.where(moves, new, old) for new, old in zip(moved, chains.states, strict=True))
        return k + 1, Chains(kept, jnp.where(moves, flip, chains.flip), chains.sweeps + moves)

    start = Chains(tuple(states), jnp.full(rows, jnp.inf, on.dtype), jnp.zeros(rows, int))
    return jax.lax.while_loop(moving, body, (jnp.asarray(0), start))[1]


def gibbs_means(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    states: Sequence[Float[Array, "_ rows"]],
    keys: Key[Array, " rows"],
    n_burn: Int[Array, ""] | int,
    n_sweeps: Int[Array, ""] | int,
    *,
    coldness: Float[Array, ""] | float = 1.0,
    frozen: Sequence[Bool[Array, "_ rows"]] | None = None,
) -> tuple[tuple[Float[Array, "_ rows"], ...], tuple[Float[Array, "_ rows"], ...]]:
    """Posterior means of the hidden units, and the last states.

    The means are P(S_i = 1 | rest) at a unit's turn, averaged over `n_sweeps` after `n_burn` others: they vary less than
    averages of the states drawn (Rao and Blackwell).
    """

    def body(k: Array, at: tuple[tuple[Array, ...], tuple[Array, ...]]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        totals, now = at
        now, chances, _ = _sweep(params, on, off, now, _of_sweep(keys, k), 1.0, coldness, frozen)
        counts = (k >= n_burn).astype(on.dtype)
        return tuple(t + counts * p for t, p in zip(totals, chances, strict=True)), now

    totals = tuple(jnp.zeros_like(s) for s in states)
    totals, last = jax.lax.fori_loop(0, n_burn + n_sweeps, body, (totals, tuple(states)))
    return tuple(t / n_sweeps for t in totals), last
