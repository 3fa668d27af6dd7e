"""The integrals of eq. 1 by the nodes of `core/nodes.py`, placed at a row's posterior mean, by its curvature."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.gaussians import Gaussian, from_precision, moments
from latentbits.core.nodes import (
    MANY_COLUMNS,
    MOST_GRID,
    Rule,
    gauss_hermite,
    points_of,
    product_rule,
    quasi_monte_carlo,
    recentred,
    weigh,
)
from latentbits.core.packed_symmetric import pairs
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import column_kinds, tuning
from latentbits.models.latent_trait.column_kinds import Columns, Params, Rows, Stats
from latentbits.models.latent_trait.variational import converge

__all__ = ["Integral", "accurately_placed", "bend_of", "checked", "covariance_of", "integrate",
           "learning_rule", "mean_of", "mode", "nodes_at_first", "nodes_for", "placed", "start",
           "stats_of"]  # fmt: skip


def learning_rule(q: int, n_nodes: int) -> Rule:
    """Make nodes to learn with: `n_nodes` a dimension, above three dimensions two to that power in all."""
    return quasi_monte_carlo(2**n_nodes, q) if q > MOST_GRID else product_rule(n_nodes, q)


def nodes_at_first(q: int, seen: int) -> int:
    """Choose nodes to learn with while slopes are not known, by the number of observed columns in a row.

    The fewer they are, the wider and the less Gaussian are the posteriors.
    """
    if q == 1:
        return 15 if seen < 25 else 9 if seen < MANY_COLUMNS else 5
    if q == 2:
        return 11 if seen < 15 else 7 if seen < MANY_COLUMNS else 5
    if q == 3:
        return 7 if seen < 15 else 5 if seen < MANY_COLUMNS else 3
    return tuning.FIRST_NET_LOG2_POINTS


def nodes_for(q: int, bend: float, n_rows: float | int) -> int:
    """Choose nodes with which the likelihood of all rows is known to a tenth of a nat or so, its maximum to far less.

    Measured against dense rules, of tables with 4 to 50 columns and slopes of 0.7 to 6: errors go by the `bend`, and
    Gauss-Hermite nodes are needed in proportion to its square, since they come closer as 1 / sqrt(n).  For a net, whose
    errors average out over rows (`nodes.for_net`), and in three dimensions, where nodes are dear, what matters is the
    maximum: five nodes a dimension put it wrong by a thousandth of a nat where the likelihood is wrong by a tenth.
    """
    bend *= 1 + 0.15 * max(0.0, math.log10(max(n_rows, 1) / 1000))
    if q > MOST_GRID:
        net = tuning.LAST_NET_LOG2_POINTS + (q > 5) + (bend > 2) + (bend > 3)
        return min(net, tuning.MOST_NODES_PER_DIMENSION[4])
    enough = (n for most, n in tuning.NODES_PER_DIMENSION_BY_BEND[q] if bend <= most)
    return next(enough, tuning.MOST_NODES_PER_DIMENSION[q])


def bend_of(columns: Columns, params: Params, seen: int) -> float:
    """Measure how far a row's posterior is from a Gaussian: a column's largest slope, in posterior widths.

    The row has `seen` observed columns, any of them, that column among them.  Curvatures are those that are
    typical under the prior.  NumPy, on the host: it chooses shapes.
    """
    # curvature of each column under the prior
    w, b = np.asarray(params.weights, np.float64), np.asarray(params.bias, np.float64)
    d, q = w.shape
    first, *ends = columns.starts(d)
    bent = np.ones(d, bool)
    bent[first : ends[0]] = False  # continuous columns keep a posterior Gaussian
    shrink = 1 / np.sqrt(1 + np.pi / 8 * np.sum(w**2, 1))
    curvature = shrink * (1 - np.tanh(shrink * b / 2) ** 2) / 4
    curvature[~bent] = np.exp(-np.asarray(params.log_variance, np.float64))
    each = curvature[:, None, None] * w[:, :, None] * w[:, None]
    # posterior widths along the slopes, by the observed share of the columns
    share = min(1.0, max(seen - 1, 0) / max(d - 1, 1))
    precision = np.eye(q) + share * each.sum(0) + (1 - share) * each
    width = np.sqrt(np.maximum(np.einsum("di,dij,dj->d", w, np.linalg.inv(precision), w), 0))
    return float(width[bent].max(initial=0.0))


class Integral(NamedTuple):
    """The answers of a rule for each row."""

    log_likelihood: Float[Array, " rows"]
    share: Float[Array, "rows points"]
    points: Float[Array, "rows points latents"]
    probabilities: list[Array]


def integrate(columns: Columns, params: Params, rows: Rows, at: Gaussian, rule: Rule) -> Integral:
    """Compute log p(t) of eq. 1, and the posterior as weights on points, by a rule adapted to `at`."""
    points = points_of(at, rule)
    log_density, probabilities = column_kinds.density(columns, params, rows, points)
    log_likelihood, share = weigh(log_density, points, at, rule)
    return Integral(log_likelihood, share, points, probabilities)


def placed(columns: Columns, params: Params, rows: Rows, at: Gaussian) -> Gaussian:
    """Place a rule around the mean of `at`, as wide as the typical curvature there says.

    Not as wide as the covariance over former nodes: that collapses once a single node has all the weight.
    """
    precision = column_kinds.typical_curvature(columns, params, rows, at)
    if not columns.n_reals:
        return Gaussian(at.mean, from_precision(precision, at.mean)[0].scale)
    # continuous columns can make a posterior so narrow that a step of the parameters takes it away from its nodes; a
    # step of Newton's goes after it, to the very place where it is Gaussian
    _, slope = column_kinds.local(columns, params, rows, at.mean)
    step, _ = from_precision(precision, slope)
    return Gaussian(at.mean + step.mean, step.scale)


def accurately_placed(columns: Columns, params: Params, rows: Rows, far: bool) -> Gaussian:
    """Place a rule that has no former posterior to go by; `far` for nodes that end somewhere."""
    at = _approached(columns, params, rows, 3)[0]
    return recentred(lambda points: column_kinds.density(columns, params, rows, points)[0], at) if far else at


def checked(
    columns: Columns, params: Params, rows: Rows, at: Gaussian, fine: Rule, coarse: Rule
) -> tuple[Integral, Float[Array, " rows"]]:
    """Give the answers of a fine rule, and the error of its log p(t), by a coarse one.

    The nodes of both are gone through at once, so that the density is compiled once.
    """
    n = len(fine.nodes)
    points = points_of(at, Rule(np.concatenate([fine.nodes, coarse.nodes]), np.zeros(0)))
    density, _ = column_kinds.density(columns, params, rows, points)
    value, share = weigh(density[:, :n], points[:, :n], at, fine)
    rough, _ = weigh(density[:, n:], points[:, n:], at, coarse)
    # for steep bits errors fall as 1 / nodes: the same, and a reserve
    return Integral(value, share, points[:, :n], []), 2 * jnp.abs(value - rough)


def mean_of(integral: Integral) -> Float[Array, "rows latents"]:
    """Compute the posterior mean."""
    return jnp.einsum("nk,nkj->nj", integral.share, integral.points)


def start(columns: Columns, params: Params, rows: Rows) -> Gaussian:
    """Start a row that has no former posterior at the variational one, its mean corrected by small rules."""
    at, mean = _approached(columns, params, rows, 2)
    return Gaussian(mean, at.scale)


def _approached(
    columns: Columns, params: Params, rows: Rows, n_rounds: int
) -> tuple[Gaussian, Float[Array, "rows latents"]]:
    """Move a small rule for some rounds, each around the mean of the one before; give its last place and its mean.

    The first is around the variational mean.  A loop, which is compiled once.
    """
    q = params.weights.shape[1]
    n_points = next(n for most, n in tuning.START_NET_POINTS_BY_DIMENSIONS if q <= most)
    small = gauss_hermite(3, q) if q <= MOST_GRID else quasi_monte_carlo(n_points, q)

    def body(_: Any, carry: tuple[Gaussian, Array]) -> tuple[Gaussian, Array]:
        at, mean = carry
        at = placed(columns, params, rows, Gaussian(mean, at.scale))
        return at, mean_of(integrate(columns, params, rows, at, small))

    at = converge(columns, params, rows, most=30, tolerance=1e-2)
    return jax.lax.fori_loop(0, n_rounds, body, (at, at.mean))


def covariance_of(integral: Integral) -> tuple[Float[Array, "rows latents"], Float[Array, "rows latents latents"]]:
    """Compute mean and covariance of the posterior over the points."""
    mean = mean_of(integral)
    away = integral.points - mean[:, None]
    return mean, jnp.einsum("nk,nki,nkj->nij", integral.share, away, away)


def stats_of(columns: Columns, params: Params, rows: Rows, integral: Integral, weight: Float[Array, " rows"]) -> Stats:
    """Sum over rows: log-likelihood, and gradient and curvature of its expected complete form."""
    q = params.weights.shape[1]
    mean, covariance = covariance_of(integral)
    second = moments(mean, covariance)
    total = weight @ second
    j, k = pairs(q + 1)
    share = integral.share * weight[:, None]
    parts = column_kinds.point_stats(
        columns, params, rows, integral.probabilities, share, integral.points, second, weight
    )
    return Stats(
        weight.sum(),
        sum_rows(weight, integral.log_likelihood),
        total[(k == q) & (j < q)],
        total[k < q],
        *parts,
    )


def mode(columns: Columns, params: Params, rows: Rows, x: Float[Array, "rows latents"], n_steps: int = 30) -> Gaussian:
    """Find the most probable latents of each row (MAP), by damped Newton steps, and the inverse curvature there."""

    def joint(x: Float[Array, "rows latents"]) -> Float[Array, " rows"]:
        return column_kinds.density(columns, params, rows, x[:, None])[0][:, 0] - 0.5 * jnp.sum(x**2, 1)

    def body(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        # a step by the curvature at x, taken where it is uphill, else shorter the next time
        x, value, length = carry
        precision, slope = column_kinds.local(columns, params, rows, x)
        step = from_precision(precision, slope)[0].mean
        candidate = x + length[:, None] * step
        new = joint(candidate)
        # near its maximum a density is known no better
        better = new >= value - 4 * jnp.finfo(value.dtype).eps * (1 + jnp.abs(value))
        return (
            jnp.where(better[:, None], candidate, x),
            jnp.maximum(value, new),
            jnp.where(better, jnp.minimum(1, 2 * length), length / 4),
        )

    x, *_ = jax.lax.fori_loop(0, n_steps, body, (x, joint(x), jnp.ones_like(x[:, 0])))
    precision, _ = column_kinds.local(columns, params, rows, x)
    return Gaussian(x, from_precision(precision, x)[0].scale)
