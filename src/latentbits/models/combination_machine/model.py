"""The influence combination machine (Freund & Haussler 1994), a restricted Boltzmann machine that knows its likelihood.

    p(x) = exp(b . x) prod_i (1 + exp(w_i . x + theta_i)) / Z                      (2.4), (2.6) for real inputs

`equations.py` has the paper's equations, and the paper's README.md says where each is computed fast.  Where the 2^m
hidden states (or the 2^n inputs, if fewer) can be counted, log Z, gradients, samples, marginals and conditionals are
exact; beyond, they are estimates with a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key, UInt32

from latentbits.core import keys as raw_keys
from latentbits.core.annealing import Annealed
from latentbits.core.arrays import AnyKey, Array, namespace, normal
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.compilation import Program
from latentbits.core.model import Evaluate, LogLikelihood, Model, Progress, RowFloats, Stage, Summary, Transform
from latentbits.core.module import Module
from latentbits.core.states import sparse_states
from latentbits.core.tree import rounding, rows_in, to_numpy
from latentbits.models.combination_machine import ascent, batches, draws, missing_inputs, pursuit, stochastic
from latentbits.models.combination_machine.annealing import annealed_draws, annealed_log_partition
from latentbits.models.combination_machine.bordered import bordered
from latentbits.models.combination_machine.likelihood import NO_HOLES, Learned, Shared, e_step, objective
from latentbits.models.combination_machine.machine import (
    UNITS,
    Machine,
    Params,
    Units,
    hidden_field,
    input_field,
    machine_of,
    softplus,
)
from latentbits.models.combination_machine.partition import n_enumerated
from latentbits.models.combination_machine.recipes import OURS, Recipe
from latentbits.models.combination_machine.rows import fields, inputs_of, takes_ones
from latentbits.models.combination_machine.sums import log_partition
from latentbits.models.combination_machine.truncation import few_active
from latentbits.models.combination_machine.tuning import (
    HOST_MOST_FLOATS,
    LOG2_STATES_PER_BLOCK,
    PURSUIT_NATS_PER_PARAMETER,
    ROWS_PER_BATCH,
)

__all__ = [
    "LEARNERS",
    "RANKING",
    "Posterior",
    "is_exact",
    "learned_machine",
    "model",
    "most_enumerated",
    "rounding_share",
    "with_log_partition",
    "without_idle",
]

LEARNERS = ("pursuit", "gradient", "pursuit+gradient", "stochastic")
RANKING = "held-out rows"  # the stage by which restarts are ranked


class Posterior(Module):
    """P(h_i = 1 | observed inputs), and the most probable hidden state (where inputs are missing, a local maximum)."""

    mean: Float[Array, "rows hidden"]
    mode: Float[Array, "rows hidden"]


def most_enumerated() -> int:
    """Return log2 of the most states that are summed one by one on this device: about a second for 64 inputs."""
    return 30 if jax.default_backend() == "gpu" else 22


def is_exact(units: Units, n_hidden: int, n_inputs: int) -> bool:
    """Check whether the partition function of such a machine is summed rather than estimated."""
    return n_enumerated(units, n_hidden, n_inputs) <= most_enumerated()


@partial(Program, seldom=True)
def _annealed_log_z(
    machine: Machine,
    words: UInt32[Array, "2"],
    n_steps: Int[Array, ""],
    rows: Float[Array, "rows inputs"] | None,
    *,
    units: Units,
    n_chains: int,
) -> Annealed:
    return annealed_log_partition(units, machine, raw_keys.typed(words), None, n_chains, n_steps, rows=rows)


def with_log_partition(
    units: Units,
    key: AnyKey,
    params: Params,
    n_chains: int,
    n_steps: int,
    rows: Float[Array, "rows inputs"] | None = None,
    max_active: int | None = None,
) -> Params:
    """Add log Z to the parameters: summed where the states can be counted, annealed elsewhere.

    `rows`: rows that resemble the machine's, near which the annealed chains begin; None looks for some.  `max_active`:
    of a machine that has no states with more active units.
    """
    machine = to_numpy(machine_of(params))
    error, effective = 0.0, 1.0
    if max_active is not None or is_exact(units, *machine.weights.shape):
        log_z = log_partition(units, machine, max_active, HOST_MOST_FLOATS)
    else:
        single = np.dtype(np.float32)
        with rows_in(single):
            narrow = jax.tree.map(lambda x: np.asarray(x, single), (machine, rows))
            given = raw_keys.raw(key), np.int32(n_steps), narrow[1]
            found = _annealed_log_z(narrow[0], *given, units=units, n_chains=n_chains)
        log_z, error, effective = found.value, found.error, found.effective
    known = [np.asarray(x, np.float64) for x in (log_z, error, effective)]
    return params.replace(log_partition=known[0], log_partition_error=known[1], log_partition_effective=known[2])


def rounding_share(n_inputs: int, dtype: np.dtype) -> float:
    """Error of a log-likelihood as a part of the terms it is made of, without their signs: b . x, |x|^2 / 2, log Z,
    units.

    Measured for 300 to 30 000 bits: it is 1 to 9 times the root mean square of the errors.
    """
    return rounding(n_inputs // 64, dtype)


def learned_machine(params: Params, state: Any) -> Params:
    """Take what a stage has learned: with batches the mean of the machines along the way, or the best."""
    if isinstance(state, stochastic.Persistent):
        return stochastic.averaged(params, state)
    return batches.best_epoch(params, state) if isinstance(state, batches.Epochs) else params


def without_idle(params: Params) -> Params:
    """Leave out units that a pursuit has not found."""
    weights, hidden_bias = np.asarray(params.weights), np.asarray(params.hidden_bias)
    found = np.any(weights != 0, axis=1)
    return params.replace(weights=weights[found], hidden_bias=hidden_bias[found])


# ---------------------------------------------------------------- use


def _known(params: Params, state: Any, progress: Progress | None) -> Shared:
    return Shared(params.log_partition, None)


@cache
def _summed(units: Units, max_active: int | None) -> Callable[..., Shared]:
    """Make `prepare` for machines on the way, whose log Z is not known yet."""

    def prepare(params: Params, state: Any, progress: Progress | None) -> Shared:
        return Shared(log_partition(units, machine_of(params), max_active), None)

    return prepare


def _evaluated(params: Params, state: Any, progress: Progress | None) -> Shared:
    """Share the log Z that is known, in the form that a climb has it: the last stage then shares the climb's E-step."""
    return Shared(params.log_partition, namespace(params.weights).zeros_like(bordered(params)))


def _mode(units: Units, machine: Machine, x: Array, observed: Array, h: Array) -> Array:
    """Find a hidden state that no single flip makes more probable given the observed inputs, from h upwards."""
    if h.shape[1] == 0:
        return h
    field = hidden_field(machine, x)  # missing inputs are 0
    missing = 1 - observed

    def value(h: Array) -> Array:
        return jnp.sum(h * field, 1) + jnp.sum(missing * units.log_sum(input_field(machine, h)), 1)

    def flip(i: Array, h: Array) -> Array:
        other = h.at[:, i % h.shape[1]].set(1 - h[:, i % h.shape[1]])
        return jnp.where((value(other) > value(h))[:, None], other, h)

    return jax.lax.fori_loop(0, 3 * h.shape[1], flip, h)


class _Uses(NamedTuple):
    """Functions of a machine that is known."""

    log_likelihood: Callable[..., LogLikelihood]
    infer: Callable[..., Posterior]
    decode: Callable[..., Float[Array, "rows inputs"]]
    complete: Callable[..., Float[Array, "rows inputs"]]
    sample: Callable[..., Float[Array, "rows inputs"]]
    rounding: Callable[..., Float[Array, " rows"]]
    row_floats: RowFloats


@cache
def _uses(n_hidden: int, kind: str, max_active: int | None) -> _Uses:
    units = UNITS[kind]

    def conditional(params: Params, batch: Batch) -> missing_inputs.Conditional:
        return missing_inputs.conditional(units, machine_of(params), batch.keys, inputs_of(units, batch), batch.mask)

    def log_likelihood(params: Params, shared: Shared, batch: Batch | SparseBatch) -> LogLikelihood:
        if batch.observed is None:
            own, field = fields(units, params, batch)
            hidden = jnp.sum(softplus(field), 1) if max_active is None else few_active(field, max_active)[0]
            log_sum, error = own + hidden, jnp.zeros_like(batch.weight)
        elif max_active is not None:
            raise ValueError(NO_HOLES)
        else:
            x = inputs_of(units, batch)
            log_sum, error = missing_inputs.log_sums(units, machine_of(params), batch.keys, x, batch.observed)
        return LogLikelihood(log_sum - shared.log_z, error, params.log_partition_error)

    def lost(params: Params, shared: Shared, batch: Batch | SparseBatch) -> Float[Array, " rows"]:
        """Compute what rounding may take: terms of either sign, large where rows or biases are, add up to log p(x)."""
        if isinstance(batch, SparseBatch):
            own, field = jnp.sum(jnp.abs(params.input_bias)), fields(units, params, batch)[1]
        else:
            x = inputs_of(units, batch)
            own = jnp.abs(x) @ jnp.abs(params.input_bias) + jnp.sum(jnp.abs(units.base(x)), 1)
            field = hidden_field(params, x)
        hidden = jnp.sum(softplus(field), 1)
        return rounding_share(params.weights.shape[1], hidden.dtype) * (own + hidden + jnp.abs(shared.log_z))

    def infer(params: Params, shared: Shared, batch: Batch | SparseBatch) -> Posterior:
        if max_active is not None:
            if batch.observed is not None:
                raise ValueError(NO_HOLES)
            field = fields(units, params, batch)[1]
            least = jax.lax.top_k(field, min(max_active, field.shape[1]))[0][:, -1:]
            mode = (field > 0) & (field >= least)
            return Posterior(few_active(field, max_active)[1], mode.astype(field.dtype))
        if batch.observed is None:
            field = fields(units, params, batch)[1]
            return Posterior(jax.nn.sigmoid(field), (field > 0).astype(field.dtype))
        x = inputs_of(units, batch)
        mean = conditional(params, batch).hidden
        guess = (mean > 0.5).astype(mean.dtype)
        return Posterior(mean, _mode(units, params, x, batch.observed, guess))

    def face(x: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        return 0.5 * (1 + x) if kind == "binary" else x

    def decode(params: Params, latents: Float[Array, "rows hidden"]) -> Float[Array, "rows inputs"]:
        return face(units.mean(input_field(params, latents)))

    def complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows inputs"]:
        if batch.observed is None:
            return batch.values
        if max_active is not None:
            raise ValueError(NO_HOLES)
        return face(conditional(params, batch).inputs)

    def sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows inputs"]:
        machine = machine_of(params)
        if max_active is not None:
            return face(draws.among(units, machine, keys, sparse_states(n_hidden, max_active)))
        # rows are drawn exactly, from a table of all states
        drawn = draws.ancestral if n_enumerated(units, *machine.weights.shape) <= 22 else annealed_draws
        return face(drawn(units, machine, keys))

    def row_floats(n_columns: int) -> int:
        return 3 * n_columns + 4 * n_hidden + 2 * 2 ** min(n_hidden, LOG2_STATES_PER_BLOCK)

    return _Uses(log_likelihood, infer, decode, complete, sample, lost, row_floats)


# ---------------------------------------------------------------- learning


def _random_weights(key: AnyKey, shape: tuple[int, int]) -> Float[Array, "hidden inputs"]:
    return 0.8 * normal(key, shape) / np.sqrt(shape[1])  # random, so that units differ


@cache
def _begin(n_hidden: int, kind: str, input_bias: bool, pursues: bool) -> Callable[[AnyKey, Summary], Params]:
    def init(key: AnyKey, summary: Summary) -> Params:
        xp, d = namespace(summary.mean), len(summary.mean)
        if kind == "binary":
            share = (summary.mean * summary.observed + 0.5) / (summary.observed + 1)
            bias = 0.5 * (xp.log(share) - xp.log1p(-share))  # half the log-odds
        else:
            bias = summary.mean
        weights = xp.zeros((n_hidden, d)) if pursues else _random_weights(key, (n_hidden, d))
        unknown = xp.asarray(xp.nan)
        bias = bias if input_bias else xp.zeros(d)
        return Params(weights, xp.zeros(n_hidden), bias, unknown, unknown, unknown, xp.zeros(()))

    return init


def _wake_idle(key: AnyKey, params: Params, state: Any) -> Params:
    """Start units that the pursuit did not find small and random, so that they can learn."""
    weights = np.asarray(params.weights)
    idle = ~np.any(weights != 0, axis=1, keepdims=True)
    if not idle.any():
        return params
    noise = np.asarray(_random_weights(key, weights.shape))
    return params.replace(weights=np.where(idle, noise, weights))


def _take_learned(key: AnyKey, params: Params, state: Any) -> Params:
    return learned_machine(params, state)


def _find_log_partition(
    units: Units,
    pursued: bool,
    max_active: int | None,
    n_chains: int,
    n_steps: int,
    key: AnyKey,
    params: Params,
    state: Any,
) -> Params:
    params = learned_machine(params, state)
    rows = state.chains if isinstance(state, stochastic.Persistent) else None
    params = without_idle(params) if pursued else params
    return with_log_partition(units, key, params, n_chains, n_steps, rows, max_active)


@cache
def model(
    n_hidden: int,
    kind: str = "binary",
    *,
    input_bias: bool = True,
    learner: str = "gradient",
    recipe: Recipe = OURS,
    n_epochs: int = 100,
    n_updates: int | None = None,
    learning_rate: float = 0.05,
    held_out: float = 0.1,
    max_active: int | None = None,
    weight_prior: float | str | None = None,
    sampled: bool = False,
    refit_biases: bool = True,
    annealing: tuple[int, int] = (512, 2000),
    ranked: bool = False,
    watched: bool = False,
) -> Model:
    """Describe a combination machine and its learning.

    Parameters
    ----------
    n_hidden
        Number of hidden units, m.
    kind
        "binary" inputs (2.1-2.4) or "real" ones (2.5-2.8).
    input_bias
        Whether inputs have biases b (the paper's have none).
    learner
        "pursuit" (section 3.5), "gradient" (3.0.1), one after the other, or "stochastic".
    recipe
        How the pursuit, the gradient and the chains go, ours or the paper's (`recipes.py`).
    n_epochs, n_updates
        Passes in batches; Adam ends earlier, after `n_updates`.
    held_out
        Share of the rows by which a climb is stopped.
    sampled
        Whether the batches before L-BFGS follow sampled expectations, which are cheaper than exact ones of many units.
    weight_prior
        Standard deviation of a Gaussian prior on the weights in L-BFGS and with chains; None is none, "auto" one that
        the rows choose (`evidence.py`).  With "auto" a climb that held-out rows have ended is followed by a few steps
        on all rows.
    max_active
        Most active units of the machine's states (section 3.0.1); None has all states.  With 1 it is a mixture of
        n_hidden + 1 products.
    refit_biases
        Whether a pursuit alone is followed by a climb of the biases, which sums all states; not by the paper's recipe.
    annealing
        Chains and temperatures of the estimate of log Z, where it cannot be summed.
    ranked
        Whether the last stage has the held-out rows, to rank restarts by: of all rows, most of which were learned from,
        the restart that has learned most of their noise would come first.
    watched
        Whether other rows are watched while it learns (`engines/held_out.py`), so that log Z is asked for on the
        way.
    """
    units = UNITS[kind]
    learned = Learned(weights=True, input_bias=input_bias)
    pursues = "pursuit" in learner or learner == "stochastic"
    terms = max_active, recipe.max_terms
    find_log_partition = partial(_find_log_partition, units, learner == "pursuit", max_active, *annealing)

    stages: list[Stage] = []
    heats = 0  # of restarts, the best by the held-out rows is learned from all rows
    if pursues:
        significance = 0.0 if recipe.faithful else PURSUIT_NATS_PER_PARAMETER
        search = partial(pursuit.stage, n_candidates=recipe.pursuit_starts, faithful=recipe.faithful)
        stages.append(search(n_hidden, units, input_bias, significance=significance))
        if learner != "pursuit":
            stages.append(Transform("waking idle units", _wake_idle))
        elif refit_biases and not recipe.faithful:
            biases = Learned(weights=False, input_bias=input_bias)
            stages.append(ascent.climb(units, biases, 0.0, max_active, name="biases"))
    explored = "gradient" in learner and recipe.optimizer == "adam"
    if learner == "stochastic" or (explored and sampled):
        seen = held_out if explored else 0.0
        pace = (n_epochs, n_updates if explored else None, ROWS_PER_BATCH, seen)
        # chains cannot follow steps as long as those that exact expectations allow
        rate = learning_rate * ((1 / 3) if explored else 1)
        stages.append(stochastic.persistent(units, learned, rate, *pace, recipe.n_chains, weight_prior))
    elif explored:
        stages.append(
            batches.adam(units, learned, learning_rate, n_epochs, n_updates, ROWS_PER_BATCH, held_out, *terms)
        )
    if explored:
        stages.append(Transform("best of the batches", _take_learned))
        stages.append(ascent.climb(units, learned, held_out, max_active, weight_prior, max_terms=recipe.max_terms))
        if held_out > 0 and weight_prior == "auto":
            heats = len(stages)
            stages.append(ascent.refit(units, learned, max_active, weight_prior, recipe.max_terms))
    elif "gradient" in learner:
        stages.append(ascent.momentum(units, learned, learning_rate, *terms))
    # a pursuit alone leaves out the units that it did not find
    log_z = Transform("log Z", find_log_partition)
    stages += [log_z, Evaluate("log-likelihood", prepare=_evaluated)]
    if ranked and explored and held_out > 0 and not heats:
        ranking = e_step(units, held_out, max_active)
        stages.append(Evaluate(RANKING, prepare=_evaluated, e_step=ranking, sparse=takes_ones(units)))

    uses = _uses(n_hidden, kind, max_active)
    return Model(
        name="combination machine",
        init=_begin(n_hidden, kind, input_bias, pursues),
        prepare=_summed(units, max_active) if watched else _known,
        e_step=e_step(units, 0.0, max_active),
        objective=objective,
        log_likelihood=uses.log_likelihood,
        infer=uses.infer,
        decode=uses.decode,
        complete=uses.complete,
        sample=uses.sample,
        row_floats=uses.row_floats,
        stages=tuple(stages),
        heats=heats,
        rounding=uses.rounding,
        sparse=takes_ones(units),
        on_host=True,
    )
