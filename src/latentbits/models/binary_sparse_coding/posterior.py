"""The truncated posterior of binary causes: which states of a row are looked at, and expectations over them.

A state's log-probability is a quadratic form in its bits.  With G = W W', a = W y and p = 1 / sigma^2

    log p(s, y) = base(y) + sum_h s_h l_h + sum_{i<j} s_i s_j q_ij,
    l_h = p a_h - p G_hh / 2 + logit(pi),      q_ij = -p G_ij,
    base(y) = H log(1 - pi) - D/2 log(2 pi sigma^2) - p |y|^2 / 2,

so s W is never formed: the energies of all states of all rows of a chunk are one product of a constant table of states
with the linear and pair terms of each row's candidates, and the expectations (3) are one product back.

Missing entries leave the likelihood: a, |y|^2 and G are then sums over what the row shows, and each row has a G.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.module import Module
from latentbits.core.states import sparse_states
from latentbits.models.binary_sparse_coding import kernels
from latentbits.models.binary_sparse_coding.candidates import linear_terms, select
from latentbits.models.binary_sparse_coding.tuning import GATHERED_ROWS

__all__ = [
    "ON_CPU",
    "Expectations",
    "Params",
    "Shared",
    "States",
    "Way",
    "candidate_pairs",
    "energies",
    "expectations",
    "pair_numbers",
    "state_table",
    "terms",
]


class Params(Module):
    """W -> components, sigma -> noise_std, pi -> prior.

    And what is to be known of a fit: how often an unused cause was given a new start, and the estimated mean of what
    states outside K_n would add to the log evidence of a row, in nats (0 before it is estimated).
    Axes before those are of several starts (`initialisation.py`).
    """

    components: Float[Array, "*starts causes columns"]
    noise_std: Float[Array, "*starts"]
    prior: Float[Array, "*starts"]
    reseeded: Float[Array, "*starts"]
    truncation_loss: Float[Array, "*starts"]


class Shared(Module):
    """Numbers that the rows of a pass share.

    `threshold`, `centre` and `width` are for the selection of rows (`selection.py`), `drawn` is for `reseed_units.py`.
    """

    constant: Float[Array, "*starts"]  # H log(1 - pi)
    column: Float[Array, "*starts"]  # log(2 pi sigma^2) / 2, for each observed column
    logit: Float[Array, "*starts"]  # of pi
    precision: Float[Array, "*starts"]
    coldness: Float[Array, "*starts"]  # 1 / temperature
    norms: Float[Array, "*starts causes"]
    gram: Float[Array, "*starts causes causes"]
    threshold: Float[Array, "*starts"]
    centre: Float[Array, "*starts"]
    width: Float[Array, "*starts"]
    drawn: Int[Array, "*starts drawn"]


class States(NamedTuple):
    """The states of eq. (4) over the candidates of a row, the same for all rows."""

    bits: np.ndarray  # (states, candidates); the first one is empty
    features: np.ndarray  # (states, candidates + pairs): the bits, and which pairs are on together
    # first, second: the two candidates of each pair
    first: np.ndarray
    second: np.ndarray


class Way(NamedTuple):
    """The way in which a device goes about it; results are the same but for rounding."""

    # along which causes, candidates and states lie; rows lie along the other.  On a CPU it is 0: reductions then run
    # along whole vectors of rows.  On a GPU it is 1: the threads that reduce a row read what lies side by side.
    axis: int = 0
    precision: jax.lax.DotAlgorithmPreset | None = None  # of the product W y; None is full precision
    cuda: bool = False  # whether the kernels of `kernels.py` are used


ON_CPU = Way()


class Expectations(Module):
    """Expectations (3) over the truncated posterior of each row, along the axis of a `Way`."""

    log_evidence: Float[Array, " rows"]
    means: Float[Array, "_ _"]
    candidates: Int[Array, "_ _"]
    pairs: Float[Array, "_ _"] | None  # None where all states were summed over at once:
    posterior: AllStates | None = None


class AllStates(Module):
    """p(s | y) of all states of each row: weights, and what they add up to."""

    weights: Float[Array, "states rows"]
    total: Float[Array, " rows"]

    def pair_sums(self, use: Float[Array, " rows"]) -> Float[Array, "causes causes"]:
        """Compute sum_n use <s_i s_j> of i < j: rows are summed over first, so that none needs <s_i s_j> itself."""
        by_state = self.weights @ (use / self.total)
        bits = jnp.asarray(all_states(len(by_state).bit_length() - 1), use.dtype)
        return jnp.triu(bits.T @ (by_state[:, None] * bits), 1)


class Terms(Module):
    """The quadratic form of each row: its linear terms, and the pair terms of its candidates.

    The states of one active cause that is no candidate add e^top total.
    """

    base: Float[Array, " rows"]
    linear: Float[Array, "_ _"]
    candidates: Int[Array, "_ _"]
    chosen: Float[Array, "_ _"]  # the linear terms of the candidates
    pairs: Float[Array, "_ _"]
    top: Float[Array, "_ _"]
    total: Float[Array, "_ _"]


@cache
def state_table(n_candidates: int, max_active: int) -> States:
    """List all states of at most `max_active` of `n_candidates` causes."""
    bits = sparse_states(n_candidates, max_active)
    first, second = (i.astype(np.int32) for i in np.triu_indices(n_candidates, 1))
    return States(bits, np.concatenate([bits, bits[:, first] & bits[:, second]], 1), first, second)


@cache
def all_states(n: int) -> np.ndarray:
    """List all states of n causes, in the order of binary numbers: the first causes change least."""
    return np.arange(2**n)[:, None] >> np.arange(n)[::-1] & 1


def terms(params: Params, shared: Shared, batch: Batch, states: States, way: Way = ON_CPU) -> Terms:
    """Compute the quadratic form whose exponential is p(s, y), with the candidates of eq. (5)."""
    rows, axis = batch.values, way.axis
    match = _times(params.components, rows if axis else rows.T, way)
    if batch.observed is None:
        norms = jnp.expand_dims(shared.norms, 1 - axis)
        n_observed = jnp.asarray(rows.shape[1], rows.dtype)
    else:
        norms = _times(jnp.square(params.components), batch.observed if axis else batch.observed.T, Way(axis))
        n_observed = batch.observed.sum(1)
    # the linear terms, and the candidates
    base = shared.constant - n_observed * shared.column - 0.5 * shared.precision * jnp.sum(jnp.square(rows), 1)
    slope, offset = shared.coldness * shared.precision, shared.coldness * shared.logit
    linear = linear_terms(match, norms, slope, offset)
    n_candidates, n_causes = states.bits.shape[1], len(params.components)
    if n_candidates == n_causes:
        candidates = jnp.broadcast_to(jnp.expand_dims(jnp.arange(n_causes), 1 - axis), match.shape)
        chosen, total = linear, jnp.zeros_like(jnp.expand_dims(base, axis))
        top = total - jnp.inf
    else:
        if way.cuda:
            found = kernels.select(match, norms, slope, offset, n_candidates)
        else:
            found = select(match, norms, slope, offset, n_candidates, axis)
        candidates, top, total = found.candidates, found.top, found.total
        chosen = jnp.take_along_axis(linear, candidates, axis)
    # the pair terms of the candidates
    if batch.observed is None and n_candidates == n_causes:  # the same for all rows
        gram = jnp.expand_dims(shared.gram[states.first, states.second], 1 - axis)
        gram = jnp.broadcast_to(gram, (len(states.first), len(rows))[:: -1 if axis else 1])
    elif batch.observed is None:
        gram = shared.gram.reshape(-1)[pair_numbers(candidates, n_causes, states, axis)]
    else:
        gram = _observed_gram(params.components, candidates if axis else candidates.T, batch.observed, states)
        gram = gram if axis else gram.T
    return Terms(base, linear, candidates, chosen, -slope * gram, top, total)


def pair_numbers(candidates: Int[Array, "_ _"], n_causes: int, states: States, axis: int) -> Int[Array, "_ _"]:
    """Return the place of each pair of candidates in a matrix of all causes, which is read row by row."""
    return jnp.take(candidates, states.first, axis) * n_causes + jnp.take(candidates, states.second, axis)


def energies(states: States, t: Terms, axis: int = 0) -> Float[Array, "_ _"]:
    """Compute log p(s, y) - base(y) of the states over the candidates of each row."""
    return _times(jnp.asarray(states.features, t.base.dtype), jnp.concatenate([t.chosen, t.pairs], axis), Way(axis))


def expectations(params: Params, shared: Shared, batch: Batch, states: States, way: Way = ON_CPU) -> Expectations:
    """Compute truncated expectations of s and of pairs of candidates, and log sum_{s in K_n} p(s, y)."""
    t, axis = terms(params, shared, batch, states, way), way.axis
    n_candidates, n_features = states.bits.shape[1], states.features.shape[1]
    if axis == 0 and batch.observed is None and len(states.bits) == 2 ** len(params.components):
        return _over_all_states(shared, t)
    if way.cuda and n_features <= 127:  # these and 1 fill a row of a tile
        top, sums = kernels.sum_states(states.features, jnp.concatenate([t.chosen, t.pairs], 1))
    else:
        top, sums = _sum_states(states, t, axis)
    # the states over the candidates, and those of one cause that is none
    highest = jnp.maximum(top, t.top)
    single, pairs, total = jnp.split(sums * jnp.exp(top - highest), [n_candidates, n_features], axis)
    total = total + t.total * jnp.exp(t.top - highest)
    log_evidence = t.base + jnp.squeeze(highest + jnp.log(total), axis) / shared.coldness
    if n_candidates == len(params.components):
        return Expectations(log_evidence, single / total, t.candidates, pairs / total)
    means = jnp.exp(t.linear - highest) / total
    number = jnp.expand_dims(jnp.arange(len(params.components)), 1 - axis)
    for cause, mean in zip(*(jnp.split(x, n_candidates, axis) for x in (t.candidates, single / total)), strict=True):
        means = jnp.where(number == cause, mean, means)
    return Expectations(log_evidence, means, t.candidates, pairs / total)


def _sum_states(states: States, t: Terms, axis: int) -> tuple[Float[Array, "_ _"], Float[Array, "_ _"]]:
    """Find the highest energy, and sum the features f and 1 over states, with weights e^(energy - highest)."""
    energy = energies(states, t, axis)
    top = jnp.max(energy, axis, keepdims=True)
    table = jnp.asarray(np.pad(states.features, ((0, 0), (0, 1)), constant_values=1), energy.dtype)
    return top, _times(table.T, jnp.exp(energy - top), Way(axis))


def _over_all_states(shared: Shared, t: Terms) -> Expectations:
    """Compute expectations where all rows have the same pair terms.

    A state is one of the first causes with one of the rest: its energy is that of both, which are few, and a term
    of the two that is the same for all rows.  So energies are sums rather than products.
    """
    n = len(t.linear)
    first, rest = (jnp.asarray(all_states(k), t.base.dtype) for k in (n // 2, n - n // 2))
    q = jnp.triu(-shared.coldness * shared.precision * shared.gram, 1)
    low, high = t.linear[: n // 2], t.linear[n // 2 :]
    of_first = first @ low + jnp.sum(first @ q[: n // 2, : n // 2] * first, 1)[:, None]
    of_rest = rest @ high + jnp.sum(rest @ q[n // 2 :, n // 2 :] * rest, 1)[:, None]
    of_both = first @ q[: n // 2, n // 2 :] @ rest.T
    energy = of_both[:, :, None] + of_first[:, None] + of_rest
    # weights of the states, and their sums with each cause on
    top = jnp.max(energy, (0, 1))
    weights = jnp.exp(energy - top).reshape(2**n, -1)
    counted = jnp.asarray(np.pad(all_states(n), ((0, 0), (0, 1)), constant_values=1), weights.dtype)
    sums = counted.T @ weights
    total = sums[-1]
    log_evidence = t.base + (top + jnp.log(total)) / shared.coldness
    return Expectations(log_evidence, sums[:-1] / total, t.candidates, None, AllStates(weights, total))


def _times(table: Float[Array, "m k"], x: Float[Array, "_ _"], way: Way) -> Float[Array, "_ _"]:
    """Multiply a table with each row of x."""
    left, right = (x, table.T) if way.axis else (table, x)
    return jnp.matmul(left, right, precision=way.precision)


def candidate_pairs(pairs: Float[Array, "rows pairs"], states: States) -> Float[Array, "rows candidates candidates"]:
    """Return <s_i s_j> of the candidates of each row as a symmetric matrix with 0 on its diagonal."""
    n = states.bits.shape[1]
    square = jnp.zeros((len(pairs), n, n), pairs.dtype)
    return square.at[:, states.first, states.second].set(pairs).at[:, states.second, states.first].set(pairs)


def _observed_gram(
    components: Float[Array, "causes columns"],
    candidates: Int[Array, "rows candidates"],
    observed: Float[Array, "rows columns"],
    states: States,
) -> Float[Array, "rows pairs"]:
    """Compute G_ij of the candidates over the columns that each row shows."""
    if not len(states.first):
        return jnp.zeros((len(observed), 0), observed.dtype)

    def one(row: tuple[Int[Array, " candidates"], Float[Array, " columns"]]) -> Float[Array, " pairs"]:
        mine, seen = row
        chosen = jnp.take(components, mine, axis=0, mode="clip")
        return ((chosen * seen) @ chosen.T)[states.first, states.second]

    return jax.lax.map(one, (candidates, observed), batch_size=GATHERED_ROWS)
