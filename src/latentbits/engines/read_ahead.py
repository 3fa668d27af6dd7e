"""Reading in the background: while one item is worked on, the next ones are read by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["read_ahead"]

ITEMS_AHEAD = 2  # read before they are needed
END = object()

Item = TypeVar("Item")


def read_ahead(make: Callable[[], Iterable[Item]]) -> Iterator[Item]:
    """Yield the items of an iterable that another thread makes and reads, at most `ITEMS_AHEAD` items ahead.

    An error of the iterable is raised where its item would have come.  Stopping early ends the thread: it closes
    the iterable as soon as the item that it reads is there.

    >>> list(read_ahead(lambda: range(5)))
    [0, 1, 2, 3, 4]
    """
    ready: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    room, stopped = threading.Semaphore(ITEMS_AHEAD), threading.Event()

    def read() -> None:
        items: Any = None
        try:
            items = iter(make())
            while room.acquire() and not stopped.is_set():
                item = next(items, END)
                ready.put((item, None))
                if item is END:
                    return
                del item  # the reader may free it
        except BaseException as error:  # KeyboardInterrupt too: it is the consumer's to handle
            ready.put((END, error))
        finally:
            if hasattr(items, "close"):
                items.close()

    # a daemon, so that a read that hangs does not keep the process from ending
    thread = threading.Thread(target=copy_context().run, args=(read,), name="latentbits reading", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is END:
                return
            yield item
            del item
            room.release()
    finally:
        stopped.set()
        room.release()
        if threading.current_thread() is not thread:  # which may be the one that collects what was left
            thread.join()
