"""Limits of memory and time: work that exceeds them is refused before it begins, or as soon as this shows."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from latentbits.core.errors import OutOfTimeError, TooLargeError

__all__ = ["Pace", "TimeLeft", "available_memory", "check_memory", "check_time", "no_limit", "watch", "within"]

MEMORY_SHARE = 0.6  # of the available memory that one piece of work may take: estimates can be too low
SHORT_SECONDS = 2.0  # shorter work is done whatever the limit: half of it is worth nothing

MORE_OR_LESS = "raise max_time, or take fewer columns"

TimeLeft = Callable[[], float]  # seconds left now, infinite without a limit


def no_limit() -> float:
    """Return infinity: a `TimeLeft` that is never over."""
    return math.inf


_deadline: ContextVar[tuple[float, str] | None] = ContextVar("deadline", default=None)


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Give up passes over rows that take longer than a number of seconds; `what` is the subject of the message.

    What goes into compiling programs does not count.
    """
    before = _deadline.set((_working() + seconds, f"{what} takes longer than the {seconds:.0f} s that it has"))
    try:
        yield
    finally:
        _deadline.reset(before)


def check_time() -> None:
    """Raise OutOfTimeError where the time of the innermost `within` is over."""
    limit = _deadline.get()
    if limit is not None and _working() > limit[0]:
        raise OutOfTimeError(limit[1])


def _working() -> float:
    """Read a clock that stands still while programs are compiled."""
    from latentbits.core.compilation import seconds_waited  # with JAX, which readers of tables do without

    return time.perf_counter() - seconds_waited()


def available_memory() -> int | None:
    """Estimate the bytes that this process could still take; None where the system does not say.

    The least of what the machine has free, of what a container leaves, and of the limit on the address space.
    """
    known = [_free(), _of_container(), _of_address_space()]
    found = [number for number in known if number is not None]
    return max(0, min(found)) if found else None


def check_memory(needed: float | int, what: str, advice: str, most: int | None = None) -> None:
    """Refuse work that needs more bytes than a share of what is available (or than `most`).

    Raises
    ------
    TooLargeError
        With the bytes, the limit and what to do.
    """
    if most is None:
        available = available_memory()
        most = None if available is None else int(MEMORY_SHARE * available)
    if most is not None and needed > most:
        raise TooLargeError(
            f"{what} needs about {readable(needed)} of memory, and {readable(most)} is the limit here "
            f"({MEMORY_SHARE:.0%} of what is available): {advice}"
        )


def readable(n_bytes: float | int) -> str:
    """Format a number of bytes.

    >>> readable(2_500_000), readable(93.2e9)
    ('2.5 MB', '93.2 GB')
    """
    unit, size = next(((u, s) for u, s in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if n_bytes >= s), ("kB", 1e3))
    return f"{n_bytes / size:.1f} {unit}"


def watch(what: str, left: TimeLeft) -> Callable[[], None]:
    """Make a function to call during work of unknown amount: it raises OutOfTimeError when time is over."""
    began = time.perf_counter()

    def check() -> None:
        if left() <= 0 and time.perf_counter() - began > SHORT_SECONDS:
            raise OutOfTimeError(f"{what} takes longer than max_time", MORE_OR_LESS)

    return check


class Pace:
    """Speed of work of known amount, which is given up as soon as the time left is too short.

    Parameters
    ----------
    what
        The work, as the subject of a sentence.
    total
        Its amount, in any unit.
    left
        Seconds left.
    """

    def __init__(self, what: str, total: float | int, left: TimeLeft) -> None:
        self.what, self.total, self.left, self.done = what, total, left, 0.0
        self._began = time.perf_counter()

    def add(self, amount: float | int) -> None:
        """Record work done, and refuse the rest if it will take too long."""
        self.done += amount
        so_far = time.perf_counter() - self._began
        to_go = so_far * (self.total - self.done) / self.done
        self.expect(so_far + to_go, to_go)

    def expect(self, whole: float, to_go: float | None = None) -> None:
        """Refuse work that takes more seconds than are left."""
        left = self.left()
        if whole > SHORT_SECONDS and (whole if to_go is None else to_go) > left:
            raise OutOfTimeError(
                f"{self.what} would take about {whole:.0f} s, and of max_time {max(left, 0):.1f} s are left",
                MORE_OR_LESS,
            )


def _free() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_container() -> int | None:
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())  # "max" where there is none
        return limit - int((group / "memory.current").read_text()) + _reclaimable(group)
    return None


def _reclaimable(group: Path) -> int:
    """Count the bytes of cached files, which give way."""
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            if line.startswith("inactive_file "):
                return int(line.split()[1])
    return 0


def _of_address_space() -> int | None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            return limit - mapped
    return None
