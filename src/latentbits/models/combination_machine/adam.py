"""Adam (Kingma & Ba 2015) on one matrix of parameters, in steps that fall along a cosine."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from latentbits.core.model import Progress
from latentbits.models.combination_machine.bordered import Bordered

__all__ = ["Adam", "Number", "direction", "falling"]

MEMORY, SPREAD_MEMORY = 0.9, 0.999  # of means of the gradient, and of its squares
LEAST = 1e-8  # that a mean is divided by

Number = float | Float[Array, ""]  # a setting, which a program is given as an argument


class Adam(eqx.Module):
    """Running means of the gradient and of its squares, and the number of updates."""

    count: Int[Array, ""]
    mean: Bordered
    square: Bordered

    @classmethod
    def at_rest(cls, matrix: Bordered) -> Adam:
        """Before the first update."""
        return cls(jnp.zeros((), jnp.int32), jnp.zeros_like(matrix), jnp.zeros_like(matrix))


def direction(state: Adam, gradient: Bordered, memory: float = MEMORY) -> tuple[Adam, Bordered]:
    """The gradient in units of its own size, entry by entry."""
    count = state.count + 1
    mean = memory * state.mean + (1 - memory) * gradient
    square = SPREAD_MEMORY * state.square + (1 - SPREAD_MEMORY) * jnp.square(gradient)
    # of means that began at 0, so much is there
    there, there_of_squares = 1 - jnp.exp(count * jnp.log(jnp.asarray([memory, SPREAD_MEMORY], mean.dtype)))
    return Adam(count, mean, square), (mean / there) / (jnp.sqrt(square / there_of_squares) + LEAST)


def falling(rate: Number, n_updates: Number, progress: Progress) -> Float[Array, ""]:
    """A step size that falls along a cosine to a fiftieth, over all epochs or so many updates, if those are fewer."""
    done = jnp.minimum(jnp.maximum(progress.fraction, progress.step / n_updates), 1)
    return rate * (0.02 + 0.49 * (1 + jnp.cos(jnp.pi * done)))
