"""Signals at safe places, in a library and in the command-line tool: all that the package does about them.

Python raises KeyboardInterrupt between any two of its instructions: inside XLA's compiler, which does not survive it,
or between a result and the line that keeps it.  Within `held` the first Ctrl-C is noted, and raised by the next
`check`, which the passes over rows call for every chunk.  The second is raised at once.

In the tool (`ending`) SIGTERM and the hangup of a terminal do the same in commands that have something to keep
(`keeping`), which write what is finished.  Everywhere else, and at the second signal, the tool ends at once, with
128 + the number of the signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from latentbits.core.printable import printable

__all__ = ["check", "ending", "exit_code", "handle", "has_arrived", "held", "keeping", "shielded", "take"]

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # not every system has all
KEEPS = "ending, and keeping what is finished; the same signal again ends at once"


class _State:
    """State of this process: signals are handled in its main thread alone."""

    holds = 0  # `held` contexts that are open
    shields = 0
    noted = False  # a signal has come since the first of them was opened
    handled = False  # raised, or taken
    first_signal: int | None = None  # in the command-line tool
    keeping = False  # there, a command that writes what is finished


# --- in a library ---


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
    """Let no `check` raise within: for short work that makes what was learned usable, or writes it down."""
    if not _in_main_thread():
        yield
        return
    _State.shields += 1
    try:
        yield
    finally:
        _State.shields -= 1


def handle(signum: int, frame: FrameType | None) -> None:
    """Note the first signal within `held`, and raise every other one: the handler."""
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


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


# --- in the command-line tool ---


@contextmanager
def ending() -> Iterator[None]:
    """Handle all signals within; if one has come, the process ends here.

    It ends without taking the interpreter down: threads of XLA that are still at work would crash in it.
    """
    for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup's SIGHUP stays ignored
            signal.signal(number, _handle)
    sys.unraisablehook = _unraisable
    try:
        yield
    finally:
        if has_arrived():
            _end()


@contextmanager
def keeping(nothing: str) -> Iterator[None]:
    """Note the first signal within, so that fits end with what is finished; print `nothing` where nothing is."""
    _State.keeping = True
    try:
        with held():
            try:
                yield
            except KeyboardInterrupt:
                print(printable(nothing), file=sys.stderr)
                raise
    finally:
        _State.keeping = False


def has_arrived() -> bool:
    """Say whether a signal has come."""
    return _State.first_signal is not None


def exit_code() -> int:
    """Give 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (signal.SIGINT if _State.first_signal is None else _State.first_signal)


def _handle(number: int, frame: FrameType | None) -> None:
    first = not has_arrived()
    if first:
        _State.first_signal = number
    if number == getattr(signal, "SIGHUP", None):
        _leave_terminal()
    if first and _State.keeping and _State.holds and not _State.noted:
        _say(KEEPS)
        handle(number, frame)
    elif _imports(frame):
        _end()  # many libraries catch what is raised in an import, and nothing is lost there
    else:
        raise SystemExit(128 + number)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave_terminal() -> None:
    """Write nowhere: a terminal that is gone fails everything that writes to it, a progress bar too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if os.isatty(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _say(text: str) -> None:
    """Write past Python's buffers, which may be in use: a handler runs in the middle of anything."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


def _end() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _say("interrupted")
    os._exit(exit_code())


def _unraisable(problem: Any) -> None:
    """End the tool where a signal is raised in a place that Python cannot pass it on from, as in a destructor."""
    if isinstance(problem.exc_value, SystemExit | KeyboardInterrupt) and has_arrived():
        _end()
    sys.__unraisablehook__(problem)
