"""Coordinates in which the likelihood of a machine is rounder than in its own parameters.

A weight that acts on h x moves the means of both sides as well, so that steps of many weights add up to a shift of all
biases, which the next steps take back.  Weights that act on (h - its mean) (x - its mean) leave the means alone (Cho,
Raiko & Ilin 2011; Melchior, Fischer & Wiskott 2016).  With any fixed means these are the same machines:

    (h - p) W (x - m) + theta' h + b' x    has    theta = theta' - W m,    b = b' - p W    (and a constant in log Z).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latentbits.models.combination_machine.machine import Machine, Units

__all__ = ["Centre", "Coordinates", "centre_of", "centred", "followed", "uncentred"]

LEAST = 0.01  # variance that a coordinate is scaled by: of a unit that is hardly ever on, or off


class Centre(NamedTuple):
    """Mean activities around which weights are moved: p of hidden units and m of inputs."""

    hidden: Float[Array, " hidden"]
    inputs: Float[Array, " inputs"]


def centre_of(means: Machine, input_bias: bool) -> Centre:
    """Mean activities as a centre; that of the hidden units is 0 where input biases may not move to make up for it."""
    return Centre(means.hidden_bias * input_bias, means.input_bias)


def followed(centre: Centre, batch: Centre, share: Float[Array, ""]) -> Centre:
    """A centre that follows those of batches of rows, slowly, so that a batch has little say in its own.

    The machine's own means would not do: where it is far from the rows, biases that make up for the weights by its
    means drive it farther away.
    """
    return jax.tree.map(lambda old, new: old + share * (new - old), centre, batch)


def centred(slope: Machine, centre: Centre) -> Machine:
    """The gradient for the centred parameters, of the gradient for the machine's own."""
    weights = slope.weights - jnp.outer(slope.hidden_bias, centre.inputs) - jnp.outer(centre.hidden, slope.input_bias)
    return Machine(weights, slope.hidden_bias, slope.input_bias)


def uncentred(machine: Machine, centre: Centre) -> Machine:
    """Centred parameters, or a step of them, as the machine's own."""
    return Machine(
        machine.weights,
        machine.hidden_bias - machine.weights @ centre.inputs,
        machine.input_bias - centre.hidden @ machine.weights,
    )


class Coordinates(eqx.Module):
    """Centred parameters in units of what each can be told apart by; fixed, so that a climb keeps its memory.

    Attributes
    ----------
    centre
        Means of the machine with which the climb began.
    scale
        One over the standard deviations that h_i, x_j and their products had there.
    """

    centre: Centre
    scale: Machine

    @classmethod
    def around(cls, units: Units, means: Machine, input_bias: bool, weights: bool) -> Coordinates:
        """Those around the expectations under a machine; where weights may not move, around 0."""
        p, m = means.hidden_bias, means.input_bias
        hidden = 1 / jnp.sqrt(jnp.maximum(p * (1 - p), LEAST))
        inputs = 1 / jnp.sqrt(jnp.maximum(1 - m**2, LEAST)) if units.name == "binary" else jnp.ones_like(m)
        centre = jax.tree.map(lambda mean: mean * weights, centre_of(means, input_bias))
        return cls(centre, Machine(jnp.outer(hidden, inputs), hidden, inputs))

    def of(self, machine: Machine) -> Machine:
        """Where a machine is in these coordinates."""
        centre = Centre(-self.centre.hidden, -self.centre.inputs)
        return jax.tree.map(jnp.divide, uncentred(machine, centre), self.scale)

    def machine(self, point: Machine) -> Machine:
        """The machine at a point."""
        return uncentred(jax.tree.map(jnp.multiply, point, self.scale), self.centre)

    def gradient(self, slope: Machine) -> Machine:
        """The gradient in these coordinates, of that for the machine's own parameters."""
        return jax.tree.map(jnp.multiply, centred(slope, self.centre), self.scale)
