"""The paper's equations (Freund & Haussler 1994) against each other: each says in another way what another one says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from latentbits.models.combination_machine import equations as eq

M, N = 3, 4
STEP = 1e-5


def a_machine(seed=0, m=M, n=N):
    """Draw weights and biases of the hidden units, and input biases."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, n)), rng.normal(size=m), 0.3 * rng.normal(size=n)


def slope(value, at):
    """Central differences."""
    steps = STEP * np.eye(at.size).reshape(-1, *at.shape)
    return np.reshape([(value(at + step) - value(at - step)) / (2 * STEP) for step in steps], at.shape)


@pytest.mark.parametrize("with_bias", [False, True])
def test_probabilities_of_bits(with_bias):
    """(2.2) is the sum of exp(-E) over all states, and (2.3) and (2.4) are the shares of the inputs."""
    w, theta, b = a_machine()
    b = b if with_bias else 0.0
    x = eq.inputs(N)
    minus_energy = -eq.energy(w, theta, x[:, None], eq.states(M), b)
    by_hand = [[sum((w[i] @ a + theta[i]) * c[i] for i in range(M)) + np.sum(a * b) for c in eq.states(M)] for a in x]
    np.testing.assert_allclose(minus_energy, by_hand, atol=1e-12)
    log_z = logsumexp(minus_energy)
    np.testing.assert_allclose(eq.log_partition(w, theta, b), log_z)
    for found in (eq.log_probability(w, theta, x, b), eq.log_probability_by_states(w, theta, x, b)):
        np.testing.assert_allclose(found, logsumexp(minus_energy, axis=1) - log_z)
    np.testing.assert_allclose(eq.hidden_distribution(w, theta, b), np.exp(logsumexp(minus_energy, axis=0) - log_z))
    np.testing.assert_allclose(eq.log_likelihood(w, theta, x[:5], b), eq.log_probability(w, theta, x[:5], b).sum())


def test_probabilities_of_real_inputs():
    """(2.5) to (2.8) and (3.7), on a grid that is right to 1e-13 for Gaussians of variance 1."""
    w, theta, b = a_machine(n=2)
    side = np.arange(-11.2, 11.6, 0.8)
    x = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    minus_energy = -eq.real_energy(w, theta, x[:, None], eq.states(M), b) + 2 * np.log(0.8)
    log_z = logsumexp(minus_energy)
    np.testing.assert_allclose(eq.real_log_partition(w, theta, b), log_z, rtol=1e-12)
    density = np.exp(eq.real_log_density(w, theta, x, b)) * 0.8**2
    np.testing.assert_allclose(density, np.exp(logsumexp(minus_energy, axis=1) - log_z), atol=1e-12)
    given = np.exp(minus_energy - log_z)
    np.testing.assert_allclose(eq.real_hidden_distribution(w, theta, b), given.sum(0), atol=1e-12)
    h = eq.states(M)
    for found, exact in zip(eq.real_moments(w, theta, b), (h.T @ given.T @ x, given.sum(0) @ h)):
        np.testing.assert_allclose(found, exact, atol=1e-11)


def test_gradients():
    """(3.2), (3.3) and (3.5), (3.6) are the derivatives of (3.1); (3.8), (3.9) those of the real-valued machine's."""
    w, theta, _ = a_machine(1)
    rows = np.random.default_rng(2).choice([-1.0, 1.0], (20, N))
    numeric = (
        slope(lambda w: eq.log_likelihood(w, theta, rows), w),
        slope(lambda theta: eq.log_likelihood(w, theta, rows), theta),
    )
    exact = eq.gradient(w, theta, rows)
    for found, other, expected in zip(exact, eq.gradient_by_inputs(w, theta, rows), numeric):
        np.testing.assert_allclose(found, other, atol=1e-12)
        np.testing.assert_allclose(found, expected, atol=1e-7)
    real = eq.real_gradient(w, theta, rows)
    np.testing.assert_allclose(real[0], slope(lambda w: eq.real_log_density(w, theta, rows).sum(), w), atol=1e-7)
    np.testing.assert_allclose(real[1], slope(lambda t: eq.real_log_density(w, t, rows).sum(), theta), atol=1e-7)


def test_a_mixture_is_a_machine_with_one_unit_on():
    """(2.9): with at most one unit on there are the m products, and the uniform distribution where none is."""
    w, theta, _ = a_machine()
    x, h = eq.inputs(N), np.vstack([np.zeros(M), np.eye(M)])
    joint = -eq.energy(w, theta, x[:, None], h)
    shares = np.exp(eq.log_terms(w, theta, h) - logsumexp(joint))
    mixed = eq.mixture_log_probability(np.vstack([np.zeros(N), w]), shares, x)
    np.testing.assert_allclose(mixed, logsumexp(joint, axis=1) - logsumexp(joint), atol=1e-12)


def test_the_rule_for_orthogonal_weights():
    """Corrected, it gives the largest term of every machine; with |w| / 2, as printed, it does not."""
    rng = np.random.default_rng(0)
    as_printed = 0
    for _ in range(50):
        w = np.linalg.qr(rng.normal(size=(8, 8)))[0][:5] * rng.uniform(0.5, 4, (5, 1))
        theta = -rng.uniform(0, 6, 5)
        g = eq.real_log_terms(w, theta, eq.states(5))
        np.testing.assert_array_equal(eq.rule_for_orthogonal(w, theta), eq.states(5)[np.argmax(g)])
        printed = w @ eq.furthest_from(w, theta) <= 0.5 * np.linalg.norm(w, axis=1)
        as_printed += np.array_equal(printed, eq.states(5)[np.argmax(g)])
    assert as_printed < 25


def test_terms_are_distances():
    """Section 3.1, of any weights: g(h) is half the squared distance of w(h) from one point, and a constant."""
    w, theta, _ = a_machine()
    h = eq.states(M)
    away = 0.5 * ((eq.combined_weight(w, h) - eq.furthest_from(w, theta)) ** 2).sum(1)
    assert np.ptp(eq.real_log_terms(w, theta, h) - away) < 1e-12


def test_one_unit_by_em():
    """(3.12), (3.13) hold at (3.14), (3.15); each step climbs; the factor of 3.4 is that of (3.11)."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, N)) + np.outer(rng.random(200) < 0.4, [2.0, -1, 1, 0])
    w, theta = 0.5 * rows[0], 0.0
    climb = [eq.gain(w, theta, rows)]
    for _ in range(300):
        mean_h, mean_hx = eq.expected(w, theta, rows)
        w, theta = eq.m_step(mean_h, mean_hx)
        for left in eq.slopes(w, theta, mean_h, mean_hx):
            np.testing.assert_allclose(left, 0, atol=1e-12)
        climb.append(eq.gain(w, theta, rows))
    assert (np.diff(climb) > -1e-9).all()
    assert climb[-1] > climb[0] + 10
    alone = eq.real_log_density(w[None], np.array([theta]), rows).sum()
    np.testing.assert_allclose(climb[-1], alone - norm.logpdf(rows).sum(), rtol=1e-10)
    at = [eq.gain(w + STEP * e, theta, rows) - eq.gain(w - STEP * e, theta, rows) for e in np.eye(N)]
    np.testing.assert_allclose(np.array(at) / (2 * STEP), 0, atol=1e-3)

    t, size = np.linspace(-3, 5, 9), np.linalg.norm(w)
    on = expit(theta + 0.5 * size**2)
    factor = eq.optimal_factor((1 - on) * norm.pdf(t) + on * norm.pdf(t, size), norm.pdf(t))
    np.testing.assert_allclose(factor / factor[0], (1 + np.exp(theta + t * size)) / (1 + np.exp(theta + t[0] * size)))


def test_structure_removal_takes_the_shift_from_heads():
    w, rows = np.array([3.0, 0, 0, 0]), np.random.default_rng(4).normal(size=(2000, N))
    shifted = rows + np.outer(np.arange(2000) % 2, w)
    left, heads = eq.without_unit(w, -0.5 * w @ w, shifted, np.random.default_rng(5).random(2000))
    np.testing.assert_allclose(left + heads[:, None] * w, shifted)
    assert abs(heads.mean() - 0.5) < 0.03
    assert abs(left.mean(0)).max() < 0.1


def test_reconstruction_is_the_log_of_a_product():
    w, theta, _ = a_machine()
    x, h = eq.inputs(N), eq.states(M)[5]
    log_p = -eq.energy(w, theta, x, h)
    np.testing.assert_allclose(eq.reconstruction_bits(w, x, h), (logsumexp(log_p) - log_p) / N / np.log(2))


def test_conditions_of_the_appendix():
    """The more bits, the fewer rows and pairs break (A.1) and (A.2)."""
    rng = np.random.default_rng(6)
    off, oblique = [], []
    for n in (16, 1024):
        mean = rng.uniform(-1, 1, n)
        rows = np.where(rng.random((n, n)) < (1 + mean) / 2, 1.0, -1.0) - mean
        off.append(eq.share_off_length(rows, 2 / 3, 0.2))
        oblique.append(eq.share_not_orthogonal(rows, 0.2))
    assert off[1] < 0.05 < off[0]
    assert 1 / 1024 <= oblique[1] < 0.05 < oblique[0]
