"""The integrals of eq. 1 by the nodes of `core/nodes.py`, placed at a row's posterior mean, by its curvature."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from latentbits.core.gaussians import Gaussian, from_precision, moments
from latentbits.core.nodes import MANY_COLUMNS, MOST_GRID, Rule, gauss_hermite, points_of, quasi_monte_carlo, weigh
from latentbits.core.packed import pairs
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import kinds
from latentbits.models.latent_trait.kinds import Columns, Params, Rows, Stats
from latentbits.models.latent_trait.variational import converge

__all__ = ["Integral", "covariance_of", "integrate", "learning_rule", "mean_of", "mode", "placed", "start", "stats_of"]


def learning_rule(q: int, d: int, n_nodes: int | None = None) -> Rule:
    """Nodes to learn with: the fewer the columns, the wider and the less Gaussian the posteriors, the more nodes."""
    if q > MOST_GRID:
        return quasi_monte_carlo(2 ** (n_nodes or 7), q)
    return gauss_hermite(n_nodes or _nodes(q, d), q)


def _nodes(q: int, d: int) -> int:
    """Nodes a dimension for which the fitted likelihood is right to about 1e-5 nats a row."""
    if q == 1:
        return 15 if d < 25 else 9 if d < MANY_COLUMNS else 5
    if q == 2:
        return 11 if d < 15 else 7 if d < MANY_COLUMNS else 3
    return 7 if d < 15 else 5 if d < MANY_COLUMNS else 3


class Integral(NamedTuple):
    """The answers of a rule for each row."""

    log_likelihood: Float[Array, " rows"]
    share: Float[Array, "rows points"]
    points: Float[Array, "rows points latents"]
    probabilities: list[Array]


def integrate(columns: Columns, params: Params, rows: Rows, at: Gaussian, rule: Rule) -> Integral:
    """log p(t) of eq. 1, and the posterior as weights on points, by a rule adapted to `at`."""
    points = points_of(at, rule)
    log_density, probabilities = kinds.density(columns, params, rows, points)
    log_likelihood, share = weigh(log_density, points, at, rule)
    return Integral(log_likelihood, share, points, probabilities)


def placed(columns: Columns, params: Params, rows: Rows, at: Gaussian) -> Gaussian:
    """Where a rule goes: around the mean of `at`, as wide as the typical curvature there says.

    Not as wide as the covariance over former nodes: that collapses once a single node has all the weight.
    """
    precision = kinds.typical_curvature(columns, params, rows, at)
    if not columns.n_reals:
        return Gaussian(at.mean, from_precision(precision, at.mean)[0].scale)
    # continuous columns can make a posterior so narrow that a step of the parameters takes it away from its nodes; a
    # step of Newton's goes after it, to the very place where it is Gaussian
    _, slope = kinds.local(columns, params, rows, at.mean)
    step, _ = from_precision(precision, slope)
    return Gaussian(at.mean + step.mean, step.scale)


def mean_of(integral: Integral) -> Float[Array, "rows latents"]:
    """Posterior mean."""
    return jnp.einsum("nk,nkj->nj", integral.share, integral.points)


def start(columns: Columns, params: Params, rows: Rows, refine: int = 2) -> Gaussian:
    """The posterior of a row that has no former one: the variational one, its mean corrected by small rules."""
    q = params.weights.shape[1]
    at = converge(columns, params, rows, most=30, tolerance=1e-2)
    small = gauss_hermite(3, q) if q <= MOST_GRID else quasi_monte_carlo(32 if q <= 6 else 128, q)
    for _ in range(refine):
        at = placed(columns, params, rows, at)
        at = Gaussian(mean_of(integrate(columns, params, rows, at, small)), at.scale)
    return at


def covariance_of(integral: Integral) -> tuple[Float[Array, "rows latents"], Float[Array, "rows latents latents"]]:
    """Mean and covariance of the posterior over the points."""
    mean = mean_of(integral)
    away = integral.points - mean[:, None]
    return mean, jnp.einsum("nk,nki,nkj->nij", integral.share, away, away)


def stats_of(columns: Columns, params: Params, rows: Rows, integral: Integral, weight: Float[Array, " rows"]) -> Stats:
    """Sums over rows: log-likelihood, and gradient and curvature of its expected complete form."""
    q = params.weights.shape[1]
    mean, covariance = covariance_of(integral)
    second = moments(mean, covariance)
    total = weight @ second
    j, k = pairs(q + 1)
    share = integral.share * weight[:, None]
    parts = kinds.point_stats(columns, params, rows, integral.probabilities, share, integral.points, second, weight)
    return Stats(
        weight.sum(),
        sum_rows(weight, integral.log_likelihood),
        total[(k == q) & (j < q)],
        total[k < q],
        *parts,
    )


def mode(columns: Columns, params: Params, rows: Rows, n_steps: int = 30) -> Gaussian:
    """The most probable latents of each row (MAP), and the inverse curvature there, by damped Newton steps."""

    def joint(x: Float[Array, "rows latents"]) -> Float[Array, " rows"]:
        return kinds.density(columns, params, rows, x[:, None])[0][:, 0] - 0.5 * jnp.sum(x**2, 1)

    def body(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, value, length = carry
        precision, slope = kinds.local(columns, params, rows, x)
        step = from_precision(precision, slope)[0].mean
        candidate = x + length[:, None] * step
        new = joint(candidate)
        better = new >= value
        return (
            jnp.where(better[:, None], candidate, x),
            jnp.where(better, new, value),
            jnp.where(better, jnp.minimum(1, 2 * length), length / 4),
        )

    x = converge(columns, params, rows, most=30, tolerance=1e-2).mean
    x, *_ = jax.lax.fori_loop(0, n_steps, body, (x, joint(x), jnp.ones_like(x[:, 0])))
    precision, _ = kinds.local(columns, params, rows, x)
    return Gaussian(x, from_precision(precision, x)[0].scale)
