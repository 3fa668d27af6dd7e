"""Chunks side by side: on a CPU each is computed by one thread, as many at a time as there are cores.

One thread a chunk takes less time than all threads for each chunk in turn, and no number depends on how many there are.
On other devices chunks are queued one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import jax

from latentbits.core.programs import cores, setting

__all__ = ["SideBySide"]

IN_FLIGHT = 2  # chunks for each core, in work or waiting: a stream is not read much faster than it is computed


class SideBySide:
    """Calls that are made in threads, and whose results come in the order of the calls."""

    def __init__(self) -> None:
        self._on_cpu = jax.default_backend() == "cpu"
        self._pool = _pool(cores()) if self._on_cpu and cores() > 1 else None
        self._most = IN_FLIGHT * cores() if self._on_cpu else IN_FLIGHT
        self._begun: deque[Future[Any]] = deque()

    def begin(self, function: Callable[..., Any], *args: Any) -> Iterator[Any]:
        """Begin one more call; gives the results for which no room is left."""
        if self._pool is None:
            done: Future[Any] = Future()
            done.set_result(function(*args))
            self._begun.append(done)
        else:
            self._begun.append(self._pool.submit(_on_device, setting("jax_default_device"), function, args))
        while len(self._begun) >= self._most:
            yield self._next()

    def rest(self) -> Iterator[Any]:
        """The results that are still to come."""
        while self._begun:
            yield self._next()

    def _next(self) -> Any:
        # a device works through its queue behind our back: it may not grow without end
        return jax.block_until_ready(self._begun.popleft().result())


def _on_device(device: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call in a thread, which does not inherit the user's choice of a device."""
    with jax.default_device(device):
        return jax.block_until_ready(function(*args))


@cache
def _pool(n: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n, "latentbits chunk")
