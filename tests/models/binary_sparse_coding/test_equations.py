"""The equations of the paper, as `equations.py` has them: by brute force, and by what the paper says of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sparse_coding
from scipy.stats import bernoulli, binom, norm

from latentbits.models.binary_sparse_coding import equations
from latentbits.models.binary_sparse_coding.equations import Theta

N, D = 70, 8
THETA = sparse_coding.some_theta(6, D, seed=1, active=2.0)
X = sparse_coding.draw(THETA, N, seed=2)


def test_every_numbered_equation_has_a_function():
    texts = [getattr(equations, name).__doc__ for name in equations.__all__] + [equations.Posterior.mean.__doc__]
    numbers = {int(found[1]) for text in texts if (found := re.match(r"(?:Equation|\w+) \((\d)\)", text))}
    assert numbers == set(range(1, 9))


def test_equation_1_is_the_density_and_the_rows_that_are_drawn():
    states = equations.all_states(6)
    prior = bernoulli.logpmf(states, THETA.pi).sum(1)
    exact = [norm.logpdf(X[0], THETA.W @ s, THETA.sigma).sum() for s in states] + prior
    np.testing.assert_allclose(equations.log_joint(X[0], states, THETA), exact, rtol=1e-12)
    drawn, causes = equations.draw(THETA, 4000, np.random.default_rng(0))
    assert causes.mean() == pytest.approx(THETA.pi, abs=0.015)
    assert (drawn - causes @ THETA.W.T).std() == pytest.approx(THETA.sigma, rel=0.03)


def test_equation_2_is_the_truncated_evidence_where_it_was_made_and_rises_with_every_step():
    """Both with W as printed in (7) and with W^new, and by as much as the derivation says they differ."""
    theta = THETA._replace(sigma=2.0)
    rows = sparse_coding.infer_all(X, theta, 3, 4)
    start = equations.free_energy(X, rows, theta)
    assert start == pytest.approx(sum(row.log_evidence for row in rows), rel=1e-12)
    W = equations.new_W(X, rows)
    old, new = (equations.new_sigma(X, rows, w) for w in (theta.W, W))
    moved = sum(row.probabilities @ ((row.states @ (W - theta.W).T) ** 2).sum(1) for row in rows)
    assert X.size * (old**2 - new**2) == pytest.approx(moved, rel=1e-9)
    printed, highest = (equations.free_energy(X, rows, Theta(W, sigma, theta.pi)) for sigma in (old, new))
    assert start < printed < highest
    for changed in (Theta(1.001 * W, new, theta.pi), Theta(W, 1.01 * new, theta.pi), Theta(W, 0.99 * new, theta.pi)):
        assert equations.free_energy(X, rows, changed) < highest


def test_equations_3_to_5_with_all_causes_are_exact():
    """K_n has 1 + H' + ... states, and all 2^H with gamma = H' = H; candidates go by the cosine."""
    assert len(equations.truncated_states(7, [0, 2, 3, 6], 3)) == 1 + 4 + 6 + 4 + 3
    every = equations.truncated_states(6, range(6), 6)
    assert sorted(map(tuple, every)) == sorted(map(tuple, equations.all_states(6)))
    W = np.array([[2.0, 1.0, -3.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    np.testing.assert_allclose(equations.selection(np.array([1.0, 0.5]), W)[:3], [1, 1.5 / np.sqrt(2), -1])
    assert equations.candidates(np.array([1.0, 0.5]), W, 3).tolist() == [0, 1, 2]  # the last one has no length
    few, exact = (sparse_coding.infer(X[0], THETA, *size) for size in ((6, 6), ()))
    assert few.log_evidence == pytest.approx(exact.log_evidence)
    np.testing.assert_allclose(few.second, exact.second, atol=1e-12)


def test_equation_8_falls_back_to_exact_em_with_all_states():
    rows = sparse_coding.infer_all(X, THETA)
    assert equations.A(0.3, 6, 6) == pytest.approx(1)
    assert equations.n_cut(N, 0.3, 6, 6) == pytest.approx(N)
    assert equations.new_pi(rows, 0.3, 6) == pytest.approx(np.mean([row.mean for row in rows]))
    np.testing.assert_allclose([equations.A(0.3, 6, 2)], binom.cdf(2, 6, 0.3))
    mean = equations.B(0.3, 6, 2) / equations.A(0.3, 6, 2)
    counts = np.random.default_rng(0).binomial(6, 0.3, 100_000)
    assert mean == pytest.approx(counts[counts <= 2].mean(), abs=0.01)


def test_with_nothing_missing_the_update_for_holes_is_the_paper_s():
    """One entry is taken for missing in a row that has it: only what that row says of it differs."""
    holes = X.copy()
    holes[0, 0] = np.nan
    rows = sparse_coding.infer_all(X, THETA, 3, 4)
    assert not np.isnan(sparse_coding.filled(holes[0], rows[0], THETA)).any()
    complete = sum(np.outer(row.mean, y) for y, row in zip(X, rows))
    np.testing.assert_allclose(sparse_coding.products(X, rows, THETA), complete, atol=1e-12)
