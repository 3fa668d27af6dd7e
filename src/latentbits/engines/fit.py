"""The one training loop: restarts, stages, passes, updates.

It knows neither models nor engines: a model is a record of functions, an engine is a supply of chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from latentbits.core import tree
from latentbits.core.errors import DataError
from latentbits.core.model import Model, Stage
from latentbits.engines.chunks import Layout, layout_for
from latentbits.engines.monitor import Limits, Monitor, Plateau, Record
from latentbits.engines.passes import Clock, Engine, Pass, prepare, sum_blocks
from latentbits.engines.summary import shapes_only, summarise

__all__ = ["FitResult", "fit", "seed_key"]


DEFAULT_LIMITS = Limits()


class FitResult(NamedTuple):
    """What a fit gives back.

    Attributes
    ----------
    params
        The parameters, float64 NumPy leaves.
    objective
        Their objective (the sum over rows, in nats).
    history
        Every pass of the restart that won.
    n_iter
        Its number of passes that ended in an update.
    reason
        Why it stopped: "converged", "max_iter", "max_time" or "interrupted".
    """

    params: PyTree
    objective: float
    history: tuple[Record, ...]
    n_iter: int
    reason: str
    seconds: float


class _Outcome(NamedTuple):
    """How a stage, or a restart, ended."""

    params: PyTree
    objective: float
    n_iter: int
    reason: str


def seed_key(seed: int) -> Key[Array, ""]:
    """The key of a seed; the generator is named, so that a global setting of JAX changes no result."""
    return jax.random.key(seed, impl="threefry2x32")


def fit(
    model: Model,
    engine: Engine,
    key: Key[Array, ""],
    *,
    params: PyTree | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_init: int = 1,
    dtype: Any = np.float32,
    verbose: int = 0,
    memory_budget: int | None = None,
) -> FitResult:
    """Learn a model from the rows of an engine.

    Parameters
    ----------
    model, engine
        What to learn, and from where.
    key
        The only source of randomness.
    params
        Starting parameters; None lets the model make its own.
    limits
        Iterations, tolerance and seconds.
    n_init
        Number of restarts; the one with the best objective is kept.
    dtype
        Precision of the rows, float32 or float64.
    verbose
        Above 0: a progress bar, if standard error is a terminal.
    memory_budget
        Bytes that a chunk's E-step may take; None chooses by device.

    Notes
    -----
    On Ctrl-C, or when the time is over, the best parameters so far are returned and `reason` says so.
    """
    dtype = np.dtype(dtype)
    if n_init > 1 and not model.stages[-1].comparable:
        raise ValueError(
            f"n_init must be 1 for {model.name}, got {n_init}: its last stage has no likelihood or bound by which "
            "restarts could be ranked"
        )
    layout = layout_for(engine.n_features + model.row_floats, dtype, memory_budget)
    best: _Outcome | None = None
    best_restart = 0
    with Monitor(limits, verbose, model.name) as monitor:
        summary = summarise(engine, layout) if model.needs_summary else shapes_only(engine)
        for restart in range(n_init):
            run_key = jax.random.fold_in(key, restart)
            with tree.double():
                start = _call(model.init, jax.random.fold_in(run_key, 0), summary) if params is None else params
            try:
                run = _run_stages(model, engine, layout, start, run_key, monitor, restart, n_init)
            except KeyboardInterrupt:
                if best is None:
                    raise  # nothing has been learned yet
                run = best._replace(reason="interrupted")
            unfinished = run.reason in ("interrupted", "max_time")
            # a run that was cut short may end in another stage: its objective is no match for those of finished runs
            if best is None or (not unfinished and run.objective > best.objective):
                best, best_restart = run, restart
            if unfinished:
                best = best._replace(reason=run.reason)
                break
        seconds = monitor.seconds
    assert best is not None
    history = tuple(r for r in monitor.history if r.restart == best_restart)
    return FitResult(tree.to_numpy(best.params), best.objective, history, best.n_iter, best.reason, seconds)


def _run_stages(
    model: Model,
    engine: Engine,
    layout: Layout,
    params: PyTree,
    run_key: Key[Array, ""],
    monitor: Monitor,
    restart: int,
    n_restarts: int,
) -> _Outcome:
    n_iter, outcome = 0, _Outcome(params, -np.inf, 0, "max_iter")
    for number, stage in enumerate(model.stages):
        stage_key = jax.random.fold_in(run_key, number + 1)
        max_iter = monitor.limits.max_iter if stage.max_iter is None else stage.max_iter
        monitor.begin_stage(restart, n_restarts, stage.name, max_iter)
        run = _StageRun(model.acting_in(stage), stage, engine, layout, monitor, restart, max_iter, stage_key)
        try:
            outcome = run.from_params(_begin(stage, jax.random.fold_in(stage_key, 0), outcome.params))
        except KeyboardInterrupt:  # before this stage had learned anything
            if number == 0:
                raise
            outcome = outcome._replace(n_iter=0, reason="interrupted")
        n_iter += outcome.n_iter
        if outcome.reason in ("interrupted", "max_time"):
            break
    return outcome._replace(n_iter=n_iter)


def _begin(stage: Stage, key: Key[Array, ""], params: PyTree) -> PyTree:
    with tree.double():
        params = stage.begin(key, params)
        # plain arrays: JAX's weak types would compile everything twice
        return jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), params)


class _Position(NamedTuple):
    """A point in parameter space with all that is derived from it, in float64 and in the precision of the rows."""

    params: PyTree
    state: PyTree
    shared: PyTree
    params_rows: PyTree
    shared_rows: PyTree


class _Passed(NamedTuple):
    """One pass: the objective of where it began (in minibatch stages, along its way), and where it leads."""

    objective: float
    n_rows: float
    watched: dict[str, float]
    stats: PyTree
    ahead: _Position


class _StageRun:
    """One run of one stage."""

    def __init__(
        self,
        model: Model,
        stage: Stage,
        engine: Engine,
        layout: Layout,
        monitor: Monitor,
        restart: int,
        max_iter: int,
        key: Key[Array, ""],
    ) -> None:
        self.model, self.stage, self.engine = model, stage, engine
        self.layout = layout._replace(rows_per_update=stage.rows_per_update)
        self.minibatch = stage.rows_per_update is not None
        self.monitor, self.restart, self.max_iter = monitor, restart, max_iter
        self.row_key, self.update_key = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
        self.row_states: dict[int, PyTree] = {}
        self.step = 0

    def from_params(self, params: PyTree) -> _Outcome:
        """Passes and updates until the stage is over, or the time, or the user's patience."""
        stage, limits = self.stage, self.monitor.limits
        evaluates = stage.comparable and not self.minibatch  # each pass tells the objective of one point
        plateau = Plateau(limits.tol if stage.tol is None else stage.tol, stage.patience)
        best = _Outcome(params, -np.inf, 0, "max_iter")
        here, n_iter, reason = self._start(params), 0, "max_iter"
        try:
            while n_iter < self.max_iter or (evaluates and n_iter == self.max_iter):
                passed = self._pass(here, n_iter)
                self._record(n_iter, passed.objective, passed.watched)
                if stage.one_pass:
                    objective = self._objective(passed.ahead, passed.stats)
                    self._record(1, objective, {})
                    return _Outcome(passed.ahead.params, objective, 1, "converged")
                if evaluates and passed.objective >= best.objective:
                    best = _Outcome(here.params, passed.objective, n_iter, reason)
                if plateau.reached(passed.objective, passed.n_rows):
                    reason = "converged"
                    break
                if self.monitor.out_of_time:
                    reason = "max_time"
                    break
                if n_iter == self.max_iter:
                    break
                here, n_iter = passed.ahead, n_iter + 1
                if self._done(here):
                    reason = "converged"
                    evaluates = False  # the point we stand on has not been evaluated yet
                    break
            if stage.comparable and not evaluates:
                objective = self._evaluate(here, n_iter)
                if objective >= best.objective:
                    best = _Outcome(here.params, objective, n_iter, reason)
        except KeyboardInterrupt:
            if n_iter == 0 and best.objective == -np.inf:
                raise
            reason = "interrupted"
        if best.objective == -np.inf:  # nothing comparable was evaluated: the last point is the answer
            best = best._replace(params=here.params)
        return best._replace(n_iter=n_iter, reason=reason)

    def _start(self, params: PyTree) -> _Position:
        with tree.double():
            state = None if self.model.start is None else _call(self.model.start, params)
        shared, *in_rows = prepare(self.model, self.layout.dtype, params, state, self._clock(0))
        return _Position(params, state, shared, *in_rows)

    def _pass(self, here: _Position, iteration: int) -> _Passed:
        """One pass over the rows, with an update at its end or, in minibatch stages, after every block."""
        objective, n_rows, passed = 0.0, 0.0, None
        blocks = sum_blocks(
            self.model,
            self.engine,
            self.layout,
            lambda: self._given(here, iteration),
            self.row_states,
        )
        for stats in blocks:
            value, watched, ahead = self._advance(here, stats, iteration)
            objective, n_rows = objective + float(value), n_rows + float(stats.n_rows)
            passed = _Passed(objective, n_rows, {k: float(x) for k, x in watched.items()}, stats, ahead)
            if self.minibatch:
                here = ahead
        if passed is None:
            raise DataError("X has no rows: at least one is needed to learn from.")
        return passed

    def _advance(self, here: _Position, stats: PyTree, iteration: int) -> tuple[Array, dict[str, Array], _Position]:
        now = self._clock(iteration)
        self.step += 1
        following = self._clock(iteration if self.minibatch else iteration + 1)
        model = self.model
        functions = (model.update, model.prepare, model.objective, model.watch)
        with tree.double():
            value, watched, position = _advance(
                functions, self.layout.dtype, here.state, here.params, here.shared, stats, now, following
            )
        return value, watched, _Position(*position)

    def _given(self, here: _Position, iteration: int) -> Pass:
        return Pass(here.params_rows, here.shared_rows, self.row_key, np.uint32(iteration))

    def _clock(self, iteration: int) -> Clock:
        return Clock(np.int32(iteration), np.int32(self.max_iter), np.int32(self.step), self.update_key)

    def _evaluate(self, here: _Position, iteration: int) -> float:
        """The objective of a point that no full pass has seen: one more pass, and no update."""
        whole = self.layout._replace(rows_per_update=None)
        given = self._given(here, iteration)
        (stats,) = sum_blocks(self.model, self.engine, whole, lambda: given, {})
        objective = self._objective(here, stats)
        self._record(iteration, objective, {})
        return objective

    def _done(self, here: _Position) -> bool:
        with tree.double():
            return self.model.done is not None and bool(_call(self.model.done, here.state))

    def _objective(self, here: _Position, stats: PyTree) -> float:
        with tree.double():
            return float(_call(self.model.objective, here.params, here.shared, stats))

    def _record(self, iteration: int, objective: float, watched: dict[str, float]) -> None:
        self.monitor.record(Record(self.restart, self.stage.name, iteration, objective, self.monitor.seconds, watched))


@partial(jax.jit, static_argnames=("functions", "dtype"))
def _advance(
    functions: tuple[Callable[..., Any], ...],
    dtype: np.dtype,
    state: PyTree,
    params: PyTree,
    shared: PyTree,
    stats: PyTree,
    now: Clock,
    following: Clock,
) -> tuple[Array, dict[str, Array], tuple[PyTree, ...]]:
    """Objective, update and the preparation of the next pass in one compiled call."""
    update, prepare_, objective, watch = functions
    value, watched = objective(params, shared, stats), watch(params)
    state, params = update(state, params, shared, stats, now.progress())
    shared = prepare_(params, state, following.progress())
    return value, watched, (params, state, shared, tree.cast(params, dtype), tree.cast(shared, dtype))


@partial(jax.jit, static_argnums=0)
def _call(function: Callable[..., Any], *args: PyTree) -> Any:
    return function(*args)
