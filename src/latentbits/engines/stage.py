"""One stage of learning: passes over the rows, each with its update, until the stage is over."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JaxRuntimeError
from jax.tree_util import Partial
from jaxtyping import PyTree

from latentbits.core import keys, tree
from latentbits.core.arrays import Array, on_device
from latentbits.core.compilation import Program, callable_tree
from latentbits.core.errors import DataError
from latentbits.core.model import Evaluate, Iterate, Model, OnePass, Schedule, Stop, Summary
from latentbits.engines.held_out import Course
from latentbits.engines.host import runs_on_host, without_rows
from latentbits.engines.memory_backoff import Room
from latentbits.engines.monitor import Monitor, Record, Remaining
from latentbits.engines.passes import PREPARE, UPDATE, Clock, Engine, Pass, prepared, sum_blocks
from latentbits.engines.sparse import layout_of
from latentbits.engines.weighted_draws import drawn_rows

__all__ = ["Functions", "Outcome", "Run", "StageRun", "Standing", "advance", "begin", "call"]

# A machine of 8 units on the digits, in batches of 80 rows: 4.2 s in NumPy and 2.6 s compiled, which takes .4 s more
LEAST_ROWS_OF_HOST_UPDATE = 1000
OBJECTIVES_PER_TRANSFER = 64  # a minibatch stage reads the objectives of these updates together


class Run(NamedTuple):
    """Values that all stages of one restart share."""

    engine: Engine
    dtype: np.dtype
    budget: int | None
    monitor: Monitor
    restart: int
    room: Room
    keep: Callable[[Any], None] | None = None  # takes the place of a stage after every pass
    held_out: Callable[[PyTree], float] | None = None  # log-likelihood of held-out rows, nats per row
    n_rows: float = np.inf  # of the table, each once, where that is known


class Outcome(NamedTuple):
    """Outcome of a stage or a restart; see `latentbits.engines.fit.FitResult`."""

    params: PyTree
    state: PyTree
    objective: float
    n_iter: int
    reason: Stop
    in_last_stage: bool = False
    left: float = np.nan
    held_out: Course = Course()


class _Position(NamedTuple):
    """A point in parameter space with all that is derived from it, in float64 and in the precision of the rows."""

    params: PyTree
    state: PyTree
    shared: PyTree
    params_rows: PyTree
    shared_rows: PyTree


class Standing(NamedTuple):
    """Place of a stage between two passes: all that the following ones depend on."""

    here: _Position
    best: Outcome
    state: PyTree
    row_states: dict[int, PyTree]
    n_iter: int
    step: int
    left: float
    objectives: list[float]
    rows_per_chunk: int


class _Passed(NamedTuple):
    """One pass: the objective of where it began (in minibatch stages, along its way), and where it leads."""

    objective: float
    n_rows: float
    stats: PyTree
    ahead: _Position
    done: bool
    left: float


def _added(sums: np.ndarray, told: list[tuple[Any, Any]]) -> np.ndarray:
    """Add objectives and rows of the following updates, one after the other."""
    for value, n_rows in told:
        sums = sums + np.array([float(value), float(n_rows)])
    return sums


class StageRun:
    """One run of one stage.

    Parameters
    ----------
    model, stage, run
        What to learn, what to do, and with what.
    max_iter
        Most passes with an update.
    key
        Of this stage; the purposes folded into it here are those that `engines/fit.py` leaves.
    """

    def __init__(
        self, model: Model, stage: Iterate | Schedule | OnePass | Evaluate, run: Run, max_iter: int, key: keys.Raw
    ) -> None:
        self.model, self.stage, self.run, self.max_iter = model.acting_in(stage), stage, run, max_iter
        rows_per_update = stage.rows_per_update if isinstance(stage, Schedule) else None
        layout = run.room.within(layout_of(self.model, run.engine, run.dtype, run.budget))
        self.layout = layout._replace(rows_per_update=rows_per_update)
        self.minibatch = rows_per_update is not None
        self.watched = run.held_out if stage.stops_early else None
        self.row_key, self.update_key, self.draw_key = (keys.fold(key, purpose) for purpose in (1, 2, 3))
        weights = run.engine.weights
        self.ends = None if weights is None else np.cumsum(weights)  # of the part of the sum that is each row's
        self.row_states: dict[int, PyTree] = {}
        self.state: PyTree = None  # of the optimiser, after the last update
        self.step = self.n_iter = 0

    def after(self, before: Outcome, standing: Standing | None = None) -> Outcome:
        """Run the stage from where another has ended, or from where it stood; return its outcome."""
        if standing is not None:
            return self._learn(before, standing)
        self.on_host = self._runs_on_host(before.params)
        with tree.double():
            params = tree.strong(before.params, to_device=not self.on_host)
        self.here = self._start(params)
        if isinstance(self.stage, Evaluate):
            return before._replace(params=params, objective=self._evaluate(), n_iter=0)
        return self._one_pass() if isinstance(self.stage, OnePass) else self._learn(before)

    def _runs_on_host(self, params: PyTree) -> bool:
        """Say where updates run: between small batches there are thousands, which pay for their compilation."""
        rows = self.layout.rows_per_update
        return (rows is None or rows >= LEAST_ROWS_OF_HOST_UPDATE) and runs_on_host(self.model, params)

    def _one_pass(self) -> Outcome:
        passed = self._pass()
        self.n_iter = 1
        objective = self._objective(passed.ahead, passed.stats)
        self._record(objective, {})
        return Outcome(passed.ahead.params, passed.ahead.state, objective, 1, Stop.CONVERGED, left=0.0)

    def _learn(self, before: Outcome, standing: Standing | None = None) -> Outcome:
        """Make passes and updates until the stage is over, or the time, or the user's patience."""
        begun, objectives = None, None
        if standing is None:
            begun = self.here.params
            self.best = before._replace(params=begun, objective=-np.inf)
            self.course = before.held_out._replace(n_iter=-2)  # passes are counted from here
            self.left = np.nan
        else:
            self.here, self.best, self.state, self.row_states, self.n_iter, self.step, self.left, *_ = standing
            self.course, objectives = self.best.held_out, standing.objectives
            self.layout = self.layout._replace(rows_per_chunk=standing.rows_per_chunk)  # as those of the states of rows
            self.on_host = self._runs_on_host(self.here.params)
        try:
            reason = self._passes(before.reason, objectives)
        except KeyboardInterrupt:
            if self._found().params is begun:
                raise  # where it started is the best we know: nothing has been learned yet
            reason = Stop.INTERRUPTED
        found = self._found()._replace(state=self.state, n_iter=self.n_iter, reason=reason, left=self.left)
        return found if self.watched is None else self._at_its_best(found)

    def _at_its_best(self, found: Outcome) -> Outcome:
        """Return to the point at which held-out rows were most probable, unless they were impossible everywhere."""
        course = self.course
        if course.params is None:
            return found._replace(held_out=course)
        objective = course.objective
        if np.isnan(objective):  # the objectives of a minibatch stage are of many points
            self.here = self._start(course.params)
            objective = self._evaluate()
        gained = course.n_iter >= self.n_iter - 1  # to the end, so that it was not they who made one
        if not (found.reason.cut_short or gained):
            found = found._replace(reason=Stop.HELD_OUT, left=np.nan)
        return found._replace(params=course.params, objective=objective, held_out=course)

    def _passes(self, before: Stop, objectives: list[float] | None) -> Stop:
        # what ends the stage: little left to gain, or a fixed number of passes
        stage, monitor = self.stage, self.run.monitor
        evaluates = stage.comparable and not self.minibatch  # each pass tells the objective of one point
        if isinstance(stage, Iterate):
            tol = monitor.limits.tol if stage.tol is None else stage.tol
            remaining = Remaining(tol, stage.patience, stage.patience_share, objectives or ())
            end = Stop.MAX_ITER if self.max_iter > 0 else before  # without an update it only evaluates
        else:
            remaining, end = None, Stop.COMPLETED
        while evaluates or self.n_iter < self.max_iter:
            # one pass evaluates the point we stand on, and leads to the next
            passed = self._pass()
            self.state = passed.ahead.state
            if evaluates:
                self._keep_if_best(passed.objective)
            # reasons to stop at this point
            if self.watched is not None and self._look(self.watched, passed.objective):
                return Stop.HELD_OUT
            if remaining is not None:
                reason = remaining.ends(passed.objective, passed.n_rows, passed.left)
                self.left = remaining.left
                monitor.left_to_gain(self.left, tol * passed.n_rows)
                if reason is not None:
                    return reason
            if self.n_iter == self.max_iter:
                return end
            if monitor.out_of_time:
                if self.minibatch:
                    self.n_iter += 1  # the pass may be a part of one
                elif self.run.keep is not None:  # what goes on gets on, even with time for one pass only
                    self.run.keep(self._standing(remaining, passed.ahead, self.n_iter + 1))
                return monitor.cut_by
            # on to the next point
            self.here, self.n_iter = passed.ahead, self.n_iter + 1
            if passed.done:  # a schedule has no estimate of what is left
                end = Stop.COMPLETED if remaining is None else Stop.CONVERGED
                break
            if self.run.keep is not None:
                self.run.keep(self._standing(remaining, self.here, self.n_iter))
        if stage.comparable and (self.watched is None or not self.minibatch):
            # the point we stand on has not been evaluated yet; of those that held-out rows were asked for, the best is
            self._keep_if_best(self._evaluate())
            if self.watched is not None:
                self._look(self.watched, self.best.objective)
        return end

    def _look(self, held_out: Callable[[PyTree], float], objective: float) -> bool:
        """Evaluate the held-out rows at the last point; return whether they have gained nothing for long."""
        value = held_out(self.here.params)
        told = np.nan if self.minibatch else objective
        self.course = self.course.after(value, self.here.params, told, self.n_iter)
        self.run.monitor.note(held_out=value)
        return self.course.over

    def _standing(self, remaining: Remaining | None, here: _Position, n_iter: int) -> Standing:
        row_states, objectives = dict(self.row_states), [] if remaining is None else [*remaining.best]
        course = n_iter, self.step, float(self.left), objectives, self.layout.rows_per_chunk
        best = self.best._replace(held_out=self.course)
        return Standing(here, best, self.state, row_states, *course)

    def _keep_if_best(self, objective: float) -> None:
        if objective >= self.best.objective:
            self.best = self.best._replace(params=self.here.params, objective=objective)

    def _found(self) -> Outcome:
        """Return the best point; the last where nothing comparable was evaluated."""
        return self.best if self.best.objective > -np.inf else self.best._replace(params=self.here.params)

    def _start(self, params: PyTree) -> _Position:
        with tree.double():
            state = None if self.model.start is None else self._call(self.model.start, params)
        shared, *in_rows = prepared(self.model, self.run.dtype, params, state, self._clock())
        return _Position(params, state, shared, *in_rows)

    def _pass(self) -> _Passed:
        """Pass over the rows once, with fewer at a time where a device has no room for them.

        In a minibatch stage updates may have been made before memory ran out: then the pass cannot begin again.
        """
        while True:
            begun = self.step
            try:
                return self._whole_pass()
            except JaxRuntimeError as error:
                if self.step != begun:
                    raise
                self._shrink(error)

    def _shrink(self, error: JaxRuntimeError) -> None:
        """Shrink the chunks and forget the states of rows, or raise the error."""
        self.layout = self.run.room.less_after(error, self.layout)
        self.row_states = {}

    def _whole_pass(self) -> _Passed:
        """Pass over the rows once, with an update at the end or, in minibatch stages, after every block."""
        sums, untold = np.zeros(2), []  # objective and rows; those of the last updates are still on their way
        last: tuple[_Told, PyTree, _Position] | None = None
        cut = False
        for stats in sum_blocks(self.model, self.run.engine, self.layout, self._given, self.row_states):
            told, ahead = self._advance(stats)
            untold.append((told.value, stats.n_rows))
            last = told, stats, ahead
            if self.minibatch:
                self.here = ahead
                if cut := self.run.monitor.out_of_time:
                    break
                if len(untold) == OBJECTIVES_PER_TRANSFER:
                    sums, untold = _added(sums, jax.device_get(untold)), []
        if last is None:
            self.run.monitor.check_rows(0.0)
            raise DataError("X has no rows: at least one is needed to learn from.")
        told, stats, ahead = last
        # one transfer for all that the loop wants to know
        new, done, left, watched = jax.device_get((untold, told.done, told.left, told.watched))
        objective, n_rows = map(float, _added(sums, new))
        if not cut:
            self.run.monitor.n_rows = n_rows
            if self.run.engine.weights is None:
                self.run.monitor.check_rows(n_rows)
        self._record(objective, watched)
        return _Passed(objective, n_rows, stats, ahead, bool(done), float(left))

    def _advance(self, stats: PyTree) -> tuple[_Told, _Position]:
        here, now = self.here, self._clock()
        ahead = self.n_iter if self.minibatch else self.n_iter + 1
        following = now._replace(iteration=np.int32(ahead), step=np.int32(self.step + 1))
        model = self.model
        assert model.update is not None, f"stage {self.stage.name!r} has no update"
        with tree.double():
            functions, given = Functions.of(model), (here.state, here.params, here.shared, stats, now, following)
            told, position = without_rows(advance, self.on_host)(functions, *given, dtype=self.run.dtype)
        self.step += 1
        return told, _Position(*position)

    def _given(self) -> Pass:
        return Pass(self.here.params_rows, self.here.shared_rows, self.row_key, np.uint32(self.n_iter))

    def _clock(self) -> Clock:
        rows = None if self.ends is None else drawn_rows(self.ends, keys.fold(self.draw_key, self.step))
        return Clock(np.int32(self.n_iter), np.int32(self.max_iter), np.int32(self.step), self.update_key, rows)

    def _evaluate(self) -> float:
        """Evaluate the objective of a point that no full pass has seen, by one more pass without update."""
        stats = None
        while stats is None:
            whole = self.layout._replace(rows_per_update=None)
            row_states = {} if self.minibatch else self.row_states  # those of other chunks would not fit
            try:
                (stats,) = sum_blocks(self.model, self.run.engine, whole, self._given, row_states)
            except JaxRuntimeError as error:
                self._shrink(error)
        objective = self._objective(self.here, stats)
        with tree.double():
            watched = jax.device_get(self._call(self.model.watch, self.here.params))
        self._record(objective, watched)
        return objective

    def _objective(self, here: _Position, stats: PyTree) -> float:
        with tree.double():
            return float(self._call(self.model.objective, here.params, here.shared, stats))

    def _call(self, function: Callable[..., Any], *args: PyTree) -> Any:
        return without_rows(call, self.on_host)(callable_tree(function), *args)

    def _record(self, objective: float, watched: dict[str, Any]) -> None:
        run, stage = self.run, self.stage
        numbers = {name: float(x) if np.ndim(x) == 0 else x for name, x in watched.items()}
        run.monitor.record(
            Record(run.restart, stage.name, stage.measure, self.n_iter, objective, run.monitor.seconds, numbers)
        )


class Functions(NamedTuple):
    """Functions of a model in one step; numbers that they hold are arguments of the program."""

    update: Partial
    prepare: Partial
    objective: Partial
    watch: Partial
    done: Partial | None
    left: Partial | None

    @classmethod
    def of(cls, model: Model) -> Functions:
        functions: list[Any] = [callable_tree(getattr(model, name)) for name in cls._fields]
        return cls(*functions)


class _Told(NamedTuple):
    """Results of a step that the loop needs."""

    value: Array
    watched: dict[str, Array]
    done: Array | bool
    left: Array | float


@Program
def advance(
    functions: Functions,
    state: PyTree,
    params: PyTree,
    shared: PyTree,
    stats: PyTree,
    now: Clock,
    following: Clock,
    *,
    dtype: np.dtype,
) -> tuple[_Told, tuple[PyTree, ...]]:
    """Objective, update and the preparation of the next pass in one compiled call."""
    stats = tree.widen(stats)  # of a single chunk they come as they are
    value, watched = functions.objective(params, shared, stats), functions.watch(params)
    state, params = functions.update(state, params, shared, stats, now.progress(UPDATE))
    shared = functions.prepare(params, state, following.progress(PREPARE))
    done = False if functions.done is None else functions.done(state)
    left = jnp.nan if functions.left is None else functions.left(state)
    return _Told(value, watched, done, left), (
        params,
        state,
        shared,
        tree.cast(params, dtype),
        tree.cast(shared, dtype),
    )


@partial(Program, seldom=True)
def call(function: Partial, *args: PyTree) -> Any:
    """Compile and call; the context says in which precision."""
    return function(*args)


@partial(Program, seldom=True)
def begin(init: Partial, key: Array, summary: Summary) -> PyTree:
    """Return starting parameters."""
    return init(keys.typed(key) if on_device(key) else key, summary)
