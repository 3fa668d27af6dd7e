"""Annealed importance sampling of log Z, free and clamped, against sums over all states."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from machine_sums import moments_over, single_base, some_machine, sums, terms
from sklearn.datasets import load_digits

from latentbits.core.tree import cast, double
from latentbits.models.combination_machine import annealing
from latentbits.models.combination_machine.annealing import _add as add
from latentbits.models.combination_machine.annealing import (
    annealed_draws,
    annealed_log_partition,
    annealed_log_sum,
    annealed_means,
)
from latentbits.models.combination_machine.bases import Base, fit_base
from latentbits.models.combination_machine.machine import BINARY, UNITS, Machine, input_field, log_weight

N_HIDDEN, N_CHAINS = 13, 2000
estimate = jax.jit(annealed_log_partition, static_argnums=(0, 4, 5))


def test_any_base_gives_log_z():
    """Also one that fits nothing: weights have mean Z whatever the chains begin at."""
    rng = np.random.default_rng(5)
    with double():
        machine = some_machine(3, 3, seed=2)
        exact = sums("binary", machine).log_sum
        base = Base(jnp.asarray(np.log(rng.dirichlet(np.ones(3)))), jnp.asarray(rng.normal(size=(3, 3))))
        got = estimate(BINARY, machine, jax.random.key(1), base, 4000, 60)
    assert abs(float(got.value) - exact) < 4 * float(got.error)
    assert float(got.error) < 0.02


def test_sums_and_means_over_missing_inputs_of_each_row():
    """Nothing missing, some, all; estimates are a row's own, whatever rows are beside it."""
    rng = np.random.default_rng(6)
    observed = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]], float)
    x = rng.normal(size=observed.shape)
    with double():
        machine = some_machine(3, 3, seed=2)
        exact = [sums("real", machine, x[i], observed[i]) for i in range(5)]
        base = Base(jnp.asarray(np.log([0.6, 0.4])), jnp.asarray(rng.normal(size=(2, 3))))
        run = jax.jit(partial(annealed_means, UNITS["real"], n_chains=N_CHAINS, n_steps=40))
        keys = jax.random.split(jax.random.key(8), 5)
        got, hidden, inputs = run(
            machine, keys, jnp.asarray(np.where(observed > 0, x, np.nan)), jnp.asarray(observed), base
        )
        hidden, inputs = np.asarray(hidden), np.asarray(inputs)
        again = np.array([4, 1, 2, 0, 0])  # row 1 beside others
        other, *_ = run(machine, keys[again], jnp.asarray(x[again]), jnp.asarray(observed[again]), base)
    log_sum = np.array([one.log_sum for one in exact])
    assert np.all(np.abs(np.asarray(got.value) - log_sum) < 4 * np.asarray(got.error) + 1e-9)
    assert float(got.error[0]) < 1e-3
    assert np.all(np.asarray(got.error) < 0.05)
    np.testing.assert_allclose(other.value[1], got.value[1], rtol=1e-12)
    # a mean over so many chains at least, each of which has no more variance than E[x^2]
    for row, one in enumerate(exact):
        assert np.all(np.abs(hidden[row] - one.hidden) < 5 * 0.5 / np.sqrt(N_CHAINS))
        assert np.all(np.abs(inputs[row] - one.inputs) < 5 * np.sqrt(one.squares / N_CHAINS))
    np.testing.assert_array_equal(inputs[observed > 0], x[observed > 0])


@pytest.mark.slow("calibration of the errors of 500 rows")
def test_error_of_a_row_is_that_of_its_estimate():
    """Few chains, in float64 against the sum: the root mean square of z-scores is 0.93."""
    seen, x = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, -1.0])
    with double():
        machine = some_machine(3, 3, seed=2)
        run = jax.jit(partial(annealed_log_sum, BINARY, n_chains=16, n_steps=40))
        keys = jax.random.split(jax.random.key(8), 500)
        rows = (jnp.asarray(np.tile(v, (500, 1))) for v in (x, seen))
        found = run(machine, keys, *rows, single_base(machine.input_bias))
    z = (np.asarray(found.value) - sums("binary", machine, x, seen).log_sum) / np.asarray(found.error)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2


def test_thousands_of_increments_are_added_up_with_compensation():
    @jax.jit
    def total(terms):
        zero = jnp.zeros(1, "f")
        return jax.lax.fori_loop(0, len(terms), lambda i, s: add(*s, terms[i][None]), (zero, zero))[0][0]

    terms = np.random.default_rng(0).normal(0.1, 0.05, 20000).astype("f")
    assert abs(float(total(jnp.asarray(terms))) - terms.astype(float).sum()) < 2e-4


@pytest.mark.slow("one program for one use")
def test_draws_of_annealed_chains(monkeypatch):
    """Means of real inputs against the mixture of Gaussians at w(h) (section 2.3)."""
    monkeypatch.setattr(annealing, "pilot_base", lambda units, machine, key: single_base(machine.input_bias))
    with double():
        machine = some_machine(3, 2, size=0.8)
        keys = jax.random.split(jax.random.key(2), 2000)
        drawn = np.asarray(jax.jit(lambda *given: annealed_draws(UNITS["real"], *given, 8, 20, 5))(machine, keys))
    exact = moments_over(*terms("real", machine))[1]
    assert np.all(np.abs(drawn.mean(0) - exact[2]) < 4.5 * drawn.std(0) / np.sqrt(len(keys)))
    w, theta, _ = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    products = 1 / (1 + np.exp(-(drawn @ w.T + theta)))[:, :, None] * drawn[:, None]
    assert np.all(np.abs(products.mean(0) - exact[0]) < 4.5 * products.std(0) / np.sqrt(len(keys)))


def test_a_base_fitted_to_rows_has_their_modes():
    """Two far apart prototypes, one of them rare: both get a component, with their shares."""
    rng = np.random.default_rng(1)
    modes = rng.choice([-1.0, 1.0], (2, 20))
    x = modes[(np.arange(400) % 40 == 0).astype(int)]
    base = jax.jit(partial(fit_base, BINARY, n_components=4))(jax.random.key(0), jnp.asarray(x, "f"))
    nearest = np.argmax(np.asarray(base.fields) @ modes.T, axis=1)
    share = np.exp(np.asarray(base.log_share))
    assert share.sum() == pytest.approx(1, abs=1e-5)
    assert share[nearest == 1].sum() == pytest.approx(0.025, abs=0.02)
    assert np.all(np.isfinite(base.fields))


# ---------------------------------------------------------------- machines with modes


@jax.jit
def learn(machine, x, states):
    """Follow the exact gradient by Adam."""
    optimiser = optax.adam(optax.cosine_decay_schedule(0.08, 80))

    def loss(machine):
        @jax.checkpoint
        def block(h):
            return jax.nn.logsumexp(h @ machine.hidden_bias + BINARY.log_sum(input_field(machine, h)).sum(1))

        return jax.nn.logsumexp(jax.lax.map(block, states)) - log_weight(BINARY, machine, x).mean()

    def step(_, state):
        machine, state = state
        change, state = optimiser.update(jax.grad(loss)(machine), state)
        return optax.apply_updates(machine, change), state

    return jax.lax.fori_loop(0, 80, step, (machine, optimiser.init(machine)))[0]


def trained(x):
    """Learn a machine from random rows."""
    rng = np.random.default_rng(0)
    mean = x.mean(0)
    weights = 0.3 * (x[rng.choice(len(x), N_HIDDEN)] - mean) + 0.1 * rng.normal(size=(N_HIDDEN, x.shape[1]))
    start = weights, np.full(N_HIDDEN, -1.0), np.arctanh(mean * 0.99)
    states = ((np.arange(2**N_HIDDEN)[:, None] >> np.arange(N_HIDDEN)) & 1).reshape(-1, 4096, N_HIDDEN)
    return learn(Machine(*(jnp.asarray(v, "f") for v in start)), jnp.asarray(x, "f"), jnp.asarray(states, "f"))


def digits():
    return np.where(load_digits().data[:800, ::2] > 7, 1.0, -1.0)


def prototypes():
    """Draw twelve rows far apart, 2 % of their bits flipped: modes that no chain leaves."""
    rng = np.random.default_rng(3)
    rows = rng.choice([-1.0, 1.0], (12, 32))[rng.choice(12, 800, p=rng.dirichlet(np.full(12, 2.0)))]
    return rows * np.where(rng.random(rows.shape) < 0.02, -1, 1)


@pytest.mark.optimised
@pytest.mark.slow("calibration of errors over 16 runs on trained machines")
@pytest.mark.parametrize("rows", [digits, prototypes])
def test_within_three_errors_of_log_z_on_trained_machines(rows):
    machine = trained(rows())
    exact = moments_over(*terms("binary", machine))[0]
    results = [estimate(BINARY, machine, jax.random.key(seed), None, 400, 150) for seed in range(16)]
    z = np.array([(float(r.value) - exact) / float(r.error) for r in results])
    assert np.sum(np.abs(z) < 3) >= 15
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6, "the errors are the size that is claimed"
    assert np.mean([float(r.error) for r in results]) < 0.1
    assert min(float(r.effective) for r in results) > 0.1


@pytest.mark.slow("two estimates of log Z, one of which must fail")
def test_a_mode_that_no_row_has_is_found():
    """Columns that are always -1 in the data, and count for little there, but together turn all units on."""
    rng, n_hidden = np.random.default_rng(2), 10
    weights = np.hstack([rng.normal(size=(n_hidden, 12)) * 0.3, np.full((n_hidden, 10), 1.4)])
    start = weights, np.full(n_hidden, 4.0), np.concatenate([np.zeros(12), np.full(10, -8.0)])
    with double():
        machine = Machine(*map(jnp.asarray, start))
    exact = moments_over(*terms("binary", machine))[0]
    machine = cast(machine, np.dtype("float32"))
    rows = np.hstack([rng.choice([-1.0, 1.0], (400, 12)), np.full((400, 10), -1.0)])
    base = jax.jit(partial(fit_base, BINARY))(jax.random.key(1), jnp.asarray(rows, "f"))
    near_rows = estimate(BINARY, machine, jax.random.key(0), base, 400, 60)
    assert float(near_rows.value) < exact - 10
    assert float(near_rows.effective) > 0.9, "and nothing tells"
    got = estimate(BINARY, machine, jax.random.key(0), None, 400, 60)
    assert abs(float(got.value) - exact) < 4 * float(got.error)
