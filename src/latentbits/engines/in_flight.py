"""Chunks side by side: several are in flight at a time, and their results come in order.

A call of a program returns before it is computed, so that reading and preparing a chunk overlaps with computing others.
Measured on 16 cores, XLA runs programs that one thread calls one after the other: chunks gain little from many cores.
Totals do not depend on how many are in flight; XLA's own sums within a chunk may, in their last digits, depend on how
many cores the process has.  What is in flight is bounded, so that a stream is not read much faster than it is computed.
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
