"""New starts for causes that no row uses.

An unused cause would make sum <s s'> of eq. (6) singular, and has nothing to learn from.  It starts again as what is
left over of a badly explained row: each pass keeps the residuals of a few random rows, and the largest is taken.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Key, UInt32

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import Progress
from latentbits.models.binary_sparse_coding.tuning import DRAWN_ROWS

__all__ = ["draw_rows", "first_drawn", "renewed", "residuals"]


def draw_rows(
    key: Key[Array, ""], n_rows: Float[Array, ""], among: UInt32[Array, " rows"] | None = None
) -> Int[Array, " drawn"]:
    """Draw the rows to look at in the next pass, among the first 2^31; or among these, which were drawn by weight."""
    if among is not None:
        return among[jax.random.randint(key, (DRAWN_ROWS,), 0, len(among))].astype(jnp.int32)
    part = jax.random.bits(key, (DRAWN_ROWS,), jnp.uint32).astype(n_rows.dtype) / 2**32
    most = 2.0**31 - 128  # as numbers of 32 bits; a float32, too
    return jnp.floor(part * jnp.minimum(n_rows, most)).astype(jnp.int32)


def first_drawn(drawn: Int[Array, " drawn"], progress: Progress | None) -> Int[Array, " drawn"]:
    """Return the rows of a pass: before the first update, which draws others, some that were drawn by weight."""
    if progress is None or progress.rows is None:
        return drawn
    return jnp.where(progress.step == 0, progress.rows[:DRAWN_ROWS].astype(jnp.int32), drawn)


def residuals(
    drawn: Int[Array, " drawn"],
    components: Float[Array, "causes columns"],
    means: Float[Array, "causes rows"],
    batch: Batch,
) -> Float[Array, "drawn columns"]:
    """Compute y - <s> W of the drawn rows, 0 of those that are in another chunk and where nothing was observed."""
    place = drawn.astype(jnp.uint32) - batch.rows[0]  # very large where it is before the chunk
    here = place < len(batch.rows)
    place = jnp.minimum(place, len(batch.rows) - 1)
    if batch.high is not None:
        here = here & (batch.high[place] == 0)
    left = batch.values[place] - means[:, place].T @ components
    if batch.observed is not None:
        left = left * batch.observed[place]
    return left * (here & (batch.weight[place] > 0))[:, None]


def renewed(
    components: Float[Array, "causes columns"], used: Bool[Array, " causes"], left: Float[Array, "drawn columns"]
) -> Float[Array, "causes columns"]:
    """Put one of the largest residuals in the place of each component that is not used."""
    size = jnp.sum(jnp.square(left), 1)
    number = np.arange(len(left))
    ahead = (size > size[:, None]) | ((size == size[:, None]) & (number < number[:, None]))
    turn = np.tri(len(used)) @ ~used - 1
    chosen = jnp.sum(ahead, 1) == turn[:, None] % len(left)  # comparisons: a sort takes long to compile
    return jnp.where(used[:, None], components, chosen.astype(left.dtype) @ left)
