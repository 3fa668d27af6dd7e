"""The latent trait model of Tipping (1998): Gaussian latents, logistic bits; the model record.

    x ~ N(0, I_q),    P(t_i = 1 | x) = sigmoid(w_i.x + b_i)                        (1), (2)

The paper's numbered equations are in `equations.py`; the README of `papers/tipping_1998` says where each is in use.

Beyond the paper: continuous and categorical columns (`column_kinds.py`), missing entries (left out of every sum),
EM by adaptive quadrature, and two accelerations.  Parameter expansion (Liu, Rubin & Wu 1998) lets the prior of the
latents be any Gaussian during the M-step, and then folds its mean and covariance back into weights and biases;
Anderson's method extrapolates the sequence (`core/anderson.py`), and takes back what did not help.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jaxtyping import Bool, Float

from latentbits.core import nodes
from latentbits.core.adam import Number
from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.model import Iterate, Measure, Model, Progress, Stage, Summary, Transform
from latentbits.models.latent_trait import column_kinds, initialisation, quadrature, sampling, tuning, use, variational
from latentbits.models.latent_trait.acceleration import (
    Move,
    State,
    accelerated,
    back,
    begin,
    expansion,
    left_of,
    no_move,
    slope_along,
    with_left,
)
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns, Params, Stats
from latentbits.models.latent_trait.structure import (
    Count,
    Structure,
    count_for,
    floats_of_bound,
    floats_of_nodes,
    floats_of_use,
    nodes_by,
    with_settings,
)

__all__ = ["METHODS", "model", "objective"]

METHODS = ("auto", "variational", "quadrature", "monte_carlo")
BY_FEW = "quadrature EM by few points"


# ---------------------------------------------------------------- learning


def _init(structure: Structure, key: AnyKey, summary: Summary) -> Params:
    return initialisation.init_params(structure.q, structure.columns, structure.tied, key, summary)


def _start(structure: Structure, seen: Number | None, exact: Bool[Array, ""] | bool, params: Params) -> State:
    return begin(structure, params, no_move(structure.q, namespace(params)), seen, exact)


def _prepare(structure: Structure, params: Params, state: State | None, progress: Progress | None) -> Move:
    return no_move(structure.q, namespace(params)) if state is None else state.move


def _prepare_sampling(
    structure: Structure, samples: Count, params: Params, state: State | None, progress: Progress | None
) -> sampling.Shared:
    return sampling.prepare(params, sampling.prior_sample(samples.n, structure.q))


def _start_variational(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    return back(shared, variational.converge(columns, params, column_kinds.rows_of(columns, params, batch)))


def _start_quadrature(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    return back(shared, quadrature.start(columns, params, column_kinds.rows_of(columns, params, batch)))


def _e_step_variational(
    structure: Structure, rounds: Count, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = column_kinds.rows_of(columns, params, batch)
    posterior = row_state.moved(shared.matrix, shared.shift)
    posterior, bound, contact = variational.improve(columns, params, rows, posterior, rounds.n)
    return variational.stats_of(columns, params, rows, posterior, bound, contact, batch.weight), posterior


def _e_step_quadrature(
    structure: Structure, n_nodes: Count | None, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = column_kinds.rows_of(columns, params, batch)
    rule = quadrature.learning_rule(structure.q, nodes_by(structure, n_nodes, batch.values.shape[1]))
    at = quadrature.placed(columns, params, rows, row_state.moved(shared.matrix, shared.shift))
    spread = at if structure.on_grid else nodes.for_net(at, batch.rows)
    integral = quadrature.integrate(columns, params, rows, spread, rule)
    stats = quadrature.stats_of(columns, params, rows, integral, batch.weight)
    return stats, Gaussian(quadrature.mean_of(integral), at.scale)


def objective(precision: Number | None, params: Any, shared: Any, stats: Any) -> Float[Array, ""]:
    """Compute log-likelihood or bound, less the penalty of a prior of this precision (None for none)."""
    total = stats.objective.sum()
    return total if precision is None else total - 0.5 * precision * (params.weights**2).sum()


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
    plain = column_kinds.maximise(columns, params, stats, penalty, structure.tied, state.longest)
    if not structure.accelerate:
        return state, plain
    move = expansion(stats) if precision is None else no_move(q)
    value = objective(precision, params, shared, stats)
    state, ahead = _accelerated(columns, state, params, value, plain, move, state.noise * stats.n_rows)
    if columns != ALL_BITS:
        return state, ahead
    return with_left(state, slope_along(stats.bits.gradient, penalty, params, ahead)), ahead


def _accelerated(
    columns: Columns, state: State, params: Params, value: Float[Array, ""], plain: Params, move: Move, slack: Any
) -> tuple[State, Params]:
    """Expand, then extrapolate; variances stay such as the M-step allows, which an extrapolated one would not."""
    bold = column_kinds.transformed(plain, move.inverse, move.shift)
    state, ahead = accelerated(state, params, value, plain, bold, move, no_move(params.weights.shape[1]), slack)
    return state, ahead.replace(log_variance=column_kinds.allowed_noise(columns, ahead.log_variance))


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


# ---------------------------------------------------------------- numbers held per row


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
    patience = tuning.PATIENCE_PASSES if accelerate else 1
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
        log_likelihood=with_settings(use.log_likelihood, structure),
        infer=with_settings(use.infer, structure),
        decode=with_settings(use.decode, structure),
        complete=with_settings(use.complete, structure),
        sample=with_settings(use.sample, structure),
        row_floats=with_settings(floats_of_use, structure),
        start=start,
        left=left_of if accelerate and columns == ALL_BITS else None,
        start_rows=start_rows,
        stages=stages,
        # few points are enough to choose among starts; with n_nodes given there is no stage that has fewer
        heats=len(stages) - 1 if by_few else 0,
        on_host=method != "monte_carlo",  # whose M-step passes over all samples several times
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
        tol=tuning.NEAR_NATS_PER_ROW if method == "auto" else None,
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
        few = Count(tuning.FIRST_NET_LOG2_POINTS)
        by_few = Iterate(
            BY_FEW,
            measure=Measure.PROGRESS,
            e_step=with_settings(_e_step_quadrature, structure, few),
            start_rows=with_settings(_start_quadrature, structure),
            row_floats=with_settings(floats_of_nodes, structure, few),
            tol=1e-5,  # a few points are not right to more
            patience=patience,
        )
        by_quadrature = (by_few, *by_quadrature)
    if method == "quadrature":
        return by_quadrature
    return (by_bound, Transform("waking idle columns", initialisation.awake), *by_quadrature)
