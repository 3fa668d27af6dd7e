"""The candidates of a row, eq. (5): the causes whose components match it best.

Arrays are (something, rows) with `axis` 0, (rows, something) with `axis` 1: see `posterior.Way`.
"""

from __future__ import annotations

import math
from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.core.module import Module

__all__ = ["Selection", "linear_terms", "number_of", "ranks", "select"]


class Selection(Module):
    """The candidates of each row, and the states of one active cause that is none, as the sum of their exponentials.

    That sum is e^top total.
    """

    candidates: Int[Array, "_ _"]
    top: Float[Array, "_ _"]
    total: Float[Array, "_ _"]


def linear_terms(
    match: Float[Array, "..."], norms: Float[Array, "..."], slope: Float[Array, ""], offset: Float[Array, ""]
) -> Float[Array, "..."]:
    """Compute l_h of `posterior.py`, which is linear in the match W y."""
    return slope * (match - 0.5 * norms) + offset


def select(
    match: Float[Array, "_ _"],
    norms: Float[Array, "_ _"],
    slope: Float[Array, ""],
    offset: Float[Array, ""],
    k: int,
    axis: int,
) -> Selection:
    """Select the k causes of highest score in each row.

    The highest k are among the k groups of causes with the highest maxima, so that most are looked at but once.
    """
    n = match.shape[axis]
    number = jnp.expand_dims(jnp.arange(n, dtype=jnp.int32), 1 - axis)
    rank = ranks(match, norms, number, n)
    # the best of the best groups
    size = max(math.isqrt(n // k), 1)
    n_groups = -(-n // size)
    if size > 1 and n_groups > k:
        room = [(0, 0), (0, 0)]
        room[axis] = (0, n_groups * size - n)
        padded = jnp.pad(rank, room, constant_values=jnp.iinfo(rank.dtype).min)
        leaders = _descending(reduce(jnp.maximum, jnp.split(padded, size, axis)), k, axis)
        group = number_of(leaders, n) % n_groups
        members = jnp.concatenate([group + i * n_groups for i in range(size)], axis)
        found = _descending(jnp.take_along_axis(padded, members, axis), k, axis)
    else:
        found = _descending(rank, k, axis)
    # the other causes, each active alone
    outside = rank < jax.lax.slice_in_dim(found, k - 1, k, axis=axis)
    lone = jnp.where(outside, linear_terms(match, norms, slope, offset), -jnp.inf)
    top = jnp.max(lone, axis, keepdims=True)
    return Selection(number_of(found, n), top, jnp.sum(jnp.exp(lone - top), axis, keepdims=True))


def ranks(
    match: Float[Array, "..."], norms: Float[Array, "..."], number: Int[Array, "..."], n: int
) -> Int[Array, "..."]:
    """Rank causes by integers in the order of the score; their lowest bits hold the cause, so that a maximum finds it.

    Scores that agree in all but the lowest bits count as equal, which is as good: (5) is only a guess.
    """
    # a component of norm 0 matches nothing: 0 / 0 would make it the first candidate of all rows
    score = jnp.where(norms > 0, match * jax.lax.rsqrt(jnp.where(norms > 0, norms, 1)), -jnp.inf)
    integer = jnp.int64 if score.dtype == jnp.float64 else jnp.int32
    bits = jax.lax.bitcast_convert_type(score, integer)
    ordered = jnp.where(bits < 0, bits ^ jnp.iinfo(integer).max, bits)
    return (ordered & ~_low_bits(n)) | (_low_bits(n) - number)


def number_of(rank: Int[Array, "..."], n: int) -> Int[Array, "..."]:
    """Return the cause's number out of its rank."""
    return (_low_bits(n) - (rank & _low_bits(n))).astype(jnp.int32)


def _low_bits(n: int) -> int:
    return (1 << (n - 1).bit_length()) - 1


def _descending(rank: Int[Array, "_ _"], k: int, axis: int) -> Int[Array, "_ _"]:
    """Find the k largest of each row's different numbers."""
    found = [jnp.max(rank, axis, keepdims=True)]
    for _ in range(k - 1):
        found.append(jnp.max(jnp.where(rank < found[-1], rank, jnp.iinfo(rank.dtype).min), axis, keepdims=True))
    return jnp.concatenate(found, axis)
