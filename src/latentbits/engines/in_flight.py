"""Chunks side by side: several are in work at a time, and their results come in order.

On a CPU JAX runs the programs of a device one after the other, in whatever order they are called; programs called by
different threads run at the same time.  So chunks are handed to as many threads as there are cores, which takes less
time than all cores for each chunk in turn.  Totals do not depend on how many are in flight (XLA's own sums within a
chunk may, in their last digits, depend on how many cores the process has).  What is in flight is bounded, so that a
stream is not read much faster than it is computed.
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

__all__ = ["InFlight", "in_order"]

FOR_EACH_CORE = 2  # one in work, one waiting

Item = TypeVar("Item")
Result = TypeVar("Result")


class InFlight:
    """Work that may not be done yet."""

    def __init__(self) -> None:
        on_cpu = jax.default_backend() == "cpu" and setting("jax_default_device") is None
        # settings of JAX are of a thread: who has changed some gets all done in their own
        self._pool = _threads() if on_cpu and cores() > 1 and not setting("jax_disable_jit") else None
        self._most = FOR_EACH_CORE * (cores() if self._pool else 1)
        self._begun: deque[Any] = deque()

    def add(self, work: Callable[[], Any], *, last: bool = False) -> Iterator[Any]:
        """One more; gives the results for which no room is left, once they are there.

        Parameters
        ----------
        work
            Calls programs, and gives trees of arrays.
        last
            Nothing comes after it: where nothing came before it, no other thread is needed.
        """
        if self._pool is None or (last and not self._begun):
            self._begun.append(work())
        else:
            self._begun.append(self._pool.submit(_done, work))
        while len(self._begun) >= self._most:
            yield _result(self._begun.popleft())

    def rest(self) -> Iterator[Any]:
        """Those that are still to come."""
        while self._begun:
            yield _result(self._begun.popleft())


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What is made of each item on the host, by as many threads as there are cores; results come in order.

    >>> list(in_order(abs, [-3, 2, -1]))
    [3, 2, 1]
    """
    begun: deque[Future[Result]] = deque()
    for item in items:
        begun.append(_threads().submit(work, item))
        if len(begun) >= FOR_EACH_CORE * cores():
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), "latentbits rows")


def _done(work: Callable[[], Any]) -> Any:
    return jax.block_until_ready(work())


def _result(begun: Any) -> Any:
    return begun.result() if isinstance(begun, Future) else begun
