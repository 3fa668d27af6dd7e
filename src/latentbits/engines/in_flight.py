"""Chunks in flight: several are under way at a time, and their results come in order.

A call of a program returns before it is computed, so that reading and preparing a chunk overlaps with computing
others.  On a CPU JAX runs the programs that one thread calls one after the other, each on as many cores as it can use.
A pool of threads would run them at the same time, up to five times as fast on eight cores, but XLA's programs can then
wait for each other for ever (those of a latent trait of 20 dimensions did, on two cores).  Totals do not depend on how
many are in flight; XLA's own sums within a chunk may, in their last digits, depend on how many cores the process has.
What is in flight is bounded, so that a stream is not read much faster than it is computed.

Work of NumPy on the host is done by threads (`in_order`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import jax

from latentbits.core.processor import cores

__all__ = ["InFlight", "in_order"]

FOR_EACH_CORE = 2  # one in work, one waiting

Item = TypeVar("Item")
Result = TypeVar("Result")


class InFlight:
    """Work that may not be done yet."""

    def __init__(self) -> None:
        # elsewhere than on a CPU a chunk may take a good part of the memory
        self._most = FOR_EACH_CORE * (cores() if jax.default_backend() == "cpu" else 1)
        self._begun: deque[Any] = deque()

    def add(self, work: Callable[[], Any]) -> Iterator[Any]:
        """Begin one more, which calls programs and gives trees of arrays; gives the results no room is left for."""
        self._begun.append(work())
        while len(self._begun) >= self._most:
            yield jax.block_until_ready(self._begun.popleft())

    def rest(self) -> Iterator[Any]:
        """Those that are still to come."""
        while self._begun:
            yield self._begun.popleft()


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
