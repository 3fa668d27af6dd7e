"""Learning beyond 2^m: persistent contrastive divergence with parallel chains.

The expectations under the machine in (3.5) and (3.6) are those of block Gibbs chains (`chains.py`) that go on from
update to update while the machine moves slowly (Tieleman 2008).  The step size falls to nothing, so that the chains can
keep up and the noise is averaged.  What is learned is the running mean of the machines along the way.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from latentbits.core.model import Progress, Stage
from latentbits.models.combination_machine.ascent import (
    Learned,
    Shared,
    Stats,
    e_step,
    falling,
    gradient,
    machine_of,
    moved,
    share_of_batch,
)
from latentbits.models.combination_machine.chains import gibbs, gibbs_moments
from latentbits.models.combination_machine.machine import Machine, Params, Units, log_weight

__all__ = ["Persistent", "averaged", "persistent"]

MEMORY = 0.02  # of the updates so far: how far back the running mean reaches


class Persistent(eqx.Module):
    """What is carried from update to update.

    Attributes
    ----------
    chains
        Inputs of every chain; walked in float32, whatever they are kept in.
    mean
        Running mean of the machines.
    level
        Mean log weight of the chains, for the objective.
    """

    optimiser: Any
    chains: Float[Array, "chains inputs"]
    mean: Machine
    level: Float[Array, ""]


def averaged(params: Params, state: Persistent) -> Params:
    """What the stage has learned."""
    return moved(params, state.mean)


@cache
def persistent(
    units: Units,
    learned: Learned,
    rate: float,
    decay: float,
    n_epochs: int,
    n_updates: int | None,
    batch_size: int,
    held_out: float,
    n_chains: int,
    n_sweeps: int,
) -> Stage:
    """Adam on batches of rows, with the expectations of `n_chains` chains that take `n_sweeps` sweeps a step.

    It ends after `n_epochs`, or with the epoch in which `n_updates` were made.

    Parameters
    ----------
    decay
        Pull of each weight towards 0, per row: that of a Gaussian prior.
    """
    optimiser = optax.scale_by_adam(b1=0.5)  # more momentum would let the machine run away from its chains

    def start(params: Params) -> Persistent:
        x = jnp.broadcast_to(params.input_bias, (n_chains, len(params.input_bias)))
        chains = units.draw(jax.random.key(0, impl="threefry2x32"), x.astype(jnp.float32))
        return Persistent(optimiser.init(machine_of(params)), chains, machine_of(params), jnp.zeros(()))

    def prepare(params: Params, state: Persistent | None, progress: Progress | None) -> Shared:
        # the objective of this stage: how far rows are above the chains, which is 0 for a perfect machine
        level = jnp.zeros(()) if state is None else state.level
        return Shared(level, None)

    def update(
        state: Persistent, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Persistent, Params]:
        machine = machine_of(params)
        single = jax.tree.map(lambda p: p.astype(jnp.float32), machine)
        chains = gibbs(units, single, progress.key, state.chains.astype(jnp.float32), n_sweeps)
        expected = jax.tree.map(lambda p: p.astype(jnp.float64), gibbs_moments(single, chains))
        slope = gradient(Shared(shared.log_z, expected), stats, learned)
        slope = eqx.tree_at(lambda g: g.weights, slope, slope.weights - decay * machine.weights)
        change, inner = optimiser.update(slope, state.optimiser)
        step = falling(rate, n_updates, progress) * share_of_batch(stats, batch_size)
        machine = jax.tree.map(lambda p, c: p + step * c, machine, change)
        share = jnp.maximum(1 / (1 + MEMORY * progress.step), 1e-3)
        mean = jax.tree.map(lambda old, new: old + share * (new - old), state.mean, machine)
        level = jnp.mean(log_weight(units, single, chains)).astype(jnp.float64)
        return Persistent(inner, chains.astype(jnp.float64), mean, level), moved(params, machine)

    def done(state: Persistent) -> Array:
        return jnp.asarray(False) if n_updates is None else state.optimiser.count >= n_updates

    return Stage(
        "persistent chains",
        {"prepare": prepare, "e_step": e_step(units, held_out), "start": start, "update": update, "done": done},
        max_iter=n_epochs,
        tol=-np.inf,
        rows_per_update=batch_size,
        comparable=False,
    )
