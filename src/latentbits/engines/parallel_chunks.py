"""Chunks side by side: several are in work at a time, and their results come in order.

On a CPU JAX runs the programs that one thread calls one after the other; those of different threads run at the same
time.  So chunks are handed to as many threads as there are cores, which takes less time than all cores for each chunk
in turn.  Elsewhere a call returns before it is computed, and one thread keeps all devices at work.  Totals do not
depend on how many are in flight.  What is in flight is bounded, so that a stream is not read much faster than it is
computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import jax

from latentbits.core.compilation import setting
from latentbits.core.processor import cores
from latentbits.engines.devices import devices
from latentbits.engines.threads import TASKS_PER_CORE, threads

__all__ = ["InFlight"]


class InFlight:
    """Work that may not be done yet."""

    def __init__(self) -> None:
        on_cpu = jax.default_backend() == "cpu"
        # settings of JAX are of a thread: who has changed some gets all done in their own
        own = setting("jax_disable_jit") or setting("jax_default_device") is not None
        self._threads = threads() if on_cpu and cores() > 1 and not own else None
        # elsewhere than on a CPU a chunk may take a good part of the memory
        self._most = TASKS_PER_CORE * (cores() if on_cpu else len(devices()))
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
        """Wait for the chunks that are still in work."""
        while self._begun:
            yield _result(self._begun.popleft())


def _done(work: Callable[[], Any]) -> Any:
    return jax.block_until_ready(work())


def _result(begun: Any) -> Any:
    return begun.result() if isinstance(begun, Future) else jax.block_until_ready(begun)
