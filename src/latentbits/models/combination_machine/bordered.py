"""A machine as one matrix: what learning computes with.

Weights, bordered by the hidden biases as a last column and the input biases as a last row, with 0 in the corner.  With
h and x bordered by a 1 that is always on, E[h x] has E[h] and E[x] on its border, and 1 in the corner: the gradient of
the log-likelihood is a difference of two such matrices.  An optimiser of one matrix is a fraction of the program that
one of three arrays is.
"""

from __future__ import annotations

from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.models.combination_machine.machine import Machine, Params

__all__ = ["Bordered", "bordered", "machine_in", "moved"]

Bordered = Float[Array, "more_hidden more_inputs"]


def bordered(machine: Machine, corner: Float[Array, ""] | float = 0.0) -> Bordered:
    """Make the matrix of a machine."""
    xp = namespace(machine.weights)
    upper = xp.concatenate([machine.weights, machine.hidden_bias[:, None]], 1)
    lower = xp.append(machine.input_bias, corner)
    return xp.concatenate([upper, lower[None]])


def machine_in(matrix: Bordered) -> Machine:
    """Take the machine out of a matrix, whatever is in its corner."""
    return Machine(matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, :-1])


def moved(params: Params, matrix: Bordered) -> Params:
    """Put another machine's parameters in place; log Z is unknown until the end of learning."""
    machine = machine_in(matrix)
    return params.replace(weights=machine.weights, hidden_bias=machine.hidden_bias, input_bias=machine.input_bias)
