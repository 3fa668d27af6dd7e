"""Continuous columns: t ~ N(w.x + b, variance), each with its own variance or all with one (section 2).

With one variance for all, in the units of the data, the model is probabilistic principal component analysis.

Values are taken relative to a centre and a scale of their column, which stay what they were at the start: float32
then has digits left for a column of years.  The "bound" of a Gaussian is the Gaussian itself.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import pairs, products, unpack
from latentbits.models.latent_trait import tuning

__all__ = ["Stats", "bound", "density", "local", "maximise", "stats_of"]


class Stats(Module):
    """Sums of a regression of each column on x^ = (x, 1), over the rows where it is observed."""

    squares: Float[Array, "columns pairs"]
    cross: Float[Array, "columns extended"]
    total: Float[Array, " columns"]
    observed: Float[Array, " columns"]


def bound(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    log_variance: Float[Array, " columns"],
    log_scale: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"], Float[Array, " rows"]]:
    """Take log p(t | x) as a quadratic in x: precision, linear term and constant."""
    inverse = jnp.exp(-log_variance)
    away = (values - b) * seen
    constant = -0.5 * ((away**2) @ inverse) - seen @ (0.5 * log_variance + log_scale + 0.5 * np.log(2 * np.pi))
    return seen @ (products(w) * inverse[:, None]), away @ (w * inverse[:, None]), constant


def stats_of(
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
    q: int,
) -> Stats:
    """Sum <x^ x^'> of rows, however it was found, for the M-step."""
    _, k = pairs(q + 1)
    weighted = weight[:, None] * moments
    return Stats(
        squares=over_rows(seen, weighted),
        cross=over_rows(values * seen, weighted[:, k == q]),
        total=weight @ (values**2 * seen),
        observed=weight @ seen,
    )


def density(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    log_variance: Float[Array, " columns"],
    log_scale: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
    points: Float[Array, "rows points latents"],
) -> Float[Array, "rows points"]:
    """Compute log p(t | x) at each row's own points."""
    away = (values[:, None] - points @ w.T - b) * seen[:, None]
    constant = seen @ (0.5 * log_variance + log_scale + 0.5 * np.log(2 * np.pi))
    return -0.5 * (away**2 @ jnp.exp(-log_variance)) - constant[:, None]


def local(
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    log_variance: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
    point: Float[Array, "rows latents"],
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"]]:
    """Compute curvature (packed) and slope of log p(t | x) in x."""
    inverse = jnp.exp(-log_variance)
    away = (values - point @ w.T - b) * seen
    return seen @ (products(w) * inverse[:, None]), away @ (w * inverse[:, None])


def maximise(
    stats: Stats, precision: Float[Array, ""] | float, log_variance: Float[Array, " columns"], shared: bool = False
) -> tuple[Float[Array, "columns latents"], Float[Array, " columns"], Float[Array, " columns"]]:
    """Regress every column on the latents, and take its residual variance, or that of all; in closed form."""
    extended, xp = stats.cross.shape[1], namespace(stats)
    squares = unpack(stats.squares, extended)
    # the prior is on w; the likelihood's curvature has 1 / variance, hence its product with the variance here
    prior = precision * xp.exp(log_variance)[:, None, None] * np.diag(np.append(np.ones(extended - 1), 0.0))
    right = stats.cross[..., None]
    solved = xp.linalg.solve(squares + prior + 1e-9 * np.eye(extended), right)
    explained = xp.einsum("di,dij,dj->d", solved[..., 0], squares, solved[..., 0])
    residual = stats.total - 2 * xp.sum(right * solved, (1, 2)) + explained
    unseen = stats.observed == 0
    solved = xp.where(unseen[:, None], 0, solved[..., 0])
    if shared:
        variance = xp.maximum(residual.sum() / _some(stats.observed.sum()), tuning.LEAST_VARIANCE_SHARE)
        return solved[:, :-1], solved[:, -1], xp.full_like(log_variance, xp.log(variance))
    variance = xp.maximum(residual / _some(stats.observed), tuning.LEAST_VARIANCE_SHARE)
    return solved[:, :-1], solved[:, -1], xp.where(unseen, 0.0, xp.log(variance))


def _some(rows: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Make numbers of rows fit to divide by: by weights they may be less than one."""
    return namespace(rows).where(rows > 0, rows, 1)
