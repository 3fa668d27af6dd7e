"""Weights and biases of the largest likelihood, by EM from where the moments put them (`learner="likelihood"`).

With noise a column has P(s_i | y) = Phi(s_i eta_i), eta_i = a_i.y + c_i, in units of its noise,

    a_i = w_i / sqrt(psi_i),    c_i = phi_i / sqrt(psi_i),

and the other way round, since x has variance 1, ``psi = 1 / (1 + |a|^2)``, ``w = a sqrt(psi)``, ``phi = c sqrt(psi)``.
(a, c) are free, so the likelihood is climbed in them.  With b = (a_i, c_i) and y^ = (y, 1), and means <.> over the
posterior of y, the gradient of log p(s) is that of Q, the expected log P(s, y) (Fisher's identity), and Q a sum over
columns:

    g_i = sum_rows <s_i r(s_i eta_i) y^>,              r = phi / Phi
    H_i = sum_rows <(1 - v(s_i eta_i)) y^ y^'>,        1 - v = r (z + r), minus the second derivative of log Phi
    M_i = sum_rows <y^ y^'>

where a bit is missing its row is left out of all three.  Since 0 < 1 - v < 1, Q falls off less than M says, and

    b_i + M_i^-1 g_i

never lowers the likelihood.  It is also the M-step of the EM that takes both y and x for hidden, a regression of <x_i>
on y.  b_i + H_i^-1 g_i is Newton's step on Q, longer, and mostly better.  Two accelerations are those of the latent
trait model: the prior of y may be any Gaussian in the M-step, which is folded back into (a, c) (Liu, Rubin & Wu 1998);
and Anderson's method extrapolates, and takes back what did not help, down to the step that always climbs.

Posteriors are points with weights: the nodes of `core/nodes.py`, moved to where expectation propagation puts a row's
posterior.  They are placed again at every pass, so that a row has no state, and any engine learns the same.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float

from latentbits.core import anderson, nodes
from latentbits.core.anderson import Anderson
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.gaussians import moments
from latentbits.core.model import Iterate, Measure, Model, Progress, Stage
from latentbits.core.module import Module, static
from latentbits.core.nodes import Rule
from latentbits.core.packed_symmetric import inverse_factor, pairs, products, unpack
from latentbits.core.special import half_line
from latentbits.core.tree import sum_rows
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.params import Params, signs_of
from latentbits.models.clipped_gaussian.tuning import (
    LEAST_UNIQUENESS,
    NODES_OF_FEW_COLUMNS,
    NODES_OF_MANY_COLUMNS,
    PATIENCE_PASSES,
    PLACING_SDS,
)

__all__ = ["beyond", "stages"]

STEEPEST_SLOPE = np.sqrt(1 / LEAST_UNIQUENESS - 1)  # |a| of a column whose uniqueness is at its bound

Number: TypeAlias = Float[Array, ""] | float  # traced where it is an argument of a program


class Stats(Module):
    """Sums over rows: the log-likelihood, the posteriors' moments, and g, H and M of each column (packed)."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]  # see sum_rows
    moments: Float[Array, " pairs"]  # of y^, all rows
    gradient: Float[Array, "columns extended"]
    curvature: Float[Array, "columns pairs"]
    steepest: Float[Array, "columns pairs"]
    ones: Float[Array, " columns"]
    observed: Float[Array, " columns"]


class Way(Module):
    """The settings that programs are compiled for."""

    rough: bool = static()  # by few nodes, on the way
    bias: bool = static()  # whether columns have biases
    accelerate: bool = static()  # without, the step that always climbs


def rule_for(way: Way, n_latents: int, n_columns: int, complete: bool) -> Rule:
    """Choose nodes to learn with; rows that are not complete may have few columns each."""
    many = complete and n_columns >= nodes.MANY_COLUMNS
    few_nodes, many_nodes = (NODES_OF_MANY_COLUMNS if many else NODES_OF_FEW_COLUMNS)[
        min(n_latents, nodes.MOST_GRID + 1)
    ]
    size = few_nodes if way.rough else many_nodes
    if n_latents > nodes.MOST_GRID:
        return nodes.quasi_monte_carlo(2**size, n_latents)
    return nodes.product_rule(size, n_latents)


def e_step(way: Way, params: Params, shared: Factors, batch: Batch, row_state: None) -> tuple[Stats, None]:
    """Compute log p(s) of each row and its posterior, as the sums that an update needs."""
    signs, weight = signs_of(batch), batch.weight
    n, q = len(signs), shared.weights.shape[1]
    rule = rule_for(way, q, signs.shape[1], batch.observed is None)
    at = ep.posterior(shared, signs, PLACING_SDS)
    if q > nodes.MOST_GRID:
        at = nodes.for_net(at, batch.rows)
    # the bits at the nodes of each row, and the weights of these
    points = nodes.points_of(at, rule)
    root = jnp.sqrt(shared.psi)
    cut = half_line(signs[:, None] * (points @ (shared.weights / root[:, None]).T + shared.phi / root))
    log_mass, bend = cut.log_mass, 1 - cut.variance
    if batch.observed is not None:
        log_mass, bend = log_mass * batch.observed[:, None], bend * batch.observed[:, None]
    value, share = nodes.weigh(log_mass.sum(-1), points, at, rule)
    # moments of y^ = (y, 1), and the derivatives of each column
    extended = jnp.concatenate([points, jnp.ones_like(points[..., :1])], -1)
    weighted = (weight[:, None] * share)[..., None]
    mean = jnp.einsum("nk,nkj->nj", share, points)
    away = points - mean[:, None]
    second = weight[:, None] * moments(mean, jnp.einsum("nk,nki,nkj->nij", share, away, away))
    total = sum_over_rows(second)
    # sums over rows and nodes
    slope = (signs[:, None] * cut.ratio).reshape(n * len(rule.nodes), -1)
    flat = len(slope)
    stats = Stats(
        weight.sum(),
        sum_rows(weight, value),
        total,
        over_rows((weighted * extended).reshape(flat, -1), slope).T,
        over_rows((weighted * products(extended)).reshape(flat, -1), bend.reshape(flat, -1)).T,
        jnp.broadcast_to(total, (signs.shape[1], len(total)))
        if batch.observed is None
        else over_rows(second, batch.observed).T,
        weight @ (signs > 0).astype(signs.dtype),
        weight @ jnp.abs(signs),
    )
    return stats, None


def objective(precision: Number, params: Params, shared: Factors, stats: Stats) -> Float[Array, ""]:
    """Compute the log-likelihood, less the penalty of a prior of this precision on a (0 for none)."""
    return stats.objective.sum() - 0.5 * precision * jnp.sum(_slopes(params)[:, :-1] ** 2)


def start(params: Params) -> Anderson:
    """Start with nothing seen yet."""
    return anderson.start(_slopes(params).ravel(), 2, 5)  # five former steps


def update(
    way: Way, precision: Number, state: Anderson, params: Params, shared: Factors, stats: Stats, progress: Progress
) -> tuple[Anderson, Params]:
    """Make one step of all columns.

    What is left to gain is what it promises, column by column, as one of Newton's would keep it; but not less than
    Newton's step on Q promises, nor than the last pass gained; and with few columns, where slow directions hide, ten
    times as much.
    """
    here = _slopes(params)
    d, size = here.shape
    # a bit that is always (or never) set has its optimum at infinity, and one never seen none: they stay as they are
    free = ((stats.ones > 0) & (stats.ones < stats.observed))[:, None]
    gradient = jnp.where(free, stats.gradient, 0)
    if not way.bias:
        gradient = gradient.at[:, -1].set(0)
    safe = here + _step(way, precision, here, gradient, stats.steepest)
    if not way.accelerate:
        return state, _with_slopes(params, safe)
    step = _step(way, precision, here, gradient, stats.curvature)
    ahead = here + step * jnp.minimum(1, 2.0 / jnp.maximum(_length(step), 1e-300))  # twice a column's noise at most
    # a prior, or a column at its bound, has a say in the coordinates, too
    stands_alone = (precision == 0) & jnp.all(_length(ahead[:, :-1]) < 0.99 * STEEPEST_SLOPE)
    bold = jnp.where(free & stands_alone, _bounded(_expanded(way, stats, ahead)), ahead)
    # the extrapolation of either step
    many, on_grid = d >= nodes.MANY_COLUMNS, size - 1 <= nodes.MOST_GRID
    # nats to which the objective is known: few nodes, and those of nets, move with the rows' posteriors
    noise = stats.n_rows * (5e-5 if not on_grid else 5e-6 if many else 0.0)
    images = jnp.stack([bold.ravel(), safe.ravel()])
    value = objective(precision, params, shared, stats)
    memory, point, _ = anderson.advance(state, here.ravel(), value, images, noise)
    point = _bounded(point.reshape(d, size))
    # what is left to gain
    uphill = gradient.at[:, :-1].add(-precision * jnp.where(free, here[:, :-1], 0))
    promised = [jnp.sum(jnp.abs(jnp.sum(uphill * way_on, 1))) / 2 for way_on in (point - here, step)]
    gained = jnp.maximum(value - state.value - noise - anderson.ROUNDING * jnp.abs(value), 0)
    most = jnp.maximum(jnp.maximum(*promised), gained)
    return anderson.promise(memory, (10.0 if on_grid and not many else 1.0) * most), _with_slopes(params, point)


def _slopes(params: Params) -> Float[Array, "columns extended"]:
    """Return (a, c) of each column."""
    return jnp.concatenate([params.weights, params.phi[:, None]], 1) / jnp.sqrt(params.psi)[:, None]


def _with_slopes(params: Params, slopes: Float[Array, "columns extended"]) -> Params:
    psi = 1 / (1 + jnp.sum(slopes[:, :-1] ** 2, 1))
    scaled = slopes * jnp.sqrt(psi)[:, None]
    return params.replace(weights=scaled[:, :-1], phi=scaled[:, -1], psi=psi)


def _length(x: Float[Array, "columns size"]) -> Float[Array, "columns 1"]:
    return jnp.sqrt(jnp.sum(x**2, 1, keepdims=True))


def _bounded(slopes: Float[Array, "columns extended"]) -> Float[Array, "columns extended"]:
    return slopes * jnp.minimum(1, STEEPEST_SLOPE / jnp.maximum(_length(slopes[:, :-1]), 1e-300))


def _step(
    way: Way,
    precision: Number,
    here: Float[Array, "columns extended"],
    gradient: Float[Array, "columns extended"],
    curvature: Float[Array, "columns pairs"],
) -> Float[Array, "columns extended"]:
    """Step to the top of a quadratic of this gradient and curvature, less the prior's penalty, within the bound.

    Where the latents determine a bit wholly its slopes would run to infinity: they end where its uniqueness is at its
    bound, |a| = R.  The multiplier of that is found as the radius of a trust region is (More & Sorensen 1983): Newton's
    method on 1 / |a|, which is nearly linear in it.
    """
    size = here.shape[1]
    j, k = pairs(size)
    if not way.bias:
        curvature = jnp.where(k == size - 1, jnp.asarray(j == k, curvature.dtype), curvature)
    ridge = 1e-9 * (1 + curvature[:, j == k].sum(1, keepdims=True))
    curvature = curvature + jnp.where(j == k, ridge, 0)
    slope = jnp.asarray((j == k) & (j < size - 1), curvature.dtype)
    first = jnp.asarray(np.arange(size) < size - 1, curvature.dtype)

    def solved(multiplier: Float[Array, "columns 1"], right: Array) -> Float[Array, "columns extended"]:
        inverse, _ = inverse_factor(curvature + multiplier * slope)
        return jnp.einsum("nij,ni->nj", inverse, jnp.einsum("nij,nj->ni", inverse, right))

    def step(multiplier: Float[Array, "columns 1"]) -> Float[Array, "columns extended"]:
        return solved(multiplier, gradient - multiplier * first * here)

    def improve(_: Any, multiplier: Float[Array, "columns 1"]) -> Float[Array, "columns 1"]:
        ahead = first * (here + step(multiplier))
        length = jnp.maximum(_length(ahead), 1e-300)
        fall = jnp.sum(ahead * solved(multiplier, ahead), 1, keepdims=True)
        more = length**2 / jnp.maximum(fall, 1e-300) * (length / STEEPEST_SLOPE - 1)
        return jnp.where(length > 1e-9, jnp.maximum(multiplier + more, precision), precision)

    least = jnp.full_like(here[:, :1], precision)
    return step(jax.lax.fori_loop(0, 8, improve, least))


def _expanded(way: Way, stats: Stats, slopes: Float[Array, "columns extended"]) -> Float[Array, "columns extended"]:
    """Turn to coordinates in which the posteriors of all rows together have mean 0 and covariance I."""
    q = slopes.shape[1] - 1
    j, k = pairs(q + 1)
    second = stats.moments / stats.n_rows
    inner, mean = second[k < q], second[(k == q) & (j < q)]
    mean = mean if way.bias else jnp.zeros_like(mean)
    j, k = pairs(q)
    covariance = inner - mean[j] * mean[k] + 1e-6 * (j == k)
    inverse, _ = inverse_factor(covariance[None])  # lower triangular R^-1 of covariance = R R'
    root = unpack(covariance, q) @ inverse[0].T
    return jnp.concatenate([slopes[:, :q] @ root, slopes[:, q:] + (slopes[:, :q] @ mean)[:, None]], 1)


def row_floats(way: Way, n_components: int | str, n_columns: int) -> int:
    """Count the numbers that the E-step holds per row."""
    q = n_components if isinstance(n_components, int) else 4
    return 4 * n_columns * len(rule_for(way, q, n_columns, False).nodes) + 4 * (q + 1) ** 2


@cache
def _with(function: Any, *settings: Any) -> Any:
    """Bind a function to its settings; compiled code is found by the identity of the result."""
    return Partial(function, *settings)


def beyond(
    model: Model, n_components: int | str, bias: bool, weight_prior: float | None = None, accelerate: bool = True
) -> Model:
    """Make the record that goes on from where one that learns from moments ends."""
    fine, precision = Way(False, bias, accelerate), 0.0 if weight_prior is None else 1 / weight_prior**2
    return model._replace(
        e_step=_with(e_step, fine),
        objective=_with(objective, precision),
        update=_with(update, fine, precision),
        start=start,
        left=anderson.left if accelerate else None,
        on_host=False,
        stages=(*model.stages, *stages(n_components, bias, accelerate)),
    )


def stages(n_components: int | str, bias: bool, accelerate: bool) -> tuple[Stage, ...]:
    """Make the stages of a record of `beyond`: first by few nodes; without acceleration, all by many."""
    rough, fine = (Way(few, bias, accelerate) for few in (True, False))
    by_many = Iterate(
        "EM",
        row_floats=_with(row_floats, fine, n_components),
        patience=PATIENCE_PASSES if accelerate else 1,
    )
    if not accelerate:
        return (by_many,)
    by_few = Iterate(
        "EM by few nodes",
        measure=Measure.PROGRESS,
        e_step=_with(e_step, rough),
        row_floats=_with(row_floats, rough, n_components),
        tol=1e-5,  # nats a row: few nodes are not right to more
        patience=PATIENCE_PASSES,
    )
    return by_few, by_many
