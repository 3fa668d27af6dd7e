"""log p of a row with noise, by importance sampling around where expectation propagation puts its posterior.

Posteriors are log-concave, and with many columns close to Gaussian: a few points a row are enough for most rows.  So
all rows get few, and rows whose error is still above `GOAL` get more, level by level.  What a row gets depends on its
own key and bits alone.

A row has `REPLICATES` copies of one quasi-random net, each shifted at random: their spread is an honest error,
independent from row to row.  Every point comes with its mirror image, so that the odd part of what the Gaussian leaves
over cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import qmc

from latentbits.core.gaussians import Gaussian
from latentbits.core.nodes import MANY_COLUMNS, MOST_GRID, log_det
from latentbits.models.clipped_gaussian.expectation import Factors, log_density

__all__ = ["is_sampled", "log_evidence"]

REPLICATES = 8
PAIRS = (2, 16, 64)  # points with their mirror images in each replicate, level by level
GOAL = 0.03  # nats: rows are spread by several, and their errors average out
WIDER = 1.1  # than the Gaussian: tails that are heavier would make the weights unbounded
BLOCKS = 16  # of the rows of a chunk, of which those are taken that need more points


def is_sampled(n_latents: int, n_columns: int) -> bool:
    """Whether a few points do better than the product rules of `core/nodes.py`, which do not grow fewer."""
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


def log_evidence(
    factors: Factors, signs: Float[Array, "rows columns"], at: Gaussian, keys: Key[Array, " rows"]
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log p(s) of each row, and its standard error.

    Rows go on by a bound of their error that does not know how evenly a net is spread.  It is steadier than the error
    itself: rows that stop because their error came out small by chance would have errors that are too small.

    Parameters
    ----------
    at
        The posterior, about.
    keys
        One per row.
    """
    n, q = at.mean.shape
    size = -(-n // BLOCKS)
    net = jnp.asarray(qmc.Sobol(q, scramble=False).random(PAIRS[-1]), signs.dtype)
    shift = jax.vmap(lambda key: jax.random.uniform(key, (REPLICATES, q), signs.dtype))(keys)
    rows = signs, at, shift

    def refine(level: Array, found: tuple[Array, ...]) -> tuple[Array, ...]:
        rough = found[2] > GOAL
        place = jnp.where(rough, jnp.cumsum(rough) - 1, n)
        order = jnp.full(BLOCKS * size, n).at[place].set(jnp.arange(n), mode="drop")

        def block(k: Array, found: tuple[Array, ...]) -> tuple[Array, ...]:
            chosen = jax.lax.dynamic_slice_in_dim(order, k * size, size)
            own = jax.tree.map(lambda x: x.at[chosen].get(mode="clip"), rows)
            new = _importance(factors, *own, net, jnp.asarray(PAIRS)[level])
            return jax.tree.map(lambda x, part: x.at[chosen].set(part, mode="drop"), found, new)

        return jax.lax.fori_loop(0, -(-jnp.sum(rough) // size), block, found)

    start = (jnp.full_like(at.mean[:, 0], jnp.inf),) * 3
    value, error, _ = jax.lax.fori_loop(0, len(PAIRS), refine, start)
    return value, error


def _importance(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    at: Gaussian,
    shift: Float[Array, "rows copies latents"],
    net: Float[Array, "points latents"],
    n_pairs: Array,
) -> tuple[Float[Array, " rows"], Float[Array, " rows"], Float[Array, " rows"]]:
    """log p(s), its standard error, and a bound of that which is known better, by the first points of a net.

    w / g varies far less than w: of points that the wider Gaussian puts far out, both weigh little.
    """
    n, copies, q = shift.shape

    def add(k: Array, sums: _Sums) -> _Sums:
        u = (net[k] + shift) % 1
        half = np.sqrt(2) * jax.scipy.special.erfinv(jnp.clip(2 * u - 1, -1 + 2e-6, 1 - 2e-6))
        z = WIDER * jnp.stack([half, -half], 1).reshape(n, 2 * copies, q)
        points = at.mean[:, None] + jnp.einsum("nki,nji->nkj", z, at.scale)
        length = jnp.sum(z**2, -1)
        joint = log_density(factors, signs, points) + 0.5 * (length / WIDER**2 - jnp.sum(points**2, -1))
        top = jnp.maximum(sums.top, jnp.max(joint, 1))
        w, g = (
            jnp.sum(jnp.exp(x).reshape(n, 2, copies), 1)
            for x in (joint - top[:, None], 0.5 * (1 / WIDER**2 - 1) * length)
        )
        before = jnp.exp(sums.top - top)
        return _Sums(
            top,
            sums.w * before[:, None] + w,
            sums.g + g,
            sums.ww * before**2 + jnp.sum(w * w, 1),
            sums.wg * before + jnp.sum(w * g, 1),
            sums.gg + jnp.sum(g * g, 1),
        )

    each, none = jnp.zeros_like(shift[:, :, 0]), jnp.zeros_like(shift[:, 0, 0])
    sums = jax.lax.fori_loop(0, n_pairs, add, _Sums(none - jnp.inf, each, each, none, none, none))
    total, gauss = jnp.sum(sums.w, 1), jnp.sum(sums.g, 1)
    ratio = total / gauss
    value = sums.top + jnp.log(ratio) + log_det(at.scale)
    # less three, of so few: the variance of z-scores is then 1 and not that of Student's t
    off = sums.w - ratio[:, None] * sums.g
    error = jnp.sqrt(jnp.sum(off**2, 1) * (copies / (copies - 3))) / total
    bound = jnp.sqrt(jnp.maximum(sums.ww - 2 * ratio * sums.wg + ratio**2 * sums.gg, 0)) / total
    return value, error, bound
