"""The hidden states with the largest terms of Z, for real inputs (Freund & Haussler 1994, section 3.1).

A term of Z is exp(g(h)) but for a constant, where, with lambda = theta + Omega b and a row of Omega for each w_i,

    g(h) = lambda . h + |h^T Omega|^2 / 2 = |h^T Omega - x|^2 / 2 - |x|^2 / 2,   x = -Omega^T (Omega Omega^T)^-1 lambda

(if Omega Omega^T has an inverse): the largest term belongs to the subset of the weight vectors whose sum is farthest
from the fixed vector x.  The paper has b = 0, and x with the other sign.  If the weight vectors are orthogonal, that
subset has all w_i with w_i . x <= |w_i|^2 / 2 (the paper: |w_i| / 2), that is

    lambda_i + |w_i|^2 / 2 >= 0,

a rule that needs no inverse.  In general the problem is hard, and this is a search that starts there.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, UInt32

from latentbits.models.combination_machine.machine import Machine

__all__ = ["largest_states", "paper_rule"]

PAIRS_OF = 32  # the best states, of which pairs of units are flipped too
ROUNDS = 200  # at most; as many as the farthest of the states has units flipped are needed


class _Form(NamedTuple):
    """g as a quadratic form: lambda and Omega Omega^T."""

    linear: Float[Array, " hidden"]
    gram: Float[Array, "hidden hidden"]


class _Pool(NamedTuple):
    """The best states so far, the best first; places not taken yet have g = -inf."""

    states: Float[Array, "states hidden"]
    g: Float[Array, " states"]


class _Candidates(NamedTuple):
    """States with up to two units flipped: which state, which units (m for none), and g."""

    parent: Int[Array, " candidates"]
    first: Int[Array, " candidates"]
    second: Int[Array, " candidates"]
    g: Float[Array, " candidates"]


def paper_rule(machine: Machine) -> Float[Array, " hidden"]:
    """The state with the largest term if the weight vectors are orthogonal."""
    form = _form(machine)
    return (form.linear + jnp.diag(form.gram) / 2 >= 0).astype(form.linear.dtype)


def largest_states(
    machine: Machine, n_terms: int, starts: Float[Array, "starts hidden"] | None = None
) -> Float[Array, "states hidden"]:
    """Distinct hidden states with large terms, the largest first; all 2^m where they are no more than `n_terms`.

    All single flips of all states kept so far, and all pairs of flips of the best of them, are tried, and the best
    `n_terms` are kept, until nothing gets better.  With orthogonal weight vectors the result is exact: each of the
    largest terms but the first differs by one unit from a larger one.

    Parameters
    ----------
    starts
        States to begin at, beside the paper's rule and the empty state: draws from the machine, say.
    """
    if n_terms < 1:
        raise ValueError(f"n_terms must be at least 1, got {n_terms}")
    form = _form(machine)
    m = form.linear.shape[0]
    n_terms = min(n_terms, 2**m)
    begin = jnp.stack([paper_rule(machine), jnp.zeros_like(form.linear)])
    begin = begin if starts is None else jnp.concatenate([begin, starts.astype(begin.dtype)])
    pool = _keep(form, _Pool(begin, _values(form, begin)), _as_they_are(begin, _values(form, begin)), n_terms)

    def goes_on(state: tuple[_Pool, Array, Array]) -> Array:
        return state[1] & (state[2] < ROUNDS)

    def improve(state: tuple[_Pool, Array, Array]) -> tuple[_Pool, Array, Array]:
        old = state[0]
        new = _keep(form, old, _flips(form, old), n_terms)
        margin = 1e-9 * (1 + jnp.abs(new.g))  # more than rounding, which swaps equals
        return new, jnp.any(new.g > old.g + margin), state[2] + 1

    return lax.while_loop(goes_on, improve, (pool, jnp.asarray(True), jnp.zeros((), jnp.int32)))[0].states


def _form(machine: Machine) -> _Form:
    linear = machine.hidden_bias + machine.weights @ machine.input_bias
    return _Form(linear, machine.weights @ machine.weights.T)


def _values(form: _Form, h: Float[Array, "states hidden"]) -> Float[Array, " states"]:
    return h @ form.linear + jnp.sum((h @ form.gram) * h, 1) / 2


def _as_they_are(states: Float[Array, "states hidden"], g: Float[Array, " states"]) -> _Candidates:
    none = jnp.full(g.shape, states.shape[1])
    return _Candidates(jnp.arange(g.shape[0]), none, none, g)


def _flips(form: _Form, pool: _Pool) -> _Candidates:
    """The states of the pool, with one unit flipped, and the best of them with two."""
    n_states, m = pool.states.shape
    sign = 1 - 2 * pool.states
    gain = sign * (form.linear + pool.states @ form.gram) + jnp.diag(form.gram) / 2
    number = jnp.arange(n_states * m)
    one = _Candidates(number // m, number % m, jnp.full(number.shape, m), (pool.g[:, None] + gain).ravel())
    n_best = min(n_states, PAIRS_OF)
    i, j = (jnp.asarray(axis) for axis in np.triu_indices(m, 1))
    best = gain[:n_best]
    pairs = best[:, i] + best[:, j] + sign[:n_best, i] * sign[:n_best, j] * form.gram[i, j]
    parent = jnp.repeat(jnp.arange(n_best), len(i))
    two = _Candidates(parent, jnp.tile(i, n_best), jnp.tile(j, n_best), (pool.g[:n_best, None] + pairs).ravel())
    groups = zip(_as_they_are(pool.states, pool.g), one, two, strict=True)
    return _Candidates(*(jnp.concatenate(parts) for parts in groups))


def _keep(form: _Form, pool: _Pool, candidates: _Candidates, n_terms: int) -> _Pool:
    """The best `n_terms` distinct candidates."""
    high, low = (_codes(code, pool, candidates) for code in _unit_codes(pool.states.shape[1]))
    order = jnp.arange(high.shape[0])
    high, low, minus_g, order = lax.sort((high, low, -candidates.g, order), num_keys=3)
    again = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    g = jnp.where(jnp.concatenate([jnp.zeros(1, bool), again]), -jnp.inf, -minus_g)
    missing = max(0, n_terms - g.shape[0])
    g, places = lax.top_k(jnp.pad(g, (0, missing), constant_values=-jnp.inf), n_terms)
    chosen = jnp.pad(order, (0, missing))[places]
    flipped = _units(candidates.first[chosen], pool) + _units(candidates.second[chosen], pool)
    states = jnp.abs(pool.states[candidates.parent[chosen]] - flipped)
    return _Pool(states, jnp.where(jnp.isneginf(g), g, _values(form, states)))


def _units(number: Int[Array, " states"], pool: _Pool) -> Float[Array, "states hidden"]:
    """1 at the unit of each state that is flipped, if any."""
    return (number[:, None] == jnp.arange(pool.states.shape[1])).astype(pool.states.dtype)


def _unit_codes(m: int) -> UInt32[np.ndarray, "2 units"]:
    """64 random bits for each unit, and none for no unit: two states with the same exclusive or are taken for equal."""
    codes = np.random.default_rng(1994).integers(2**32, size=(2, m + 1), dtype=np.uint32)
    codes[:, m] = 0
    return codes


def _codes(code: UInt32[np.ndarray, " units"], pool: _Pool, candidates: _Candidates) -> UInt32[Array, " candidates"]:
    """Exclusive or of the codes of a state's active units: a flip is one more."""
    mine = jnp.where(pool.states > 0, jnp.asarray(code[:-1]), jnp.zeros((), jnp.uint32))
    own = lax.reduce(mine, jnp.zeros((), jnp.uint32), lax.bitwise_xor, (1,))
    extra = jnp.asarray(code)
    return own[candidates.parent] ^ extra[candidates.first] ^ extra[candidates.second]
