"""Sums over some of the states against sums over all of them, and what is left out against the truth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from latentbits.core import tree
from latentbits.core.states import all_states, sparse_states
from latentbits.models.combination_machine import truncation
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Machine
from latentbits.models.combination_machine.partition import exact_moments

exact = jax.jit(exact_moments, static_argnums=(0, 2))
sparse_moments = jax.jit(truncation.sparse_moments, static_argnums=(0, 2, 4))


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def a_machine(m, n, scale=1.0, seed=0, bias=0.0):
    rng = np.random.default_rng([seed, m, n])
    w, theta, b = (scale * rng.normal(size=shape) for shape in [(m, n), (m,), (n,)])
    return Machine(jnp.asarray(w), jnp.asarray(theta + bias), jnp.asarray(b))


def all_terms(units, machine):
    h = jnp.asarray(all_states(machine.weights.shape[0]), jnp.float64)
    return np.asarray(h), np.asarray(truncation.log_terms(units, machine, h))


def close(a, b, **tolerance):
    for ours, theirs in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_all_units_active_is_exact(kind, monkeypatch):
    monkeypatch.setattr(truncation, "BLOCK", 50)  # blocks, the last one not full
    machine = a_machine(7, 8, 0.7)
    for max_active in (7, 9):
        got = truncation.sparse_moments(UNITS[kind], machine, max_active)
        close(got[:2], exact(UNITS[kind], machine), rtol=0, atol=1e-10)
        assert np.isnan(got.left_out)
        assert np.isnan(got.left_out_error)


def test_one_active_unit_is_a_mixture():
    machine = a_machine(6, 9)
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    fields = np.vstack([b, b + w])  # no unit, or one of them
    log_weight = np.append(0, theta) + np.log(2 * np.cosh(fields)).sum(1)
    weight = np.exp(log_weight - logsumexp(log_weight))
    means = np.tanh(fields)
    log_z, moments, *_ = sparse_moments(BINARY, machine, 1)
    np.testing.assert_allclose(log_z, logsumexp(log_weight), atol=1e-12)
    np.testing.assert_allclose(moments.hidden_bias, weight[1:], atol=1e-12)
    np.testing.assert_allclose(moments.weights, weight[1:, None] * means[1:], atol=1e-12)
    np.testing.assert_allclose(moments.input_bias, weight @ means, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("units", [BINARY, REAL], ids=lambda units: units.name)
def test_moments_are_the_derivative(units):
    machine = a_machine(6, 5, 0.6)
    moments = sparse_moments(units, machine, 2).moments
    close(jax.grad(lambda machine: truncation.sparse_moments(units, machine, 2).log_z)(machine), moments, atol=1e-12)


def test_numbers_of_active_units_are_the_sparse_states():
    machine = a_machine(7, 2)
    for k in (0, 1, 3, 7):
        states = truncation._from_active(jnp.asarray(truncation._active_units(7, k)), machine)
        np.testing.assert_array_equal(states, sparse_states(7, k))
    with pytest.raises(ValueError, match="max_active must be at least 0, got -1"):
        truncation._active_units(7, -1)
    with pytest.raises(ValueError, match="100 units have 79375496 states with at most 5 active, which is too many"):
        truncation._active_units(100, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_share_left_out_by_few_active_units(kind, seed):
    units, machine = UNITS[kind], a_machine(10, 12, 0.35, seed, bias=-1.5)
    h, g = all_terms(units, machine)
    truth = np.exp(logsumexp(g[h.sum(1) > 3]) - logsumexp(g))
    got = sparse_moments(units, machine, 3, jax.random.key(seed), 400)
    assert 0.01 < truth < 0.99
    assert abs(got.left_out - truth) < 4 * got.left_out_error
    assert got.left_out_error < 0.04
