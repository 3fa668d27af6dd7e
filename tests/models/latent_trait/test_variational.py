"""The bound of the paper's section 4, against its equations written out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit
from tests.models.latent_trait import twin
from tests.models.steps import batch_of

from latentbits.core.batch import MISSING
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_trait import kinds, variational
from latentbits.models.latent_trait.kinds import ALL_BITS

TABLE, W, B = twin.simulate(30, 5, 2, missing=0.2)
WEIGHTS = np.random.default_rng(1).integers(0, 3, 30).astype(float)


@jax.jit
def improved(params, to_the_end):
    """Improve the bound of rows, after three rounds or all that it takes; and take an M-step."""
    rows = kinds.rows_of(ALL_BITS, params, batch_of(TABLE))
    start = jax.lax.cond(
        to_the_end,
        lambda: variational.converge(ALL_BITS, params, rows, most=500, tolerance=1e-12),
        lambda: variational.converge(ALL_BITS, params, rows, most=3, tolerance=0.0),
    )
    posterior, bound, contact = variational.improve(ALL_BITS, params, rows, start)
    stats = variational.stats_of(ALL_BITS, params, rows, posterior, bound, contact, jnp.asarray(WEIGHTS))
    after = kinds.maximise(ALL_BITS, params, stats, 0.0, False, jnp.inf)
    return start.mean, start.covariance, posterior.mean, posterior.covariance, bound, stats, after


def asked(to_the_end):
    with double():
        return to_numpy(improved(twin.parameters(W, B), to_the_end))


def xi_of(mean, covariance):
    """Take (8), from the posterior before."""
    return np.sqrt((mean @ W.T + B) ** 2 + np.einsum("di,nij,dj->nd", W, covariance, W))


def slope_of(xi):
    return (0.5 - expit(xi)) / (2 * xi)


def test_the_bound_is_the_integral_of_equation_4_and_below_the_likelihood():
    """(5) summed over a dense grid gives the closed form; with xi by (8) it is below log p, and xi is its optimum."""
    mean, covariance, after, _, bound, stats, _ = asked(True)
    xi = xi_of(mean, covariance)
    points, log_weight = twin.grid(2)
    a = points @ W.T + B

    def integral(xi):
        total = np.tile(log_weight, (len(TABLE), 1))
        for i in range(5):
            signed = np.where(TABLE[:, i] == 1, 1, -1)[:, None] * a[:, i]
            x = xi[:, i, None]
            term = np.log(expit(x)) + (signed - x) / 2 + slope_of(x) * (signed**2 - x**2)  # (5)
            total += np.where(TABLE[:, i, None] == MISSING, 0, term)
        return np.logaddexp.reduce(total, axis=1)

    np.testing.assert_allclose(bound, integral(xi), atol=1e-8)
    np.testing.assert_allclose(stats.objective.sum(), WEIGHTS @ bound, rtol=1e-12)
    assert np.all(bound <= twin.log_likelihoods(W, B, TABLE) + 1e-9)
    for factor in (0.95, 1.05):
        assert np.all(integral(factor * xi) <= bound + 1e-9)
    np.testing.assert_allclose(after, mean, atol=1e-9)  # converged


def test_the_m_step_is_equation_11():
    """One plain variational iteration against the equations written out."""
    mean, covariance, after, spread, _, stats, found = asked(False)
    lam = slope_of(xi_of(mean, covariance))
    x = np.column_stack([after, np.ones(len(TABLE))])
    second = x[:, :, None] * x[:, None]  # (12)
    second[:, :2, :2] += spread
    np.testing.assert_allclose(stats.latent, WEIGHTS @ after, rtol=1e-9)
    np.testing.assert_allclose(stats.latent_squares, (WEIGHTS @ second.reshape(-1, 9))[[0, 1, 4]], rtol=1e-9)
    for i in range(5):
        counts = WEIGHTS * (TABLE[:, i] != MISSING)
        left = np.einsum("n,nij->ij", 2 * counts * lam[:, i], second)
        right = (counts * (np.where(TABLE[:, i] == 1, 1, 0) - 0.5)) @ x
        answer = -np.linalg.solve(left, right)  # (11)
        np.testing.assert_allclose(np.append(found.weights[i], found.bias[i]), answer, rtol=1e-6)
