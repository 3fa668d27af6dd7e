"""Several maps at once: a mixture of latent trait models, the hierarchy that the paper's conclusion asks for.

    p(t) = sum_m share_m p(t | map m),    p(t | map m) as in (1) and (2), with own weights and biases

A row belongs to map m with the responsibility r_m = share_m p(t | m) / p(t).  EM: given the parameters, the expected
complete log-likelihood is the sum over maps of that of one map, every row weighted by r_m; so each map's M-step is
that of `kinds.maximise` with weights r_m, and share_m is the mean of r_m.  With the bound of section 4 in place of
p(t | m) the same is true of sum_m share_m P~(t | m), which is a bound on p(t): "variational" learns by it.  (Bishop &
Tipping 1998 do so with principal components.)

Parameter expansion goes map by map, as the latents of every map have their own prior.  Rows keep a posterior for each
map.  Each computes as in `model.py`, and the results are put together here (`map_params.py`, `maps_beginning.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, Key

from latentbits.core import nodes
from latentbits.core.adam import Number
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, Progress, Stage, Transform
from latentbits.core.products import sum_over_rows
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import beginning, grid, kinds, quadrature, steep, tuning, variational
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
from latentbits.models.latent_trait.kinds import ALL_BITS, Columns
from latentbits.models.latent_trait.map_params import (
    Params,
    each_map,
    one_map,
    responsibilities,
    rows_of,
    turned,
    unchecked,
)
from latentbits.models.latent_trait.maps_beginning import init_params
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

__all__ = ["METHODS", "Posterior", "Stats", "model"]

METHODS = ("auto", "variational", "quadrature")


class Stats(eqx.Module):
    """Sums over rows: the log-likelihood (or its bound), the rows of each map, and what each map's M-step needs."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]  # see sum_rows
    members: Float[Array, " maps"]
    of_maps: kinds.Stats  # each of its arrays with a map in front


class Posterior(eqx.Module):
    """Which map each row is on, and where on it.

    Attributes
    ----------
    mean, covariance, mode, mode_covariance
        On the row's most probable map, as of a single one.
    map
        Its number, from 0.
    responsibilities
        P(map | row).
    means
        Posterior means on all maps.
    """

    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    mode: Float[Array, "rows latents"]
    mode_covariance: Float[Array, "rows latents latents"]
    map: Int[Array, " rows"]
    responsibilities: Float[Array, "rows maps"]
    means: Float[Array, "rows maps latents"]


# ---------------------------------------------------------------- maps, one by one and together


def _no_moves(structure: Structure, n_maps: int) -> Move:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (n_maps, *x.shape)), no_move(structure.q))


# ---------------------------------------------------------------- learning


def _start(
    structure: Structure, n_maps: Count, seen: Number | None, exact: Bool[Array, ""] | bool, params: Params
) -> State:
    return begin(structure, params, _no_moves(structure, n_maps.n), seen, exact)


def _prepare(
    structure: Structure, n_maps: Count, params: Params, state: State | None, progress: Progress | None
) -> Move:
    return _no_moves(structure, n_maps.n) if state is None else state.move


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
    batch: Batch, share: Float[Array, "maps rows"], value: Float[Array, " rows"], of_maps: kinds.Stats
) -> Stats:
    members = sum_over_rows((share * batch.weight).T)
    return Stats(batch.weight.sum(), sum_rows(batch.weight, value), members, of_maps)


def _e_step_variational(
    structure: Structure, rounds: Count, params: Params, shared: Move, batch: Batch, row_state: Gaussian
) -> tuple[Stats, Gaussian]:
    columns = structure.columns
    rows = rows_of(columns, params, batch)

    def improved(one: kinds.Params, move: Move, state: Gaussian) -> Any:
        return variational.improve(columns, one, rows, state.moved(move.matrix, move.shift), rounds.n)

    def stats(one: kinds.Params, found: Any, weight: Float[Array, " rows"]) -> kinds.Stats:
        posterior, bound, contact = found
        return variational.stats_of(columns, one, rows, posterior, bound, contact, weight)

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

    def integrated(one: kinds.Params, move: Move, state: Gaussian) -> Any:
        at = quadrature.placed(columns, one, rows, state.moved(move.matrix, move.shift))
        return at.scale, quadrature.integrate(columns, one, rows, at, rule)

    def stats(one: kinds.Params, integral: quadrature.Integral, weight: Float[Array, " rows"]) -> Any:
        return quadrature.stats_of(columns, one, rows, integral, weight), quadrature.mean_of(integral)

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
    columns = structure.columns
    penalty = 0.0 if precision is None else precision
    maximise = lambda one, part: kinds.maximise(columns, one, part, penalty, False, state.longest)  # noqa: E731
    share = jnp.maximum(stats.members / stats.members.sum(), tuning.LEAST_SHARE_OF_ROWS)
    plain = _joined(jnp.log(share / share.sum()), each_map(maximise, params, stats.of_maps), params)
    if not structure.accelerate:
        return state, plain
    none = _no_moves(structure, len(params.log_share))
    moves = none if precision is not None else jax.vmap(expansion)(_never_empty(stats.of_maps))
    value = objective(precision, params, shared, stats)
    state, ahead = _accelerated(columns, state, params, value, plain, moves, none, stats.n_rows)
    if columns != ALL_BITS:
        return state, ahead
    by_shares = (stats.members - stats.n_rows * jnp.exp(params.log_share)) @ (ahead.log_share - params.log_share)
    return with_left(state, slope_along(stats.of_maps.bits.gradient, penalty, params, ahead) + by_shares), ahead


def _joined(log_share: Float[Array, " maps"], of_maps: kinds.Params, params: Params) -> Params:
    return Params(log_share, of_maps.weights, of_maps.bias, of_maps.log_variance, params.centre, params.scale)


def _never_empty(of_maps: kinds.Stats) -> kinds.Stats:
    """Keep means over the rows of a map numbers, also of a map that no row is on."""
    return eqx.tree_at(lambda s: s.n_rows, of_maps, jnp.maximum(of_maps.n_rows, tuning.LEAST_SHARE_OF_ROWS))


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
    of_maps = each_map(lambda one, move: kinds.transformed(one, move.inverse, move.shift), plain, moves)
    bold = _joined(plain.log_share, of_maps, params)
    state, ahead = accelerated(state, params, value, plain, bold, moves, none, state.noise * n_rows)
    allowed = jax.vmap(lambda noise: kinds.allowed_noise(columns, noise))(ahead.log_variance)
    log_share = jnp.maximum(jax.nn.log_softmax(ahead.log_share), np.log(tuning.LEAST_SHARE_OF_ROWS))
    shares_and_noise = jax.nn.log_softmax(log_share), allowed
    return state, eqx.tree_at(lambda p: (p.log_share, p.log_variance), ahead, shares_and_noise)


# ---------------------------------------------------------------- use


def _answers(structure: Structure, params: Params, batch: Batch, filled: bool = False) -> steep.Answers:
    """Answer for the rows by each map, each answer with a map in front."""
    columns, rows = structure.columns, rows_of(structure.columns, params, batch)
    return each_map(lambda one: steep.answers(columns, one, rows, batch, filled), params)


def _log_likelihood(structure: Structure, params: Params, shared: Any, batch: Batch) -> LogLikelihood:
    of_maps = _answers(structure, params, batch)
    share, value = responsibilities(params.log_share, of_maps.log_likelihood)
    return LogLikelihood(value, jnp.sum(share * of_maps.error, 0), jnp.zeros((), value.dtype))  # may have one sign


def _infer(structure: Structure, params: Params, shared: Any, batch: Batch) -> Posterior:
    columns, rows = structure.columns, rows_of(structure.columns, params, batch)
    of_maps = _answers(structure, params, batch)

    def peak(one: kinds.Params, mean: Float[Array, "rows latents"]) -> tuple[Array, Array]:
        found = quadrature.mode(columns, one, rows, mean)
        return found.mean, found.covariance

    share, _ = responsibilities(params.log_share, of_maps.log_likelihood)
    return _of_best(share, [of_maps.mean, of_maps.covariance, *each_map(peak, params, of_maps.mean)])


def _of_best(share: Float[Array, "maps rows"], places: list[Array]) -> Posterior:
    """Give the places of rows on the maps that they most probably are on: means, modes and their covariances."""
    best = jnp.argmax(share, 0)
    mean, covariance, mode, around = (place[best, jnp.arange(len(best))] for place in places)
    return Posterior(mean, covariance, mode, around, best, share.T, jnp.swapaxes(places[0], 0, 1))


def _decode(structure: Structure, params: Params, latents: Float[Array, "rows numbered"]) -> Array:
    """Compute means of the columns at places of maps; the first entry of `latents` is the number of the map."""

    def one(given: Float[Array, " numbered"]) -> Float[Array, " outputs"]:
        return kinds.expected(structure.columns, one_map(params, given[0].astype(int)), given[1:])

    return jax.vmap(one)(latents)


def _complete(structure: Structure, params: Params, shared: Any, batch: Batch) -> Float[Array, "rows columns"]:
    of_maps = _answers(structure, params, batch, filled=True)
    share, _ = responsibilities(params.log_share, of_maps.log_likelihood)
    return kinds.best_guess(structure.columns, jnp.einsum("mn,mno->no", share, of_maps.expected))


def with_grids(record: Model, grids: tuple[grid.Grid, ...]) -> Model:
    """Let nodes that stand for all rows of bits look at them, a grid for each map."""
    return record._replace(
        log_likelihood=Partial(_log_likelihood_on_grids, grids),
        infer=Partial(_infer_on_grids, grids),
        complete=Partial(_complete_on_grids, grids),
    )


def _on_grids(grids: tuple[grid.Grid, ...], params: Params, batch: Batch) -> tuple[list[Any], Array, Array]:
    """Integrate by each map; give the share of each in the rows, and log p of these."""
    given = [(g, w, b, batch.values, batch.mask) for g, w, b in zip(grids, params.weights, params.bias)]
    found = [grid.integrate(*of_map) for of_map in given]
    share, value = responsibilities(params.log_share, jnp.stack([one.log_likelihood for one in found]))
    return list(zip(given, found)), share, value


def _log_likelihood_on_grids(grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch) -> LogLikelihood:
    of_maps, share, value = _on_grids(grids, params, batch)
    error = jnp.stack([found.error for _, found in of_maps])
    return LogLikelihood(value, jnp.sum(share * error, 0), jnp.zeros((), value.dtype))


def _infer_on_grids(grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch) -> Posterior:
    of_maps, share, _ = _on_grids(grids, params, batch)
    rows = rows_of(ALL_BITS, params, batch)
    parts = []
    for number, (given, found) in enumerate(of_maps):
        peak = quadrature.mode(ALL_BITS, one_map(params, number), rows, found.mean)
        parts.append((found.mean, grid.covariance(found, *given), peak.mean, peak.covariance))
    return _of_best(share, [jnp.stack(part) for part in zip(*parts)])


def _complete_on_grids(
    grids: tuple[grid.Grid, ...], params: Params, shared: Any, batch: Batch
) -> Float[Array, "rows columns"]:
    of_maps, share, _ = _on_grids(grids, params, batch)
    return jnp.einsum("mn,mnd->nd", share, jnp.stack([found.expected for _, found in of_maps]))


def _sample(structure: Structure, params: Params, shared: Any, keys: Key[Array, " rows"]) -> Array:
    def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, latent, rest = jax.random.split(key, 3)
        own = one_map(params, jax.random.categorical(which, params.log_share))
        return kinds.draw(structure.columns, own, jax.random.normal(latent, (structure.q,), params.bias.dtype), rest)

    return jax.vmap(one)(keys)


# ---------------------------------------------------------------- the record


def _floats_of_use(structure: Structure, n_maps: Count, n: int) -> int:
    return n_maps.n * floats_of_use(structure, n)


def _floats_of_bound(structure: Structure, n_maps: Count, n: int) -> int:
    return n_maps.n * floats_of_bound(structure, n)


def _floats_of_nodes(structure: Structure, n_nodes: Count | None, n_maps: Count, n: int) -> int:
    return n_maps.n * floats_of_nodes(structure, n_nodes, n)


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
    start, start_exact = (with_settings(_start, structure, maps, few, exact) for exact in (False, True))
    patience = tuning.PATIENCE_PASSES if accelerate else 1
    stages = _stages(structure, maps, method, count, Count(n_rounds), patience, start_exact)
    return Model(
        name="mixture of latent trait maps",
        init=with_settings(init_params, structure, maps),
        prepare=with_settings(_prepare, structure, maps),
        e_step=with_settings(_e_step_quadrature, structure, count),
        update=with_settings(_update, structure, precision),
        objective=with_settings(objective, precision),
        log_likelihood=with_settings(_log_likelihood, structure),
        infer=with_settings(_infer, structure),
        decode=with_settings(_decode, structure),
        complete=with_settings(_complete, structure),
        sample=with_settings(_sample, structure),
        row_floats=with_settings(_floats_of_use, structure, maps),
        start=start,
        left=left_of if accelerate and columns == ALL_BITS else None,
        start_rows=with_settings(_start_quadrature, structure),
        stages=stages,
        heats=len(stages) - 1,
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
    floats = with_settings(_floats_of_nodes, structure, n_nodes, maps)
    by_bound: dict[str, Any] = {
        "measure": Measure.BOUND,
        "e_step": with_settings(_e_step_variational, structure, rounds),
        "start": start_exact,
        "patience": patience,
    }
    by_nodes: dict[str, Any] = {"row_floats": floats, "patience": patience}
    if method == "auto":
        same = {"start_rows": with_settings(_start_quadrature, structure), "row_floats": floats}
        return (
            Iterate("variational EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_bound, **same),
            Transform("waking idle columns", beginning.awake),
            Iterate("quadrature EM", **by_nodes),
        )
    if method == "variational":
        floats_by_bound = with_settings(_floats_of_bound, structure, maps)
        by_bound |= {"start_rows": with_settings(_start_variational, structure), "row_floats": floats_by_bound}
        return Iterate("variational EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_bound), Iterate(
            "variational EM", **by_bound
        )
    return Iterate("quadrature EM of starts", tol=tuning.NEAR_NATS_PER_ROW, **by_nodes), Iterate(
        "quadrature EM", **by_nodes
    )
