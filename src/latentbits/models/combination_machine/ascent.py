"""Learning by ascent of the log-likelihood (Freund & Haussler 1994, section 3.0.1).

    log-likelihood = sum_x log_weight(x) - N log Z                                              (3.1)
    d / d theta_i  = sum_x P(h_i = 1 | x)     - N E[h_i]                                        (3.5), (3.8)
    d / d w_ij     = sum_x P(h_i = 1 | x) x_j - N E[h_i x_j]                                    (3.6), (3.9)
    d / d b_j      = sum_x x_j                - N E[x_j]

The clamped part is a sum over rows; the other is no sum over rows but over states, so `prepare` has it: exact
(`partition.py`) or over the states with few active units (`truncation.py`).  Three ways up: the paper's momentum, Adam
on small batches (which leaves poor optima more easily), and L-BFGS (which ends at the top).

Some rows, every tenth by default, are held out: their log-likelihood is the objective, and says when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, UInt32

from latentbits.core import lbfgs
from latentbits.core.batch import Batch
from latentbits.core.model import Iterate, Progress, Schedule
from latentbits.core.tree import sum_rows
from latentbits.models.combination_machine import holes
from latentbits.models.combination_machine.centring import (
    Centre,
    Coordinates,
    centre_of,
    centred,
    followed,
    uncentred,
)
from latentbits.models.combination_machine.machine import Machine, Params, Units, hidden_field
from latentbits.models.combination_machine.partition import exact_moments, n_enumerated
from latentbits.models.combination_machine.truncation import few_active, sparse_moments

__all__ = [
    "Epochs",
    "Learned",
    "Shared",
    "Stats",
    "adam",
    "best_epoch",
    "climb",
    "e_step",
    "falling",
    "gradient",
    "inputs_of",
    "machine_of",
    "momentum",
    "moved",
    "objective",
    "share_of_batch",
]

PATIENCE = 100  # passes without a gain that end a climb: held-out rows may fall for a while before they rise again
PATIENCE_SHARE = 0.5  # of the passes so far: units that share a cause part late, after plateaus of hundreds of passes
INERTIA = 0.9  # share of the last step that is taken again, of the ascent with momentum
FOLLOWING = 0.02  # of the centre's way to the mean of a batch
NO_HOLES = "max_active does not go with missing entries: complete X first, or leave max_active out"
FEW_HELD_OUT = 50  # rows: by fewer, learning would be stopped by chance
SINGLE = 14  # from so many enumerated units on, sums over states are in float32: 1e-6 of log Z for half of the time


class Shared(eqx.Module):
    """log Z and its gradient, for a whole pass."""

    log_z: Float[Array, ""]
    expected: Machine | None


class Stats(eqx.Module):
    """Sums over rows; `held_out` rows count nowhere else.

    Attributes
    ----------
    log_weight, held_out
        Sums of log p(x) + log Z (see `sum_rows`).
    clamped
        Sums of P(h_i = 1 | x) x_j, P(h_i = 1 | x) and x_j.
    """

    n_rows: Float[Array, ""]
    n_held_out: Float[Array, ""]
    log_weight: Float[Array, "2"]
    held_out: Float[Array, "2"]
    clamped: Machine

    @property
    def n_learned(self) -> Float[Array, ""]:
        """Number of rows that are learned from."""
        return self.n_rows - self.n_held_out


def inputs_of(units: Units, batch: Batch) -> Float[Array, "rows inputs"]:
    """The rows as the machine sees them: bits become -1 and +1; what is missing, 0."""
    return 2 * batch.values - batch.mask if units.name == "binary" else batch.values


def _is_held_out(rows: UInt32[Array, " rows"], share: float) -> Array:
    """A fixed choice of rows by their global number, spread evenly (multiples of the golden ratio).

    None of the first rows is among them, so that a table of a few rows is learned from whole.
    """
    return (rows + np.uint32(14)) * np.uint32(2654435769) < np.uint32(share * 2**32)


def _all_states(field: Float[Array, "rows hidden"]) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Log of the sum over all hidden states of exp(h . field), and E[h]: the product form (2.4)."""
    return jnp.sum(jax.nn.softplus(field), 1), jax.nn.sigmoid(field)


@cache
def e_step(units: Units, held_out: float, max_active: int | None = None) -> Callable[..., tuple[Stats, None]]:
    """The clamped half of the gradient; missing inputs are summed out (`holes.py`).

    With `max_active` both halves have the same states, those with few active units: with all of them in this half
    alone, what is climbed would be no likelihood, and would go up for ever in the states that the other leaves out.
    """
    if max_active is None:
        hidden = _all_states
    else:
        hidden = partial(few_active, max_active=max_active)

    def step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        x = inputs_of(units, batch)
        out = batch.weight * _is_held_out(batch.rows, held_out)
        learned = batch.weight - out
        if batch.observed is None:
            log_hidden, active = hidden(hidden_field(params, x))
            log_weight = x @ params.input_bias + jnp.sum(units.base(x), 1) + log_hidden
            on = active * learned[:, None]
            clamped = Machine(on.T @ x, on.sum(0), learned @ x)
        elif max_active is not None:
            raise ValueError(NO_HOLES)
        else:
            log_weight, clamped = holes.moments(units, params, batch.keys, x, batch.observed, learned)
        stats = Stats(
            n_rows=batch.weight.sum(),
            n_held_out=out.sum(),
            log_weight=sum_rows(learned, log_weight),
            held_out=sum_rows(out, log_weight),
            clamped=clamped,
        )
        return stats, None

    return step


@cache
def _sums(units: Units, max_active: int | None) -> Callable[..., Shared]:
    """`prepare` of a stage that climbs: log Z and the expectations under the machine."""

    def prepare(params: Params, state: Any, progress: Progress | None) -> Shared:
        machine = machine_of(params)
        if max_active is not None:
            return Shared(*sparse_moments(units, machine, max_active)[:2])
        single = n_enumerated(units, *params.weights.shape) >= SINGLE
        return Shared(*exact_moments(units, machine, np.dtype(np.float32 if single else np.float64)))

    return prepare


def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    """Log-likelihood of the held-out rows, as if they were all; of the others where too few are held out to tell."""
    learned = stats.log_weight.sum() - stats.n_learned * shared.log_z
    held_out = stats.held_out.sum() - stats.n_held_out * shared.log_z
    scaled = held_out * stats.n_rows / jnp.maximum(stats.n_held_out, 1)
    return jnp.where(stats.n_held_out >= FEW_HELD_OUT, scaled, learned)


class Learned(NamedTuple):
    """Which parameters a stage moves, beside the hidden biases."""

    weights: bool = True
    input_bias: bool = True


def gradient(shared: Shared, stats: Stats, learned: Learned) -> Machine:
    """Of the log-likelihood per row; 0 for what is not to be learned."""
    assert shared.expected is not None
    n = jnp.maximum(stats.n_learned, 1)
    slope = jax.tree.map(lambda clamped, free: clamped / n - free, stats.clamped, shared.expected)
    return Machine(slope.weights * learned.weights, slope.hidden_bias, slope.input_bias * learned.input_bias)


def moved(params: Params, machine: Machine) -> Params:
    """The parameters with another machine's; log Z is unknown until the end of learning."""
    known = (params.log_partition, params.log_partition_error, params.log_partition_effective)
    return Params(machine.weights, machine.hidden_bias, machine.input_bias, *known)


def machine_of(params: Params) -> Machine:
    return Machine(params.weights, params.hidden_bias, params.input_bias)


# ---------------------------------------------------------------- the paper's: momentum


@cache
def momentum(units: Units, learned: Learned, rate: float, max_active: int | None) -> Schedule:
    """Plain ascent with a momentum term, all rows at every step, for exactly `max_iter` steps."""
    optimiser = optax.sgd(rate, momentum=INERTIA)

    def start(params: Params) -> Any:
        return optimiser.init(machine_of(params))

    def update(state: Any, params: Params, shared: Shared, stats: Stats, progress: Progress) -> tuple[Any, Params]:
        downhill = jax.tree.map(jnp.negative, gradient(shared, stats, learned))
        change, state = optimiser.update(downhill, state)
        return state, moved(params, optax.apply_updates(machine_of(params), change))

    return Schedule(
        "momentum",
        prepare=_sums(units, max_active),
        e_step=e_step(units, 0.0, max_active),
        start=start,
        update=update,
    )


# ---------------------------------------------------------------- Adam on small batches


class Epochs(eqx.Module):
    """The optimiser, and the best machine so far by the held-out rows.

    The held-out rows of an epoch are evaluated batch by batch while the machine moves; what is kept is the machine at
    the epoch's end.
    """

    optimiser: Any
    centre: Centre
    epoch: Int[Array, ""]
    held_out: Float[Array, ""]
    n_held_out: Float[Array, ""]
    best_value: Float[Array, ""]
    best: Params


def first_epoch(optimiser: Any, params: Params) -> Epochs:
    """Before the first batch."""
    zero = jnp.zeros(())
    centre = Centre(jnp.zeros_like(params.hidden_bias), jnp.zeros_like(params.input_bias))
    return Epochs(optimiser, centre, jnp.asarray(0, jnp.int32), zero, zero, jnp.asarray(-jnp.inf), params)


def _epoch_over(state: Epochs, params: Params) -> Epochs:
    """An epoch is over: keep its machine if it is the best so far."""
    told = state.n_held_out >= FEW_HELD_OUT
    value = jnp.where(told, state.held_out / jnp.maximum(state.n_held_out, 1), jnp.inf)
    better = value >= state.best_value
    best = jax.tree.map(lambda new, old: jnp.where(better, new, old), params, state.best)
    zero = jnp.zeros_like(value)
    best_value = jnp.maximum(value, state.best_value)
    return Epochs(state.optimiser, state.centre, state.epoch + 1, zero, zero, best_value, best)


def best_epoch(params: Params, state: Epochs) -> Params:
    """The best machine of a stage that is over."""
    return _epoch_over(state, params).best


def share_of_batch(stats: Stats, batch_size: int) -> Float[Array, ""]:
    """By which a step is shortened: the last batch may be a short one, which Adam would not see."""
    return jnp.minimum(1, stats.n_rows / batch_size) * (stats.n_learned > 0)


def falling(rate: float, n_updates: int | None, progress: Progress) -> Float[Array, ""]:
    """A step size that falls along a cosine to a fiftieth, over all epochs or so many updates, if those are fewer."""
    done = progress.fraction if n_updates is None else jnp.maximum(progress.fraction, progress.step / n_updates)
    return rate * (0.02 + 0.49 * (1 + jnp.cos(jnp.pi * jnp.minimum(done, 1))))


@cache
def adam(
    units: Units,
    learned: Learned,
    rate: float,
    n_epochs: int,
    n_updates: int | None,
    batch_size: int,
    held_out: float,
    max_active: int | None,
) -> Schedule:
    """Adam on batches of rows, with the exact expectations under the machine at every step.

    It ends after `n_epochs`, or with the epoch in which `n_updates` were made.
    """
    optimiser = optax.scale_by_adam()

    def start(params: Params) -> Epochs:
        return first_epoch(optimiser.init(machine_of(params)), params)

    def update(
        state: Epochs, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Epochs, Params]:
        over = progress.iteration > state.epoch
        state = jax.tree.map(lambda a, b: jnp.where(over, a, b), _epoch_over(state, params), state)
        told = stats.held_out.sum() - stats.n_held_out * shared.log_z
        means = jax.tree.map(lambda total: total / jnp.maximum(stats.n_learned, 1), stats.clamped)
        share = jnp.maximum(FOLLOWING, 1 / (1 + progress.step)) * (stats.n_learned > 0)
        centre = followed(state.centre, centre_of(means, learned.input_bias), share)
        change, inner = optimiser.update(centred(gradient(shared, stats, learned), centre), state.optimiser)
        step = falling(rate, n_updates, progress) * share_of_batch(stats, batch_size)
        machine = jax.tree.map(lambda p, c: p + step * c, machine_of(params), uncentred(change, centre))
        state = eqx.tree_at(
            lambda s: (s.optimiser, s.centre, s.held_out, s.n_held_out),
            state,
            (inner, centre, state.held_out + told, state.n_held_out + stats.n_held_out),
        )
        return state, moved(params, machine)

    def done(state: Epochs) -> Array:
        return jnp.asarray(False) if n_updates is None else state.optimiser.count >= n_updates

    return Schedule(
        "Adam",
        prepare=_sums(units, max_active),
        e_step=e_step(units, held_out, max_active),
        start=start,
        update=update,
        done=done,
        max_iter=n_epochs,
        rows_per_update=batch_size,
    )


# ---------------------------------------------------------------- L-BFGS


class Climb(eqx.Module):
    """The optimiser, and the coordinates in which it climbs."""

    optimiser: lbfgs.LBFGS
    coordinates: Coordinates


@cache
def climb(
    units: Units,
    learned: Learned,
    held_out: float,
    max_active: int | None,
    prior: float | None = None,
    name: str = "L-BFGS",
) -> Iterate:
    """L-BFGS on all rows until the held-out ones gain no more.

    `prior` is the standard deviation of a Gaussian prior on the weights, which keeps those of a small table finite.
    """
    precision = 0.0 if prior is None else 1 / prior**2
    prepare = _sums(units, max_active)

    def start(params: Params) -> Climb:
        means = prepare(params, None, None).expected
        assert means is not None
        coordinates = Coordinates.around(units, means, learned.input_bias, learned.weights)
        return Climb(lbfgs.start(ravel_pytree(coordinates.of(machine_of(params)))[0]), coordinates)

    def update(state: Climb, params: Params, shared: Shared, stats: Stats, progress: Progress) -> tuple[Climb, Params]:
        n = jnp.maximum(stats.n_learned, 1)
        value = stats.log_weight.sum() / n - shared.log_z - 0.5 * precision * jnp.sum(params.weights**2) / n
        plain = gradient(shared, stats, learned)
        pull = learned.weights * precision * params.weights / n
        slope = state.coordinates.gradient(Machine(plain.weights - pull, plain.hidden_bias, plain.input_bias))
        point, unravel = ravel_pytree(state.coordinates.of(machine_of(params)))
        optimiser, ahead = lbfgs.advance(state.optimiser, point, value, ravel_pytree(slope)[0])
        return Climb(optimiser, state.coordinates), moved(params, state.coordinates.machine(unravel(ahead)))

    def penalised(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        penalty = 0.5 * precision * jnp.sum(params.weights**2)  # held-out rows know of no prior
        return objective(params, shared, stats) - penalty * (stats.n_held_out < FEW_HELD_OUT)

    return Iterate(
        name,
        objective=penalised,
        prepare=prepare,
        e_step=e_step(units, held_out, max_active),
        start=start,
        update=update,
        patience=PATIENCE,
        patience_share=PATIENCE_SHARE,
    )
