"""Sums of a pass over rows: from sampled states, over all states, or log p(x) alone; and the objective."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array, namespace
from latentbits.core.batch import Batch
from latentbits.core.tree import sum_rows
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.gibbs import folded, gibbs
from latentbits.models.noisy_or.inference import log_likelihood
from latentbits.models.noisy_or.learning import Stats, counted, log_prior_density, state_statistics
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.sampling import rows_last, states_on
from latentbits.models.noisy_or.settings import Settings
from latentbits.models.noisy_or.state import Shared

__all__ = ["Evidence", "estimated", "objective", "sampled", "summed"]


class Evidence(NamedTuple):
    """Sums over rows where nothing is learned: log p(x) in place of the joint probability."""

    n_rows: Float[Array, ""]
    log_joint: Float[Array, "2"]


def sampled(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    """Sum over rows from states drawn given each row."""
    on, off, observed = rows_last(batch)
    keys = batch.keys
    frozen = tuple(jnp.full((size, len(keys)), number > shared.depth) for number, size in enumerate(net.layer_sizes, 1))

    def drawn(own: Key[Array, " rows"]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Draw states, with the chances that they were drawn from."""
        if net.drawn:
            uniform = jax.vmap(lambda key: jax.random.uniform(key, (), on.dtype))(own)
            found = enumeration.drawn_states(params, shared.log_prior, batch.values, batch.observed, uniform)
            return found[:1], found[1:]
        begin = tuple(jnp.where(f, 0, s) for f, s in zip(frozen, states_on(params, len(keys)), strict=True))
        stop = 0.05 if net.paper else 0.0  # the paper's chain stops when no unit changes with this probability
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
    n_rows, rounding = counted(batch.weight)
    return stats.replace(n_rows=n_rows, rounding=rounding), None  # thirds need not add up to one


def summed(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    """Sum over rows the expectations of what `sampled` draws, over all states."""
    found, log_p = enumeration.expected_statistics(params, shared.log_prior, batch.values, batch.observed, batch.weight)
    credit = tuple(-jnp.expm1(-w) * c for w, c in zip(params.weights, found.credits, strict=True))
    bias_credit = tuple(-jnp.expm1(-b) * c for b, c in zip(params.biases, found.bias_credits, strict=True))
    nothing = tuple(jnp.zeros(size, log_p.dtype) for size in net.layer_sizes)
    n_rows, rounding = counted(batch.weight)
    return Stats(
        n_rows=n_rows,
        rounding=rounding,
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


def estimated(net: Settings, params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Evidence, None]:
    """Sum the log-likelihood of the rows as a fitted network computes it."""
    value = log_likelihood(net, params, shared, batch).value
    return Evidence(batch.weight.sum(), sum_rows(batch.weight, value)), None


def objective(net: Settings, params: Params, shared: Shared, stats: Stats | Evidence) -> Float[Array, ""]:
    """Compute the objective at the parameters that made the sums, with the weights' prior where it is maximised."""
    prior = log_prior_density(params, net.alpha, net.beta)
    return stats.log_joint.sum() + namespace(stats.n_rows).where(shared.penalised, prior, 0.0)
