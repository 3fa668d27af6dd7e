"""The one training loop: restarts and stages; `engines/stage.py` has the passes and updates of a stage.

It knows neither models nor engines: a model is a record of functions, an engine is a supply of chunks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Key, PyTree

from latentbits.core import interrupts, keys, tree
from latentbits.core.errors import FitError
from latentbits.core.model import Model, OnePass, Over, Stage, Stop, Transform
from latentbits.core.programs import callable_tree
from latentbits.engines import ahead, checkpoint
from latentbits.engines.chunks import LARGEST
from latentbits.engines.held_out import mean_log_likelihood
from latentbits.engines.monitor import Limits, Monitor, Record
from latentbits.engines.passes import Engine
from latentbits.engines.room import Room
from latentbits.engines.stage import Outcome, Run, StageRun, Standing, begin
from latentbits.engines.summary import shapes_only, summarise

__all__ = ["FitResult", "fit", "go_on", "seed_key"]

DEFAULT_LIMITS = Limits()


class FitResult(NamedTuple):
    """What a fit gives back.

    Attributes
    ----------
    params
        The parameters, float64 NumPy leaves.
    state
        What the optimiser of the last stage had seen.
    objective
        Of the parameters (the sum over rows, in nats); -inf where no comparable one was evaluated.
    history
        Every pass of the restart that won.
    n_iter
        Its number of passes that ended in an update; one that counts what they begin with is none of them.
    reason
        Why it stopped.
    seconds
        Time taken, all restarts together.
    left
        What is estimated to be left to gain, in nats, all rows together; NaN where that is not known.
    dtype
        Precision of the rows.
    n_rows
        Rows learned from, each as often as it counts; NaN where no pass has counted them.
    """

    params: PyTree
    state: PyTree
    objective: float
    history: tuple[Record, ...]
    n_iter: int
    reason: Stop
    seconds: float
    left: float = np.nan
    dtype: np.dtype = np.dtype(np.float32)
    n_rows: float = np.nan


class Place(NamedTuple):
    """Where a fit stands between two passes: what a checkpoint keeps of it.

    Attributes
    ----------
    ended
        How restarts ended, with their numbers.
    failure
        What the last of those said that failed.
    restart, final
        The restart in work; and whether it is the best of them, which goes on alone.
    stage, before, passed
        Number of the stage in its part of learning, how the one before it ended, and all that have passed over the
        rows.
    standing
        Where the stage stands.
    history, seconds
        Of all restarts.
    """

    ended: list[tuple[Outcome, int]]
    failure: str | None
    restart: int
    final: bool
    stage: int
    before: Outcome
    passed: list[Outcome]
    standing: Standing
    history: list[Record]
    seconds: float


def seed_key(seed: int, purpose: str = "fit") -> Key[Array, ""]:
    """The key of a seed for one purpose: fitting and sampling with the same seed share nothing."""
    return keys.typed(keys.fold(keys.of_seed(seed), zlib.crc32(purpose.encode())))


def fit(
    model: Model,
    engine: Engine,
    key: Key[Array, ""],
    *,
    params: PyTree | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_init: int | Callable[[float], int] = 1,
    dtype: Any = np.float32,
    verbose: int = 0,
    memory_budget: int | None = None,
    then: Callable[[PyTree], None] = lambda shapes: None,
    held_out: Engine | None = None,
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
        Number of restarts; the one with the best objective is kept.  May be a function of the number of rows.
    dtype
        Precision of the rows, float32 or float64.  May be a function of the number of rows.
    verbose
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    memory_budget
        Bytes that a chunk's E-step may take; None chooses by device.
    then
        Called with the shapes of the parameters, as soon as they are known, for what will be asked of them next can be
        compiled meanwhile (`engines/ahead.py`).
    held_out
        Rows that are not learned from, and stop the stages that may be stopped early (`engines/held_out.py`).  Restarts
        are ranked by them.

    Notes
    -----
    On Ctrl-C, which takes effect at the end of the chunk of rows in work, or when the time is over, the best parameters
    so far are returned and `reason` says so; Ctrl-C before anything was learned is passed on.  A restart that fails
    numerically is dropped, unless all do.  Under a journal (`engines/checkpoint.py`) what was learned before is taken
    up.
    """
    journal, root = checkpoint.current(), keys.raw(key)
    number, known, place = (0, None, None) if journal is None else journal.begin()
    if known is not None:
        if not isinstance(known, FitResult):
            raise TypeError("it holds another result than that of a fit")
        then(known.params)
        return known
    if place is not None:
        assert journal is not None
        _check_place(place, journal.check)
    failure = None if place is None or place.failure is None else FitError(place.failure)
    with interrupts.held(), Monitor(limits, verbose, model.name) as monitor:
        if model.needs_summary:
            summary = summarise(engine)
            if engine.weights is None:  # those are counted against the rows
                monitor.check_rows(float(summary.n_rows))
        else:
            summary = shapes_only(engine)
        n_rows = float(summary.n_rows)
        dtype = np.dtype(dtype(n_rows) if _by_rows(dtype) else dtype)
        n_init = n_init(n_rows) if callable(n_init) else n_init
        if n_init > 1 and not model.stages[-1].comparable:
            raise ValueError(
                f"n_init must be 1 for {model.name}, got {n_init}: its last stage has no likelihood or bound by which "
                "restarts could be ranked"
            )
        n_heats = model.heats if n_init > 1 else 0
        heats, finals = model.stages[: n_heats or None], model.stages[n_heats:] if n_heats else ()
        shapes = ahead.beginning(model, summary) if params is None else params
        learned = ahead.learning(model, model.stages, engine, dtype, memory_budget, shapes)
        if learned is not None:
            then(learned)
        room = Room()
        watched = None if held_out is None else mean_log_likelihood(model, held_out, dtype, memory_budget)
        ended: list[tuple[Outcome, int]] = []
        first = 0
        if place is not None:
            monitor.take_up(place.history, place.seconds)
            ended, first = place.ended, n_init if place.final else place.restart

        def keep(restart: int, final: bool, stage: int, before: Outcome, passed: list[Outcome], at: Standing) -> None:
            assert journal is not None
            said = None if failure is None else str(failure)
            course = [*monitor.history], monitor.seconds
            journal.stand(number, Place([*ended], said, restart, final, stage, before, passed, at, *course))

        def ends(stages: tuple[Stage, ...], before: Outcome, restart: int, final: bool) -> Outcome:
            run = Run(engine, dtype, memory_budget, monitor, restart, room, held_out=watched)
            kept = None if journal is None else partial(keep, restart, final)
            at = place if place is not None and (place.restart, place.final) == (restart, final) else None
            return _run_stages(model, stages, run, before, keys.fold(root, restart), 1 if final else n_init, kept, at)

        cut = None
        for restart in range(first, n_init):
            try:
                with tree.double():
                    start = params
                    if params is None:
                        start = begin(callable_tree(model.init), keys.fold(keys.fold(root, restart), 0), summary)
                outcome = ends(heats, Outcome(start, None, -np.inf, 0, Stop.MAX_ITER), restart, False)
            except FitError as error:
                failure = error
                continue
            except KeyboardInterrupt:
                if not ended:
                    raise
                cut = Stop.INTERRUPTED
                break
            ended.append((outcome, restart))
            if outcome.reason.cut_short:
                cut = outcome.reason
                break
        best, winner = max(ended, key=lambda one: _rank(one[0])) if ended else (None, 0)
        if best is not None and cut is not None:
            best = best._replace(reason=cut)
        elif best is not None and finals:
            best = None
            order = sorted(ended, key=lambda one: -_rank(one[0]))
            if place is not None and place.final:
                order = order[[restart for _, restart in order].index(place.restart) :]
            for outcome, winner in order:
                try:
                    best = ends(finals, outcome, winner, True)
                    break
                except FitError as error:
                    failure = error
        seconds, counted = monitor.seconds, n_rows if model.needs_summary else monitor.n_rows
    if best is None:
        assert failure is not None
        raise failure
    history = tuple(record for record in monitor.history if record.restart == winner)
    params, state = tree.to_numpy(best.params), tree.to_numpy(best.state)
    if learned is None:
        then(params)
    told = best.objective, history, best.n_iter, best.reason, seconds, best.left
    result = FitResult(params, state, *told, dtype, counted)
    if journal is not None:
        journal.finish(number, result, cut_short=best.reason.cut_short)
    return result


def go_on(
    model: Model,
    engine: Engine,
    before: FitResult,
    limits: Limits,
    *,
    verbose: int = 0,
    held_out: Engine | None = None,
) -> FitResult:
    """Learn on from where a fit has ended, by another record of the same parameters; passes and seconds add up.

    On Ctrl-C before anything was learned, what was learned before stands, and `reason` says so.
    """
    left = None if limits.max_time is None else max(limits.max_time - before.seconds, 1e-3)
    rest = limits._replace(max_time=left)
    given: dict[str, Any] = {"params": before.params, "limits": rest, "dtype": before.dtype}
    try:
        more = fit(model, engine, seed_key(0), **given, verbose=verbose, held_out=held_out)
    except KeyboardInterrupt:
        return before._replace(reason=Stop.INTERRUPTED)
    return more._replace(
        history=before.history + more.history,
        n_iter=before.n_iter + more.n_iter,
        seconds=before.seconds + more.seconds,
    )


def _check_place(place: Any, check: Callable[[PyTree], None]) -> None:
    """Refuse what is no place of a fit, in a file that anybody can have made."""
    if not isinstance(place, Place):
        raise TypeError("it holds something else than where a fit stands")
    if not 0 < place.standing.rows_per_chunk <= LARGEST:
        raise ValueError(f"it has chunks of {place.standing.rows_per_chunk} rows")
    ends = [*(one for one, _ in place.ended), *place.passed, place.before, place.standing.best]
    for params in [*(end.params for end in ends), place.standing.here.params]:
        check(params)


def _by_rows(setting: Any) -> bool:
    """Whether a setting is a function of the number of rows; types of numbers can be called, too."""
    return callable(setting) and not isinstance(setting, type)


def _rank(outcome: Outcome) -> float:
    """Objectives of different stages are no match: a run that was cut short before its last stage ranks last."""
    if not outcome.in_last_stage:
        return -np.inf
    return outcome.held_out.value if outcome.held_out.best else outcome.objective


def _run_stages(
    model: Model,
    stages: tuple[Stage, ...],
    run: Run,
    before: Outcome,
    key: keys.Raw,
    n_restarts: int,
    keep: Callable[..., None] | None,
    place: Place | None,
) -> Outcome:
    """How some stages of a model end that begin where others have ended, or go on from where they stood."""
    outcome, begun = before, model.stages.index(stages[0])
    earlier = sum(not isinstance(stage, Transform) for stage in model.stages[:begun])
    passed: list[Outcome] = [before] if begun else []  # of the stages that have passed over the rows
    standing, first = None, 0
    if place is not None:
        outcome, passed, standing, first = place.before, place.passed, place.standing, place.stage
    for number, stage in enumerate(stages[first:], first):
        stage_key = keys.fold(key, earlier + len(passed) + (0 if begun else 1))
        max_iter = run.monitor.limits.max_iter if stage.max_iter is None else stage.max_iter
        run.monitor.begin_stage(run.restart, n_restarts, stage.name, max_iter)
        try:
            interrupts.check()
            if isinstance(stage, Transform):
                found = _transform(stage, keys.typed(keys.fold(stage_key, 0)), outcome, run.monitor)
                if found is Over.LEARNING:
                    outcome = outcome._replace(in_last_stage=True)
                    break
                outcome = outcome._replace(params=found, state=None, objective=-np.inf)
                ahead.learning(model, stages[number + 1 :], run.engine, run.dtype, run.budget, outcome.params)
                continue
            kept = None if keep is None else partial(keep, number, outcome, [*passed])
            outcome = StageRun(model, stage, run._replace(keep=kept), max_iter, stage_key).after(outcome, standing)
            standing = None
        except KeyboardInterrupt:  # before this stage had learned anything
            if not passed:
                raise
            outcome = passed[-1]._replace(reason=Stop.INTERRUPTED)
            break
        outcome = outcome._replace(in_last_stage=stage is stages[-1])
        if isinstance(stage, OnePass) and _passes_follow(stages[number + 1 :]):
            outcome = outcome._replace(n_iter=0, reason=Stop.MAX_ITER)  # it counts what they begin with
        passed.append(outcome)
        if outcome.reason is Stop.HELD_OUT:  # what follows would learn on
            outcome = outcome._replace(in_last_stage=True)
            break
        if outcome.reason.cut_short:
            break
    return outcome._replace(n_iter=sum(one.n_iter for one in passed))


def _passes_follow(stages: tuple[Stage, ...]) -> bool:
    return any(not isinstance(stage, Transform) for stage in stages)


def _transform(stage: Transform, key: Key[Array, ""], before: Outcome, monitor: Monitor) -> PyTree | Over:
    left = (lambda: monitor.seconds_left,) if stage.timed else ()
    with tree.double():
        found = stage.function(key, tree.strong(before.params), before.state, *left)
        return found if found is Over.LEARNING else tree.strong(found)
