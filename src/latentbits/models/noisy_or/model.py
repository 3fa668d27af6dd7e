"""Multilayer noisy-OR belief networks (Lewicki & Sejnowski 1996), learned by Gibbs sampling and EM.

    (1), (2)   the joint probability, causal inputs      `network.py`
    (3), (4)   the probability of the data               `enumeration.py` (exact), `annealing.py` (estimated)
    (5)-(7)    Gibbs sampling with feedback from above   `gibbs.py`
    (8), (9)   gamma prior, EM update of the weights     `learning.py`

Layers are learned from the bottom up (section 4).  While layer l is learned, the layers above it have no weights, and
the biases of layer l are the prior probabilities of its units; when the next layer comes, most of that is left to it.

Beyond the paper: idle units are put to new use as learning goes on (`renewal.py`), and at the end all layers are
adapted together, where there are few units by exact EM, otherwise with statistics averaged over the updates, so that
the noise of the samples goes away (Delyon, Lavielle & Moulines 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood, Model, Progress, Stage, Summary
from latentbits.core.tree import sum_rows
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.annealing import annealed_evidence
from latentbits.models.noisy_or.gibbs import gibbs
from latentbits.models.noisy_or.learning import Stats, log_prior_density, new_weight, state_statistics
from latentbits.models.noisy_or.mean_field import draw_states, mean_field
from latentbits.models.noisy_or.network import Params, sample_layers
from latentbits.models.noisy_or.probable import probable_states
from latentbits.models.noisy_or.renewal import choose_pivots, put_to_use
from latentbits.models.noisy_or.sampling import drawn_states, folded, rows_last, sampled_means, states_on

__all__ = ["EXACT_LIKELIHOOD", "EXACT_MEANS", "Params", "Posterior", "Shared", "State", "Stats", "is_exact", "model"]

EXACT_LEARNING = 2**16  # pairs of states up to which EM sums over all of them
EXACT_MEANS = 2**16  # posterior means and completions of a fitted network
EXACT_LIKELIHOOD = 2**22  # and log p(x), where an estimate costs more

START = (0.05, 0.15)  # weights to begin with, as in the paper
FIRST_PRIOR = 0.3  # biases of a layer that has no layer above it yet
FIRST_BIAS = 0.02  # and of the inputs
LEFT_OF_BIAS = 0.2  # part of its bias that a unit keeps when it gets parents
RARELY = 0.1  # ones in all rows: a bias of no less; a bit that was never on may be so in the next row
STABLE = 0.1  # a unit that changes with less than this probability is ready to be learned from
RENEW_EVERY = 30  # updates
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
    """

    layer: Int[Array, ""]
    step: Int[Array, ""]
    since: Int[Array, ""]
    rows: Float[Array, ""]
    pivots: tuple[Int[Array, " _"], ...]
    average: tuple[tuple[Array, ...], ...]
    change: tuple[Float[Array, " _"], ...]
    met: tuple[Float[Array, " _"], ...]


class Shared(eqx.Module):
    """What a pass needs and no row changes."""

    depth: Int[Array, ""]
    n_sweeps: Int[Array, ""]
    penalised: Bool[Array, ""]  # whether the objective has the prior of the weights
    coldness: Float[Array, ""]
    pivots: tuple[Int[Array, " _"], ...]
    log_prior: tuple[Float[Array, " _"], ...]  # of all states of each layer, where they are summed over


class Posterior(eqx.Module):
    """P(S_i = 1 | x) of all hidden units, the lowest layer first; and their most probable states together."""

    mean: Float[Array, "rows units"]
    mode: Float[Array, "rows units"]
    log_joint: Float[Array, " rows"]


def is_exact(sizes: Sequence[int], limit: int) -> bool:
    """Whether sums over all hidden states are within a limit of `EXACT_...`."""
    return enumeration.n_pairs(sizes) <= limit


def going_on(init: Any, begun: Params) -> Any:
    """An `init` whose lower layers have been learned already."""

    def go_on(key: Key[Array, ""], summary: Summary) -> Params:
        params = init(key, summary)
        n = len(begun.weights)
        weights = (*map(jnp.asarray, begun.weights), *params.weights[n:])
        return Params(weights, (*map(jnp.asarray, begun.biases), *params.biases[n + 1 :]))

    return go_on


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
    n_epochs: int = 10,
    batch_size: int = 2000,
    n_sweeps: int = 15,
    stop_below: float = 0.0,
    n_samples: int = 1,
    temperature: float = 1.0,
    chain_start: str = "on",
    n_chains: int = 16,
    n_steps: int = 100,
    ranked: bool = False,
    first_layer: int = 1,
) -> Model:
    """A noisy-OR network.

    Parameters
    ----------
    layer_sizes
        Units of each hidden layer, bottom first.
    bias
        Whether biases are learned; otherwise they are `leak`, but for those of the top layer.
    leak
        The least bias while layers are learned one by one; at the end biases may be as small as the table tells.
    alpha, beta
        Of the gamma prior of the weights.
    learner
        "robust", or as in the "paper".
    schedule
        Of the paper: "layers" one after the other, or by "stability", where weights to a unit are adapted once the
        unit itself rarely changes.
    inference
        "gibbs" or "exact" sums over states; "auto" explores by Gibbs sampling, and sums at the end where it can.
    n_updates, n_joint
        Updates of each layer, and of all together, of the robust learner.
    n_epochs
        Passes for each layer in the paper's.
    batch_size
        Rows for an update.
    n_sweeps, stop_below
        Most sweeps of a chain; the largest probability of a change with which it stops.
    n_samples
        Chains a row.
    temperature
        To begin with in each layer; it goes down to 1 in the first half of the updates.
    chain_start
        States that chains start from: all units "on", drawn from the "prior", or drawn after "mean_field" sweeps.
    n_chains, n_steps
        Of the estimate of log p(x).
    ranked
        Whether the last stage estimates log p(x) where it cannot be summed, to rank restarts.
    first_layer
        Layers below this one have been learned already.
    """
    n_layers = len(layer_sizes)
    paper = learner == "paper"
    exact_all = inference == "exact"
    exact_end = not paper and (exact_all or (inference == "auto" and is_exact(layer_sizes, EXACT_LEARNING)))
    exact_means, exact_likelihood = is_exact(layer_sizes, EXACT_MEANS), is_exact(layer_sizes, EXACT_LIKELIHOOD)
    climbing = exact_all and not paper and temperature == 1  # every stage is exact EM
    by_stability = paper and schedule == "stability"

    # ------------------------------------------------------------ the beginning

    def new_layer(key: Key[Array, ""], params: Params, layer: int) -> Params:
        """The network with hidden layer `layer` (from 1) at its start."""
        weights, biases = list(params.weights), list(params.biases)
        shape = weights[layer - 1].shape
        weights[layer - 1] = jax.random.uniform(key, shape, jnp.float64, *START)
        if layer > 1:
            kept = LEFT_OF_BIAS * biases[layer - 1] if bias else jnp.zeros_like(biases[layer - 1])
            biases[layer - 1] = jnp.maximum(kept, leak)
        return Params(tuple(weights), tuple(biases))

    def init(key: Key[Array, ""], summary: Summary) -> Params:
        sizes = [len(summary.mean), *layer_sizes]
        weights = tuple(jnp.zeros((above, below)) for below, above in pairwise(sizes))
        first = jnp.full(sizes[0], max(FIRST_BIAS, leak) if bias else leak)
        params = Params(weights, (first, *(jnp.full(size, FIRST_PRIOR) for size in layer_sizes)))
        for layer in range(1, n_layers + 1 if by_stability else 2):
            params = new_layer(jax.random.fold_in(key, layer), params, layer)
        return params

    def start_at(layer: int) -> Any:
        def start(params: Params) -> State:
            pivots = tuple(jnp.zeros(len(w), jnp.int32) for w in params.weights)
            zeros = [jax.tree.map(jnp.zeros_like, x) for x in (params.weights, params.biases)]
            average = (zeros[0], zeros[0], zeros[1], zeros[1])
            change = tuple(jnp.ones(size) for size in layer_sizes)
            none = jnp.asarray(0)
            return State(jnp.asarray(layer), none, none, jnp.asarray(0.0), pivots, average, change, zeros[1])

        return start

    def prepare(params: Params, state: State | None, progress: Progress | None) -> Shared:
        state = start_at(n_layers + 1)(params) if state is None else state
        together = (state.layer > n_layers) & (not paper)  # states of a whole network take longer to find
        coldness = jnp.asarray(1.0)
        if temperature != 1 and progress is not None:
            made = progress.fraction if paper else jnp.maximum(progress.fraction, progress.step / n_updates)
            way = jnp.minimum(2 * made, 1)
            way = jnp.where((state.layer > n_layers) | (progress.max_iter == 0), 1, way)
            coldness = 1 / (temperature + (1 - temperature) * way)
        summed = exact_means if progress is None else exact_end or exact_all
        return Shared(
            depth=jnp.minimum(state.layer, n_layers).astype(jnp.int32),
            penalised=jnp.asarray(exact_all) | ((state.layer > n_layers) & exact_end),
            n_sweeps=jnp.where(together, 2 * n_sweeps, n_sweeps).astype(jnp.int32),
            coldness=coldness,
            pivots=state.pivots,
            log_prior=enumeration.log_prior(params) if summed else (),
        )

    # ------------------------------------------------------------ statistics

    def sampled(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        on, off, observed = rows_last(batch)
        keys = batch.keys
        frozen = tuple(jnp.full((size, len(keys)), number > shared.depth) for number, size in enumerate(layer_sizes, 1))

        def chain(number: Array) -> Stats:
            own = jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)
            if chain_start == "on":
                begin = states_on(params, len(keys))
            else:
                begin = drawn_states(params, folded(own, 0))
            if chain_start == "mean_field":
                begin = draw_states(folded(own, 2), mean_field(params, on, off, begin))
            begin = tuple(jnp.where(f, 0, s) for f, s in zip(frozen, begin, strict=True))
            chains = gibbs(
                params, on, off, begin, folded(own, 1), shared.n_sweeps,
                coldness=shared.coldness, stop_below=stop_below, frozen=frozen,
            )  # fmt: skip
            return state_statistics(
                params,
                on,
                observed,
                chains.states,
                chains.chances,
                batch.weight / n_samples,
                shared.pivots,
                shared.depth,
            )

        stats = jax.lax.map(chain, jnp.arange(n_samples))
        stats = jax.tree.map(lambda x: jnp.sum(x, 0), stats)
        return eqx.tree_at(lambda s: s.n_rows, stats, batch.weight.sum()), None  # thirds need not add up to one

    def summed(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        found, log_p = enumeration.expected_statistics(
            params, shared.log_prior, batch.values, batch.observed, batch.weight, shared.coldness
        )
        credit = tuple(-jnp.expm1(-w) * c for w, c in zip(params.weights, found.credits, strict=True))
        bias_credit = tuple(-jnp.expm1(-b) * c for b, c in zip(params.biases, found.bias_credits, strict=True))
        nothing = tuple(jnp.zeros(size, log_p.dtype) for size in layer_sizes)
        return Stats(
            batch.weight.sum(), sum_rows(batch.weight, log_p), found.counts, credit, found.bias_counts, bias_credit,
            found.counts, credit, nothing, nothing,
        ), None  # fmt: skip

    def estimated(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        """log p(x) in place of the joint probability, and nothing to learn from."""
        value = log_likelihood(params, shared, batch).value
        empty = tuple(jnp.zeros_like(w) for w in params.weights)
        no_bias = tuple(jnp.zeros_like(b) for b in params.biases)
        return Stats(
            batch.weight.sum(), sum_rows(batch.weight, value), empty, empty, no_bias, no_bias, empty, empty,
            no_bias[1:], no_bias[1:],
        ), None  # fmt: skip

    def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        return stats.log_joint.sum() + jnp.where(shared.penalised, log_prior_density(params, alpha, beta), 0.0)

    # ------------------------------------------------------------ learning

    def update(state: State, params: Params, shared: Shared, stats: Stats, progress: Progress) -> tuple[State, Params]:
        now = (stats.seen, stats.credit, stats.bias_seen, stats.bias_credit)
        # the rest of a table may be a few rows: the statistics before make up for those that it lacks
        rows = jnp.maximum(state.rows, stats.n_rows)
        whole = stats.n_rows / jnp.maximum(rows, 1)
        # all together: sampled statistics of the second half are averaged
        late = state.step - n_joint // 2
        averaged = (state.layer > n_layers) & (late > 0) & (not (paper or exact_end or exact_all))
        share = jnp.where(averaged, 1 / (late + 1.0), 1.0)
        average = jax.tree.map(lambda old, new: (1 - share * whole) * old + share * new, state.average, now)
        change = tuple(c / jnp.maximum(stats.n_rows, 1) for c in stats.change)
        seen, credit, bias_seen, bias_credit = average
        weights, biases = list(params.weights), list(params.biases)
        met = jax.tree.map(jnp.add, state.met, stats.bias_seen)
        for layer in range(n_layers + 1):
            last = layer == n_layers
            # chains of single layers move better with larger biases; in the end rare ones are as rare as they are
            n_rows = met[layer] / (progress.iteration + 1.0)  # of the table, whose rows come again in every pass
            least = jnp.where(state.layer > n_layers, jnp.minimum(leak, RARELY / (n_rows + 1)), leak)
            learned = (state.layer > n_layers) | (state.layer == layer + 1) | (state.layer == layer)
            if by_stability and layer > 0:
                learned = learned & (change[layer - 1] < STABLE)
            own = new_weight(bias_seen[layer], bias_credit[layer], alpha, beta, least)
            if bias or last:
                biases[layer] = jnp.where(learned, own, biases[layer])
            else:  # a layer that has nothing above it yet has a prior of its own
                biases[layer] = jnp.where((state.layer == layer) & (layer > 0), own, biases[layer])
            if not last:
                fitted = new_weight(seen[layer], credit[layer], alpha, beta)
                learned = learned & (state.layer != layer)
                weights[layer] = jnp.where(learned, fitted, weights[layer])
        due = (state.since >= RENEW_EVERY - 1) & (state.step < n_updates - RENEW_EVERY) & (whole > 0.5)
        due = due & (state.layer <= n_layers)
        if not paper and not exact_all:
            for layer in range(n_layers):
                own_key = jax.random.fold_in(progress.key, layer)
                used = put_to_use(own_key, weights[layer], biases[layer + 1], stats, layer, state.pivots[layer], START)
                now_due = due & (state.layer == layer + 1)
                weights[layer] = jnp.where(now_due, used[0], weights[layer])
                biases[layer + 1] = jnp.where(now_due, used[1], biases[layer + 1])
        pivots = tuple(
            choose_pivots(jax.random.fold_in(progress.key, n_layers + layer), -jnp.expm1(-w))
            for layer, w in enumerate(weights)
        )
        since = jnp.where(due, 0, state.since + 1)
        ahead = State(state.layer, state.step + 1, since, rows, pivots, average, change, met)
        return ahead, Params(tuple(weights), tuple(biases))

    def done(state: State) -> Array:
        last = jnp.iinfo(jnp.int32).max if exact_end else n_joint  # exact EM ends when it has converged
        return state.step >= jnp.where(state.layer > n_layers, last, n_updates)

    def stages() -> tuple[Stage, ...]:
        legs: list[Stage] = []
        layers = [n_layers + 1] if by_stability else range(first_layer, n_layers + 1)
        for layer in layers:

            def begin(key: Key[Array, ""], params: Params, state: State | None, layer: int = layer) -> Params:
                return params if layer == 1 or layer > n_layers else new_layer(key, params, layer)

            overrides = {"start": start_at(layer)}
            name = "all layers" if layer > n_layers else f"layer {layer}"
            most = n_epochs * (n_layers if by_stability else 1) if paper else n_updates
            legs.append(
                Stage(
                    name,
                    overrides if paper else {**overrides, "done": done},
                    begin,
                    max_iter=most,
                    tol=None if climbing else -np.inf,
                    rows_per_update=None if climbing else batch_size,
                    comparable=climbing,
                )
            )
        if not paper:
            together = {"start": start_at(n_layers + 1)}
            if exact_end:
                own = {} if exact_all else {"e_step": summed}
                legs.append(Stage("all layers, exactly", {**together, **own, "done": done}))
            else:
                legs.append(
                    Stage(
                        "all layers",
                        {**together, "done": done},
                        max_iter=n_joint,
                        tol=-np.inf,
                        rows_per_update=batch_size,
                        comparable=False,
                    )
                )
        if ranked and not exact_end:
            legs.append(Stage("evaluation", {"start": start_at(n_layers + 1), "e_step": estimated}, max_iter=0))
        return tuple(legs)

    # ------------------------------------------------------------ use

    def log_likelihood(params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
        if exact_likelihood:
            # of a large network p(S) takes long, and only this needs it
            log_prior = shared.log_prior or enumeration.log_prior(params)
            return LogLikelihood.exact(enumeration.log_evidence(params, log_prior, batch.values, batch.observed))
        on, off, _ = rows_last(batch)
        found = annealed_evidence(params, on, off, batch.keys, n_chains, n_steps)
        return LogLikelihood(found.value, found.error, jnp.zeros((), found.value.dtype))

    def infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
        if exact_means:
            means = enumeration.posterior_means(params, shared.log_prior, batch.values, batch.observed)
            mean = jnp.concatenate(means, axis=1)
        else:
            mean = jnp.concatenate(sampled_means(params, batch)[0]).T
        on, off, _ = rows_last(batch)
        mode, log_joint = probable_states(params, on, off, batch.keys)
        return Posterior(mean, mode, log_joint)

    def complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
        if exact_means:
            return enumeration.completion(params, shared.log_prior, batch.values, batch.observed)
        return sampled_means(params, batch)[1].T

    def decode(params: Params, latents: Float[Array, "rows units"]) -> Float[Array, "rows columns"]:
        """E[exp(-u)] is a product over independent causes: P(bit = 1) = 1 - exp(-b) prod_i (1 - m_i f_ij)."""
        m, f = latents[:, : layer_sizes[0]], -jnp.expm1(-params.weights[0])

        def cause(quiet: Array, of: tuple[Array, Array]) -> tuple[Array, None]:
            return quiet * (1 - of[0][:, None] * of[1]), None

        start = jnp.broadcast_to(jnp.exp(-params.biases[0]), (len(m), f.shape[1])).astype(m.dtype)
        return 1 - jax.lax.scan(cause, start, (m.T, f))[0]

    def sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
        return jax.vmap(lambda key: sample_layers(params, key)[0])(keys)

    n_hidden = sum(layer_sizes)
    n_states = 2 ** layer_sizes[0] if exact_end or exact_all else 0
    return Model(
        name="noisy-OR network",
        init=init,
        prepare=prepare,
        e_step=summed if exact_all else sampled,
        update=update,
        objective=objective,
        log_likelihood=log_likelihood,
        infer=infer,
        decode=decode,
        complete=complete,
        sample=sample,
        row_floats=lambda n_columns: 6 * (n_columns + n_hidden) + min(2 * n_states, 2048),
        start=start_at(n_layers + 1),
        stages=stages(),
    )
