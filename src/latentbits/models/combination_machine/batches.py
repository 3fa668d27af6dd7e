"""Adam on small batches of rows, which leaves poor optima more easily than a climb does.

Some rows, every tenth by default, are held out: the machine that is best by them is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Int

from latentbits.core.adam import Adam, direction, falling
from latentbits.core.arrays import Array, namespace
from latentbits.core.model import Progress, Schedule
from latentbits.core.module import Module
from latentbits.core.tree import to_numpy
from latentbits.models.combination_machine.bordered import Bordered, bordered, moved
from latentbits.models.combination_machine.centring import Centre, centre_of, centred, followed, uncentred
from latentbits.models.combination_machine.likelihood import Learned, Shared, Stats, e_step, expectations, gradient
from latentbits.models.combination_machine.machine import Params, Units, some
from latentbits.models.combination_machine.rows import takes_ones
from latentbits.models.combination_machine.tuning import HELD_OUT_LEAST_ROWS

__all__ = ["Epochs", "Pace", "adam", "best_epoch"]


class Pace(Module):
    """Length of the steps of batches, and how long they go on."""

    rate: float  # step size at the start
    n_updates: float  # after which it ends; infinity for none
    batch_size: float  # rows of an update

    @classmethod
    def of(cls, rate: float, n_updates: int | None, batch_size: int) -> Pace:
        """Make a pace; None sets no end by the number of updates."""
        return cls(float(rate), np.inf if n_updates is None else float(n_updates), float(batch_size))

    def step(self, stats: Stats, progress: Progress) -> Float[Array, ""]:
        """Compute the step size; the last batch may be a short one, which Adam would not see."""
        xp = namespace(stats.n_rows)
        n_rows = xp.maximum(stats.n_rows, stats.n_places)  # weights may be small numbers
        share = xp.minimum(1, n_rows / self.batch_size) * (stats.n_learned > 0)
        return falling(self.rate, self.n_updates, progress) * share

    def over(self, n_updates: Int[Array, ""]) -> Array:
        """Check whether as many updates were made."""
        return n_updates >= self.n_updates


class Epochs(Module):
    """The optimiser, and the best machine so far by the held-out rows.

    The held-out rows of an epoch are evaluated batch by batch while the machine moves; what is kept is the machine at
    the epoch's end.
    """

    optimiser: Adam
    centre: Centre
    epoch: Int[Array, ""]
    held_out: Float[Array, "2"]  # log-likelihood of the epoch's held-out rows so far, and their number
    best_value: Float[Array, ""]
    best: Bordered


def _first_epoch(params: Params) -> Epochs:
    """Make the state before the first batch."""
    xp, matrix = namespace(params.weights), bordered(params)
    centre = Centre(xp.zeros(len(matrix)), xp.zeros(matrix.shape[1]))
    return Epochs(Adam.at_rest(matrix), centre, xp.zeros((), "int32"), xp.zeros(2), xp.asarray(-xp.inf), matrix)


def best_epoch(params: Params, state: Epochs) -> Params:
    """Find the best machine of a stage that is over, on the host."""
    (held_out, n_held_out), best_value = np.asarray(state.held_out), float(state.best_value)
    if n_held_out < HELD_OUT_LEAST_ROWS or held_out / n_held_out >= best_value:
        return params  # where too few are held out to tell, the last is the best
    return moved(params, to_numpy(state.best))


@cache
def _adam(learned: Learned) -> Callable[..., tuple[Epochs, Params]]:
    def update(
        pace: Pace, state: Epochs, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Epochs, Params]:
        xp, here = namespace(params.weights), bordered(params)
        # is an epoch over?  Then its machine is kept if it is the best so far
        over = progress.iteration > state.epoch
        held_out, n_held_out = state.held_out[0], state.held_out[1]
        value = xp.where(n_held_out >= HELD_OUT_LEAST_ROWS, held_out / xp.maximum(n_held_out, 1), xp.inf)
        best_value = xp.where(over, xp.maximum(value, state.best_value), state.best_value)
        best = xp.where(over & (value >= state.best_value), here, state.best)
        now = stats.log_weights[1].sum() - stats.n_held_out * shared.log_z
        so_far = xp.where(over, 0, state.held_out) + xp.stack([now, stats.n_held_out])

        # of the centre's way to the mean of a batch
        share = xp.maximum(0.02, 1 / (1 + progress.step)) * (stats.n_learned > 0)
        means = stats.clamped / some(stats.n_learned)
        centre = followed(state.centre, centre_of(means, learned.input_bias), share)
        optimiser, change = direction(state.optimiser, centred(gradient(shared, stats, learned), centre))
        ahead = here + pace.step(stats, progress) * uncentred(change, centre)
        return Epochs(optimiser, centre, state.epoch + over, so_far, best_value, best), moved(params, ahead)

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
    """Make a stage of Adam on batches of rows, with the exact expectations under the machine at every step.

    It ends after `n_epochs`, or with the epoch in which `n_updates` were made.
    """
    pace = Pace.of(rate, n_updates, batch_size)
    return Schedule(
        "Adam",
        prepare=expectations(units, max_active, max_terms),
        sparse=takes_ones(units),
        e_step=e_step(units, held_out, max_active),
        start=_first_epoch,
        update=Partial(_adam(learned), pace),
        done=Partial(_epochs_over, pace),
        max_iter=n_epochs,
        rows_per_update=batch_size,
    )
