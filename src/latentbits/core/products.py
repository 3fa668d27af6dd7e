"""Products that sum over many rows.

On a CPU XLA cuts a product of two long, narrow factors along the rows, into as many parts as there are threads, where
the left one has its rows first: sums then depend on how many there are, and were measured to take three times the work
(8 cores, 8192 rows, 20 x 200 products).  In blocks of a fixed size that are turned they are not cut, and have the same
bits on any number of cores.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

__all__ = ["over_last", "over_rows"]

BLOCK, SMALLEST = 1024, 32  # rows


def over_rows(a: Float[Array, "rows left"], b: Float[Array, "rows right"]) -> Float[Array, "left right"]:
    """``a.T @ b``."""
    block = _block(len(a))
    if block is None:
        return a.T @ b
    a = jax.lax.optimization_barrier(a)  # so that it is computed once, in its own order
    left, right = (x.reshape(len(x) // block, block, x.shape[1]) for x in (a, b))
    return jax.lax.dot_general(left.transpose(0, 2, 1), right, (((2,), (1,)), ((0,), (0,)))).sum(0)


def over_last(a: Float[Array, "left rows"], b: Float[Array, "right rows"]) -> Float[Array, "left right"]:
    """``a @ b.T``."""
    return over_rows(a.T, b.T) if _block(a.shape[1]) else a @ b.T


def _block(n: int) -> int | None:
    """Into blocks of how many rows to cut; None where it is one, or where nothing is gained by it."""
    if jax.default_backend() != "cpu":
        return None
    return next((size for size in range(min(BLOCK, n // 2), SMALLEST - 1, -1) if n % size == 0), None)
