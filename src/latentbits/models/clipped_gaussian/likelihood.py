"""log p of a row with noise and its missing bits, by importance sampling around where EP puts its posterior.

Posteriors are log-concave, and with many columns close to Gaussian: a few points a row are enough for most rows.  So
all rows get few, and rows whose error is still above `GOAL_ERROR_NATS` get more, level by level.  The points of
a row depend on its key and bits alone.

A row has `NET_REPLICATES` copies of one quasi-random net, each shifted at random: their spread is an honest error,
independent from row to row.  Every point comes with its mirror image, so that the odd part of what the Gaussian leaves
over cancels.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Key, UInt32
from scipy.stats import qmc

from latentbits.core.arrays import Array
from latentbits.core.gaussians import Gaussian
from latentbits.core.nodes import MANY_COLUMNS, MOST_GRID
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.expectation import Factors, log_density
from latentbits.models.clipped_gaussian.tuning import (
    COMPLETION_PAIRS,
    GOAL_ERROR_NATS,
    LIKELIHOOD_PAIRS,
    NET_REPLICATES,
)

__all__ = ["is_sampled", "log_evidence", "predict"]


def is_sampled(n_latents: int, n_columns: int) -> bool:
    """Tell whether a few points do better than the product rules of `core/nodes.py`, which do not grow fewer."""
    return n_latents > MOST_GRID or (n_latents > 1 and n_columns >= MANY_COLUMNS)


class _Sums(NamedTuple):
    """Sums over points of the weights w, relative to exp(top), and of g, the weights that the Gaussian itself has.

    Those of each replicate, and those of squares and products over pairs of a point and its mirror image.
    """

    top: Float[Array, " rows"]
    w: Float[Array, "rows copies"]
    g: Float[Array, "rows copies"]
    ww: Float[Array, " rows"]
    wg: Float[Array, " rows"]
    gg: Float[Array, " rows"]
    bits: tuple[Float[Array, "rows columns"], ...]  # w P(1 | y), w P(0 | y), and both with g; none where not asked for


def log_evidence(
    factors: Factors, signs: Float[Array, "rows columns"], at: Gaussian, keys: Key[Array, " rows"]
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Estimate log p(s) of each row, and its standard error.

    `at`: the posterior, about; with a triangular scale.  `keys`: one per row.
    """
    found = _by_levels(factors, signs, at, keys, False)
    return found[:, 0], found[:, 1]


def predict(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    at: Gaussian,
    keys: Key[Array, " rows"],
    asked: Bool[Array, " rows"] | bool = True,
) -> Float[Array, "rows columns"]:
    """Estimate P(bit = 1 | s) of each column, by the points of `log_evidence`.

    The points say by which factor the mass of y with either bit differs from that of the Gaussian `at`, of which it is
    known exactly.  Other rows than those `asked` cost nothing, and mean nothing.
    """
    return _by_levels(factors, signs, at, keys, True, asked)[:, 3:]


def _by_levels(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    at: Gaussian,
    keys: Key[Array, " rows"],
    predicting: bool,
    asked: Bool[Array, " rows"] | bool = True,
) -> Float[Array, "rows found"]:
    """Estimate log p(s), its standard error, and a bound of that; and, if asked for, P(bit = 1 | s) of each column.

    Rows go on by a bound of their error that does not know how evenly a net is spread.  It is steadier than the error
    itself: rows that stop because their error came out small by chance would have errors that are too small.
    """
    n, q = at.mean.shape
    n_blocks = 16  # of the rows of a chunk, of which those are taken that need more points
    size = -(-n // n_blocks)
    levels: tuple[int, ...] = LIKELIHOOD_PAIRS if signs.shape[1] >= MANY_COLUMNS else LIKELIHOOD_PAIRS[1:]
    levels = (COMPLETION_PAIRS,) if predicting else levels
    net = jnp.asarray(qmc.Sobol(q, scramble=False).random(levels[-1]), signs.dtype)
    # one table, of which rows are taken: every gather and scatter is a loop to be compiled
    parts = signs, at.mean, at.scale.reshape(n, -1), _shifts(keys, NET_REPLICATES * q).astype(signs.dtype)
    table = jnp.concatenate(parts, 1)
    edges = np.cumsum([part.shape[1] for part in parts])[:-1]

    def refine(level: Array, found: Float[Array, "rows found"]) -> Float[Array, "rows found"]:
        rough = found[:, 2] > GOAL_ERROR_NATS
        order = _first(rough, n_blocks * size)

        def block(k: Array, found: Float[Array, "rows found"]) -> Float[Array, "rows found"]:
            chosen = jax.lax.dynamic_slice_in_dim(order, k * size, size)
            bits, mean, scale, shift = jnp.split(table.at[chosen].get(mode="clip"), edges, axis=1)
            own = Gaussian(mean, scale.reshape(size, q, q))
            n_pairs, shift = jnp.asarray(levels)[level], shift.reshape(size, NET_REPLICATES, q)
            new = _importance(factors, bits, own, shift, net, n_pairs, predicting)
            return found.at[chosen].set(new, mode="drop")

        return jax.lax.fori_loop(0, -(-jnp.sum(rough) // size), block, found)

    width = 3 + (signs.shape[1] if predicting else 0)
    start = jnp.where(jnp.broadcast_to(asked, (n,))[:, None], jnp.full((n, width), jnp.inf, signs.dtype), 0)
    return jax.lax.fori_loop(0, len(levels), refine, start)


def _first(chosen: Bool[Array, " rows"], size: int) -> Int[Array, " size"]:
    """Return the numbers of the rows that are chosen, and of the row after the last.

    Running counts by products with triangles: a running sum takes long to compile.
    """
    n = len(chosen)
    side = int(np.ceil(np.sqrt(n)))
    square = jnp.pad(chosen, (0, side * side - n)).reshape(side, side).astype(jnp.float32)
    within = square @ jnp.tri(side).T
    before = jnp.tri(side, k=-1) @ within[:, -1]
    count = (within + before[:, None]).reshape(-1)[:n].astype(jnp.int32)
    return jnp.full(size, n).at[jnp.where(chosen, count - 1, size)].set(jnp.arange(n), mode="drop")


def _shifts(keys: Key[Array, " rows"], size: int) -> Float[Array, "rows size"]:
    """Make numbers between 0 and 1 from the bits of a row's key, which are random, by a hash (Wellons' lowbias32).

    Threefry, by which the keys themselves are made, takes a second to compile once more.
    """
    low, high = jnp.moveaxis(jax.random.key_data(keys), 1, 0)

    def mixed(x: UInt32[Array, "rows size"]) -> UInt32[Array, "rows size"]:
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            x = (x ^ (x >> shift)) * np.uint32(factor)
        return x ^ (x >> 16)

    place = jnp.arange(size, dtype=jnp.uint32) * np.uint32(0x9E3779B9)
    bits = mixed(mixed(low[:, None] + place) ^ high[:, None])
    return (bits >> 8).astype(jnp.float32) * np.float32(2**-24)


def _importance(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    at: Gaussian,
    shift: Float[Array, "rows copies latents"],
    net: Float[Array, "points latents"],
    n_pairs: Array,
    predicting: bool,
) -> Float[Array, "rows found"]:
    """Find what `_by_levels` finds, by the first points of a net.

    w / g varies far less than w: of points that the wider Gaussian puts far out, both weigh little.
    """
    n, copies, q = shift.shape
    # Wider than the Gaussian: where tails are heavier, weights would be unbounded and errors too small.  In many
    # dimensions a little is much.
    wider = 1 + (1.3 - 1) / max(1, np.sqrt(q) / 2)

    def add(k: Array, sums: _Sums) -> _Sums:
        u = net[k] + shift
        half = np.sqrt(2) * jax.scipy.special.erfinv(jnp.clip(2 * (u - jnp.floor(u)) - 1, -1 + 2e-6, 1 - 2e-6))
        z = wider * jnp.stack([half, -half], 1).reshape(n, 2 * copies, q)
        points = at.mean[:, None] + jnp.einsum("nki,nji->nkj", z, at.scale)
        length = jnp.sum(z**2, -1)
        joint = log_density(factors, signs, points) + 0.5 * (length / wider**2 - jnp.sum(points**2, -1))
        # weights of the pairs, relative to the largest so far
        top = jnp.maximum(sums.top, jnp.max(joint, 1))
        each_w, each_g = (jnp.exp(x) for x in (joint - top[:, None], 0.5 * (1 / wider**2 - 1) * length))
        w, g = (jnp.sum(x.reshape(n, 2, copies), 1) for x in (each_w, each_g))
        before = jnp.exp(sums.top - top)
        bits = sums.bits
        if predicting:  # column sums, too
            w_one, w_zero, *of_gaussian = bits
            bits = (w_one * before[:, None], w_zero * before[:, None], *of_gaussian)
            bits = jax.lax.fori_loop(0, 2 * copies, partial(add_bits, points, each_w, each_g), bits)
        return _Sums(
            top,
            sums.w * before[:, None] + w,
            sums.g + g,
            sums.ww * before**2 + jnp.sum(w * w, 1),
            sums.wg * before + jnp.sum(w * g, 1),
            sums.gg + jnp.sum(g * g, 1),
            bits,
        )

    def add_bits(points: Array, w: Array, g: Array, k: Array, bits: tuple[Array, ...]) -> tuple[Array, ...]:
        z = (points[:, k] @ factors.weights.T + factors.phi) / jnp.sqrt(factors.psi)
        one, zero = jax.scipy.special.ndtr(z), jax.scipy.special.ndtr(-z)
        new = (w[:, k, None] * one, w[:, k, None] * zero, g[:, k, None] * one, g[:, k, None] * zero)
        return tuple(a + b for a, b in zip(bits, new))

    # sums over the points, and from them the value
    each, none = jnp.zeros_like(shift[:, :, 0]), jnp.zeros_like(shift[:, 0, 0])
    nothing = (jnp.zeros_like(signs),) * 4 if predicting else ()
    sums = jax.lax.fori_loop(0, n_pairs, add, _Sums(none - jnp.inf, each, each, none, none, none, nothing))
    total, gauss = jnp.sum(sums.w, 1), jnp.sum(sums.g, 1)
    ratio = total / gauss
    value = sums.top + jnp.log(ratio) + jnp.sum(jnp.log(jnp.abs(jnp.diagonal(at.scale, axis1=1, axis2=2))), 1)

    def variance(x: Float[Array, "rows copies"]) -> Float[Array, " rows"]:
        """Estimate the variance of the sum over copies, as a part of its square."""
        sums = jnp.sum(x, 1, keepdims=True)
        return jnp.sum((x / sums - 1 / copies) ** 2, 1) * (copies / (copies - 1))

    # the logarithm of a mean that varies is too low, and that of the one divided by, too
    value = value + 0.5 * (variance(sums.w) - variance(sums.g))
    # less three, of so few: the variance of z-scores is then 1 and not that of Student's t
    off = sums.w - ratio[:, None] * sums.g
    error = jnp.sqrt(jnp.sum(off**2, 1) * (copies / (copies - 3))) / total
    bound = jnp.sqrt(jnp.maximum(sums.ww - 2 * ratio * sums.wg + ratio**2 * sums.gg, 0)) / total
    found = jnp.stack([value, error, bound], 1)
    return jnp.concatenate([found, _ones(ep.predict(factors, at), *sums.bits)], 1) if predicting else found


def _ones(p: Array, w_one: Array, w_zero: Array, g_one: Array, g_zero: Array) -> Float[Array, "rows columns"]:
    """Compute P(bit = 1) from the Gaussian's, `p`, and sums of its weights and the posterior's with either bit."""
    tiny = jnp.finfo(p.dtype).tiny
    one, zero = p * w_one / jnp.maximum(g_one, tiny), (1 - p) * w_zero / jnp.maximum(g_zero, tiny)
    return one / jnp.maximum(one + zero, tiny)
