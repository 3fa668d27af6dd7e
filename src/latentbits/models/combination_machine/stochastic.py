"""Learning beyond 2^m: persistent contrastive divergence with parallel chains.

The expectations under the machine in (3.5) and (3.6) are those of block Gibbs chains (`chains.py`) that go on from
update to update while the machine moves slowly (Tieleman 2008).  Two fifths of the chains are tempered, so that the
others can change modes.  The step size falls to nothing, so that the chains can keep up and the noise is averaged.
Learning returns the running mean of the machines along the way.  Steps are not centred, as they are where sums are
exact (`batches.py`): biases that make up for the weights by the means of chains which lag behind drive the machine away
from them, and with a few hundred rows of many columns it never comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Int, UInt32

from latentbits.core import keys
from latentbits.core.adam import Adam, direction
from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.compilation import Program
from latentbits.core.model import Measure, Progress, Schedule
from latentbits.core.module import Module
from latentbits.core.tree import cast, to_numpy
from latentbits.models.combination_machine import evidence
from latentbits.models.combination_machine.batches import Pace
from latentbits.models.combination_machine.bordered import Bordered, bordered, moved
from latentbits.models.combination_machine.chains import gibbs_moments, tempered
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.likelihood import Learned, Shared, Stats, e_step, gradient
from latentbits.models.combination_machine.machine import Machine, Params, Units, log_weight, machine_of, some
from latentbits.models.combination_machine.rows import takes_ones
from latentbits.models.combination_machine.tuning import TEMPERED_LEVELS

__all__ = ["Persistent", "averaged", "persistent"]


class Persistent(Module):
    """State that is carried from update to update."""

    optimiser: Adam
    # chains, warm: inputs of the chains of the machine, and of the tempered ones; walked in float32, whatever they
    # are kept in
    chains: Float[Array, "chains inputs"]
    warm: Float[Array, "levels few inputs"]
    field: Float[Array, " inputs"]  # of the product distribution at the warm end: the input biases at the beginning
    mean: Bordered  # running mean of the machines
    level: Float[Array, ""]  # mean log weight of the chains, for the objective
    # epoch, seen, n_rows: number of the epoch, rows learned from in it so far, and in all of the one before (0 in the
    # first)
    epoch: Int[Array, ""]
    seen: Float[Array, ""]
    n_rows: Float[Array, ""]


def averaged(params: Params, state: Persistent) -> Params:
    """Return the mean machine that the stage has learned."""
    return moved(params, to_numpy(state.mean))


# ---------------------------------------------------------------- chains, in float32 whatever they are kept in

Chains = tuple[Float[Array, "chains inputs"], Float[Array, "levels few inputs"]]


@Program
def _first_chains(input_bias: Float[Array, " inputs"], *, units: Units, n_chains: int) -> Chains:
    """Draw chains of the product distribution with these fields: of the machine, and tempered ones."""
    few = max(1, n_chains // (2 + 2 * TEMPERED_LEVELS))
    n_own = max(few, n_chains - TEMPERED_LEVELS * few)
    fields = jnp.broadcast_to(input_bias, (n_own + TEMPERED_LEVELS * few, len(input_bias)))
    drawn = units.draw(keys.typed(jnp.zeros(2, jnp.uint32)), fields.astype(jnp.float32))
    return drawn[:n_own], drawn[n_own:].reshape(TEMPERED_LEVELS, few, -1)


@Program
def _walk(
    machine: Machine, field: Float[Array, " inputs"], chains: Chains, words: UInt32[Array, "2"], *, units: Units
) -> tuple[Chains, Bordered, Float[Array, ""]]:
    """Walk the chains by a sweep; return them, their expectations and their mean log weight."""
    single, field, (own, warm) = cast((machine, field, chains), np.dtype(np.float32))
    own, warm = tempered(units, single, field, keys.typed(words), own, warm, 1)
    found = bordered(gibbs_moments(single, own), 1.0), jnp.mean(log_weight(units, single, own))
    return cast(((own, warm), *found), np.dtype(np.float64))


def _here(program: Program, *args: Any, **constants: Any) -> Any:
    """Call a program, or its function within another; on the host it returns NumPy arrays."""
    return program.function(*args, **constants) if on_device(args) else to_numpy(program(*args, **constants))


# ---------------------------------------------------------------- updates


class _Functions(NamedTuple):
    start: Callable[[Params], Persistent]
    update: Callable[..., tuple[Persistent, Params]]


@cache
def _functions(units: Units, learned: Learned, n_chains: int) -> _Functions:
    def start(params: Params) -> Persistent:
        xp, machine = namespace(params.weights), bordered(params)
        own, warm = _here(_first_chains, params.input_bias, units=units, n_chains=n_chains)
        none = xp.zeros(())
        return Persistent(
            Adam.at_rest(machine), own, warm, params.input_bias, machine, none, xp.zeros((), "int32"), none, none
        )

    def update(
        pace: Pace, prior: Prior, state: Persistent, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Persistent, Params]:
        xp = namespace(params.weights)
        words = jax.random.key_data(progress.key) if on_device(progress.key) else progress.key
        chains = state.chains, state.warm
        (own, warm), expected, level = _here(_walk, machine_of(params), state.field, chains, words, units=units)
        # a prior weighs as much as all rows together leave it: in the first epoch their number is not known
        over = progress.iteration > state.epoch
        n_rows = xp.where(over, state.seen, state.n_rows)
        seen = xp.where(over, 0, state.seen) + stats.n_learned
        known = evidence.information(units, expected, n_rows)
        old = evidence.now(prior, params.precision)
        # of the prior's way to the one that the rows would choose
        alpha = old + 0.02 * (evidence.precision(prior, old, params.weights, known) - old) * (n_rows > 0)
        pull = xp.where(n_rows > 0, alpha / some(n_rows), 0) * xp.pad(params.weights, [(0, 1), (0, 1)])
        slope = gradient(Shared(shared.log_z, expected), stats, learned) - pull
        # more would let the machine run away from its chains
        optimiser, change = direction(state.optimiser, slope, 0.5)
        machine = bordered(params) + pace.step(stats, progress) * change
        # of the updates so far: how far back the running mean reaches
        share = xp.maximum(1 / (1 + 0.02 * progress.step), 1e-3)
        mean = state.mean + share * (machine - state.mean)
        at = state.epoch + over, seen, n_rows
        params = moved(params, machine).replace(precision=alpha)
        return Persistent(optimiser, own, warm, state.field, mean, level, *at), params

    return _Functions(start, update)


def _prepare(params: Params, state: Persistent | None, progress: Progress | None) -> Shared:
    """Take the chains' level as log Z: the objective is how far rows are above the chains, 0 for a perfect machine."""
    level = namespace(params.weights).zeros(()) if state is None else state.level
    return Shared(level, None)


def _done(pace: Pace, state: Persistent) -> Array:
    return pace.over(state.optimiser.count)


def persistent(
    units: Units,
    learned: Learned,
    rate: float,
    n_epochs: int,
    n_updates: int | None,
    batch_size: int,
    held_out: float,
    n_chains: int,
    prior: float | str | None = None,
) -> Schedule:
    """Make a stage of Adam on batches, with the expectations of `n_chains` chains that take a sweep a step.

    It ends after `n_epochs`, or with the epoch in which `n_updates` were made.
    """
    functions, pace = _functions(units, learned, n_chains), Pace.of(rate, n_updates, batch_size)
    return Schedule(
        "persistent chains",
        measure=Measure.PROGRESS,
        prepare=_prepare,
        e_step=e_step(units, held_out),
        sparse=takes_ones(units),
        start=functions.start,
        update=Partial(functions.update, pace, Prior.of(prior)),
        done=Partial(_done, pace),
        max_iter=n_epochs,
        rows_per_update=batch_size,
        comparable=False,
    )
