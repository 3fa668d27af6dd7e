"""Counts of rows in which two bits are 1 together, by one pass.

On a CPU 32 rows go into a word of each column, and a pair is counted by AND and popcount: about three times as fast as
the matrix product that says the same.  The words are the outer loop and a block of columns the inner one, so that the
counts stay in the cache.  On a GPU, which has hardware for it, it is the matrix product.  Both are
exact.

Where rows count more or less often than once, and in NumPy, it is a matrix product with their weights: of whole
numbers it is exact too, up to 2^24 in float32.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.batch import Batch
from latentbits.core.model import Measure, OnePass, Progress
from latentbits.core.module import Module

__all__ = ["COUNTING", "Stats", "count"]

WORD_BITS = 32
BLOCK_COLUMNS = 50  # their counts against all others should stay in the cache


class Stats(Module):
    """Weighted counts of rows; those of pairs are over rows in which both entries were seen."""

    n_rows: Float[Array, ""]
    # ones, observed: of each column
    ones: Float[Array, " columns"]
    observed: Float[Array, " columns"]
    pair_ones: Float[Array, "columns columns"]  # both are 1
    pair_left: Float[Array, "columns columns"]  # the first is 1, and the second is seen
    pair_observed: Float[Array, "columns columns"]  # both are seen


def count(batch: Batch) -> Stats:
    """Count the pairs of a batch."""
    if not on_device(batch):
        return _weighted(batch)
    once = jnp.all((batch.weight == 0) | (batch.weight == 1))
    return jax.lax.cond(once, _each_once, _weighted, batch)


def _weighted(batch: Batch) -> Stats:
    xp, weight = namespace(batch), batch.weight[:, None]
    if not on_device(batch) and not _are_exact(weight):
        weight = weight.astype(np.float64)
    ones = (batch.values > 0.5).astype(weight.dtype)
    columns = ones.shape[1]
    seen = xp.ones_like(ones[:, :1]) if batch.observed is None else batch.observed
    own, there = weight * ones, weight * seen
    n, n_ones, n_seen = weight.sum(), own.sum(0), there.sum(0)
    if batch.observed is None:
        left = xp.broadcast_to(n_ones[:, None], (columns, columns))
        return Stats(n, n_ones, xp.full(columns, n), own.T @ ones, left, xp.full((columns, columns), n))
    return Stats(n, n_ones, n_seen, own.T @ ones, own.T @ seen, there.T @ seen)


def _are_exact(weight: Any) -> bool:
    """Say whether sums in float32 are: in others counts of cells, which are differences, could be negative."""
    # float32 counts whole numbers exactly up to here
    return bool((weight == np.rint(weight)).all() and weight.sum() < 2**24)


def _each_once(batch: Batch) -> Stats:
    real = batch.weight > 0
    ones = (batch.values > 0.5) & real[:, None]
    columns = ones.shape[1]
    n_ones = jnp.sum(ones, 0, dtype=jnp.int32)
    if batch.observed is None:
        n = jnp.sum(real, dtype=jnp.int32)
        seen = jnp.full(columns, n)
        left = jnp.broadcast_to(n_ones[:, None], (columns, columns))
        return _as_floats(batch, n_ones, seen, _pairs(ones, ones), left, jnp.full((columns, columns), n))
    seen = (batch.observed > 0.5) & real[:, None]
    n_seen = jnp.sum(seen, 0, dtype=jnp.int32)
    return _as_floats(batch, n_ones, n_seen, _pairs(ones, ones), _pairs(ones, seen), _pairs(seen, seen))


def _as_floats(batch: Batch, *counts: Int[Array, "..."]) -> Stats:
    return Stats(batch.weight.sum(), *(x.astype(batch.weight.dtype) for x in counts))


def _pairs(left: Bool[Array, "rows columns"], right: Bool[Array, "rows columns"]) -> Int[Array, "columns columns"]:
    """Count the rows where both are true."""
    return jax.lax.platform_dependent(left, right, cpu=_by_popcount, default=_by_product)


def _by_product(left: Bool[Array, "rows columns"], right: Bool[Array, "rows columns"]) -> Int[Array, "columns columns"]:
    # bits are exact in bfloat16, and sums of them in float32 up to 2^24 rows
    low = jnp.bfloat16
    return jnp.dot(left.T.astype(low), right.astype(low), preferred_element_type=jnp.float32).astype(jnp.int32)


def _by_popcount(
    left: Bool[Array, "rows columns"], right: Bool[Array, "rows columns"]
) -> Int[Array, "columns columns"]:
    columns = left.shape[1]
    block = min(BLOCK_COLUMNS, columns)
    a, b = _words(left), _words(right)
    blocks = jnp.pad(a, ((0, 0), (0, -columns % block))).reshape(len(a), -1, block).swapaxes(0, 1)

    def one(words: Array) -> Array:
        def add(total: Array, both: tuple[Array, Array]) -> tuple[Array, None]:
            x, y = both
            return total + jax.lax.population_count(x[:, None] & y[None]).astype(jnp.int32), None

        return jax.lax.scan(add, jnp.zeros((block, columns), jnp.int32), (words, b))[0]

    return jax.lax.map(one, blocks).reshape(-1, columns)[:columns]


def _words(bits: Bool[Array, "rows columns"]) -> Array:
    """Pack the bits of 32 rows into one unsigned integer of each column."""
    rows, columns = bits.shape
    padded = jnp.pad(bits, ((0, -rows % WORD_BITS), (0, 0))).reshape(-1, WORD_BITS, columns).astype(jnp.uint32)
    placed = padded << jnp.arange(WORD_BITS, dtype=jnp.uint32)[None, :, None]
    return jax.lax.reduce(placed, np.uint32(0), jax.lax.bitwise_or, (1,))


# ---------------------------------------------------------------- a stage that counts, before a model has parameters


def _unprepared(params: PyTree, state: Any, progress: Progress | None) -> None:
    """Prepare nothing."""


def _no_state(params: PyTree) -> None:
    """Carry no state: counting has no optimiser."""


def _count(params: PyTree, shared: None, batch: Batch, row_state: None) -> tuple[Stats, None]:
    return count(batch), None


def _keep(state: None, params: PyTree, shared: None, stats: Stats, progress: Progress) -> tuple[Stats, PyTree]:
    return stats, params


def _no_objective(params: PyTree, shared: None, stats: Stats) -> Float[Array, ""]:
    return namespace(stats).zeros(())


# The counts are the state that the `Transform` after it gets.
COUNTING = OnePass(
    "counting pairs",
    measure=Measure.PROGRESS,
    comparable=False,
    prepare=_unprepared,
    e_step=_count,
    objective=_no_objective,
    start=_no_state,
    update=_keep,
    row_floats=lambda n_columns: max(1, n_columns // 4),  # bytes, which are packed
    rows_on_host="always",
)
