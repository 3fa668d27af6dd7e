"""Answers about rows by as many nodes as the steepest column asks for, of each row in units of its own posterior.

With spacing h a rule is off by a share of about exp(-2 pi (pi / a) / h), where a is the slope of a sigmoid: its nearest
pole is pi / a away.  So what a row needs is known before: the Gauss-Hermite nodes of `nodes.accurate_rules`, or one of
the evenly spaced rules of `nodes.FINER`.  Hidden columns count as observed ones do, since `complete` is of them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from latentbits.core import nodes
from latentbits.core.gaussians import Gaussian
from latentbits.core.packed import pairs, products, unpack
from latentbits.models.latent_trait import kinds, quadrature
from latentbits.models.latent_trait.kinds import Columns, Params, Rows

__all__ = ["Answers", "answers"]

RESOLVED = 1.7  # slope times spacing up to which a rule is right to exp(-2 pi^2 / 1.7), 1e-5


class Answers(NamedTuple):
    """Of each row: log p and its error, the posterior's moments, and the mean of every column given what is seen."""

    log_likelihood: Float[Array, " rows"]
    error: Float[Array, " rows"]
    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    expected: Float[Array, "rows outputs"]


def answers(columns: Columns, params: Params, rows: Rows, n_columns: int, complete: bool) -> Answers:
    """Tell all of it, up to three latent dimensions; `complete` is that of `nodes.accurate_rules`."""
    q = params.weights.shape[1]
    fine, coarse = nodes.accurate_rules(q, n_columns, complete)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    integral = quadrature.integrate(columns, params, rows, at, fine)
    value, rough = integral.log_likelihood, quadrature.integrate(columns, params, rows, at, coarse).log_likelihood
    expected = jnp.einsum("nk,nko->no", integral.share, kinds.expected(columns, params, integral.points))
    first = Answers(value, 2 * jnp.abs(value - rough), *quadrature.covariance_of(integral), expected)
    around = nodes.by_shares(at, fine, integral.share)
    sizes = [n for _, n in nodes.FINER[q] if n]
    # near their middle n Gauss-Hermite nodes are pi / sqrt(n) apart
    spacings = [np.pi / len(fine.nodes) ** (0.5 / q), *(2 * nodes.REACH / (n - 1) for n in sizes[:-1])]
    needed = _steepest(columns, params, at) > RESOLVED / spacings[0]
    level = needed.astype(int)
    for spacing in spacings[1:]:
        level += needed & (_steepest(columns, params, around) > RESOLVED / spacing)

    def finer(number: Array, found: Answers) -> Answers:
        own = level == number + 1
        size = jnp.where(own.any(), jnp.asarray(sizes)[number], 0)
        better = _evenly(columns, params, rows, around, size)
        return jax.tree.map(lambda new, old: jnp.where(own.reshape(-1, *[1] * (old.ndim - 1)), new, old), better, found)

    return jax.lax.fori_loop(0, len(sizes), finer, first)


def _steepest(columns: Columns, params: Params, at: Gaussian) -> Float[Array, " rows"]:
    """The largest slope of a column, in units of the Gaussian; a softmax turns by differences of two slopes."""
    first, last, *_ = columns.starts(len(params.bias))
    place = np.arange(len(params.bias))
    factor = np.where(place < first, 1.0, np.where(place < last, 0.0, 2.0))
    slopes = jnp.einsum("oi,nij->noj", params.weights * factor[:, None].astype(params.weights.dtype), at.scale)
    return jnp.sqrt(jnp.max(jnp.sum(slopes**2, 2), axis=1, initial=0.0))


def _evenly(columns: Columns, params: Params, rows: Rows, at: Gaussian, size: Array) -> Answers:
    """By so many evenly spaced nodes a dimension, none for 0; block by block, as their number is no shape.

    Rules of every other node, of which there are two a dimension, are off by the root of what the rule itself is off
    by, or by as much where it does not resolve a column.
    """
    n, q = at.mean.shape
    dtype, corners, n_pairs = at.mean.dtype, 2**q, len(pairs(q)[0])
    spacing = (2 * nodes.REACH / jnp.maximum(size - 1, 1)).astype(dtype)

    def add(block: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, sums, means = carry
        place = block * nodes.BLOCK + jnp.arange(nodes.BLOCK)
        on_axes = (place[:, None] // size ** np.arange(q)) % size
        x = on_axes.astype(dtype) * spacing - nodes.REACH
        points = at.mean[:, None] + jnp.einsum("ki,nji->nkj", x, at.scale)
        joint = kinds.density(columns, params, rows, points)[0] - 0.5 * jnp.sum(points**2, -1)
        joint = jnp.where(place < size**q, joint, -jnp.inf)
        new = jnp.maximum(top, joint.max(1))
        share, fade = jnp.exp(joint - new[:, None]), jnp.exp(top - new)[:, None]
        corner = ((on_axes % 2) @ 2 ** np.arange(q))[:, None] == np.arange(corners)
        told = jnp.concatenate([jnp.ones((nodes.BLOCK, 1), dtype), corner.astype(dtype), x, products(x)], 1)
        expected = jnp.einsum("nk,nko->no", share, kinds.expected(columns, params, points))
        return new, sums * fade + share @ told, means * fade + expected

    lowest = jnp.full(n, jnp.finfo(dtype).min, dtype)
    outputs = jax.eval_shape(lambda: kinds.expected(columns, params, at.mean)).shape[1]
    nothing = jnp.zeros((n, 1 + corners + q + n_pairs), dtype), jnp.zeros((n, outputs), dtype)
    n_blocks = (size**q + nodes.BLOCK - 1) // nodes.BLOCK
    top, sums, means = jax.lax.fori_loop(0, n_blocks, add, (lowest, *nothing))
    total = sums[:, :1]
    scaled = sums / total
    value = top + jnp.log(total[:, 0]) + nodes.log_det(at.scale) + q * (jnp.log(spacing) - 0.5 * np.log(2 * np.pi))
    away = jnp.abs(jnp.log(corners * scaled[:, 1 : corners + 1])).max(1)
    unresolved = jnp.exp(-(np.pi**2) / jnp.maximum(_steepest(columns, params, at) * spacing, 1e-3))
    x, squares = scaled[:, corners + 1 : corners + 1 + q], scaled[:, corners + 1 + q :]
    j, k = pairs(q)
    spread = unpack(squares - x[:, j] * x[:, k], q)
    covariance = jnp.einsum("nij,njk,nlk->nil", at.scale, spread, at.scale)
    mean = at.mean + jnp.einsum("nij,nj->ni", at.scale, x)
    return Answers(value, 2 * away * unresolved, mean, covariance, means / total)
