"""Gibbs sampling of noisy-OR networks against the joint probability in float64, and against the generator.

Tests of random numbers have fixed seeds.  FALSE_ALARM is the probability with which one of them would fail for a seed
drawn at random if the code were right: all its comparisons together, by Bonferroni's inequality.
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import norm

from latentbits.core.states import all_states
from latentbits.core.tree import double
from latentbits.models.noisy_or import gibbs as engine
from latentbits.models.noisy_or.network import STRONGEST, Params, causal_input, log_joint, sample_layers

pytestmark = pytest.mark.optimised

FALSE_ALARM = 1e-4
SIZES = (16, 5, 3, 2)
EDGES = (0, 5, 8, 10)  # where hidden layers begin, one below the other
N = 20000

run, run_means, joint = map(jax.jit, (engine.gibbs, engine.gibbs_means, log_joint))
inputs_given = jax.jit(lambda params, states: causal_input(params, 0, states))
draw = jax.jit(jax.vmap(sample_layers, (None, 0)))


@pytest.fixture(autouse=True)
def in_double():
    with double():
        yield


def as_params(weights, biases):
    return Params(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)))


@pytest.fixture(scope="module")
def network():
    """Some weights are zero, as learning makes them."""
    rng = np.random.default_rng(2)
    weights = [rng.gamma(0.5, 1.5, (up, down)) * (rng.random((up, down)) < 0.8) for down, up in pairwise(SIZES)]
    with double():
        return as_params(weights, [rng.uniform(0.1, 0.5, size) for size in SIZES])


def layers(hidden):
    """All hidden units (units, rows), layer by layer."""
    return tuple(hidden[a:b] for a, b in pairwise(EDGES) if b <= len(hidden))


def some_rows():
    """Inputs, on and off, some of them missing; hidden states; a key per row."""
    rng = np.random.default_rng(0)
    x, observed = rng.random((SIZES[0], N)) < 0.5, rng.random((SIZES[0], N)) < 0.8
    on, off = (part.astype(float) for part in (x & observed, ~x & observed))
    return on, off, (rng.random((EDGES[-1], N)) < 0.4).astype(float), jax.random.split(jax.random.key(0), N)


def log_odds(params, on, off, hidden, unit, evidence=1.0):
    """Of one unit given the rest: from the joint probability, with a power of the inputs' part."""
    values = []
    for value in (1.0, 0.0):
        hidden = hidden.copy()
        hidden[unit] = value
        states = [s.T for s in layers(hidden)]
        whole, above = (np.asarray(joint(params, on.T, seen.T, states)) for seen in (on + off, 0 * on))
        values.append(evidence * (whole - above) + above)
    return values[0] - values[1]


@pytest.mark.parametrize("coldness", [1.0, 0.6])
def test_every_unit_is_drawn_from_its_conditional_probability(network, coldness):
    """Of the joint probability, with the units before it as they are now, some of them frozen."""
    on, off, hidden, keys = some_rows()
    frozen = np.random.default_rng(1).random(hidden.shape) < 0.3
    chances, after = map(
        np.concatenate,
        run_means(network, on, off, layers(hidden), keys, 0, 1, coldness=coldness, frozen=layers(frozen)),
    )
    now = hidden.copy()
    for unit in range(len(hidden)):
        p = np.where(frozen[unit], now[unit], expit(coldness * log_odds(network, on, off, now, unit)))
        np.testing.assert_allclose(chances[unit], p, rtol=1e-10)
        now[unit] = after[unit]
    np.testing.assert_array_equal(after[frozen], hidden[frozen])


@pytest.mark.slow
def test_a_power_of_the_evidence_is_one_of_the_inputs_alone(network):
    """In every row one unit is free; P(change) is what the sweep returns."""
    on, off, hidden, keys = some_rows()
    network = Params(network.weights[:2], network.biases[:3])
    hidden = hidden[: EDGES[2]]
    free = np.arange(N) % len(hidden)
    frozen = np.arange(len(hidden))[:, None] != free
    one_sweep = jax.jit(engine.sweep)
    for evidence in (0.0, 0.3):
        after, _, flip = one_sweep(network, on, off, layers(hidden), keys, evidence=evidence, frozen=layers(frozen))
        np.testing.assert_array_equal(np.concatenate(after)[frozen], hidden[frozen])
        for unit in range(len(hidden)):
            odds = log_odds(network, on, off, hidden, unit, evidence)
            change = expit(np.where(hidden[unit] > 0, -odds, odds))
            np.testing.assert_allclose(flip[free == unit], change[free == unit], rtol=1e-10)


@pytest.mark.parametrize("bias", [1e-4, 1e-3])
def test_single_precision_is_good_for_small_biases_and_strong_weights(bias):
    """No cause is on, so that products are smallest; or all are, and leave one after the other.

    The first cause is a weak one of one child.
    """
    rng = np.random.default_rng(0)
    weights = STRONGEST * rng.random((12, 50)) ** 3
    weights[0] = np.where(np.arange(50) == 0, 2 * bias, 0)
    params = as_params([weights], [np.full(50, bias), np.full(12, 0.1)])
    chosen = rng.random((100, 12)) < 0.2
    on = (rng.random((100, 50)) < -np.expm1(-(bias + chosen @ weights))).T.astype(float)
    on[:, :10] = 1
    keys = jax.random.split(jax.random.key(0), 100)
    for start, tolerance in ((0.0, 1e-7 / bias), (1.0, 5e-6 / bias)):  # errors of Q, beside 1 - Q
        now = np.full((12, 100), start)
        single = jax.tree.map(lambda a: np.asarray(a, "float32"), (params, on, 1 - on, (now,)))
        (chances,), (after,) = run_means(*single, keys, 0, 1)
        for unit, (p, new) in enumerate(zip(chances, after, strict=True)):
            values = []
            for value in (1.0, 0.0):
                now[unit] = value
                values.append(np.asarray(joint(params, on.T, None, [now.T])))
            np.testing.assert_allclose(p, expit(values[0] - values[1]), rtol=0, atol=tolerance)
            now[unit] = new


def moments(states):
    """All units and all their products in pairs; states are (rows, units)."""
    first, second = np.triu_indices(states.shape[1], 1)
    return np.concatenate([states, states[:, first] * states[:, second]], 1)


def z_limit(comparisons):
    return norm.isf(FALSE_ALARM / (2 * comparisons))


@pytest.mark.parametrize("coldness", [1.0, 0.5])
def test_chains_have_the_moments_of_the_exact_posterior(network, coldness):
    """Of two rows, one with missing inputs and two frozen units; of every chain one state counts, its last.

    Averages of a chain's probabilities are compared by the spread between chains, which are independent.
    """
    n_units, row = EDGES[-1], np.arange(N) % 2
    x = np.random.default_rng(4).random((SIZES[0], 2)) < 0.6
    observed = np.ones((SIZES[0], 2), bool)
    observed[2:6, 1] = False
    frozen = np.zeros((n_units, 2), bool)
    frozen[[1, 6], 1] = True
    on, off = (part.astype(float) for part in (x & observed, ~x & observed))
    start = np.where(frozen, 1.0, 0.0)
    keys = jax.random.split(jax.random.key(5), N)
    means, last = run_means(
        *(network, on[:, row], off[:, row], layers(start[:, row]), keys, 40, 10),
        coldness=coldness,
        frozen=layers(frozen[:, row]),
    )
    states = all_states(n_units).astype(float)
    comparisons = 2 * (moments(states).shape[1] + n_units)
    for k in range(2):
        inputs, seen = (np.broadcast_to(part[:, k], (len(states), SIZES[0])) for part in (on, on + off))
        log_p = coldness * np.asarray(joint(network, inputs, seen, [s.T for s in layers(states.T)]))
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

    begun, fresh = (draw(network, jax.random.split(jax.random.key(seed), N)) for seed in (1, 2))
    x, *states = (np.asarray(part).T for part in begun)
    free = tuple(np.zeros(s.shape, bool) for s in states)
    rng = np.random.default_rng(3)
    for turn in range(15):
        keys = jax.random.split(jax.random.key(10 + turn), N)
        _, states = run_means(network, x, 1 - x, tuple(states), keys, 0, 1, coldness=1.0, frozen=free)
        u = inputs_given(network, np.asarray(states[0]).T).T
        x = (rng.random(u.shape) < -np.expm1(-u)).astype(float)
    changed = [np.asarray(part).T for part in (x, *states)]
    one, two = (moments(np.concatenate(part, 1)) for part in (changed, fresh))
    error = np.sqrt((one.var(0) + two.var(0)) / N)
    assert np.all(np.abs(one.mean(0) - two.mean(0)) <= z_limit(one.shape[1]) * error)


STOP, MOST = 0.3, 100


@pytest.fixture(scope="module")
def settling():
    """A network whose causes are nearly certain: rows come to rest, after different numbers of sweeps."""
    with double():
        rng = np.random.default_rng(3)
        weights = 4.0 * (rng.random((7, 20)) < 0.3)
        params = as_params([weights], [np.full(20, 0.01), np.full(7, 0.02)])
        keys = jax.random.split(jax.random.key(0), 130)
        x = (rng.random((20, 130)) < 0.3).astype(float)
        return params, (x, 1 - x, ((engine._uniform(keys, 7, jnp.dtype(float)) < 0.5).astype(float),), keys)


@pytest.fixture(scope="module")
def rested(settling):
    with double():
        return run(settling[0], *settling[1], MOST, stop_below=STOP)


def test_a_row_rests_after_the_first_sweep_that_hardly_changes_it(settling, rested):
    assert rested.sweeps.max() < MOST
    records = [run(settling[0], *settling[1], k, stop_below=0.0) for k in range(1, int(rested.sweeps.max()) + 1)]
    flips = np.stack([record.flip for record in records])
    assert len(np.unique(rested.sweeps)) > 3
    np.testing.assert_array_equal(rested.sweeps, np.argmax(flips < STOP, 0) + 1)
    last = (np.asarray(rested.sweeps) - 1, np.arange(130))
    np.testing.assert_allclose(rested.flip, flips[last], rtol=1e-10)
    every = np.stack([record.states[0].T for record in records])
    np.testing.assert_array_equal(rested.states[0].T, every[last])
    again = run(settling[0], *settling[1], 10**9, stop_below=STOP)  # the loop ends, too
    np.testing.assert_array_equal(again.sweeps, rested.sweeps)


def test_a_row_has_the_same_chain_in_any_company(settling, rested, monkeypatch):
    """In another order, without some rows, and by two blocks that share a row."""
    monkeypatch.setattr(engine, "BLOCK", 64 * 20)
    chosen = np.random.default_rng(0).permutation(130)[:99]
    part = run(settling[0], *jax.tree.map(lambda a: a[..., chosen], settling[1]), MOST, stop_below=STOP)
    for ours, theirs in zip(jax.tree.leaves(part), jax.tree.leaves(rested), strict=True):
        np.testing.assert_allclose(ours, theirs[..., chosen], rtol=1e-10)


def test_float32_keeps_small_biases():
    """Two causes of a bit whose own bias is 1e-6: exp(-u) rounds to 1, and the odds of the causes must not."""
    weights, biases = np.array([[0.02, 2.0], [0.03, 0.0]]), [np.array([1e-6, 0.1]), np.array([1e-3, 1e-3])]
    single = Params((jnp.asarray(weights, jnp.float32),), tuple(jnp.asarray(b, jnp.float32) for b in biases))
    n = 4000
    on = jnp.broadcast_to(jnp.asarray([[1.0], [0.0]], jnp.float32), (2, n))
    states = (jnp.ones((2, n), jnp.float32),)
    keys = jax.random.split(jax.random.key(0), n)
    (means,), _ = run_means(single, on, 1 - on, states, keys, 20, 200)
    double_ = as_params([weights], biases)
    hidden = np.asarray(all_states(2), float)
    log_p = joint(double_, jnp.broadcast_to(jnp.asarray([1.0, 0.0]), (4, 2)), None, (jnp.asarray(hidden),))
    exact = softmax(np.asarray(log_p)) @ hidden
    np.testing.assert_allclose(np.asarray(means).mean(1), exact, atol=0.01)
