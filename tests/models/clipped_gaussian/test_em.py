"""The likelihood of the clipped Gaussian and its gradient against dense grids; where EM ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import log_evidence
from scipy.special import softmax
from scipy.stats import norm

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.clipped_gaussian import em, expectation
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.clipped_gaussian.params import Params
from latentbits.models.clipped_gaussian.tuning import LEAST_UNIQUENESS

N, D = 240, 6  # the same for all fits, so that they share their programs


def drawn(n=N, d=D, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(d, 1)), rng.normal(size=d) / 2
    X = (rng.normal(size=(n, 1)) @ a.T + c + rng.normal(size=(n, d)) > 0).astype(np.uint8)
    X[rng.random(X.shape) < missing] = MISSING
    return X


def by_grid(slopes, X):
    """Sum of log p of rows, by a grid over all latents; slopes are those of columns with unit noise."""
    patterns, count = np.unique(X, axis=0, return_counts=True)
    signs = np.where(patterns == MISSING, 0, 2.0 * patterns - 1)
    n = {1: 401, 2: 101}[slopes.shape[1] - 1]
    return count @ log_evidence(slopes[:, :-1], slopes[:, -1], np.ones(len(slopes)), signs, 8.0, n)


def gradient_by_grid(slopes, X, step=1e-4):
    around = step * np.eye(slopes.size).reshape(-1, *slopes.shape)
    return np.reshape([(by_grid(slopes + e, X) - by_grid(slopes - e, X)) / (2 * step) for e in around], slopes.shape)


def curvature_by_grid(slopes, X):
    """Sum over rows of -d^2 log P(bit | y) / da^2 times 1, y and y^2, expected of one latent y given the row."""
    y, signs = np.linspace(-8, 8, 801), np.where(X == MISSING, 0, 2.0 * X - 1)
    a = y[:, None] * slopes[:, 0] + slopes[:, 1]
    at = signs[:, None] * a
    log_p = np.where(signs[:, None] == 0, 0, norm.logcdf(at))
    share = softmax(log_p.sum(2) - y**2 / 2, axis=1)
    ratio = np.exp(norm.logpdf(at) - norm.logcdf(at)) * np.abs(signs)[:, None]
    bend = ratio * (ratio + at)
    return np.einsum("nk,nkd,kp->dp", share, bend, np.column_stack([y**2, y, np.ones_like(y)]))


def stats_at(slopes, X):
    """Sums over all rows, in float64."""

    @jax.jit
    def run(slopes, batch):
        d = len(slopes)
        each, none = jnp.zeros(d), jnp.zeros((0, 0))
        pairs = none, none, none, none > 0, none > 0
        blank = Params(jnp.zeros((d, slopes.shape[1] - 1)), each, each + 1, each, *pairs, each, each, jnp.asarray(0.0))
        params = em._with_slopes(blank, slopes)
        shared = expectation.factors_of(params.weights, params.phi, params.psi)
        return em.e_step(em.Way(False, True, True), params, shared, batch, None)[0]

    with tree.double():
        numbers = jnp.uint32(0), jnp.uint32(len(X)), seed_key(0)
        batch = make_batch(jnp.asarray(X), *numbers, not (X == MISSING).any(), np.dtype(float))
        return tree.to_numpy(run(jnp.asarray(slopes), batch))


SLOPES = np.array([[1.2, 0.3], [-0.8, -0.5], [2.0, 0.1], [0.4, 1.0]])


def test_likelihood_and_gradient_by_brute_force():
    X = drawn(12, 4, missing=0.3, seed=1)
    stats = stats_at(SLOPES, X)
    assert stats.objective.sum() == pytest.approx(by_grid(SLOPES, X), abs=1e-7)
    np.testing.assert_allclose(stats.gradient, gradient_by_grid(SLOPES, X), atol=2e-6)
    np.testing.assert_allclose(stats.curvature, curvature_by_grid(SLOPES, X), atol=2e-6)
    assert np.all(stats.curvature[:, [0, 2]] < stats.steepest[:, [0, 2]])


@pytest.mark.slow("another program, that of two latents")
def test_likelihood_and_gradient_of_two_latents():
    X, slopes = drawn(40, 4, seed=1), np.column_stack([SLOPES[:, 0], [0.5, 0.9, -0.4, 0.7], SLOPES[:, 1]])
    stats = stats_at(slopes, X)
    assert stats.objective.sum() == pytest.approx(by_grid(slopes, X), abs=1e-5)
    np.testing.assert_allclose(stats.gradient, gradient_by_grid(slopes, X), atol=1e-4)


def learned(X, **options):
    model = clipped_gaussian.model(1, learner="likelihood", **options)
    return fit(model, MemoryEngine(X), seed_key(0), limits=Limits(200, 1e-9), dtype="float64")


def slopes_of(result):
    params = tree.to_numpy(result.params)
    return np.column_stack([params.weights, params.phi]) / np.sqrt(params.psi)[:, None]


def with_a_copy():
    """Make a table whose last column is the first."""
    X = drawn(seed=2)
    X[:, -1] = X[:, 0]
    return X


def test_it_ends_where_the_gradient_of_brute_force_vanishes():
    X = drawn(seed=3)
    found = learned(X)
    slopes = slopes_of(found)
    assert found.reason.converged
    assert found.objective == pytest.approx(by_grid(slopes, X), abs=1e-6)
    assert np.abs(gradient_by_grid(slopes, X)).max() < 0.01


def test_a_longer_fit_of_noise_gains_no_more_than_was_said():
    """Where nothing is hidden the likelihood is flat, and a single step promises little long before the end."""
    rng = np.random.default_rng([2, 7])
    X = (rng.random((N, D)) < 0.5).astype(np.uint8)
    record = clipped_gaussian.model(1, learner="likelihood")
    short = fit(record, MemoryEngine(X), seed_key(0), dtype="float64")
    assert short.reason.converged
    assert learned(X).objective - short.objective < 1e-6 * N


def test_a_column_that_the_latents_determine_ends_at_its_bound():
    """A copy of a column runs off: the maximum within the bound is found, where the gradient points outwards only."""
    X = with_a_copy()
    result = learned(X)
    assert result.reason.converged
    at_bound = np.abs(result.params.psi - LEAST_UNIQUENESS) < 1e-9
    assert at_bound.any()
    slopes = slopes_of(result)
    gradient = gradient_by_grid(slopes, X)
    assert np.abs(gradient[~at_bound]).max() < 0.05
    assert np.all(gradient[at_bound, 0] * slopes[at_bound, 0] > -0.05)


def test_a_prior_keeps_slopes_finite_and_is_in_the_objective():
    X = with_a_copy()
    result = learned(X, weight_prior=2.0)
    assert result.reason.converged
    assert result.params.psi.min() > 2 * LEAST_UNIQUENESS
    slopes = slopes_of(result)
    penalty = np.sum(slopes[:, :-1] ** 2) / 8
    assert result.objective == pytest.approx(by_grid(slopes, X) - penalty, abs=1e-3)  # steep slopes, 81 nodes
    np.testing.assert_allclose(gradient_by_grid(slopes, X)[:, 0], slopes[:, 0] / 4, atol=0.02)


@pytest.mark.slow("two more programs")
def test_constant_and_unseen_columns_stay_as_the_moments_have_them():
    X = drawn(seed=6)
    X[:, 1], X[:, 4] = 1, MISSING
    result = learned(X)
    assert np.all(result.params.weights[[1, 4]] == 0)
    moments = fit(clipped_gaussian.model(1), MemoryEngine(X), seed_key(0), dtype="float64").params
    np.testing.assert_allclose(result.params.phi[[1, 4]], moments.phi[[1, 4]], rtol=1e-12)


@pytest.mark.slow("two more programs")
def test_without_biases_there_are_none():
    X = drawn(seed=4)
    result = learned(X, bias=False)
    assert result.reason.converged
    assert np.all(result.params.phi == 0)
    assert np.abs(gradient_by_grid(slopes_of(result), X)[:, 0]).max() < 0.05
