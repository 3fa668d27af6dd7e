"""Expectation propagation of clipped Gaussians against dense grids and orthants."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import EVERY, D, P, draw, factors, grid_posterior, log_evidence, orthant, weights_of
from scipy.stats import norm

from latentbits.core import tree
from latentbits.core.nodes import gauss_hermite, points_of, weigh
from latentbits.models.clipped_gaussian import expectation as ep

approximate = jax.jit(ep.approximate)
# all rows; rows without the last bit; some with holes
ROWS = np.concatenate([EVERY, EVERY[::2] * [1, 1, 1, 1, 0], [[1, 0, -1, 0, 1], [0, 0, 0, 0, 1], [0] * 5]])


@cache
def answers():
    """All that is said of `ROWS`, by one program."""

    @jax.jit
    def everything(f, signs):
        found = ep.approximate(f, signs)
        mode = ep.mode(f, signs, jnp.zeros((len(signs), P)))

        def joint(y):
            return jnp.sum(ep.log_density(f, signs, y[:, None])[:, 0] - 0.5 * jnp.sum(y**2, 1))

        rule = gauss_hermite(21, P)
        points = points_of(found.posterior, rule)
        integral, _ = weigh(ep.log_density(f, signs, points), points, found.posterior, rule)
        return found, integral, ep.predict(f, found.posterior), jax.grad(joint)(mode)

    with tree.double():
        return jax.tree.map(np.asarray, everything(factors(*weights_of(D, P)), jnp.asarray(ROWS)))


def test_likelihoods_are_orthant_probabilities():
    """All 32 rows, and some with holes, against the mass of orthants in five dimensions, and a dense grid in two.

    SciPy knows the orthants to about 1e-5.
    """
    small = weights_of(D, P)
    log_p = log_evidence(*small, ROWS)
    np.testing.assert_allclose(np.exp(log_p), [orthant(*small, s) for s in ROWS], atol=1e-4)
    found, value, _, _ = answers()
    assert np.exp(value[:32]).sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(value, log_p, atol=1e-4)
    np.testing.assert_allclose(found.log_likelihood, log_p, atol=0.01)
    assert np.exp(found.log_likelihood[:32]).sum() == pytest.approx(1, abs=0.005)


def test_posteriors_are_close_and_a_row_without_bits_has_the_prior():
    found = answers()[0]
    assert found.settled.all()
    _, mean, covariance = grid_posterior(*weights_of(D, P), ROWS)
    spread = np.sqrt(np.einsum("nii->ni", covariance))
    assert np.abs((found.posterior.mean - mean) / spread).max() < 0.05
    assert np.abs(np.sqrt(np.einsum("nii->ni", found.posterior.covariance)) / spread - 1).max() < 0.05
    np.testing.assert_allclose(found.log_likelihood[-1], 0, atol=1e-12)
    np.testing.assert_allclose(found.posterior.mean[-1], 0, atol=1e-12)
    np.testing.assert_allclose(found.posterior.covariance[-1], np.eye(P), atol=1e-12)


def test_predictions_are_conditional_probabilities():
    """P(bit | the others) by EP's Gaussian against ratios of probabilities."""
    small, rest = weights_of(D, P), ROWS[32:48]
    exact = np.exp(log_evidence(*small, rest + np.eye(D)[-1]) - log_evidence(*small, rest))
    np.testing.assert_allclose(answers()[2][32:48, -1], exact, atol=0.01)


def test_the_mode_is_a_stationary_point():
    assert np.abs(answers()[3]).max() < 1e-8


def test_ep_knows_half_spaces_in_one_dimension():
    """One bit without noise: EP matches the moments of one half-line, so it is exact."""
    with tree.double():
        found = approximate(factors(np.array([[2.0]]), np.array([1.0]), np.zeros(1)), jnp.asarray([[1.0], [-1.0]]))
        cut = np.array([0.5, -0.5])
        np.testing.assert_allclose(found.log_likelihood, norm.logcdf(cut), atol=1e-7)
        mean = np.array([1, -1]) * norm.pdf(cut) / norm.cdf(cut)
        np.testing.assert_allclose(np.asarray(found.posterior.mean)[:, 0], mean, atol=1e-5)


@pytest.mark.slow("how close it comes with 40 columns")
def test_ep_is_close_to_the_integral_in_two_dimensions():
    """Likelihood and moments: on average within a few thousandths, in the worst of rows a few hundredths."""
    weights, phi, psi = weights_of(40, 2)
    _, signs = draw(weights, phi, psi, 64)
    signs[:8, ::3] = 0
    log_p, mean, covariance = grid_posterior(weights, phi, psi, signs)
    with tree.double():
        found = jax.tree.map(np.asarray, approximate(factors(weights, phi, psi), jnp.asarray(signs)))
    spread = np.sqrt(np.einsum("nii->ni", covariance))
    assert np.all(found.settled)
    assert np.abs(found.log_likelihood - log_p).max() < 0.03
    assert np.abs(found.log_likelihood - log_p).mean() < 0.005
    assert np.abs((found.posterior.mean - mean) / spread).max() < 0.05
    assert np.abs(np.sqrt(np.einsum("nii->ni", found.posterior.covariance)) / spread - 1).max() < 0.05


@pytest.mark.slow("calibration of posteriors over 300 rows, in both precisions")
def test_ep_settles_where_noise_is_small():
    """Nearly deterministic bits: all rows settle, and their posteriors are calibrated."""
    weights, phi, psi = weights_of(100, 3, low=0.99, high=0.995)
    y, signs = draw(weights, phi, psi, 300)
    for dtype in (np.float32, np.float64):
        with tree.rows_in(np.dtype(dtype)):
            parts = (x.astype(dtype) for x in (weights, phi, psi))
            found = jax.tree.map(np.asarray, approximate(factors(*parts), jnp.asarray(signs.astype(dtype))))
        assert np.all(found.settled)
        spread = np.sqrt(np.einsum("nii->ni", found.posterior.covariance.astype(float)))
        assert 0.9 < np.sqrt(np.mean(((found.posterior.mean - y) / spread) ** 2)) < 1.1
