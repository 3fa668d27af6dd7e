"""Whether columns go together, without a model."""

import numpy as np
import pytest

from latentbits.explorer.column_dependence import go_together


def table(n=400, d=6, seed=0, strength=0.0):
    """Bits of their own shares; the first two follow the same coin in a share of the rows."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < rng.uniform(0.2, 0.8, d)).astype(float)
    same = rng.random(n) < strength
    X[same, 1] = X[same, 4]
    return X


def test_two_columns_that_go_together_are_found():
    X = table(strength=0.5)
    found = go_together(X)
    assert (found.first, found.second, found.n_pairs) == (1, 4, 15)
    assert found.p < 1e-6
    assert found.correlation == pytest.approx(np.corrcoef(X[:, [1, 4]].T)[0, 1], rel=1e-5)


def test_of_independent_columns_p_is_uniform():
    p = np.array([go_together(table(n=80, seed=seed)).p for seed in range(100)])
    assert abs(np.mean(p < 0.5) - 0.5) < 0.15
    assert np.mean(p < 0.05) < 0.12
    assert p.min() > 1e-4


def test_holes_and_columns_that_do_not_vary():
    X = table(strength=0.6)
    X[:, 0], X[:, 2] = 1, np.nan
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    found = go_together(X)
    assert (found.first, found.second, found.n_pairs) == (1, 4, 6)
    assert found.p < 1e-6
    assert go_together(X[:, :2]) is None
    assert go_together(np.full((9, 3), np.nan)) is None
