"""A line of progress where somebody is looking: in a terminal, or below a cell of a notebook, after two seconds."""

from __future__ import annotations

import html
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

__all__ = ["Bar", "Line", "Listener", "bar_for", "heard_by", "listening", "passes_left", "time_left"]

SHOWN_AFTER_SECONDS = 2.0  # a shorter fit needs no bar
SECONDS_BETWEEN = 0.5  # between two changes below a notebook cell
FEWEST_PASSES = 4  # needed to guess the number of passes


class Line(NamedTuple):
    """Line of a progress bar: the name of the work, how much of it is done, a text, and the time left."""

    name: str
    done: int
    total: int
    state: str = ""
    left: str = ""


class Bar(Protocol):
    """Something that shows a line."""

    def show(self, line: Line) -> None: ...

    def close(self) -> None: ...


class Listener(Protocol):
    """Listener to every stage and pass, which may ask for an end."""

    def begin_stage(self, name: str, max_iter: int) -> None: ...

    def end_pass(self) -> bool: ...


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell somebody of all that is learned within."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def heard_by() -> Listener | None:
    """Return the listeners."""
    return _listener.get()


def bar_for(verbose: int) -> Bar | None:
    """Make a bar where one is wanted and visible; None in pipes, files and tests."""
    if not verbose:
        return None
    if _in_notebook():
        return _Cell()
    return _Terminal() if sys.stderr.isatty() else None


def passes_left(left: Sequence[float], target: float) -> float:
    """Estimate the passes until what is left to gain has fallen to the target; NaN where it does not fall.

    >>> passes_left([8.0, 4.0, 2.0, 1.0], 0.25), passes_left([8.0, 8.0, 8.0, 8.0], 0.25)
    (2.0, nan)
    """
    last = left[-max(FEWEST_PASSES, len(left) // 2) :]
    if len(last) < FEWEST_PASSES or not (math.isfinite(last[0]) and 0 < last[-1] < last[0] and target > 0):
        return math.nan
    fall = math.log(last[0] / last[-1]) / (len(last) - 1)
    return max(0.0, math.log(last[-1] / target) / fall)


def time_left(guess: float, most: float) -> str:
    """How long it will take, as far as that is known: by a guess, and at most; seconds, NaN and inf where not.

    >>> time_left(12.3, 200), time_left(float("nan"), 200), time_left(12.3, float("inf")), time_left(30, 20)
    ('about 0:12 to go, at most 3:20', 'at most 3:20 to go', 'about 0:12 to go', 'at most 0:20 to go')
    """
    if math.isfinite(guess) and guess < most:
        return f"about {_clock(guess)} to go" + (f", at most {_clock(most)}" if math.isfinite(most) else "")
    return f"at most {_clock(most)} to go" if math.isfinite(most) else ""


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _in_notebook() -> bool:
    """Whether what is displayed goes to a notebook; without IPython, which is asked only if it is there."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _Terminal:
    """Bar of rich, which draws in another thread, so that the clock goes on during a long pass."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._bar: Any = None
        self._closed = False
        self._timer = threading.Timer(SHOWN_AFTER_SECONDS, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def show(self, line: Line) -> None:
        with self._lock:
            self._line = line
            self._draw()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()

    def _begin(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._bar = _rich_bar()
            self._draw()
            self._bar.start()

    def _draw(self) -> None:
        if self._bar is None or self._line is None:
            return
        line = self._line
        if not self._bar.tasks:
            self._bar.add_task("", state="", left="")
            self._bar.tasks[0].start_time = self._began  # the clock of all of it
        self._bar.update(
            self._bar.task_ids[0], description=line.name, completed=line.done, total=line.total, state=line.state,
            left=line.left,
        )  # fmt: skip


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        get_time=time.monotonic,
    )


class _Cell:
    """Below a cell, by IPython alone: a display that is changed at most twice a second, and empty at the end."""

    def __init__(self) -> None:
        self._began = self._shown = time.monotonic()
        self._handle: Any = None

    def show(self, line: Line) -> None:
        now = time.monotonic()
        if now - self._began >= SHOWN_AFTER_SECONDS and (self._handle is None or now - self._shown >= SECONDS_BETWEEN):
            self._shown = now
            parts = (f"{line.done}/{line.total}", line.state, _clock(now - self._began), line.left)
            words = "  ".join(part for part in parts if part)
            bar = f'<progress value="{line.done}" max="{line.total}"></progress>'
            self._display(f"{line.name}  {words}", f"{html.escape(line.name)} {bar} {html.escape(words)}")

    def close(self) -> None:
        if self._handle is not None:
            self._display("", "")

    def _display(self, text: str, page: str) -> None:
        from IPython.display import display

        shown = {"text/plain": text, "text/html": page}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)
