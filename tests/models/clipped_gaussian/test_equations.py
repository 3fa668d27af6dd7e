"""The paper's equations against integrals in two dimensions and against each other; fast paths against them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import given, weights_of
from scipy.integrate import quad

from latentbits.core import tree
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian import bivariate, equations, spectrum, tetrachoric
from latentbits.models.clipped_gaussian.use import use_of

WEIGHTS = np.array([[0.8, 0.1], [-0.3, 0.9], [1.5, 0.2]])
# biases and correlation of two variables: weak, strong, rare, opposite
PAIRS = [(0.0, 0.0, 0.5), (0.3, -0.8, 0.4), (-1.5, -1.2, 0.95), (1.0, -1.0, -0.9), (2.0, 0.4, -0.2)]


def moments_of_hidden(function):
    """Integrate over two hidden variables with the density (1)."""
    line = np.linspace(-9, 9, 401)
    y = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    share = np.prod(equations.density_of_hidden(y), axis=1) * (line[1] - line[0]) ** 2
    assert share.sum() == pytest.approx(1, abs=1e-12)
    return np.einsum("n,nij->ij", share, function(y))


def test_gaussians_of_hidden_variables_have_the_covariance_of_weights():
    """(1), (2) and (4); and weights learned from C^xx reproduce it."""

    def squares(y):
        x = equations.gaussians(WEIGHTS, y)
        return x[:, :, None] * x[:, None]

    covariance = equations.covariance_of_gaussians(WEIGHTS)
    np.testing.assert_allclose(moments_of_hidden(squares), covariance, atol=1e-12)
    learned = spectrum.spectrum(covariance).weights(2)
    np.testing.assert_allclose(equations.covariance_of_gaussians(learned), covariance, atol=1e-12)


@pytest.mark.parametrize("biases", [(0.0, 0.0), (0.4, -1.0)])
def test_the_mean_product_is_an_integral_over_the_density(biases):
    """(5) by (6) in two dimensions, four quadrants about the thresholds, with one integral done by hand."""
    covariance = np.array([[1.3, 0.6], [0.6, 0.9]])
    nodes, weights = np.polynomial.legendre.leggauss(120)
    expected = 0.0
    for i, j in np.ndindex(2, 2):
        ends = [((-9, -bias), (-bias, 9))[side] for bias, side in zip(biases, (i, j), strict=True)]
        half = [(high - low) / 2 for low, high in ends]
        x = [low + h * (1 + nodes) for (low, _), h in zip(ends, half, strict=True)]
        grid = np.stack(np.meshgrid(*x, indexing="ij"), -1).reshape(-1, 2)
        mass = equations.density_of_gaussians(grid, covariance) @ np.outer(weights, weights).ravel() * np.prod(half)
        expected += mass if i == j else -mass
    assert equations.mean_product(covariance, biases) == pytest.approx(expected, abs=1e-10)


def test_without_biases_the_integral_is_the_arcsine():
    """(7), whatever the units of x; its inverse gives correlations."""
    covariance = equations.covariance_of_gaussians(WEIGHTS)
    found = equations.correlation_of_bits(covariance)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        pair = covariance[np.ix_([i, j], [i, j])]
        assert found[i, j] == pytest.approx(equations.mean_product(pair), abs=1e-10)
    size = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(equations.correlation_of_gaussians(found), covariance / np.outer(size, size), atol=1e-12)


@pytest.mark.parametrize(("phi_i", "phi_j", "rho"), PAIRS)
def test_with_biases_the_integral_is_the_covariance(phi_i, phi_j, rho):
    """(8), (9) and the reconstruction of (10)."""
    means = []
    for phi in (phi_i, phi_j):
        ends = [(-9, -phi), (-phi, 9)]
        signed = [equations.biased_bits(phi, np.mean(end)) * quad(equations.density_of_hidden, *end)[0] for end in ends]
        means.append(sum(signed))
        assert equations.bias_of_mean(means[-1]) == pytest.approx(phi, abs=1e-9)
        assert equations.bias_of_mean(means[-1], 4.0) == pytest.approx(2 * phi, abs=1e-9)
    expected = equations.mean_product(np.array([[1, rho], [rho, 1]]), (phi_i, phi_j)) - np.prod(means)
    assert equations.covariance_of_biased_bits(phi_i, phi_j, rho) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("phi_i", "phi_j", "rho"), PAIRS)
def test_fast_paths_of_pairs(phi_i, phi_j, rho):
    """`bivariate` against (9) and (10), forwards and back."""
    expected = equations.covariance_of_biased_bits(phi_i, phi_j, rho)
    assert float(bivariate.covariance(phi_i, phi_j, rho)) == pytest.approx(expected, abs=1e-14)
    assert float(bivariate.invert(phi_i, phi_j, expected)) == pytest.approx(rho, abs=1e-11)
    for share in (0.02, 0.5, 0.9):
        assert bivariate.thresholds(share) == pytest.approx(equations.bias_of_mean(2 * share - 1), abs=1e-12)


def test_fast_path_without_biases():
    """`tetrachoric.correlations` of counts against (7)."""
    X = (np.random.default_rng(0).normal(size=(300, 3)) @ (np.eye(3) + 0.7) > 0).astype(np.uint8)
    signs = 2.0 * X - 1
    found = tetrachoric.correlations(tetrachoric.count(X), bias=False)
    np.testing.assert_allclose(found.binary, signs.T @ signs / len(X), atol=1e-12)
    np.testing.assert_allclose(found.latent, equations.correlation_of_gaussians(found.binary), atol=1e-12)


def test_fast_path_of_samples_and_bits():
    """Rows of a model without noise, and its bits at given y, against (1), (2) and (8)."""
    weights, phi, _ = weights_of(3, 2)
    n, use = 40_000, use_of("none", "importance")
    y = np.random.default_rng(0).normal(size=(50, 2))
    with tree.double():
        params, shared = given(weights, phi, np.zeros(3))
        rows = np.asarray(jax.jit(use.sample)(params, shared, jax.random.split(seed_key(0), n)))
        decoded = np.asarray(use.decode(params, jnp.asarray(y)))
    np.testing.assert_array_equal(2 * decoded - 1, equations.biased_bits(phi, equations.gaussians(weights, y)))
    every = np.array(list(np.ndindex(2, 2, 2)))

    def share_of_states(y):
        bits = equations.biased_bits(phi, equations.gaussians(weights, y))
        return (bits[:, None] == 2.0 * every - 1).all(2)[..., None]

    expected = moments_of_hidden(share_of_states)[:, 0]
    found = (rows[:, None] == every).all(2).mean(0)
    assert np.abs(found - expected).max() < 4.5 * np.sqrt(0.25 / n) + 0.005  # of which 0.005 is the grid's
