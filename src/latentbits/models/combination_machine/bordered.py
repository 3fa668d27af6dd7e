"""A machine as one matrix: what learning computes with.

Weights, bordered by the hidden biases as a last column and the input biases as a last row, with 0 in the corner.  With
h and x bordered by a 1 that is always on, E[h x] has E[h] and E[x] on its border, and 1 in the corner: the gradient of
the log-likelihood is a difference of two such matrices.  An optimiser of one matrix is a fraction of the program that
one of three arrays is.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.models.combination_machine.machine import Machine, Params

__all__ = ["Bordered", "bordered", "machine_in", "moved", "moved_on_host"]

Bordered = Float[Array, "more_hidden more_inputs"]


def bordered(machine: Machine, corner: Float[Array, ""] | float = 0.0) -> Bordered:
    """Make the matrix of a machine."""
    upper = jnp.concatenate([machine.weights, machine.hidden_bias[:, None]], 1)
    lower = jnp.append(machine.input_bias, corner)
    return jnp.concatenate([upper, lower[None]])


def machine_in(matrix: Bordered) -> Machine:
    """Take the machine out of a matrix, whatever is in its corner."""
    return Machine(matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, :-1])


def moved(params: Params, matrix: Bordered) -> Params:
    """Put another machine's parameters in place; log Z is unknown until the end of learning."""
    machine = machine_in(matrix)
    return replace(params, weights=machine.weights, hidden_bias=machine.hidden_bias, input_bias=machine.input_bias)


def moved_on_host(params: Params, matrix: Bordered | np.ndarray) -> Params:
    """Do the same as `moved`, without a program for every part."""
    values = np.asarray(matrix)
    parts = values[:-1, :-1], values[:-1, -1], values[-1, :-1]
    weights, hidden_bias, input_bias = (jnp.asarray(part) for part in parts)
    return replace(params, weights=weights, hidden_bias=hidden_bias, input_bias=input_bias)
