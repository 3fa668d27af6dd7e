"""Reading in the background."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from latentbits.core.errors import DataError
from latentbits.engines.chunks import Layout
from latentbits.engines.read_ahead import ITEMS_AHEAD, read_ahead
from latentbits.engines.stream import StreamEngine


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "latentbits reading"]


def test_items_are_read_while_others_are_worked_on():
    """Reading and working take turns at most once: both together take little more than the longer one."""

    def slow():
        for number in range(10):
            time.sleep(0.05)
            yield number

    began = time.perf_counter()
    for _ in read_ahead(slow):
        time.sleep(0.05)
    assert time.perf_counter() - began < 0.85


def test_no_more_are_read_than_there_is_room_for():
    made = 0

    def counted():
        nonlocal made
        for number in range(20):
            made += 1
            yield number

    items = read_ahead(counted)
    next(items)
    time.sleep(0.2)
    assert made == ITEMS_AHEAD  # one is in hand, and not given back yet
    items.close()


def test_stopping_early_ends_the_thread_and_the_iterable():
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    reading = read_ahead(items)
    next(reading)
    assert readers()
    reading.close()
    assert closed.is_set()
    assert not readers()


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_an_error_comes_in_the_place_of_its_item(error):
    def items():
        yield 0
        raise error

    reading = read_ahead(items)
    assert next(reading) == 0
    with pytest.raises(type(error)) as caught:
        next(reading)
    assert caught.value is error
    assert not readers()


def test_a_stream_that_changes_is_refused():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (1000, 5)).astype(np.uint8)
    engine = StreamEngine(lambda: iter(np.array_split(table, rng.integers(1, 9))), 5)
    layout = Layout(256, np.dtype(np.float32))
    for _ in range(3):  # in other blocks each time
        assert sum(chunk.n_rows for chunk in engine.chunks(layout)) == 1000
    next(iter(engine.chunks(layout)))  # a reading that is not complete says nothing
    table[700, 3] ^= 1
    with pytest.raises(DataError, match="X gives other rows in one pass than in another"):
        list(engine.blocks())
    table[700, 3] ^= 1
    list(engine.blocks())
    table = table[:900]
    with pytest.raises(DataError, match="1000 rows in one pass and 900 in another"):
        list(engine.chunks(layout))
