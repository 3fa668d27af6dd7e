"""Categorical columns: softmax of (0, w_1.x + b_1, ..., w_K-1.x + b_K-1), by Boehning's bound, and exactly at points.

    log sum exp(eta)  <=  its tangent at psi  +  (eta - psi)' A (eta - psi) / 2,     A = (I - 11' / K) / 2

with the first class as reference.  A is the same for every row, so the bound is a quadratic in x whose precision does
not depend on the row, and the same A gives the M-step of both algorithms: a step that can only go uphill.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import pairs, unpack

__all__ = ["Stats", "bound", "bound_stats", "density", "local", "maximise", "point_stats"]


class Stats(Module):
    """Gradient by (w, b) of each class but the first, and the sum of <x^ x^'> over the rows where it is observed."""

    gradient: Float[Array, "classes extended"]
    squares: Float[Array, " pairs"]
    counts: Float[Array, " classes"]
    observed: Float[Array, ""]


def curvature(n_logits: int) -> np.ndarray:
    """Make Boehning's A."""
    return 0.5 * (np.eye(n_logits) - 1 / (n_logits + 1))


def bound(
    w: Float[Array, "classes latents"],
    b: Float[Array, " classes"],
    chosen: Float[Array, "rows classes"],
    seen: Float[Array, " rows"],
    mean: Float[Array, "rows latents"],
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"], Float[Array, " rows"], Array]:
    """Take the bound at psi = <eta>, the best place, as a quadratic in x: precision, linear term, constant; and psi."""
    A = jnp.asarray(curvature(len(b)), w.dtype)
    j, k = pairs(w.shape[1])
    psi = mean @ w.T + b
    p, log_sum = _softmax(psi)
    right = chosen - p + psi @ A  # of eta
    precision = (w.T @ A @ w)[j, k]
    constant = right @ b - log_sum + jnp.sum(p * psi, 1) - 0.5 * jnp.sum((psi @ A) * psi, 1) - 0.5 * b @ A @ b
    return seen[:, None] * precision, seen[:, None] * ((right - A @ b) @ w), seen * constant, psi


def bound_stats(
    w: Float[Array, "classes latents"],
    b: Float[Array, " classes"],
    chosen: Float[Array, "rows classes"],
    seen: Float[Array, " rows"],
    psi: Float[Array, "rows classes"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> Stats:
    """Sum the gradient of the expected bound."""
    q = w.shape[1]
    A = jnp.asarray(curvature(len(b)), w.dtype)
    _, k = pairs(q + 1)
    weighted = (weight * seen)[:, None] * moments
    squares = sum_over_rows(weighted)
    right = chosen - _softmax(psi)[0] + psi @ A
    ours = A @ jnp.concatenate([w, b[:, None]], 1) @ unpack(squares, q + 1)
    return Stats(over_rows(right, weighted[:, k == q]) - ours, squares, (weight * seen) @ chosen, weight @ seen)


def density(
    w: Float[Array, "classes latents"],
    b: Float[Array, " classes"],
    chosen: Float[Array, "rows classes"],
    seen: Float[Array, " rows"],
    points: Float[Array, "rows points latents"],
) -> tuple[Float[Array, "rows points"], Float[Array, "rows points classes"]]:
    """Compute log P(t | x) at each row's own points, and the probabilities of the classes there."""
    eta = points @ w.T + b
    p, log_sum = _softmax(eta)
    return seen[:, None] * (jnp.sum(chosen[:, None] * eta, -1) - log_sum), p


def point_stats(
    chosen: Float[Array, "rows classes"],
    seen: Float[Array, " rows"],
    p: Float[Array, "rows points classes"],
    share: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> Stats:
    """Sum the gradient of the expected log-likelihood; see `bits.point_stats`."""
    extended = jnp.concatenate([points, jnp.ones_like(points[..., :1])], -1)
    error = (chosen[:, None] - p) * (share * seen[:, None])[..., None]
    squares = (weight * seen) @ moments
    return Stats(jnp.einsum("nmk,nmi->ki", error, extended), squares, (weight * seen) @ chosen, weight @ seen)


def local(
    w: Float[Array, "classes latents"],
    b: Float[Array, " classes"],
    chosen: Float[Array, "rows classes"],
    seen: Float[Array, " rows"],
    point: Float[Array, "rows latents"],
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"]]:
    """Compute curvature (packed) and slope of log P(t | x) in x."""
    j, k = pairs(w.shape[1])
    p, _ = _softmax(point @ w.T + b)
    mean = p @ w
    spread = p @ (w[:, j] * w[:, k]) - mean[:, j] * mean[:, k]
    return seen[:, None] * spread, seen[:, None] * ((chosen - p) @ w)


def maximise(
    w: Float[Array, "classes latents"], b: Float[Array, " classes"], stats: Stats, precision: Float[Array, ""] | float
) -> tuple[Float[Array, "classes latents"], Float[Array, " classes"]]:
    """Step by A^-1 gradient (sum <x^ x^'>)^-1: uphill whatever the probabilities are, as A bounds their curvature."""
    (n, q), xp = w.shape, namespace(w, stats)
    squares = unpack(stats.squares, q + 1) + 1e-9 * (1 + stats.observed) * np.eye(q + 1)
    prior = precision * (np.arange(q + 1) < q)
    gradient = stats.gradient - prior * xp.concatenate([w, xp.zeros_like(b)[:, None]], 1)
    if isinstance(precision, float) and precision == 0:  # no prior: not a number of the program
        step = 2 * (gradient + gradient.sum(0)) @ xp.linalg.inv(squares)  # A^-1 = 2 (I + 11')
    else:
        whole = xp.kron(curvature(n), squares) + xp.diag(xp.tile(prior, n))
        step = xp.linalg.solve(whole, gradient.reshape(-1)).reshape(n, q + 1)
    # a class never seen, or the reference never seen, runs to infinity: it stops at half a row
    unseen = xp.any(stats.counts == 0) | (stats.counts.sum() == stats.observed)
    limit = xp.where(unseen, 2 * xp.log(2 * stats.observed + 1), xp.inf)
    return w + step[:, :q], xp.clip(b + step[:, q], -limit, limit)


def _softmax(eta: Float[Array, "*rows classes"]) -> tuple[Float[Array, "*rows classes"], Float[Array, "*rows"]]:
    """Compute probabilities of all classes but the first, whose logit is 0, and the log of the sum."""
    log_sum = jnp.max(eta, -1, initial=0)
    log_sum = log_sum + jnp.log(jnp.exp(-log_sum) + jnp.exp(eta - log_sum[..., None]).sum(-1))
    return jnp.exp(eta - log_sum[..., None]), log_sum
