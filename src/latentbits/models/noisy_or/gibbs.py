"""Gibbs sampling of the hidden layers, all rows at once and unit after unit (section 3 of the paper).

The log-odds of S_i = 1 given all other units are, by (5) to (7),

    log h(u_i; 1) - log h(u_i; 0)  +  sum_{j in ch(i)} log h(u_j + w_ij; S_j) - log h(u_j; S_j),     u_j without i,

feedback from above and evidence from below.  (6) gives P(change) = 1 / (1 + exp(-Delta x_i)), which is the same:
P(S_i = 1) is the logistic function of the log-odds.

`equations.py` has them as they stand, and why the factor S_j that the paper prints below (7) is a misprint.

A child that is off adds -w_ij, which makes a matrix product for all units of a layer at once.  Where they are on,
Q_j = exp(-u_j) is kept; their evidence is the difference of sum_j log(1 - Q_j) as it is, which is kept too, and as it
would be if the unit changed: with Q_j exp(-w_ij) for a unit that is off, and Q_j exp(w_ij) for one that is on.  One
logarithm is taken of a product of several 1 - Q_j.  If the unit changes, Q is multiplied by the same factors: no
exponential, and no division.  Q is computed in every sweep, so that rounding does not add up.  (In float32 Q is 0
where u is above 87, of ten strongest causes: such a child counts as explained until the next sweep, whatever leaves.)
1 - Q of a child that nothing but a small bias b turns on is smaller than the rounding of Q; but it is never below
1 - exp(-b), which is known.

Arrays are (units, rows) here: rows are next to each other in memory, and children add up whole vectors.  On a CPU a few
rows are taken through all their sweeps before the next (`by_blocks`): their Q stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, Key, PyTree

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.core.special import log1mexp
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.network import Params

__all__ = ["Chains", "by_blocks", "folded", "gibbs", "gibbs_means", "sweep"]

T = TypeVar("T", bound=PyTree[Array])


class Chains(Module):
    """States and progress of the Gibbs chains."""

    states: tuple[Float[Array, "_ rows"], ...]  # hidden layers, bottom first, each (units, rows)
    # P(S_i = 1 | rest) of every unit at its turn in a row's last sweep, from which its state was drawn
    chances: tuple[Float[Array, "_ rows"], ...]
    flip: Float[Array, " rows"]  # the largest probability of a change that this sweep met
    sweeps: Int[Array, " rows"]  # how many sweeps each row has made


def folded(keys: Key[Array, " rows"], number: Int[Array, ""] | int) -> Key[Array, " rows"]:
    """Fold a number into the key of each row, for one of several uses: a chain, a sweep."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def _uniform(keys: Key[Array, " rows"], n: int, dtype: jnp.dtype) -> Float[Array, "n rows"]:
    """Draw n uniform numbers of each key; XLA on a CPU is slow to compile for other than multiples of 8."""
    return jax.vmap(lambda key: jax.random.uniform(key, (-(-n // 8) * 8,), dtype))(keys).T[:n]


def by_blocks(function: Callable[..., T], params: Params, *rows: PyTree[Array], n_chains: int = 1) -> T:
    """Compute ``function(params, *rows)``, on a CPU for one block of rows after the other.

    `function`: whose value for a row depends on that row alone.  `rows`: arrays with rows as their last axis; so are
    the results.  `n_chains`: that the function makes of each row: blocks have fewer rows by that.
    """
    n = jax.tree.leaves(rows)[0].shape[-1]
    widest = max(len(b) for b in params.biases)
    size = 32 * max(2, tuning.GIBBS_CELLS_PER_BLOCK // (32 * widest))  # whole vectors: others take up to twice as long
    size = max(1, size // n_chains)
    if jax.default_backend() != "cpu" or n <= size:
        return function(params, *rows)

    def of(first: Array) -> PyTree[Array]:
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, size, axis=-1), rows)

    def block(k: Array, results: T) -> T:
        first = jnp.minimum(k * size, n - size)  # the last block has rows of the one before it
        found = function(params, *of(first))
        put = jax.lax.dynamic_update_slice_in_dim
        return jax.tree.map(lambda all_, new: put(all_, new, first, axis=-1), results, found)

    shapes = jax.eval_shape(function, params, *rows)
    empty = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    return jax.lax.fori_loop(0, -(-n // size), block, empty)


def _grouped(children: Float[Array, "children ..."]) -> Float[Array, "factors groups ..."]:
    """Arrange children in groups for one logarithm, filled up with zeros: children that count nothing."""
    spare = -children.shape[0] % tuning.GIBBS_FACTORS_PER_LOG
    padded = jnp.concatenate([children, jnp.zeros((spare, *children.shape[1:]), children.dtype)])
    return padded.reshape(tuning.GIBBS_FACTORS_PER_LOG, -1, *children.shape[1:])


def _sum_of_logs(terms: Sequence[Float[Array, "groups rows"]]) -> Float[Array, " rows"]:
    """Sum log of the terms of `_grouped`; the groups are added up by a product, which vectorises."""
    product = terms[0]
    for term in terms[1:]:
        product = product * term
    logs = jnp.log(jnp.maximum(product, jnp.finfo(product.dtype).tiny))
    return (jnp.ones((1, len(logs)), logs.dtype) @ logs)[0]


def _sweep_layer(
    weights: Float[Array, "units children"],
    odds: Float[Array, "units rows"],
    power: Float[Array, ""],
    quiet: Float[Array, "children rows"],
    least: Float[Array, " children"],
    state: Float[Array, "units rows"],
    uniform: Float[Array, "units rows"],
    frozen: Bool[Array, "units rows"] | None,
) -> tuple[Float[Array, "units rows"], Float[Array, "units rows"]]:
    """Draw one unit of a layer after the other: the new states, and P(S_i = 1 | rest) each was drawn from.

    `odds`: log-odds of the units, but for children that are on.  `power`: exponent of the probability of children that
    are on.  `quiet`: exp(-u) of children that are on, with the present states; 0 of the others.  `least`: P(child on)
    if no cause is.
    """
    quiet, least = _grouped(quiet), _grouped(least)[..., None]
    off_on, on_off = (jnp.moveaxis(_grouped(f.T), 2, 0) for f in (jnp.exp(-weights), jnp.exp(weights)))

    def unit(carry: tuple[Array, Array], this: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        quiet, evidence = carry
        s, draw, odds, to_on, to_off, *kept = this
        is_on = s > 0
        # slice by slice, or the factors and the changed Q would be arrays in memory
        changed = _sum_of_logs(
            [
                jnp.maximum(1 - quiet[k] * jnp.where(is_on, to_off[k, :, None], to_on[k, :, None]), least[k])
                for k in range(tuning.GIBBS_FACTORS_PER_LOG)
            ]
        )
        gain = power * (changed - evidence)
        p = jax.nn.sigmoid(odds + jnp.where(is_on, -gain, gain))
        if kept:
            p = jnp.where(kept[0], s, p)
        new = draw < p
        flips = new != is_on
        factor = jnp.where(flips, jnp.where(is_on, to_off[..., None], to_on[..., None]), 1)
        return (quiet * factor, jnp.where(flips, changed, evidence)), (new.astype(s.dtype), p)

    units = (state, uniform, odds, off_on, on_off, *(() if frozen is None else (frozen,)))
    evidence = _sum_of_logs([jnp.maximum(1 - q, p) for q, p in zip(quiet, least, strict=True)])
    return jax.lax.scan(unit, (quiet, evidence), units)[1]


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
    field: Sequence[Float[Array, "_ rows"]] | None = None,
) -> tuple[tuple[Float[Array, "_ rows"], ...], tuple[Float[Array, "_ rows"], ...], Float[Array, " rows"]]:
    """Draw every hidden unit of every row once, the lowest layer first.

    `on`, `off`: 1 where an input is on, and where it is off; neither, where it is missing.  `keys`: one per row, of
    this sweep.  `evidence`: power of the inputs' probability given the lowest hidden layer.  `coldness`: inverse
    temperature of the whole distribution.  `frozen`: units that keep their state.  `field`: log-odds of each unit
    beside all others, at any coldness.  Returns the states after the sweep; P(S_i = 1 | rest) of every unit at its
    turn, for a frozen unit its state; and the largest probability of a change in each row.
    """
    dtype = on.dtype
    sizes = [len(s) for s in states]
    uniform = _uniform(keys, sum(sizes), dtype)
    now, chances, first = list(states), [], 0
    with jax.default_matmul_precision("highest"):  # Q would not agree with factors of rounded weights
        for layer, size in enumerate(sizes, start=1):
            s, weights = now[layer - 1], params.weights[layer - 1]
            below_on, below_off = (on, off) if layer == 1 else (now[layer - 2], 1 - now[layer - 2])
            power = jnp.asarray(evidence if layer == 1 else 1, dtype)
            u_below = params.biases[layer - 1][:, None] + weights.T @ s
            u = jnp.broadcast_to(params.biases[layer][:, None], s.shape)
            if layer < len(sizes):
                u = u + params.weights[layer].T @ now[layer]
            odds = coldness * (log1mexp(u) + u - power * (weights @ below_off))
            now[layer - 1], chance = _sweep_layer(
                weights,
                odds if field is None else odds + field[layer - 1],
                coldness * power,
                below_on * jnp.exp(-u_below),
                -jnp.expm1(-params.biases[layer - 1]),
                s,
                uniform[first : first + size],
                None if frozen is None else frozen[layer - 1],
            )
            chances.append(chance)
            first += size
    changes = [jnp.abs(p - s).max(0) for p, s in zip(chances, states, strict=True)]
    return tuple(now), tuple(chances), jnp.stack(changes).max(0)


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
    """Sweep in one loop; a row's sweep k draws from its key folded with k.

    `on`, `off`, `coldness`, `frozen`: the same as in `sweep`.  `keys`: one per row.  `stop_below`: a row rests after a
    sweep in which no unit's probability of a change reached this (the paper's 0.05), and the loop ends with the last
    row.
    """
    least = 0.0 if stop_below is None else stop_below

    def chains(params: Params, on: Array, off: Array, states: Any, keys: Array, frozen: Any) -> Chains:
        def moving(at: tuple[Array, Chains]) -> Array:
            k, chains = at
            return (k < n_sweeps) & (chains.flip >= least).any()

        def body(at: tuple[Array, Chains]) -> tuple[Array, Chains]:
            k, chains = at
            swept = sweep(params, on, off, chains.states, folded(keys, k), coldness=coldness, frozen=frozen)
            moves = chains.flip >= least
            before = (chains.states, chains.chances, chains.flip)
            states, chances, flip = jax.tree.map(lambda new, old: jnp.where(moves, new, old), swept, before)
            return k + 1, Chains(states, chances, flip, chains.sweeps + moves)

        rested = jnp.full(len(keys), jnp.inf, on.dtype), jnp.zeros(len(keys), int)
        start = Chains(tuple(states), tuple(states), *rested)
        return jax.lax.while_loop(moving, body, (jnp.asarray(0), start))[1]

    return by_blocks(chains, params, on, off, states, keys, frozen)


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
    """Average P(S_i = 1 | rest) of the hidden units over sweeps: posterior means, and the last states.

    The means are P(S_i = 1 | rest) at a unit's turn, averaged over `n_sweeps` after `n_burn` others: they vary less
    than averages of the states drawn (Rao and Blackwell).
    """

    def means(params: Params, on: Array, off: Array, states: Any, keys: Array, frozen: Any) -> tuple[Any, Any]:
        def body(k: Array, at: tuple[Any, Any]) -> tuple[Any, Any]:
            totals, now = at
            now, chances, _ = sweep(params, on, off, now, folded(keys, k), coldness=coldness, frozen=frozen)
            counts = (k >= n_burn).astype(on.dtype)
            return tuple(t + counts * p for t, p in zip(totals, chances, strict=True)), now

        zeros = tuple(jnp.zeros_like(s) for s in states)
        totals, last = jax.lax.fori_loop(0, n_burn + n_sweeps, body, (zeros, tuple(states)))
        return tuple(t / n_sweeps for t in totals), last

    return by_blocks(means, params, on, off, states, keys, frozen)
