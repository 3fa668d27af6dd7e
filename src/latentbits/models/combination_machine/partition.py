"""The partition function and its gradient, exactly: sums over all states of the smaller side.

With the inputs summed out (machine.py), log Z is a sum over hidden states only, (2.2) or (2.7),

    Z = sum_h exp(g(h)),   g(h) = theta . h + sum_j log_sum(b_j + w(h)_j),

and its derivatives are expectations under P(h) = exp(g(h)) / Z, (3.4) or (3.7):

    d log Z / d theta_i = E[h_i]                            second term of (3.5), (3.8)
    d log Z / d w_ij    = E[h_i mean(b_j + w(h)_j)] = E[h_i x_j]            (3.6), (3.9)
    d log Z / d b_j     = E[mean(b_j + w(h)_j)] = E[x_j]

(theta_i is in 2^(m-1) terms of Z, not in one as the paper says; the denominator of (3.7) has w(h').)

The states are taken block by block with a running log-sum-exp, so that nothing overflows and memory does not grow with
2^m.  Binary machines with fewer inputs than hidden units sum the inputs' states instead, see `_turned`.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from latentbits.core.states import state_block
from latentbits.models.combination_machine.machine import BINARY, Machine, Units, input_field

__all__ = ["exact_log_partition", "exact_moments", "n_enumerated"]

BLOCK = 10  # log2 of the states in a block


def n_enumerated(units: Units, n_hidden: int, n_inputs: int) -> int:
    """log2 of the number of states that an exact sum takes: all of the hidden side, or of the inputs' where smaller.

    >>> from latentbits.models.combination_machine.machine import BINARY, REAL
    >>> n_enumerated(BINARY, 30, 12), n_enumerated(REAL, 30, 12)
    (12, 30)
    """
    return min(n_hidden, n_inputs) if units.name == BINARY.name else n_hidden


def exact_moments(units: Units, machine: Machine, dtype: np.dtype | None = None) -> tuple[Float[Array, ""], Machine]:
    """log Z (2.2, 2.7) and its gradient: E[h_i x_j], E[h_i] and E[x_j] under the model, as in (3.5)-(3.9).

    The sums are taken in `dtype` (that of the machine where None); the results have the dtype of the machine.
    """
    if _sums_inputs(units, machine):
        turned, constant = _turned(machine)
        log_z, moments = _hidden_moments(units, turned, dtype)
        return log_z + constant, _turned_back(moments)
    return _hidden_moments(units, machine, dtype)


def exact_log_partition(units: Units, machine: Machine, dtype: np.dtype | None = None) -> Float[Array, ""]:
    """log Z alone, which costs less; its derivative is that of `exact_moments`."""
    plain = Machine(machine.weights, machine.hidden_bias, machine.input_bias)
    return _log_partition(units, plain, dtype)


@partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def _log_partition(units: Units, machine: Machine, dtype: np.dtype | None) -> Float[Array, ""]:
    if _sums_inputs(units, machine):
        turned, constant = _turned(machine)
        return constant + _sum_blocks(units, turned, dtype, with_moments=False).log_z
    return _sum_blocks(units, machine, dtype, with_moments=False).log_z


def _forward(units: Units, machine: Machine, dtype: np.dtype | None) -> tuple[Float[Array, ""], Machine]:
    return exact_moments(units, machine, dtype)


def _backward(units: Units, dtype: np.dtype | None, moments: Machine, slope: Float[Array, ""]) -> tuple[Machine]:
    return (jax.tree.map(lambda moment: slope * moment, moments),)


_log_partition.defvjp(_forward, _backward)


def _sums_inputs(units: Units, machine: Machine) -> bool:
    m, n = machine.weights.shape
    return n_enumerated(units, m, n) < m


def _turned(machine: Machine) -> tuple[Machine, Float[Array, ""]]:
    """The machine whose hidden units are (x + 1) / 2 and whose inputs are 2 h - 1; and log Z less its log Z.

    From log(1 + exp a) = a / 2 + log 2 cosh(a / 2) for the field a = theta + W x of the product form (2.4).
    """
    field = machine.hidden_bias - jnp.sum(machine.weights, 1)  # at x = (-1, ..., -1)
    turned = Machine(machine.weights.T, 2 * machine.input_bias + jnp.sum(machine.weights, 0), field / 2)
    return turned, jnp.sum(field) / 2 - jnp.sum(machine.input_bias)


def _turned_back(moments: Machine) -> Machine:
    """E[h x], E[h], E[x] from E[v s], E[v], E[s] where x = 2 v - 1 and h = (1 + s) / 2."""
    v, s = moments.hidden_bias, moments.input_bias
    both = moments.weights.T + v - (1 + s[:, None]) / 2
    return Machine(both, (1 + s) / 2, 2 * v - 1)


class _Sums(NamedTuple):
    """Of exp(g - top) over states: the total, and that weighted with h x, h and x."""

    top: Float[Array, ""]
    total: Float[Array, ""]
    moments: Machine

    @property
    def log_z(self) -> Float[Array, ""]:
        return self.top + jnp.log(self.total)


def _hidden_moments(units: Units, machine: Machine, dtype: np.dtype | None) -> tuple[Float[Array, ""], Machine]:
    sums = _sum_blocks(units, machine, dtype, with_moments=True)
    return sums.log_z, jax.tree.map(lambda moment: moment / sums.total, sums.moments)


def _sum_blocks(units: Units, machine: Machine, dtype: np.dtype | None, with_moments: bool) -> _Sums:
    """Over the hidden states in blocks; what the blocks give is added up in the precision of the machine."""
    m, _ = machine.weights.shape
    wide = machine.weights.dtype
    narrow: Machine = jax.tree.map(lambda x: x.astype(dtype or wide), machine)
    size = 2 ** min(m, BLOCK)

    def add(sums: _Sums, number: Array) -> tuple[_Sums, None]:
        h = state_block(number * size, size, m).astype(narrow.weights.dtype)
        field = input_field(narrow, h)
        g = h @ narrow.hidden_bias + jnp.sum(units.log_sum(field), 1)
        top = jnp.maximum(sums.top, jnp.max(g).astype(wide))
        p = jnp.exp(g - top.astype(g.dtype))
        old = jnp.exp(sums.top - top)

        def grow(total: Array, part: Array) -> Array:
            return total * old + part.astype(wide)

        moments = sums.moments
        if with_moments:
            x = units.mean(field)
            moments = jax.tree.map(grow, moments, Machine(h.T @ (p[:, None] * x), p @ h, p @ x))
        return _Sums(top, grow(sums.total, jnp.sum(p)), moments), None

    zero = jnp.zeros((), wide)
    none = jax.tree.map(jnp.zeros_like, Machine(machine.weights, machine.hidden_bias, machine.input_bias))
    sums, _ = lax.scan(add, _Sums(zero - jnp.inf, zero, none), jnp.arange(2**m // size, dtype=jnp.int32))
    return sums
