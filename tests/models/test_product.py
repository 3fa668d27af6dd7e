"""Independent bits against formulas in NumPy, and the maximum of their objective."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from tests.models.steps import step, unchecked
from tests.tables import as_bytes, classes

from latentbits.models import product

SMOOTHING = 1.5


def test_counting_maximises_the_penalised_likelihood():
    """The prior is a Beta(1 + smoothing / 2, 1 + smoothing / 2) on every column; holes count for nothing."""
    X = classes(missing=0.2)
    start = np.linspace(0.1, 0.9, X.shape[1])
    ones, zeros = np.nansum(X, axis=0), np.nansum(1 - X, axis=0)

    def objective(means):
        return (ones + SMOOTHING / 2) @ np.log(means) + (zeros + SMOOTHING / 2) @ np.log(1 - means)

    stats, after, value = step(product.model(SMOOTHING), unchecked(product.Params, start), as_bytes(X))
    np.testing.assert_allclose((stats.ones, stats.observed), (ones, ones + zeros))
    np.testing.assert_allclose(value, objective(start))
    highest = minimize(lambda means: -objective(means), start, bounds=[(1e-3, 1 - 1e-3)] * len(start), tol=1e-12)
    np.testing.assert_allclose(after.means, highest.x, atol=1e-5)
