"""Chunks side by side: several are in work at a time, and their results come in order.

On a CPU JAX runs the programs that one thread calls one after the other; those of different threads run at the same
time.  So chunks are handed to as many threads as there are cores, which takes less time than all cores for each chunk
in turn.  Elsewhere a call returns before it is computed, and one thread keeps all devices at work.  Totals do not
depend on how many are in flight.  What is in flight is bounded, so that a stream is not read much faster than it is
computed.

Work of NumPy on the host is done by threads as well (`in_order`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import jax

from latentbits.core.processor import cores
from latentbits.core.programs import setting
from latentbits.engines.devices import devices

__all__ = ["InFlight", "in_order"]

FOR_EACH = 2  # core, or device that is none: one in work, one waiting

Item = TypeVar("Item")
Result = TypeVar("Result")


class InFlight:
    """Work that may not be done yet."""

    def __init__(self) -> None:
        on_cpu = jax.default_backend() == "cpu"
        # settings of JAX are of a thread: who has changed some gets all done in their own
        own = setting("jax_disable_jit") or setting("jax_default_device") is not None
        self._threads = _threads() if on_cpu and cores() > 1 and not own else None
        # elsewhere than on a CPU a chunk may take a good part of the memory
        self._most = FOR_EACH * (cores() if on_cpu else len(devices()))
        self._begun: deque[Any] = deque()

    def add(self, work: Callable[[], Any], *, last: bool = False) -> Iterator[Any]:
        """Begin one more, which calls programs and gives trees of arrays; gives the results no room is left for.

        Where it is the `last` one, and nothing came before it, no other thread is needed.
        """
        if self._threads is None or (last and not self._begun):
            self._begun.append(work())
        else:
            self._begun.append(self._threads.submit(_done, work))
        while len(self._begun) >= self._most:
            yield _result(self._begun.popleft())

    def rest(self) -> Iterator[Any]:
        """Those that are still to come."""
        while self._begun:
            yield _result(self._begun.popleft())


def _done(work: Callable[[], Any]) -> Any:
    return jax.block_until_ready(work())


def _result(begun: Any) -> Any:
    return begun.result() if isinstance(begun, Future) else jax.block_until_ready(begun)


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What is made of each item on the host, by as many threads as there are cores; results come in order.

    >>> list(in_order(abs, [-3, 2, -1]))
    [3, 2, 1]
    """
    begun: deque[Future[Result]] = deque()
    for item in items:
        begun.append(_threads().submit(work, item))
        if len(begun) >= FOR_EACH * cores():
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "latentbits rows")
