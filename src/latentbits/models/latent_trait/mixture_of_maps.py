"""Several maps at once: a mixture of latent trait models, the hierarchy that the paper's conclusion asks for.

    p(t) = sum_m share_m p(t | map m),    p(t | map m) as in (1) and (2), with own weights and biases

A row belongs to map m with the responsibility r_m = share_m p(t | m) / p(t).  EM: given the parameters, the expected
complete log-likelihood is the sum over maps of that of one map, every row weighted by r_m; so each map's M-step is
that of `kinds.maximise` with weights r_m, and share_m is the mean of r_m.  With the bound of section 4 in place of
p(t | m) the same is true of sum_m share_m P~(t | m), which is a bound on p(t): "variational" learns by it.  (Bishop &
Tipping 1998 do so with principal components.)

Parameter expansion goes map by map, as the latents of every map have their own prior.  Rows keep a posterior for each
map.  Each computes as in `model.py`, and the results are put together here (`map_params.py`, `maps_initialisation.py`,
`maps_use.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from latentbits.core import nodes
from latentbits.core.adam import Number
from latentbits.core.arrays import Array, each, namespace
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import sum_over_rows
from latentbits.core.gaussians import Gaussian
from latentbits.core.model import Iterate, Measure, Model, Progress, Stage, Transform
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import column_kinds, initialisation, maps_use, quadrature, tuning, variational
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
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns
from latentbits.models.latent_trait.map_params import Params, each_map, responsibilities, rows_of, turned, unchecked
from latentbits.models.latent_trait.maps_initialisation import init_params
from latentbits.models.latent_trait.model import objective
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

__all__ = ["METHODS", "Stats", "model"]

METHODS = ("auto", "variational", "quadrature")


class Stats(Module):
    """Sums over rows: the log-likelihood (or its bound), the rows of each map, and what each map's M-step needs."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]  # see sum_rows
    members: Float[Array, " maps"]
    of_maps: column_kinds.Stats  # each of its arrays with a map in front


def _no_moves(structure: Structure, params: Params) -> Move:
    xp = namespace(params)
    return jax.tree.map(lambda x: xp.broadcast_to(x, (len(params.bias), *x.shape)), no_move(structure.q, xp))


# ---------------------------------------------------------------- learning


def _start(structure: Structure, seen: Number | None, exact: Bool[Array, ""] | bool, params: Params) -> State:
    return begin(structure, params, _no_moves(structure, params), seen, exact)


def _prepare(structure: Structure, params: Params, state: State | None, progress: Progress | None) -> Move:
    return _no_moves(structure, params) if state is None else state.move


def _start_variational(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    rows = rows_of(columns, params, batch)
    start = lambda one, move: back(move, variational.converge(columns, one, rows))  # noqa: E731
    return turned(each_map(start, params, shared))


def _start_quadrature(structure: Structure, params: Params, shared: Move, batch: Batch) -> Gaussian:
    columns = structure.columns
    rows = rows_of(columns, params, batch)
    start = lambda one, move: back(move, quadrature.start(columns, one, rows))  # noqa: E731
    return turned(each_map(start, params, shared))


def _summed(
    batch: Batch, share: Float[Array, "maps rows"], value: Float[Array, " rows"], of_maps: column_kinds.Stats
) -> Stats:
    members = sum_over_rows((share * batch.weight).T)
    return Stats(batch.weight.sum(), sum_rows(batch.weight, value), members, of_maps)


def _e_step_variational(
    structure: Structure, rounds: Count, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = rows_of(columns, params, batch)

    def improved(one: column_kinds.Params, move: Move, state: Gaussian) -> Any:
        return variational.improve(columns, one, rows, state.moved(move.matrix, move.shift), rounds.n)

    def stats(one: column_kinds.Params, found: Any, weight: Float[Array, " rows"]) -> column_kinds.Stats:
        posterior, bound, contact = found
        return variational.stats_of(columns, one, rows, posterior, bound, contact, weight)

    # all maps first: what a row weighs in one depends on the others
    found = each_map(improved, params, shared, turned(row_state))
    share, value = responsibilities(params.log_share, found[1])
    of_maps = each_map(stats, params, found, share * batch.weight)
    return _summed(batch, share, value, of_maps), turned(found[0])


def _e_step_quadrature(
    structure: Structure, n_nodes: Count | None, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = rows_of(columns, params, batch)
    rule = quadrature.learning_rule(structure.q, nodes_by(structure, n_nodes, batch.values.shape[1]))

    def integrated(one: column_kinds.Params, move: Move, state: Gaussian) -> Any:
        at = quadrature.placed(columns, one, rows, state.moved(move.matrix, move.shift))
        return at.scale, quadrature.integrate(columns, one, rows, at, rule)

    def stats(one: column_kinds.Params, integral: quadrature.Integral, weight: Float[Array, " rows"]) -> Any:
        return quadrature.stats_of(columns, one, rows, integral, weight), quadrature.mean_of(integral)

    # all maps first: what a row weighs in one depends on the others
    scale, integrals = each_map(integrated, params, shared, turned(row_state))
    share, value = responsibilities(params.log_share, integrals.log_likelihood)
    of_maps, mean = each_map(stats, params, integrals, share * batch.weight)
    return _summed(batch, share, value, of_maps), unchecked(Gaussian, *turned((mean, scale)))


def _update(
    structure: Structure,
    precision: Number | None,
    state: State,
    params: Params,
    shared: Move,
    stats: Stats,
    progress: Progress,
) -> tuple[State, Params]:
    columns, xp = structure.columns, namespace(params)
    penalty = 0.0 if precision is None else precision
    maximise = lambda one, part: column_kinds.maximise(columns, one, part, penalty, False, state.longest)  # noqa: E731
    share = xp.maximum(stats.members / stats.members.sum(), tuning.LEAST_SHARE_OF_ROWS)
    plain = _joined(xp.log(share / share.sum()), each_map(maximise, params, stats.of_maps), params)
    if not structure.accelerate:
        return state, plain
    none = _no_moves(structure, params)
    moves = none if precision is not None else each(expansion, _never_empty(stats.of_maps))
    value = objective(precision, params, shared, stats)
    state, ahead = _accelerated(columns, state, params, value, plain, moves, none, stats.n_rows)
    if columns != ALL_BITS:
        return state, ahead
    by_shares = (stats.members - stats.n_rows * xp.exp(params.log_share)) @ (ahead.log_share - params.log_share)
    return with_left(state, slope_along(stats.of_maps.bits.gradient, penalty, params, ahead) + by_shares), ahead


def _joined(log_share: Float[Array, " maps"], of_maps: column_kinds.Params, params: Params) -> Params:
    return Params(log_share, of_maps.weights, of_maps.bias, of_maps.log_variance, params.centre, params.scale)


def _never_empty(of_maps: column_kinds.Stats) -> column_kinds.Stats:
    """Keep means over the rows of a map numbers, also of a map that no row is on."""
    n_rows = namespace(of_maps).maximum(of_maps.n_rows, tuning.LEAST_SHARE_OF_ROWS)
    return of_maps.replace(n_rows=n_rows)


def _accelerated(
    columns: Columns,
    state: State,
    params: Params,
    value: Float[Array, ""],
    plain: Params,
    moves: Move,
    none: Move,
    n_rows: Float[Array, ""],
) -> tuple[State, Params]:
    """Expand every map, then extrapolate all; shares and variances stay such as the M-step allows."""
    of_maps = each_map(lambda one, move: column_kinds.transformed(one, move.inverse, move.shift), plain, moves)
    bold = _joined(plain.log_share, of_maps, params)
    state, ahead = accelerated(state, params, value, plain, bold, moves, none, state.noise * n_rows)
    allowed = each(lambda noise: column_kinds.allowed_noise(columns, noise), ahead.log_variance)
    least = np.log(tuning.LEAST_SHARE_OF_ROWS)
    log_share = _log_softmax(namespace(ahead).maximum(_log_softmax(ahead.log_share), least))
    return state, ahead.replace(log_share=log_share, log_variance=allowed)


def _log_softmax(x: Float[Array, " maps"]) -> Float[Array, " maps"]:
    xp, away = namespace(x), x - x.max()
    return away - xp.log(xp.exp(away).sum())


# ---------------------------------------------------------------- the record


def _floats(n_maps: Count, of_one: Any, n: int) -> int:
    return n_maps.n * of_one(n)


@cache
def model(
    n_maps: int,
    n_components: int = 2,
    method: str = "auto",
    columns: Columns = ALL_BITS,
    weight_prior: float | None = None,
    n_nodes: int | None = None,
    accelerate: bool = True,
    seen: int | None = None,
    n_rounds: int = 1,
) -> Model:
    """Make the record of a mixture of latent trait maps.

    Parameters
    ----------
    n_maps
        Number of maps, at least 2.
    n_components
        Latent dimensions of each, up to three.
    method, columns, weight_prior, n_nodes, accelerate, seen, n_rounds
        The same as those of `latent_trait.model.model`; there is no sampling.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS} for several maps, got {method!r}")
    structure = Structure(n_components, columns, False, accelerate)
    if not structure.on_grid:
        raise ValueError(f"maps have up to {nodes.MOST_GRID} dimensions where they are several, got {n_components}")
    precision = None if weight_prior is None else 1 / weight_prior**2
    count, maps = count_for(structure, n_nodes, seen), Count(n_maps)
    few = None if seen is None else float(seen)
    start, start_exact = (with_settings(_start, structure, few, exact) for exact in (False, True))
    patience = tuning.PATIENCE_PASSES if accelerate else 1
    stages = _stages(structure, maps, method, count, Count(n_rounds), patience, start_exact)
    return Model(
        name="mixture of latent trait maps",
        init=with_settings(init_params, structure, maps),
        prepare=with_settings(_prepare, structure),
        e_step=with_settings(_e_step_quadrature, structure, count),
        update=with_settings(_update, structure, precision),
        objective=with_settings(objective, precision),
        log_likelihood=with_settings(maps_use.log_likelihood, structure),
        infer=with_settings(maps_use.infer, structure),
        decode=with_settings(maps_use.decode, structure),
        complete=with_settings(maps_use.complete, structure),
        sample=with_settings(maps_use.sample, structure),
        row_floats=with_settings(_floats, maps, with_settings(floats_of_use, structure)),
        start=start,
        left=left_of if accelerate and columns == ALL_BITS else None,
        start_rows=with_settings(_start_quadrature, structure),
        stages=stages,
        heats=len(stages) - 1,
        on_host=True,
    )


def _stages(
    structure: Structure,
    maps: Count,
    method: str,
    n_nodes: Count | None,
    rounds: Count,
    patience: int,
    start_exact: Any,
) -> tuple[Stage, ...]:
    """Take starts a part of the way, by the bound where that is near enough; the best goes on alone."""
    floats = with_settings(_floats, maps, with_settings(floats_of_nodes, structure, n_nodes))
    by_bound: dict[str, Any] = {
        "measure": Measure.BOUND,
        "e_step": with_settings(_e_step_variational, structure, rounds),
        "start": start_exact,
        "patience": patience,
    }
    by_nodes: dict[str, Any] = {"row_floats": floats, "patience": patience}
    if method == "auto":
        # rows start, and are cut, as in the last stage, so that both have the same programs but for the E-step
        same = {"start_rows": with_settings(_start_quadrature, structure), "row_floats": floats}
        return (
            Iterate("variational EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_bound, **same),
            Transform("waking idle columns", initialisation.awake),
            Iterate("quadrature EM", **by_nodes),
        )
    if method == "variational":
        floats_by_bound = with_settings(_floats, maps, with_settings(floats_of_bound, structure))
        by_bound |= {"start_rows": with_settings(_start_variational, structure), "row_floats": floats_by_bound}
        return Iterate("variational EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_bound), Iterate(
            "variational EM", **by_bound
        )
    return Iterate("quadrature EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_nodes), Iterate(
        "quadrature EM", **by_nodes
    )
