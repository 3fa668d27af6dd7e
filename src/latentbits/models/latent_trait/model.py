"""The latent trait model of Tipping (1998): Gaussian latents, logistic bits; the model record.

    x ~ N(0, I_q),    P(t_i = 1 | x) = sigmoid(w_i.x + b_i)                        (1), (2)

The paper's numbered equations are in `equations.py`; the README of `papers/tipping_1998` says where each is in use.

Beyond the paper: columns that are continuous or categorical (`kinds.py`), missing entries (left out of every sum),
EM by adaptive quadrature, and two accelerations.  Parameter expansion (Liu, Rubin & Wu 1998) lets the prior of the
latents be any Gaussian during the M-step, and then folds its mean and covariance back into weights and biases;
Anderson's method extrapolates the sequence (`core/anderson.py`), and takes back what did not help.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Key

from latentbits.core import anderson, nodes
from latentbits.core.anderson import Anderson
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, Progress, Stage, Summary, Transform
from latentbits.core.packed import inverse_factor, pairs, unpack
from latentbits.models.latent_trait import beginning, grid, kinds, quadrature, sampling, steep, variational
from latentbits.models.latent_trait.kinds import ALL_BITS, Columns, Params, Stats

__all__ = ["MEMORY", "METHODS", "PATIENCE", "Count", "Move", "Number", "Posterior", "Scored", "State",
           "Structure", "back", "count_for", "expansion", "finer", "floats_of_bound", "floats_of_nodes",
           "floats_of_use", "left_of", "model", "no_move", "nodes_by", "objective", "slope_along", "steps_of",
           "with_grid", "with_left", "with_settings"]  # fmt: skip

METHODS = ("auto", "variational", "quadrature", "monte_carlo")
LONGEST_STEP = 4.0  # of a column, in log-odds: where bits are separable, their curvature vanishes
NOISE = 5e-6  # see State; where columns are many
NET_NOISE = 5e-5  # the same of nets, whose points move with the rows' posteriors
CAUTION_MANY, CAUTION_FEW = 1.0, 10.0  # see State; with few columns slow directions hide behind a small gain
FEW_POINTS_TOL = 1e-5  # nats a row: a few points are not right to more
MEMORY = 5  # former steps that Anderson's method looks back on
BY_FEW = "quadrature EM by few points"
FEWEST_POINTS = 25  # that chunks are made for: with fewer, a small table would be one chunk, and use one core
PATIENCE = 5  # passes without gain: a bold step, a cautious one and shorter ones, each taken back


Number: TypeAlias = Float[Array, ""] | float  # traced where it is an argument of a program


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


class Scored(LogLikelihood):
    """log p(x) of each row, and the mean of its latents: one program tells both.

    Attributes
    ----------
    mean
        Of the exact posterior; above `nodes.MOST_GRID` dimensions, where points are drawn for the likelihood alone,
        None.
    """

    mean: Float[Array, "rows latents"] | None = None


class Move(eqx.Module):
    """A change of latent coordinates, x' = (x - shift) @ matrix, and its inverse matrix."""

    matrix: Float[Array, "latents latents"]
    inverse: Float[Array, "latents latents"]
    shift: Float[Array, " latents"]


class State(eqx.Module):
    """State of the optimiser.

    Attributes
    ----------
    anderson, move
        The acceleration, and the change of coordinates in the last step.
    longest
        Longest step of a bit, in log-odds.
    noise
        Nats a row to which the objective is known: with few nodes it depends on where they are by that much.
    caution
        How often what a step promises may be left to gain; NaN leaves that to the objectives.
    """

    anderson: Anderson
    move: Move
    longest: Float[Array, ""]
    noise: Float[Array, ""]
    caution: Float[Array, ""]


def no_move(q: int) -> Move:
    return Move(jnp.eye(q), jnp.eye(q), jnp.zeros(q))


def expansion(stats: Stats) -> Move:
    """Find coordinates in which the posteriors of all rows together have the prior's mean 0 and covariance I."""
    shift = stats.latent / stats.n_rows
    j, k = pairs(len(shift))
    covariance = stats.latent_squares / stats.n_rows - shift[j] * shift[k] + 1e-6 * (j == k)
    root, _ = inverse_factor(covariance[None])
    return Move(root[0].T, root[0] @ unpack(covariance, len(shift)), shift)


def back(move: Move, posterior: Gaussian) -> Gaussian:
    """Take a posterior to the coordinates before the move, which the E-step is about to make."""
    return posterior.moved(move.inverse, -move.shift @ move.matrix)


class Structure(eqx.Module):
    """Shapes that the programs of a model are compiled for.

    Attributes
    ----------
    q
        Number of latent dimensions.
    columns
        Which columns are of what kind.
    tied
        One weight for all columns.
    accelerate
        Whether parameters are expanded and steps extrapolated.
    """

    q: int = eqx.field(static=True)
    columns: Columns = eqx.field(static=True)
    tied: bool = eqx.field(static=True)
    accelerate: bool = eqx.field(static=True)

    @property
    def on_grid(self) -> bool:
        """Whether dimensions are few enough for a product rule."""
        return self.q <= nodes.MOST_GRID


class Count(eqx.Module):
    """A number of nodes, samples or rounds, which shapes depend on."""

    n: int = eqx.field(static=True)


def with_settings(function: Any, *settings: Any) -> Any:
    """Bind settings to a function: numbers among them are arguments of the program, the rest is its structure.

    Compiled code is found by the identity of what this returns, so the same settings give the same object.
    """
    return _once(function, settings)


@cache
def _once(function: Any, settings: tuple[Any, ...]) -> Any:
    return Partial(function, *settings)


# ---------------------------------------------------------------- learning


def _init(structure: Structure, key: Key[Array, ""], summary: Summary) -> Params:
    return beginning.init_params(structure.q, structure.columns, structure.tied, key, summary)


def _start(structure: Structure, seen: Number | None, exact: Bool[Array, ""] | bool, params: Params) -> State:
    """Begin; `exact` is a number: of stages whose updates are exact, and their objectives known to the last digit."""
    flat, _ = ravel_pytree(params)
    longest, noise, caution = steps_of(structure, float(len(params.bias)) if seen is None else seen, exact)
    start = anderson.start(flat, 2, MEMORY)
    return State(start, no_move(structure.q), longest, noise, caution)


def steps_of(structure: Structure, seen: Number, exact: Bool[Array, ""] | bool) -> Float[Array, "3"]:
    """Choose `longest`, `noise` and `caution` of a state, for rows with so many observed columns."""
    # with many of them few nodes are used, and posteriors are narrow, so that EM hardly crawls
    few, many, net = [0.0, CAUTION_FEW], [NOISE, CAUTION_MANY], [NET_NOISE, CAUTION_MANY]
    by_grid = jnp.where(seen >= nodes.MANY_COLUMNS, jnp.asarray(many), jnp.asarray(few))
    by_nodes = jnp.append(LONGEST_STEP, by_grid if structure.on_grid else jnp.asarray(net))
    return jnp.where(exact, jnp.asarray([jnp.inf, 0.0, jnp.nan]), by_nodes)


def left_of(state: State) -> Float[Array, ""]:
    """Return what is left to gain, as the last steps have it."""
    return anderson.left(state.anderson)


def _prepare(structure: Structure, params: Params, state: State | None, progress: Progress | None) -> Move:
    return no_move(structure.q) if state is None else state.move


def _prepare_sampling(
    structure: Structure, samples: Count, params: Params, state: State | None, progress: Progress | None
) -> sampling.Shared:
    return sampling.prepare(params, sampling.prior_sample(samples.n, structure.q))


def _start_variational(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    return back(shared, variational.converge(columns, params, kinds.rows_of(columns, params, batch)))


def _start_quadrature(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    return back(shared, quadrature.start(columns, params, kinds.rows_of(columns, params, batch)))


def _e_step_variational(
    structure: Structure, rounds: Count, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = kinds.rows_of(columns, params, batch)
    posterior = row_state.moved(shared.matrix, shared.shift)
    posterior, bound, contact = variational.improve(columns, params, rows, posterior, rounds.n)
    return variational.stats_of(columns, params, rows, posterior, bound, contact, batch.weight), posterior


def nodes_by(structure: Structure, n_nodes: Count | None, n_columns: int) -> int:
    """Choose how many nodes to learn with; None goes by the number of columns."""
    if n_nodes is not None:
        return n_nodes.n
    return quadrature.nodes_at_first(structure.q, n_columns) if structure.on_grid else quadrature.LAST_NET


def count_for(structure: Structure, n_nodes: int | None, seen: int | None) -> Count | None:
    """Choose nodes to learn with: those given, else by the columns that rows have observed; None leaves it to all."""
    if n_nodes is None and seen is not None and structure.on_grid:
        n_nodes = quadrature.nodes_at_first(structure.q, seen)
    return None if n_nodes is None else Count(n_nodes)


def _e_step_quadrature(
    structure: Structure, n_nodes: Count | None, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = kinds.rows_of(columns, params, batch)
    rule = quadrature.learning_rule(structure.q, nodes_by(structure, n_nodes, batch.values.shape[1]))
    at = quadrature.placed(columns, params, rows, row_state.moved(shared.matrix, shared.shift))
    spread = at if structure.on_grid else nodes.for_net(at, batch.rows)
    integral = quadrature.integrate(columns, params, rows, spread, rule)
    stats = quadrature.stats_of(columns, params, rows, integral, batch.weight)
    return stats, Gaussian(quadrature.mean_of(integral), at.scale)


def objective(precision: Number | None, params: Any, shared: Any, stats: Any) -> Float[Array, ""]:
    """Compute log-likelihood or bound, less the penalty of a prior of this precision (None for none)."""
    total = stats.objective.sum()
    return total if precision is None else total - 0.5 * precision * jnp.sum(params.weights**2)


def _update(
    structure: Structure,
    precision: Number | None,
    state: State,
    params: Params,
    shared: Move,
    stats: Stats,
    progress: Progress,
) -> tuple[State, Params]:
    columns, q = structure.columns, structure.q
    penalty = 0.0 if precision is None else precision
    plain = kinds.maximise(columns, params, stats, penalty, structure.tied, state.longest)
    if not structure.accelerate:
        return state, plain
    move = expansion(stats) if precision is None else no_move(q)
    value = objective(precision, params, shared, stats)
    state, ahead = _accelerated(columns, state, params, value, plain, move, state.noise * stats.n_rows)
    if columns != ALL_BITS:
        return state, ahead
    return with_left(state, slope_along(stats.bits.gradient, penalty, params, ahead)), ahead


def slope_along(gradient: Array, penalty: Number, params: Any, ahead: Any) -> Float[Array, ""]:
    """Compute how much the objective would grow on the way to `ahead`, were it straight; of one map or of several."""
    step = jnp.concatenate([ahead.weights - params.weights, (ahead.bias - params.bias)[..., None]], -1)
    return jnp.sum(gradient.at[..., :-1].add(-penalty * params.weights) * step)


def with_left(state: State, slope: Float[Array, ""]) -> State:
    """Note in the state what the next step, of this slope, promises."""
    return eqx.tree_at(
        lambda s: s.anderson, state, anderson.promise(state.anderson, state.caution * jnp.abs(slope) / 2)
    )


def _update_sampling(
    structure: Structure,
    samples: Count,
    precision: Number | None,
    state: State,
    params: Params,
    shared: sampling.Shared,
    stats: sampling.Stats,
    progress: Progress,
) -> tuple[State, Params]:
    penalty, drawn = 0.0 if precision is None else precision, sampling.prior_sample(samples.n, structure.q)
    plain = sampling.regress(params, stats, drawn, penalty, structure.tied, state.longest)
    if not structure.accelerate:
        return state, plain
    value = objective(precision, params, shared, stats)
    return _accelerated(structure.columns, state, params, value, plain, no_move(structure.q), 0.0)


# ---------------------------------------------------------------- use


def _answers(structure: Structure, params: Params, batch: Batch, filled: bool = False) -> steep.Answers:
    return steep.answers(structure.columns, params, kinds.rows_of(structure.columns, params, batch), batch, filled)


def _by_net(structure: Structure, params: Params, batch: Batch) -> quadrature.Integral:
    columns, q = structure.columns, structure.q
    rows = kinds.rows_of(columns, params, batch)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    net = nodes.quasi_monte_carlo(nodes.net_points(), q)
    return quadrature.integrate(columns, params, rows, nodes.for_net(at, batch.rows), net)


def _log_likelihood(structure: Structure, params: Params, shared: Any, batch: Batch) -> Scored:
    if structure.on_grid:
        found = _answers(structure, params, batch)
        value, error, mean = found.log_likelihood, found.error, found.mean
    else:
        (value, error), mean = _importance(structure, Count(2**nodes.NET), params, shared, batch), None
    return Scored(value, error, jnp.zeros((), value.dtype), mean=mean)


def _importance(
    structure: Structure, n_points: Count, params: Params, shared: Any, batch: Batch
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    columns = structure.columns
    rows = kinds.rows_of(columns, params, batch)
    at = quadrature.accurately_placed(columns, params, rows, far=False)
    return nodes.importance(lambda points: kinds.density(columns, params, rows, points)[0], at, batch.keys, n_points.n)


def finer(q: int, columns: Columns, level: int) -> Any:
    """Make the program of log p(x) and its standard error above `nodes.MOST_GRID` dimensions, by `nodes.FINER_NETS`."""
    return with_settings(_importance, Structure(q, columns, False, True), Count(2 ** nodes.FINER_NETS[level]))


def _infer(structure: Structure, params: Params, shared: Any, batch: Batch) -> Posterior:
    columns = structure.columns
    if structure.on_grid:
        _, _, mean, covariance, _ = _answers(structure, params, batch)
    else:
        mean, covariance = quadrature.covariance_of(_by_net(structure, params, batch))
    peak = quadrature.mode(columns, params, kinds.rows_of(columns, params, batch), mean)
    return Posterior(mean, covariance, peak.mean, peak.covariance)


def _decode(structure: Structure, params: Params, latents: Float[Array, "rows latents"]) -> Array:
    return kinds.expected(structure.columns, params, latents)


def _complete(structure: Structure, params: Params, shared: Any, batch: Batch) -> Float[Array, "rows columns"]:
    columns = structure.columns
    if structure.on_grid:
        return kinds.best_guess(columns, _answers(structure, params, batch, filled=True).expected)
    integral = _by_net(structure, params, batch)
    means = jnp.einsum("nk,nko->no", integral.share, kinds.expected(columns, params, integral.points))
    return kinds.best_guess(columns, means)


def with_grid(record: Model, nodes_of_all: grid.Grid) -> Model:
    """Let nodes that stand for all rows of a model of bits look at them (`grid.for_use`)."""
    return record._replace(
        log_likelihood=Partial(_log_likelihood_on_grid, nodes_of_all),
        infer=Partial(_infer_on_grid, nodes_of_all),
        complete=Partial(_complete_on_grid, nodes_of_all),
        row_floats=_floats_of_grid,
    )


def _on_grid(nodes_of_all: grid.Grid, params: Params, batch: Batch) -> tuple[grid.Integral, tuple[Any, ...]]:
    given = nodes_of_all, params.weights, params.bias, batch.values, batch.mask
    return grid.integrate(*given), given


def _log_likelihood_on_grid(nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch) -> Scored:
    found, _ = _on_grid(nodes_of_all, params, batch)
    return Scored(found.log_likelihood, found.error, jnp.zeros((), found.error.dtype), mean=found.mean)


def _infer_on_grid(nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch) -> Posterior:
    found, given = _on_grid(nodes_of_all, params, batch)
    peak = quadrature.mode(ALL_BITS, params, kinds.rows_of(ALL_BITS, params, batch), found.mean)
    return Posterior(found.mean, grid.covariance(found, *given), peak.mean, peak.covariance)


def _complete_on_grid(
    nodes_of_all: grid.Grid, params: Params, shared: Any, batch: Batch
) -> Float[Array, "rows columns"]:
    return _on_grid(nodes_of_all, params, batch)[0].expected


def _floats_of_grid(n: int) -> int:
    return 4 * grid.BLOCK + 4 * n


def _sample(structure: Structure, params: Params, shared: Any, keys: Key[Array, " rows"]) -> Array:
    def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
        latent, rest = jax.random.split(key)
        return kinds.draw(structure.columns, params, jax.random.normal(latent, (structure.q,), params.bias.dtype), rest)

    return jax.vmap(one)(keys)


# ---------------------------------------------------------------- numbers held per row


def floats_of_use(structure: Structure, n: int) -> int:
    q, on_grid = structure.q, structure.on_grid
    points = len(nodes.accurate_rules(q, n, False)[0].nodes) if on_grid else nodes.net_points()
    return 2 * points * structure.columns.n_outputs(n) + 8 * (q + 1) ** 2


def floats_of_bound(structure: Structure, n: int) -> int:
    return 8 * structure.columns.n_outputs(n) + 8 * (structure.q + 1) ** 2


def floats_of_nodes(structure: Structure, n_nodes: Count | None, n: int) -> int:
    rule = quadrature.learning_rule(structure.q, nodes_by(structure, n_nodes, n))
    return 3 * structure.columns.n_outputs(n) * max(len(rule.nodes), FEWEST_POINTS)


def _floats_of_samples(samples: Count, n: int) -> int:
    return 2 * n + 3 * samples.n


# ---------------------------------------------------------------- the record


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
    seen: int | None = None,
    n_rounds: int = 1,
) -> Model:
    """Make the record of a latent trait model.

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
        columns that are observed.
    accelerate
        Parameter expansion and Anderson's method; without, EM is the paper's.
    seen
        Observed columns of nearly every row; None for all columns.
    n_rounds
        Rounds of (8) and (6, 7) in an E-step of variational EM.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    structure = Structure(n_components, columns, equal_discrimination, accelerate)
    precision = None if weight_prior is None else 1 / weight_prior**2
    count = count_for(structure, n_nodes, seen)
    e_step = with_settings(_e_step_quadrature, structure, count)
    start_rows = with_settings(_start_quadrature, structure)
    patience = PATIENCE if accelerate else 1
    few = None if seen is None else float(seen)
    start, start_exact = (with_settings(_start, structure, few, exact) for exact in (False, True))
    stages = _stages(structure, method, count, Count(n_samples), Count(n_rounds), precision, patience, start_exact)
    by_few = any(stage.name == BY_FEW for stage in stages)
    return Model(
        name="latent trait",
        init=with_settings(_init, structure),
        prepare=with_settings(_prepare, structure),
        e_step=e_step,
        update=with_settings(_update, structure, precision),
        objective=with_settings(objective, precision),
        log_likelihood=with_settings(_log_likelihood, structure),
        infer=with_settings(_infer, structure),
        decode=with_settings(_decode, structure),
        complete=with_settings(_complete, structure),
        sample=with_settings(_sample, structure),
        row_floats=with_settings(floats_of_use, structure),
        start=start,
        left=left_of if accelerate and columns == ALL_BITS else None,
        start_rows=start_rows,
        stages=stages,
        # few points tell starts apart; with n_nodes given there is no stage that has fewer
        heats=len(stages) - 1 if by_few else 0,
    )


def _stages(
    structure: Structure,
    method: str,
    n_nodes: Count | None,
    samples: Count,
    rounds: Count,
    precision: Number | None,
    patience: int,
    start_exact: Any,
) -> tuple[Stage, ...]:
    if method == "monte_carlo":
        by_sample = Iterate(
            "sampling EM",
            prepare=with_settings(_prepare_sampling, structure, samples),
            e_step=sampling.e_step,
            update=with_settings(_update_sampling, structure, samples, precision),
            start=start_exact,
            row_floats=with_settings(_floats_of_samples, samples),
            patience=patience,
        )
        return (by_sample,)
    # on the way to quadrature rows start, and are cut, as they are there, so that both stages have the same programs
    # but for the E-step: any posterior is a place to improve the bound from
    same = method == "auto" and structure.on_grid
    start_rows, floats = with_settings(_start_variational, structure), with_settings(floats_of_bound, structure)
    by_bound = Iterate(
        "variational EM",
        measure=Measure.BOUND,
        e_step=with_settings(_e_step_variational, structure, rounds),
        start_rows=with_settings(_start_quadrature, structure) if same else start_rows,
        start=start_exact,  # (11) as it stands; only numbers differ, so the update is the same
        row_floats=with_settings(floats_of_nodes, structure, n_nodes) if same else floats,
        # where it is not the goal, near its optimum is near enough to go on
        tol=1e-4 if method == "auto" else None,
        patience=patience,
    )
    if method == "variational":
        return (by_bound,)
    by_quadrature: tuple[Stage, ...] = (
        Iterate(
            "quadrature EM",
            row_floats=with_settings(floats_of_nodes, structure, n_nodes),
            patience=patience,
            stops_early=True,
        ),
    )
    if not structure.on_grid and n_nodes is None:
        # the objective of a net of few points is no match for that of many, and its optimum not the goal
        few = Count(quadrature.FIRST_NET)
        by_few = Iterate(
            BY_FEW,
            measure=Measure.PROGRESS,
            e_step=with_settings(_e_step_quadrature, structure, few),
            start_rows=with_settings(_start_quadrature, structure),
            row_floats=with_settings(floats_of_nodes, structure, few),
            tol=FEW_POINTS_TOL,
            patience=patience,
        )
        by_quadrature = (by_few, *by_quadrature)
    if method == "quadrature":
        return by_quadrature
    return (by_bound, Transform("waking idle columns", beginning.awake), *by_quadrature)


def _accelerated(
    columns: Columns, state: State, params: Params, value: Float[Array, ""], plain: Params, move: Move, slack: Any
) -> tuple[State, Params]:
    """Expand, then extrapolate; both can be taken back."""
    flat, restore = ravel_pytree(params)
    bold = kinds.transformed(plain, move.inverse, move.shift)
    images = jnp.stack([ravel_pytree(bold)[0], ravel_pytree(plain)[0]])
    memory, ahead, kept = anderson.advance(state.anderson, flat, value, images, slack)
    q = params.weights.shape[1]
    moved = jax.tree.map(lambda a, b: jnp.where(kept, a, b), move, no_move(q))
    # a variance that was extrapolated below what the M-step allows would be kept for its likelihood
    ahead = restore(ahead)
    allowed = kinds.allowed_noise(columns, ahead.log_variance)
    ahead = eqx.tree_at(lambda p: p.log_variance, ahead, allowed)
    return State(memory, moved, state.longest, state.noise, state.caution), ahead
