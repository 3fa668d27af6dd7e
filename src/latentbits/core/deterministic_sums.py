"""Sums and products over many rows, with the same bits on any number of cores.

On a CPU XLA cuts a sum over the rows, and a product of two long, narrow factors, into as many parts as there are
threads, and Eigen takes as many rows of a long product at a time as suit their number.  What was found not to depend on
it are products of up to 256 rows, turned so that these come last, and additions of whole arrays.  So rows are taken in
small blocks, and what these come to is added pair by pair.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from latentbits.core.arrays import Array, on_device

__all__ = ["narrow_over_last", "over_last", "over_rows", "sum_over_rows"]

SINGLE_PRODUCT_ROWS = 256  # no more rows than these on the last axis are one product
# Sums that are taken faster without a matrix product: 40 times 4 x 4, of 2048 rows, in 1.4 ms (by products 2.0), and
# 40 times 8 x 8 in 3.2 (4.2).
MOST_NARROW_SUMS = 64


def over_rows(a: Float[Array, "rows left"], b: Float[Array, "rows right"]) -> Float[Array, "left right"]:
    """``a.T @ b``."""
    block = _block(len(a))
    if block is None or not on_device(a, b):
        return a.T @ b
    a = jax.lax.optimization_barrier(a)  # so that it is computed once, in its own order
    left, right = (x.reshape(len(x) // block, block, x.shape[1]) for x in (a, b))
    products = jax.lax.dot_general(left.transpose(0, 2, 1), right, (((2,), (1,)), ((0,), (0,))))
    return _in_pairs(jax.lax.optimization_barrier(products))


def over_last(a: Float[Array, "left rows"], b: Float[Array, "right rows"]) -> Float[Array, "left right"]:
    """Compute ``a @ b.T``."""
    block = _block(a.shape[1], SINGLE_PRODUCT_ROWS)
    if block is None or a.shape[1] <= SINGLE_PRODUCT_ROWS:  # rows come last already: few of them are one product
        return a @ b.T
    left, right = (x.reshape(len(x), x.shape[1] // block, block).swapaxes(0, 1) for x in (a, b))
    products = jax.lax.dot_general(left, right, (((2,), (2,)), ((0,), (0,))))
    return _in_pairs(jax.lax.optimization_barrier(products))


def narrow_over_last(a: Float[Array, "left rows"], b: Float[Array, "right rows"]) -> Float[Array, "left right"]:
    """Compute ``a @ b.T`` of a few by a few."""
    block = _block(a.shape[1])
    if block is None or len(a) * len(b) > MOST_NARROW_SUMS:
        return over_last(a, b)
    products = a[:, None] * b
    return products.reshape(len(a), len(b), -1, block).sum(2).sum(2)


def sum_over_rows(x: Float[Array, "rows *shape"]) -> Float[Array, "*shape"]:
    """``x.sum(0)``."""
    block = _block(len(x))
    return (
        x.sum(0)
        if block is None or not on_device(x)
        else _in_pairs(x.reshape(len(x) // block, block, *x.shape[1:]).sum(1))
    )


def _in_pairs(x: Float[Array, "blocks *shape"]) -> Float[Array, "*shape"]:
    """Add blocks pairwise, the first half to the second, until one is left."""
    while len(x) > 1:
        half, odd = len(x) // 2, x[2 * (len(x) // 2) :]
        x = jnp.concatenate([x[:half] + x[half : 2 * half], odd])
    return x[0]


def _block(n: int, most: int = 128) -> int | None:
    """Choose the rows of a block; None where one block will do, or where cutting gains nothing."""
    if jax.default_backend() != "cpu":
        return None
    return next((size for size in range(min(most, n // 2), 31, -1) if n % size == 0), None)
