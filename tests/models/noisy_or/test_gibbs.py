"""Gibbs sampling of noisy-OR networks against the joint probability in float64, and against the generator.

Tests of random numbers have fixed seeds.  FALSE_ALARM is the probability with which one of them would fail for a seed
drawn at random if the code were right: all its comparisons together, by Bonferroni's inequality.
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import norm

from latentbits.core.tree import double
from latentbits.models.noisy_or import equations, tuning
from latentbits.models.noisy_or import gibbs as engine
from latentbits.models.noisy_or.network import sample_layers

FALSE_ALARM = 1e-4
SIZES = (9, 4, 3, 2)
EDGES = (0, 4, 7, 9)  # where hidden layers begin, one below the other
N = 4000

run, run_means, one_sweep = map(jax.jit, (engine.gibbs, engine.gibbs_means, engine.sweep))
draw = jax.jit(jax.vmap(sample_layers, (None, 0)))


@pytest.fixture(autouse=True)
def in_double():
    with double():
        yield


@pytest.fixture(scope="module")
def network():
    """Some weights are zero, as learning makes them."""
    rng = np.random.default_rng(2)
    weights = [rng.gamma(0.5, 1.5, (up, down)) * (rng.random((up, down)) < 0.8) for down, up in pairwise(SIZES)]
    return equations.Network(weights, [rng.uniform(0.1, 0.5, size) for size in SIZES])


def layers(hidden):
    """Split all hidden units (units, rows) into layers."""
    return tuple(hidden[a:b] for a, b in pairwise(EDGES))


def log_odds(network, x, hidden, unit, evidence=1.0):
    """Of one unit given the rest: from the joint probability, with a power of the inputs' part."""
    values = []
    for value in (1.0, 0.0):
        hidden = hidden.copy()
        hidden[unit] = value
        states = [s.T for s in layers(hidden)]
        whole, above = (equations.log_joint(network, inputs, states) for inputs in (x.T, np.full_like(x.T, np.nan)))
        values.append(evidence * (whole - above) + above)
    return values[0] - values[1]


def test_every_unit_is_drawn_from_its_conditional_probability(network):
    """Of the joint probability, with the units before it as they are now, some of them frozen; cold or not.

    A power of the evidence is one of the inputs alone.
    """
    rng, n = np.random.default_rng(0), 300
    x = (rng.random((SIZES[0], n)) < 0.5).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    hidden = (rng.random((EDGES[-1], n)) < 0.4).astype(float)
    frozen = rng.random(hidden.shape) < 0.3
    keys = jax.random.split(jax.random.key(0), n)
    given = examples.as_params(network), (x == 1) * 1.0, (x == 0) * 1.0, layers(hidden), keys
    for coldness, evidence in ((1.0, 1.0), (0.6, 1.0), (1.0, 0.3), (1.0, 0.0)):
        after, chances, flip = one_sweep(*given, evidence=evidence, coldness=coldness, frozen=layers(frozen))
        after, chances, now = np.concatenate(after), np.concatenate(chances), hidden.copy()
        for unit in range(len(hidden)):
            p = np.where(frozen[unit], now[unit], expit(coldness * log_odds(network, x, now, unit, evidence)))
            np.testing.assert_allclose(chances[unit], p, rtol=1e-10)
            now[unit] = after[unit]
        np.testing.assert_array_equal(after[frozen], hidden[frozen])
        np.testing.assert_allclose(flip, np.abs(chances - hidden).max(0))


def test_single_precision_is_good_for_small_biases_and_strong_weights():
    """No cause is on, so that products are smallest; or all are, and leave one after the other.

    The first cause is a weak one of one child.
    """
    rng, bias = np.random.default_rng(0), 1e-4
    weights = tuning.STRONGEST_WEIGHT * rng.random((12, 50)) ** 3
    weights[0] = np.where(np.arange(50) == 0, 2 * bias, 0)
    network = equations.Network([weights], [np.full(50, bias), np.full(12, 0.1)])
    chosen = rng.random((100, 12)) < 0.2
    on = (rng.random((100, 50)) < -np.expm1(-(bias + chosen @ weights))).T.astype(float)
    on[:, :10] = 1
    keys = jax.random.split(jax.random.key(0), 100)
    for start, tolerance in ((0.0, 1e-7 / bias), (1.0, 5e-6 / bias)):  # errors of Q, beside 1 - Q
        now = np.full((12, 100), start)
        rows = (a.astype(np.float32) for a in (on, 1 - on))
        (after,), (chances,), _ = one_sweep(
            examples.as_params(network, np.float32), *rows, (now.astype(np.float32),), keys
        )
        for unit, (p, new) in enumerate(zip(chances, after, strict=True)):
            values = []
            for value in (1.0, 0.0):
                now[unit] = value
                values.append(equations.log_joint(network, on.T, [now.T]))
            np.testing.assert_allclose(p, expit(values[0] - values[1]), rtol=0, atol=tolerance)
            now[unit] = new


def moments(states):
    """All units and all their products in pairs; states are (rows, units)."""
    first, second = np.triu_indices(states.shape[1], 1)
    return np.concatenate([states, states[:, first] * states[:, second]], 1)


def z_limit(comparisons):
    return norm.isf(FALSE_ALARM / (2 * comparisons))


def test_chains_have_the_moments_of_the_exact_posterior(network):
    """Of two rows, one with missing inputs and two frozen units; of every chain one state counts, its last.

    Averages of a chain's probabilities are compared by the spread between chains, which are independent.
    """
    n_units, row, coldness = EDGES[-1], np.arange(N) % 2, 0.7
    x = (np.random.default_rng(4).random((SIZES[0], 2)) < 0.6).astype(float)
    x[2:5, 1] = np.nan
    frozen = np.zeros((n_units, 2), bool)
    frozen[[1, 6], 1] = True
    start = np.where(frozen, 1.0, 0.0)
    on, off = ((x == value)[:, row] * 1.0 for value in (1, 0))
    means, last = run_means(
        *(examples.as_params(network), on, off, layers(start[:, row]), jax.random.split(jax.random.key(5), N), 30, 10),
        coldness=coldness,
        frozen=layers(frozen[:, row]),
    )
    hidden = equations.all_hidden(network)
    states = np.concatenate(hidden, 1)
    comparisons = 2 * (moments(states).shape[1] + n_units)
    for k in range(2):
        log_p = coldness * equations.log_joint(network, x[:, k], hidden)
        p = softmax(np.where(states[:, frozen[:, k]].all(1), log_p, -np.inf))
        exact = np.clip(p @ moments(states), 0, 1)
        error = np.sqrt(exact * (1 - exact) / (N / 2))
        found = moments(np.concatenate(last).T[row == k]).mean(0)
        assert np.all(np.abs(found - exact) <= z_limit(comparisons) * error + 1e-12)
        averages = np.concatenate(means).T[row == k]
        spread = averages.std(0, ddof=1) / np.sqrt(N / 2)
        assert np.all(np.abs(averages.mean(0) - exact[:n_units]) <= z_limit(comparisons) * spread + 1e-12)
        assert np.all(spread <= error[:n_units])


def test_sampler_and_generator_agree_on_the_joint_distribution(network):
    """Geweke's (2004) test.

    States and inputs drawn from the top down, against others that were drawn so and then changed in turn: the states
    given the inputs, by a sweep, and the inputs given the states.  Chains are independent, and each counts once.
    """
    params = examples.as_params(network)
    begun, fresh = (draw(params, jax.random.split(jax.random.key(seed), N)) for seed in (1, 2))
    x, *states = (np.asarray(part).T for part in begun)
    free = tuple(np.zeros(s.shape, bool) for s in states)
    rng = np.random.default_rng(3)
    for turn in range(10):
        keys = jax.random.split(jax.random.key(10 + turn), N)
        _, states = run_means(params, x, 1 - x, tuple(states), keys, 0, 1, coldness=1.0, frozen=free)
        u = equations.causal_input(network, 0, [np.asarray(states[0]).T]).T
        x = (rng.random(u.shape) < -np.expm1(-u)).astype(float)
    changed = [np.asarray(part).T for part in (x, *states)]
    one, two = (moments(np.concatenate(part, 1)) for part in (changed, fresh))
    error = np.sqrt((one.var(0) + two.var(0)) / N)
    assert np.all(np.abs(one.mean(0) - two.mean(0)) <= z_limit(one.shape[1]) * error)


def test_rows_rest_after_the_first_sweep_that_hardly_changes_them(monkeypatch):
    """Of a network whose causes are nearly certain, after different numbers of sweeps; and in any company the same.

    The company is another order, without some rows, and two blocks that share a row.
    """
    stop, most, n = 0.3, 100, 130
    rng = np.random.default_rng(3)
    weights = 4.0 * (rng.random((7, 20)) < 0.3)
    params = examples.as_params(equations.Network([weights], [np.full(20, 0.01), np.full(7, 0.02)]))
    keys = jax.random.split(jax.random.key(0), n)
    x = (rng.random((20, n)) < 0.3).astype(float)
    states = np.asarray(jax.jit(engine._uniform, static_argnums=(1, 2))(keys, 7, np.dtype(float)) < 0.5, float)
    rested = run(params, x, 1 - x, (states,), keys, most, stop_below=stop)
    sweeps = np.asarray(rested.sweeps)
    assert sweeps.max() < most
    assert len(np.unique(sweeps)) > 3
    records = [run(params, x, 1 - x, (states,), keys, k, stop_below=0.0) for k in range(1, sweeps.max() + 1)]
    flips = np.stack([record.flip for record in records])
    np.testing.assert_array_equal(sweeps, np.argmax(flips < stop, 0) + 1)
    last = (sweeps - 1, np.arange(n))
    np.testing.assert_allclose(rested.flip, flips[last], rtol=1e-10)
    every = np.stack([np.asarray(record.states[0]).T for record in records])
    np.testing.assert_array_equal(np.asarray(rested.states[0]).T, every[last])
    again = run(params, x, 1 - x, (states,), keys, 10**9, stop_below=stop)  # the loop ends, too
    np.testing.assert_array_equal(again.sweeps, sweeps)

    monkeypatch.setattr(tuning, "GIBBS_CELLS_PER_BLOCK", 64 * 20)
    chosen = rng.permutation(n)[:99]
    some = (a[:, chosen] for a in (x, 1 - x))
    part = run(params, *some, (states[:, chosen],), keys[chosen], most, stop_below=stop)
    for ours, theirs in zip(jax.tree.leaves(part), jax.tree.leaves(rested), strict=True):
        np.testing.assert_allclose(ours, np.asarray(theirs)[..., chosen], rtol=1e-10)


@pytest.mark.slow("another program, in single precision")
def test_float32_keeps_small_biases():
    """Two causes of a bit whose own bias is 1e-6: exp(-u) rounds to 1, and the odds of the causes must not."""
    network = equations.Network([np.array([[0.02, 2.0], [0.03, 0.0]])], [np.array([1e-6, 0.1]), np.array([1e-3, 1e-3])])
    n = 1000
    on = jnp.asarray(np.tile([[1.0], [0.0]], n), "f")
    states = (jnp.asarray(np.ones((2, n)), "f"),)
    keys = jax.random.split(jax.random.key(0), n)
    (means,), _ = run_means(examples.as_params(network, np.float32), on, 1 - on, states, keys, 20, 200)
    exact = examples.posterior_means(network, np.array([[1.0, 0.0]]))[0][0]
    np.testing.assert_allclose(np.asarray(means).mean(1), exact, atol=0.01)
