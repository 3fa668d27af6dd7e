"""The update of a network from one block of rows: how long it remembers, and the same in NumPy as compiled."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

from latentbits.core import keys
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Iterate, Progress, Summary, Transform
from latentbits.core.tree import double
from latentbits.engines import passes, stage
from latentbits.engines.host import without_rows
from latentbits.models.noisy_or import learning
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.recipes import PAPER


def stats_of(n_rows, trials, successes, prior, odd_weight):
    """Two inputs under one unit: its trials and successes, and the rows it is on in."""
    one, pair = np.ones(1), np.ones((1, 2))
    counts = (
        *((n * pair,) for n in (trials, successes)),
        (np.full(2, n_rows), n_rows * one),
        (np.full(2, 0.01 * n_rows), prior * one),
        *((n * pair,) for n in (trials, successes)),
        *((0 * one,), (0 * one,), (np.zeros(2),), (np.asarray(odd_weight),)),
    )
    return learning.Stats(np.asarray(n_rows), np.asarray(n_rows * 1e-7), np.zeros(2), *counts)


@pytest.fixture(scope="module")
def begin():
    """Where learning begins, and a function that updates."""
    model = networks.model((1,), batch_size=1000)
    weights, biases = np.full((1, 2), 0.1), (np.full(2, 0.01), np.full(1, 0.3))
    params = Params((weights,), biases)
    state = model.stages[0].start(params)
    progress = Progress(*map(np.asarray, (0, 10, 0)), keys.of_seed(0))
    shared = model.prepare(params, state, progress)
    return state, params, lambda state, params, stats: model.update(state, params, shared, stats, progress)


def effect(value):
    return -np.expm1(-np.asarray(value))


def test_the_last_rows_of_a_table_do_not_undo_what_is_learned(begin):
    """An update from one row after one from a thousand: the thousand count, less the one."""
    state, params, step = begin
    state, params = step(state, params, stats_of(1000.0, 1000.0, 800.0, 500.0, 0.0))
    np.testing.assert_allclose(effect(params.weights[0]), 800 / 1001.5, rtol=1e-9)
    state, params = step(state, params, stats_of(1.0, 1.0, 0.0, 0.5, 0.0))
    np.testing.assert_allclose(effect(params.weights[0]), 800 * 0.999 / 1001.5, rtol=1e-9)


def test_a_rare_cause_is_not_forgotten_by_an_update_without_it(begin):
    """Once common causes are found, a unit looks back on as many updates as it takes to see it on in some rows."""
    state, params, step = begin
    state = eqx.tree_at(lambda s: s.step, state, np.asarray(93))
    for on in (6.0, 6.0, 0.0, 0.0):
        state, params = step(state, params, stats_of(1000.0, on, 0.8 * on, on, 1.0))
    kept = 6 * (1 - 1 / 3) * (1 - 1 / 4)  # the table has been met to a third, and a fourth, by then
    np.testing.assert_allclose(effect(params.weights[0]), 0.8 * kept / (kept + 1.5), rtol=1e-9)
    np.testing.assert_allclose(effect(params.biases[1]), kept / 1001.5, rtol=1e-9)


SIZES, ROWS = (6, 4, 2), np.dtype(np.float32)  # inputs first


def drawn_stats(rng, value):
    """Counts as they might come from a thousand rows; some units are good for nothing, some bits have no cause."""
    pairs = list(zip(SIZES[1:], SIZES, strict=False))

    def counts(shape, most):
        return rng.uniform(0, 1, shape) * most

    seen = tuple(counts(shape, 1000.0) for shape in pairs)
    pivot_seen = tuple(counts(s.shape, s) for s in seen)
    credit, pivot_credit = (tuple(counts(s.shape, s) for s in trials) for trials in (seen, pivot_seen))
    bias_seen = tuple(np.full(size, 1000.0) for size in SIZES)
    bias_credit = tuple(counts(size, 300.0) for size in SIZES)
    gain, change = (tuple(counts(size, most) for size in SIZES[1:]) for most in (40.0, 1000.0))
    odd, odd_weight = tuple(counts(size, 5.0) for size in SIZES[:-1]), tuple(np.asarray(5.0) for _ in pairs)
    counted = seen, credit, bias_seen, bias_credit, pivot_seen, pivot_credit, gain, change, odd, odd_weight
    return learning.Stats(np.asarray(1000.0), np.asarray(1e-4), np.array([value, 0.0]), *counted)


def alike(one, other, rtol):
    """Compare trees, in which keys and shapes are the same."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("setting", [{"alpha": 1.3}, {"recipe": PAPER._replace(schedule="stability"), "bias": False}])
def test_numpy_and_compiled_programs_agree(setting):
    """All that sees no rows: starts, updates of layers with new uses of idle units, exact EM, a layer on top."""
    model, rng, key = networks.model(SIZES[1:], **setting), np.random.default_rng(0), keys.of_seed(1)
    half, none = np.full(SIZES[0], 0.5), np.zeros((1, SIZES[0]))
    summary = Summary(np.float64(10), half, half, half, none, np.zeros((1, SIZES[0]), np.uint8))
    steps = {"State": [(40, 29), (100, 5)], "Secants": [None] * 4}  # a renewal is due; a start from odd rows is; climbs

    def both(program, *args, rtol=1e-12, **constants):
        with double():
            found, compiled = without_rows(program, True)(*args, **constants), program(*args, **constants)
        alike(found, compiled, rtol)
        return found

    params, state = both(stage.begin, callable_tree(model.init), key, summary), None
    for leg in model.stages:
        if isinstance(leg, Transform):
            params = leg.function(key, params, state)
            continue
        acting = model.acting_in(leg)
        state = both(stage.call, callable_tree(acting.start), params)
        clocks = [passes.Clock(*map(np.int32, (k, 10, k)), key) for k in range(2)]
        shared, *_ = both(passes.prepare, callable_tree(acting.prepare), params, state, clocks[0], dtype=ROWS)
        for number, at in enumerate(steps[type(state).__name__]):
            if at is not None:
                state = eqx.tree_at(lambda s: (s.step, s.since), state, tuple(map(np.asarray, at)))
                state = eqx.tree_at(lambda s: s.met, state, tuple(np.full(size, 1e5) for size in SIZES))
            given = stage.Functions.of(acting), state, params, shared, drawn_stats(rng, 1e4 * number), *clocks
            climbs = isinstance(leg, Iterate)  # eigenvectors
            _, (params, state, shared, *_) = both(stage.advance, *given, dtype=ROWS, rtol=1e-8 if climbs else 1e-12)
