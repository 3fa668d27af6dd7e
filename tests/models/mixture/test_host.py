"""Functions in NumPy and compiled: the same numbers, to rounding."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from tests.models.steps import batch_of
from tests.tables import as_bytes, as_floats, classes

from latentbits.core import keys, tree
from latentbits.core.arrays import on_device
from latentbits.core.batch import make_batch
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Evaluate, Stop
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.host import without_rows
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Clock
from latentbits.engines.stage import Functions, advance, begin, call
from latentbits.engines.stream import StreamEngine
from latentbits.engines.summary import summarise
from latentbits.models.mixture import membership, tuning
from latentbits.models.mixture import model as mixture
from latentbits.models.mixture.coordinates import params_at

BITS = as_bytes(classes(k=3, missing=0.1))
BESIDE = np.random.default_rng(0).normal(size=(len(BITS), 2))
BEGUN = {"init": "random", "smoothing": "auto", "by_newton": True}


@jax.jit
def sums(e_step, params, shared, table):
    stats = tree.widen(e_step(params, shared, batch_of(table), None)[0])
    return stats.replace(log_likelihood=stats.log_likelihood.sum(keepdims=True))  # of the pair


def sums_on_host(e_step, params, shared, table):
    batch = make_batch(table, np.uint32(0), np.uint32(len(table)), keys.of_seed(0), False, np.dtype(float))
    stats, _ = e_step(params, shared, batch, None)
    return stats.replace(log_likelihood=stats.log_likelihood.sum(keepdims=True))


def alike(found, wanted):
    """Compare to rounding; what is left to gain at the end is a square of it."""
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), found, wanted)


@pytest.mark.parametrize(
    ("model", "table"),
    [
        pytest.param(mixture.model(3, **BEGUN), BITS, marks=pytest.mark.slow("two programs of each stage")),
        (mixture.model(3, 0.5, "anneal"), BITS),
        (membership.model(3, BESIDE.mean(0), np.eye(2), 0.5), np.column_stack([as_floats(BITS), BESIDE])),
    ],
    ids=["chosen smoothing and Newton", "annealing", "covariates"],
)
def test_all_stages_are_the_same_on_both_sides(model, table):
    key, host, both = keys.of_seed(3), partial(without_rows, on_host=True), (True, False)
    with tree.double():
        given = callable_tree(model.init), key, summarise(MemoryEngine(table))
        params, compiled = (jax.device_get(without_rows(begin, side)(*given)) for side in both)
        alike(params, compiled)
        for stage in model.stages:
            acting, clock = model.acting_in(stage), Clock(np.int32(6), np.int32(20), np.int32(6), key)
            state = None if acting.start is None else host(call)(callable_tree(acting.start), params)
            shared = acting.prepare(params, state, clock.progress(0))
            for _ in range(6):
                stats = jax.device_get(sums(callable_tree(acting.e_step), params, shared, table))
                alike(sums_on_host(acting.e_step, params, shared, table), stats)
                if isinstance(stage, Evaluate):
                    given = callable_tree(acting.objective), params, shared, stats
                    alike(*(without_rows(call, side)(*given) for side in both))
                    break
                given = Functions.of(acting), state, params, shared, stats, clock, clock
                here, there = (without_rows(advance, side)(*given, dtype=np.dtype(float)) for side in both)
                assert not on_device(here)
                (told, (params, state, shared, *_)), (also, (there, *_)) = here, there
                alike((told.value, told.left, params), (also.value, also.left, there))


def test_starts_side_by_side_climb_as_each_does_alone(monkeypatch):
    """Rows have holes and weights, and starts are taken two at a time."""
    monkeypatch.setattr(tuning, "ABREAST_NUMBERS", 2 * 3 * len(BITS))
    model, rng = mixture.model(3, 0.5, by_newton=True), np.random.default_rng(1)
    together = model.abreast(5)
    beside = together.model.acting_in(together.model.stages[0])
    weight = rng.integers(0, 3, len(BITS)).astype(float)
    batch = make_batch(BITS, np.uint32(0), weight, keys.of_seed(0), False, np.dtype(float))

    def climb(acting, params):
        state, told, now = acting.start(params), [], Clock(*np.zeros(3, np.int32), keys.of_seed(0)).progress(0)
        for _ in range(8):
            shared = acting.prepare(params, state, now)
            stats, _ = acting.e_step(params, shared, batch, None)
            told.append(acting.objective(params, shared, stats))
            state, params = acting.update(state, params, shared, stats, now)
        return state, params, np.array(told)

    begun = mixture.Params(rng.dirichlet(np.ones(3), 5), rng.uniform(0.1, 0.9, (5, 3, BITS.shape[1])))
    state, params, told = climb(beside, begun)
    alone = [climb(model, jax.tree.map(lambda x, s=s: x[s], begun)) for s in range(5)]
    for s, (own, at, _) in enumerate(alone):
        jax.tree.map(lambda a, b, s=s: np.testing.assert_allclose(a[s], b, rtol=1e-6, atol=1e-8), params, at)
        assert state.value[s] == pytest.approx(own.value, rel=1e-9)
    np.testing.assert_allclose(told, np.max([one for *_, one in alone], axis=0), rtol=1e-9)
    values, ends = together.ends(params, state)
    best = np.argmax(values)
    top = params_at(alone[best][0].best.reshape(3, -1))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[best], b, rtol=1e-6, atol=1e-8), ends, top)


def test_small_tables_give_the_same_bits_on_every_engine_and_the_best_of_all_starts():
    model = mixture.model(4, by_newton=True)
    engines = MemoryEngine(BITS), StreamEngine(lambda: iter(np.split(BITS, [7, 90])), BITS.shape[1])
    first, second = (fit(model, engine, seed_key(0), n_init=6, dtype=float) for engine in engines)
    jax.tree.map(np.testing.assert_array_equal, first.params, second.params)
    one_by_one = fit(model._replace(abreast=None), MemoryEngine(BITS), seed_key(0), n_init=6, dtype=float)
    assert first.objective >= one_by_one.objective - 1e-3
    assert first.reason is Stop.CONVERGED
    assert max(record.objective for record in first.history) == pytest.approx(first.objective, abs=1e-9)
