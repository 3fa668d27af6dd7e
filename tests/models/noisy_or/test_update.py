"""The update of a network from one block of rows: how long it remembers what it has seen."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core.model import Progress
from latentbits.core.tree import double
from latentbits.models.noisy_or import learning
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or.network import Params


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
    return learning.Stats(jnp.asarray(n_rows), jnp.asarray(np.zeros(2)), *jax.tree.map(jnp.asarray, counts))


@pytest.fixture(scope="module")
def begin():
    """Where learning begins, and a function that updates."""
    model = networks.model((1,), batch_size=1000)
    with double():
        weights, biases = np.full((1, 2), 0.1), (np.full(2, 0.01), np.full(1, 0.3))
        params = Params((jnp.asarray(weights),), tuple(map(jnp.asarray, biases)))
        state = jax.tree.map(lambda x: jnp.asarray(np.asarray(x)), jax.jit(model.stages[0].start)(params))
        progress = Progress(*map(jnp.asarray, (0, 10, 0)), jax.random.key(0))
        shared = jax.jit(model.prepare)(params, state, progress)
        step = jax.jit(lambda state, params, stats: model.update(state, params, shared, stats, progress))
    return state, params, step


def effect(value):
    return -np.expm1(-np.asarray(value))


def test_the_last_rows_of_a_table_do_not_undo_what_is_learned(begin):
    """An update from one row after one from a thousand: the thousand count, less the one."""
    state, params, step = begin
    with double():
        state, params = step(state, params, stats_of(1000.0, 1000.0, 800.0, 500.0, 0.0))
        np.testing.assert_allclose(effect(params.weights[0]), 800 / 1001.5, rtol=1e-9)
        state, params = step(state, params, stats_of(1.0, 1.0, 0.0, 0.5, 0.0))
        np.testing.assert_allclose(effect(params.weights[0]), 800 * 0.999 / 1001.5, rtol=1e-9)


def test_a_rare_cause_is_not_forgotten_by_an_update_without_it(begin):
    """Once common causes are found, a unit looks back on as many updates as it takes to see it on in some rows."""
    state, params, step = begin
    with double():
        state = eqx.tree_at(lambda s: s.step, state, jnp.asarray(np.asarray(93, state.step.dtype)))
        for on in (6.0, 6.0, 0.0, 0.0):
            state, params = step(state, params, stats_of(1000.0, on, 0.8 * on, on, 1.0))
    kept = 6 * (1 - 1 / 3) * (1 - 1 / 4)  # the table has been met to a third, and a fourth, by then
    np.testing.assert_allclose(effect(params.weights[0]), 0.8 * kept / (kept + 1.5), rtol=1e-9)
    np.testing.assert_allclose(effect(params.biases[1]), kept / 1001.5, rtol=1e-9)
