"""How the tool ends on Ctrl-C, SIGTERM and the hangup of a terminal: quietly, with 128 + the number of the signal.

A command that has something to keep runs under `keeping`: the first signal is noted, the fit under way ends at the next
safe place, and the command writes what is finished.  Everywhere else, and at the second signal, the tool ends at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from latentbits.core import interrupts

__all__ = ["ending", "exit_code", "has_arrived", "keeping"]

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # not every system has all
KEEPS = "ending, and keeping what is finished; the same signal again ends at once"


class _State:
    arrived: int | None = None  # the first signal
    keeping = False


@contextmanager
def ending() -> Iterator[None]:
    """Handle signals within; if one has come, the process ends here.

    It ends without taking the interpreter down: threads of XLA that are still at work would crash in it.
    """
    for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup's SIGHUP stays ignored
            signal.signal(number, _handle)
    sys.unraisablehook = _unraisable
    try:
        yield
    finally:
        if _State.arrived is not None:
            _end()


@contextmanager
def keeping(nothing: str) -> Iterator[None]:
    """The first signal is noted within, and fits end with what is finished; `nothing` is said where nothing is."""
    from latentbits.cli.console import say  # not above: signals are to be handled before click is imported

    _State.keeping = True
    try:
        with interrupts.held():
            try:
                yield
            except KeyboardInterrupt:
                say(nothing)
                raise
    finally:
        _State.keeping = False


def has_arrived() -> bool:
    """Whether a signal has come."""
    return _State.arrived is not None


def exit_code() -> int:
    """130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (signal.SIGINT if _State.arrived is None else _State.arrived)


def _handle(number: int, frame: FrameType | None) -> None:
    first = _State.arrived is None
    if first:
        _State.arrived = number
    if number == getattr(signal, "SIGHUP", None):
        _leave_terminal()
    if first and _State.keeping and interrupts.is_held():
        _say(KEEPS)
        interrupts.handle(number, frame)
    elif _imports(frame):
        _end()  # much catches what is raised in an import, and nothing is lost there
    else:
        raise SystemExit(128 + number)


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave_terminal() -> None:
    """A terminal that is gone fails whoever writes to it, a progress bar too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if os.isatty(descriptor):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _say(text: str) -> None:
    """Past Python's buffers, which may be in use: a handler runs in the middle of anything."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


def _end() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _say("interrupted")
    os._exit(exit_code())


def _unraisable(problem: Any) -> None:
    """What is raised where Python cannot pass it on, as in a destructor, ends the tool if it came of a signal."""
    if isinstance(problem.exc_value, SystemExit | KeyboardInterrupt) and has_arrived():
        _end()
    sys.__unraisablehook__(problem)
