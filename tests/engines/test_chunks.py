from __future__ import annotations

import weakref
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latentbits.engines.chunks import Layout, layout_for, rechunk
from latentbits.engines.stream import StreamEngine

FLOAT32 = np.dtype(np.float32)


@given(
    n=st.integers(1, 900),
    cuts=st.lists(st.integers(0, 900), max_size=6),
    rows=st.sampled_from([256, 512]),
    per_update=st.one_of(st.none(), st.integers(1, 700)),
)
def test_chunks_depend_on_the_rows_alone(n, cuts, rows, per_update):
    """Whatever the blocks, empty ones too: the same chunks, covering each row once, in order."""
    table = np.arange(2 * n).reshape(n, 2).astype(np.float32)
    layout = Layout(rows, FLOAT32, per_update)
    bounds = [0, *sorted(min(c, n) for c in cuts), n]
    blocks = [table[a:b] for a, b in pairwise(bounds)]
    chunks, whole = list(rechunk(blocks, layout)), list(rechunk([table], layout))
    assert [c[1:] for c in chunks] == [c[1:] for c in whole]
    for a, b in zip(chunks, whole):
        np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(np.concatenate([c.values[: c.n_rows] for c in chunks]), table)
    assert len({c.values.shape for c in chunks}) == 1
    assert chunks[-1].ends_update
    ends = [c.first_row + c.n_rows for c in chunks if c.ends_update]
    expected = list(range(per_update, n, per_update)) if per_update else []
    assert ends == [*expected, n]


def test_small_tables_share_few_shapes():
    layout = Layout(4096, FLOAT32)
    shapes = {next(rechunk([np.zeros((n, 3), np.uint8)], layout)).values.shape[0] for n in range(1, 2049, 7)}
    assert shapes == {256, 512, 1024, 2048}


def test_padding_is_a_small_part_of_a_large_table():
    layout = Layout(2**18, FLOAT32)
    for n in (2100, 5000, 30001, 200_000):
        (chunk,) = rechunk([np.zeros((n, 1), np.uint8)], layout)
        assert chunk.n_rows == n
        assert len(chunk.values) < 1.15 * n + 256


def test_chunk_size_follows_the_budget():
    small, large = (layout_for(1000, FLOAT32, budget).rows_per_chunk for budget in (2**20, 2**24))
    assert small == 256
    assert large == 4096


def test_elsewhere_than_on_a_cpu_a_call_has_several_chunks_of_a_large_table(monkeypatch):
    """As many as add few rows to the last call, and leave a call to each device; on a CPU the model decides."""
    layout = Layout(2**18, FLOAT32)
    assert layout.of_table(10**7) == layout
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    found = {n: layout.of_table(n).together for n in (1000, 300_000, 600_000, 10**7, 10**8)}
    assert found == {1000: 1, 300_000: 2, 600_000: 1, 10**7: 8, 10**8: 16}
    assert layout._replace(rows_per_update=2000).of_table(10**7).together == 1
    monkeypatch.setattr("jax.local_devices", lambda: [None] * 4)
    assert layout.of_table(2 * 2**18).together == 1
    assert layout.of_table(8 * 2**18).together == 2


def test_holes_are_found_chunk_by_chunk():
    table = np.zeros((600, 2), np.uint8)
    table[300, 1] = 255
    assert [c.complete for c in rechunk([table], Layout(256, FLOAT32))] == [True, False, True]


def test_a_stream_holds_no_more_than_a_chunk_and_a_block():
    alive, most = 0, 0

    class Block(np.ndarray):
        """An array that can be watched."""

    def gone():
        nonlocal alive
        alive -= 1

    def blocks():
        nonlocal alive, most
        for _ in range(200):
            block = np.zeros((100, 3), np.uint8).view(Block)
            weakref.finalize(block, gone)
            alive += 1
            most = max(most, alive)
            yield block
            del block

    rows, layout = 0, Layout(256, FLOAT32)
    looked_at = layout.rows_of_few(3)  # at the beginning, whether it is a small table
    for chunk in StreamEngine(blocks, 3).chunks(layout):
        if rows == 0:
            assert most < looked_at / 100 + 10
        if rows == looked_at:
            most = alive
        rows += chunk.n_rows
        del chunk
    assert rows == 20000
    assert looked_at < 10000
    assert most < 10
