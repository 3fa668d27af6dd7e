"""Coordinates in which the likelihood of a machine is rounder than in its own parameters.

A weight that acts on h x moves the means of both sides as well, so that steps of many weights add up to a shift of all
biases, which the next steps take back.  Weights that act on (h - its mean) (x - its mean) leave the means alone (Cho,
Raiko & Ilin 2011; Melchior, Fischer & Wiskott 2016).  With any fixed means these are the same machines:

    (h - p) W (x - m) + theta' h + b' x    has    theta = theta' - W m,    b = b' - p W    (and a constant in log Z).

Machines, and gradients, are matrices (`bordered.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.module import Module
from latentbits.models.combination_machine.bordered import Bordered
from latentbits.models.combination_machine.machine import Units
from latentbits.models.combination_machine.tuning import LEAST_VARIANCE

__all__ = ["Centre", "Coordinates", "centre_of", "centred", "followed", "uncentred"]


class Centre(NamedTuple):
    """Mean activities around which weights are moved: p of hidden units and m of inputs, each with a 0 at its end."""

    hidden: Float[Array, " more_hidden"]
    inputs: Float[Array, " more_inputs"]


def centre_of(means: Bordered, input_bias: bool, weights: bool = True) -> Centre:
    """Take mean activities as a centre; that of hidden units is 0 where input biases may not move to make up for it.

    Both are 0 where weights may not move.
    """
    hidden, inputs = _ending(means[:, -1], 0), _ending(means[-1], 0)
    return Centre(hidden * (input_bias and weights), inputs * weights)


def _ending(x: Float[Array, " n"], last: int) -> Float[Array, " n"]:
    xp = namespace(x)
    return xp.where(np.arange(len(x)) == len(x) - 1, last, x)


def followed(centre: Centre, batch: Centre, share: Float[Array, ""]) -> Centre:
    """Move a centre towards that of a batch of rows, slowly, so that a batch has little say in its centre.

    The machine's own means would not do: where it is far from the rows, biases that make up for the weights by its
    means drive it farther away.
    """
    return jax.tree.map(lambda old, new: old + share * (new - old), centre, batch)


def centred(slope: Bordered, centre: Centre) -> Bordered:
    """Turn the gradient for the machine's parameters into that for the centred ones."""
    return slope - slope[:, -1:] * centre.inputs - centre.hidden[:, None] * slope[-1]


def uncentred(machine: Bordered, centre: Centre) -> Bordered:
    """Turn centred parameters, or a step of them, into the machine's."""
    xp = namespace(machine)
    hidden, inputs = (machine * centre.inputs).sum(1), (centre.hidden[:, None] * machine).sum(0)
    last_row, last_column = (np.arange(n) == n - 1 for n in machine.shape)
    on_border = xp.where(last_column, hidden[:, None], 0) + xp.where(last_row[:, None], inputs, 0)
    return xp.where(last_row[:, None] & last_column, 0, machine - on_border)


class Coordinates(Module):
    """Centred parameters in units of what each can be told apart by; fixed, so that a climb keeps its memory."""

    centre: Centre  # means of the machine with which the climb began
    # hidden, inputs: one over the standard deviations that h_i and x_j had there, and a 1 at the end
    hidden: Float[Array, " more_hidden"]
    inputs: Float[Array, " more_inputs"]

    @classmethod
    def around(cls, units: Units, means: Bordered, input_bias: bool, weights: bool) -> Coordinates:
        """Make the coordinates around the expectations under a machine; where weights may not move, around 0."""
        xp = namespace(means)
        p, m = means[:, -1], means[-1]
        hidden = 1 / xp.sqrt(xp.maximum(p * (1 - p), LEAST_VARIANCE))
        inputs = 1 / xp.sqrt(xp.maximum(1 - m**2, LEAST_VARIANCE)) if units.name == "binary" else xp.ones_like(m)
        return cls(centre_of(means, input_bias, weights), _ending(hidden, 1), _ending(inputs, 1))

    @property
    def _scale(self) -> Bordered:
        return self.hidden[:, None] * self.inputs

    def of(self, machine: Bordered) -> Bordered:
        """Find where a machine is in these coordinates."""
        return uncentred(machine, Centre(-self.centre.hidden, -self.centre.inputs)) / self._scale

    def machine(self, point: Bordered) -> Bordered:
        """Find the machine at a point."""
        return uncentred(point * self._scale, self.centre)

    def gradient(self, slope: Bordered) -> Bordered:
        """Turn the gradient for the machine's parameters into that in these coordinates."""
        return centred(slope, self.centre) * self._scale
