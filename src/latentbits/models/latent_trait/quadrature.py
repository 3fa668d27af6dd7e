"""Integrals over the latents of each row by nodes of its own: adaptive Gauss-Hermite, quasi-Monte Carlo above three.

The nodes of a row are those of a standard Gaussian, moved to the row's posterior mean and scaled by the curvature
there (Naylor & Smith 1982; Liu & Pierce 1994).  With many columns the posterior is narrow and close to a Gaussian,
and three nodes a dimension are enough, where a fixed grid misses it altogether.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import norm, qmc

from latentbits.core.packed import pairs
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import columns as kinds
from latentbits.models.latent_trait.columns import Columns, Params, Rows, Stats
from latentbits.models.latent_trait.gaussians import Gaussian, from_precision, moments
from latentbits.models.latent_trait.variational import converge

__all__ = [
    "MANY_COLUMNS",
    "MOST_GRID",
    "Integral",
    "Rule",
    "accurate_rules",
    "covariance_of",
    "gauss_hermite",
    "importance",
    "integrate",
    "learning_rule",
    "mean_of",
    "mode",
    "placed",
    "quasi_monte_carlo",
    "start",
    "stats_of",
]

REPLICATES = 8  # of a quasi-random net, for its standard error
WIDER = 1.1
MANY_COLUMNS = 50  # from here on posteriors are so close to Gaussian that three nodes a dimension do
MOST_GRID = 3  # latent dimensions for which a product rule is cheaper than quasi-Monte Carlo


class Rule(NamedTuple):
    """Nodes and log-weights for expectations over a standard Gaussian."""

    nodes: np.ndarray
    log_weights: np.ndarray


@cache
def gauss_hermite(n_nodes: int, q: int) -> Rule:
    """The product rule with so many nodes a dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * q, indexing="ij")], 1)
    logs = np.stack([g.ravel() for g in np.meshgrid(*[np.log(weights / weights.sum())] * q, indexing="ij")], 1)
    return Rule(grid, logs.sum(1))


@cache
def quasi_monte_carlo(n_points: int, q: int, seed: int = 0) -> Rule:
    """Scrambled Sobol points, in pairs x and -x, whitened: means and covariances of the rule are exact."""
    half = norm.ppf(qmc.Sobol(q, rng=np.random.default_rng(seed)).random(n_points // 2))
    nodes = np.concatenate([half, -half])
    nodes = nodes @ np.linalg.inv(np.linalg.cholesky(nodes.T @ nodes / len(nodes))).T
    return Rule(nodes, np.full(len(nodes), -np.log(len(nodes))))


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


def accurate_rules(q: int, d: int) -> tuple[Rule, Rule]:
    """Nodes to tell a likelihood or a posterior with, and fewer, to tell how accurate that is."""
    few = d < MANY_COLUMNS
    fine, coarse = {1: (81, 41) if few else (31, 15), 2: (21, 11) if few else (13, 7), 3: (11, 6) if few else (7, 4)}[q]
    return gauss_hermite(fine, q), gauss_hermite(coarse, q)


class Integral(NamedTuple):
    """The answers of a rule for each row."""

    log_likelihood: Float[Array, " rows"]
    share: Float[Array, "rows points"]
    points: Float[Array, "rows points latents"]
    probabilities: list[Array]


def integrate(columns: Columns, params: Params, rows: Rows, at: Gaussian, rule: Rule) -> Integral:
    """log p(t) of eq. 1, and the posterior as weights on points, by a rule adapted to `at`."""
    dtype = at.mean.dtype
    nodes = jnp.asarray(rule.nodes, dtype)
    points = at.mean[:, None] + jnp.einsum("ki,nji->nkj", nodes, at.scale)
    log_det = _log_det(at.scale)
    log_weight = jnp.asarray(rule.log_weights + 0.5 * (rule.nodes**2).sum(1), dtype)
    log_density, probabilities = kinds.density(columns, params, rows, points)
    joint = log_density + log_weight - 0.5 * jnp.sum(points**2, -1)
    top = joint.max(1, keepdims=True)
    share = jnp.exp(joint - top)
    total = share.sum(1, keepdims=True)
    return Integral((top + jnp.log(total))[:, 0] + log_det, share / total, points, probabilities)


def _log_det(scale: Float[Array, "rows latents latents"]) -> Float[Array, " rows"]:
    """log |det| of the scales; triangular until a change of coordinates, so in general not."""
    q = scale.shape[1]
    if q == 1:
        return jnp.log(jnp.abs(scale[:, 0, 0]))
    if q == 2:
        return jnp.log(jnp.abs(scale[:, 0, 0] * scale[:, 1, 1] - scale[:, 0, 1] * scale[:, 1, 0]))
    if q == 3:
        return jnp.log(jnp.abs(jnp.sum(scale[:, 0] * jnp.cross(scale[:, 1], scale[:, 2]), 1)))
    return jnp.linalg.slogdet(scale)[1]


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


def importance(
    columns: Columns, params: Params, rows: Rows, at: Gaussian, keys: Key[Array, " rows"], n_points: int = 128
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log p(t) by importance sampling around `at`, and its standard error.

    Each row has `REPLICATES` copies of one quasi-random net, each shifted at random: their spread is an honest error,
    independent from row to row.
    """
    q = at.mean.shape[1]
    net = qmc.Sobol(q, scramble=False).random(n_points)
    # tails of the posterior that are heavier than a Gaussian's would make the weights unbounded
    wide = WIDER * at.scale

    def replicate(number: Array) -> Float[Array, " rows"]:
        shift = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, number), (q,), at.mean.dtype))(keys)
        u = (jnp.asarray(net, at.mean.dtype) + shift[:, None]) % 1
        z = jax.scipy.special.ndtri(jnp.clip(u, 1e-6, 1 - 1e-6))
        points = at.mean[:, None] + jnp.einsum("nki,nji->nkj", z, wide)
        joint = kinds.density(columns, params, rows, points)[0] - 0.5 * jnp.sum(points**2, -1)
        return jax.nn.logsumexp(joint + 0.5 * jnp.sum(z**2, -1), axis=1) - np.log(n_points) + _log_det(wide)

    each = jax.lax.map(replicate, jnp.arange(REPLICATES))
    value = jax.nn.logsumexp(each, axis=0) - np.log(REPLICATES)
    relative = jnp.exp(each - value)
    return value, jnp.std(relative, axis=0, ddof=1) / np.sqrt(REPLICATES)


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
