"""Annealed importance sampling of log p(x) against exact sums; each row has its own random numbers."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np
import pytest

from latentbits.core.tree import double
from latentbits.models.noisy_or import equations
from latentbits.models.noisy_or.annealing import annealed_evidence

N_CHAINS = 8
SIZES = 12, 8, 3
estimate = jax.jit(annealed_evidence, static_argnums=4)


@cache
def problem(n_rows):
    """Rows of a network of strong causes that have doubles; a third with holes, one with nothing but holes."""
    network = examples.some_network(SIZES, scale=2.0, bias=0.01)
    for weights, axis in zip(network.weights, (0, 1), strict=True):
        np.moveaxis(weights, axis, 0)[4:] = np.moveaxis(weights, axis, 0)[:4]
    x, _ = examples.draw(network, n_rows)
    rng = np.random.default_rng(1)
    x[(rng.random(x.shape) < 0.4) & (np.arange(n_rows) % 3 == 0)[:, None]] = np.nan
    x[5] = np.nan
    return network, x, equations.log_evidence(network, x)


def run(network, x, n_steps, order=slice(None)):
    """Estimate log p of each row, its error, and the share of chains that count."""
    on, off = (jnp.asarray((x == value).T, "f") for value in (1, 0))
    keys = jax.random.split(jax.random.key(0), len(x))[order]
    found = estimate(
        examples.as_params(network, np.float32), on[:, order], off[:, order], keys, N_CHAINS, jnp.asarray(n_steps)
    )
    return np.asarray(found.value, float), np.asarray(found.error, float), np.asarray(found.effective, float)


@pytest.mark.slow("thousands of annealed chains")
def test_mean_weight_is_the_probability():
    """The ratio to p(x) has mean 1, however few the steps; 4.5 standard errors: a false alarm in 150 000 runs.

    A row knows nothing of its neighbours: others in another order, each with its key, find the same.
    """
    network, x, exact = problem(150)
    few = run(network, x, 20)
    ratio = np.exp(few[0] - exact)
    assert ratio.std() > 0.1  # else it would be no test of the weights
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(len(x))
    assert abs(few[0][5]) < 4.5 * few[1][5]  # nothing observed: p = 1
    order = np.random.default_rng(0).permutation(len(x))
    for whole, shuffled in zip(few, run(network, x, 20, order), strict=True):
        np.testing.assert_allclose(shuffled, whole[order], rtol=1e-4, atol=1e-4)


@pytest.mark.optimised
@pytest.mark.slow("calibration of the errors over 1000 rows")
def test_error_is_that_of_the_estimate():
    """z-scores have a variance of 0.8, with a standard deviation of 0.1 over seeds; 0.1 % are above 4.

    Errors fall like the root of the steps, or faster: five times the steps.
    """
    network, x, exact = problem(1000)
    few, many = (run(network, x, n_steps) for n_steps in (20, 100))
    z = (many[0] - exact) / many[1]
    assert 0.5 < np.mean(z**2) < 1.3
    assert np.mean(np.abs(z) > 4) < 0.01
    assert 0.9 < np.median(many[2]) <= 1
    distance = [np.sqrt(np.mean((value - exact) ** 2)) for value, _, _ in (few, many)]
    assert distance[1] < distance[0] / 2
    assert np.median(many[1]) < np.median(few[1]) / 2
    assert np.median(few[2]) < np.median(many[2]) - 0.05


@pytest.mark.optimised
@pytest.mark.slow("calibration of the errors over 1000 rows")
def test_error_of_a_row_with_two_explanations():
    """All rows of a 3 x 3 image, or, half as probable, all columns: often no chain finds the other half of p(x).

    z-scores have a root mean square of 1.5; of 6.6, if chains had to have the very same weight to count as alike.
    """
    bars = np.vstack([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])
    weights = [np.pad(3 * bars, ((0, 2), (0, 3))), np.zeros((3, 8))]
    biases = [np.full(12, 0.01), np.array([0.03] * 3 + [0.02] * 3 + [0.01] * 2), np.full(3, 0.01)]
    network = equations.Network(weights, biases)
    x = np.tile(np.repeat([1.0, 0.0], [9, 3]), (1000, 1))
    value, error, _ = run(network, x, 100)
    z = (value - equations.log_evidence(network, x[:1])) / error
    assert 0.7 < np.sqrt(np.mean(z**2)) < 2


def test_few_chains_have_no_error_and_precision_is_that_of_the_rows():
    keys = jax.random.split(jax.random.key(0), 3)
    with double():
        params = examples.as_params(examples.some_network(SIZES))
        x = jnp.asarray(np.zeros((SIZES[0], 3)))
        with pytest.raises(ValueError, match="n_chains must be at least 4, got 3"):
            annealed_evidence(params, x, x, keys, 3)
        found = jax.eval_shape(lambda *args: annealed_evidence(*args), params, x, x, keys)
    assert {(v.shape, v.dtype) for v in jax.tree.leaves(found)} == {((3,), np.dtype(np.float64))}
