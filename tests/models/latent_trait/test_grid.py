"""Nodes that stand for all rows: against closed forms where columns have no error, and against dense rules."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.stats import norm
from traits import by_row

from latentbits.core.batch import MISSING
from latentbits.core.tree import double
from latentbits.models.latent_trait import equations, grid, tuning


@pytest.fixture
def rows():
    """Four columns, each hidden in some rows; the first row shows nothing."""
    X = np.array([[2, 2, 2, 2], [1, 0, 2, 2], [0, 2, 1, 0], [1, 1, 1, 2], [2, 0, 0, 1], [0, 0, 0, 0]], float)
    return np.where(X == 2, 0, X), (X != 2).astype(float)


@jax.jit
def _asked(nodes, w, b, values, seen):
    found = grid.integrate(nodes, w, b, values, seen)
    return found, grid.covariance(found, nodes, w, b, values, seen)


def asked(w, b, rows):
    with double():
        return jax.tree.map(np.asarray, _asked(grid.for_use(w, b), w, b, *rows))


def dense(w, b, rows, step):
    """Sum over a grid that resolves slopes of 25: log p(t), mean, covariance and P(bit = 1)."""
    values, seen = rows
    table, at = np.where(seen > 0, values, MISSING), equations.grid(w.shape[1], step)
    log_likelihood, share = (
        by_row(lambda *given: equation(*given, at), table, w, b)  # noqa: B023
        for equation in (equations.likelihood, equations.posterior)
    )
    mean = share @ at[0]
    away = at[0] - mean[:, None]
    covariance = np.einsum("nk,nki,nkj->nij", share, away, away)
    return log_likelihood, mean, covariance, share @ equations.probability(at[0], w, b)


@pytest.mark.parametrize(
    ("slopes", "step"),
    [
        ([[1.2], [0.8], [-1.0], [1.5]], 0.02),
        ([[1.2], [11.8], [-1.0], [23.6]], 0.004),
        ([[1.2, 0], [8.0, 6], [-1.0, 5], [0.3, 12]], 0.04),
    ],
)
def test_a_dense_rule_says_the_same(rows, slopes, step):
    w, b = np.array(slopes), np.array([0.3, -4.0, 0.5, 2.0])
    found, covariance = asked(w, b, rows)
    log_likelihood, *others = dense(w, b, rows, step)
    assert np.all(np.abs(found.log_likelihood - log_likelihood) <= found.error + 1e-9)
    assert np.all(found.error < 5e-5)
    for ours, theirs in zip((found.mean, covariance, found.expected), others):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_columns_without_an_error_leave_intervals(rows):
    thresholds, signs = np.array([1.0, 1.4, 0.6, 2.5]), np.array([1, -1, 1, 1])
    found, _ = asked(1e5 * signs[:, None], -1e5 * signs * thresholds, rows)
    values, seen = rows

    def ends(values, seen):
        above = (values == 1) == (signs > 0)
        low = np.max(np.where(above & (seen > 0), thresholds, -np.inf), 1)
        high = np.min(np.where(~above & (seen > 0), thresholds, np.inf), 1)
        return low, high, np.maximum(norm.cdf(high) - norm.cdf(low), 0)

    low, high, p = ends(values, seen)
    there = p > 1e-3  # the others are next to impossible: 1e-5 wide
    assert there.sum() == 4
    np.testing.assert_allclose(found.log_likelihood[there], np.log(p[there]), atol=1e-4)
    np.testing.assert_allclose(found.mean[there, 0], (norm.pdf(low) - norm.pdf(high))[there] / p[there], atol=1e-4)
    for i in range(4):
        with_one = np.delete(values, i, 1), np.delete(seen, i, 1)
        on = ends(np.insert(with_one[0], i, 1, 1), np.insert(with_one[1], i, 1, 1))[2]
        hidden = there & (seen[:, i] == 0)
        np.testing.assert_allclose(found.expected[hidden, i], on[hidden] / p[hidden], atol=1e-4)


def test_two_columns_without_an_error_cut_a_plane_by_their_angle(rows):
    w = 1e4 * np.array([[1.0, 0], [0.8, 0.6], [0, 1], [-0.6, 0.8]])
    found, _ = asked(w, np.zeros(4), rows)
    np.testing.assert_allclose(found.expected[0], 0.5, atol=1e-4)
    both = 0.25 + np.arcsin(0.8) / (2 * np.pi)
    np.testing.assert_allclose(found.log_likelihood[1], np.log(0.5 - both), atol=1e-4)  # 1 0 2 2
    np.testing.assert_allclose(found.log_likelihood[3], np.log(np.arccos(0) / (2 * np.pi)), atol=1e-4)  # 1 1 1 2


def test_a_grid_of_too_many_nodes_is_not_made(monkeypatch):
    monkeypatch.setattr(tuning, "GRID_MOST_NODES_TIMES_COLUMNS", 100)
    w = np.linspace(1, 2, 10)[:, None]
    assert grid.for_use(w, w[:, 0]) is None
    assert grid.for_use(np.column_stack([w, w]), w[:, 0]) is None
