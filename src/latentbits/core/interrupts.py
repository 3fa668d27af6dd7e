"""Ctrl-C at safe places: the first is taken note of, and raised where nothing is half done.

Python raises KeyboardInterrupt between any two of its instructions: inside XLA's compiler, which does not bear it, or
between a result and the line that keeps it.  Within `held` the first one waits for the next `check`, which the passes
over rows call for every chunk.  The second is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["check", "handle", "held", "is_held", "shielded", "take"]


class _State:
    """State of this process: signals are handled in its main thread alone."""

    holds = 0  # `held` contexts that are open
    shields = 0
    noted = False  # a signal has come since the first of them was opened
    handled = False  # raised, or taken


@contextmanager
def held() -> Iterator[None]:
    """Let the first SIGINT wait for `check`; a signal not taken is raised when the outermost `held` ends.

    Does nothing outside the main thread, and where SIGINT has a handler other than Python's own or `handle`.
    """
    if not _in_main_thread():
        yield
        return
    _State.holds += 1
    installed = _State.holds == 1 and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if installed:
        signal.signal(signal.SIGINT, handle)
    missed = False
    try:
        yield
    finally:
        _State.holds -= 1
        if _State.holds == 0:
            missed = _State.noted and not _State.handled
            _State.noted = _State.handled = False
        if installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if missed:
        raise KeyboardInterrupt


@contextmanager
def shielded() -> Iterator[None]:
    """No `check` raises within: for short work that makes what was learned usable, or writes it down."""
    if not _in_main_thread():
        yield
        return
    _State.shields += 1
    try:
        yield
    finally:
        _State.shields -= 1


def handle(signum: int, frame: FrameType | None) -> None:
    """The handler: the first signal within `held` is noted, every other one raised."""
    if not _State.holds or _State.noted:
        raise KeyboardInterrupt
    _State.noted = True


def check() -> None:
    """Raise KeyboardInterrupt, once, if a signal has come."""
    if not _State.shields and take():
        raise KeyboardInterrupt


def take() -> bool:
    """Take a signal that was not raised; the caller then ends its work."""
    if not _State.noted or _State.handled or not _in_main_thread():
        return False
    _State.handled = True
    return True


def is_held() -> bool:
    """Whether a signal would be noted rather than raised."""
    return _State.holds > 0 and not _State.noted


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
