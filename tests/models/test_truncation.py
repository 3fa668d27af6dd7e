"""Sums over some of the states against sums over all of them, and what is left out against the truth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import ortho_group

from latentbits.core import tree
from latentbits.core.states import all_states, sparse_states
from latentbits.models.combination_machine import search, truncation
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Machine
from latentbits.models.combination_machine.partition import exact_moments

exact = jax.jit(exact_moments, static_argnums=(0, 2))
sparse_moments = jax.jit(truncation.sparse_moments, static_argnums=(0, 2, 4))
largest_terms = jax.jit(truncation.largest_terms, static_argnums=(1, 3))
largest_states = jax.jit(search.largest_states, static_argnums=1)


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def a_machine(m, n, scale=1.0, seed=0, bias=0.0):
    rng = np.random.default_rng([seed, m, n])
    w, theta, b = (scale * rng.normal(size=shape) for shape in [(m, n), (m,), (n,)])
    return Machine(jnp.asarray(w), jnp.asarray(theta + bias), jnp.asarray(b))


def separated(m, n, size, seed=0):
    """Orthogonal weights of about this length, and biases with which each unit is active in about a quarter of rows."""
    rng = np.random.default_rng([seed, m, n])
    w = size * rng.uniform(0.8, 1.2, size=(m, 1)) * ortho_group.rvs(n, random_state=rng)[:m]
    theta = -(w**2).sum(1) / 2 - rng.uniform(0.5, 2, size=m)
    return Machine(jnp.asarray(w), jnp.asarray(theta), jnp.zeros(n))


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


def test_largest_terms_of_orthogonal_weights_are_found():
    machine = separated(12, 14, 3.0)
    h, g = all_terms(REAL, machine)
    best = np.argsort(-g)[:100]
    np.testing.assert_array_equal(search.paper_rule(machine), h[best[0]])
    np.testing.assert_array_equal(largest_states(machine, 100), h[best])


@pytest.mark.parametrize("seed", range(4))
def test_the_rule_of_the_paper_is_geometric(seed):
    """The best subset sum is the one farthest from x; with orthogonal weights, w_i . x <= |w_i|^2 / 2 tells which."""
    machine = a_machine(8, 10, seed=seed)
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    x = -w.T @ np.linalg.solve(w @ w.T, theta + w @ b)
    h, g = all_terms(REAL, machine)
    distance = ((h @ w - x) ** 2).sum(1) / 2
    np.testing.assert_allclose(distance - distance[0], g - g[0], atol=1e-9)
    np.testing.assert_array_equal(search.paper_rule(machine), w @ x <= (w**2).sum(1) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_search_among_coupled_units(seed):
    """Weights in general position, six inputs for twelve units: they attract and repel each other."""
    machine = a_machine(12, 6, 1.2, seed, bias=-4)
    _, g = all_terms(REAL, machine)
    states = np.asarray(largest_states(machine, 60))
    assert len(np.unique(states, axis=0)) == 60
    found = np.asarray(truncation.log_terms(REAL, machine, jnp.asarray(states)))
    np.testing.assert_allclose(found, np.sort(g)[::-1][:60], atol=1e-9)


def test_fewer_states_than_terms():
    machine = a_machine(3, 4, 0.5)
    got = largest_terms(machine, 50, jax.random.key(0), 50)
    close(got[:2], exact(REAL, machine), atol=1e-10)
    assert got.left_out == 0
    assert 0 < got.left_out_error < 0.1  # of 50 draws, none was outside
    with pytest.raises(ValueError, match="n_terms must be at least 1, got 0"):
        search.largest_states(machine, 0)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (separated, (12, 14, 6.0)),  # clusters of inputs that are far from each other
        (separated, (12, 14, 2.0, 1)),
        (a_machine, (12, 14, 0.5, 1, -3)),
        (a_machine, (12, 14, 0.3, 2, -1)),
    ],
)
def test_share_left_out_of_the_largest_terms(make, arguments):
    machine = make(*arguments)
    h, g = all_terms(REAL, machine)
    got = largest_terms(machine, 30, jax.random.key(5), 400)
    truth = 1 - np.exp(got.log_z - logsumexp(g))
    np.testing.assert_allclose(got.log_z, logsumexp(np.sort(g)[-30:]), atol=1e-9)
    assert 0.01 < truth < 0.99
    assert abs(got.left_out - truth) < 4 * got.left_out_error
    assert got.left_out_error < 0.04
    p = np.exp(g - logsumexp(g))
    assert np.abs(got.moments.hidden_bias - p @ h).max() < 2 * truth  # total variation
