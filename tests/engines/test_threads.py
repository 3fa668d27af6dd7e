"""Chunks side by side: results in order, a bound on what is in flight, the same bits whatever the number of threads."""

from __future__ import annotations

import threading

import jax
import numpy as np
import pytest

from latentbits.engines import threads
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import map_rows, start_pass
from latentbits.models.mixture import model as mixture


@pytest.mark.parametrize("n", [1, 3])
def test_results_come_in_order_and_few_are_in_flight(monkeypatch, n):
    monkeypatch.setattr(threads, "cores", lambda: n)
    at_work, most, lock = 0, 0, threading.Lock()

    def slow(number):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.002 * (number % 3))
        with lock:
            at_work -= 1
        return number

    side, seen = threads.SideBySide(), []
    for number in range(20):
        seen += side.begin(slow, number)
        assert number + 1 - len(seen) < threads.IN_FLIGHT * n + 1
    seen += side.rest()
    assert seen == list(range(20))
    assert most <= n


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    side = threads.SideBySide()
    assert list(side.begin(lambda: 1 / 0)) == []
    with pytest.raises(ZeroDivisionError):
        list(side.rest())


def test_the_same_bits_on_any_number_of_cores(monkeypatch):
    table = (np.random.default_rng(0).random((400, 6)) < 0.4).astype(np.uint8)
    model, budget, found = mixture.model(3), 2**12, []
    for n in (1, 2, 5):
        monkeypatch.setattr(threads, "cores", lambda n=n: n)
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
