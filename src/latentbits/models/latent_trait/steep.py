"""Answers about rows by as many nodes as the steepest columns ask for, in units of each row's posterior.

With spacing h a rule is off by a share of about exp(-2 pi (pi / a) / h), where a is the slope of a sigmoid: its nearest
pole is pi / a away.  So what a row needs is known before: the Gauss-Hermite nodes of `nodes.accurate_rules`, or evenly
spaced ones, along each axis as many as columns are steep there.  The first axis is that along which the steepest column
changes, the second that along which the steepest does of what is left of the others: where one column is very steep,
one axis alone has many nodes.  Hidden columns count as observed ones do, since `complete` is of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from latentbits.core import nodes
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.packed_symmetric import pairs, products, unpack
from latentbits.models.latent_trait import column_kinds, quadrature, tuning
from latentbits.models.latent_trait.column_kinds import Columns, Params, Rows

__all__ = ["Answers", "answers"]


class Answers(NamedTuple):
    """Rows' log p and its error, the posterior's moments, and the mean of every column given what is seen.

    Means of columns cost as much as all the rest; where they were not asked for there are none.
    """

    log_likelihood: Float[Array, " rows"]
    error: Float[Array, " rows"]
    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    expected: Float[Array, "rows outputs"]


def answers(columns: Columns, params: Params, rows: Rows, batch: Batch, filled: bool = False) -> Answers:
    """Answer for rows, up to three latent dimensions; the means of columns where they are to be `filled` in."""
    n, q = len(batch.values), params.weights.shape[1]
    # first answers of all rows, by nodes around each posterior
    fine, coarse = nodes.accurate_rules(q, batch.values.shape[1], batch.observed is None)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    integral, error = quadrature.checked(columns, params, rows, at, fine, coarse)
    expected = jnp.zeros((n, 0), error.dtype)
    if filled:
        expected = jnp.einsum("nk,nko->no", integral.share, column_kinds.expected(columns, params, integral.points))
    first = Answers(integral.log_likelihood, error, *quadrature.covariance_of(integral), expected)
    # rows whose steepest column these do not resolve, those of many nodes first
    spacing = np.pi / len(fine.nodes) ** (0.5 / q)  # near their middle n Gauss-Hermite nodes are pi / sqrt(n) apart
    steepest = jnp.sqrt(jnp.max(jnp.sum(_slopes(columns, params, at) ** 2, 2), axis=1, initial=0.0))
    needed = (steepest * spacing > tuning.FIRST_SLOPE_TIMES_SPACING[q]) & (batch.weight > 0)
    around, slopes = _turned(columns, params, nodes.by_shares(at, fine, integral.share))
    sizes = jnp.where(needed[:, None], _sizes(slopes), 0)
    order, together = jnp.argsort(-jnp.prod(sizes, 1)), min(n, _rows_together())

    def finer(number: Array, found: Answers) -> Answers:
        place = jax.lax.dynamic_slice(order, (number * together,), (together,))
        own, own_at, own_slopes = jax.tree.map(lambda x: x[place], (rows, around, slopes))
        better = _evenly(columns, params, own, own_at, own_slopes, sizes[place].max(0), filled)
        kept = needed[place]
        return jax.tree.map(
            lambda new, old: old.at[place].set(jnp.where(kept.reshape(-1, *[1] * (old.ndim - 1)), new, old[place])),
            better,
            found,
        )

    return jax.lax.fori_loop(0, (jnp.sum(needed) + together - 1) // together, finer, first)


def _rows_together() -> int:
    # a GPU would do nothing but begin with few
    return 2 if jax.default_backend() == "cpu" else 1024


def _slopes(columns: Columns, params: Params, at: Gaussian) -> Float[Array, "rows outputs latents"]:
    """Find slopes in units of the Gaussian; a softmax turns by differences of two slopes, and reals are smooth."""
    first, last, *_ = columns.starts(len(params.bias))
    place = np.arange(len(params.bias))
    factor = np.where(place < first, 1.0, np.where(place < last, 0.0, 2.0)).astype(params.weights.dtype)
    return jnp.einsum("oi,nij->noj", params.weights * factor[:, None], at.scale)


def _turned(columns: Columns, params: Params, at: Gaussian) -> tuple[Gaussian, Float[Array, "rows latents"]]:
    """Turn the Gaussian's axes to the steepest columns, one after the other, and find the largest slope along each."""
    slopes, q = _slopes(columns, params, at), at.mean.shape[1]
    # below, it does not matter along which axis a column changes
    flat = jnp.broadcast_to(1e-3 * jnp.eye(q, dtype=slopes.dtype), at.scale.shape)
    axes: list[Array] = []
    left = jnp.concatenate([slopes, flat], 1)
    for _ in range(q):
        steepest = jnp.argmax(jnp.sum(left**2, 2), axis=1)
        axis = jnp.take_along_axis(left, steepest[:, None, None], axis=1)[:, 0]
        for before in axes:  # once more, as of parallel columns nothing but rounding is left
            axis = axis - jnp.sum(axis * before, 1, keepdims=True) * before
        axis = axis / jnp.maximum(jnp.linalg.norm(axis, axis=1, keepdims=True), 1e-30)
        left = left - jnp.einsum("noj,nj->no", left, axis)[..., None] * axis[:, None]
        axes.append(axis)
    turn = jnp.stack(axes, 2)
    along = jnp.max(jnp.abs(jnp.einsum("noj,njk->nok", slopes, turn)), axis=1, initial=0.0)
    return Gaussian(at.mean, jnp.einsum("nij,njk->nik", at.scale, turn)), along


def _sizes(slopes: Float[Array, "rows latents"]) -> Int[Array, "rows latents"]:
    """Count evenly spaced nodes along each axis: as many as slopes ask for, fewer where these are too many in all."""
    q = slopes.shape[1]
    asked = 2 * nodes.REACH * slopes / tuning.RESOLVED_SLOPE_TIMES_SPACING + 1
    asked = jnp.clip(asked, 17, tuning.EVEN_MOST_NODES[1])  # a Gaussian needs as many
    order = jnp.argsort(asked, axis=1)
    room, given = jnp.full(len(slopes), float(tuning.EVEN_MOST_NODES[q]), slopes.dtype), []
    for k in range(q):  # the smallest wish first
        wish = jnp.take_along_axis(asked, order[:, k, None], axis=1)[:, 0]
        given.append(jnp.minimum(wish, room ** (1 / (q - k))))
        room = room / given[-1]
    return jnp.take_along_axis(jnp.stack(given, 1), jnp.argsort(order, axis=1), axis=1).astype(int)


def _evenly(
    columns: Columns,
    params: Params,
    rows: Rows,
    at: Gaussian,
    slopes: Array,
    size: Int[Array, " latents"],
    filled: bool,
) -> Answers:
    """Answer by `size` evenly spaced nodes along each axis; block by block, as their number is no shape.

    Rules of every other node, of which there are two a dimension, are off by the root of what the rule itself is off
    by, or by as much where it does not resolve a column.
    """
    n, q = at.mean.shape
    dtype, corners, n_pairs = at.mean.dtype, 2**q, len(pairs(q)[0])
    spacing = (2 * nodes.REACH / (size - 1)).astype(dtype)
    size = size.astype(jnp.int32)
    strides = jnp.cumprod(size) // size

    def add(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        # the places of a block, and the density there
        top, sums, means = carry
        place = block * tuning.NODES_PER_BLOCK + jnp.arange(tuning.NODES_PER_BLOCK)
        on_axes = (place[:, None] // strides) % size
        x = on_axes.astype(dtype) * spacing - nodes.REACH
        points = at.mean[:, None] + jnp.einsum("ki,nji->nkj", x, at.scale)
        joint = column_kinds.density(columns, params, rows, points)[0] - 0.5 * jnp.sum(points**2, -1)
        joint = jnp.where(place < jnp.prod(size), joint, -jnp.inf)
        # sums go on from those of the blocks before, in units of the highest density yet
        new = jnp.maximum(top, joint.max(1))
        share, fade = jnp.exp(joint - new[:, None]), jnp.exp(top - new)[:, None]
        corner = ((on_axes % 2) @ 2 ** np.arange(q))[:, None] == np.arange(corners)
        terms = jnp.concatenate([jnp.ones((tuning.NODES_PER_BLOCK, 1), dtype), corner.astype(dtype), x, products(x)], 1)
        if filled:
            means = means * fade + jnp.einsum("nk,nko->no", share, column_kinds.expected(columns, params, points))
        return new, sums * fade + share @ terms, means

    lowest = jnp.full(n, jnp.finfo(dtype).min, dtype)
    outputs = jax.eval_shape(lambda: column_kinds.expected(columns, params, at.mean)).shape[1] if filled else 0
    nothing = jnp.zeros((n, 1 + corners + q + n_pairs), dtype), jnp.zeros((n, outputs), dtype)
    n_blocks = (jnp.prod(size) + tuning.NODES_PER_BLOCK - 1) // tuning.NODES_PER_BLOCK
    top, sums, means = jax.lax.fori_loop(0, n_blocks, add, (lowest, *nothing))
    total = sums[:, :1]
    scaled = sums / total
    value = (
        top + jnp.log(total[:, 0]) + nodes.log_det(at.scale) + jnp.sum(jnp.log(spacing)) - 0.5 * q * np.log(2 * np.pi)
    )
    away = jnp.abs(jnp.log(corners * scaled[:, 1 : corners + 1])).max(1)
    unresolved = jnp.exp(-(np.pi**2) / jnp.maximum((slopes * spacing).max(1), 1e-3))
    x, squares = scaled[:, corners + 1 : corners + 1 + q], scaled[:, corners + 1 + q :]
    j, k = pairs(q)
    spread = unpack(squares - x[:, j] * x[:, k], q)
    covariance = jnp.einsum("nij,njk,nlk->nil", at.scale, spread, at.scale)
    mean = at.mean + jnp.einsum("nij,nj->ni", at.scale, x)
    return Answers(value, 2 * away * unresolved, mean, covariance, means / total)
