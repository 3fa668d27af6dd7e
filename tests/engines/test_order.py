"""Rows in no order: shuffling by number, in memory and on the disk, and streams that are sorted."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits.engines import order
from latentbits.engines.chunks import Layout
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.order import in_random_order, is_sorted, random_order
from latentbits.engines.stream import StreamEngine

LAYOUT = Layout(64, np.dtype(np.float32))


def rows_of(engine):
    return np.concatenate([np.asarray(c.values)[: c.n_rows] for c in engine.chunks(LAYOUT)])


def numbered(table):
    return StreamEngine(lambda: iter([table]), table.shape[1], (len(table), lambda numbers: table[numbers]))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("n_rows", [1, 7, 1000])
def test_every_row_comes_once_and_the_engines_agree(monkeypatch, n_rows, large):
    """Also where rows are read in runs, of which the last is short."""
    if large:
        monkeypatch.setattr(order, "LARGE_CELLS", 0)
        monkeypatch.setattr(order, "RUN_CELLS", 30)
        monkeypatch.setattr(order, "WINDOW_RUNS", 4)
    numbers = np.concatenate(list(random_order(n_rows, 9)))
    np.testing.assert_array_equal(np.sort(numbers), np.arange(n_rows))
    table = np.random.default_rng(0).random((n_rows, 9))
    in_memory, on_disk = (rows_of(in_random_order(engine)) for engine in (MemoryEngine(table), numbered(table)))
    np.testing.assert_array_equal(in_memory, on_disk)
    np.testing.assert_array_equal(in_memory, table[numbers].astype(np.float32))


def test_rows_of_a_large_table_that_come_together_are_of_many_places(monkeypatch):
    """A batch of 100 rows of a table that is sorted by kind has both kinds in about equal parts."""
    monkeypatch.setattr(order, "LARGE_CELLS", 0)
    monkeypatch.setattr(order, "RUN_CELLS", 2**10)
    numbers = np.concatenate(list(random_order(100_000, 64)))
    share = (numbers < 50_000).reshape(-1, 100).mean(1)
    assert np.abs(share - 0.5).max() < 0.3
    assert share.std() < 0.06  # 0.05 if rows were drawn one by one


@pytest.mark.parametrize("kind", ["bits", "holes", "reals far from zero"])
def test_a_stream_in_an_order_is_seen(kind):
    rng = np.random.default_rng(0)
    table = (rng.random((2000, 6)) < np.linspace(0.2, 0.8, 2000)[:, None]).astype(np.uint8)
    if kind == "holes":
        table = np.where(rng.random(table.shape) < 0.3, np.uint8(255), table)
    elif kind == "reals far from zero":
        table = 1e8 + table + rng.normal(size=table.shape)
    stream = StreamEngine(lambda: iter([table]), 6)
    with pytest.warns(UserWarning, match="rows of this stream are in an order"):
        assert in_random_order(stream) is stream


def test_a_stream_in_no_order_is_not():
    """Of 200 tables whose columns are all the same, which is the hardest case for the standard error; and constants."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        bits = np.repeat((rng.random((rng.integers(2, 3000), 1)) < 0.3).astype(np.uint8), 5, axis=1)
        assert not is_sorted(StreamEngine(lambda bits=bits: iter([bits]), 5))
    assert not is_sorted(StreamEngine(lambda: iter([np.ones((900, 5), np.uint8)]), 5))
