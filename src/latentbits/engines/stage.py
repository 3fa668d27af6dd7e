"""One stage of learning: passes over the rows, each with its update, until the stage is over."""

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
from latentbits.engines.chunks import layout_for
from latentbits.engines.monitor import Monitor, Plateau, Record
from latentbits.engines.passes import PREPARE, UPDATE, Clock, Engine, Pass, prepare, sum_blocks

__all__ = ["Outcome", "Run", "StageRun", "call"]


class Run(NamedTuple):
    """What all stages of one restart share."""

    engine: Engine
    dtype: np.dtype
    budget: int | None
    monitor: Monitor
    restart: int


class Outcome(NamedTuple):
    """How a stage, or a restart, ended; see `latentbits.engines.fit.FitResult`."""

    params: PyTree
    state: PyTree
    objective: float
    n_iter: int
    reason: str
    in_last_stage: bool = False


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
    watched: dict[str, Any]
    stats: PyTree
    ahead: _Position
    done: bool


class StageRun:
    """One run of one stage.

    Parameters
    ----------
    model
        With the functions that the stage replaces.
    stage, run
        What to do, and with what.
    max_iter
        Most passes with an update.
    key
        Of this stage; the purposes folded into it here are those that `engines/fit.py` leaves.
    """

    def __init__(self, model: Model, stage: Stage, run: Run, max_iter: int, key: Key[Array, ""]) -> None:
        self.model, self.stage, self.run, self.max_iter = model, stage, run, max_iter
        layout = layout_for(model.row_floats(run.engine.n_features), run.dtype, run.budget)
        self.layout = layout._replace(rows_per_update=stage.rows_per_update)
        self.minibatch = stage.rows_per_update is not None
        self.row_key, self.update_key = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
        self.row_states: dict[int, PyTree] = {}
        self.step = 0

    def from_params(self, params: PyTree) -> Outcome:
        """Passes and updates until the stage is over, or the time, or the user's patience."""
        stage, monitor = self.stage, self.run.monitor
        evaluates = stage.comparable and not self.minibatch  # each pass tells the objective of one point
        plateau = Plateau(monitor.limits.tol if stage.tol is None else stage.tol, stage.patience, stage.patience_share)
        n_iter, reason = 0, "completed" if stage.tol == -np.inf else "max_iter"
        best = Outcome(params, None, -np.inf, 0, reason)
        self.here, state = self._start(params), None
        try:
            while n_iter < self.max_iter or (evaluates and n_iter == self.max_iter):
                passed = self._pass(n_iter)
                state = passed.ahead.state
                self._record(n_iter, passed.objective, passed.watched)
                if stage.one_pass:
                    objective = self._objective(passed.ahead, passed.stats)
                    self._record(1, objective, {})
                    return Outcome(passed.ahead.params, state, objective, 1, "converged")
                if evaluates and passed.objective >= best.objective:
                    best = best._replace(params=self.here.params, objective=passed.objective)
                if evaluates and n_iter == self.max_iter:
                    reason = "converged" if plateau.reached(passed.objective, passed.n_rows) else reason
                    break
                if self.minibatch and monitor.out_of_time:  # the pass may be a part of one
                    self.here, n_iter, reason, evaluates = passed.ahead, n_iter + 1, "max_time", True
                    break
                if plateau.reached(passed.objective, passed.n_rows):
                    reason = "converged"
                    break
                if monitor.out_of_time:
                    reason = "max_time"
                    break
                self.here, n_iter = passed.ahead, n_iter + 1
                if passed.done:
                    reason, evaluates = "converged", False  # the point we stand on has not been evaluated yet
                    break
            if stage.comparable and not evaluates:
                objective = self._evaluate(n_iter)
                if objective >= best.objective:
                    best = best._replace(params=self.here.params, objective=objective)
        except KeyboardInterrupt:
            if (self.here if best.objective == -np.inf else best).params is params:
                raise  # where it started is the best we know: nothing has been learned yet
            reason = "interrupted"
        if best.objective == -np.inf:  # nothing comparable was evaluated: the last point is the answer
            best = best._replace(params=self.here.params)
        return best._replace(state=state, n_iter=n_iter, reason=reason)

    def _start(self, params: PyTree) -> _Position:
        with tree.double():
            state = None if self.model.start is None else tree.strong(call(self.model.start, params))
        shared, *in_rows = prepare(self.model, self.run.dtype, params, state, self._clock(0))
        return _Position(params, state, shared, *in_rows)

    def _pass(self, iteration: int) -> _Passed:
        """One pass over the rows, with an update at its end or, in minibatch stages, after every block."""
        objective, n_rows, passed = 0.0, 0.0, None
        given = partial(self._given, iteration)
        for stats in sum_blocks(self.model, self.run.engine, self.layout, given, self.row_states):
            told, ahead = self._advance(stats, iteration)
            # one transfer for all that the loop wants to know
            value, rows, done, watched = jax.device_get((told.value, stats.n_rows, told.done, told.watched))
            objective, n_rows = objective + float(value), n_rows + float(rows)
            passed = _Passed(
                objective,
                n_rows,
                {k: float(x) if np.ndim(x) == 0 else x for k, x in watched.items()},
                stats,
                ahead,
                bool(done),
            )
            if self.minibatch:
                self.here = ahead
                if self.run.monitor.out_of_time:
                    return passed
        if passed is None:
            raise DataError("X has no rows: at least one is needed to learn from.")
        self.run.monitor.check_rows(n_rows)
        return passed

    def _advance(self, stats: PyTree, iteration: int) -> tuple[_Told, _Position]:
        here, now = self.here, self._clock(iteration)
        ahead = iteration if self.minibatch else iteration + 1
        following = now._replace(iteration=np.int32(ahead), step=np.int32(self.step + 1))
        model = self.model
        functions = _Functions(model.update, model.prepare, model.objective, model.watch, model.done)
        with tree.double():
            told, position = _advance(
                functions, self.run.dtype, here.state, here.params, here.shared, stats, now, following
            )
        self.step += 1
        return told, _Position(*position)

    def _given(self, iteration: int) -> Pass:
        return Pass(self.here.params_rows, self.here.shared_rows, self.row_key, np.uint32(iteration))

    def _clock(self, iteration: int) -> Clock:
        return Clock(np.int32(iteration), np.int32(self.max_iter), np.int32(self.step), self.update_key)

    def _evaluate(self, iteration: int) -> float:
        """The objective of a point that no full pass has seen: one more pass, and no update."""
        whole = self.layout._replace(rows_per_update=None)
        row_states = {} if self.minibatch else self.row_states  # those of other chunks would not fit
        (stats,) = sum_blocks(self.model, self.run.engine, whole, partial(self._given, iteration), row_states)
        objective = self._objective(self.here, stats)
        self._record(iteration, objective, {})
        return objective

    def _objective(self, here: _Position, stats: PyTree) -> float:
        with tree.double():
            return float(call(self.model.objective, here.params, here.shared, tree.widen(stats)))

    def _record(self, iteration: int, objective: float, watched: dict[str, Any]) -> None:
        monitor = self.run.monitor
        monitor.record(Record(self.run.restart, self.stage.name, iteration, objective, monitor.seconds, watched))


# Functions of a model are static arguments: model constructors are cached, so that two fits with the same
# hyper-parameters share their compiled code.


class _Functions(NamedTuple):
    """Of a model: those of one step."""

    update: Callable[..., Any]
    prepare: Callable[..., Any]
    objective: Callable[..., Any]
    watch: Callable[..., Any]
    done: Callable[..., Any] | None


class _Told(NamedTuple):
    """What a step tells the loop."""

    value: Array
    watched: dict[str, Array]
    done: Array


@partial(jax.jit, static_argnames=("functions", "dtype"))
def _advance(
    functions: _Functions,
    dtype: np.dtype,
    state: PyTree,
    params: PyTree,
    shared: PyTree,
    stats: PyTree,
    now: Clock,
    following: Clock,
) -> tuple[_Told, tuple[PyTree, ...]]:
    """Objective, update and the preparation of the next pass in one compiled call."""
    stats = tree.widen(stats)  # of a single chunk they come as they are
    value, watched = functions.objective(params, shared, stats), functions.watch(params)
    state, params = functions.update(state, params, shared, stats, now.progress(UPDATE))
    shared = functions.prepare(params, state, following.progress(PREPARE))
    done = jnp.asarray(False) if functions.done is None else functions.done(state)
    return _Told(value, watched, done), (params, state, shared, tree.cast(params, dtype), tree.cast(shared, dtype))


@partial(jax.jit, static_argnums=0)
def call(function: Callable[..., Any], *args: PyTree) -> Any:
    """Compile and call; the context says in which precision."""
    return function(*args)
