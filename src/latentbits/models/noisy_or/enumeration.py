"""Sums over all states of the hidden layers, exactly, for networks with few units.

The layers are a chain: given layer 1 the inputs know nothing of layer 2.  So the sum over all states together falls
apart into sums over pairs of neighbouring layers,

    p(S^l) = sum_{S^{l+1}} p(S^{l+1}) p(S^l | S^{l+1}),     from the top down, once for all rows (`log_prior`),
    p(x)   = sum_{S^1} p(S^1) p(x | S^1),

and for the upper layers the states of layer l are but rows of data, whose weights are the probabilities that they have
given the real rows (`expected_statistics`).  With a the bits that are on, in every pair

    log p(a | S) = sum_j a_j [log(1 - exp(-u_j)) + u_j] - sum_j u_j

is a matrix product of rows with states.  States come in blocks, with a running log-sum-exp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array, namespace
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.module import Module
from latentbits.core.special import log1mexp
from latentbits.core.states import state_block
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.network import Params

__all__ = [
    "completion",
    "drawn_states",
    "expected_statistics",
    "log_evidence",
    "log_prior",
    "n_pairs",
    "posterior_means",
]


Priors = tuple[Float[Array, " _"], ...]  # log p(S) of all states of each hidden layer, bottom first


class Statistics(Module):
    """Sums over rows that the update (9) needs.

    For the weights between parents i and children j, S_j the state of the child, m_j = 1 where it was observed, and
    g_j = 1 - exp(-u_j), ``f_ij = 1 - exp(-w_ij)`` has its maximum of likelihood at ``f_ij credit_ij / count_ij``.
    """

    # counts, credits: ``sum_n E[S_i m_j]`` and ``sum_n E[S_i S_j m_j / g_j]``, each (parents, children), bottom first
    counts: tuple[Float[Array, "_ _"], ...]
    credits: tuple[Float[Array, "_ _"], ...]
    # bias_counts, bias_credits: the same for the cause that is always on, inputs first; the top layer has no other
    bias_counts: tuple[Float[Array, " _"], ...]
    bias_credits: tuple[Float[Array, " _"], ...]


def n_pairs(sizes: Sequence[int]) -> int:
    """Count pairs of states of the two neighbouring hidden layers that have most, or states of a single one.

    >>> n_pairs([20, 2]), n_pairs([10])
    (4194304, 1024)
    """
    return max(2 ** (a + b) for a, b in pairwise([*sizes, 0]))


def log_prior(params: Params) -> Priors:
    """Compute log p(S) of all states of each hidden layer, in the order of `latentbits.core.states.all_states`."""
    xp = namespace(params.biases[0])
    priors = [xp.zeros_like(params.biases[-1], shape=(1,))]  # of a layer above the top: one state, empty
    for layer in reversed(range(1, len(params.biases))):
        bias, above = params.biases[layer], priors[0]
        weights = params.weights[layer] if layer < len(params.weights) else xp.zeros_like(bias, shape=(0, len(bias)))
        if 2 ** len(bias) * len(above) <= tuning.EXACT_MOST_PAIRS:
            states, parents = (state_block(xp.asarray(0), 2**n, n).astype(bias.dtype) for n in weights.shape[::-1])
            joint = _log_joint(weights, bias, above, parents, states, None)
            top = xp.max(joint, 1)
            priors.insert(0, top + xp.log(xp.sum(xp.exp(joint - top[:, None]), 1)))
            continue

        def row_block(states: Array, weights: Array = weights, bias: Array = bias, above: Array = above) -> Array:
            return _average(weights, bias, above, states, None)[0]

        priors.insert(0, _map_states(row_block, len(bias), bias.dtype).reshape(-1))
    return tuple(priors[:-1])


def log_evidence(
    params: Params,
    prior: Priors,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
) -> Float[Array, " rows"]:
    """Compute log p(x) of every row; inputs that were not observed are left out.

    `prior`: from `log_prior`.  `observed`: None where all are.
    """
    return _average(params.weights[0], params.biases[0], prior[0], x, observed)[0]


def posterior_means(
    params: Params,
    prior: Priors,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
) -> tuple[Float[Array, "rows _"], ...]:
    """Compute P(S_i = 1 | x) of every unit of every hidden layer, bottom first."""
    upper = Params(params.weights[1:], params.biases[1:])

    def features(states: Array) -> Array:
        above = posterior_means(upper, prior[1:], states, None) if upper.weights else ()
        return jnp.concatenate([states, *above], axis=1)

    means = _average(params.weights[0], params.biases[0], prior[0], x, observed, features)[1]
    sizes = [len(w) for w in params.weights]
    return tuple(jnp.split(means, [sum(sizes[:k]) for k in range(1, len(sizes))], axis=1))


def completion(
    params: Params,
    prior: Priors,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
) -> Float[Array, "rows columns"]:
    """Compute P(bit = 1 | observed bits) of every input, as if it were one more input beside those observed."""
    weights, bias = params.weights[0], params.biases[0]
    return _average(weights, bias, prior[0], x, observed, lambda states: -jnp.expm1(-(bias + states @ weights)))[1]


def drawn_states(
    params: Params,
    prior: Priors,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
    uniform: Float[Array, " rows"],
) -> tuple[Float[Array, "units rows"], Float[Array, "units rows"]]:
    """Draw states of the lowest hidden layer given each row; with P(S_i = 1 | rest) of each unit in its state.

    All states lie side by side, so they should be few.

    `uniform`: a number between 0 and 1 for each row.
    """
    weights = params.weights[0]
    n_units, n = len(weights), len(x)
    states = state_block(jnp.asarray(0), 2**n_units, n_units).astype(x.dtype)
    joint = _log_joint(weights, params.biases[0], prior[0], states, x, observed)
    share = jnp.exp(joint - jnp.max(joint, 1, keepdims=True))
    # first one of many groups of states, then one within it: running sums are products with triangles
    side = 2 ** (n_units // 2)
    groups = share.reshape(n, -1, side)
    group, left = _drawn(jnp.sum(groups, 2), uniform)
    chosen = jnp.sum(jnp.where((jnp.arange(groups.shape[1]) == group[:, None])[:, :, None], groups, 0), 1)
    place, _ = _drawn(chosen, left)
    number = group * side + place
    bit = 2 ** jnp.arange(n_units)
    on = number[:, None] | bit
    log_odds = jnp.take_along_axis(joint, on, 1) - jnp.take_along_axis(joint, on - bit, 1)
    return ((number[:, None] & bit) > 0).astype(x.dtype).T, jax.nn.sigmoid(log_odds).T


def _drawn(
    share: Float[Array, "rows states"], uniform: Float[Array, " rows"]
) -> tuple[Int[Array, " rows"], Float[Array, " rows"]]:
    """Draw a state of each row with a probability like its share; with what is left of the uniform number within it."""
    n = share.shape[1]
    below = share @ jnp.tri(n, dtype=share.dtype).T  # running sums
    target = uniform * below[:, -1]
    found = jnp.minimum(jnp.sum(target[:, None] >= below, 1), n - 1)
    own = jnp.arange(n) == found[:, None]
    size, top = (jnp.sum(jnp.where(own, x, 0), 1) for x in (share, below))
    return found, jnp.clip(1 - (top - target) / jnp.maximum(size, 1e-30), 0, 1)


def expected_statistics(
    params: Params,
    prior: Priors,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
    weight: Float[Array, " rows"],
) -> tuple[Statistics, Float[Array, " rows"]]:
    """Compute the E-step of exact EM.

    `weight`: one for every row; those of weight 0 may hold anything.  Returns sums over rows, and log p(x) of each.
    """
    seen = weight > 0
    x = jnp.where(seen[:, None], x, 0)
    value, sums, load = _layer_sums(params.weights[0], params.biases[0], prior[0], x, observed, weight)
    layers = [sums]
    for layer in range(1, len(params.weights)):
        weights, bias, above = params.weights[layer], params.biases[layer], prior[layer]
        sums, load = _state_sums(weights, bias, above, load)
        layers.append(sums)
    # the top layer has no parents: its own states are all that counts
    bias = params.biases[-1]
    top, _ = _state_sums(jnp.zeros((0, len(bias)), bias.dtype), bias, jnp.zeros(1, bias.dtype), load)
    layers.append(top)
    counts, credits, bias_counts, bias_credits = zip(*layers, strict=True)
    return Statistics(counts[:-1], credits[:-1], bias_counts, bias_credits), value


def _map_states(function: Callable[[Array], Array], n_units: int, dtype: jnp.dtype) -> Array:
    """Apply a function of a block of states to all blocks of all states of a layer, on a new first axis."""
    size = min(2**n_units, tuning.STATE_ROWS_PER_BLOCK)
    firsts = jnp.arange(0, 2**n_units, size)
    return jax.lax.map(lambda first: function(state_block(first, size, n_units).astype(dtype)), firsts)


def _block_size(n_rows: int, n_states: int) -> int:
    """Choose how many states a block has: a power of two, so that blocks are full."""
    room = 2 ** ((tuning.STATE_CELLS_PER_BLOCK // n_rows).bit_length() - 1)
    return min(n_states, max(tuning.STATE_LEAST_PER_BLOCK, room))


def _log_joint(
    weights: Float[Array, "units children"],
    bias: Float[Array, " children"],
    prior: Float[Array, " states"],
    states: Float[Array, "states units"],
    on: Float[Array, "rows children"],
    observed: Float[Array, "rows children"] | None,
) -> Float[Array, "rows states"]:
    """Compute log p(S) + log p(row | S) for a block of states S of the parents."""
    u = bias + states @ weights
    if observed is None:
        return on @ (log1mexp(u) + u).T + (prior - namespace(u).sum(u, 1))
    return (on * observed) @ (log1mexp(u) + u).T + (prior - observed @ u.T)


def _average(
    weights: Float[Array, "units children"],
    bias: Float[Array, " children"],
    prior: Float[Array, " states"],
    on: Float[Array, "rows children"],
    observed: Float[Array, "rows children"] | None,
    features: Callable[[Array], Array] = lambda states: states[:, :0],
) -> tuple[Float[Array, " rows"], Float[Array, "rows features"]]:
    """Compute log sum over the parents' states of p(row, S), and the average of a function of S with these weights."""
    n_units, n_rows = len(weights), len(on)
    size = _block_size(n_rows, len(prior))

    def step(carry: tuple[Array, Array, Array], first: Array) -> tuple[tuple[Array, Array, Array], None]:
        top, total, sums = carry
        states = state_block(first, size, n_units).astype(on.dtype)
        own = jax.lax.dynamic_slice_in_dim(prior, first, size)
        joint = _log_joint(weights, bias, own, states, on, observed)
        new = jnp.maximum(top, jnp.max(joint, 1))
        share = jnp.exp(joint - new[:, None])
        shrink = jnp.exp(top - new)
        total = total * shrink + jnp.sum(share, 1)
        return (new, total, sums * shrink[:, None] + share @ features(states)), None

    n_features = jax.eval_shape(features, jax.ShapeDtypeStruct((size, n_units), on.dtype)).shape[1]
    start = (
        jnp.full(n_rows, -jnp.inf, on.dtype),
        jnp.zeros(n_rows, on.dtype),
        jnp.zeros((n_rows, n_features), on.dtype),
    )
    (top, total, sums), _ = jax.lax.scan(step, start, jnp.arange(0, len(prior), size))
    return top + jnp.log(total), sums / total[:, None]


Sums = tuple[Array, Array, Array, Array]  # counts, credits, bias counts, bias credits


def _layer_sums(
    weights: Float[Array, "units children"],
    bias: Float[Array, " children"],
    prior: Float[Array, " states"],
    on: Float[Array, "rows children"],
    observed: Float[Array, "rows children"] | None,
    weight: Float[Array, " rows"],
) -> tuple[Float[Array, " rows"], Sums, Float[Array, " states"]]:
    """Compute log evidence of the rows, statistics of one layer of weights, and the weight that falls on each state."""
    n_units = len(weights)
    size = _block_size(len(on), len(prior))
    on_seen = on if observed is None else on * observed

    def counted(states: Array, share: Array) -> tuple[tuple[Array, Array, Array], Array]:
        """Sum over rows of a block of states, where each row has a weight."""
        load = sum_over_rows(share)
        credit = over_rows(share, on_seen) / -jnp.expm1(-(bias + states @ weights))
        seen = jnp.broadcast_to(load[:, None], credit.shape) if observed is None else over_rows(share, observed)
        return (states.T @ seen, states.T @ credit, sum_over_rows(credit)), load

    bias_counts = jnp.full(bias.shape, jnp.sum(weight)) if observed is None else weight @ observed
    if size == len(prior):  # one block: log p(row, S) is needed once
        states = state_block(jnp.asarray(0), size, n_units).astype(on.dtype)
        joint = _log_joint(weights, bias, prior, states, on, observed)
        top = jnp.max(joint, 1)
        share = jnp.exp(joint - top[:, None])
        total = jnp.sum(share, 1)
        (counts, credits, bias_credits), load = counted(states, (weight / total)[:, None] * share)
        return top + jnp.log(total), (counts, credits, bias_counts, bias_credits), load
    value = _average(weights, bias, prior, on, observed)[0]

    def step(sums: tuple[Array, Array, Array], first: Array) -> tuple[tuple[Array, Array, Array], Array]:
        states = state_block(first, size, n_units).astype(on.dtype)
        own = jax.lax.dynamic_slice_in_dim(prior, first, size)
        joint = _log_joint(weights, bias, own, states, on, observed)
        new, load = counted(states, weight[:, None] * jnp.exp(joint - value[:, None]))
        return jax.tree.map(jnp.add, sums, new), load

    zero = jnp.zeros_like(weights)
    (counts, credits, bias_credits), load = jax.lax.scan(
        step, (zero, zero, jnp.zeros_like(bias)), jnp.arange(0, len(prior), size)
    )
    return value, (counts, credits, bias_counts, bias_credits), load.reshape(-1)


def _state_sums(
    weights: Float[Array, "units children"],
    bias: Float[Array, " children"],
    prior: Float[Array, " states"],
    load: Float[Array, " children_states"],
) -> tuple[Sums, Float[Array, " states"]]:
    """Compute `_layer_sums` where the rows are all states of the children, each with its weight."""
    n_children = len(bias)
    size = min(len(load), tuning.STATE_ROWS_PER_BLOCK)

    def step(total: tuple[Sums, Array], first: Array) -> tuple[tuple[Sums, Array], None]:
        rows = state_block(first, size, n_children).astype(bias.dtype)
        own = jax.lax.dynamic_slice_in_dim(load, first, size)
        part = _layer_sums(weights, bias, prior, rows, None, own)[1:]
        return jax.tree.map(jnp.add, total, part), None

    zero = (jnp.zeros_like(weights), jnp.zeros_like(weights), jnp.zeros_like(bias), jnp.zeros_like(bias))
    (sums, above), _ = jax.lax.scan(step, (zero, jnp.zeros_like(prior)), jnp.arange(0, len(load), size))
    return sums, above
