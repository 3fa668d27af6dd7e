"""Sums over all hidden states, layer by layer, against sums over the states of all layers together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_twin as twin
import numpy as np
import pytest

from latentbits.core.tree import double, rows_in
from latentbits.models.noisy_or import enumeration

RTOL, ATOL = 1e-9, 1e-12


@jax.jit
def everything(params, x, observed, weight, coldness):
    """All of the module at once, so that it is compiled once."""
    prior = enumeration.log_prior(params)
    args = params, prior, x, observed
    return (
        enumeration.log_evidence(*args),
        enumeration.posterior_means(*args),
        enumeration.completion(*args),
        enumeration.expected_statistics(*args, weight, coldness),
        prior,
    )


def compare(found, network, x, weight, coldness):
    value, means, complete, (statistics, free), prior = found
    n = len(x)
    np.testing.assert_allclose(value[:n], twin.log_evidence(network, x), RTOL, ATOL)
    np.testing.assert_allclose(free[:n], [twin.posterior(network, row, coldness)[1] for row in x], RTOL, ATOL)
    np.testing.assert_allclose(complete[:n], twin.completion(network, x), RTOL, ATOL)
    for got, exact in zip(means, twin.posterior_means(network, x), strict=True):
        np.testing.assert_allclose(got[:n], exact, RTOL, ATOL)
    expected = twin.expected_statistics(network, x, weight, coldness)
    for name in expected._fields:
        for got, exact in zip(getattr(statistics, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(got, exact, RTOL, ATOL, err_msg=name)
    for layer, logs in zip(network.weights, prior, strict=True):
        assert len(logs) == 2 ** len(layer)
        np.testing.assert_allclose(np.exp(logs).sum(), 1, RTOL)


@pytest.mark.parametrize(
    ("sizes", "missing", "small"), [((7, 5), 0.0, False), ((6, 4, 3), 0.3, False), ((5, 3, 2, 3), 0.0, True)]
)
def test_equals_the_sum_over_all_layers(sizes, missing, small, monkeypatch):
    """Up to three hidden layers, one block and many; holes, a row without inputs, weights, and padding of no weight.

    Where there is a hole, or a row has no weight, the values may be anything.
    """
    if small:
        monkeypatch.setattr(enumeration, "BLOCK", 1)
        monkeypatch.setattr(enumeration, "FEWEST", 2)
        monkeypatch.setattr(enumeration, "ROWS", 4)
    network = twin.some_network(sizes)
    x, _ = twin.draw(network, 6, missing=missing)
    weight = np.array([1, 2.5, 1, 0.5, 1, 1])
    if missing:
        x[4] = np.nan
    values = np.concatenate([np.nan_to_num(x, nan=1.0), [np.full(sizes[0], 255.0), np.full(sizes[0], np.nan)]])
    observed = np.concatenate([~np.isnan(x), np.ones((2, sizes[0]))]) if missing else None
    for coldness in (1.0, 0.4):
        with double():
            found = everything(twin.as_params(network), values, observed, np.append(weight, [0.0, 0.0]), coldness)
        compare(jax.tree.map(np.asarray, found), network, x, weight, coldness)


def test_float32_keeps_its_digits_where_causes_are_strong_and_the_leak_is_small():
    """Weights of 9, twelve of them on one input, and a leak of 0.001: rows that almost no state explains."""
    rng = np.random.default_rng(0)
    network = twin.Network(
        [9.0 * (rng.random((10, 40)) < 0.3), 9.0 * (rng.random((2, 10)) < 0.5)],
        [np.full(40, 1e-3), np.full(10, 1e-3), np.full(2, 0.5)],
    )
    x = (rng.random((50, 40)) < 0.5).astype(float)

    @jax.jit
    def evaluate(params, x):
        return enumeration.expected_statistics(params, enumeration.log_prior(params), x, None, jnp.ones_like(x[:, 0]))

    def run(dtype):
        with rows_in(np.dtype(dtype)):
            statistics, value = evaluate(twin.as_params(network, dtype), jnp.asarray(x, dtype))
        assert value.dtype == dtype
        return [np.asarray(v) for v in [value, *jax.tree.leaves(statistics)]]

    for single, exact in zip(run(np.float32), run(np.float64), strict=True):
        np.testing.assert_allclose(single, exact, rtol=1e-4, atol=1e-4)
