"""Integrals over the latents of each row by nodes of its own: adaptive Gauss-Hermite, quasi-Monte Carlo above three.

The nodes of a row are those of a standard Gaussian, moved and scaled to an approximation of the row's posterior
(Naylor & Smith 1982; Liu & Pierce 1994).  With many columns the posterior is narrow and close to a Gaussian, and
three nodes a dimension are enough, where a fixed grid misses it altogether.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import norm, qmc

from latentbits.core.gaussians import Gaussian

__all__ = [
    "MANY_COLUMNS",
    "MOST_GRID",
    "Rule",
    "accurate_rules",
    "gauss_hermite",
    "importance",
    "log_det",
    "log_integral",
    "points_of",
    "quasi_monte_carlo",
    "weigh",
]

REPLICATES = 8  # of a quasi-random net, for its standard error
WIDER = 1.1
MANY_COLUMNS = 50  # from here on posteriors are so close to Gaussian that few nodes a dimension do
MOST_GRID = 3  # latent dimensions for which a product rule is cheaper than quasi-Monte Carlo


LogDensity = Callable[[Float[Array, "rows points latents"]], Float[Array, "rows points"]]


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


def accurate_rules(q: int, d: int) -> tuple[Rule, Rule]:
    """Nodes to tell a likelihood or a posterior with, and fewer, to tell how accurate that is."""
    few = d < MANY_COLUMNS
    fine, coarse = {1: (81, 41) if few else (31, 15), 2: (21, 11) if few else (13, 7), 3: (11, 6) if few else (7, 4)}[q]
    return gauss_hermite(fine, q), gauss_hermite(coarse, q)


def points_of(at: Gaussian, rule: Rule) -> Float[Array, "rows points latents"]:
    """The nodes of a rule, moved to a Gaussian of each row."""
    return at.mean[:, None] + jnp.einsum("ki,nji->nkj", jnp.asarray(rule.nodes, at.mean.dtype), at.scale)


def weigh(
    log_density: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
    at: Gaussian,
    rule: Rule,
) -> tuple[Float[Array, " rows"], Float[Array, "rows points"]]:
    """log of the integral of exp(log_density) over N(0, I), and the share of each point in it."""
    log_weight = jnp.asarray(rule.log_weights + 0.5 * (rule.nodes**2).sum(1), at.mean.dtype)
    joint = log_density + log_weight - 0.5 * jnp.sum(points**2, -1)
    top = joint.max(1, keepdims=True)
    share = jnp.exp(joint - top)
    total = share.sum(1, keepdims=True)
    return (top + jnp.log(total))[:, 0] + log_det(at.scale), share / total


def log_det(scale: Float[Array, "rows latents latents"]) -> Float[Array, " rows"]:
    """log |det| of the scales; triangular until a change of coordinates, so in general not."""
    q = scale.shape[1]
    if q == 1:
        return jnp.log(jnp.abs(scale[:, 0, 0]))
    if q == 2:
        return jnp.log(jnp.abs(scale[:, 0, 0] * scale[:, 1, 1] - scale[:, 0, 1] * scale[:, 1, 0]))
    if q == 3:
        return jnp.log(jnp.abs(jnp.sum(scale[:, 0] * jnp.cross(scale[:, 1], scale[:, 2]), 1)))
    return jnp.linalg.slogdet(scale)[1]


def log_integral(
    log_density: LogDensity, at: Gaussian, keys: Key[Array, " rows"], n_columns: int
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log of the integral of exp(log_density) over N(0, I) as accurately as is sensible, and its error.

    Up to `MOST_GRID` dimensions by a product rule, whose error is told by a coarser one and may have one sign for all
    rows; above by importance sampling, with a standard error.
    """
    if at.mean.shape[1] > MOST_GRID:
        return importance(log_density, at, keys)
    value, rough = (
        weigh(log_density(points := points_of(at, rule)), points, at, rule)[0]
        for rule in accurate_rules(at.mean.shape[1], n_columns)
    )
    return value, 2 * jnp.abs(value - rough)  # for steep bits errors fall as 1 / nodes: the same again, and a reserve


def importance(
    log_density: LogDensity,
    at: Gaussian,
    keys: Key[Array, " rows"],
    n_points: int = 128,
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log of the integral of exp(log_density) over N(0, I), by importance sampling around `at`, and its standard error.

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
        joint = log_density(points) - 0.5 * jnp.sum(points**2, -1)
        return jax.nn.logsumexp(joint + 0.5 * jnp.sum(z**2, -1), axis=1) - np.log(n_points) + log_det(wide)

    each = jax.lax.map(replicate, jnp.arange(REPLICATES))
    value = jax.nn.logsumexp(each, axis=0) - np.log(REPLICATES)
    relative = jnp.exp(each - value)
    return value, jnp.std(relative, axis=0, ddof=1) / np.sqrt(REPLICATES)
