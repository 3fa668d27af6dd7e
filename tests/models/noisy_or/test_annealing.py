"""Annealed importance sampling of log p(x) against exact sums.

All tests share one compiled function.  Thresholds are for 1000 rows, each with random numbers of its own.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_twin as twin
import numpy as np
import pytest

from latentbits.core.tree import double
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.annealing import annealed_evidence

pytestmark = pytest.mark.optimised

N_ROWS, N_CHAINS = 1000, 8
SIZES = 12, 8, 3
estimate = jax.jit(annealed_evidence, static_argnums=4)


@pytest.fixture(scope="module")
def problem():
    """Rows of a network of strong causes that have doubles; a third with holes, one with nothing but holes."""
    network = twin.some_network(SIZES, scale=2.0, bias=0.01)
    for weights, axis in zip(network.weights, (0, 1), strict=True):
        np.moveaxis(weights, axis, 0)[4:] = np.moveaxis(weights, axis, 0)[:4]
    x, _ = twin.draw(network, N_ROWS)
    rng = np.random.default_rng(1)
    x[(rng.random(x.shape) < 0.4) & (np.arange(N_ROWS) % 3 == 0)[:, None]] = np.nan
    x[5] = np.nan
    params = twin.as_params(network, np.float32)
    values, observed = jnp.asarray(np.nan_to_num(x), "f"), jnp.asarray(~np.isnan(x), "f")

    @jax.jit
    def log_evidence(params, x, observed):
        return enumeration.log_evidence(params, enumeration.log_prior(params), x, observed)

    exact = np.asarray(log_evidence(params, values, observed), float)
    return params, values.T, ((1 - values) * observed).T, exact


def run(problem, n_steps, order=slice(None)):
    params, on, off, _ = problem
    keys = jax.random.split(jax.random.key(0), N_ROWS)[order]
    found = estimate(params, on[:, order], off[:, order], keys, N_CHAINS, n_steps)
    return np.asarray(found.value, float), np.asarray(found.error, float), np.asarray(found.effective, float)


@pytest.fixture(scope="module")
def few(problem):
    return run(problem, 20)


@pytest.fixture(scope="module")
def many(problem):
    return run(problem, 100)


@pytest.mark.slow
def test_mean_weight_is_the_probability(problem, few):
    """The ratio to p(x) has mean 1, however few the steps; 4.5 standard errors: a false alarm in 150 000 runs."""
    ratio = np.exp(few[0] - problem[-1])
    assert ratio.std() > 0.1  # else it would be no test of the weights
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(N_ROWS)


def test_error_is_that_of_the_estimate(problem, many):
    """z-scores have a variance of 0.8, with a standard deviation of 0.1 over seeds; 0.1 % are above 4."""
    value, error, effective = many
    z = (value - problem[-1]) / error
    assert 0.5 < np.mean(z**2) < 1.3
    assert np.mean(np.abs(z) > 4) < 0.01
    assert 0.9 < np.median(effective) <= 1
    assert abs(value[5]) < 4.5 * error[5]  # nothing observed: p = 1


def test_error_falls_with_steps(problem, few, many):
    """Like their root, or faster: five times the steps."""
    distance = [np.sqrt(np.mean((value - problem[-1]) ** 2)) for value, _, _ in (few, many)]
    assert distance[1] < distance[0] / 2
    assert np.median(many[1]) < np.median(few[1]) / 2
    assert np.median(few[2]) < np.median(many[2]) - 0.05


@pytest.mark.slow
def test_error_of_a_row_with_two_explanations(problem):
    """All rows of a 3 x 3 image, or, half as probable, all columns: often no chain finds the other half of p(x).

    z-scores have a root mean square of 1.5; of 6.6, if chains had to have the very same weight to count as alike.
    """
    bars = np.vstack([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])
    weights = [np.pad(3 * bars, ((0, 2), (0, 3))), np.zeros((3, 8))]
    biases = [np.full(12, 0.01), np.array([0.03] * 3 + [0.02] * 3 + [0.01] * 2), np.full(3, 0.01)]
    network = twin.Network(weights, biases)
    x = np.repeat([1.0, 0.0], [9, 3])
    on = jnp.asarray(np.tile(x[:, None], N_ROWS), "f")
    value, error, _ = run((twin.as_params(network, np.float32), on, 1 - on, None), 100)
    z = (value - twin.log_evidence(network, x[None])) / error
    assert 0.7 < np.sqrt(np.mean(z**2)) < 2


def test_a_row_knows_nothing_of_its_neighbours(problem, few):
    """Rows in another order, each with its key."""
    order = np.random.default_rng(0).permutation(N_ROWS)
    for whole, shuffled in zip(few, run(problem, 20, order), strict=True):
        np.testing.assert_allclose(shuffled, whole[order], rtol=1e-4, atol=1e-4)


def test_few_chains_have_no_error(problem):
    params, on, off, _ = problem
    with pytest.raises(ValueError, match="n_chains must be at least 4, got 3"):
        annealed_evidence(params, on, off, jax.random.split(jax.random.key(0), N_ROWS), 3)


def test_computes_in_the_precision_of_the_rows(problem):
    with double():
        params = twin.as_params(twin.some_network(SIZES))
        x = jnp.zeros((SIZES[0], 3))
        found = jax.eval_shape(
            lambda *args: annealed_evidence(*args), params, x, 1 - x, jax.random.split(jax.random.key(0), 3)
        )
    assert {(v.shape, v.dtype) for v in jax.tree.leaves(found)} == {((3,), np.dtype(np.float64))}
