"""Ascent of the log-likelihood, all rows at every step: the paper's momentum, and L-BFGS, which ends at the top.

Some rows, every tenth by default, are held out: their log-likelihood is the objective, and says when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float

from latentbits.core import lbfgs
from latentbits.core.adam import Number
from latentbits.core.arrays import Array, namespace, pick
from latentbits.core.model import Iterate, Progress, Schedule
from latentbits.core.module import Module
from latentbits.models.combination_machine import evidence
from latentbits.models.combination_machine.bordered import Bordered, bordered, moved
from latentbits.models.combination_machine.centring import Centre, Coordinates
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.likelihood import (
    Learned,
    Shared,
    Stats,
    e_step,
    expectations,
    gradient,
    objective,
)
from latentbits.models.combination_machine.machine import Params, Units, some
from latentbits.models.combination_machine.rows import takes_ones
from latentbits.models.combination_machine.tuning import HELD_OUT_LEAST_ROWS

__all__ = ["REFIT", "climb", "momentum", "refit"]

REFIT = "all rows"  # the stage after a climb that held-out rows have ended


# ---------------------------------------------------------------- the paper's: momentum


@cache
def _momentum(learned: Learned) -> Callable[..., tuple[Bordered, Params]]:
    def update(
        rate: Number, state: Bordered, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Bordered, Params]:
        velocity = gradient(shared, stats, learned) + 0.9 * state  # of the last step is taken again
        return velocity, moved(params, bordered(params) + rate * velocity)

    return update


def _at_rest(params: Params) -> Bordered:
    return namespace(params.weights).zeros_like(bordered(params))


def momentum(
    units: Units, learned: Learned, rate: float, max_active: int | None = None, max_terms: int | None = None
) -> Schedule:
    """Make a stage of plain ascent with a momentum term, all rows at every step, for exactly `max_iter` steps."""
    return Schedule(
        "momentum",
        prepare=expectations(units, max_active, max_terms),
        sparse=takes_ones(units),
        e_step=e_step(units, 0.0, max_active),
        start=_at_rest,
        update=Partial(_momentum(learned), float(rate)),
    )


# ---------------------------------------------------------------- L-BFGS


class Climb(Module):
    """The optimiser, and the coordinates in which it climbs: around the machine of the first pass."""

    optimiser: lbfgs.LBFGS
    coordinates: Coordinates


def _foot(params: Params) -> Climb:
    nowhere = namespace(params.weights).zeros_like(bordered(params))
    nothing = Centre(nowhere[:, 0], nowhere[0])
    return Climb(lbfgs.start(nowhere.reshape(-1)), Coordinates(nothing, *nothing))


@cache
def _climb(units: Units, learned: Learned) -> Callable[..., tuple[Climb, Params]]:
    def update(
        prior: Prior, state: Climb, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Climb, Params]:
        assert shared.expected is not None
        xp, n, here = namespace(params.weights), some(stats.n_learned), bordered(params)
        only_weights: Any = np.pad(np.full(params.weights.shape, float(learned.weights)), [(0, 1), (0, 1)])
        first = xp.isneginf(state.optimiser.value)
        around = Coordinates.around(units, shared.expected, learned.input_bias, learned.weights)
        coordinates = pick(first, around, state.coordinates)

        def pull(point: Float[Array, " size"]) -> Float[Array, " size"]:
            """Compute minus the slope of the logarithm of a prior of precision 1."""
            return (coordinates.gradient(only_weights * coordinates.machine(point.reshape(here.shape))) / n).reshape(-1)

        old = evidence.now(prior, params.precision)
        known = evidence.information(units, shared.expected, n)
        chosen = evidence.precision(prior, old, params.weights, known)
        new = xp.where(progress.iteration % 10 == 0, chosen, old)
        optimiser = lbfgs.penalised(state.optimiser, new - old, pull)
        value = (stats.log_weights[0].sum() - 0.5 * new * xp.square(params.weights).sum()) / n - shared.log_z
        point = coordinates.of(here).reshape(-1)
        slope = coordinates.gradient(gradient(shared, stats, learned)).reshape(-1) - new * pull(point)
        optimiser, ahead = lbfgs.advance(optimiser, point, value, slope)
        params = params.replace(precision=new)
        return Climb(optimiser, coordinates), moved(params, coordinates.machine(ahead.reshape(here.shape)))

    return update


@cache
def _penalised(units: Units) -> Callable[..., Float[Array, ""]]:
    def penalised(prior: Prior, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        assert shared.expected is not None
        known = evidence.information(units, shared.expected, stats.n_learned)
        lost = evidence.lost(prior, params.precision, params.weights, known)  # held-out rows know of no prior
        return objective(params, shared, stats) - lost * (stats.n_held_out < HELD_OUT_LEAST_ROWS)

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
    """Make a stage of L-BFGS on all rows until the held-out ones gain no more.

    `prior` is the standard deviation of a Gaussian prior on the weights, which keeps those of a small table finite;
    with "auto" the rows choose it on the way (`evidence.py`).
    """
    return Iterate(
        name,
        **_climbing(units, learned, held_out, max_active, prior, max_terms),
        # held-out rows may fall for 100 passes before they rise; units that share a cause part late, after hundreds of
        # passes
        patience=100,
        patience_share=0.5,
        stops_early=max_terms is None and learned.weights,  # some terms of Z make no likelihood
    )


def refit(
    units: Units,
    learned: Learned,
    max_active: int | None = None,
    prior: float | str | None = None,
    max_terms: int | None = None,
) -> Schedule:
    """Make a stage of a few steps of L-BFGS on all rows, from where the held-out ones have ended a climb.

    Few, so that what was gained by that end is kept: of 8 units on 500 digits, 10 steps gain 0.08 nats per unseen row,
    and 80 steps 0.02.
    """
    own = _climbing(units, learned, 0.0, max_active, prior, max_terms)
    # of 8 units on 500 digits, 10 gain 0.08 nats per unseen row, and 80 gain 0.02
    return Schedule(REFIT, **own, max_iter=15)


def _climbing(
    units: Units,
    learned: Learned,
    held_out: float,
    max_active: int | None,
    prior: float | str | None,
    max_terms: int | None,
) -> dict[str, Any]:
    """Collect the functions of a stage that climbs by L-BFGS."""
    by = Prior.of(prior)
    return {
        "objective": Partial(_penalised(units), by),
        "prepare": expectations(units, max_active, max_terms),
        "sparse": takes_ones(units),
        "e_step": e_step(units, held_out, max_active),
        "start": _foot,
        "update": Partial(_climb(units, learned), by),
    }
