"""Adam (Kingma & Ba 2015) on a tree of parameters, in steps that fall along a cosine."""

from __future__ import annotations

import jax
from jaxtyping import Float, Int, PyTree

from latentbits.core.arrays import Array, namespace
from latentbits.core.model import Progress
from latentbits.core.module import Module

__all__ = ["Adam", "Number", "direction", "falling"]

SQUARE_DECAY = 0.999  # per update, of the mean of the squared gradient: the value of the paper

Number = float | Float[Array, ""]  # a setting, which a program is given as an argument


class Adam(Module):
    """Running means of the gradient and of its squares, and the number of updates."""

    count: Int[Array, ""]
    mean: PyTree[Float[Array, "..."]]
    square: PyTree[Float[Array, "..."]]

    @classmethod
    def at_rest(cls, params: PyTree[Float[Array, "..."]]) -> Adam:
        """Before the first update."""
        xp = namespace(params)
        nothing = jax.tree.map(xp.zeros_like, params)
        return cls(xp.zeros((), "int32"), nothing, nothing)


def direction(
    state: Adam, gradient: PyTree[Float[Array, "..."]], memory: float = 0.9
) -> tuple[Adam, PyTree[Float[Array, "..."]]]:
    """Divide the gradient by its typical size, entry by entry."""
    xp = namespace(gradient)
    count = state.count + 1
    mean = jax.tree.map(lambda m, g: memory * m + (1 - memory) * g, state.mean, gradient)
    square = jax.tree.map(lambda s, g: SQUARE_DECAY * s + (1 - SQUARE_DECAY) * xp.square(g), state.square, gradient)

    def ahead(m: Array, s: Array) -> Array:
        # of means that began at 0, so much is there
        there, there_of_squares = 1 - xp.exp(count * xp.log(xp.asarray([memory, SQUARE_DECAY], m.dtype)))
        return (m / there) / (xp.sqrt(s / there_of_squares) + 1e-8)  # as in the paper

    return Adam(count, mean, square), jax.tree.map(ahead, mean, square)


def falling(rate: Number, n_updates: Number, progress: Progress) -> Float[Array, ""]:
    """Return a step size that falls along a cosine to a fiftieth, over all epochs, or fewer updates."""
    xp = namespace(progress)
    done = xp.minimum(xp.maximum(progress.fraction, progress.step / n_updates), 1)
    return rate * (0.02 + 0.49 * (1 + xp.cos(xp.pi * done)))
