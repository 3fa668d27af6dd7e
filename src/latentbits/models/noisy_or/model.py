"""Multilayer noisy-OR belief networks (Lewicki & Sejnowski 1996), learned by Gibbs sampling and EM.

    (1), (2)   the joint probability, causal inputs      `network.py`
    (3), (4)   the probability of the data               `enumeration.py` (exact), `annealing.py` (estimated)
    (5)-(7)    Gibbs sampling with feedback from above   `gibbs.py`
    (8), (9)   gamma prior, EM update of the weights     `learning.py`

Layers are learned from the bottom up (section 4).  While layer l is learned, the layers above it have no weights, and
the biases of layer l are the prior probabilities of its units; when the next layer comes, most of that is left to it.

Beyond the paper: idle units are put to new use as learning goes on (`renewal.py`), and at the end all layers are
adapted together, where there are few units by exact EM (`climbing.py`), otherwise with statistics averaged over the
updates, so that the noise of the samples goes away (Delyon, Lavielle & Moulines 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, Key

from latentbits.core.batch import Batch
from latentbits.core.model import (
    Evaluate,
    Iterate,
    LogLikelihood,
    Measure,
    Model,
    Progress,
    Schedule,
    Stage,
    Summary,
    Transform,
)
from latentbits.core.secants import Secants
from latentbits.core.tree import sum_rows
from latentbits.models.noisy_or import climbing, enumeration
from latentbits.models.noisy_or.annealing import annealed_evidence
from latentbits.models.noisy_or.gibbs import folded, gibbs
from latentbits.models.noisy_or.learning import Stats, log_prior_density, new_weight, state_statistics
from latentbits.models.noisy_or.network import STRONGEST, Params, sample_layers
from latentbits.models.noisy_or.probable import probable_states
from latentbits.models.noisy_or.renewal import ODD_ROWS, choose_pivots, from_odd_rows, put_to_use
from latentbits.models.noisy_or.sampling import rows_last, sampled_means, states_on

__all__ = ["EXACT_LIKELIHOOD", "EXACT_MEANS", "Params", "Posterior", "Shared", "State", "Stats", "is_exact", "model"]

EXACT_LEARNING = 2**16  # pairs of states up to which EM sums over all of them
DRAWN = 2**10  # states of a single layer up to which it takes less time to draw one of all than to make a chain
EXACT_MEANS = 2**16  # posterior means and completions of a fitted network
EXACT_LIKELIHOOD = 2**22  # and log p(x), where an estimate costs more

START = (0.05, 0.15)  # weights to begin with, as in the paper
FIRST_PRIOR = 0.3  # biases of a layer that has no layer above it yet
FIRST_BIAS = 0.02  # and of the inputs
LEFT_OF_BIAS = 0.2  # part of its bias that a unit keeps when it gets parents
RARELY = 0.1  # ones in all rows: a bias of no less; a bit that was never on may be so in the next row
SETTLED = 0.05  # the paper's chain stops when no unit changes with this probability
STABLE = 0.1  # a unit that changes with less than this probability is ready to be learned from
RENEW_EVERY = 30  # updates
ODD_EVERY = 5  # late in the learning of a layer, when units start from the least probable rows
ENOUGH = 20.0  # rows in which a unit was on, from which its weights are learned
JOINT = 60  # updates of all layers together


class State(eqx.Module):
    """What an update hands to the next.

    Attributes
    ----------
    layer
        The hidden layer that is learned, from 1; one more than there are, where all are.
    step
        Updates in this stage.
    since
        Updates since idle units were put to new use.
    rows
        Most rows that an update of this stage had.
    pivots
        A child of each cause, by which it may be split.
    average
        Trials and successes of weights and biases, averaged over the last updates.
    change
        Of each hidden unit, the probability of a change in the last updates.
    met
        In how many rows each unit was observed, in all updates of this stage.
    gain
        Of each hidden unit, nats that it was good for in an update, averaged as its trials are.
    level
        Of each layer, nats that the least probable bits without a cause cost in the last update.
    """

    layer: Int[Array, ""]
    step: Int[Array, ""]
    since: Int[Array, ""]
    rows: Float[Array, ""]
    pivots: tuple[Int[Array, " _"], ...]
    average: tuple[tuple[Array, ...], ...]
    change: tuple[Float[Array, " _"], ...]
    met: tuple[Float[Array, " _"], ...]
    gain: tuple[Float[Array, " _"], ...]
    level: tuple[Float[Array, ""], ...]


class Shared(eqx.Module):
    """What a pass needs and no row changes."""

    depth: Int[Array, ""]
    n_sweeps: Int[Array, ""]
    penalised: Bool[Array, ""]  # whether the objective has the prior of the weights
    pivots: tuple[Int[Array, " _"], ...]
    level: tuple[Float[Array, ""], ...]
    log_prior: tuple[Float[Array, " _"], ...]  # of all states of each layer, where they are summed over


class Evidence(NamedTuple):
    """Sums over rows where nothing is learned: log p(x) in place of the joint probability."""

    n_rows: Float[Array, ""]
    log_joint: Float[Array, "2"]


class Posterior(eqx.Module):
    """P(S_i = 1 | x) of all hidden units, the lowest layer first; and their most probable states together."""

    mean: Float[Array, "rows units"]
    mode: Float[Array, "rows units"]
    log_joint: Float[Array, " rows"]


def is_exact(sizes: Sequence[int], limit: int) -> bool:
    """Whether sums over all hidden states are within a limit of `EXACT_...`."""
    return enumeration.n_pairs(sizes) <= limit


def keeping_layers(init: Any, learned: Params) -> Any:
    """An `init` whose lower layers have been learned already."""
    return Partial(_keep, init, learned)


def _keep(init: Any, learned: Params, key: Key[Array, ""], summary: Summary) -> Params:
    params = init(key, summary)
    n = len(learned.weights)
    weights = (*map(jnp.asarray, learned.weights), *params.weights[n:])
    return Params(weights, (*map(jnp.asarray, learned.biases), *params.biases[n + 1 :]))


class Settings(eqx.Module):
    """What a network is, and how it is learned: numbers are arguments of what is compiled, the rest is its structure.

    Attributes
    ----------
    layer_sizes
        Units of each hidden layer, bottom first.
    bias
        Whether biases are learned; otherwise they are `leak`, but for those of the top layer.
    learner
        "robust", or as in the "paper".
    schedule
        Of the paper: "layers" one after the other; all "together"; or by "stability", all too, but weights to a unit
        once the unit itself rarely changes.
    inference
        "gibbs" or "exact" sums over states; "auto" explores by sampling, and sums at the end where it can.
    n_chains
        Of the estimate of log p(x).
    leak
        The least bias while layers are learned one by one; at the end biases may be as small as the table tells.
    alpha, beta
        Of the gamma prior of the weights; None is an alpha of 1, with which the update is a ratio.
    n_updates, n_joint
        Updates of each layer, and of all together, of the robust learner.
    n_sweeps
        Most sweeps of a chain.
    n_samples
        Chains a row.
    n_steps
        Of the estimate of log p(x).
    """

    layer_sizes: tuple[int, ...] = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    learner: str = eqx.field(static=True)
    schedule: str = eqx.field(static=True)
    inference: str = eqx.field(static=True)
    n_chains: int = eqx.field(static=True)
    leak: float
    alpha: float | None
    beta: float
    n_updates: int
    n_joint: int
    n_sweeps: int
    n_samples: int
    n_steps: int

    @property
    def n_layers(self) -> int:
        """Hidden ones."""
        return len(self.layer_sizes)

    @property
    def paper(self) -> bool:
        """Whether learning is the paper's."""
        return self.learner == "paper"

    @property
    def at_once(self) -> bool:
        """Whether all layers are learned from the beginning."""
        return self.paper and self.schedule != "layers"

    @property
    def exact_all(self) -> bool:
        """Whether every stage sums over states."""
        return self.inference == "exact"

    @property
    def exact_end(self) -> bool:
        """Whether the last stage does."""
        small = self.inference == "auto" and is_exact(self.layer_sizes, EXACT_LEARNING)
        return not self.paper and (self.exact_all or small)

    @property
    def drawn(self) -> bool:
        """Whether states to learn from are drawn from all states of a row rather than by chains."""
        return self.exact_end and not self.exact_all and self.n_layers == 1 and 2 ** self.layer_sizes[0] <= DRAWN

    @property
    def exact_means(self) -> bool:
        """Whether posterior means and completions are sums."""
        return is_exact(self.layer_sizes, EXACT_MEANS)


# ---------------------------------------------------------------- the beginning


def _add_layer(net: Settings, layer: int, key: Key[Array, ""], params: Params, state: State | None) -> Params:
    """Between two stages, on the host."""
    return _with_new_layer(net, layer, key, params)


@partial(jax.jit, static_argnums=1)
def _with_new_layer(net: Settings, layer: int, key: Key[Array, ""], params: Params) -> Params:
    """The network with hidden layer `layer` (from 1) at its start."""
    weights, biases = list(params.weights), list(params.biases)
    shape = weights[layer - 1].shape
    weights[layer - 1] = jax.random.uniform(key, shape, jnp.float64, *START)
    if layer > 1:
        kept = LEFT_OF_BIAS * biases[layer - 1] if net.bias else jnp.zeros_like(biases[layer - 1])
        biases[layer - 1] = jnp.maximum(kept, net.leak)
    return Params(tuple(weights), tuple(biases))


def _init(net: Settings, key: Key[Array, ""], summary: Summary) -> Params:
    sizes = [len(summary.mean), *net.layer_sizes]
    weights = tuple(jnp.zeros((above, below)) for below, above in pairwise(sizes))
    first = jnp.full(sizes[0], jnp.maximum(FIRST_BIAS, net.leak) if net.bias else net.leak)
    params = Params(weights, (first, *(jnp.full(size, FIRST_PRIOR) for size in net.layer_sizes)))
    for layer in range(1, net.n_layers + 1 if net.at_once else 2):
        params = _with_new_layer(net, layer, jax.random.fold_in(key, layer), params)
    return params


def _start(net: Settings, layer: Int[Array, ""] | int, params: Params) -> State:
    weights, biases = (jax.tree.map(jnp.zeros_like, x) for x in (params.weights, params.biases))
    return State(
        layer=jnp.asarray(layer),
        step=jnp.asarray(0),
        since=jnp.asarray(0),
        rows=jnp.asarray(0.0),
        pivots=tuple(jnp.zeros(len(w), jnp.int32) for w in params.weights),
        average=(weights, weights, biases, biases),
        change=tuple(jnp.ones(size) for size in net.layer_sizes),
        met=biases,
        gain=tuple(jnp.zeros(size) for size in net.layer_sizes),
        level=tuple(jnp.asarray(0.0) for _ in net.layer_sizes),
    )


def _prepare(net: Settings, params: Params, state: State | Secants | None, progress: Progress | None) -> Shared:
    state = state if isinstance(state, State) else _start(net, net.n_layers + 1, params)
    together = (state.layer > net.n_layers) & (not net.paper)  # states of a whole network take longer to find
    summed = net.exact_means if progress is None else net.exact_end or net.exact_all
    return Shared(
        depth=jnp.minimum(state.layer, net.n_layers).astype(jnp.int32),
        penalised=jnp.asarray(net.exact_all) | ((state.layer > net.n_layers) & net.exact_end),
        n_sweeps=jnp.where(together, 2 * net.n_sweeps, net.n_sweeps).astype(jnp.int32),
        pivots=state.pivots,
        level=state.level,
        log_prior=enumeration.log_prior(params) if summed else (),
    )


# ---------------------------------------------------------------- statistics


def _sampled(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    on, off, observed = rows_last(batch)
    keys = batch.keys
    frozen = tuple(jnp.full((size, len(keys)), number > shared.depth) for number, size in enumerate(net.layer_sizes, 1))

    def drawn(own: Key[Array, " rows"]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """States, and the chances that they were drawn from."""
        if net.drawn:
            uniform = jax.vmap(lambda key: jax.random.uniform(key, (), on.dtype))(own)
            found = enumeration.drawn_states(params, shared.log_prior, batch.values, batch.observed, uniform)
            return found[:1], found[1:]
        begin = tuple(jnp.where(f, 0, s) for f, s in zip(frozen, states_on(params, len(keys)), strict=True))
        stop = SETTLED if net.paper else 0.0
        chains = gibbs(params, on, off, begin, folded(own, 1), shared.n_sweeps, stop_below=stop, frozen=frozen)
        return chains.states, chains.chances

    def chain(number: Array) -> Stats:
        states, chances = drawn(folded(keys, number))
        weight = batch.weight / net.n_samples
        return state_statistics(
            params, on, observed, states, chances, weight, shared.pivots, shared.depth, shared.level
        )

    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(chain, jnp.asarray(0)))
    stats = jax.lax.fori_loop(
        0, net.n_samples, lambda number, total: jax.tree.map(jnp.add, total, chain(number)), nothing
    )
    return eqx.tree_at(lambda s: s.n_rows, stats, batch.weight.sum()), None  # thirds need not add up to one


def _summed(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    found, log_p = enumeration.expected_statistics(params, shared.log_prior, batch.values, batch.observed, batch.weight)
    credit = tuple(-jnp.expm1(-w) * c for w, c in zip(params.weights, found.credits, strict=True))
    bias_credit = tuple(-jnp.expm1(-b) * c for b, c in zip(params.biases, found.bias_credits, strict=True))
    nothing = tuple(jnp.zeros(size, log_p.dtype) for size in net.layer_sizes)
    return Stats(
        n_rows=batch.weight.sum(),
        log_joint=sum_rows(batch.weight, log_p),
        seen=found.counts,
        credit=credit,
        bias_seen=found.bias_counts,
        bias_credit=bias_credit,
        pivot_seen=found.counts,
        pivot_credit=credit,
        gain=nothing,
        change=nothing,
        odd=tuple(jnp.zeros(w.shape[1], log_p.dtype) for w in params.weights),
        odd_weight=tuple(jnp.zeros((), log_p.dtype) for _ in params.weights),
    ), None


def _estimated(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Evidence, None]:
    value = _log_likelihood(net, params, shared, batch).value
    return Evidence(batch.weight.sum(), sum_rows(batch.weight, value)), None


def _objective(net: Settings, params: Params, shared: Shared, stats: Stats | Evidence) -> Float[Array, ""]:
    return stats.log_joint.sum() + jnp.where(shared.penalised, log_prior_density(params, net.alpha, net.beta), 0.0)


# ---------------------------------------------------------------- learning


def _update(
    net: Settings, state: State, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[State, Params]:
    # the rest of a table may be a few rows: the statistics before make up for those that it lacks
    rows = jnp.maximum(state.rows, stats.n_rows)
    whole = stats.n_rows / jnp.where(rows > 0, rows, 1)
    met = jax.tree.map(jnp.add, state.met, stats.bias_seen)
    table = [m / (progress.iteration + 1.0) for m in met]  # rows of it that have been met
    part = rows / jnp.maximum(jnp.max(table[0]), rows)
    memory = _memory(net, state, part)
    average = _averaged(state, stats, whole, memory)
    gain = tuple(old + m * (new - old * whole) for old, new, m in zip(state.gain, stats.gain, memory, strict=True))
    change = tuple(c / jnp.where(stats.n_rows > 0, stats.n_rows, 1) for c in stats.change)
    fitted = _fitted(net, state.layer, params, average, change, table)
    due = (state.since >= RENEW_EVERY - 1) & (state.step < net.n_updates - RENEW_EVERY) & (whole > 0.5)
    due = due & (state.layer <= net.n_layers)
    if not net.paper and not net.exact_all:
        fitted = jax.lax.cond(due, partial(_renewed, net, progress.key, state, stats), lambda fitted: fitted, fitted)
        worth = [g / m for g, m in zip(gain, memory, strict=True)]  # in all the rows that are remembered
        fitted, average = _with_rare_causes(net, state, fitted, average, stats, worth, part)
    pivots = tuple(
        choose_pivots(jax.random.fold_in(progress.key, net.n_layers + layer), -jnp.expm1(-w))
        for layer, w in enumerate(fitted.weights)
    )
    since = jnp.where(due, 0, state.since + 1)
    level = tuple(
        old + jnp.log(jnp.clip(total, 1e-9, 1e30)) for old, total in zip(state.level, stats.odd_weight, strict=True)
    )
    return State(state.layer, state.step + 1, since, rows, pivots, average, change, met, gain, level), fitted


def _climb(
    net: Settings, state: Secants, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Secants, Params]:
    """The update of exact EM of all layers together; weights stay between the same bounds as those of EM itself."""
    average = stats.seen, stats.credit, stats.bias_seen, stats.bias_credit
    image = _fitted(net, jnp.asarray(net.n_layers + 1), params, average, stats.change, stats.bias_seen)
    value = _objective(net, params, shared, stats)
    state, ahead = climbing.climb(state, params, image, stats, value, net.alpha, net.beta)
    least = [_least_bias(net, jnp.asarray(True), n_rows) for n_rows in stats.bias_seen]
    biases = [jnp.clip(b, low, STRONGEST) for b, low in zip(ahead.biases, least, strict=True)]
    if not net.bias:
        biases[:-1] = params.biases[:-1]
    return state, Params(tuple(jnp.clip(w, 0, STRONGEST) for w in ahead.weights), tuple(biases))


def _memory(net: Settings, state: State, part: Float[Array, ""]) -> list[Float[Array, " _"]]:
    """Share of the last update in the statistics of each hidden unit, layer by layer.

    All layers together, the sampled statistics of the second half are averaged.  And once common causes have been
    found, what has been seen of a rare one must be remembered: where no row of an update has it, (9) would set its
    weights to zero for good.  So a unit looks back on so many updates that it was on in `ENOUGH` rows of them, or on
    the whole table.
    """
    late = state.step - net.n_joint // 2
    sampled = not (net.paper or net.exact_end or net.exact_all)
    every = state.layer > net.n_layers
    share = jnp.where(every & (late > 0) & sampled, 1 / (late + 1.0), 1.0)
    remembers = (_is_late(net, state) | (every & sampled)) & (not (net.paper or net.exact_all))
    shares = []
    for trials in state.average[0]:
        on = jnp.max(trials, axis=1)
        own = jnp.where((on > 0) & remembers, jnp.clip(on / ENOUGH, part, 1.0), 1.0)
        shares.append(jnp.minimum(share, own))
    return shares


def _averaged(
    state: State, stats: Stats, whole: Float[Array, ""], memory: Sequence[Float[Array, " _"]]
) -> tuple[tuple[Array, ...], ...]:
    """Trials and successes, each unit's with a memory of its own; the inputs' biases are as quick as any unit."""
    inputs = jnp.max(jnp.stack([jnp.max(m) for m in memory]))

    def mixed(old: tuple[Array, ...], new: tuple[Array, ...], shares: Sequence[Array]) -> tuple[Array, ...]:
        return tuple((1 - share * whole) * a + share * b for a, b, share in zip(old, new, shares, strict=True))

    seen, credit, bias_seen, bias_credit = state.average
    by_unit, own = [m[:, None] for m in memory], [inputs, *memory]
    return (
        mixed(seen, stats.seen, by_unit),
        mixed(credit, stats.credit, by_unit),
        mixed(bias_seen, stats.bias_seen, own),
        mixed(bias_credit, stats.bias_credit, own),
    )


def _fitted(
    net: Settings,
    current: Int[Array, ""],
    params: Params,
    average: tuple[tuple[Array, ...], ...],
    change: Sequence[Array],
    n_rows: Sequence[Array],
) -> Params:
    """The M-step (9), of the layers that are learned now.

    Parameters
    ----------
    current
        The layer that is learned; one more than there are, where all are.
    n_rows
        Of the table, whose rows come again in every pass, in which each unit was observed.
    """
    seen, credit, bias_seen, bias_credit = average
    weights, biases = list(params.weights), list(params.biases)
    every = current > net.n_layers
    for layer in range(net.n_layers + 1):
        last = layer == net.n_layers
        least = _least_bias(net, every, n_rows[layer])
        learned = every | (current == layer + 1) | (current == layer)
        if net.at_once and net.schedule == "stability" and layer > 0:
            learned = learned & (change[layer - 1] < STABLE)
        own = new_weight(bias_seen[layer], bias_credit[layer], net.alpha, net.beta, least)
        if net.bias or last:
            biases[layer] = jnp.where(learned, own, biases[layer])
        else:  # a layer that has nothing above it yet has a prior of its own
            biases[layer] = jnp.where((current == layer) & (layer > 0), own, biases[layer])
        if not last:
            fitted = new_weight(seen[layer], credit[layer], net.alpha, net.beta)
            weights[layer] = jnp.where(learned & (current != layer), fitted, weights[layer])
    return Params(tuple(weights), tuple(biases))


def _least_bias(net: Settings, every: Bool[Array, ""], n_rows: Float[Array, " _"]) -> Float[Array, " _"]:
    """Chains of single layers move better with larger biases; in the end rare ones are as rare as they are."""
    return jnp.where(every, jnp.minimum(net.leak, RARELY / (n_rows + 1)), net.leak)


def _renewed(net: Settings, key: Key[Array, ""], state: State, stats: Stats, params: Params) -> Params:
    """Idle units of the layer that is learned are put to new use."""
    weights, biases = list(params.weights), list(params.biases)
    for layer in range(net.n_layers):
        own_key = jax.random.fold_in(key, layer)
        used = put_to_use(own_key, weights[layer], biases[layer + 1], stats, layer, state.pivots[layer], START)
        now_due = state.layer == layer + 1
        weights[layer] = jnp.where(now_due, used[0], weights[layer])
        biases[layer + 1] = jnp.where(now_due, used[1], biases[layer + 1])
    return Params(tuple(weights), tuple(biases))


def _is_late(net: Settings, state: State) -> Bool[Array, ""]:
    """Whether the common causes of the layer that is learned have been found: what is left to find is rare."""
    return (state.layer <= net.n_layers) & (state.step >= net.n_updates - 2 * RENEW_EVERY)


def _with_rare_causes(
    net: Settings,
    state: State,
    params: Params,
    average: tuple[tuple[Array, ...], ...],
    stats: Stats,
    worth: Sequence[Float[Array, " _"]],
    part: Float[Array, ""],
) -> tuple[Params, tuple[tuple[Array, ...], ...]]:
    """Late in the learning of a layer, a unit with nothing to do starts from the least probable rows of an update.

    What it starts with stands for what it has seen, so that it is not forgotten in the next update.

    Parameters
    ----------
    worth
        Nats that each unit is good for.
    part
        Share of the table in an update; a table that is seen whole has no rows to look for.
    """
    weights, biases = list(params.weights), list(params.biases)
    seen, credit, bias_seen, bias_credit = (list(x) for x in average)
    left = net.n_updates - state.step
    due = _is_late(net, state) & (left % ODD_EVERY == 0) & (left > ODD_EVERY) & (part < 1)
    for layer in range(net.n_layers):
        odd = stats.odd[layer] / jnp.maximum(stats.odd_weight[layer], 1e-30)
        n = stats.n_rows, stats.n_rows / part
        w, b, chosen = from_odd_rows(weights[layer], biases[layer + 1], worth[layer], odd, *n)
        new = chosen & due & (state.layer == layer + 1)
        weights[layer] = jnp.where(new[:, None], w, weights[layer])
        biases[layer + 1] = jnp.where(new, b, biases[layer + 1])
        seen[layer] = jnp.where(new[:, None], ODD_ROWS, seen[layer])
        credit[layer] = jnp.where(new[:, None], ODD_ROWS * -jnp.expm1(-w), credit[layer])
        bias_seen[layer + 1] = jnp.where(new, stats.n_rows, bias_seen[layer + 1])
        bias_credit[layer + 1] = jnp.where(new, ODD_ROWS, bias_credit[layer + 1])
    return Params(tuple(weights), tuple(biases)), (tuple(seen), tuple(credit), tuple(bias_seen), tuple(bias_credit))


def _done(net: Settings, state: State) -> Array:
    return state.step >= jnp.where(state.layer > net.n_layers, net.n_joint, net.n_updates)


def _never(state: Secants) -> Array:
    return jnp.asarray(False)  # exact EM ends when it has converged


def _left(state: Secants) -> Float[Array, ""]:
    return state.left


class Plan(NamedTuple):
    """What stages there are, which no compiled function knows of.

    Attributes
    ----------
    n_epochs
        Passes for each layer in the paper's.
    batch_size
        Rows for an update.
    ranked
        Whether the last stage estimates log p(x) where it cannot be summed, to rank restarts.
    first_layer
        Layers below this one have been learned already.
    """

    n_epochs: int = 10
    batch_size: int = 2000
    ranked: bool = False
    first_layer: int = 1


def _stages(net: Settings, plan: Plan) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    if net.at_once:
        stages.append(_learning(net, plan, net.n_layers + 1, "all layers", plan.n_epochs * net.n_layers))
    for layer in () if net.at_once else range(plan.first_layer, net.n_layers + 1):
        if layer > 1:
            stages.append(Transform(f"a new layer {layer}", partial(_add_layer, net, layer)))
        stages.append(_learning(net, plan, layer, f"layer {layer}", plan.n_epochs if net.paper else net.n_updates))
    start = Partial(_start, net, net.n_layers + 1)
    if net.exact_end:
        e_step = None if net.exact_all else Partial(_summed, net)
        stages.append(
            Iterate(
                "all layers, exactly",
                start=climbing.start,
                e_step=e_step,
                update=Partial(_climb, net),
                done=_never,
                left=_left,
            )
        )
    elif not net.paper:
        stages.append(_learning(net, plan, net.n_layers + 1, "all layers", net.n_joint))
    if plan.ranked and not net.exact_end:
        stages.append(Evaluate("evaluation", start=start, e_step=Partial(_estimated, net)))
    return tuple(stages)


def _learning(net: Settings, plan: Plan, layer: int, name: str, max_iter: int) -> Iterate | Schedule:
    """The stage that learns one layer, or all of them (`layer` is one more than there are)."""
    start = Partial(_start, net, layer)
    if net.exact_all and not net.paper:  # every stage is exact EM
        return Iterate(name, start=start, max_iter=max_iter)
    return Schedule(
        name,
        measure=Measure.LIKELIHOOD if net.exact_all else Measure.JOINT,
        start=start,
        max_iter=max_iter,
        rows_per_update=plan.batch_size,
        comparable=False,
    )


# ---------------------------------------------------------------- use


def _log_likelihood(net: Settings, params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
    if is_exact(net.layer_sizes, EXACT_LIKELIHOOD):
        # of a large network p(S) takes long, and only this needs it
        log_prior = shared.log_prior or enumeration.log_prior(params)
        return LogLikelihood.exact(enumeration.log_evidence(params, log_prior, batch.values, batch.observed))
    on, off, _ = rows_last(batch)
    found = annealed_evidence(params, on, off, batch.keys, net.n_chains, net.n_steps)
    return LogLikelihood(found.value, found.error, jnp.zeros((), found.value.dtype))


def _infer(net: Settings, params: Params, shared: Shared, batch: Batch) -> Posterior:
    if net.exact_means:
        means = enumeration.posterior_means(params, shared.log_prior, batch.values, batch.observed)
        mean = jnp.concatenate(means, axis=1)
    else:
        mean = jnp.concatenate(sampled_means(params, batch)[0]).T
    on, off, _ = rows_last(batch)
    mode, log_joint = probable_states(params, on, off, batch.keys)
    return Posterior(mean, mode, log_joint)


def _complete(net: Settings, params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    if net.exact_means:
        return enumeration.completion(params, shared.log_prior, batch.values, batch.observed)
    return sampled_means(params, batch)[1].T


def _decode(params: Params, latents: Float[Array, "rows units"]) -> Float[Array, "rows columns"]:
    """E[exp(-u)] is a product over independent causes: P(bit = 1) = 1 - exp(-b) prod_i (1 - m_i f_ij)."""
    m, f = latents[:, : len(params.weights[0])], -jnp.expm1(-params.weights[0])

    def cause(quiet: Array, of: tuple[Array, Array]) -> tuple[Array, None]:
        return quiet * (1 - of[0][:, None] * of[1]), None

    start = jnp.broadcast_to(jnp.exp(-params.biases[0]), (len(m), f.shape[1])).astype(m.dtype)
    return 1 - jax.lax.scan(cause, start, (m.T, f))[0]


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    return jax.vmap(lambda key: sample_layers(params, key)[0])(keys)


@cache
def model(
    layer_sizes: tuple[int, ...],
    *,
    bias: bool = True,
    leak: float = 1e-3,
    alpha: float = 1.0,
    beta: float = 1.5,
    learner: str = "robust",
    schedule: str = "layers",
    inference: str = "auto",
    n_updates: int = 120,
    n_joint: int = JOINT,
    n_sweeps: int = 15,
    n_samples: int = 1,
    n_chains: int = 16,
    n_steps: int = 100,
    **plan: Any,
) -> Model:
    """A noisy-OR network; `Settings` and `Plan` say what can be set."""
    net = Settings(
        layer_sizes,
        bias,
        learner,
        schedule,
        inference,
        n_chains,
        leak,
        None if alpha == 1 else alpha,
        beta,
        n_updates,
        n_joint,
        n_sweeps,
        n_samples,
        n_steps,
    )
    n_hidden = sum(net.layer_sizes)
    n_states = 2 ** net.layer_sizes[0] if net.exact_end or net.exact_all else 0
    return Model(
        name="noisy-OR network",
        init=Partial(_init, net),
        prepare=Partial(_prepare, net),
        e_step=Partial(_summed if net.exact_all else _sampled, net),
        update=Partial(_update, net),
        objective=Partial(_objective, net),
        log_likelihood=Partial(_log_likelihood, net),
        infer=Partial(_infer, net),
        decode=_decode,
        complete=Partial(_complete, net),
        sample=_sample,
        row_floats=lambda n_columns: 6 * (n_columns + n_hidden) + min(2 * n_states, 2048),
        start=Partial(_start, net, net.n_layers + 1),
        done=None if net.paper else Partial(_done, net),
        stages=_stages(net, Plan(**plan)),
    )
