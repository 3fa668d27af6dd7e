"""The partition function and its gradient, exactly: sums over all states of the smaller side.

With the inputs summed out (machine.py), log Z is a sum over hidden states only, (2.2) or (2.8),

    Z = sum_h exp(g(h)),   g(h) = theta . h + sum_j log_sum(b_j + w(h)_j),

and its derivatives are expectations under P(h) = exp(g(h)) / Z, (3.4) or (3.7):

    d log Z / d theta_i = E[h_i]                            second term of (3.5), (3.8)
    d log Z / d w_ij    = E[h_i mean(b_j + w(h)_j)] = E[h_i x_j]            (3.6), (3.9)
    d log Z / d b_j     = E[mean(b_j + w(h)_j)] = E[x_j]

(theta_i is in 2^(m-1) terms of Z, not in one as the paper says; the denominator of (3.7) has w(h').)

The first units are the inner ones: all their states make up a block.  The others, the outer ones, are held at one state
after the other, which for the inner ones is but another input bias; a running log-sum-exp adds up the blocks, so that
nothing overflows and memory does not grow with 2^m.  A field is never a product with a table of states: it is the
inner units' part, in a table, plus the outer units' part.  One exponential q = exp(-2 |a|) gives all that a binary
input needs,

    log 2 cosh a = |a| + log(1 + q),   tanh a = sign(a) (1 - q) / (1 + q),

and the logarithm is taken of a product over many inputs.  What a block should be depends on what it runs on: on a CPU
it stays in the cache (`_cached_block`), on a GPU it has as many states as possible, of which nothing is stored
(`_fused_block`).  For real inputs g is a quadratic form in h, and no sum over inputs is left (`_real_block`).

Binary machines with fewer inputs than hidden units sum the inputs' states instead, see `_turned`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.states import all_states, state_block
from latentbits.models.combination_machine.machine import BINARY, Machine, Units
from latentbits.models.combination_machine.truncation import moments_among
from latentbits.models.combination_machine.tuning import (
    CPU_OUTER_UNITS,
    CPU_TABLE_LOG2_FLOATS,
    GPU_TABLE_UNITS,
    INPUTS_PER_PRODUCT,
    REAL_INNER_UNITS,
)

__all__ = ["exact_log_partition", "exact_moments", "moments_on_host", "n_enumerated"]


def n_enumerated(units: Units, n_hidden: int, n_inputs: int) -> int:
    """Return log2 of the number of states that an exact sum takes: of the hidden side, or of the inputs' where smaller.

    >>> from latentbits.models.combination_machine.machine import BINARY, REAL
    >>> n_enumerated(BINARY, 30, 12), n_enumerated(REAL, 30, 12)
    (12, 30)
    """
    return min(n_hidden, n_inputs) if units.name == BINARY.name else n_hidden


def exact_moments(units: Units, machine: Machine, dtype: np.dtype | None = None) -> tuple[Float[Array, ""], Machine]:
    """Compute log Z (2.2, 2.8) and its gradient: E[h_i x_j], E[h_i] and E[x_j] under the model, as in (3.5)-(3.9).

    The terms of a binary machine are computed in `dtype` (that of the machine where None); sums of blocks, the far
    cheaper terms of a real machine, and the results are in the dtype of the machine.
    """
    if _sums_inputs(units, machine):
        turned, constant = _turned(machine)
        log_z, moments = _sum_hidden(units, turned, dtype, True)
        return log_z + constant, _turned_back(moments)
    return _sum_hidden(units, machine, dtype, True)


def exact_log_partition(units: Units, machine: Machine, dtype: np.dtype | None = None) -> Float[Array, ""]:
    """Compute log Z alone, which costs less; its derivative is that of `exact_moments`."""
    return _log_partition(units, _plain(machine), dtype)


def moments_on_host(units: Units, machine: Machine) -> tuple[Float[Array, ""], Machine]:
    """Compute the same of NumPy arrays, all states at once: where they are few, no program is worth compiling."""
    turns = _sums_inputs(units, machine)
    constant: Any = 0.0
    if turns:
        machine, constant = _turned(machine)
    states: Any = all_states(len(machine.hidden_bias)).astype(np.float64)
    log_z, moments = moments_among(units, machine, states)
    return log_z + constant, _turned_back(moments) if turns else moments


@partial(jax.custom_vjp, nondiff_argnums=(0, 2))
def _log_partition(units: Units, machine: Machine, dtype: np.dtype | None) -> Float[Array, ""]:
    if _sums_inputs(units, machine):
        turned, constant = _turned(machine)
        return constant + _sum_hidden(units, turned, dtype, False)[0]
    return _sum_hidden(units, machine, dtype, False)[0]


def _backward(units: Units, dtype: np.dtype | None, moments: Machine, slope: Float[Array, ""]) -> tuple[Machine]:
    return (jax.tree.map(lambda moment: slope * moment, moments),)


_log_partition.defvjp(exact_moments, _backward)


def _plain(machine: Machine) -> Machine:
    """Leave out what a subclass adds."""
    return Machine(machine.weights, machine.hidden_bias, machine.input_bias)


def _sums_inputs(units: Units, machine: Machine) -> bool:
    m, n = machine.weights.shape
    return n_enumerated(units, m, n) < m


def _turned(machine: Machine) -> tuple[Machine, Float[Array, ""]]:
    """Turn a machine: hidden units are (x + 1) / 2 and inputs 2 h - 1; also return log Z less the turned one's.

    From log(1 + exp a) = a / 2 + log 2 cosh(a / 2) for the field a = theta + W x of the product form (2.4).
    """
    field = machine.hidden_bias - machine.weights.sum(1)  # at x = (-1, ..., -1)
    constant = field.sum() / 2 - machine.input_bias.sum()
    return Machine(machine.weights.T, 2 * machine.input_bias + machine.weights.sum(0), field / 2), constant


def _turned_back(moments: Machine) -> Machine:
    """Compute E[h x], E[h], E[x] from E[v s], E[v], E[s] where x = 2 v - 1 and h = (1 + s) / 2."""
    v, s = moments.hidden_bias, moments.input_bias
    both = moments.weights.T + v - (1 + s[:, None]) / 2
    return Machine(both, (1 + s) / 2, 2 * v - 1)


class _Sums(NamedTuple):
    """Sums of exp(g - top) over states: the total, and (where wanted, else nothing) that weighted with h x, h and x."""

    top: Float[Array, ""]
    total: Float[Array, ""]
    moments: Any


Block = Callable[[Float[Array, " inputs"]], _Sums]  # of the inner units, given the field of the outer ones and b


def _sum_hidden(
    units: Units, machine: Machine, dtype: np.dtype | None, with_moments: bool
) -> tuple[Float[Array, ""], Machine]:
    """Compute log Z and moments (zeros where not wanted) by the sum over hidden states."""
    machine = _plain(machine)
    with jax.default_matmul_precision("highest"):  # tables of fields rounded to 10 bits would be of no use
        if units.name == BINARY.name:
            narrow = np.dtype(dtype or machine.weights.dtype)
            padded, n_padding = _pad(machine)
            sums = lax.platform_dependent(
                padded,
                cpu=partial(_sum_cached, dtype=narrow, with_moments=with_moments),
                default=partial(_sum_fused, dtype=narrow, with_moments=with_moments),
            )
            constant = -n_padding * np.log(2.0)
        else:
            cpu, gpu = REAL_INNER_UNITS
            sums = lax.platform_dependent(
                machine,
                cpu=partial(_sum_real, n_inner=cpu, with_moments=with_moments),
                default=partial(_sum_real, n_inner=gpu, with_moments=with_moments),
            )
            constant = machine.weights.shape[1] / 2 * np.log(2 * np.pi)
    log_z = sums.top + jnp.log(sums.total) + constant
    if not with_moments:
        return log_z, jax.tree.map(jnp.zeros_like, machine)
    n = machine.weights.shape[1]
    moments = jax.tree.map(lambda moment: moment / sums.total, sums.moments)
    return log_z, Machine(moments.weights[:, :n], moments.hidden_bias, moments.input_bias[:n])


def _n_groups(n_inputs: int) -> int:
    return max(1, -(-n_inputs // INPUTS_PER_PRODUCT))


def _pad(machine: Machine) -> tuple[Machine, int]:
    """Add inputs without weights, each a factor 2 in Z, such that all groups are equally large; return their number."""
    n = machine.weights.shape[1]
    padding = -n % _n_groups(n)
    weights, input_bias = (
        jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, padding)]) for x in (machine.weights, machine.input_bias)
    )
    return Machine(weights, machine.hidden_bias, input_bias), padding


def _add_up(block: Block, machine: Machine, n_inner: int) -> _Sums:
    """Add up a block's sums over the states of the outer units, those from number `n_inner` on."""
    weights, bias, b = machine.weights[n_inner:], machine.hidden_bias[n_inner:], machine.input_bias
    n_outer = weights.shape[0]
    if n_outer == 0:
        return block(b)
    if n_outer > 30:
        raise ValueError(f"{n_outer + n_inner} units have more states than can be summed")

    def part(number: Array) -> _Sums:
        h = ((number >> jnp.arange(n_outer, dtype=number.dtype)) & 1).astype(b.dtype)
        top, total, inner = block(b + h @ weights)
        if isinstance(inner, Machine):
            both = jnp.concatenate([inner.weights, h[:, None] * inner.input_bias])
            inner = Machine(both, jnp.concatenate([inner.hidden_bias, h * total]), inner.input_bias)
        return _Sums(top + h @ bias, total, inner)

    def add(number: Array, sums: _Sums) -> _Sums:
        new = part(number)
        top = jnp.maximum(sums.top, new.top)
        old_share, new_share = jnp.exp(sums.top - top), jnp.exp(new.top - top)
        total, moments = jax.tree.map(lambda old, new: old_share * old + new_share * new, sums[1:], new[1:])
        return _Sums(top, total, moments)

    number = jnp.zeros((), jnp.int32)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(part, number))
    return lax.fori_loop(number, number + 2**n_outer, add, nothing._replace(top=nothing.top - jnp.inf))


def _states(n_units: int, dtype: np.dtype) -> Float[Array, "states units"]:
    return state_block(jnp.zeros((), jnp.int32), 2**n_units, n_units).astype(
        dtype
    )  # a constant would bloat the program


def _inner(machine: Machine, n_inner: int) -> tuple[Float[Array, "inner inputs"], Float[Array, " inner"]]:
    """Take weights and biases of the inner units."""
    return machine.weights[:n_inner], machine.hidden_bias[:n_inner]


def _sum_cached(machine: Machine, dtype: np.dtype, with_moments: bool) -> _Sums:
    """Sum over blocks that stay in the cache of a CPU."""
    m, n = machine.weights.shape
    n_low = min(m, max(5, CPU_TABLE_LOG2_FLOATS - max(1, n - 1).bit_length()))
    n_inner = min(m, n_low + CPU_OUTER_UNITS)
    return _add_up(_cached_block(*_inner(machine, n_inner), n_low, dtype, with_moments), machine, n_inner)


def _cached_block(
    weights: Float[Array, "inner inputs"], bias: Float[Array, " inner"], n_low: int, dtype: np.dtype, with_moments: bool
) -> Block:
    """Sum a block: a table of fields for the lower units, to which each state of the higher ones adds its fields.

    States run along the last axis, the one a CPU takes several of at a time.  p tanh is summed over the higher units'
    states where it is, and multiplied with the lower units' states only in the end.
    """
    wide = weights.dtype
    n = weights.shape[1]
    low, high = _states(n_low, wide), _states(weights.shape[0] - n_low, wide)
    low_fields = (weights[:n_low].T @ low.T).astype(dtype)
    high_fields = high @ weights[n_low:]
    low_bias, high_bias = low @ bias[:n_low], high @ bias[n_low:]
    groups = _n_groups(n), n // _n_groups(n), len(low)

    def add(sums: _Sums, high: tuple[Array, Array]) -> tuple[_Sums, _Sums]:
        """Add to the sums so far for each state of the lower units, and to those over them (with another top)."""
        a = high[0][:, None] + low_fields
        size = jnp.abs(a)
        q = jnp.exp(-2 * size)
        logs = jnp.sum(size.reshape(groups), 1) + jnp.log(jnp.prod(_factor(q).reshape(groups), 1))
        g = jnp.sum(logs, 0, wide) + low_bias + high[1]
        top = jnp.maximum(sums.top, jnp.max(g))
        p = jnp.exp((g - top).astype(dtype))
        share = jnp.exp(sums.top - top).astype(dtype)
        total = share * sums.total + p
        if not with_moments:
            return _Sums(top, total, ()), _Sums(top, jnp.sum(p), ())
        x = jnp.sign(a) * (1 - q) / (1 + q)
        return _Sums(top, total, share * sums.moments + p * x), _Sums(top, jnp.sum(p), x @ p)

    def block(field: Float[Array, " inputs"]) -> _Sums:
        none = jnp.zeros((n, len(low)), dtype) if with_moments else ()
        start = _Sums(jnp.full((), -jnp.inf, wide), jnp.zeros(len(low), dtype), none)
        by_low, by_high = lax.scan(add, start, ((high_fields + field).astype(dtype), high_bias))
        top = by_low.top
        share = jnp.exp(by_high.top - top)
        high_p, low_p = share * by_high.total, by_low.total.astype(wide)
        top = top + n / 2 * np.log(2.0)
        if not with_moments:
            return _Sums(top, jnp.sum(high_p), ())
        high_x, low_x = share[:, None] * by_high.moments, by_low.moments.T.astype(wide)
        return _Sums(top, jnp.sum(high_p), _join(low, low_p, low_x, high, high_p, high_x))

    return block


def _join(
    low: Float[Array, "low lower"],
    low_p: Float[Array, " low"],
    low_x: Float[Array, "low inputs"],
    high: Float[Array, "high higher"],
    high_p: Float[Array, " high"],
    high_x: Float[Array, "high inputs"],
) -> Machine:
    """Weight sums with h x, h and x, from those with 1 and x for each state of the lower and of the higher units."""
    both = jnp.concatenate([low.T @ low_x, high.T @ high_x])
    return Machine(both, jnp.concatenate([low.T @ low_p, high.T @ high_p]), jnp.sum(high_x, 0))


def _factor(q: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute (1 + q) / sqrt 2: a product of many is as far from overflow as from underflow."""
    half = np.sqrt(0.5).astype(q.dtype)
    return half + half * q


def _sum_fused(machine: Machine, dtype: np.dtype, with_moments: bool) -> _Sums:
    """Sum over blocks of which a GPU stores nothing but P(h)."""
    n_inner = min(machine.weights.shape[0], sum(GPU_TABLE_UNITS))
    return _add_up(_fused_block(*_inner(machine, n_inner), dtype, with_moments), machine, n_inner)


def _fused_block(
    weights: Float[Array, "inner inputs"], bias: Float[Array, " inner"], dtype: np.dtype, with_moments: bool
) -> Block:
    """Sum a block: two tables of fields, added up again in each of three reductions, over inputs and over either half.

    E[h_i x_j] for a unit of one half is summed from what is left of p tanh after the sum over the other half.
    """
    wide = weights.dtype
    n_low = min(GPU_TABLE_UNITS[0], weights.shape[0])
    low, high = _states(n_low, wide), _states(weights.shape[0] - n_low, wide)
    low_fields = (low @ weights[:n_low]).astype(dtype)
    high_fields = high @ weights[n_low:]
    low_bias, high_bias = low @ bias[:n_low], high @ bias[n_low:]
    n = weights.shape[1]

    def block(field: Float[Array, " inputs"]) -> _Sums:
        a, b = (high_fields + field).astype(dtype), low_fields
        groups = _n_groups(n), n // _n_groups(n)
        size = jnp.abs(a.reshape(-1, 1, *groups) + b.reshape(1, -1, *groups))
        sizes, factors = _reduce_both(size, _factor(jnp.exp(-2 * size)), lax.mul, 3)
        # the barriers keep XLA from taking the reductions again, or from storing the terms that two of them share
        sizes, factors = _barrier(sizes, factors)
        g = jnp.sum(sizes + jnp.log(factors), 2, wide) + high_bias[:, None] + low_bias + n / 2 * np.log(2.0)
        top = jnp.max(g)
        p = jnp.exp((g - top).astype(dtype))
        if not with_moments:
            return _Sums(top, jnp.sum(p, dtype=wide), ())
        (p,) = _barrier(p)
        low_p, low_x = _weighted_means(a, b, p, axis=0)
        a, b, p = _barrier(a, b, p)
        high_p, high_x = _weighted_means(a, b, p, axis=1)
        low_p, low_x, high_p, high_x = (x.astype(wide) for x in (low_p, low_x, high_p, high_x))
        return _Sums(top, jnp.sum(high_p), _join(low, low_p, low_x, high, high_p, high_x))

    return block


def _barrier(*arrays: Array) -> tuple[Array, ...]:
    return lax.optimization_barrier(arrays)


def _weighted_means(
    a: Float[Array, "high inputs"], b: Float[Array, "low inputs"], p: Float[Array, "high low"], axis: int
) -> tuple[Float[Array, " states"], Float[Array, "states inputs"]]:
    """Sum p and p tanh(a + b) over one axis of p; tanh a = 1 - 2 / (1 + exp 2a)."""
    terms = p[:, :, None] / (1 + jnp.exp(2 * (a[:, None, :] + b)))
    below, total = _reduce_both(terms, jnp.broadcast_to(p[:, :, None], terms.shape), lax.add, axis)
    return total[:, 0], total - 2 * below


def _reduce_both(
    x: Float[Array, "..."], y: Float[Array, "..."], second: Callable[[Array, Array], Array], axis: int
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Sum x, and sum or multiply y, over an axis, in one reduction.

    Also where the second is of little use: for a reduction of a single array, XLA's autotuner compiles variants that
    hold whole rows in registers, which takes minutes for arrays as large as these.
    """
    starts = jnp.zeros((), x.dtype), jnp.asarray(1.0 if second is lax.mul else 0.0, y.dtype)
    return lax.reduce((x, y), starts, lambda old, new: (old[0] + new[0], second(old[1], new[1])), (axis,))


def _sum_real(machine: Machine, n_inner: int, with_moments: bool) -> _Sums:
    """Sum over blocks for real inputs, less the factor (2 pi)^(n/2)."""
    n_inner = min(machine.weights.shape[0], n_inner)
    return _add_up(_real_block(*_inner(machine, n_inner), with_moments), machine, n_inner)


def _real_block(weights: Float[Array, "inner inputs"], bias: Float[Array, " inner"], with_moments: bool) -> Block:
    """Compute g(h) = |b|^2 / 2 + h . (theta + W b) + h . W W^T h / 2, and E[h x] = E[h h^T] W + E[h] b."""
    states = _states(weights.shape[0], weights.dtype)
    quadratic = jnp.sum((states @ weights) ** 2, 1) / 2 + states @ bias

    def block(field: Float[Array, " inputs"]) -> _Sums:
        g = quadratic + states @ (weights @ field)
        top = jnp.max(g)
        p = jnp.exp(g - top)
        total = jnp.sum(p)
        top = top + field @ field / 2
        if not with_moments:
            return _Sums(top, total, ())
        weighted = p[:, None] * states
        h = jnp.sum(weighted, 0)
        both = (states.T @ weighted) @ weights + h[:, None] * field
        return _Sums(top, total, Machine(both, h, h @ weights + total * field))

    return block
