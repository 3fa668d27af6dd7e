"""The latent trait model of Tipping (1998): Gaussian latents, logistic bits; the model record.

    x ~ N(0, I_q),    P(t_i = 1 | x) = sigmoid(w_i.x + b_i)                        (1), (2)

Where the paper's equations are:

    (1)         quadrature.integrate         adaptive nodes
    (2)         bits.density, columns.expected
    (3)         sampling.py                  the sampling EM of section 3
    (4)         variational.improve          the integral of the bound, in closed form
    (5)         bits.bound
    (6), (7)    bits.bound, core/gaussians.from_precision
    (8)         bits.bound                   xi of each row and bit
    (9), (10)   core/gaussians.Gaussian
    (11)        bits.bound_stats, bits.maximise
    (12)        core/gaussians.moments

Beyond the paper: columns that are continuous or categorical (`kinds.py`), missing entries (left out of every sum),
EM by adaptive quadrature, and two accelerations.  Parameter expansion (Liu, Rubin & Wu 1998) lets the prior of the
latents be any Gaussian during the M-step, and then folds its mean and covariance back into weights and biases;
Anderson's method extrapolates the sequence (`core/anderson.py`), and takes back what did not help.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key

from latentbits.core import anderson, nodes
from latentbits.core.anderson import Anderson
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, Progress, Stage, Transform
from latentbits.core.packed import inverse_factor, pairs, unpack
from latentbits.models.latent_trait import beginning, kinds, quadrature, sampling, variational
from latentbits.models.latent_trait.kinds import ALL_BITS, Columns, Params, Stats
from latentbits.models.latent_trait.reals import SMALLEST_VARIANCE

__all__ = ["METHODS", "Posterior", "model"]

METHODS = ("auto", "variational", "quadrature", "monte_carlo")
LONGEST_STEP = 4.0  # of a column, in log-odds: where bits are separable, their curvature vanishes
NOISE = 5e-6  # see State; where columns are many
NET_NOISE = 5e-5  # the same of nets, whose points move with the rows' posteriors
CAUTION_MANY, CAUTION_FEW = 1.0, 10.0  # see State; with few columns slow directions hide behind a small gain
FEW_POINTS_TOL = 1e-5  # nats a row: a few points are not right to more
MEMORY = 5  # former steps that Anderson's method looks back on
PATIENCE = 5  # passes without gain: a bold step, a cautious one and shorter ones, each taken back


class Posterior(eqx.Module):
    """Posterior of the latents of each row.

    Attributes
    ----------
    mean, covariance
        Of the exact posterior, by accurate quadrature (EAP and its error).
    mode, mode_covariance
        The most probable latents (MAP), and the inverse curvature there.
    """

    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    mode: Float[Array, "rows latents"]
    mode_covariance: Float[Array, "rows latents latents"]


class Move(eqx.Module):
    """A change of latent coordinates, x' = (x - shift) @ matrix, and its inverse matrix."""

    matrix: Float[Array, "latents latents"]
    inverse: Float[Array, "latents latents"]
    shift: Float[Array, " latents"]


class State(eqx.Module):
    """Of the optimiser.

    Attributes
    ----------
    anderson, move
        The acceleration, and the change of coordinates in the last step.
    longest
        Longest step of a bit, in log-odds.
    noise
        Nats a row to which the objective is known: with few nodes it depends on where they are by that much.
    left
        Nats in all that are left to gain: what the next step promises by gradient and displacement, which Anderson's
        method takes to be one of Newton's, times `caution`.  NaN where not known.
    caution
        NaN leaves it to the objectives.
    """

    anderson: Anderson
    move: Move
    longest: Float[Array, ""]
    noise: Float[Array, ""]
    left: Float[Array, ""]
    caution: Float[Array, ""]


def _no_move(q: int) -> Move:
    return Move(jnp.eye(q), jnp.eye(q), jnp.zeros(q))


def expansion(stats: Stats) -> Move:
    """Coordinates in which the posteriors of all rows together have mean 0 and covariance I, as their prior has."""
    shift = stats.latent / stats.n_rows
    j, k = pairs(len(shift))
    covariance = stats.latent_squares / stats.n_rows - shift[j] * shift[k] + 1e-6 * (j == k)
    root, _ = inverse_factor(covariance[None])
    return Move(root[0].T, root[0] @ unpack(covariance, len(shift)), shift)


def _back(move: Move, posterior: Gaussian) -> Gaussian:
    """A posterior in the coordinates before the move, which the E-step is about to make."""
    return posterior.moved(move.inverse, -move.shift @ move.matrix)


@cache
def model(
    n_components: int = 2,
    method: str = "auto",
    columns: Columns = ALL_BITS,
    equal_discrimination: bool = False,
    weight_prior: float | None = None,
    n_samples: int = 500,
    n_nodes: int | None = None,
    accelerate: bool = True,
    level: int = 0,
) -> Model:
    """A latent trait model.

    Parameters
    ----------
    n_components
        Number of latent dimensions, q.
    method
        "variational" is the paper's section 4, "monte_carlo" its section 3; "quadrature" is EM by adaptive nodes, and
        "auto" goes on with it where variational EM has converged.
    columns
        Which columns are of what kind.
    equal_discrimination
        One weight for all columns (one latent dimension, bits only).
    weight_prior
        Standard deviation of a Gaussian prior on the weights; None for none.
    n_samples
        L of eq. 3.
    n_nodes
        Nodes a dimension to learn with (above three dimensions: 2 to that power in all); None chooses by the number of
        columns.
    accelerate
        Parameter expansion and Anderson's method; without, EM is the paper's.
    level
        How fine a rule likelihoods and posteriors are told with, see `core/nodes.py`.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    q = n_components
    precision = 0.0 if weight_prior is None else 1 / weight_prior**2
    samples = sampling.prior_sample(n_samples, q)
    on_grid = q <= nodes.MOST_GRID

    # ---------------------------------------------------------------- learning

    def start(params: Params) -> State:
        flat, _ = ravel_pytree(params)
        # with many columns few nodes are used, and posteriors are narrow, so that EM hardly crawls
        many = on_grid and len(params.bias) >= quadrature.MANY_COLUMNS
        noise = jnp.asarray(NOISE if many else 0.0 if on_grid else NET_NOISE)
        caution = jnp.asarray(CAUTION_FEW if on_grid and not many else CAUTION_MANY)
        longest, unknown = jnp.asarray(LONGEST_STEP), jnp.asarray(jnp.nan)
        return State(anderson.start(flat, 2, MEMORY), _no_move(q), longest, noise, unknown, caution)

    def start_exact(params: Params) -> State:
        nothing = jnp.asarray(0.0)
        return eqx.tree_at(
            lambda s: (s.longest, s.noise, s.caution), start(params), (nothing + jnp.inf, nothing, nothing + jnp.nan)
        )

    def left(state: State) -> Float[Array, ""]:
        return state.left

    def prepare(params: Params, state: State | None, progress: Progress | None) -> Move:
        return _no_move(q) if state is None else state.move

    def prepare_sampling(params: Params, state: State | None, progress: Progress | None) -> sampling.Shared:
        return sampling.prepare(params, samples)

    def start_variational(params: Params, shared: Move, batch: Batch) -> Gaussian:
        return _back(shared, variational.converge(columns, params, kinds.rows_of(columns, params, batch)))

    def start_quadrature(params: Params, shared: Move, batch: Batch) -> Gaussian:
        return _back(shared, quadrature.start(columns, params, kinds.rows_of(columns, params, batch)))

    def e_step_variational(params: Params, shared: Move, batch: Batch, row_state: Gaussian) -> tuple[Stats, Gaussian]:
        rows = kinds.rows_of(columns, params, batch)
        posterior = row_state.moved(shared.matrix, shared.shift)
        posterior, bound, contact = variational.improve(columns, params, rows, posterior)
        return variational.stats_of(columns, params, rows, posterior, bound, contact, batch.weight), posterior

    def nodes_by(n_columns: int) -> int:
        return n_nodes or (quadrature.nodes_at_first(q, n_columns) if on_grid else quadrature.LAST_NET)

    def by_nodes(
        params: Params, shared: Move, batch: Batch, row_state: Gaussian, n_nodes: int
    ) -> tuple[Stats, Gaussian]:
        rows = kinds.rows_of(columns, params, batch)
        at = quadrature.placed(columns, params, rows, row_state.moved(shared.matrix, shared.shift))
        spread = at if on_grid else nodes.for_net(at, batch.rows)
        integral = quadrature.integrate(columns, params, rows, spread, quadrature.learning_rule(q, n_nodes))
        stats = quadrature.stats_of(columns, params, rows, integral, batch.weight)
        return stats, Gaussian(quadrature.mean_of(integral), at.scale)

    def e_step_quadrature(params: Params, shared: Move, batch: Batch, row_state: Gaussian) -> tuple[Stats, Gaussian]:
        return by_nodes(params, shared, batch, row_state, nodes_by(batch.values.shape[1]))

    def e_step_few(params: Params, shared: Move, batch: Batch, row_state: Gaussian) -> tuple[Stats, Gaussian]:
        return by_nodes(params, shared, batch, row_state, quadrature.FIRST_NET)

    def objective(params: Params, shared: Any, stats: Stats | sampling.Stats) -> Float[Array, ""]:
        return stats.objective.sum() - 0.5 * precision * jnp.sum(params.weights**2)

    def update(state: State, params: Params, shared: Move, stats: Stats, progress: Progress) -> tuple[State, Params]:
        plain = kinds.maximise(columns, params, stats, precision, equal_discrimination, state.longest)
        if not accelerate:
            return state, plain
        move = expansion(stats) if precision == 0 else _no_move(q)
        value = objective(params, shared, stats)
        state, ahead = _accelerated(state, params, value, plain, move, state.noise * stats.n_rows)
        if columns != ALL_BITS:
            return state, ahead
        step = jnp.concatenate([ahead.weights - params.weights, (ahead.bias - params.bias)[:, None]], 1)
        gradient = stats.bits.gradient.at[:, :q].add(-precision * params.weights)
        gain = jnp.abs(jnp.sum(gradient * step)) / 2
        refused = state.anderson.refused > 0
        return eqx.tree_at(lambda s: s.left, state, jnp.where(refused, jnp.nan, state.caution * gain)), ahead

    def update_sampling(
        state: State, params: Params, shared: sampling.Shared, stats: sampling.Stats, progress: Progress
    ) -> tuple[State, Params]:
        plain = sampling.regress(params, stats, samples, precision, equal_discrimination, state.longest)
        if not accelerate:
            return state, plain
        return _accelerated(state, params, objective(params, shared, stats), plain, _no_move(q), 0.0)

    # ---------------------------------------------------------------- use

    def accurate(params: Params, batch: Batch) -> quadrature.Integral:
        rows = kinds.rows_of(columns, params, batch)
        at = quadrature.accurately_placed(columns, params, rows, far=on_grid and level > 0)
        if not on_grid:
            net = nodes.quasi_monte_carlo(nodes.net_points(level), q)
            return quadrature.integrate(columns, params, rows, nodes.for_net(at, batch.rows), net)
        rule, _ = nodes.accurate_rules(q, batch.values.shape[1], batch.observed is None, level)
        return quadrature.integrate(columns, params, rows, at, rule)

    def log_likelihood(params: Params, shared: Any, batch: Batch) -> LogLikelihood:
        rows = kinds.rows_of(columns, params, batch)
        at = quadrature.accurately_placed(columns, params, rows, far=False)

        def density(points: Float[Array, "rows points latents"]) -> Float[Array, "rows points"]:
            return kinds.density(columns, params, rows, points)[0]

        value, error = nodes.log_integral(density, at, batch.keys, batch.values.shape[1], batch.observed is None, level)
        return LogLikelihood(value, error, jnp.zeros((), value.dtype))

    def infer(params: Params, shared: Any, batch: Batch) -> Posterior:
        mean, covariance = quadrature.covariance_of(accurate(params, batch))
        peak = quadrature.mode(columns, params, kinds.rows_of(columns, params, batch))
        return Posterior(mean, covariance, peak.mean, peak.covariance)

    def decode(params: Params, latents: Float[Array, "rows latents"]) -> Float[Array, "rows outputs"]:
        return kinds.expected(columns, params, latents)

    def complete(params: Params, shared: Any, batch: Batch) -> Float[Array, "rows columns"]:
        integral = accurate(params, batch)
        means = jnp.einsum("nk,nko->no", integral.share, kinds.expected(columns, params, integral.points))
        return kinds.best_guess(columns, means)

    def sample(params: Params, shared: Any, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
        def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
            latent, rest = jax.random.split(key)
            return kinds.draw(columns, params, jax.random.normal(latent, (q,), params.bias.dtype), rest)

        return jax.vmap(one)(keys)

    def row_floats(n: int) -> int:
        points = len(nodes.accurate_rules(q, n, False, level)[0].nodes) if on_grid else nodes.net_points(level)
        return 2 * points * columns.n_outputs(n) + 8 * (q + 1) ** 2

    patience = PATIENCE if accelerate else 1

    def by_bound(tol: float | None = None) -> Iterate:
        return Iterate(
            "variational EM",
            measure=Measure.BOUND,
            e_step=e_step_variational,
            start_rows=start_variational,
            start=start_exact,  # (11) as it stands; only numbers differ, so the update is compiled once for both
            row_floats=lambda n: 8 * columns.n_outputs(n) + 8 * (q + 1) ** 2,
            tol=tol,
            patience=patience,
        )

    by_quadrature = Iterate(
        "quadrature EM",
        row_floats=lambda n: 3 * columns.n_outputs(n) * len(quadrature.learning_rule(q, nodes_by(n)).nodes),
        patience=patience,
    )
    # the objective of a net of few points is no match for that of many, and its optimum not the goal
    by_few_nodes = Iterate(
        "quadrature EM by few points",
        measure=Measure.PROGRESS,
        e_step=e_step_few,
        start_rows=start_quadrature,
        row_floats=lambda n: 3 * columns.n_outputs(n) * 2**quadrature.FIRST_NET,
        tol=FEW_POINTS_TOL,
        patience=patience,
    )
    by_nets = (by_quadrature,) if on_grid or n_nodes is not None else (by_few_nodes, by_quadrature)
    by_sample = Iterate(
        "sampling EM",
        prepare=prepare_sampling,
        e_step=sampling.e_step,
        update=update_sampling,
        start=start_exact,
        row_floats=lambda n: 2 * n + 3 * n_samples,
        patience=patience,
    )
    stages: dict[str, tuple[Stage, ...]] = {
        # the optimum of the bound is not the goal: near it is near enough to go on
        "auto": (by_bound(1e-4), Transform("waking idle columns", beginning.awake), *by_nets),
        "variational": (by_bound(),),
        "quadrature": by_nets,
        "monte_carlo": (by_sample,),
    }
    return Model(
        name="latent trait",
        init=partial(beginning.init_params, q, columns, equal_discrimination),
        prepare=prepare,
        e_step=e_step_quadrature,
        update=update,
        objective=objective,
        log_likelihood=log_likelihood,
        infer=infer,
        decode=decode,
        complete=complete,
        sample=sample,
        row_floats=row_floats,
        start=start,
        left=left if accelerate and columns == ALL_BITS else None,
        start_rows=start_quadrature,
        stages=stages[method],
        # few points tell starts apart; with n_nodes given there is no stage that has fewer
        heats=len(stages[method]) - 1 if by_few_nodes in stages[method] else 0,
    )


def _accelerated(
    state: State, params: Params, value: Float[Array, ""], plain: Params, move: Move, slack: Any
) -> tuple[State, Params]:
    """Expansion, then extrapolation; both can be taken back."""
    flat, restore = ravel_pytree(params)
    bold = kinds.transformed(plain, move.inverse, move.shift)
    images = jnp.stack([ravel_pytree(bold)[0], ravel_pytree(plain)[0]])
    memory, ahead, kept = anderson.advance(state.anderson, flat, value, images, slack)
    q = params.weights.shape[1]
    moved = jax.tree.map(lambda a, b: jnp.where(kept, a, b), move, _no_move(q))
    # a variance that was extrapolated below what the M-step allows would be kept for its likelihood
    ahead = restore(ahead)
    allowed = jnp.maximum(ahead.log_variance, np.log(SMALLEST_VARIANCE))
    ahead = eqx.tree_at(lambda p: p.log_variance, ahead, allowed)
    return State(memory, moved, state.longest, state.noise, state.left, state.caution), ahead
