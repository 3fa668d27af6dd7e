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
from latentbits.core.model import Evaluate
from latentbits.engines.host import without_rows
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Clock
from latentbits.engines.stage import Functions, advance, begin, call
from latentbits.engines.summary import summarise
from latentbits.models.mixture import membership
from latentbits.models.mixture import model as mixture

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
