"""Statistics of learning by nodes: gradients, curvatures, and steps that never lose."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from tests.models.steps import batch_of, unchecked
from traits import parameters, simulate

from latentbits.core import nodes
from latentbits.core.batch import MISSING
from latentbits.core.packed_symmetric import unpack
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_trait import bits, column_kinds, quadrature
from latentbits.models.latent_trait.column_kinds import ALL_BITS


def test_statistics_are_the_gradient_of_the_log_likelihood():
    """By Fisher's identity the M-step's gradient is that of the log-likelihood, here by automatic differentiation."""
    q = 4
    table, w, b = simulate(25, 5, q, missing=0.2)
    weights = np.random.default_rng(1).integers(0, 3, 25).astype(float)
    rule = nodes.quasi_monte_carlo(256, q)

    @jax.jit
    def both(params):
        batch = batch_of(table, weights)
        rows = column_kinds.rows_of(ALL_BITS, params, batch)
        at = quadrature.placed(ALL_BITS, params, rows, quadrature.start(ALL_BITS, params, rows))
        integral = quadrature.integrate(ALL_BITS, params, rows, at, rule)
        stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)

        def total(params):
            return weights @ quadrature.integrate(ALL_BITS, params, rows, at, rule).log_likelihood

        return stats, jax.grad(total)(params)

    with double():
        stats, slope = to_numpy(both(parameters(w, b)))
    np.testing.assert_allclose(stats.bits.gradient[:, :q], slope.weights, atol=1e-9)
    np.testing.assert_allclose(stats.bits.gradient[:, q], slope.bias, atol=1e-9)


def test_a_net_is_turned_by_the_number_of_the_row_and_keeps_its_shape():
    at = unchecked(quadrature.Gaussian, np.zeros((3, 4)), np.tile(np.eye(4), (3, 1, 1)))
    with double():
        turned = jax.jit(lambda at, rows: nodes.for_net(at, rows).scale)
        first, again = (np.asarray(turned(at, np.array(n, np.uint32))) for n in ([0, 1, 2], [2, 3, 4]))
    square = np.einsum("nij,nkj->nik", first, first)
    np.testing.assert_allclose(square, np.broadcast_to(nodes.net_width(4) ** 2 * np.eye(4), (3, 4, 4)), atol=1e-9)
    np.testing.assert_allclose(first[2], again[0])
    assert np.abs(first[0] - first[1]).max() > 0.1
    net = nodes.quasi_monte_carlo(128, 4).nodes
    np.testing.assert_allclose(net.T @ net / 128, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(np.mean(np.sum(net**2, 1) ** 2), 4 * 6, rtol=0.03)  # the fourth moment of a length


def posteriors(table, w, b):
    """Find the mode of every row by Newton's method, and the root of the inverse curvature there."""
    x, seen = np.zeros((len(table), w.shape[1])), table != MISSING
    for _ in range(20):
        p = expit(x @ w.T + b)
        inverse = np.linalg.inv(np.eye(w.shape[1]) + np.einsum("nd,di,dj->nij", seen * p * (1 - p), w, w))
        x += np.einsum("nij,nj->ni", inverse, (seen * (table - p)) @ w - x)
    return unchecked(quadrature.Gaussian, x, np.linalg.cholesky(inverse))


@pytest.mark.slow("nets of many dimensions")
def test_in_many_dimensions_a_fixed_net_never_loses():
    """Steps of the M-step, points held where they are: the likelihood grows, and its gradient shrinks.

    Each column's curvature is told by moments of rows, near that by points: no direction has less than half.
    """
    q = 8
    table, w, b = simulate(60, 12, q, missing=0.1, scale=0.7)
    rule, at = quadrature.learning_rule(q, 8), posteriors(table, w, b)

    @jax.jit
    def step(params, at):
        batch = batch_of(table)
        rows = column_kinds.rows_of(ALL_BITS, params, batch)
        integral = quadrature.integrate(ALL_BITS, params, rows, nodes.for_net(at, batch.rows), rule)
        stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)
        exact = bits.point_curvature(batch.observed, integral.probabilities[0], integral.share, integral.points)
        ahead = column_kinds.maximise(ALL_BITS, params, stats, 0.1, False, jnp.inf)
        slope = stats.bits.gradient.at[:, :q].add(-0.1 * params.weights)
        value = integral.log_likelihood.sum() - 0.05 * jnp.sum(params.weights**2)
        return ahead, value, jnp.abs(slope).max(), unpack(stats.bits.curvature, q + 1), unpack(exact, q + 1)

    values, slopes = [], []
    with double():
        params = parameters(w, b)
        for i in range(20):
            params, value, slope, near, exact = step(params, at)
            values.append(float(value))
            slopes.append(float(slope))
            if i == 0:
                near, exact = np.asarray(near), np.asarray(exact)
                ratios = np.linalg.eigvals(np.linalg.solve(exact, near)).real
                assert ratios.min() > 0.5
                assert ratios.max() < 3
                assert np.abs(near / exact - 1).max() > 1e-6  # another sum
    assert np.diff(values).min() >= -1e-9 * abs(values[0])
    assert values[-1] > values[0] + 1
    assert slopes[-1] < 0.2 * slopes[0]
