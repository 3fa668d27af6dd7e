"""log Z and its gradient from the hidden states with few active units.

Where 2^m terms are too many (Freund & Haussler 1994, end of section 3.0.1) the sums in (3.5)-(3.9) may be taken over
the O(m^k) states with at most k active units: with k = 1 the machine is a mixture of m + 1 products.  They leave out a
share of Z, which is the probability of all other states.  It is estimated, with a standard error, from hidden states
drawn from the whole machine (`left_out`).
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array, namespace
from latentbits.core.states import count_sparse_states
from latentbits.core.tree import add
from latentbits.models.combination_machine.machine import Machine, Units, input_field
from latentbits.models.combination_machine.tuning import OUTSIDE_CHAINS, STATES_PER_BLOCK

__all__ = ["Truncated", "few_active", "left_out", "log_terms", "moments_among", "sparse_moments"]


class Truncated(NamedTuple):
    """Sums over some of the states."""

    log_z: Float[Array, ""]  # log of the sum of their terms, never more than log Z
    moments: Machine  # E[h_i x_j], E[h_i] and E[x_j] given that the state is one of them: the derivatives of `log_z`
    # left_out, left_out_error: estimated share of Z of all other states, and its standard error; NaN where no key was
    # given to draw with
    left_out: Float[Array, ""]
    left_out_error: Float[Array, ""]


def log_terms(units: Units, machine: Machine, h: Float[Array, "*states hidden"]) -> Float[Array, "*states"]:
    """Compute logs of the terms of Z (2.2, 2.8): ``theta . h + sum_j log_sum(b_j + w(h)_j)``."""
    return h @ machine.hidden_bias + units.log_sum(input_field(machine, h)).sum(-1)


def moments_among(units: Units, machine: Machine, h: Float[Array, "states hidden"]) -> tuple[Float[Array, ""], Machine]:
    """Sum the terms of given states, all at once; return the log, and moments given that the state is one of them."""
    xp, field = namespace(h), input_field(machine, h)
    g = h @ machine.hidden_bias + units.log_sum(field).sum(1)
    top = g.max()
    p = xp.exp(g - top)
    total = p.sum()
    weighted, x = (p / total) * h.T, units.mean(field)
    return top + xp.log(total), Machine(weighted @ x, weighted.sum(1), (p / total) @ x)


def sparse_moments(
    units: Units, machine: Machine, max_active: int, key: Key[Array, ""] | None = None, n_chains: int = OUTSIDE_CHAINS
) -> Truncated:
    """Sum over the states with at most `max_active` units on.

    `key`: for the draws that estimate what is left out; None does not estimate it.  `n_chains`: draws that do.
    """
    m = machine.weights.shape[0]
    log_z, moments = _sum_states(units, machine, jnp.asarray(_active_units(m, max_active)))
    if key is None:
        unknown = jnp.full((), jnp.nan, machine.weights.dtype)
        return Truncated(log_z, moments, unknown, unknown)
    log_odds = _log_odds(jnp.clip(moments.hidden_bias, 0, 1))
    return Truncated(log_z, moments, *left_out(units, machine, max_active, log_odds, key, n_chains))


# ---------------------------------------------------------------------------------------------- sums over given states


@cache
def _active_units(m: int, max_active: int) -> Int[np.ndarray, "states active"]:
    """List the active units of each state by number, in the order of `sparse_states`, m where there are fewer."""
    if max_active < 0:
        raise ValueError(f"max_active must be at least 0, got {max_active}")
    n_states, width = count_sparse_states(m, max_active), min(max_active, m)
    if n_states > 2**24:
        raise ValueError(f"{m} units have {n_states} states with at most {max_active} active, which is too many")
    table = np.full((n_states, width), m, np.int32)
    row = 0
    for k in range(width + 1):
        for chosen in combinations(range(m), k):
            table[row, :k] = chosen
            row += 1
    return table


def _from_active(active: Int[Array, "states active"], machine: Machine) -> Float[Array, "states hidden"]:
    """Make states from the numbers of their active units."""
    m = machine.weights.shape[0]
    return jnp.sum(jax.nn.one_hot(active, m, dtype=machine.weights.dtype), 1)  # m itself is no unit: all zeros


def _sum_states(units: Units, machine: Machine, table: Int[Array, "states active"]) -> tuple[Float[Array, ""], Machine]:
    """Compute the log of the sum of the terms, and moments, over the states of a table of `_active_units`."""
    n_states = table.shape[0]
    size = min(n_states, STATES_PER_BLOCK)
    n_blocks = -(-n_states // size)
    padding = n_blocks * size - n_states
    blocks = jnp.pad(table, [(0, padding), (0, 0)]).reshape(n_blocks, size, -1)
    g = lax.map(lambda block: log_terms(units, machine, _from_active(block, machine)), blocks).reshape(-1)
    g = jnp.where(jnp.arange(g.shape[0]) < n_states, g, -jnp.inf)
    log_z = jax.nn.logsumexp(g)
    p = jnp.exp(g - log_z).reshape(n_blocks, size)

    def grow(moments: Machine, block: tuple[Array, Array]) -> tuple[Machine, None]:
        h, p = _from_active(block[0], machine), block[1]
        x = units.mean(input_field(machine, h))
        return add(moments, Machine(h.T @ (p[:, None] * x), p @ h, p @ x)), None

    none = jax.tree.map(jnp.zeros_like, Machine(machine.weights, machine.hidden_bias, machine.input_bias))
    return log_z, lax.scan(grow, none, (blocks, p))[0]


# ------------------------------------------------------------------------------------------------ the share left out


def left_out(
    units: Units,
    machine: Machine,
    max_active: int,
    log_odds: Float[Array, " hidden"],
    key: Key[Array, ""],
    n_chains: int = OUTSIDE_CHAINS,
    n_steps: int = 100,
    n_sweeps: int = 10,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Estimate the share of Z of the states with more than `max_active` units on, and its standard error.

    Weighted draws of the whole machine's hidden states (`_anneal`) are followed for some sweeps.  To the sampling
    variance the square of the heaviest draw's share is added: one like it, on the other side, may not have been seen.

    `log_odds`: of independent units that resemble those of the machine: where the draws begin.
    """
    anneal_key, key = jax.random.split(key)
    h, log_weight = _anneal(units, machine, log_odds, anneal_key, n_chains, n_steps)

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        h, outside = state
        outside = outside + (jnp.sum(h, -1) > max_active)
        one = jnp.ones((), h.dtype)
        return _sweep(units, machine, log_odds, one, jax.random.fold_in(key, i), h), outside

    _, outside = lax.fori_loop(0, n_sweeps, step, (h, jnp.zeros_like(log_weight)))
    weight = jax.nn.softmax(log_weight)
    share = jnp.minimum(weight @ outside / n_sweeps, 1)  # weights add up to 1 but for rounding
    variance = jnp.sum(weight**2 * (outside / n_sweeps - share) ** 2) + jnp.max(weight) ** 2
    return share, jnp.sqrt(variance)


def _log_odds(active: Float[Array, " hidden"]) -> Float[Array, " hidden"]:
    """Compute log-odds of units from 20 rows with these shares and one of halves: none is never or always on."""
    share = (20 * active + 0.5) / 21
    return jnp.log(share) - jnp.log1p(-share)


def _sweep(
    units: Units,
    machine: Machine,
    log_odds: Float[Array, " hidden"],
    t: Float[Array, ""],
    key: Key[Array, ""],
    h: Float[Array, "chains hidden"],
) -> Float[Array, "chains hidden"]:
    """Draw every unit in turn given all others, the inputs summed out, at exp((1 - t) log_odds . h + t g(h)).

    Well-separated modes of the inputs are no obstacle: with orthogonal weights and real inputs, one sweep forgets all.
    """
    u = jax.random.uniform(key, h.shape[::-1], h.dtype)

    def draw(i: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        h, field, log_sum = state
        sign = 1 - 2 * h[:, i]
        flipped = field + sign[:, None] * machine.weights[i]
        log_flipped = jnp.sum(units.log_sum(flipped), 1)
        gain = sign * (log_flipped - log_sum) + machine.hidden_bias[i]
        on = (u[i] < jax.nn.sigmoid((1 - t) * log_odds[i] + t * gain)).astype(h.dtype)
        stays = on == h[:, i]
        field = jnp.where(stays[:, None], field, flipped)
        return h.at[:, i].set(on), field, jnp.where(stays, log_sum, log_flipped)

    field = input_field(machine, h)
    return lax.fori_loop(0, h.shape[1], draw, (h, field, jnp.sum(units.log_sum(field), 1)))[0]


def _anneal(
    units: Units,
    machine: Machine,
    log_odds: Float[Array, " hidden"],
    key: Key[Array, ""],
    n_chains: int,
    n_steps: int,
) -> tuple[Float[Array, "chains hidden"], Float[Array, " chains"]]:
    """Draw hidden states by annealed importance sampling (Neal 2001) from independent units, with log weights.

    The weights' mean is Z divided by the product of ``1 + exp(log_odds)``.
    """
    start_key, key = jax.random.split(key)
    u = jax.random.uniform(start_key, (n_chains, log_odds.shape[0]), log_odds.dtype)
    h = (u < jax.nn.sigmoid(log_odds)).astype(log_odds.dtype)

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        h, log_weight = state
        log_weight = log_weight + (log_terms(units, machine, h) - h @ log_odds) / n_steps
        t = (i + 1) / jnp.asarray(n_steps, h.dtype)
        return _sweep(units, machine, log_odds, t, jax.random.fold_in(key, i), h), log_weight

    return lax.fori_loop(0, n_steps, step, (h, jnp.zeros_like(h[:, 0])))


def few_active(
    field: Float[Array, "rows hidden"], max_active: int
) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Sum exp(h . field) over hidden states with at most `max_active` active units; return its log and E[h] there.

    The sums over states with exactly k active units are the elementary symmetric polynomials of exp(field), which
    take one unit after the other; E[h] is the derivative.
    """
    none = jnp.full((field.shape[0], max_active), -1e30, field.dtype)  # log of 0, but for gradients
    start = jnp.concatenate([jnp.zeros_like(none[:, :1]), none], axis=1)

    def add(logs: Array, unit: Array) -> tuple[Array, None]:
        with_it = jnp.concatenate([none[:, :1], logs[:, :-1] + unit[:, None]], axis=1)
        return jnp.logaddexp(logs, with_it), None

    def log_sum(field: Array) -> Array:
        return jax.nn.logsumexp(lax.scan(add, start, field.T)[0], axis=1)

    value, pull = jax.vjp(log_sum, field)
    return value, pull(jnp.ones_like(value))[0]
