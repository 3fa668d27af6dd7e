"""Threads for the work of this process on rows: as many as it has cores, made once.

NumPy lets go of the interpreter while it reduces, compares and copies, so that threads take as many cores as there are.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np

from latentbits.core import forks
from latentbits.core.processor import cores

__all__ = ["TASKS_PER_CORE", "by_slices", "in_order", "threads"]

TASKS_PER_CORE = 2  # also per device of another kind: one in work, one waiting
SLICE_BYTES = 2**23  # a thread takes rows of this size at a time

Item = TypeVar("Item")
Result = TypeVar("Result")
_here = threading.local()


def threads() -> ThreadPoolExecutor:
    """Return the threads."""
    forks.refuse()
    return _started()


@cache
def _started() -> ThreadPoolExecutor:
    forks.at_work()
    return ThreadPoolExecutor(cores(), "latentbits rows", _mark)


def _mark() -> None:
    _here.is_one = True


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Apply a function to each item on the host, by all threads; yield results in order.

    >>> list(in_order(abs, [-3, 2, -1]))
    [3, 2, 1]
    """
    begun: deque[Future[Result]] = deque()
    for item in items:
        begun.append(threads().submit(work, item))
        if len(begun) >= TASKS_PER_CORE * cores():
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


def by_slices(work: Callable[[slice], Result], rows: np.ndarray) -> Iterator[Result]:
    """Apply a function to slices of the rows of an array; yield results in order, for one slice at least.

    Where there is nothing to share, and in a thread that is one of all, they are done one after the other.

    >>> table = np.arange(6).reshape(3, 2)
    >>> list(by_slices(lambda some: int(table[some].sum()), table))
    [15]
    """
    size = max(1, SLICE_BYTES // max(1, rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))))
    parts = [slice(start, start + size) for start in range(0, max(1, len(rows)), size)]
    alone = len(parts) == 1 or getattr(_here, "is_one", False)
    every: Callable[..., Iterator[Any]] = map if alone else in_order
    yield from every(work, parts)
