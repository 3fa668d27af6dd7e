"""Factorisations of many small matrices, unrolled and in loops, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import packed

SIZES = [1, 2, 3, 5, packed.UNROLLED, packed.UNROLLED + 1, 20]


def positive_definite(size, n=30):
    a = np.random.default_rng(size).normal(size=(n, size, size))
    matrices = a @ a.transpose(0, 2, 1) + 0.1 * np.eye(size)
    j, k = packed.pairs(size)
    return matrices, jnp.asarray(matrices[:, j, k])


@pytest.mark.parametrize("size", SIZES)
def test_factors(size):
    with jax.enable_x64(True):
        matrices, entries = positive_definite(size)
        factor = np.linalg.cholesky(matrices)
        np.testing.assert_allclose(packed.cholesky(entries), factor, atol=1e-12)
        inverse, log_det = packed.inverse_factor(entries)
        np.testing.assert_allclose(inverse, np.linalg.inv(factor), atol=1e-11)
        np.testing.assert_allclose(log_det, -np.linalg.slogdet(matrices)[1] / 2, atol=1e-11)
        right = np.random.default_rng(1).normal(size=(len(matrices), size))
        np.testing.assert_allclose(
            packed.solve(entries, jnp.asarray(right)), np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-8
        )


@pytest.mark.parametrize("size", [3, 20])
def test_what_is_not_positive_definite_has_no_factor(size):
    matrices, entries = positive_definite(size)
    bad = entries.at[4, -1].set(-1.0)  # the last on the diagonal
    factor = np.asarray(packed.cholesky(bad))
    assert np.isnan(factor[4, -1, -1])
    np.testing.assert_allclose(factor[5], np.linalg.cholesky(matrices[5]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("size", [1, 2, 4, 20])
def test_determinants_of_any_matrices(size):
    with jax.enable_x64(True):
        matrices = np.random.default_rng(size).normal(size=(30, size, size))
        matrices[0, 0, 0] = 0  # needs a pivot
        np.testing.assert_allclose(
            packed.log_abs_det(jnp.asarray(matrices)), np.linalg.slogdet(matrices)[1], atol=1e-10
        )
        assert packed.log_abs_det(jnp.zeros((1, size, size)))[0] == -np.inf
