"""The error of a mean weight, where the weights are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core.annealing import log_mean_weight

summary = jax.jit(log_mean_weight)


def test_error_of_skewed_weights():
    """Log-normal ones, 16 a row: z-scores have a variance of 0.98; without the heaviest chain's part, of 1.27."""
    log_weight = np.random.default_rng(0).normal(0, 0.7, (16, 20000)).astype(np.float32)
    found = summary(jnp.asarray(log_weight))
    z = (np.asarray(found.value) - 0.7**2 / 2) / np.asarray(found.error)
    assert 0.9 < np.mean(z**2) < 1.1


def test_chains_that_are_all_alike_have_an_error():
    found = summary(jnp.full((16, 20000), -3.0))
    np.testing.assert_allclose(found.value, -3, 1e-6)
    np.testing.assert_allclose(found.error, 1 / 16, 1e-6)
    np.testing.assert_allclose(found.effective, 1, 1e-6)


def test_chains_that_are_about_alike_have_it_too():
    """What a long walk leaves of their differences says nothing of a way that none of them went."""
    found = summary(jnp.asarray(np.random.default_rng(0).uniform(-300.02, -300, (16, 100)), "f"))
    assert np.all((np.asarray(found.error) > 1 / 16) & (np.asarray(found.error) < 1.02 / 16))


def test_two_chains_have_an_error_too():
    found = summary(jnp.asarray([[0.0], [-1.0]]))
    assert np.isfinite(found.error).all()
