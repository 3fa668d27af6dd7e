"""Watching a fit: when to stop, what happened, and a progress bar where somebody is looking."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError, FitError
from latentbits.core.model import Measure, Stop
from latentbits.core.programs import seconds_waited

__all__ = ["Limits", "Monitor", "Record", "Remaining", "counted"]

FEWEST = 3  # passes whose gain is compared with that of as many before
STALLED = 30  # passes without any gain, after which more of them are no use
ENOUGH = 0.02  # nats in all: less than this is not worth a warning


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
    """Keeps the history and the clock, and draws the bar."""

    def __init__(self, limits: Limits, verbose: int = 0, label: str = "fitting") -> None:
        self.limits = limits
        self.history: list[Record] = []
        self._n_rows: float | None = None
        self._began, self._waited = time.perf_counter(), seconds_waited()
        self._label = label
        self._bar: Any = None
        self._task: Any = None
        if verbose and sys.stderr.isatty():
            self._bar = _make_bar()

    def __enter__(self) -> Monitor:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def take_up(self, history: Iterable[Record], seconds: float) -> None:
        """Go on where another process has ended: its passes, and the time it took."""
        self.history = list(history)
        self._began = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def seconds_left(self) -> float:
        """Of the time to learn: what goes into compiling programs is outside the limits, as it differs by machine."""
        if self.limits.max_time is None:
            return math.inf
        return self.limits.max_time - (self.seconds - (seconds_waited() - self._waited))

    @property
    def out_of_time(self) -> bool:
        return self.seconds_left <= 0

    def check_rows(self, n_rows: float) -> None:
        """Refuse a stream that gives more or fewer rows in one pass than in another."""
        if self._n_rows is not None and n_rows != self._n_rows:
            raise DataError(
                f"X gave {self._n_rows:.0f} rows in one pass and {n_rows:.0f} in another: what is passed as a function "
                "must give the same rows each time it is called"
            )
        self._n_rows = n_rows

    def begin_stage(self, restart: int, n_restarts: int, stage: str, max_iter: int) -> None:
        if self._bar is None:
            return
        name = f"{self._label}: {stage}" + (f" ({restart + 1} of {n_restarts})" if n_restarts > 1 else "")
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=max_iter, objective="")

    def record(self, record: Record) -> None:
        """Keep a pass, and refuse to go on from an objective that is no number."""
        self.history.append(record)
        if not math.isfinite(record.objective):
            raise FitError(
                f"the objective became {record.objective} at iteration {record.iteration} of stage "
                f"{record.stage!r}: try dtype='float64', more smoothing or a stronger prior, and look for columns "
                "of extreme values"
            )
        if self._bar is not None:
            self._bar.update(self._task, completed=record.iteration, objective=f"{record.objective:.6g}")

    def note(self, **numbers: float) -> None:
        """Keep more numbers of the last pass."""
        last = self.history[-1]
        self.history[-1] = last._replace(watched={**last.watched, **numbers})


class Remaining:
    """What is left to gain, and whether that is little enough to stop.

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

    def ends(self, objective: float, n_rows: float, told: float = math.nan) -> Stop | None:
        """Take note of one more pass, and of what the model told; why to stop, or None."""
        self.best.append(max(objective, self.best[-1]) if self.best else objective)
        self.left = self._guess() if math.isnan(told) else told
        if len(self.best) > 1 and self.left <= self.tol * n_rows:  # one step at least is tried
            return Stop.CONVERGED
        wait = max(STALLED, self._window())
        stands = len(self.best) > wait and self.best[-1] - self.best[-1 - wait] <= 0
        if not stands or self.tol == -math.inf:
            return None
        return Stop.CONVERGED if self.left <= ENOUGH else Stop.STALLED

    def _window(self) -> int:
        return max(FEWEST, self.patience, math.ceil(self.share * len(self.best)))

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
    """A function to tell of so much more work done; a bar shows it where somebody is looking."""
    if not (verbose and sys.stderr.isatty()):
        yield lambda n: None
        return
    with _make_bar(objective=False) as bar:
        task = bar.add_task(label, total=total)
        yield lambda n: bar.advance(task, n)


def _make_bar(objective: bool = True) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        *([TextColumn("objective {task.fields[objective]}")] if objective else []),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
