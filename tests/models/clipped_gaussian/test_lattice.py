"""Integrals by the lattice of nodes that all rows share, against dense grids."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import draw, factors, grid_predictions, weights_of
from scipy.special import ndtr

from latentbits.core import tree
from latentbits.models.clipped_gaussian import lattice
from latentbits.models.clipped_gaussian.expectation import Factors

D, N = 6, 16
STEEP = 0.995  # communality of a column at the least uniqueness


@jax.jit
def integrals(f, signs):
    def functions(y):
        return jnp.concatenate([y, jax.scipy.special.ndtr((f.phi + y @ f.weights.T) / jnp.sqrt(f.psi))], 1)

    return lattice.integrate(f, signs, functions)


def model_of(q, communality, steep):
    """Weights, biases and noise of D columns with this communality; the first `steep` are nearly deterministic."""
    weights, phi, psi = weights_of(D, q, low=communality, high=communality)
    psi[:steep] = 1 - STEEP
    weights[:steep] *= np.sqrt(STEEP / communality)
    return weights, phi, psi


def rows_of(model):
    """Rows of which half have holes and the first has no bit."""
    _, signs = draw(*model, N)
    signs[: N // 2][np.random.default_rng(0).random((N // 2, D)) < 0.4] = 0
    signs[0] = 0
    return signs


@pytest.mark.parametrize(
    ("q", "communality", "steep"), [(1, 0.25, 0), (1, 0.5, 0), (1, 0.5, 1), (1, 0.5, D), (2, 0.5, 0), (2, 0.5, 1)]
)
def test_the_lattice_is_as_right_as_it_says(q, communality, steep):
    """Likelihoods within their error, and posterior means and predictions to 1e-6, steep columns or not."""
    model = model_of(q, communality, steep)
    signs = rows_of(model)
    log_p, mean, ones = grid_predictions(*model, signs, half=8.0, n={1: 2001, 2: 641}[q])
    with tree.double():
        found = jax.tree.map(np.asarray, integrals(factors(*model), jnp.asarray(signs)))
    assert np.all(np.abs(found.log_probability - log_p) < found.error)
    assert np.all(found.error < 1e-6)
    np.testing.assert_allclose(found.means[:, :q], mean, atol=1e-6)
    hidden = signs == 0
    np.testing.assert_allclose(found.means[:, q:][hidden], ones[hidden], atol=1e-8)
    np.testing.assert_allclose(found.means[0, q:], ndtr(model[1]), atol=1e-8)  # phi is of a variance of 1


def test_the_error_in_single_precision_knows_of_its_digits():
    model = model_of(1, 0.5, 1)
    signs = rows_of(model)
    log_p = grid_predictions(*model, signs, half=8.0, n=2001)[0]
    with tree.rows_in(np.dtype(np.float32)):
        f = Factors(*(jnp.asarray(x, jnp.float32) for x in (*model, model[0] ** 2)))
        found = jax.tree.map(np.asarray, integrals(f, jnp.asarray(signs, jnp.float32)))
    off = np.abs(found.log_probability - log_p)
    assert np.all(off < found.error)
    assert np.all(found.error < 1e-5)


def test_a_lattice_that_is_too_coarse_says_so(monkeypatch):
    """Errors of twice the spacing are thousands of times larger, and still covered."""
    model = model_of(1, 0.25, 0)
    signs = rows_of(model)
    log_p = grid_predictions(*model, signs, half=8.0, n=2001)[0]
    for spacing, least in ((2.0, 1e-4), (3.0, 1e-2)):
        monkeypatch.setattr(lattice, "LATTICE_SPACING", spacing)
        with tree.double():
            f = factors(*model)
            found = jax.jit(lambda f, s: lattice.integrate(f, s))(f, jnp.asarray(signs))
        off = np.abs(np.asarray(found.log_probability) - log_p)
        assert off.max() > least
        assert np.all(off < np.asarray(found.error))


def test_nodes_are_all_those_of_a_box_and_each_is_there_once():
    """In coordinates R' y / spacing they are whole numbers, and each parity has its share."""
    root = np.array([[3.0, 0, 0], [1.0, 2.0, 0], [-0.7, 0.4, 1.5]])
    low = np.array([-1.0, -2.0, 0.3])
    sizes = np.array([8, 6, 4])
    with tree.double():
        one = lattice._Lattice(*(jnp.asarray(x) for x in (root, 0.5, low, sizes)))
        y, parity = (np.asarray(x) for x in lattice._nodes(one, jnp.arange(sizes.prod())))
    k = y @ root / 0.5
    np.testing.assert_allclose(k, k.round(), atol=1e-9)
    assert len(np.unique(k.round(), axis=0)) == sizes.prod()
    np.testing.assert_array_equal(np.bincount(parity), sizes.prod() / 8)
    assert np.all(y > low - 1e-9)
    assert np.all(y < low + 0.5 * sizes / np.diag(root) + 1e-9)


def test_many_steep_columns_in_three_dimensions_are_left_to_points():
    with tree.double():
        for steep, fine in ((0, True), (1, True), (D, False)):
            assert bool(lattice.is_fine(factors(*model_of(3, 0.5, steep)))) is fine
