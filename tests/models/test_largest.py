"""The largest terms of Z (Freund & Haussler 1994, section 3.1) against all of them, and their gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from latentbits.core import tree
from latentbits.core.states import all_states
from latentbits.models.combination_machine import largest
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Machine
from latentbits.models.combination_machine.partition import exact_moments
from latentbits.models.combination_machine.truncation import log_terms

moments = jax.jit(largest.largest_moments, static_argnums=(0, 2))


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def a_machine(m, n, scale=0.6, seed=0):
    rng = np.random.default_rng([seed, m, n])
    w, theta, b = (scale * rng.normal(size=shape) for shape in [(m, n), (m,), (n,)])
    return Machine(jnp.asarray(w), jnp.asarray(theta), jnp.asarray(b))


def close(a, b, **tolerance):
    for ours, theirs in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_all_terms_are_exact(kind):
    machine = a_machine(6, 7)
    for n_terms in (64, 1000):
        log_z, found, h = moments(UNITS[kind], machine, n_terms)
        close((log_z, found), exact_moments(UNITS[kind], machine), rtol=0, atol=1e-10)
        assert len(np.unique(h, axis=0)) == 64


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_the_largest_are_found(kind, seed):
    """By brute force: which they are, their sum, and the gradient of it."""
    units, machine = UNITS[kind], a_machine(9, 7, seed=seed)
    h = all_states(9).astype(float)
    g = np.asarray(log_terms(units, machine, jnp.asarray(h)))
    best = np.argsort(-g)[:40]
    log_z, found, states = moments(units, machine, 40)
    assert {tuple(one) for one in np.asarray(states)} == {tuple(one) for one in h[best]}
    np.testing.assert_allclose(log_z, logsumexp(g[best]), atol=1e-12)
    p = np.exp(g[best] - logsumexp(g[best]))
    np.testing.assert_allclose(found.hidden_bias, p @ h[best], atol=1e-12)
    x = np.asarray(units.mean(jnp.asarray(h[best]) @ machine.weights + machine.input_bias))
    np.testing.assert_allclose(found.weights, h[best].T @ (p[:, None] * x), atol=1e-12)
    np.testing.assert_allclose(found.input_bias, p @ x, atol=1e-12)


def two_that_help_each_other(theta):
    """Real inputs: a unit alone has g = 36 + theta, both 144 and their thetas."""
    return Machine(jnp.full((2, 8), 3.0), jnp.asarray(theta), jnp.zeros(8))


def test_flips_find_what_the_beam_has_passed():
    machine = two_that_help_each_other([-40.0, -35.0])
    np.testing.assert_array_equal(largest._one_by_one(REAL, machine, 1)[0], [[0, 1]])
    np.testing.assert_array_equal(largest.largest_states(REAL, machine, 1)[0], [[1, 1]])


def test_what_the_search_can_miss():
    """No state on the way to the largest is larger than where it begins; with more terms it is found."""
    machine = two_that_help_each_other([-40.0, -40.0])
    np.testing.assert_array_equal(largest.largest_states(REAL, machine, 1)[0], [[0, 0]])
    np.testing.assert_array_equal(largest.largest_states(REAL, machine, 2)[0], [[1, 1], [0, 0]])


def test_more_units_than_an_integer_has_bits():
    """Orthogonal weights: units are independent, so that the largest states are known."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=40) * 3
    w = np.linalg.qr(rng.normal(size=(64, 64)))[0][:40]
    machine = Machine(jnp.asarray(w), jnp.asarray(odds - 0.5), jnp.zeros(64))
    h, g = largest.largest_states(REAL, machine, 41)
    np.testing.assert_array_equal(h[0], odds > 0)
    assert len(np.unique(h, axis=0)) == 41
    second = np.argsort(np.abs(odds))[0]
    np.testing.assert_array_equal(np.flatnonzero(h[1] != h[0]), [second])
    assert (np.diff(g) <= 1e-9).all()


def test_the_gradient_is_that_of_the_sum():
    machine = a_machine(6, 5)
    _, found, h = moments(BINARY, machine, 12)
    close(jax.grad(lambda one: jax.nn.logsumexp(log_terms(BINARY, one, h)))(machine), found, atol=1e-12)
