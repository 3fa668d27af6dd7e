"""Deterministic clipping: the Gaussian mass of a row's cell, and samples of the latents within it.

Both integrate or sample one direction exactly: along any line the cell is an interval, and the conditional of the
prior N(0, I) on a line is a standard Gaussian.  See `cells.py` for what a cell is.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import qmc

from latentbits.core.packed import products, unpack
from latentbits.core.special import log1mexp
from latentbits.models.clipped_gaussian.cells import Planes, planes, violated

__all__ = ["curvature", "gibbs", "log_interval", "log_probability", "truncated_normal"]

REPLICATES = 8  # of a quasi-random net, for its standard error
WIDER = 1.1
LOGISTIC = np.sqrt(3) / np.pi  # scale of a logistic distribution of variance 1
NODES = np.polynomial.legendre.leggauss(8)


def log_ndtr(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log Phi(x), right to rounding far out in the tail, where three terms of the series would not do."""
    return jax.scipy.special.log_ndtr(x, series_order=8)


def log_interval(low: Float[Array, "*shape"], high: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log(Phi(high) - Phi(low)) without cancellation; -inf where the interval is empty."""
    empty = ~(low < high)
    low, high = jnp.where(empty, -1.0, low), jnp.where(empty, 1.0, high)
    flip = low > -high
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)  # now in the lower tail, if in any
    width = high - low
    narrow = width * jnp.maximum(1, jnp.abs(high) + width) < 1
    # wide: both logarithms are accurate, and so is their difference
    a, b = log_ndtr(low), log_ndtr(jnp.where(narrow, low + 1, high))
    wide = b + log1mexp(jnp.maximum(b - a, 1e-300))
    # narrow: they nearly cancel, and Gauss-Legendre is exact to rounding
    width, middle = jnp.where(narrow, width, 1.0), jnp.where(narrow, (low + high) / 2, 0.0)
    nodes, masses = (jnp.asarray(part, low.dtype) for part in NODES)
    t = nodes * width[..., None] / 2
    inner = jnp.sum(masses * jnp.exp(-middle[..., None] * t - t**2 / 2), -1)
    gauss = jnp.log(inner * width / 2) - middle**2 / 2 - 0.5 * np.log(2 * np.pi)
    return jnp.where(empty, -jnp.inf, jnp.where(narrow, gauss, wide))


def truncated_normal(
    low: Float[Array, "*shape"], high: Float[Array, "*shape"], uniform: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A standard Gaussian between two bounds, by inversion of its distribution function in logarithms."""
    flip = low > -high
    low, high = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    uniform = jnp.clip(uniform, 1e-16, 1 - 1e-16)
    target = jnp.logaddexp(log_ndtr(low) + jnp.log1p(-uniform), log_ndtr(high) + jnp.log(uniform))
    plain = jax.scipy.special.ndtri(jnp.exp(jnp.clip(target, -30.0, -1e-16)))
    deep = jnp.minimum(target, -25.0)
    x = -jnp.sqrt(-2 * deep - jnp.log(-4 * np.pi * deep))
    for _ in range(4):  # Newton's method: log Phi is concave, and nearly a parabola out there
        value = log_ndtr(x)
        x = x - (value - deep) * jnp.exp(value + x**2 / 2 + 0.5 * np.log(2 * np.pi))
    x = jnp.clip(jnp.where(target < -25, x, plain), low, high)
    return jnp.where(flip, -x, x)


def curvature(at: Planes, y: Float[Array, "rows latents"]) -> Float[Array, "rows latents latents"]:
    """A precision with the shape of the cell around y: the curvature of ``|y|^2 / 2 - sum log distance_i(y)``."""
    distance = jnp.maximum(jnp.abs(y @ at.normal.T + at.offset), 1e-30)
    q = y.shape[1]
    return unpack(jnp.where(at.signs == 0, 0, 1 / distance**2) @ products(at.normal), q) + jnp.eye(q, dtype=y.dtype)


def _bounds(
    signs: Float[Array, "rows *copies columns"],
    x: Float[Array, "rows *copies columns"],
    rate: Float[Array, "rows *copies columns"],
) -> tuple[Float[Array, "rows *copies"], Float[Array, "rows *copies"]]:
    """The interval of a on which ``signs (x + a rate) > 0``; low > high where there is none."""
    toward = signs * rate
    steep = jnp.abs(rate) > 1e-14
    crossing = -x / jnp.where(steep, rate, 1)
    low = jnp.max(jnp.where(steep & (toward > 0), crossing, -jnp.inf), -1)
    high = jnp.min(jnp.where(steep & (toward < 0), crossing, jnp.inf), -1)
    never = jnp.any(~steep & (signs * x < 0), -1)
    return jnp.where(never, jnp.inf, low), jnp.where(never, -jnp.inf, high)


def log_probability(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    inside: Float[Array, "rows latents"],
    mean: Float[Array, "rows latents"],
    covariance: Float[Array, "rows latents latents"],
    keys: Key[Array, " rows"],
    n_points: int = 128,
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log P(s), the log of the Gaussian mass of a row's cell, and its standard error.

    With one latent it is exact.  With more, points are drawn along all principal axes of the covariance but the
    longest, which is integrated exactly for each of them.  They are drawn from logistic distributions: a cell may
    reach out as far as the prior, and the tails of a Gaussian as narrow as the cell would make the weights unbounded.
    Each row has `REPLICATES` copies of one quasi-random net, each shifted at random: their spread is an honest error.

    Parameters
    ----------
    inside
        A point inside the cell; where it violates a bit, the row is taken to have no cell: -inf, with no error.
    mean, covariance
        Of the latents given the bits, about.  A mean outside the cell is replaced by `inside`, a covariance that is
        not finite by the shape of the cell around `inside`, with which errors are about twice as large.
    keys
        One per row.
    n_points
        Per replicate; a power of two.
    """
    q = weights.shape[1]
    possible = ~jnp.any(violated(weights, phi, signs, inside), 1)
    at = planes(weights, phi, signs)
    if q == 1:
        low, high = _bounds(at.signs, jnp.broadcast_to(at.offset, at.signs.shape), at.normal.T + 0 * at.signs)
        return jnp.where(possible, log_interval(low, high), -jnp.inf), jnp.zeros(len(signs), phi.dtype)
    mean = jnp.where(jnp.any(violated(weights, phi, signs, mean), 1, keepdims=True) | ~jnp.isfinite(mean), inside, mean)
    usable = jnp.all(jnp.isfinite(covariance), (1, 2), keepdims=True)
    shape = 4 * jnp.linalg.inv(curvature(planes(weights, phi, signs, inside), inside))
    covariance = jnp.where(usable, covariance, shape)
    variance, axes = jnp.linalg.eigh(covariance)
    scale = WIDER * LOGISTIC * jnp.sqrt(jnp.maximum(variance[:, :-1], 1e-300))
    centre = jnp.einsum("nij,ni->nj", axes[:, :, :-1], mean)
    rate = jnp.broadcast_to((axes[:, :, -1] @ at.normal.T)[:, None], (len(signs), REPLICATES, len(phi)))
    copies = jnp.broadcast_to(at.signs[:, None], rate.shape)
    net = jnp.asarray(qmc.Sobol(q - 1, scramble=False).random(n_points), phi.dtype)
    shift = jax.vmap(lambda key: jax.random.uniform(key, (REPLICATES, q - 1), phi.dtype))(keys)

    def add(total: Float[Array, "rows copies"], node: Float[Array, " rest"]) -> tuple[Array, None]:
        u = jnp.clip((node + shift) % 1, 1e-12, 1 - 1e-12)
        rest = centre[:, None] + scale[:, None] * jax.scipy.special.logit(u)
        x = jnp.einsum("nrj,nij->nri", rest, axes[:, :, :-1]) @ at.normal.T + at.offset
        low, high = _bounds(copies, x, rate)
        ratio = -jnp.sum(0.5 * rest**2 + jnp.log(u) + jnp.log1p(-u), -1)
        return jnp.logaddexp(total, log_interval(low, high) + ratio), None

    each, _ = jax.lax.scan(add, jnp.full((len(signs), REPLICATES), -jnp.inf, phi.dtype), net)
    value = jax.nn.logsumexp(each, axis=1) - np.log(REPLICATES)
    relative = jnp.exp(each - jnp.where(jnp.isfinite(value), value, 0)[:, None])
    error = jnp.std(relative, axis=1, ddof=1) / np.sqrt(REPLICATES)
    value = value - np.log(n_points) + jnp.sum(jnp.log(scale) - 0.5 * np.log(2 * np.pi), 1)
    return jnp.where(possible, value, -jnp.inf), jnp.where(possible, error, 0)


def gibbs(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"],
    keys: Key[Array, " rows"],
    n_sweeps: int,
    n_draws: int = 1,
) -> Float[Array, "draws rows latents"]:
    """Samples of the latents given the bits: `n_draws` states of a chain per row, `n_sweeps` apart.

    A sweep is P moves, each to an exact draw along a line in a random direction (hit-and-run).  The directions are as
    long as the cell is wide, by its shape around the starting point `y`: a chain then moves as well in a thin oblique
    cell as in a round one.  `y` must be inside; best start from the middle, see `cells.centre`.  Bits that it
    violates are taken as y has them.
    """
    at = planes(weights, phi, signs, y)
    q = y.shape[1]
    factor = jnp.linalg.cholesky(curvature(at, y))

    def move(state: Float[Array, "rows latents"], number: Array) -> tuple[Array, None]:
        def draw(key: Key[Array, ""]) -> tuple[Array, Array]:
            first, second = jax.random.split(jax.random.fold_in(key, number))
            return jax.random.normal(first, (q,), y.dtype), jax.random.uniform(second, (), y.dtype)

        z, uniform = jax.vmap(draw)(keys)
        direction = jax.scipy.linalg.solve_triangular(factor, z[..., None], lower=True, trans=1)[..., 0]
        direction = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
        low, high = _bounds(at.signs, state @ at.normal.T + at.offset, direction @ at.normal.T)
        low, high = jnp.minimum(low, 0), jnp.maximum(high, 0)  # rounding may have put the state on the wrong side
        margin = 1e-12 * jnp.where(jnp.isfinite(high - low), high - low, 0)
        here = jnp.sum(state * direction, 1)
        there = truncated_normal(low + margin + here, high - margin + here, uniform)
        return state + (there - here)[:, None] * direction, None

    def draw(state: Array, number: Array) -> tuple[Array, Any]:
        state, _ = jax.lax.scan(move, state, number * n_sweeps * q + jnp.arange(n_sweeps * q))
        return state, state

    return jax.lax.scan(draw, y, jnp.arange(n_draws))[1]
