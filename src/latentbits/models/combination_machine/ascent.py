"""Learning by ascent of the log-likelihood (Freund & Haussler 1994, section 3.0.1).

    log-likelihood = sum_x log_weight(x) - N log Z                                              (3.1)
    d / d theta_i  = sum_x P(h_i = 1 | x)     - N E[h_i]                                        (3.5), (3.8)
    d / d w_ij     = sum_x P(h_i = 1 | x) x_j - N E[h_i x_j]                                    (3.6), (3.9)
    d / d b_j      = sum_x x_j                - N E[x_j]

The clamped part is a sum over rows; the other is no sum over rows but over states, so `prepare` has it: exact
(`partition.py`), over the states with few active units (`truncation.py`) or over the largest terms (`largest.py`).
Three ways up: the paper's momentum, Adam on small batches (which leaves poor optima more easily), and L-BFGS (which
ends at the top).

Some rows, every tenth by default, are held out: their log-likelihood is the objective, and says when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, UInt32

from latentbits.core import lbfgs
from latentbits.core.adam import Adam, Number, direction, falling
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.model import Iterate, Progress, Schedule
from latentbits.core.products import over_rows
from latentbits.core.tree import sum_rows
from latentbits.models.combination_machine import evidence, holes
from latentbits.models.combination_machine.bordered import Bordered, bordered, moved, moved_on_host
from latentbits.models.combination_machine.centring import (
    Centre,
    Coordinates,
    centre_of,
    centred,
    followed,
    uncentred,
)
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.largest import largest_moments
from latentbits.models.combination_machine.machine import Machine, Params, Units, softplus, some
from latentbits.models.combination_machine.partition import exact_moments, n_enumerated
from latentbits.models.combination_machine.truncation import few_active, sparse_moments

__all__ = [
    "REFIT",
    "Epochs",
    "Learned",
    "Pace",
    "Shared",
    "Stats",
    "adam",
    "best_epoch",
    "climb",
    "e_step",
    "fields",
    "gradient",
    "held_below",
    "inputs_of",
    "machine_of",
    "momentum",
    "objective",
    "refit",
    "takes_ones",
]

PATIENCE = 100  # passes without a gain that end a climb: held-out rows may fall for a while before they rise again
PATIENCE_SHARE = 0.5  # of the passes so far: units that share a cause part late, after plateaus of hundreds of passes
INERTIA = 0.9  # share of the last step that is taken again, of the ascent with momentum
REFIT = "all rows"  # the stage after a climb that held-out rows have ended,
STEPS = 15  # and its passes
ANEW = 10  # passes of a climb after which its prior is chosen anew
FOLLOWING = 0.02  # of the centre's way to the mean of a batch
NO_HOLES = "max_active does not go with missing entries: complete X first, or leave max_active out"
FEW_HELD_OUT = 50  # rows: by fewer, learning would be stopped by chance
SINGLE = 14  # from so many enumerated units on, sums over states are in float32: 1e-6 of log Z for half of the time


Bound = np.uint32 | UInt32[Array, ""]


class Shared(eqx.Module):
    """log Z and its gradient, for a whole pass: E[h_i x_j], E[h_i] and E[x_j] as a bordered matrix."""

    log_z: Float[Array, ""]
    expected: Bordered | None


class Stats(eqx.Module):
    """Sums over rows; rows that are held out count in their own sums alone.

    Attributes
    ----------
    n_places
        Rows that count, each once.
    log_weights
        Sums of log p(x) + log Z (see `sum_rows`) over the rows that are learned from, and over the others.
    sums
        Sums of P(h_i = 1 | x) x_j, P(h_i = 1 | x), x_j and 1 as a bordered matrix; and below it the x_j and 1 of rows
        that are held out.
    """

    n_rows: Float[Array, ""]
    n_places: Float[Array, ""]
    log_weights: Float[Array, "2 2"]
    sums: Float[Array, "rows_of_sums more_inputs"]

    @property
    def clamped(self) -> Bordered:
        """The sums over the rows that are learned from."""
        return self.sums[:-1]

    @property
    def n_learned(self) -> Float[Array, ""]:
        """Number of rows that are learned from."""
        return self.sums[-2, -1]

    @property
    def n_held_out(self) -> Float[Array, ""]:
        """Number of rows that are not."""
        return self.sums[-1, -1]


def inputs_of(units: Units, batch: Batch) -> Float[Array, "rows inputs"]:
    """The rows as the machine sees them: bits become -1 and +1; what is missing, 0."""
    return 2 * batch.values - batch.mask if units.name == "binary" else batch.values


def takes_ones(units: Units) -> bool:
    """Whether rows may come as lists of ones; as real numbers, bits have a base measure of their own."""
    return units.name == "binary"


def fields(
    units: Units, machine: Machine, batch: Batch | SparseBatch
) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Of complete rows: b . x with the log of the base measure, and w_i . x + theta_i."""
    weights = jnp.concatenate([machine.weights, machine.input_bias[None]])
    if isinstance(batch, SparseBatch):
        found = 2 * batch.times(weights.T) - weights.sum(1)  # all inputs -1, but for the ones
        return found[:, -1], found[:, :-1] + machine.hidden_bias
    x = inputs_of(units, batch)
    found = x @ weights.T
    return found[:, -1] + jnp.sum(units.base(x), 1), found[:, :-1] + machine.hidden_bias


def _summed(
    units: Units, batch: Batch | SparseBatch, left: Float[Array, "rows width"]
) -> Float[Array, "width more_inputs"]:
    """``left.T @ x``, with x bordered by a 1."""
    if isinstance(batch, SparseBatch):
        counts = left.sum(0)[:, None]
        return jnp.concatenate([2 * batch.summed(left) - counts, counts], 1)
    x = inputs_of(units, batch)
    return over_rows(left, jnp.concatenate([x, jnp.ones_like(x[:, :1])], 1))


def held_below(share: float) -> np.uint32:
    """The bound for `_is_held_out` that holds out this share of the rows."""
    return np.uint32(share * 2**32)


def _is_held_out(rows: UInt32[Array, " rows"], below: Bound) -> Array:
    """A fixed choice of rows by their global number, spread evenly (multiples of the golden ratio).

    None of the first rows is among them, so that a table of a few rows is learned from whole.
    """
    return (rows + np.uint32(14)) * np.uint32(2654435769) < below


def _held_out(batch: Batch | SparseBatch, below: Bound) -> Float[Array, " rows"]:
    """How much of each row's weight is held out.

    A row that counts n times is so many rows, of which a share is held out, as it would be of them.
    """
    once = batch.weight * _is_held_out(batch.rows, below)
    copies = jnp.maximum(jnp.round(batch.weight), 1)
    uniform = (batch.rows + np.uint32(14)) * np.uint32(2654435769) / jnp.asarray(2**32, batch.weight.dtype)
    many = jnp.clip(jnp.ceil(copies * (below / jnp.asarray(2**32, batch.weight.dtype)) - uniform), 0, copies)
    return jnp.where(copies == 1, once, many * batch.weight / copies)


def _all_states(field: Float[Array, "rows hidden"]) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Log of the sum over all hidden states of exp(h . field), and E[h]: the product form (2.4)."""
    return jnp.sum(softplus(field), 1), jax.nn.sigmoid(field)


def e_step(units: Units, held_out: float, max_active: int | None = None) -> Callable[..., tuple[Stats, None]]:
    """The clamped half of the gradient; missing inputs are summed out (`holes.py`).

    With `max_active` both halves have the same states, those with few active units: with all of them in this half
    alone, what is climbed would be no likelihood, and would go up for ever in the states that the other leaves out.
    """
    return Partial(_e_step(units, max_active), held_below(held_out))


@cache
def _e_step(units: Units, max_active: int | None) -> Callable[..., tuple[Stats, None]]:
    if max_active is None:
        hidden = _all_states
    else:
        hidden = partial(few_active, max_active=max_active)

    def step(
        below: Bound, params: Params, shared: Shared, batch: Batch | SparseBatch, row_state: None
    ) -> tuple[Stats, None]:
        out = _held_out(batch, below)
        # sums over rows are rows of one product: XLA makes several programs of each that is a sum of a vector
        counted = jnp.stack([batch.weight - out, out], 1)
        if batch.observed is None:
            own, field = fields(units, params, batch)
            log_hidden, active = hidden(field)
            log_weight = own + log_hidden
            sums = _summed(units, batch, jnp.concatenate([active * counted[:, :1], counted], 1))
        elif max_active is not None:
            raise ValueError(NO_HOLES)
        else:
            x, learned = inputs_of(units, batch), counted[:, 0]
            log_weight, clamped = holes.moments(units, params, batch.keys, x, batch.observed, learned)
            others = _summed(units, batch, counted)
            sums = jnp.concatenate([bordered(clamped, others[0, -1]), others[1:]])
        log_weights = jax.vmap(sum_rows, in_axes=(1, None))(counted, log_weight)
        places = jnp.sum((batch.weight > 0).astype(batch.weight.dtype))
        return Stats(sums[-2, -1] + sums[-1, -1], places, log_weights, sums), None

    return step


@cache
def _sums(units: Units, max_active: int | None, max_terms: int | None) -> Callable[..., Shared]:
    """`prepare` of a stage that climbs: log Z and the expectations under the machine."""

    def prepare(params: Params, state: Any, progress: Progress | None) -> Shared:
        machine = machine_of(params)
        if max_active is not None:
            log_z, moments = sparse_moments(units, machine, max_active)[:2]
        elif max_terms is not None:
            log_z, moments, _ = largest_moments(units, machine, max_terms)
        else:
            single = n_enumerated(units, *params.weights.shape) >= SINGLE
            log_z, moments = exact_moments(units, machine, np.dtype(np.float32 if single else np.float64))
        return Shared(log_z, bordered(moments, 1.0))

    return prepare


def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    """Log-likelihood of the held-out rows, as if they were all; of the others where too few are held out to tell."""
    learned, held_out = stats.log_weights.sum(1) - stats.sums[-2:, -1] * shared.log_z
    scaled = held_out * stats.n_rows / some(stats.n_held_out)
    return jnp.where(stats.n_held_out >= FEW_HELD_OUT, scaled, learned)


class Learned(NamedTuple):
    """Which parameters a stage moves, beside the hidden biases."""

    weights: bool = True
    input_bias: bool = True


def gradient(shared: Shared, stats: Stats, learned: Learned) -> Bordered:
    """Of the log-likelihood per row; 0 for what is not to be learned."""
    assert shared.expected is not None
    movable = np.ones(shared.expected.shape)
    movable[:-1, :-1], movable[-1, :-1], movable[-1, -1] = learned.weights, learned.input_bias, 0
    return (stats.clamped / some(stats.n_learned) - shared.expected) * movable


def machine_of(params: Params) -> Machine:
    return Machine(params.weights, params.hidden_bias, params.input_bias)


# ---------------------------------------------------------------- the paper's: momentum


@cache
def _momentum(learned: Learned) -> Callable[..., tuple[Bordered, Params]]:
    def update(
        rate: Number, state: Bordered, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Bordered, Params]:
        velocity = gradient(shared, stats, learned) + INERTIA * state
        return velocity, moved(params, bordered(params) + rate * velocity)

    return update


def _at_rest(params: Params) -> Bordered:
    return jnp.zeros_like(bordered(params))


def momentum(
    units: Units, learned: Learned, rate: float, max_active: int | None = None, max_terms: int | None = None
) -> Schedule:
    """Plain ascent with a momentum term, all rows at every step, for exactly `max_iter` steps."""
    return Schedule(
        "momentum",
        prepare=_sums(units, max_active, max_terms),
        sparse=takes_ones(units),
        e_step=e_step(units, 0.0, max_active),
        start=_at_rest,
        update=Partial(_momentum(learned), float(rate)),
    )


# ---------------------------------------------------------------- Adam on small batches


class Pace(eqx.Module):
    """How long the steps of batches are, and for how long they are made.

    Attributes
    ----------
    rate
        Step size at the start.
    n_updates
        After which it ends; infinity for none.
    batch_size
        Rows of an update.
    """

    rate: float
    n_updates: float
    batch_size: float

    @classmethod
    def of(cls, rate: float, n_updates: int | None, batch_size: int) -> Pace:
        """With None for no end by the number of updates."""
        return cls(float(rate), np.inf if n_updates is None else float(n_updates), float(batch_size))

    def step(self, stats: Stats, progress: Progress) -> Float[Array, ""]:
        """The step size; the last batch may be a short one, which Adam would not see."""
        n_rows = jnp.maximum(stats.n_rows, stats.n_places)  # weights may be small numbers
        share = jnp.minimum(1, n_rows / self.batch_size) * (stats.n_learned > 0)
        return falling(self.rate, self.n_updates, progress) * share

    def over(self, n_updates: Int[Array, ""]) -> Array:
        """Whether as many updates were made."""
        return n_updates >= self.n_updates


class Epochs(eqx.Module):
    """The optimiser, and the best machine so far by the held-out rows.

    The held-out rows of an epoch are evaluated batch by batch while the machine moves; what is kept is the machine at
    the epoch's end.

    Attributes
    ----------
    told
        Of the epoch: log-likelihood of the held-out rows so far, and their number.
    """

    optimiser: Adam
    centre: Centre
    epoch: Int[Array, ""]
    told: Float[Array, "2"]
    best_value: Float[Array, ""]
    best: Bordered


def _first_epoch(params: Params) -> Epochs:
    """Before the first batch."""
    matrix = bordered(params)
    centre = Centre(jnp.zeros(len(matrix)), jnp.zeros(matrix.shape[1]))
    return Epochs(Adam.at_rest(matrix), centre, jnp.zeros((), jnp.int32), jnp.zeros(2), jnp.asarray(-jnp.inf), matrix)


def best_epoch(params: Params, state: Epochs) -> Params:
    """The best machine of a stage that is over, found on the host."""
    (held_out, n_held_out), best_value = np.asarray(state.told), float(state.best_value)
    if n_held_out < FEW_HELD_OUT or held_out / n_held_out >= best_value:
        return params  # where too few are held out to tell, the last is the best
    return moved_on_host(params, state.best)


@cache
def _adam(learned: Learned) -> Callable[..., tuple[Epochs, Params]]:
    def update(
        pace: Pace, state: Epochs, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Epochs, Params]:
        here = bordered(params)
        # is an epoch over?  Then its machine is kept if it is the best so far
        over = progress.iteration > state.epoch
        held_out, n_held_out = state.told[0], state.told[1]
        value = jnp.where(n_held_out >= FEW_HELD_OUT, held_out / jnp.maximum(n_held_out, 1), jnp.inf)
        best_value = jnp.where(over, jnp.maximum(value, state.best_value), state.best_value)
        best = jnp.where(over & (value >= state.best_value), here, state.best)
        now = stats.log_weights[1].sum() - stats.n_held_out * shared.log_z
        told = jnp.where(over, 0, state.told) + jnp.stack([now, stats.n_held_out])

        share = jnp.maximum(FOLLOWING, 1 / (1 + progress.step)) * (stats.n_learned > 0)
        means = stats.clamped / some(stats.n_learned)
        centre = followed(state.centre, centre_of(means, learned.input_bias), share)
        optimiser, change = direction(state.optimiser, centred(gradient(shared, stats, learned), centre))
        ahead = here + pace.step(stats, progress) * uncentred(change, centre)
        return Epochs(optimiser, centre, state.epoch + over, told, best_value, best), moved(params, ahead)

    return update


def _epochs_over(pace: Pace, state: Epochs) -> Array:
    return pace.over(state.optimiser.count)


def adam(
    units: Units,
    learned: Learned,
    rate: float,
    n_epochs: int,
    n_updates: int | None,
    batch_size: int,
    held_out: float,
    max_active: int | None = None,
    max_terms: int | None = None,
) -> Schedule:
    """Adam on batches of rows, with the exact expectations under the machine at every step.

    It ends after `n_epochs`, or with the epoch in which `n_updates` were made.
    """
    pace = Pace.of(rate, n_updates, batch_size)
    return Schedule(
        "Adam",
        prepare=_sums(units, max_active, max_terms),
        sparse=takes_ones(units),
        e_step=e_step(units, held_out, max_active),
        start=_first_epoch,
        update=Partial(_adam(learned), pace),
        done=Partial(_epochs_over, pace),
        max_iter=n_epochs,
        rows_per_update=batch_size,
    )


# ---------------------------------------------------------------- L-BFGS


class Climb(eqx.Module):
    """The optimiser, and the coordinates in which it climbs: around the machine of the first pass."""

    optimiser: lbfgs.LBFGS
    coordinates: Coordinates


def _foot(params: Params) -> Climb:
    nowhere = jnp.zeros_like(bordered(params))
    nothing = Centre(nowhere[:, 0], nowhere[0])
    return Climb(lbfgs.start(nowhere.reshape(-1)), Coordinates(nothing, *nothing))


@cache
def _climb(units: Units, learned: Learned) -> Callable[..., tuple[Climb, Params]]:
    def update(
        prior: Prior, state: Climb, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Climb, Params]:
        assert shared.expected is not None
        n, here = some(stats.n_learned), bordered(params)
        only_weights = np.pad(np.full(params.weights.shape, float(learned.weights)), [(0, 1), (0, 1)])
        first = jnp.isneginf(state.optimiser.value)
        around = Coordinates.around(units, shared.expected, learned.input_bias, learned.weights)
        coordinates = jax.tree.map(lambda new, old: jnp.where(first, new, old), around, state.coordinates)

        def pull(point: Float[Array, " size"]) -> Float[Array, " size"]:
            """Of a prior of precision 1: minus the slope of its logarithm."""
            return (coordinates.gradient(only_weights * coordinates.machine(point.reshape(here.shape))) / n).reshape(-1)

        old = evidence.now(prior, params.precision)
        known = evidence.information(units, shared.expected, n)
        new = jnp.where(progress.iteration % ANEW == 0, evidence.precision(prior, old, params.weights, known), old)
        optimiser = lbfgs.penalised(state.optimiser, new - old, pull)
        value = (stats.log_weights[0].sum() - 0.5 * new * jnp.sum(jnp.square(params.weights))) / n - shared.log_z
        point = coordinates.of(here).reshape(-1)
        slope = coordinates.gradient(gradient(shared, stats, learned)).reshape(-1) - new * pull(point)
        optimiser, ahead = lbfgs.advance(optimiser, point, value, slope)
        params = replace(params, precision=new)
        return Climb(optimiser, coordinates), moved(params, coordinates.machine(ahead.reshape(here.shape)))

    return update


@cache
def _penalised(units: Units) -> Callable[..., Float[Array, ""]]:
    def penalised(prior: Prior, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        assert shared.expected is not None
        known = evidence.information(units, shared.expected, stats.n_learned)
        lost = evidence.lost(prior, params.precision, params.weights, known)  # held-out rows know of no prior
        return objective(params, shared, stats) - lost * (stats.n_held_out < FEW_HELD_OUT)

    return penalised


def climb(
    units: Units,
    learned: Learned,
    held_out: float,
    max_active: int | None = None,
    prior: float | str | None = None,
    name: str = "L-BFGS",
    max_terms: int | None = None,
) -> Iterate:
    """L-BFGS on all rows until the held-out ones gain no more.

    `prior` is the standard deviation of a Gaussian prior on the weights, which keeps those of a small table finite;
    with "auto" the rows choose it on the way (`evidence.py`).
    """
    return Iterate(
        name,
        **_climbing(units, learned, held_out, max_active, prior, max_terms),
        patience=PATIENCE,
        patience_share=PATIENCE_SHARE,
        stops_early=max_terms is None and learned.weights,  # some terms of Z make no likelihood
    )


def refit(
    units: Units,
    learned: Learned,
    max_active: int | None = None,
    prior: float | str | None = None,
    max_terms: int | None = None,
) -> Schedule:
    """A few steps of L-BFGS on all rows, from where the held-out ones have ended a climb.

    Few, so that what was gained by that end is kept: of 8 units on 500 digits, 10 steps gain 0.08 nats per unseen row,
    and 80 steps 0.02.
    """
    own = _climbing(units, learned, 0.0, max_active, prior, max_terms)
    return Schedule(REFIT, **own, max_iter=STEPS)


def _climbing(
    units: Units,
    learned: Learned,
    held_out: float,
    max_active: int | None,
    prior: float | str | None,
    max_terms: int | None,
) -> dict[str, Any]:
    """Functions of a stage that climbs by L-BFGS."""
    by = Prior.of(prior)
    return {
        "objective": Partial(_penalised(units), by),
        "prepare": _sums(units, max_active, max_terms),
        "sparse": takes_ones(units),
        "e_step": e_step(units, held_out, max_active),
        "start": _foot,
        "update": Partial(_climb(units, learned), by),
    }
