"""New starts for causes that no row uses.

An unused cause would make sum <s s'> of eq. (6) singular, and has nothing to learn from.  It starts again as what is
left over of a badly explained row: each pass keeps the residuals of a few random rows, and the largest is taken.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from latentbits.core.arrays import AnyKey, Array, namespace, uniform
from latentbits.core.batch import Batch
from latentbits.core.model import Progress
from latentbits.models.binary_sparse_coding.tuning import DRAWN_ROWS

__all__ = ["draw_rows", "first_drawn", "renewed", "residuals"]


def draw_rows(
    key: AnyKey, n_rows: Float[Array, "*starts"], among: UInt32[Array, " rows"] | None = None
) -> Int[Array, "*starts drawn"]:
    """Draw the rows to look at in the next pass, among the first 2^31; or among these, which were drawn by weight."""
    n = namespace(n_rows).minimum(n_rows, 2.0**31)[..., None] if among is None else len(among)
    place = (uniform(key, (*n_rows.shape, DRAWN_ROWS)) * n).astype("int32")
    return place if among is None else among[place].astype("int32")


def first_drawn(drawn: Int[Array, "*starts drawn"], progress: Progress | None) -> Int[Array, "*starts drawn"]:
    """Return the rows of a pass: before the first update, which draws others, some that were drawn by weight."""
    if progress is None or progress.rows is None:
        return drawn
    return namespace(drawn).where(progress.step == 0, progress.rows[:DRAWN_ROWS].astype("int32"), drawn)


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
    components: Float[Array, "*starts causes columns"],
    used: Bool[Array, "*starts causes"],
    left: Float[Array, "*starts drawn columns"],
) -> Float[Array, "*starts causes columns"]:
    """Put one of the largest residuals in the place of each component that is not used."""
    xp = namespace(components)
    size, n = xp.sum(xp.square(left), -1), left.shape[-2]
    other, number = size[..., None], np.arange(n)
    ahead = (size[..., None, :] > other) | ((size[..., None, :] == other) & (number < number[:, None]))
    turn = ~used @ np.triu(np.ones((used.shape[-1],) * 2)) - 1
    chosen = xp.sum(ahead, -1)[..., None, :] == turn[..., None] % n  # comparisons: a sort takes long to compile
    return xp.where(used[..., None], components, chosen.astype(left.dtype) @ left)
