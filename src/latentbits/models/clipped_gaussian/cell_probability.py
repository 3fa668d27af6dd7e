"""Deterministic clipping: the Gaussian mass of a row's cell, and samples of the latents within it.

Both integrate or sample one direction exactly: along any line the cell is an interval, and the conditional of the
prior N(0, I) on a line is a standard Gaussian.  See `hyperplane_cells.py` for what a cell is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key
from scipy.stats import qmc

from latentbits.core.arrays import Array
from latentbits.core.packed_symmetric import products, unpack
from latentbits.core.special import log1mexp
from latentbits.models.clipped_gaussian.hyperplane_cells import Planes, planes, violated

__all__ = ["Integral", "curvature", "gibbs", "integrate", "log_interval", "truncated_normal"]


def log_ndtr(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute log Phi(x), right to rounding far out in the tail, where three terms of the series would not do."""
    return jax.scipy.special.log_ndtr(x, series_order=8)


def log_interval(low: Float[Array, "*shape"], high: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute log(Phi(high) - Phi(low)) without cancellation; -inf where the interval is empty."""
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
    nodes, masses = (jnp.asarray(part, low.dtype) for part in np.polynomial.legendre.leggauss(8))
    t = nodes * width[..., None] / 2
    inner = jnp.sum(masses * jnp.exp(-middle[..., None] * t - t**2 / 2), -1)
    gauss = jnp.log(inner * width / 2) - middle**2 / 2 - 0.5 * np.log(2 * np.pi)
    return jnp.where(empty, -jnp.inf, jnp.where(narrow, gauss, wide))


def truncated_normal(
    low: Float[Array, "*shape"], high: Float[Array, "*shape"], uniform: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Draw a standard Gaussian between two bounds, by inversion of its distribution function in logarithms."""
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
    """Return a precision with the cell's shape around y: the curvature of ``|y|^2 / 2 - sum log distance_i(y)``."""
    distance = jnp.maximum(jnp.abs(y @ at.normal.T + at.offset), 1e-30)
    q = y.shape[1]
    return unpack(jnp.where(at.signs == 0, 0, 1 / distance**2) @ products(at.normal), q) + jnp.eye(q, dtype=y.dtype)


def _bounds(
    signs: Float[Array, "rows *copies columns"],
    x: Float[Array, "rows *copies columns"],
    rate: Float[Array, "rows *copies columns"],
) -> tuple[Float[Array, "rows *copies"], Float[Array, "rows *copies"]]:
    """Find the interval of a on which ``signs (x + a rate) > 0``; low > high where there is none."""
    toward = signs * rate
    steep = jnp.abs(rate) > 1e-14
    crossing = -x / jnp.where(steep, rate, 1)
    low = jnp.max(jnp.where(steep & (toward > 0), crossing, -jnp.inf), -1)
    high = jnp.min(jnp.where(steep & (toward < 0), crossing, jnp.inf), -1)
    never = jnp.any(~steep & (signs * x < 0), -1)
    return jnp.where(never, jnp.inf, low), jnp.where(never, -jnp.inf, high)


class Integral(NamedTuple):
    """The result of an integration over a row's cell."""

    # log_probability, error: the log of the Gaussian mass of the cell, and its standard error; -inf and 0 for a row
    # without a cell
    log_probability: Float[Array, " rows"]
    error: Float[Array, " rows"]
    # mean, covariance: of the latents within the cell
    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    ones: Float[Array, "rows columns"]  # share of the cell's mass in which each column is 1: of use for missing bits


class _Sums(NamedTuple):
    """Weighted sums over points so far, each row's weights relative to exp(top)."""

    top: Float[Array, " rows"]
    mass: Float[Array, "rows copies"]
    first: Float[Array, "rows latents"]
    second: Float[Array, "rows latents latents"]
    ones: Float[Array, "rows columns"]


def integrate(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    inside: Float[Array, "rows latents"],
    mean: Float[Array, "rows latents"],
    covariance: Float[Array, "rows latents latents"],
    keys: Key[Array, " rows"],
    n_points: int = 128,
) -> Integral:
    """Integrate over a row's cell: its mass, with a standard error, and what the latents are within it.

    Points are drawn along all principal axes of the covariance but the longest, along which the mass of the cell is
    known exactly; with one latent that is all.  They are drawn from logistic distributions: a cell may reach out as far
    as the prior, and the tails of a Gaussian as narrow as the cell would make the weights unbounded.  Each row has
    eight copies of one quasi-random net, each shifted at random: their spread is an honest error.

    `inside`: a point inside the cell; where it violates a bit, the row is taken to have no cell.  `mean`, `covariance`:
    of the latents given the bits, about.  A mean outside the cell is replaced by `inside`, a covariance that is not
    finite by the shape of the cell around `inside`, with which errors are about twice as large.  `keys`: one per row.
    `n_points`: per replicate; a power of two.
    """
    (n, q), n_copies = inside.shape, 8
    possible = ~jnp.any(violated(weights, phi, signs, inside), 1)
    # where to draw, and in which directions
    at = planes(weights, phi, signs)
    mean = jnp.where(jnp.any(violated(weights, phi, signs, mean), 1, keepdims=True) | ~jnp.isfinite(mean), inside, mean)
    usable = jnp.all(jnp.isfinite(covariance), (1, 2), keepdims=True)
    shape = 4 * jnp.linalg.inv(curvature(planes(weights, phi, signs, inside), inside))
    variance, axes = jnp.linalg.eigh(jnp.where(usable, covariance, shape))
    logistic = np.sqrt(3) / np.pi  # scale of a logistic distribution of variance 1
    scale = 1.1 * logistic * jnp.sqrt(jnp.maximum(variance[:, :-1], 1e-300))
    centre = jnp.einsum("nij,ni->nj", axes[:, :, :-1], mean)
    longest = axes[:, :, -1]
    rate = jnp.broadcast_to((longest @ at.normal.T)[:, None], (n, n_copies, len(phi)))
    copies = jnp.broadcast_to(at.signs[:, None], rate.shape)
    net = jnp.asarray(qmc.Sobol(q, scramble=False).random(n_points), phi.dtype)
    shift = jax.vmap(lambda key: jax.random.uniform(key, (n_copies, q), phi.dtype))(keys)

    def add(sums: _Sums, node: Float[Array, " latents"]) -> tuple[_Sums, None]:
        u = jnp.clip((node + shift) % 1, 1e-12, 1 - 1e-12)
        across, along = u[..., :-1], u[..., -1]
        rest = centre[:, None] + scale[:, None] * jax.scipy.special.logit(across)
        foot = jnp.einsum("nrj,nij->nri", rest, axes[:, :, :-1])
        low, high = _bounds(copies, foot @ at.normal.T + at.offset, rate)
        ratio = -jnp.sum(0.5 * rest**2 + jnp.log(across) + jnp.log1p(-across), -1)
        log_weight = log_interval(low, high) + ratio
        top = jnp.maximum(sums.top, jnp.max(log_weight, 1))
        known = jnp.isfinite(top)
        before = jnp.where(known, jnp.exp(sums.top - jnp.where(known, top, 0)), 0)
        weight = jnp.where(known[:, None], jnp.exp(log_weight - jnp.where(known, top, 0)[:, None]), 0)
        empty = ~(low < high)
        place = truncated_normal(jnp.where(empty, -1.0, low), jnp.where(empty, 1.0, high), along)
        y = foot + place[..., None] * longest[:, None]
        away = y - inside[:, None]  # cells are small: what is summed should be small too
        one = (y @ weights.T + phi > 0).astype(phi.dtype)
        return _Sums(
            top,
            sums.mass * before[:, None] + weight,
            sums.first * before[:, None] + jnp.einsum("nr,nri->ni", weight, away),
            sums.second * before[:, None, None] + jnp.einsum("nr,nri,nrj->nij", weight, away, away),
            sums.ones * before[:, None] + jnp.einsum("nr,nrd->nd", weight, one),
        ), None

    # sums over the net, and means from them
    none = jnp.zeros((n, n_copies), phi.dtype)
    start = _Sums(none[:, 0] - jnp.inf, none, 0 * inside, 0 * axes, jnp.zeros_like(signs))
    sums, _ = jax.lax.scan(add, start, net)
    total = jnp.sum(sums.mass, 1)
    share = 1 / jnp.where(total > 0, total, 1)
    value = sums.top + jnp.log(jnp.where(total > 0, total, 1) / (n_copies * n_points))
    value = value + jnp.sum(jnp.log(scale) - 0.5 * np.log(2 * np.pi), 1)
    # less three, of so few: the variance of z-scores is then 1 and not that of Student's t
    spread = jnp.std(sums.mass * share[:, None] * n_copies, axis=1, ddof=3) / np.sqrt(n_copies)
    first = sums.first * share[:, None]
    second = sums.second * share[:, None, None]
    return Integral(
        jnp.where(possible & (total > 0), value, -jnp.inf),
        jnp.where(possible, 0.0 if q == 1 else spread, 0.0),
        inside + first,
        second - first[:, :, None] * first[:, None],
        jnp.minimum(sums.ones * share[:, None], 1),  # but for rounding it is
    )


def gibbs(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"],
    keys: Key[Array, " rows"],
    n_sweeps: int,
    n_draws: int = 1,
) -> Float[Array, "draws rows latents"]:
    """Draw the latents given the bits: `n_draws` states of a chain per row, `n_sweeps` apart.

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
