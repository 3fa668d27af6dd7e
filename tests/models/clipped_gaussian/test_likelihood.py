"""Likelihoods of clipped Gaussians by a few points, with their errors, against dense grids."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import draw, factors, log_evidence, weights_of

from latentbits.core import tree
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian import likelihood

N = 64


@jax.jit
def estimate(f, signs, keys):
    return likelihood.log_evidence(f, signs, ep.approximate(f, signs, 0.01).posterior, keys)


@pytest.mark.parametrize(
    ("d", "high"), [pytest.param(60, 0.8, marks=pytest.mark.slow("another program, of many columns")), (8, 0.97)]
)
def test_few_points_tell_their_error(d, high):
    """Against a dense grid: z-scores have a spread of 1, where few points do, and where most rows need more of them."""
    weights, phi, psi = weights_of(d, 2, high=high)
    _, signs = draw(weights, phi, psi, N)
    log_p = log_evidence(weights, phi, psi, signs)
    with tree.double():
        f, given = factors(weights, phi, psi), jnp.asarray(signs)
        found = [estimate(f, given, jax.random.split(seed_key(seed), N)) for seed in range(12)]
        value, error = (np.array([part[k] for part in found]) for k in (0, 1))
    z = (value - log_p) / error
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2
    assert np.abs(np.mean(value - log_p)) < 0.002
    assert np.median(error) < likelihood.GOAL_ERROR_NATS


def test_a_row_gets_the_points_that_it_needs():
    """Rows without bits are known at once, and what a row gets does not depend on the rows beside it."""
    weights, phi, psi = weights_of(8, 2, high=0.97)
    _, signs = draw(weights, phi, psi, N)
    signs[::3] = 0
    turned = np.random.default_rng(0).permutation(N)
    with tree.double():
        f, keys = factors(weights, phi, psi), jax.random.split(seed_key(3), N)
        value, error = map(np.asarray, estimate(f, jnp.asarray(signs), keys))
        among = np.asarray(estimate(f, jnp.asarray(signs[turned]), keys[turned])[0])
    np.testing.assert_allclose(value[::3], 0, atol=1e-9)
    np.testing.assert_allclose(error[::3], 0, atol=1e-6)
    np.testing.assert_allclose(among, value[turned], atol=1e-3)
    assert np.all(error[1::3] > 0)


def test_rows_that_are_chosen_come_first():
    chosen = np.random.default_rng(0).random(77) < 0.4
    found = np.asarray(jax.jit(likelihood._first, static_argnums=1)(jnp.asarray(chosen), 80))
    expected = np.flatnonzero(chosen)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    assert np.all(found[len(expected) :] == 77)


def test_shifts_are_even_and_independent():
    keys = jax.random.split(seed_key(0), 4000)
    u = np.asarray(jax.jit(likelihood._shifts, static_argnums=1)(keys, 16), float)
    assert np.abs(u.mean(0) - 0.5).max() < 5 * np.sqrt(1 / 12 / 4000)
    assert np.abs((u**2).mean(0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / 4000)
    assert np.abs(np.corrcoef(u.T) - np.eye(16)).max() < 5 / np.sqrt(4000)
    assert np.abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 5 / np.sqrt(4000)
