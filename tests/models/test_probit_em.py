"""The likelihood of the clipped Gaussian and its gradient against adaptive quadrature by SciPy; EM climbs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.clipped_gaussian import em, expectation
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.clipped_gaussian.params import LEAST_UNIQUENESS, Params

D = 4


def drawn(n=200, d=D, q=1, seed=0, missing=0.0, slope=1.0):
    rng = np.random.default_rng(seed)
    a, c = slope * rng.normal(size=(d, q)), rng.normal(size=d) / 2
    X = (rng.normal(size=(n, q)) @ a.T + c + rng.normal(size=(n, d)) > 0).astype(np.uint8)
    X[rng.random(X.shape) < missing] = MISSING
    return X


def by_scipy(slopes, X):
    """Sum of log p of rows with one latent, each by adaptive quadrature of its own."""
    a, c = slopes.reshape(-1, 2).T

    def probability(row):
        sign = np.where(row == MISSING, 0, 2.0 * row - 1)

        def density(y):
            return np.exp(-(y**2) / 2 + np.sum(log_ndtr(sign * (a * y + c)), where=sign != 0)) / np.sqrt(2 * np.pi)

        return quad(density, -9, 9, epsabs=1e-12, epsrel=1e-11, limit=300)[0]

    patterns, count = np.unique(X, axis=0, return_counts=True)
    return float(count @ np.log([probability(row) for row in patterns]))


def gradient_by_scipy(slopes, X, step=1e-4):
    around = [(slopes.ravel() + step * e, slopes.ravel() - step * e) for e in np.eye(slopes.size)]
    return np.reshape([(by_scipy(up, X) - by_scipy(down, X)) / (2 * step) for up, down in around], slopes.shape)


def params_of(slopes):
    d = len(slopes)
    each, none = jnp.zeros(d), jnp.zeros((0, 0))
    pairs = none, none, none, none > 0, none > 0
    blank = Params(jnp.zeros((d, slopes.shape[1] - 1)), each, each + 1, each, *pairs, each, each, jnp.asarray(np.nan))
    return em._with_slopes(blank, jnp.asarray(slopes))


def stats_at(slopes, X, rough=False):
    """Of all rows, in float64."""
    with tree.double():
        params = params_of(slopes)
        shared = expectation.factors_of(params.weights, params.phi, params.psi)
        complete = not (X == MISSING).any()
        batch = make_batch(jnp.asarray(X), jnp.uint32(0), jnp.uint32(len(X)), seed_key(0), complete, np.dtype(float))
        way = em.Way(rough, True, True)
        return tree.to_numpy(jax.jit(lambda *given: em.e_step(way, *given, None)[0])(params, shared, batch))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_likelihood_and_gradient_by_brute_force(missing):
    X = drawn(12 if missing else 40, missing=missing, seed=1)
    slopes = np.array([[1.2, 0.3], [-0.8, -0.5], [2.0, 0.1], [0.4, 1.0]])
    stats = stats_at(slopes, X)
    assert stats.objective.sum() == pytest.approx(by_scipy(slopes.ravel(), X), abs=1e-7)
    np.testing.assert_allclose(stats.gradient, gradient_by_scipy(slopes, X), atol=2e-6)


@pytest.mark.slow
def test_two_latents_agree_with_one():
    """Of slopes in one direction of two; and the curvatures are those of the first."""
    X, slopes = drawn(60, seed=1), np.array([[1.2, 0.3], [-0.8, -0.5], [2.0, 0.1], [0.4, 1.0]])
    turned = np.column_stack([0.6 * slopes[:, 0], 0.8 * slopes[:, 0], slopes[:, 1]])
    one, two = stats_at(slopes, X), stats_at(turned, X)
    assert two.objective.sum() == pytest.approx(one.objective.sum(), abs=1e-6)
    np.testing.assert_allclose(two.gradient[:, :2] @ [0.6, 0.8], one.gradient[:, 0], atol=1e-5)
    np.testing.assert_allclose(two.gradient[:, 2], one.gradient[:, 1], atol=1e-5)
    assert np.all(one.curvature[:, [0, 2]] < one.steepest[:, [0, 2]])


def learned(X, n_components=1, max_iter=200, dtype="float64", **options):
    model = clipped_gaussian.model(n_components, learner="likelihood", **options)
    return fit(model, MemoryEngine(X), seed_key(0), limits=Limits(max_iter, 1e-9), dtype=dtype)


def slopes_of(result):
    with tree.double():
        return np.asarray(em._slopes(jax.tree.map(jnp.asarray, result.params)))


def test_it_ends_where_the_gradient_of_brute_force_vanishes():
    X = drawn(300, seed=3)
    found = learned(X)
    slopes = slopes_of(found)
    assert found.reason.converged
    assert found.objective == pytest.approx(by_scipy(slopes, X), abs=1e-6)
    assert np.abs(gradient_by_scipy(slopes, X)).max() < 0.01


@pytest.mark.slow
def test_weights_stand_for_rows():
    X = drawn(250, seed=5)
    patterns, count = np.unique(X, axis=0, return_counts=True)
    whole = learned(X)
    model = clipped_gaussian.model(1, learner="likelihood")
    counted = MemoryEngine(patterns, weights=count.astype(float))
    short = fit(model, counted, seed_key(0), limits=Limits(200, 1e-9), dtype="float64")
    assert short.objective == pytest.approx(whole.objective, abs=1e-6)
    np.testing.assert_allclose(short.params.weights, whole.params.weights, atol=1e-4)


@pytest.mark.slow
def test_without_acceleration_no_pass_falls():
    result = learned(drawn(150, d=5, seed=7, slope=1.5), accelerate=False, max_iter=40)
    climb = [record.objective for record in result.history if record.stage == "EM"]
    assert len(climb) > 10
    assert np.diff(climb).min() > -1e-9
    quick = learned(drawn(150, d=5, seed=7, slope=1.5))
    assert quick.objective >= climb[-1] - 1e-6
    assert quick.reason.converged


@pytest.mark.slow
def test_a_column_that_the_latents_determine_ends_at_its_bound():
    """A copy of a column runs off: the maximum within the bound is found, where the gradient points outwards only."""
    X = drawn(200, d=5, seed=2)
    X = np.column_stack([X, X[:, 0]])
    result = learned(X)
    assert result.reason.converged
    assert np.abs(result.params.psi - LEAST_UNIQUENESS).min() < 1e-9
    slopes = slopes_of(result)
    gradient = stats_at(slopes, X).gradient
    at_bound = np.abs(result.params.psi - LEAST_UNIQUENESS) < 1e-9
    assert np.abs(gradient[~at_bound]).max() < 0.05
    assert np.all(gradient[at_bound, 0] * slopes[at_bound, 0] > -0.05)


@pytest.mark.slow
def test_a_prior_keeps_slopes_finite_and_is_in_the_objective():
    X = drawn(200, d=5, seed=2)
    X = np.column_stack([X, X[:, 0]])
    result = learned(X, weight_prior=2.0)
    assert result.reason.converged
    assert result.params.psi.min() > 2 * LEAST_UNIQUENESS
    slopes = slopes_of(result)
    stats = stats_at(slopes, X)
    penalty = np.sum(slopes[:, :-1] ** 2) / 8
    assert result.objective == pytest.approx(stats.objective.sum() - penalty, abs=1e-6)
    np.testing.assert_allclose(stats.gradient[:, 0], slopes[:, 0] / 4, atol=0.02)


@pytest.mark.slow
def test_without_biases_there_are_none():
    result = learned(drawn(200, d=5, seed=4), bias=False)
    assert result.reason.converged
    assert np.all(result.params.phi == 0)
    assert np.abs(stats_at(slopes_of(result), drawn(200, d=5, seed=4)).gradient[:, 0]).max() < 0.05


@pytest.mark.slow
def test_constant_and_unseen_columns_stay_as_the_moments_have_them():
    X = drawn(200, d=6, seed=6)
    X[:, 1], X[:, 4] = 1, MISSING
    result = learned(X)
    assert np.all(result.params.weights[[1, 4]] == 0)
    moments = fit(clipped_gaussian.model(1), MemoryEngine(X), seed_key(0), dtype="float64").params
    np.testing.assert_allclose(result.params.phi[[1, 4]], moments.phi[[1, 4]], rtol=1e-12)


def test_it_needs_noise():
    with pytest.raises(ValueError, match="needs noise='unique'"):
        clipped_gaussian.model(1, noise="none", learner="likelihood")
    with pytest.raises(ValueError, match="'positive' leaves no noise"):
        clipped_gaussian.model("positive", learner="likelihood")
