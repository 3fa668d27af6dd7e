"""Chunks side by side: several are in flight at a time, and their results come in order.

A call of a program returns before it is computed.  On a CPU programs of chunks are compiled for one thread
(`core/programs.py`), and XLA runs as many of them at a time as there are cores: that takes less time than all threads
for each chunk in turn, and no number depends on how many there are.  What is in flight is bounded, so that a stream is
not read much faster than it is computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import jax

from latentbits.core.processor import cores

__all__ = ["InFlight"]

FOR_EACH_CORE = 2  # one in work, one waiting


class InFlight:
    """Results that may not be there yet."""

    def __init__(self) -> None:
        self._most = FOR_EACH_CORE * (cores() if jax.default_backend() == "cpu" else 1)
        self._begun: deque[Any] = deque()

    def add(self, result: Any) -> Iterator[Any]:
        """One more; gives those for which no room is left, once they are there."""
        self._begun.append(result)
        while len(self._begun) >= self._most:
            yield jax.block_until_ready(self._begun.popleft())

    def rest(self) -> Iterator[Any]:
        """Those that are still to come."""
        while self._begun:
            yield self._begun.popleft()
