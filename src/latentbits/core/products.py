"""Products that sum over many rows.

On a CPU XLA cuts a product of two long, narrow factors along the rows, into as many parts as there are threads: sums
then depend on how many there are, and were measured to take three times the work (8 cores, 8192 rows, 20 x 200
products).  In blocks of a fixed size they are not cut further, take no longer on one core, and have the same bits on
all.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

__all__ = ["over_last", "over_rows"]

BLOCK, SMALLEST = 256, 32  # rows


def over_rows(a: Float[Array, "rows left"], b: Float[Array, "rows right"]) -> Float[Array, "left right"]:
    """``a.T @ b``."""
    block = _block(len(a))
    if block is None:
        return a.T @ b
    left, right = (x.reshape(-1, block, x.shape[1]) for x in (a, b))
    return jax.lax.dot_general(left, right, (((1,), (1,)), ((0,), (0,)))).sum(0)


def over_last(a: Float[Array, "left rows"], b: Float[Array, "right rows"]) -> Float[Array, "left right"]:
    """``a @ b.T``."""
    block = _block(a.shape[1])
    if block is None:
        return a @ b.T
    left, right = (x.reshape(len(x), -1, block) for x in (a, b))
    return jax.lax.dot_general(left, right, (((2,), (2,)), ((1,), (1,)))).sum(0)


def _block(n: int) -> int | None:
    """Into blocks of how many rows to cut; None where it is one, or where nothing is gained by it."""
    if jax.default_backend() != "cpu":
        return None
    return next((size for size in range(min(BLOCK, n - 1), SMALLEST - 1, -1) if n % size == 0), None)
