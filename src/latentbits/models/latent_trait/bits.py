"""Binary columns: P(t = 1 | x) = sigmoid(w.x + b), eq. 2, by Jaakkola & Jordan's bound, and exactly at points."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.gaussians import Gaussian
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import pairs, products, solve, unpack
from latentbits.models.latent_trait import tuning

__all__ = ["Stats", "bound", "bound_stats", "density", "local", "maximise", "point_curvature", "point_stats",
           "typical_curvature"]  # fmt: skip


class Stats(Module):
    """Sums for the M-step of binary columns: gradient and curvature of the expected log-likelihood, by column."""

    gradient: Float[Array, "columns extended"]  # by (w, b)
    curvature: Float[Array, "columns pairs"]  # packed, over pairs of (w, b)
    ones: Float[Array, " columns"]
    observed: Float[Array, " columns"]


def _row_sums(x: Float[Array, "*rows columns"]) -> Float[Array, "*rows"]:
    """Sum over columns.

    On a CPU as a product, since the compiler vectorises what it writes for a product, but not a short reduction.  On a
    GPU a reduction needs no copy of x.
    """

    def as_product(x: Float[Array, "*rows columns"]) -> Float[Array, "*rows"]:
        n = math.prod(x.shape[:-1])  # not -1, which has no meaning where there are no columns
        return (x.reshape(n, x.shape[-1]) @ jnp.ones(x.shape[-1], x.dtype)).reshape(x.shape[:-1])

    return jax.lax.platform_dependent(x, cpu=as_product, default=lambda x: x.sum(-1))


def _sum_of_logs(x: Float[Array, "*rows columns"]) -> Float[Array, "*rows"]:
    """Sum log x over columns, for x from 1/2 to 1.

    One logarithm of a product of several of them, as most of the time of learning would be spent on logarithms.
    """
    *rows, d = x.shape
    width = -(-d // tuning.FACTORS_PER_LOGARITHM)
    filled = jnp.pad(x, [(0, 0)] * len(rows) + [(0, tuning.FACTORS_PER_LOGARITHM * width - d)], constant_values=1)
    return _row_sums(jnp.log(jnp.prod(filled.reshape(*rows, tuning.FACTORS_PER_LOGARITHM, width), -2)))


def bound(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"] | None,
    posterior: Gaussian,
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"], Float[Array, " rows"], Array]:
    """Take the bound (5) at the xi of eq. 8 as a quadratic in x: precision, linear term, constant of its logarithm.

    lambda of the paper is -tanh(xi / 2) / (4 xi); here it comes with the sign and the 2 of eqs. 6 and 7, as
    ``lambda2 = -2 lambda >= 0``, which is returned too.
    """
    j, k = pairs(w.shape[1])
    centre = _affine(posterior.mean, w, b)
    spread = _affine(posterior.covariance[:, j, k], products(w, twice=True))
    xi = jnp.sqrt(centre**2 + jnp.maximum(spread, 1e-12))  # (8)
    tanh = jnp.tanh(xi / 2)
    lambda2 = tanh / (2 * xi)
    half = values - 0.5
    at_contact = jnp.log((1 + tanh) / 2) + xi * (tanh / 4 - 0.5)  # log sigmoid(xi) - xi / 2 - lambda xi^2
    if seen is not None:
        lambda2, half, at_contact = lambda2 * seen, half * seen, at_contact * seen
    through = lambda2 @ jnp.concatenate([products(w), b[:, None] * w, (b**2)[:, None]], 1)
    n_pairs = len(j)
    linear = half @ w - through[:, n_pairs:-1]  # (7), before C
    constant = _row_sums(at_contact) + half @ b - through[:, -1] / 2
    return through[:, :n_pairs], linear, constant, lambda2


def bound_stats(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"] | None,
    lambda2: Float[Array, "rows columns"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> Stats:
    """Sum the terms of eq. 11: its first bracket is the curvature, its second the gradient at w = b = 0."""
    q = w.shape[1]
    _, k = pairs(q + 1)
    weighted = weight[:, None] * moments
    half = values - 0.5 if seen is None else (values - 0.5) * seen
    curvature = over_rows(weighted, lambda2).T  # this way round the long, narrow factor is read in order
    right = over_rows(weighted[:, k == q], half).T
    ours = jnp.einsum("dij,dj->di", unpack(curvature, q + 1), jnp.concatenate([w, b[:, None]], 1))
    return Stats(right - ours, curvature, *_counts(values, seen, weight))


def density(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"] | None,
    points: Float[Array, "rows points latents"],
) -> tuple[Float[Array, "rows points"], Float[Array, "rows points columns"]]:
    """Compute log P(t | x) at each row's own points, and 2 P(t_i = 1 | x) - 1 there (0 where t_i is missing).

    With sign y = 2 t - 1 and tanh = 2 P - 1, ``log sigmoid(y a) = min(y a, 0) + log((1 + |tanh|) / 2)``: two terms of
    one sign, so nothing cancels, and one transcendental function serves likelihood, gradient and curvature.
    """
    a = _affine(points, w, b)
    tanh = jnp.tanh(a / 2)
    certainty, below = (1 + jnp.abs(tanh)) / 2, jnp.minimum((2 * values - 1)[:, None] * a, 0)
    if seen is not None:
        there = seen[:, None]
        tanh, below, certainty = tanh * there, below * there, jnp.where(there > 0, certainty, 1)
    return _row_sums(below) + _sum_of_logs(certainty), tanh


def point_stats(
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"] | None,
    tanh: Float[Array, "rows points columns"],
    share: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> Stats:
    """Sum gradient and curvature of the expected log-likelihood, for a step of iteratively re-weighted least squares.

    Above seven latents the curvature is that of a row's mean 4 P (1 - P) times its moments, as if they
    did not go together: one product for each row, not for each point, whose number of pairs would be most of the work.
    Where the gradient vanishes stays the same.

    `tanh`: 2 P - 1, of `density`.  `share`: posterior probability of each point, times the row's weight.  `moments`:
    <x^ x^'> of each row over its points.
    """
    n, m, q = points.shape
    _, k = pairs(q + 1)
    sign = 2 * values - 1 if seen is None else (2 * values - 1) * seen
    if q <= 7:  # up to seven latents, products of pairs are summed over points
        curvature = point_curvature(seen, tanh, share, points)
    else:
        curvature = over_rows(moments, jnp.einsum("nk,nkd->nd", share, _spread(seen, tanh))).T / 4
    first = (share[..., None] * _extended(points)).reshape(n * m, -1)
    linear = over_rows(weight[:, None] * moments[:, k == q], sign)
    gradient = linear - over_rows(first, tanh.reshape(n * m, -1))
    return Stats(gradient.T / 2, curvature, *_counts(values, seen, weight))


def point_curvature(
    seen: Float[Array, "rows columns"] | None,
    tanh: Float[Array, "rows points columns"],
    share: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
) -> Float[Array, "columns pairs"]:
    """Sum the curvature of `point_stats`, P (1 - P) x^ x^' over points, whatever the number of latents."""
    n, m, _ = points.shape
    shared = (share[..., None] * products(_extended(points))).reshape(n * m, -1)
    return over_rows(shared, _spread(seen, tanh).reshape(n * m, -1)).T / 4


def _extended(points: Float[Array, "rows points latents"]) -> Float[Array, "rows points extended"]:
    return jnp.concatenate([points, jnp.ones_like(points[..., :1])], -1)


def _spread(
    seen: Float[Array, "rows columns"] | None, tanh: Float[Array, "rows points columns"]
) -> Float[Array, "rows points columns"]:
    """Compute 4 P (1 - P)."""
    return 1 - tanh**2 if seen is None else seen[:, None] - tanh**2


def local(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"] | None,
    point: Float[Array, "rows latents"],
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"]]:
    """Compute curvature (packed) and slope of log P(t | x) in x."""
    tanh = jnp.tanh(_affine(point, w, b) / 2)
    error, spread = values - (1 + tanh) / 2, (1 - tanh**2) / 4
    if seen is not None:
        error, spread = error * seen, spread * seen
    return spread @ products(w), error @ w


def typical_curvature(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    seen: Float[Array, "rows columns"] | None,
    at: Gaussian,
) -> Float[Array, "rows pairs"]:
    """Average the curvature of -log P(t | x) in x over x ~ `at`.

    With a = w.x + b of mean m and variance s^2, the mean of sigmoid'(a) is close to k sigmoid'(k m), with
    k = 1 / sqrt(1 + pi s^2 / 8) (MacKay 1992).  The curvature at one point would not do: a steep bit bends the
    posterior at its threshold only.
    """
    j, k = pairs(w.shape[1])
    spread = _affine(at.covariance[:, j, k], products(w, twice=True))
    shrink = jax.lax.rsqrt(1 + np.pi / 8 * jnp.maximum(spread, 0))
    slope = shrink * (1 - jnp.tanh(shrink * _affine(at.mean, w, b) / 2) ** 2) / 4
    return (slope if seen is None else slope * seen) @ products(w)


def maximise(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    stats: Stats,
    precision: Float[Array, ""] | float,
    tied: bool,
    longest: Float[Array, ""] | float,
) -> tuple[Float[Array, "columns latents"], Float[Array, " columns"]]:
    """Step on every column: by eq. 11 where the statistics are the bound's, else by re-weighted least squares.

    `precision`: precision of a Gaussian prior on the weights, 0 for none.  `tied`: all columns have the same weight
    (one latent dimension): the one-parameter logistic model.  `longest`: longest step of a column, in log-odds; inf
    takes eq. 11 as it is.
    """
    q, xp = w.shape[1], namespace(w, stats)
    j, k = pairs(q + 1)
    prior = precision * (np.arange(q + 1) < q)
    gradient = stats.gradient - prior * xp.concatenate([w, xp.zeros_like(b)[:, None]], 1)
    ridge = 1e-9 * (1 + stats.curvature[:, j == k].sum(1, keepdims=True))
    curvature = stats.curvature + xp.where(j == k, prior[j] + ridge, 0)
    # a bit that is always (or never) set has its optimum at infinity, one never seen has none: both are left out, the
    # first so near its optimum that all of its rows together are short of it by less than a thousandth of a nat
    free = (stats.ones > 0) & (stats.ones < stats.observed)
    gradient = xp.where(free[:, None], gradient, 0)
    if tied:
        # Schur complement of the biases: one weight for all, one bias each; packed entries are ww, wb, bb
        to_bias = curvature[:, 1] / curvature[:, 2]
        slope = xp.sum(gradient[:, 0] - to_bias * gradient[:, 1])
        steepness = xp.sum(xp.where(free, curvature[:, 0] - to_bias * curvature[:, 1], 0))
        common = slope / xp.maximum(steepness, 1e-300)
        step = xp.stack([xp.full_like(b, common), gradient[:, 1] / curvature[:, 2] - to_bias * common], 1)
    else:
        step = solve(curvature, gradient)
    size = xp.sqrt(xp.sum(step**2, 1, keepdims=True))
    step = step * xp.minimum(1, longest / xp.maximum(size, 1e-300))
    limit = xp.log(2000 * stats.observed + 1) * xp.sign(2 * stats.ones - stats.observed)
    fixed_w = xp.where(free[:, None], w + step[:, :q], w + step[:, :q] if tied else 0)
    return fixed_w, xp.where(free, b + step[:, q], limit)


def _affine(
    x: Float[Array, "*rows inputs"], w: Float[Array, "columns inputs"], b: Float[Array, " columns"] | float = 0.0
) -> Float[Array, "*rows columns"]:
    """Compute w.x + b.  A product over a few inputs is no work for a matrix unit: it is fused with what follows."""
    if w.shape[1] > 6:
        return x @ w.T + b
    total: Any = b
    for j in range(w.shape[1]):
        total = total + x[..., j, None] * w[:, j]
    return total


def _counts(
    values: Float[Array, "rows columns"], seen: Float[Array, "rows columns"] | None, weight: Float[Array, " rows"]
) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
    if seen is None:
        return weight @ values, jnp.full(values.shape[1], weight.sum())
    return weight @ values, weight @ seen
