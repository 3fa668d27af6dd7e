"""Sums over all hidden states, layer by layer, against sums over the states of all layers together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_twin as twin
import numpy as np
import pytest

from latentbits.core.tree import double, rows_in
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.network import Params

COLDNESS = 0.4
RTOL, ATOL = 1e-9, 1e-12


def as_params(network, dtype=np.float64):
    return Params(
        tuple(jnp.asarray(w, dtype) for w in network.weights), tuple(jnp.asarray(b, dtype) for b in network.biases)
    )


def split(x, dtype=np.float64):
    return jnp.asarray(np.nan_to_num(x), dtype), jnp.asarray(~np.isnan(x), dtype)


def everything(params, x, observed, weight):
    """All of the module at once, so that it is compiled once."""
    prior = enumeration.log_prior(params)
    args = params, prior, x, observed
    return (
        enumeration.log_evidence(*args),
        enumeration.posterior_means(*args),
        enumeration.completion(*args),
        enumeration.expected_statistics(*args, weight),
        enumeration.expected_statistics(*args, weight, COLDNESS),
        prior,
    )


def compare(found, network, x, weight):
    value, means, complete, (statistics, same), (tempered, free), _ = found
    np.testing.assert_allclose(value, twin.log_evidence(network, x), RTOL, ATOL)
    np.testing.assert_allclose(same, value, RTOL, ATOL)
    np.testing.assert_allclose(free, [twin.posterior(network, row, COLDNESS)[1] for row in x], RTOL, ATOL)
    np.testing.assert_allclose(complete, twin.completion(network, x), RTOL, ATOL)
    for got, exact in zip(means, twin.posterior_means(network, x), strict=True):
        np.testing.assert_allclose(got, exact, RTOL, ATOL)
    for got, coldness in [(statistics, 1.0), (tempered, COLDNESS)]:
        exact = twin.expected_statistics(network, x, weight, coldness)
        for name in exact._fields:
            for a, b in zip(getattr(got, name), getattr(exact, name), strict=True):
                np.testing.assert_allclose(a, b, RTOL, ATOL, err_msg=name)


@pytest.mark.parametrize(
    ("sizes", "missing", "small"),
    [((7, 5), 0.0, False), ((6, 4, 3), 0.3, False), ((5, 3, 2, 3), 0.3, True), ((6, 4, 2), 0.0, True)],
)
def test_equals_the_sum_over_all_layers(sizes, missing, small, monkeypatch):
    """Up to three hidden layers, holes, a row without any input, weights that are not 0 or 1; one block and many."""
    if small:
        monkeypatch.setattr(enumeration, "BLOCK", 1)
        monkeypatch.setattr(enumeration, "FEWEST", 2)
        monkeypatch.setattr(enumeration, "ROWS", 4)
    network = twin.some_network(sizes)
    x, _ = twin.draw(network, 6, missing=missing)
    weight = np.array([1, 2.5, 1, 0.5, 1, 1])
    if missing:
        x[4] = np.nan
    with double():
        values, observed = split(x)
        found = jax.jit(everything)(as_params(network), values, observed if missing else None, jnp.asarray(weight))
        compare(found, network, x, weight)


def test_rows_of_weight_zero_may_hold_anything():
    network = twin.some_network((6, 4, 3))
    x, _ = twin.draw(network, 3)
    step = jax.jit(enumeration.expected_statistics)
    with double():
        params = as_params(network)
        prior = enumeration.log_prior(params)
        alone, value = step(params, prior, jnp.asarray(x), None, jnp.ones(3))
        padded = jnp.concatenate([jnp.asarray(x), jnp.full((2, 6), jnp.nan), jnp.full((2, 6), 255.0)])
        both, longer = step(params, prior, padded, None, jnp.asarray([1.0] * 3 + [0.0] * 4))
    for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(both), strict=True):
        np.testing.assert_allclose(b, a, RTOL, ATOL)
    np.testing.assert_allclose(longer[:3], value, RTOL, ATOL)


def test_prior_and_evidence_sum_to_one():
    """Over all states of each hidden layer, and over all inputs."""
    network = twin.some_network((6, 5, 3))
    rows = enumeration.state_block(jnp.asarray(0), 64, 6)
    with double():
        params = as_params(network)
        prior = enumeration.log_prior(params)
        value = enumeration.log_evidence(params, prior, rows.astype(float), None)
    assert [len(p) for p in prior] == [32, 8]
    for logs in (*prior, value):
        np.testing.assert_allclose(np.exp(logs).sum(), 1, RTOL, ATOL)


def test_float32_keeps_its_digits_where_causes_are_strong_and_the_leak_is_small():
    """Weights of 9, twelve of them on one input, and a leak of 0.001: rows that almost no state explains."""
    rng = np.random.default_rng(0)
    network = twin.Network(
        [9.0 * (rng.random((10, 40)) < 0.3), 9.0 * (rng.random((2, 10)) < 0.5)],
        [np.full(40, 1e-3), np.full(10, 1e-3), np.full(2, 0.5)],
    )
    x = (rng.random((50, 40)) < 0.5).astype(float)

    def run(dtype):
        with rows_in(np.dtype(dtype)):
            params = as_params(network, dtype)
            prior = enumeration.log_prior(params)
            statistics, value = enumeration.expected_statistics(
                params, prior, jnp.asarray(x, dtype), None, jnp.ones(50, dtype)
            )
            assert value.dtype == dtype
            return [np.asarray(v) for v in [value, *jax.tree.leaves(statistics)]]

    for single, exact in zip(run(np.float32), run(np.float64), strict=True):
        np.testing.assert_allclose(single, exact, rtol=1e-4, atol=1e-4)
