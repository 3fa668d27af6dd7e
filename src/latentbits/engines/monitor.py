"""Watching a fit: when to stop, what happened, and how long it will take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.compilation import seconds_waited
from latentbits.core.errors import DataError, FitError
from latentbits.core.model import Measure, Stop
from latentbits.engines.progress import Line, bar_for, heard_by, passes_left, time_left

__all__ = ["Limits", "Monitor", "Record", "Remaining", "counted"]

FEWEST_PASSES = 3  # the gain of these is compared with the gain of as many before
STALLED_PASSES = 30  # learning ends after these without any gain
NEGLIGIBLE_NATS = 0.02  # of all rows together: if less is left to gain, there is no warning


class Limits(NamedTuple):
    """When to stop.

    Attributes
    ----------
    max_iter
        Most updates (in minibatch stages: passes) of a stage.
    tol
        A stage has converged when less than this is left to gain, in nats per row.
    max_time
        Seconds for all restarts together, without those that compiling takes; None for no limit.
    """

    max_iter: int = 1000
    tol: float = 1e-6
    max_time: float | None = None


class Record(NamedTuple):
    """One pass: the objective of the parameters it began with, and what the model watches."""

    restart: int
    stage: str
    measure: Measure
    iteration: int
    objective: float
    seconds: float
    watched: Mapping[str, Any]


class Monitor:
    """History and clock of a fit, which listeners and the progress bar follow."""

    def __init__(self, limits: Limits, verbose: int = 0, label: str = "fitting") -> None:
        self.limits = limits
        self.history: list[Record] = []
        self.n_rows = math.nan  # each as often as it counts, once a pass has counted them
        self._n_rows: float | None = None
        self._began, self._waited = time.perf_counter(), seconds_waited()
        self._label = label
        self.cut_by = Stop.MAX_TIME  # what `out_of_time` is due to
        self._listener = heard_by()
        self._bar = bar_for(verbose)
        self._line = Line(label, 0, limits.max_iter)
        self._restart, self._n_restarts = 0, 1
        self._first, self._first_began = 0, self._learning  # of the restarts that this process has seen
        self._restart_began = self._first_began
        self._passes: list[float] = []  # when those of the stage ended, but for what went into compiling
        self._lefts: list[float] = []  # what was left to gain after each
        self._target = 0.0

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def take_up(self, history: Iterable[Record], seconds: float) -> None:
        """Go on where another process has ended: its passes, and the time it took."""
        self.history = list(history)
        self._began = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def seconds_left(self) -> float:
        """Seconds left to learn; compiling does not count, since it differs by machine."""
        if self.limits.max_time is None:
            return math.inf
        return self.limits.max_time - (self.seconds - (seconds_waited() - self._waited))

    @property
    def out_of_time(self) -> bool:
        """Whether to end here: the time is over, or a listener has asked for it."""
        return self.seconds_left <= 0 or self.cut_by is Stop.INTERRUPTED

    def check_rows(self, n_rows: float) -> None:
        """Refuse a stream that gives more or fewer rows in one pass than in another."""
        if self._n_rows is not None and n_rows != self._n_rows:
            raise DataError(
                f"X gave {self._n_rows:.0f} rows in one pass and {n_rows:.0f} in another: what is passed as a function "
                "must give the same rows each time it is called"
            )
        self._n_rows = n_rows

    def begin_stage(self, restart: int, n_restarts: int, stage: str, max_iter: int) -> None:
        name = f"{self._label}: {stage}" + (f" ({restart + 1} of {n_restarts})" if n_restarts > 1 else "")
        self._line, self._passes, self._lefts = Line(name, 0, max_iter), [], []
        if (restart, n_restarts) != (self._restart, self._n_restarts):
            self._restart_began = self._learning
            if n_restarts != self._n_restarts:
                self._first, self._first_began = restart, self._restart_began
            self._restart, self._n_restarts = restart, n_restarts
        self._show("")
        if self._listener is not None:
            self._listener.begin_stage(stage, max_iter)

    def left_to_gain(self, left: float, target: float) -> None:
        """Take note of what is left to gain after a pass, and of how little is wanted."""
        self._lefts.append(left)
        self._target = target

    @property
    def _learning(self) -> float:
        """Seconds, without those of compiling, since some moment."""
        return time.perf_counter() - seconds_waited()

    def _show(self, text: str) -> None:
        if self._bar is not None:
            self._bar.show(self._line._replace(state=text, left=self.time_left()))

    def time_left(self) -> str:
        """Estimate the time left, of this stage by its passes, or of all restarts by those that have ended.

        How many passes it will take is guessed by the fall of what is left to gain.
        """
        guess, most = math.nan, math.inf
        if self._n_restarts > 1:
            if n_ended := self._restart - self._first:
                each = (self._restart_began - self._first_began) / n_ended
                spent = self._learning - self._restart_began
                guess = max(0.0, each - spent) + each * (self._n_restarts - self._restart - 1)
        elif len(self._passes) > 1:
            each = (self._passes[-1] - self._passes[0]) / (len(self._passes) - 1)
            guess = each * passes_left(self._lefts, self._target)
            most = each * max(0, self._line.total - self._line.done)
        return time_left(guess, min(most, self.seconds_left))

    def record(self, record: Record) -> None:
        """Keep a pass, and refuse to go on from an objective that is no number."""
        self.history.append(record)
        if not math.isfinite(record.objective):
            raise FitError(
                f"the objective became {record.objective} at iteration {record.iteration} of stage "
                f"{record.stage!r}: try dtype='float64', more smoothing or a stronger prior, and look for columns "
                "of extreme values"
            )
        self._passes.append(self._learning)
        self._line = self._line._replace(done=record.iteration)
        self._show(f"objective {record.objective:.6g}")
        if self._listener is not None and self._listener.end_pass():
            self.cut_by = Stop.INTERRUPTED

    def note(self, **numbers: float) -> None:
        """Keep more numbers of the last pass."""
        last = self.history[-1]
        self.history[-1] = last._replace(watched={**last.watched, **numbers})


class Remaining:
    """Estimate of what is left to gain, and decision whether to stop.

    A stage has converged when it is below `tol` nats per row, or below 0.02 nats in all where no pass gains any more.
    Where the model cannot tell, it is guessed from the gains of the last passes, as Aitken does: if the last w passes
    gained g, and the w before them G, then the rest of a geometric series with that ratio is ``g r / (1 - r)``, ``r = g
    / G``.  Series are not as regular as that: the rest is taken to be at least g, and at most a hundred times as much.

    Parameters
    ----------
    tol
        Nats per row; -inf never stops.
    patience, share
        w: at least `patience`, and this share of the passes made.  The longer the way, the longer its plateaus.
    best
        The best objective after each of the passes made so far.
    """

    def __init__(self, tol: float, patience: int = 1, share: float = 0.0, best: Iterable[float] = ()) -> None:
        self.tol, self.patience, self.share = tol, patience, share
        self.left = math.inf  # nats in all, after the last pass
        self.best = list(best)

    def ends(self, objective: float, n_rows: float, estimate: float = math.nan) -> Stop | None:
        """Record one more pass, with the estimate of the model; return why to stop, or None."""
        self.best.append(max(objective, self.best[-1]) if self.best else objective)
        self.left = self._guess() if math.isnan(estimate) else estimate
        if len(self.best) > 1 and self.left <= self.tol * n_rows:  # one step at least is tried
            return Stop.CONVERGED
        wait = max(STALLED_PASSES, self._window())
        stands = len(self.best) > wait and self.best[-1] - self.best[-1 - wait] <= 0
        if not stands or self.tol == -math.inf:
            return None
        return Stop.CONVERGED if self.left <= NEGLIGIBLE_NATS else Stop.STALLED

    def _window(self) -> int:
        return max(FEWEST_PASSES, self.patience, math.ceil(self.share * len(self.best)))

    def _guess(self) -> float:
        last, window = len(self.best) - 1, self._window()
        if last < window:
            return math.inf
        middle = last - window
        gain, before = self.best[-1] - self.best[middle], self.best[middle] - self.best[max(middle - window, 0)]
        ratio = gain / before if before > 0 else 1.0
        return gain * float(np.clip(ratio / max(1 - ratio, 1e-9), 1, 100))


@contextmanager
def counted(total: int, label: str, verbose: int) -> Iterator[Callable[[int], None]]:
    """Make a function that reports further work as done; a bar shows it on a terminal."""
    bar = bar_for(verbose)
    if bar is None:
        yield lambda n: None
        return
    done, began = 0, time.perf_counter()

    def tell(n: int) -> None:
        nonlocal done
        done += n
        guess = (time.perf_counter() - began) * (total - done) / done if done else math.nan
        bar.show(Line(label, done, total, left=time_left(guess, math.inf)))

    try:
        tell(0)
        yield tell
    finally:
        bar.close()
