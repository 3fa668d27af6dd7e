"""The paper's equations, as `equations.py` has them, against each other: sums over a grid, optima, and what is 1."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import log_expit
from traits import simulate

from latentbits.models.latent_trait import equations as eq

TABLE, W, B = simulate(12, 5, 2, seed=4)
T = TABLE.astype(float)
XI = np.random.default_rng(5).uniform(0.2, 3, T.shape)
AT = eq.grid(2)


def test_all_rows_together_have_probability_one():
    """By (1), by Bayes' rule and by (3), whose draws are places like any other."""
    every = np.array(list(product([0.0, 1.0], repeat=5)))
    draws = np.random.default_rng(0).normal(size=(500, 2))
    assert np.exp(eq.likelihood(every, W, B)).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(eq.likelihood_by_sample(every, draws, W, B)).sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(eq.posterior(T, W, B).sum(1), 1)
    many = np.random.default_rng(1).normal(size=(200_000, 2))
    np.testing.assert_allclose(eq.likelihood_by_sample(T, many, W, B), eq.likelihood(T, W, B), atol=0.02)


def test_a_row_is_the_product_of_its_bits():
    x, t = AT[0][::500], T[:, None]
    p = eq.probability(x, W, B)[None]
    np.testing.assert_allclose(eq.row_given(T, x, W, B), np.log(p * t + (1 - p) * (1 - t)).sum(2), atol=1e-10)


def test_the_bound_of_a_bit_touches_at_xi():
    x = np.random.default_rng(2).normal(size=(50, 2))
    p = eq.probability(x, W, B)[None]
    exact = np.log(np.where(T[:, None] == 1, p, 1 - p))
    assert np.all(eq.bit_bound(T, x, XI, W, B) <= exact)
    there = np.abs(x[: len(T)] @ W.T + B)
    own = np.arange(len(T))
    np.testing.assert_allclose(eq.bit_bound(T, x, there, W, B)[own, own], exact[own, own], atol=1e-12)


def test_the_bound_of_a_row_and_its_posterior_are_sums_over_a_grid():
    """(4) in closed form, and (6) and (7), are what (5) integrates to; (4) is below (1)."""
    x, log_prior = AT
    joint = eq.bit_bound(T, x, XI, W, B).sum(2) + log_prior
    value = np.logaddexp.reduce(joint, axis=1)
    share = np.exp(joint - value[:, None])
    covariance = eq.covariances(XI, W)
    mean = eq.means(T, XI, W, B, covariance)
    np.testing.assert_allclose(eq.bound(T, XI, W, B), value, atol=1e-10)
    assert np.all(value < eq.likelihood(T, W, B))
    np.testing.assert_allclose(eq.expected_place(mean), share @ x, atol=1e-10)
    second = np.einsum("nk,ki,kj->nij", share, x, x, optimize=True)
    np.testing.assert_allclose(eq.expected_square(mean, covariance), second, atol=1e-10)


def test_rounds_of_8_and_6_7_end_where_every_xi_is_best():
    xi, before = XI, eq.bound(T, XI, W, B)
    for _ in range(60):
        covariance = eq.covariances(xi, W)
        xi = eq.xi_of(eq.means(T, xi, W, B, covariance), covariance, W, B)
        value = eq.bound(T, xi, W, B)
        assert np.all(value >= before - 1e-12)
        before = value
    for i, factor in product(range(5), (0.99, 1.01)):
        other = xi.copy()
        other[:, i] *= factor
        assert np.all(eq.bound(T, other, W, B) < value)


def test_weights_and_biases_of_11_are_the_best_under_the_bound():
    """A Gaussian has the same mean of a quadratic as the four points mean +- sqrt(2) times the columns of a root."""
    covariance = eq.covariances(XI, W)
    mean = eq.means(T, XI, W, B, covariance)
    root = np.swapaxes(np.linalg.cholesky(covariance), 1, 2)
    points = mean[:, None] + np.sqrt(2) * np.concatenate([root, -root], 1)

    def expected(w, b):
        each = [eq.bit_bound(T[n, None], points[n], XI[n, None], w, b).mean(1) for n in range(len(T))]
        return np.sum(each)

    w, b = eq.weights_and_biases(T, XI, mean, covariance)
    best, step = expected(w, b), 1e-3
    for i, j in product(range(5), range(3)):
        moved = [(w.copy(), b.copy()) for _ in range(2)]
        for (some_w, some_b), sign in zip(moved, (-1, 1)):
            (some_w if j < 2 else some_b)[(i, j) if j < 2 else i] += sign * step
        down, up = (expected(*one) for one in moved)
        assert max(down, up) < best
        assert abs(up - down) < 1e-9


def test_the_extended_moments_hold_both():
    place, square = eq.extended(np.array([[1.0, 2.0]]), np.array([[[0.5, 0.1], [0.1, 0.4]]]))
    assert place.tolist() == [[1, 2, 1]]
    np.testing.assert_allclose(square[0], [[1.5, 2.1, 1], [2.1, 4.4, 2], [1, 2, 1]])


def test_lambda_is_the_slope_of_log_sigma_in_the_square():
    """The bound (5) is the tangent of log sigma(A) - A / 2 as a function of A^2, here by differences."""
    square, step = np.array([0.01, 0.5, 9.0]), 1e-6

    def even(square):
        return log_expit(np.sqrt(square)) - np.sqrt(square) / 2

    slope = (even(square + step) - even(square - step)) / (2 * step)
    np.testing.assert_allclose(eq.lambda_of(np.sqrt(square)), slope, rtol=1e-6)
