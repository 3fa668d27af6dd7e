"""Tests of differential item functioning, against twins by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import chi2, norm

from latentbits import ItemResponse
from latentbits.estimators.latent_trait.item_dif import _constant_somewhere
from latentbits.reports.many_tests import adjusted

NODES = np.linspace(-6, 6, 61)
WEIGHTS = norm.pdf(NODES) / norm.pdf(NODES).sum()


@pytest.fixture(scope="module")
def people():
    """Two groups; item 1 is harder in the second."""
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 200)
    theta = rng.standard_normal(400) + 0.5 * g
    bias = np.tile([0.5, 0.0, -0.5, 1.0], (400, 1))
    bias[g == 1, 1] -= 1.0
    X = (rng.random((400, 4)) < expit(theta[:, None] * [1.0, 1.2, 0.8, 1.0] + bias)).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, g


def loss(x, X, g, count):
    """Slopes and intercepts, mean and log sd of the second group; then slope and intercept of item 1 in it.

    Rows are distinct, and count as often as they are there.
    """
    a, b = (np.tile(part, (len(X), 1)) for part in x[:8].reshape(4, 2).T)
    if len(x) > 10:
        a[g == 1, 1], b[g == 1, 1] = x[10:]
    theta = np.where(g == 1, x[8], 0.0)[:, None] + np.where(g == 1, np.exp(x[9]), 1.0)[:, None] * NODES
    z = theta[..., None] * a[:, None] + b[:, None]
    terms = np.where(np.isnan(X)[:, None], 0.0, -np.logaddexp(0, np.where(X[:, None] > 0, -z, z)))
    return -count @ logsumexp(terms.sum(-1) + np.log(WEIGHTS), axis=1)


@pytest.mark.slow("two models by SciPy")
def test_likelihood_ratio_and_wald(people):
    X, g = people
    rows, count = np.unique(np.column_stack([np.nan_to_num(X, nan=-1), g]), axis=0, return_counts=True)
    distinct = np.where(rows[:, :4] < 0, np.nan, rows[:, :4]), rows[:, 4], count
    start = np.array([1.0, 0.5, 1.0, 0.0, 1.0, -0.5, 1.0, 1.0, 0.3, 0.0])
    base = minimize(loss, start, distinct, method="BFGS", options={"gtol": 1e-5})
    free = minimize(loss, np.append(base.x, base.x[2:4]), distinct, method="BFGS", options={"gtol": 1e-5})
    m = ItemResponse(random_state=0)
    found = m.dif(X, g, items=[1])
    assert found.statistic[0] == pytest.approx(2 * (base.fun - free.fun), abs=1e-4)
    assert found.df.tolist() == [2]
    assert found.p[0] == pytest.approx(chi2.sf(found.statistic[0], 2))
    assert found.slope_difference[0, 0] == pytest.approx(free.x[10] - free.x[2], abs=1e-3)
    assert found.intercept_difference[0, 0] == pytest.approx(free.x[11] - free.x[3], abs=1e-3)
    assert found.signed_difference[0, 0] < 0 < found.unsigned_difference[0, 0]
    assert found.p_adjusted[0] == found.p[0]
    assert "column 1" in str(found)
    wald = m.dif(X, g, items=[1], method="wald", parameters=("intercept",), adjust=None)
    assert wald.df.tolist() == [1]
    assert wald.p[0] < 0.01
    assert wald.slope_difference[0, 0] == 0
    with pytest.raises(ValueError, match="parameters"):
        m.dif(X, g, parameters=("difficulty",))


@pytest.mark.slow("covariates are compiled for, in two fits of each kind")
def test_units_of_covariates_change_no_test(people):
    """Dates as 20250131 give what standardised numbers do; slopes and intercepts are in the user's units."""
    X, g = people
    z = np.random.default_rng(1).standard_normal(400)
    m = ItemResponse(random_state=0)
    for method in ("lr", "wald"):
        parameters = ("slope", "intercept") if method == "lr" else ("intercept",)
        one, other = (
            m.dif(X, g, items=[1], method=method, parameters=parameters, covariates=Z[:, None])
            for Z in (z, 2e7 + 1e4 * z)
        )
        np.testing.assert_allclose(other.statistic, one.statistic, rtol=1e-3)
        np.testing.assert_allclose(other.slope_difference, one.slope_difference, atol=1e-4)
        np.testing.assert_allclose(other.signed_difference, one.signed_difference, atol=1e-4)


def test_items_that_do_not_vary_in_a_group():
    table = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 1, 1], [np.nan, 1, 1]], float)
    assert _constant_somewhere(table, 2, 2).tolist() == [False, True]


def test_adjusted():
    p = np.array([0.02, np.nan, 0.01, 0.5])
    assert np.allclose(adjusted(p, "holm"), [0.04, np.nan, 0.03, 0.5], equal_nan=True)
    assert np.allclose(adjusted(p, "bh"), [0.03, np.nan, 0.03, 0.5], equal_nan=True)
    assert np.array_equal(adjusted(p, None), p, equal_nan=True)
