"""Integrals over the latents of each row by adapted nodes: adaptive Gauss-Hermite, quasi-Monte Carlo above three.

The nodes of a row are those of a standard Gaussian, moved and scaled to an approximation of the row's posterior
(Naylor & Smith 1982; Liu & Pierce 1994).  With many columns the posterior is narrow and close to a Gaussian, and
a few nodes a dimension are enough, where a fixed grid misses it altogether; where bits are steep and a row has few of
them, its posterior has corners, and many evenly spaced nodes are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key, UInt32
from scipy.stats import chi, norm, qmc

from latentbits.core.arrays import Array
from latentbits.core.batch import row_keys
from latentbits.core.gaussians import Gaussian
from latentbits.core.packed_symmetric import cholesky, log_abs_det, pairs, products

__all__ = [
    "FINER_NETS",
    "MANY_COLUMNS",
    "MOST_GAUSS",
    "MOST_GRID",
    "REACH",
    "Rule",
    "accurate_rules",
    "by_shares",
    "evenly_spaced",
    "for_net",
    "gauss_hermite",
    "importance",
    "log_det",
    "net_points",
    "points_of",
    "product_rule",
    "quasi_monte_carlo",
    "recentred",
    "weigh",
]

REPLICATES = 8  # of a quasi-random net, for its standard error
NET_DIMENSIONS = 6  # up to which it was measured
MANY_COLUMNS = 50  # from here on posteriors are so close to Gaussian that few nodes a dimension do
MOST_GAUSS = 61  # nodes a dimension from which evenly spaced ones are closer to each other
REACH = 8.0  # standard deviations on either side that evenly spaced nodes cover
MOST_GRID = 3  # latent dimensions for which a product rule is cheaper than quasi-Monte Carlo


LogDensity = Callable[[Float[Array, "rows points latents"]], Float[Array, "rows points"]]


class Rule(NamedTuple):
    """Nodes and log-weights for expectations over a standard Gaussian."""

    nodes: np.ndarray
    log_weights: np.ndarray


@cache
def gauss_hermite(n_nodes: int, q: int) -> Rule:
    """Make the product rule with this number of nodes a dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * q, indexing="ij")], 1)
    logs = np.stack([g.ravel() for g in np.meshgrid(*[np.log(weights / weights.sum())] * q, indexing="ij")], 1)
    return Rule(grid, logs.sum(1))


@cache
def evenly_spaced(n_nodes: int, q: int) -> Rule:
    """Return the product of trapezoidal rules over `REACH` standard deviations on either side.

    For a smooth integrand that falls off on both sides its error falls exponentially in 1 / spacing, and a sigmoid of
    slope a has its nearest pole at a distance of pi / a: steep bits need a fine spacing, which Gauss-Hermite nodes,
    ever further out, reach late.  Every other node is a rule too, which tells the error.
    """
    nodes = np.linspace(-REACH, REACH, n_nodes)
    logs = norm.logpdf(nodes) + np.log(nodes[1] - nodes[0])
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * q, indexing="ij")], 1)
    return Rule(grid, np.stack([g.ravel() for g in np.meshgrid(*[logs] * q, indexing="ij")], 1).sum(1))


def product_rule(n_nodes: int, q: int) -> Rule:
    """Make a rule of this number of nodes a dimension: Gauss-Hermite, evenly spaced where they are many."""
    return gauss_hermite(n_nodes, q) if n_nodes <= MOST_GAUSS else evenly_spaced(n_nodes, q)


@cache
def quasi_monte_carlo(n_points: int, q: int, seed: int = 0) -> Rule:
    """Return scrambled Sobol points, in pairs x and -x, their lengths those of a Gaussian's quantiles, whitened.

    Lengths are what a random rotation cannot mend (`for_net`).  Means and covariances of the rule are exact.
    """
    half = norm.ppf(qmc.Sobol(q, rng=np.random.default_rng(seed)).random(n_points // 2))
    lengths = chi.ppf((np.arange(len(half)) + 0.5) / len(half), q)
    for _ in range(20):
        half = _whitened(half)
        own = np.linalg.norm(half, axis=1)
        half *= (lengths[np.argsort(np.argsort(own))] / own)[:, None]
    half = _whitened(half)
    return Rule(np.concatenate([half, -half]), np.full(2 * len(half), -np.log(2 * len(half))))


def _whitened(half: np.ndarray) -> np.ndarray:
    return half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T


# nodes a dimension of rule and check; with few columns, or few observed, posteriors are less Gaussian
_FEW_COLUMNS = {1: (81, 41), 2: (21, 11), 3: (11, 6)}
_MANY_COLUMNS = {1: (31, 15), 2: (13, 7), 3: (7, 4)}
NET = 7  # two to this power: points of each of the `REPLICATES` of `importance`
FINER_NETS = (9, 11)


def net_points() -> int:
    """Return points to tell a posterior with where dimensions are too many for a grid."""
    return REPLICATES * 2**NET


def accurate_rules(q: int, d: int, complete: bool = True) -> tuple[Rule, Rule]:
    """Return nodes to tell a likelihood or a posterior with, and fewer, to tell how accurate that is.

    `complete` says that rows have all their d columns; where they do not, they may have any number.
    """
    fine, coarse = (_MANY_COLUMNS if complete and d >= MANY_COLUMNS else _FEW_COLUMNS)[q]
    return gauss_hermite(fine, q), gauss_hermite(coarse, q)


def net_width(q: int) -> float:
    """How much wider than its Gaussian a net for all uses is.

    Points far out are lost on the bulk of a posterior, by a factor in their effective number for every dimension that
    it is wider in.  Above `NET_DIMENSIONS` the excess shrinks so that the loss in all is the same.
    """
    # 1.2 was measured for the best parameters: tails heavier than a Gaussian's need points
    return float(np.sqrt(1 + (1.2**2 - 1) * min(1.0, np.sqrt(NET_DIMENSIONS / q))))


def for_net(at: Gaussian, rows: UInt32[Array, " rows"]) -> Gaussian:
    """Place a quasi-random net: a little wider, with the axes of each row turned by another rotation.

    The rotation depends on the number of the row alone.  A net is too coarse for any one row.  Given to all rows alike
    its errors add, and parameters are found that the net flatters; turned at random they average out, at no cost: a net
    that is turned is as whitened and as symmetric as it was.  The rotation is a product of reflections.
    """
    q = at.mean.shape[1]
    keys = row_keys(jax.random.key(0, impl="threefry2x32"), rows)
    mirrors = jax.vmap(lambda key: jax.random.normal(key, (q, q), at.mean.dtype))(keys)
    mirrors = mirrors * jnp.sqrt(2 / jnp.sum(mirrors**2, 2, keepdims=True))

    def reflected(k: Array, scale: Float[Array, "rows latents latents"]) -> Float[Array, "rows latents latents"]:
        v = mirrors[:, k]
        return scale - jnp.einsum("nij,nj->ni", scale, v)[:, :, None] * v[:, None]

    scale = jax.lax.fori_loop(0, q, reflected, net_width(q) * at.scale)  # a loop, which is compiled once
    return Gaussian(at.mean, scale)


def points_of(at: Gaussian, rule: Rule) -> Float[Array, "rows points latents"]:
    """Return the nodes of a rule, moved to a Gaussian of each row."""
    return at.mean[:, None] + jnp.einsum("ki,nji->nkj", jnp.asarray(rule.nodes, at.mean.dtype), at.scale)


def weigh(
    log_density: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
    at: Gaussian,
    rule: Rule,
) -> tuple[Float[Array, " rows"], Float[Array, "rows points"]]:
    """Compute the log of the integral of exp(log_density) over N(0, I), and the share of each point in it."""
    log_weight = jnp.asarray(rule.log_weights + 0.5 * (rule.nodes**2).sum(1), at.mean.dtype)
    joint = log_density + log_weight - 0.5 * jnp.sum(points**2, -1)
    top = joint.max(1, keepdims=True)
    share = jnp.exp(joint - top)
    total = share.sum(1, keepdims=True)
    return (top + jnp.log(total))[:, 0] + log_det(at.scale), share / total


def recentred(log_density: LogDensity, at: Gaussian) -> Gaussian:
    """Compute mean and covariance of the posterior itself, by a rule that reaches far, for one that does not."""
    q = at.mean.shape[1]
    rule = gauss_hermite(_FEW_COLUMNS[q][0], q)
    points = points_of(at, rule)
    _, share = weigh(log_density(points), points, at, rule)
    return by_shares(at, rule, share)


def by_shares(at: Gaussian, rule: Rule, share: Float[Array, "rows points"]) -> Gaussian:
    """Compute mean and covariance of a posterior that gives these shares to the points of a rule.

    Evenly spaced nodes end at `REACH`: around a mean that is off, or by the curvature at a corner, they would miss a
    tail.  So a part of the width of `at` is kept, also as a covariance over few nodes may collapse.
    """
    nodes, (j, k) = jnp.asarray(rule.nodes, at.mean.dtype), pairs(at.mean.shape[1])
    mean, squares = share @ nodes, share @ products(nodes)
    spread = squares - mean[:, j] * mean[:, k] + jnp.asarray(0.25 * (j == k), mean.dtype)
    centre = at.mean + jnp.einsum("nij,nj->ni", at.scale, mean)
    return Gaussian(centre, jnp.einsum("nij,njk->nik", at.scale, cholesky(spread)))


def log_det(scale: Float[Array, "rows latents latents"]) -> Float[Array, " rows"]:
    """Compute log |det| of the scales; triangular until a change of coordinates, so in general not."""
    q = scale.shape[1]
    if q == 1:
        return jnp.log(jnp.abs(scale[:, 0, 0]))
    if q == 2:
        return jnp.log(jnp.abs(scale[:, 0, 0] * scale[:, 1, 1] - scale[:, 0, 1] * scale[:, 1, 0]))
    if q == 3:
        return jnp.log(jnp.abs(jnp.sum(scale[:, 0] * jnp.cross(scale[:, 1], scale[:, 2]), 1)))
    return log_abs_det(scale)


def importance(
    log_density: LogDensity,
    at: Gaussian,
    keys: Key[Array, " rows"],
    n_points: int = 128,
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log of the integral of exp(log_density) over N(0, I), by importance sampling around `at`, and its standard error.

    Each row has `REPLICATES` copies of one quasi-random net, each shifted at random: their spread is an honest error,
    independent from row to row.  Every point comes with its mirror image, so that the odd part of what the Gaussian
    leaves over cancels.
    """
    q = at.mean.shape[1]
    net = qmc.Sobol(q, scramble=False).random(n_points // 2)
    # tails of the posterior that are heavier than a Gaussian's would make the weights unbounded
    wide = 1.1 * at.scale

    def replicate(number: Array) -> Float[Array, " rows"]:
        shift = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, number), (q,), at.mean.dtype))(keys)
        u = (jnp.asarray(net, at.mean.dtype) + shift[:, None]) % 1
        half = jax.scipy.special.ndtri(jnp.clip(u, 1e-6, 1 - 1e-6))
        z = jnp.concatenate([half, -half], 1)
        points = at.mean[:, None] + jnp.einsum("nki,nji->nkj", z, wide)
        joint = log_density(points) - 0.5 * jnp.sum(points**2, -1)
        return jax.nn.logsumexp(joint + 0.5 * jnp.sum(z**2, -1), axis=1) - np.log(n_points) + log_det(wide)

    each = jax.lax.map(replicate, jnp.arange(REPLICATES))
    value = jax.nn.logsumexp(each, axis=0) - np.log(REPLICATES)
    relative = jnp.exp(each - value)
    return value, jnp.std(relative, axis=0, ddof=3) / np.sqrt(REPLICATES)
