"""Chunks in flight: results in order, a bound on what is in flight, the same bits whatever the number of cores."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tables import as_bytes, classes

from latentbits.engines import parallel_chunks
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import map_rows, start_pass
from latentbits.engines.stream import StreamEngine
from latentbits.models.mixture import model as mixture


@pytest.mark.parametrize("n", [1, 3])
def test_results_come_in_order_and_few_are_in_flight(monkeypatch, n):
    monkeypatch.setattr(parallel_chunks, "cores", lambda: n)
    flying, seen = parallel_chunks.InFlight(), []
    for number in range(20):
        seen += flying.add(partial(int, number))
        assert number + 1 - len(seen) < parallel_chunks.TASKS_PER_CORE * n
    seen += flying.rest()
    assert seen == list(range(20))


def test_a_stream_is_not_read_far_ahead(monkeypatch):
    """Rows that were read and not yet answered: those in flight, and those that decide whether they are few."""
    monkeypatch.setattr(parallel_chunks, "cores", lambda: 2)
    read, model = [], mixture.model(2)
    rows = (np.random.default_rng(0).random((9000, 6)) < 0.4).astype(np.uint8)

    def blocks():
        for first in range(0, 9000, 50):
            read.append(first)
            yield rows[first : first + 50]

    layout = layout_for(model.row_floats(6), np.dtype(np.float32), 2**12)
    means = mixture.Params(jnp.array([0.5, 0.5]), jnp.full((2, 6), 0.4))
    given = start_pass(model, layout.dtype, means, seed_key(0))
    ahead = []
    answered = 0
    for part in map_rows(model.log_likelihood, StreamEngine(blocks, 6), layout, given):
        answered += len(part.value)
        ahead.append(read[-1] + 50 - answered)
    assert answered == 9000
    assert max(ahead) <= layout.rows_of_few(6) + (4 + 2) * max(50, layout.rows_per_chunk)


def test_the_same_bits_on_any_number_of_cores(monkeypatch):
    table = as_bytes(classes(k=3))
    model, budget, found = mixture.model(3, accelerate=False), 2**12, []
    for n in (1, 5):
        monkeypatch.setattr(parallel_chunks, "cores", lambda n=n: n)
        engine = MemoryEngine(table)
        result = fit(model, engine, seed_key(0), limits=Limits(5, -np.inf), memory_budget=budget)
        layout = layout_for(model.row_floats(6), np.dtype(np.float32), budget)
        assert layout.rows_per_chunk < 100
        given = start_pass(model, layout.dtype, result.params, seed_key(0))
        rows = np.concatenate([part.value for part in map_rows(model.log_likelihood, engine, layout, given)])
        found.append([*jax.tree.leaves(result.params), rows])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
