"""Sums over all hidden states, layer by layer, against sums over the states of all layers together."""

from __future__ import annotations

import jax
import noisy_or_examples as examples
import numpy as np
import pytest

from latentbits.core.tree import double, rows_in
from latentbits.models.noisy_or import enumeration, equations, tuning

RTOL, ATOL = 1e-9, 1e-12


@jax.jit
def everything(params, x, observed, weight):
    """All of the module at once, so that it is compiled once."""
    prior = enumeration.log_prior(params)
    args = params, prior, x, observed
    return (
        enumeration.log_evidence(*args),
        enumeration.posterior_means(*args),
        enumeration.completion(*args),
        enumeration.expected_statistics(*args, weight),
        prior,
    )


def compare(found, network, x, weight):
    value, means, complete, (statistics, free), prior = found
    n = len(x)
    np.testing.assert_allclose(value[:n], equations.log_evidence(network, x), RTOL, ATOL)
    np.testing.assert_allclose(free[:n], equations.log_evidence(network, x), RTOL, ATOL)
    np.testing.assert_allclose(complete[:n], examples.completion(network, x), RTOL, ATOL)
    for got, exact in zip(means, examples.posterior_means(network, x), strict=True):
        np.testing.assert_allclose(got[:n], exact, RTOL, ATOL)
    expected = examples.expected_sums(network, x, weight)
    for name in expected._fields:
        for got, exact in zip(getattr(statistics, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(got, exact, RTOL, ATOL, err_msg=name)
    for layer, logs in zip(network.weights, prior, strict=True):
        assert len(logs) == 2 ** len(layer)
        np.testing.assert_allclose(np.exp(logs).sum(), 1, RTOL)


@pytest.mark.parametrize(("sizes", "missing", "small"), [((6, 4, 3), 0.3, False), ((5, 3, 2, 3), 0.0, True)])
def test_equals_the_sum_over_all_layers(sizes, missing, small, monkeypatch):
    """Up to three hidden layers, one block and many; holes, a row without inputs, weights, and padding of no weight.

    Where there is a hole, or a row has no weight, the values may be anything.
    """
    if small:
        monkeypatch.setattr(tuning, "STATE_CELLS_PER_BLOCK", 1)
        monkeypatch.setattr(tuning, "STATE_LEAST_PER_BLOCK", 2)
        monkeypatch.setattr(tuning, "STATE_ROWS_PER_BLOCK", 4)
    network = examples.some_network(sizes)
    x, _ = examples.draw(network, 6, missing=missing)
    weight = np.array([1, 2.5, 1, 0.5, 1, 1])
    if missing:
        x[4] = np.nan
    values = np.concatenate([np.nan_to_num(x, nan=1.0), [np.full(sizes[0], 255.0), np.full(sizes[0], np.nan)]])
    observed = np.concatenate([~np.isnan(x), np.ones((2, sizes[0]))]) if missing else None
    with double():
        found = everything(examples.as_params(network), values, observed, np.append(weight, [0.0, 0.0]))
    compare(jax.tree.map(np.asarray, found), network, x, weight)


def test_float32_keeps_its_digits_where_causes_are_strong_and_the_leak_is_small():
    """Weights of 9, several of them on one input, and a leak of 0.001: rows that almost no state explains."""
    rng = np.random.default_rng(0)
    network = equations.Network(
        [9.0 * (rng.random((6, 24)) < 0.4), 9.0 * (rng.random((2, 6)) < 0.5)],
        [np.full(24, 1e-3), np.full(6, 1e-3), np.full(2, 0.5)],
    )
    x = (rng.random((5, 24)) < 0.5).astype(np.float32)
    with rows_in(np.dtype(np.float32)):
        found = everything(examples.as_params(network, np.float32), x, None, np.ones(5, np.float32))
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(found[0], equations.log_evidence(network, x), 1e-5)
    expected = examples.expected_sums(network, x, np.ones(5))
    for got, exact in zip(jax.tree.leaves(found[3][0]), jax.tree.leaves(tuple(expected)), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_states_are_drawn_from_all_of_them():
    """Uniform numbers that are evenly spaced give each state as often as it is probable; chances are conditionals."""
    network = examples.some_network((6, 3))
    x, _ = examples.draw(network, 3, missing=0.3)
    n = 20_000
    seen = ~np.isnan(x)

    @jax.jit
    def draw(params, *rows):
        return enumeration.drawn_states(params, enumeration.log_prior(params), *rows)

    with double():
        params = examples.as_params(network)
        for on, known, mean in zip(
            np.where(seen, x, 0), seen * 1.0, examples.posterior_means(network, x)[0], strict=True
        ):
            states, chances = draw(params, np.tile(on, (n, 1)), np.tile(known, (n, 1)), (np.arange(n) + 0.5) / n)
            np.testing.assert_allclose(np.mean(states, 1), mean, atol=8 / n)  # each state is off by less than a draw
            np.testing.assert_allclose(np.mean(chances, 1), mean, atol=16 / n)
