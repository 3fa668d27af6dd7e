"""The fast form of the paper's section 4, against its equations in plain NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.models.steps import batch_of
from traits import by_row, parameters, simulate

from latentbits.core.batch import MISSING
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_trait import column_kinds, equations, variational
from latentbits.models.latent_trait.column_kinds import ALL_BITS

TABLE, W, B = simulate(30, 5, 2, missing=0.2)
WEIGHTS = np.random.default_rng(1).integers(0, 3, 30)


@jax.jit
def improved(params, to_the_end):
    """Improve the bound of rows by two rounds, after three or all that it takes; and take an M-step."""
    rows = column_kinds.rows_of(ALL_BITS, params, batch_of(TABLE))
    start = jax.lax.cond(
        to_the_end,
        lambda: variational.converge(ALL_BITS, params, rows, most=500, tolerance=1e-12),
        lambda: variational.converge(ALL_BITS, params, rows, most=3, tolerance=0.0),
    )
    posterior, bound, contact = variational.improve(ALL_BITS, params, rows, start, n_rounds=2)
    stats = variational.stats_of(ALL_BITS, params, rows, posterior, bound, contact, jnp.asarray(WEIGHTS, float))
    after = column_kinds.maximise(ALL_BITS, params, stats, 0.0, False, jnp.inf)
    return start.mean, start.covariance, posterior.mean, posterior.covariance, bound, stats, after


def asked(to_the_end):
    with double():
        return to_numpy(improved(parameters(W, B), to_the_end))


def round_of(mean, covariance):
    """Take (8) from a posterior, then (6) and (7): xi, moments and bound, by the bits observed in each row."""
    xi, seen = equations.xi_of(mean, covariance, W, B), TABLE != MISSING
    found = []
    for row, at, own in zip(TABLE, seen, xi):
        t, w, b, own = row[None, at].astype(float), W[at], B[at], own[None, at]
        spread = equations.covariances(own, w)
        found.append((equations.means(t, own, w, b, spread)[0], spread[0], equations.bound(t, own, w, b)[0]))
    return xi, *map(np.array, zip(*found))


@pytest.mark.parametrize("to_the_end", [False, True])
def test_rounds_are_equations_8_then_6_and_7_with_the_bound_of_4(to_the_end):
    start, spread, mean, covariance, bound, stats, _ = asked(to_the_end)
    _, *once = round_of(start, spread)
    _, *expected = round_of(*once[:2])
    for ours, theirs in zip((mean, covariance, bound), expected):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    np.testing.assert_allclose(stats.objective.sum(), WEIGHTS @ bound, rtol=1e-12)
    assert (np.abs(bound - once[2]).max() < 1e-9) == to_the_end
    if to_the_end:
        np.testing.assert_allclose(mean, start, atol=1e-9)
        assert np.all(bound <= by_row(equations.likelihood, TABLE, W, B) + 1e-9)


def test_the_m_step_is_equation_11():
    """A missing bit is left out of its sums, and a weight is so many rows."""
    start, spread, mean, covariance, _, stats, found = asked(False)
    _, *once = round_of(start, spread)
    xi = equations.xi_of(*once[:2], W, B)
    _, second = equations.extended(mean, covariance)
    np.testing.assert_allclose(stats.latent, WEIGHTS @ mean, rtol=1e-9)
    np.testing.assert_allclose(stats.latent_squares, (WEIGHTS @ second.reshape(-1, 9))[[0, 1, 4]], rtol=1e-9)
    for i in range(5):
        rows = np.repeat(np.arange(len(TABLE)), WEIGHTS * (TABLE[:, i] != MISSING))
        t = TABLE[rows, i, None].astype(float)
        w, b = equations.weights_and_biases(t, xi[rows, i, None], mean[rows], covariance[rows])
        np.testing.assert_allclose(found.weights[i], w[0], rtol=1e-6)
        np.testing.assert_allclose(found.bias[i], b[0], rtol=1e-6)
