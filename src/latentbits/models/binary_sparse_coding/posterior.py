"""The truncated posterior of binary causes: which states of a row are looked at, and expectations over them.

A state's log-probability is a quadratic form in its bits.  With G = W W', a = W y and p = 1 / sigma^2

    log p(s, y) = base(y) + sum_h s_h l_h + sum_{i<j} s_i s_j q_ij,
    l_h = p a_h - p G_hh / 2 + logit(pi),      q_ij = -p G_ij,
    base(y) = H log(1 - pi) - D/2 log(2 pi sigma^2) - p |y|^2 / 2,

so s W is never formed: the energies of all states of all rows of a chunk are one product of a constant table of states
with the linear and pair terms of each row's candidates, and the expectations (3) are one product back.  Arrays are
(something, rows): reductions over causes and states then run along whole vectors of rows.

Missing entries leave the likelihood: a, |y|^2 and G are then sums over what the row shows, and G is the row's own.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from latentbits.core.batch import Batch
from latentbits.core.states import sparse_states

__all__ = ["Expectations", "Params", "Shared", "States", "candidate_pairs", "expectations", "state_table", "terms"]

BLOCK = 64  # rows whose candidates' components are gathered at a time, where pixels are missing


class Params(eqx.Module):
    """W -> components, sigma -> noise_std, pi -> prior.

    And what is to be known of a fit: how often an unused cause was given a new start, and the estimated mean of what
    states outside K_n would add to the log evidence of a row, in nats (0 before it is estimated).
    """

    components: Float[Array, "causes columns"]
    noise_std: Float[Array, ""]
    prior: Float[Array, ""]
    reseeded: Float[Array, ""]
    truncation_loss: Float[Array, ""]


class Shared(eqx.Module):
    """What the rows of a pass share.

    `threshold`, `centre` and `width` are for the selection of rows (`selection.py`), `drawn` is for `renewal.py`.
    """

    constant: Float[Array, ""]  # H log(1 - pi)
    column: Float[Array, ""]  # log(2 pi sigma^2) / 2, for each observed column
    logit: Float[Array, ""]  # of pi
    precision: Float[Array, ""]
    coldness: Float[Array, ""]  # 1 / temperature
    norms: Float[Array, " causes"]
    gram: Float[Array, "causes causes"]
    threshold: Float[Array, ""]
    centre: Float[Array, ""]
    width: Float[Array, ""]
    drawn: Int[Array, " drawn"]


class States(NamedTuple):
    """The states of eq. (4) over the candidates of a row, the same for all rows.

    Attributes
    ----------
    bits
        (states, candidates); the first one is empty.
    features
        (states, candidates + pairs): the bits, and which pairs are on together.
    first, second
        The two candidates of each pair.
    """

    bits: np.ndarray
    features: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Expectations(eqx.Module):
    """Expectations (3) over the truncated posterior of each row."""

    log_evidence: Float[Array, " rows"]
    means: Float[Array, "causes rows"]
    candidates: Int[Array, "candidates rows"]
    pairs: Float[Array, "pairs rows"]


class Terms(eqx.Module):
    """The quadratic form of each row: its linear terms, and the pair terms of its candidates."""

    base: Float[Array, " rows"]
    linear: Float[Array, "causes rows"]
    outside: Bool[Array, "causes rows"]  # the causes that are no candidates
    candidates: Int[Array, "candidates rows"]
    chosen: Float[Array, "candidates rows"]  # the linear terms of the candidates
    pairs: Float[Array, "pairs rows"]


@cache
def state_table(n_candidates: int, max_active: int) -> States:
    """All states of at most `max_active` of `n_candidates` causes."""
    bits = sparse_states(n_candidates, max_active)
    first, second = (i.astype(np.int32) for i in np.triu_indices(n_candidates, 1))
    return States(bits, np.concatenate([bits, bits[:, first] & bits[:, second]], 1), first, second)


def terms(params: Params, shared: Shared, batch: Batch, states: States) -> Terms:
    """The quadratic form whose exponential is p(s, y), with the candidates of eq. (5)."""
    rows, p = batch.values, shared.precision
    match = params.components @ rows.T
    if batch.observed is None:
        norms = shared.norms[:, None]
        n_observed = jnp.asarray(rows.shape[1], rows.dtype)
    else:
        norms = jnp.square(params.components) @ batch.observed.T
        n_observed = batch.observed.sum(1)
    base = shared.constant - n_observed * shared.column - 0.5 * p * jnp.sum(jnp.square(rows), 1)
    linear = p * (match - 0.5 * norms) + shared.logit
    n_candidates = states.bits.shape[1]
    if n_candidates == len(match):
        candidates = jnp.broadcast_to(jnp.arange(n_candidates)[:, None], match.shape)
        outside, chosen = jnp.zeros(match.shape, bool), linear
    else:
        # a component of norm 0 matches nothing: 0 / 0 would make it everybody's first candidate
        score = jnp.where(norms > 0, match * jax.lax.rsqrt(jnp.where(norms > 0, norms, 1)), -jnp.inf)
        candidates, outside = _highest(score, n_candidates)
        chosen = jnp.take_along_axis(linear, candidates, axis=0)
    if batch.observed is None:
        flat = candidates[states.first] * len(match) + candidates[states.second]
        pairs = -p * shared.gram.reshape(-1)[flat]
    else:
        pairs = -p * _observed_gram(params.components, candidates, batch.observed, states)
    cold = shared.coldness
    return Terms(base, cold * linear, outside, candidates, cold * chosen, cold * pairs)


def _highest(score: Float[Array, "causes rows"], k: int) -> tuple[Int[Array, "k rows"], Bool[Array, "causes rows"]]:
    """The k causes of highest score of each row, and which are not among them.

    Scores become integers of the same order, with the cause's number in their lowest bits, so that a maximum brings its
    place along.  The highest k are among the k groups of causes with the highest maxima, so that most are looked at but
    once.  Scores that agree in all but the lowest bits count as equal, which is as good: (5) is only a guess.
    """
    n = len(score)
    low = (1 << (n - 1).bit_length()) - 1
    key = (_in_order(score) & ~low) | (low - jnp.arange(n)[:, None])
    size = max(math.isqrt(n // k), 1)
    n_groups = -(-n // size)
    if n_groups > k:
        least = jnp.iinfo(key.dtype).min
        groups = jnp.pad(key, ((0, n_groups * size - n), (0, 0)), constant_values=least).reshape(n_groups, size, -1)
        leaders = _descending(jnp.max(groups, axis=1), k)
        few = jnp.take_along_axis(groups, ((low - (leaders & low)) // size)[:, None, :], axis=0)
        found = _descending(few.reshape(k * size, -1), k)
    else:
        found = _descending(key, k)
    return (low - (found & low)).astype(jnp.int32), key < found[-1]


def _in_order(x: Float[Array, "causes rows"]) -> Int[Array, "causes rows"]:
    """Integers with the bits of x, in the order of x."""
    integer = jnp.int64 if x.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(x, integer)
    return jnp.where(bits < 0, bits ^ jnp.iinfo(integer).max, bits)


def _descending(key: Int[Array, "some rows"], k: int) -> Int[Array, "k rows"]:
    """The k largest of different numbers in each column."""
    found = [jnp.max(key, axis=0)]
    for _ in range(k - 1):
        found.append(jnp.max(jnp.where(key < found[-1], key, jnp.iinfo(key.dtype).min), axis=0))
    return jnp.stack(found)


def expectations(params: Params, shared: Shared, batch: Batch, states: States) -> Expectations:
    """Truncated expectations of s and of pairs of candidates, and log sum_{s in K_n} p(s, y)."""
    t = terms(params, shared, batch, states)
    features = jnp.asarray(states.features, t.base.dtype)
    energy = features @ jnp.concatenate([t.chosen, t.pairs])  # (states, rows)
    lone = jnp.where(t.outside, t.linear, -jnp.inf)  # states of one active cause that is no candidate
    top = jnp.maximum(jnp.max(energy, 0), jnp.max(lone, 0))
    weight = jnp.exp(energy - top)
    total = jnp.sum(weight, 0) + jnp.sum(jnp.exp(lone - top), 0)
    moments = (features.T @ weight) / total
    means = jnp.exp(lone - top) / total
    number = jnp.arange(len(means))[:, None]
    for cause, mean in zip(t.candidates, moments, strict=False):  # the first moments are those of single candidates
        means = jnp.where(number == cause, mean, means)
    log_evidence = t.base + (top + jnp.log(total)) / shared.coldness
    return Expectations(log_evidence, means, t.candidates, moments[states.bits.shape[1] :])


def candidate_pairs(pairs: Float[Array, "pairs rows"], states: States) -> Float[Array, "rows candidates candidates"]:
    """<s_i s_j> of the candidates of each row as a symmetric matrix with 0 on its diagonal."""
    n = states.bits.shape[1]
    square = jnp.zeros((n, n, pairs.shape[1]), pairs.dtype)
    square = square.at[states.first, states.second].set(pairs).at[states.second, states.first].set(pairs)
    return jnp.moveaxis(square, 2, 0)


def _observed_gram(
    components: Float[Array, "causes columns"],
    candidates: Int[Array, "candidates rows"],
    observed: Float[Array, "rows columns"],
    states: States,
) -> Float[Array, "pairs rows"]:
    """G_ij of the candidates over the columns that each row shows."""
    if not len(states.first):
        return jnp.zeros((0, len(observed)), observed.dtype)

    def one(row: tuple[Int[Array, " candidates"], Float[Array, " columns"]]) -> Float[Array, " pairs"]:
        mine, seen = row
        chosen = jnp.take(components, mine, axis=0, mode="clip")
        return ((chosen * seen) @ chosen.T)[states.first, states.second]

    return jax.lax.map(one, (candidates.T, observed), batch_size=BLOCK).T
