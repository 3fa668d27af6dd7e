"""Factorisations of many small matrices, unrolled and in loops, against NumPy's."""

import jax
import numpy as np
import pytest

from latentbits.core import packed_symmetric


def positive_definite(size, n=30):
    a = np.random.default_rng(size).normal(size=(n, size, size))
    matrices = a @ a.transpose(0, 2, 1) + 0.1 * np.eye(size)
    j, k = packed_symmetric.pairs(size)
    return matrices, matrices[:, j, k]


@pytest.mark.parametrize("size", [1, packed_symmetric.MOST_UNROLLED_ROWS, packed_symmetric.MOST_UNROLLED_ROWS + 1])
def test_factors(size):
    matrices, entries = positive_definite(size)
    bad = entries.copy()
    bad[4, -1] = -1.0  # the last on the diagonal
    right = np.random.default_rng(1).normal(size=(len(matrices), size))

    @jax.jit
    def found(entries, right, bad):
        factors = packed_symmetric.cholesky(entries), *packed_symmetric.inverse_factor(entries)
        return *factors, packed_symmetric.solve(entries, right), packed_symmetric.cholesky(bad)

    with jax.enable_x64(True):
        factor, inverse, log_det, solution, of_bad = found(entries, right, bad)
    expected = np.linalg.cholesky(matrices)
    np.testing.assert_allclose(factor, expected, atol=1e-12)
    np.testing.assert_allclose(inverse, np.linalg.inv(expected), atol=1e-11)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(matrices)[1] / 2, atol=1e-11)
    np.testing.assert_allclose(solution, np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-8)
    assert np.isnan(of_bad[4, -1, -1])  # what is not positive definite has no factor
    np.testing.assert_allclose(of_bad[5], expected[5], atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 20])
def test_determinants_of_any_matrices(size):
    matrices = np.random.default_rng(size).normal(size=(30, size, size))
    matrices[0, 0, 0] = 0  # needs a pivot
    matrices[1] = 0
    with jax.enable_x64(True), np.errstate(divide="ignore"):
        found = np.asarray(jax.jit(packed_symmetric.log_abs_det)(matrices))
        np.testing.assert_allclose(found, np.linalg.slogdet(matrices)[1], atol=1e-10)
    assert found[1] == -np.inf
