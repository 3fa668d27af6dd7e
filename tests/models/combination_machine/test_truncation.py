"""Sums over the states with few active units against sums over a table of all states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import all_close, moments_over, some_machine, terms

from latentbits.core import tree
from latentbits.core.states import sparse_states
from latentbits.models.combination_machine import truncation
from latentbits.models.combination_machine.machine import UNITS


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


@pytest.mark.parametrize(("kind", "max_active"), [("binary", 2), ("real", 2), ("binary", 9)])
def test_sums_over_the_states_with_few_active_units(kind, max_active, monkeypatch):
    monkeypatch.setattr(truncation, "STATES_PER_BLOCK", 20)  # blocks, the last one not full
    machine = some_machine(7, 8, size=0.7)
    found = jax.jit(lambda machine: truncation.sparse_moments(UNITS[kind], machine, max_active))(machine)
    h, g, x = terms(kind, machine)
    few = h.sum(1) <= max_active
    all_close(found[:2], moments_over(h[few], g[few], x[few]), rtol=0, atol=1e-10)
    assert np.isnan(found.left_out)
    assert np.isnan(found.left_out_error)


def test_numbers_of_active_units_are_the_sparse_states():
    machine = some_machine(7, 2)
    found = jax.jit(
        lambda machine: [truncation._from_active(jnp.asarray(truncation._active_units(7, k)), machine) for k in (0, 3)]
    )(machine)
    for k, states in zip((0, 3), found):
        np.testing.assert_array_equal(states, sparse_states(7, k))
    with pytest.raises(ValueError, match="max_active must be at least 0, got -1"):
        truncation._active_units(7, -1)
    with pytest.raises(ValueError, match="100 units have 79375496 states with at most 5 active, which is too many"):
        truncation._active_units(100, 5)


@pytest.mark.slow("annealed draws of its own")
def test_share_left_out_by_few_active_units():
    machine = some_machine(8, 9, size=0.4, bias=-1.5)
    h, g, _ = terms("binary", machine)
    truth = np.exp(np.logaddexp.reduce(g[h.sum(1) > 2]) - np.logaddexp.reduce(g))
    run = jax.jit(lambda machine, key: truncation.sparse_moments(UNITS["binary"], machine, 2, key, 400))
    found = run(machine, jax.random.key(0))
    assert 0.05 < truth < 0.95
    assert abs(found.left_out - truth) < 4 * found.left_out_error
    assert found.left_out_error < 0.04


def test_sums_over_hidden_states_of_a_row_with_few_active_units():
    """A row's fields are a machine of terms h . field: the log of their sum, and E[h]."""
    field = np.random.default_rng(0).normal(size=(4, 5))
    log_sum, mean = jax.jit(lambda field: truncation.few_active(field, 2))(jnp.asarray(field))
    h = sparse_states(5, 2).astype(float)
    g = field @ h.T
    np.testing.assert_allclose(log_sum, np.logaddexp.reduce(g, 1), atol=1e-12)
    np.testing.assert_allclose(mean, np.exp(g - np.logaddexp.reduce(g, 1)[:, None]) @ h, atol=1e-12)
