"""Restarts of a fit: heats from different starts, of which the best goes on alone, each a sequence of stages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from latentbits.core import interrupts, keys, tree
from latentbits.core.errors import FitError
from latentbits.core.model import Learned, Model, OnePass, Over, Stage, Stop, Transform
from latentbits.engines.chunks import MOST_ROWS
from latentbits.engines.host import runs_on_host, solvable
from latentbits.engines.monitor import Monitor, Record
from latentbits.engines.sparse import layout_of
from latentbits.engines.stage import Outcome, Run, StageRun, Standing

__all__ = ["Place", "Restarts", "check_place"]


class Place(NamedTuple):
    """Place of a fit between two passes, as a checkpoint keeps it."""

    ended: list[tuple[Outcome, int]]  # outcomes of restarts, with their numbers
    failure: str | None  # message of the last restart that failed
    # restart, final: number of the restart in work; and whether it is the best of them, which goes on alone
    restart: int
    final: bool
    # stage, before, passed: number of the stage among the heats or finals, the outcome of the stage before it, and
    # the outcomes of all stages that have passed over the rows
    stage: int
    before: Outcome
    passed: list[Outcome]
    standing: Standing  # place of the stage
    # history, seconds: records and time of all restarts together
    history: list[Record]
    seconds: float


def check_place(place: Any, check: Callable[[PyTree], None]) -> None:
    """Refuse a value that is no place of a fit: a checkpoint file can come from anywhere."""
    if not isinstance(place, Place):
        raise TypeError("it does not hold the place of a fit")
    if not 0 < place.standing.rows_per_chunk <= MOST_ROWS:
        raise ValueError(f"it has chunks of {place.standing.rows_per_chunk} rows")
    ends = [*(one for one, _ in place.ended), *place.passed, place.before, place.standing.best]
    for params in [*(end.params for end in ends), place.standing.here.params]:
        check(params)


class Restarts:
    """Runs of the stages of a model from several starts.

    Parameters
    ----------
    model, n_init
        What to learn, and how often.
    root
        Key of the fit.
    start
        From the number of a restart to its starting parameters.
    run
        What all restarts share.
    keep
        Takes a `Place` after every pass; None where nothing is kept.
    place
        Where to go on; None at the beginning.

    Attributes
    ----------
    failure
        Error of the last restart that failed numerically.
    """

    def __init__(
        self,
        model: Model,
        n_init: int,
        root: keys.Raw,
        start: Callable[[int], PyTree],
        run: Run,
        keep: Callable[[Place], None] | None = None,
        place: Place | None = None,
    ) -> None:
        self.model, self.n_init, self.root, self.start, self.run = model, n_init, root, start, run
        self.keep, self.place = keep, place
        # one start after the other goes through the heats, or all of them at a time
        self.abreast = n_init > 1 and self._climbs_abreast()
        n_heats = model.heats if n_init > 1 else 0
        self.heats, self.finals = model.stages[: n_heats or None], model.stages[n_heats:] if n_heats else ()
        self.ended: list[tuple[Outcome, int]] = [] if place is None else place.ended
        self.failure = None if place is None or place.failure is None else FitError(place.failure)

        if self.abreast:
            self.heats, self.finals = (), model.stages

    def _climbs_abreast(self) -> bool:
        """Say whether starts climb side by side: on tables so small that it is calls that take the time.

        Held-out rows watch single starts.  A checkpoint has no place within, since that takes no longer than a pass
        over a large table.
        """
        run, place = self.run, self.place
        if self.model.abreast is None or run.held_out is not None or (place is not None and not place.final):
            return False
        return run.n_rows <= layout_of(self.model, run.engine, run.dtype, run.budget).host_rows

    def best(self) -> tuple[Outcome | None, int]:
        """Run all restarts; return the best outcome, None where all failed, and the number of its restart."""
        cut = self._run_abreast() if self.abreast and self.place is None else self._run_heats()
        best, winner = max(self.ended, key=lambda one: _rank(one[0])) if self.ended else (None, 0)
        if best is not None and cut is not None:
            return best._replace(reason=cut), winner
        if best is not None and self.finals:
            return self._run_finals()
        return best, winner

    def _run_abreast(self) -> Stop | None:
        """Run all starts at a time; return why they were cut short, None where they were not."""
        assert self.model.abreast is not None
        model, ends = self.model.abreast(self.n_init)
        try:
            params = jax.tree.map(lambda *x: np.stack(x), *(self.start(number) for number in range(self.n_init)))
            begun = Outcome(params, None, -np.inf, 0, Stop.MAX_ITER)
            outcome = _run_stages(model, model.stages, self.run, begun, keys.fold(self.root, 0), 1, None, None)
        except FitError as error:
            self.failure = error
            return None
        values, params = ends(outcome.params, outcome.state)
        for number, value in enumerate(values):
            of_one = jax.tree.map(lambda x, number=number: x[number], params)
            self.ended.append((outcome._replace(params=of_one, state=None, objective=float(value)), 0))
        return outcome.reason if outcome.reason.cut_short else None

    def _run_heats(self) -> Stop | None:
        """Run the heats of all restarts; return why they were cut short, None where they were not."""
        first = 0 if self.place is None else self.n_init if self.place.final else self.place.restart
        for restart in range(first, self.n_init):
            try:
                begun = Outcome(self.start(restart), None, -np.inf, 0, Stop.MAX_ITER)
                outcome = self._run_stages(self.heats, begun, restart, final=False)
            except FitError as error:
                self.failure = error
                continue
            except KeyboardInterrupt:
                if not self.ended:
                    raise
                return Stop.INTERRUPTED
            self.ended.append((outcome, restart))
            if outcome.reason.cut_short:
                return outcome.reason
        return None

    def _run_finals(self) -> tuple[Outcome | None, int]:
        """Run the final stages of the best restart, or of the next best where that fails."""
        order = sorted(self.ended, key=lambda one: -_rank(one[0]))
        if self.place is not None and self.place.final:
            order = order[[restart for _, restart in order].index(self.place.restart) :]
        for outcome, restart in order:
            try:
                return self._run_stages(self.finals, outcome, restart, final=True), restart
            except FitError as error:
                self.failure = error
        return None, order[-1][1]

    def _run_stages(self, stages: tuple[Stage, ...], before: Outcome, restart: int, *, final: bool) -> Outcome:
        """Run some stages of a restart from where others have ended, or from where they stood."""
        run, place = self.run._replace(restart=restart), self.place
        at = place if place is not None and (place.restart, place.final) == (restart, final) else None
        keep = None if self.keep is None else partial(self._keep, restart, final)
        key = keys.fold(self.root, restart)
        return _run_stages(self.model, stages, run, before, key, 1 if final else self.n_init, keep, at)

    def _keep(
        self, restart: int, final: bool, stage: int, before: Outcome, passed: list[Outcome], standing: Standing
    ) -> None:
        assert self.keep is not None
        failure, monitor = None if self.failure is None else str(self.failure), self.run.monitor
        course = [*monitor.history], monitor.seconds
        self.keep(Place([*self.ended], failure, restart, final, stage, before, passed, standing, *course))


def _rank(outcome: Outcome) -> float:
    """Rank an outcome; objectives of different stages do not compare, so runs without a last stage come last."""
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
    """Run stages one after the other; return how the last of them ended."""
    # where to begin: after the stages before, or at a place of a checkpoint
    outcome, begun = before, model.stages.index(stages[0])
    earlier = sum(not isinstance(stage, Transform) for stage in model.stages[:begun])
    passed: list[Outcome] = [before] if before.in_last_stage else []  # outcomes of stages that passed over the rows
    standing, first = None, 0
    if place is not None:
        outcome, passed, standing, first = place.before, place.passed, place.standing, place.stage
    for number, stage in enumerate(stages[first:], first):
        # each stage has a key by its number, so that none depends on how learning went before
        stage_key = keys.fold(key, earlier + len(passed) + (0 if begun else 1))
        max_iter = run.monitor.limits.max_iter if stage.max_iter is None else stage.max_iter
        run.monitor.begin_stage(run.restart, n_restarts, stage.name, max_iter)
        try:
            interrupts.check()
            if isinstance(stage, Transform):
                found = _transform(model, stage, keys.fold(stage_key, 0), outcome, run.monitor)
                if found is Over.LEARNING:
                    outcome = outcome._replace(in_last_stage=True)
                    break
                if isinstance(found, Learned):
                    at = Record(run.restart, stage.name, found.measure, 1, found.objective, run.monitor.seconds, {})
                    run.monitor.record(at)
                    passed.append(Outcome(found.params, None, found.objective, 1, Stop.CONVERGED, True, 0.0))
                    outcome = passed[-1]
                    break
                outcome = outcome._replace(params=found, state=None, objective=-np.inf)
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
            outcome = outcome._replace(n_iter=0, reason=Stop.MAX_ITER)  # it only counts what later stages begin with
        passed.append(outcome)
        if outcome.reason is Stop.HELD_OUT:  # what follows would learn on
            outcome = outcome._replace(in_last_stage=True)
            break
        if outcome.reason.cut_short:
            break
    return outcome._replace(n_iter=sum(one.n_iter for one in passed))


def _passes_follow(stages: tuple[Stage, ...]) -> bool:
    return any(not isinstance(stage, Transform) for stage in stages)


def _transform(
    model: Model, stage: Transform, key: keys.Raw, before: Outcome, monitor: Monitor
) -> PyTree | Over | Learned:
    """Call the function of a stage on the host; return new parameters, or that learning is over."""
    left = (lambda: monitor.seconds_left,) if stage.timed else ()
    on_host = runs_on_host(model, before.params)
    with tree.double(), solvable():
        params = tree.strong(before.params, to_device=not on_host)
        found = stage.function(key if on_host else keys.typed(key), params, before.state, *left)
        return (
            found if found is Over.LEARNING or isinstance(found, Learned) else tree.strong(found, to_device=not on_host)
        )
