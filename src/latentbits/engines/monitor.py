"""Watching a fit: when to stop, what happened, and a progress bar where somebody is looking."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

from latentbits.core.errors import DataError, FitError
from latentbits.core.model import Measure

__all__ = ["Limits", "Monitor", "Plateau", "Record"]


class Limits(NamedTuple):
    """When to stop.

    Attributes
    ----------
    max_iter
        Most updates (in minibatch stages: passes) of a stage.
    tol
        A stage has converged when the objective rises by less than this per row, in nats.
    max_time
        Seconds for all restarts together; None for no limit.
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
        self._began = time.perf_counter()
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

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def seconds_left(self) -> float:
        return math.inf if self.limits.max_time is None else self.limits.max_time - self.seconds

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


class Plateau:
    """The stopping rule: `patience` passes in a row that did not beat the best objective by `tol` nats per row.

    Exact EM needs a patience of 1, since it cannot lose but by rounding; an optimiser that may take a step back
    needs room for the passes in which it does.  A `tol` of -inf never stops.  With `share`, patience grows to this
    share of the passes made: the longer the way, the longer its plateaus.
    """

    def __init__(self, tol: float, patience: int, share: float = 0.0) -> None:
        self.tol, self.patience, self.share = tol, patience, share
        self._best = -math.inf
        self._waited = 0
        self._passes = 0

    def reached(self, objective: float, n_rows: float) -> bool:
        """Take note of one more pass."""
        gained = objective - self._best >= self.tol * n_rows
        self._waited = 0 if gained else self._waited + 1
        self._best = max(self._best, objective)
        self._passes += 1
        return self._waited >= max(self.patience, self.share * self._passes)


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
