"""Annealed importance sampling of log Z, free and clamped, against sums over all states."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from machine_sums import single_base, some_machine, sums
from sklearn.datasets import load_digits

from latentbits.core.tree import cast, double
from latentbits.models.combination_machine.annealing import _add as add
from latentbits.models.combination_machine.annealing import annealed_log_partition, annealed_log_sum
from latentbits.models.combination_machine.bases import Base, fit_base
from latentbits.models.combination_machine.machine import BINARY, UNITS, Machine, input_field, log_weight

N_HIDDEN = 16
estimate = jax.jit(annealed_log_partition, static_argnums=(0, 4, 5))

pytestmark = pytest.mark.optimised


def states(n):
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float32)


def log_partition(machine):
    """Equation 2.2 in float64."""
    w, theta, b = (np.asarray(v, float) for v in jax.tree.leaves(machine))
    parts = []
    for h in np.split(states(N_HIDDEN), 16):
        a = h @ w + b
        parts.append(np.logaddexp.reduce(h @ theta + np.logaddexp(a, -a).sum(1)))
    return np.logaddexp.reduce(parts)


@jax.jit
def learn(machine, x):
    """Adam with the exact gradient."""
    h = jnp.asarray(states(N_HIDDEN).reshape(-1, 4096, N_HIDDEN))
    optimiser = optax.adam(optax.cosine_decay_schedule(0.08, 80))

    def loss(machine):
        @jax.checkpoint
        def block(h):
            return jax.nn.logsumexp(h @ machine.hidden_bias + BINARY.log_sum(input_field(machine, h)).sum(1))

        return jax.nn.logsumexp(jax.lax.map(block, h)) - log_weight(BINARY, machine, x).mean()

    def step(_, state):
        machine, state = state
        change, state = optimiser.update(jax.grad(loss)(machine), state)
        return optax.apply_updates(machine, change), state

    return jax.lax.fori_loop(0, 80, step, (machine, optimiser.init(machine)))[0]


def trained(x):
    """A machine with 16 units, from random rows."""
    rng = np.random.default_rng(0)
    mean = x.mean(0)
    weights = 0.3 * (x[rng.choice(len(x), N_HIDDEN)] - mean) + 0.1 * rng.normal(size=(N_HIDDEN, x.shape[1]))
    start = weights, np.full(N_HIDDEN, -1.0), np.arctanh(mean * 0.99)
    return learn(Machine(*(jnp.asarray(v, "f") for v in start)), jnp.asarray(x, "f"))


def digits():
    return np.where(load_digits().data[:800, ::2] > 7, 1.0, -1.0)


def prototypes():
    """Twelve rows far apart, 2 % of their bits flipped: modes that no chain leaves."""
    rng = np.random.default_rng(3)
    rows = rng.choice([-1.0, 1.0], (12, 32))[rng.choice(12, 800, p=rng.dirichlet(np.full(12, 2.0)))]
    return rows * np.where(rng.random(rows.shape) < 0.02, -1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [digits, prototypes])
def test_within_three_errors_of_log_z_on_trained_machines(rows):
    machine = trained(rows())
    exact = log_partition(machine)
    results = [estimate(BINARY, machine, jax.random.key(seed), None, 400, 150) for seed in range(30)]
    z = np.array([(float(r.value) - exact) / float(r.error) for r in results])
    assert np.sum(np.abs(z) < 3) >= 28
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6, "the errors are the size that is claimed"
    assert np.mean([float(r.error) for r in results]) < 0.1
    assert min(float(r.effective) for r in results) > 0.1


@pytest.mark.slow
def test_a_mode_that_no_row_has_is_found():
    """Columns that are always -1 in the data, and count for little there, but together turn all units on."""
    rng = np.random.default_rng(2)
    weights = np.hstack([rng.normal(size=(N_HIDDEN, 22)) * 0.3, np.full((N_HIDDEN, 10), 0.7)])
    start = weights, np.full(N_HIDDEN, 4.0), np.concatenate([np.zeros(22), np.full(10, -8.0)])
    machine = Machine(*(jnp.asarray(v, "f") for v in start))
    exact = log_partition(machine)
    rows = np.hstack([rng.choice([-1.0, 1.0], (400, 22)), np.full((400, 10), -1.0)])
    base = fit_base(BINARY, jax.random.key(1), jnp.asarray(rows, "f"))
    near_rows = estimate(BINARY, machine, jax.random.key(0), base, 400, 150)
    assert float(near_rows.value) < exact - 20
    assert float(near_rows.effective) > 0.9, "and nothing tells"
    got = estimate(BINARY, machine, jax.random.key(0), None, 400, 150)
    assert abs(float(got.value) - exact) < 4 * float(got.error)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_any_base_gives_log_z(kind):
    """Also one that fits nothing: weights have mean Z whatever the chains begin at."""
    rng = np.random.default_rng(5)
    with double():
        machine = some_machine(3, 3, seed=2)
        exact = sums(kind, machine, np.zeros(3), np.zeros(3)).log_sum
        shares = jnp.log(jnp.asarray(rng.dirichlet(np.ones(3))))
        base = Base(shares, jnp.asarray(rng.normal(size=(3, 3))))
        got = estimate(UNITS[kind], machine, jax.random.key(1), base, 4000, 60)
    assert abs(float(got.value) - exact) < 4 * float(got.error)
    assert float(got.error) < 0.02


@pytest.mark.parametrize("kind", [pytest.param("binary", marks=pytest.mark.slow), "real"])
def test_sum_over_missing_inputs_of_each_row(kind):
    """Nothing missing, some, all; estimates are a row's own, whatever rows are beside it."""
    rng = np.random.default_rng(6)
    observed = np.array([[1, 1, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 1, 0]], float)
    x = rng.choice([-1.0, 1.0], observed.shape) if kind == "binary" else rng.normal(size=observed.shape)
    with double():
        machine = some_machine(3, 3, seed=2)
        exact = np.array([sums(kind, machine, x[i], observed[i]).log_sum for i in range(5)])
        base = fit_base(UNITS[kind], jax.random.key(7), jnp.asarray(rng.choice([-1.0, 1.0], (50, 3))), n_components=4)
        run = jax.jit(partial(annealed_log_sum, UNITS[kind], n_chains=2000, n_steps=40))
        keys = jax.random.split(jax.random.key(8), 5)
        got = run(machine, keys, jnp.asarray(np.where(observed > 0, x, np.nan)), jnp.asarray(observed), base)
        again = np.array([4, 1, 2, 0, 0])  # row 1 beside others
        other = run(machine, keys[again], jnp.asarray(x[again]), jnp.asarray(observed[again]), base)
    assert np.all(np.abs(np.asarray(got.value) - exact) < 4 * np.asarray(got.error) + 1e-9)
    assert float(got.error[0]) < 1e-3
    assert np.all(np.asarray(got.error) < 0.05)
    np.testing.assert_allclose(other.value[1], got.value[1], rtol=1e-12)


def test_error_of_a_row_is_that_of_its_estimate():
    """Few chains, in float64 against the sum: the root mean square of z-scores is 0.93."""
    seen, x = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, -1.0])
    with double():
        machine = some_machine(3, 3, seed=2)
        base = single_base(machine.input_bias)
        run = jax.jit(partial(annealed_log_sum, BINARY, n_chains=16, n_steps=40))
        keys = jax.random.split(jax.random.key(8), 500)
        found = run(machine, keys, *(jnp.tile(v, (500, 1)) for v in (x, seen)), base)
    z = (np.asarray(found.value) - sums("binary", machine, x, seen).log_sum) / np.asarray(found.error)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2


def test_float32_agrees_with_float64():
    """The same chains but for rounding: thousands of increments are added up with compensation."""
    with double():
        machine = some_machine(4, 6, seed=1, size=0.4)
        wide = estimate(BINARY, machine, jax.random.key(1), single_base(machine.input_bias), 200, 2000)
    single = cast(machine, np.dtype("float32"))
    narrow = estimate(BINARY, single, jax.random.key(1), single_base(single.input_bias), 200, 2000)
    assert narrow.value.dtype == np.float32
    assert abs(float(narrow.value) - float(wide.value)) < 4 * float(wide.error)

    @jax.jit
    def total(terms):
        zero = jnp.zeros(1, "f")
        return jax.lax.fori_loop(0, len(terms), lambda i, s: add(*s, terms[i][None]), (zero, zero))[0][0]

    terms = np.random.default_rng(0).normal(0.1, 0.05, 20000).astype("f")
    assert abs(float(total(jnp.asarray(terms))) - terms.astype(float).sum()) < 2e-4


def test_a_base_fitted_to_rows_has_their_modes():
    """Two far apart prototypes, one of them rare: both get a component, with their shares."""
    rng = np.random.default_rng(1)
    modes = rng.choice([-1.0, 1.0], (2, 20))
    x = modes[(np.arange(400) % 40 == 0).astype(int)]
    base = fit_base(BINARY, jax.random.key(0), jnp.asarray(x, "f"), n_components=4)
    nearest = np.argmax(np.asarray(base.fields) @ modes.T, axis=1)
    share = np.exp(np.asarray(base.log_share))
    assert share.sum() == pytest.approx(1, abs=1e-5)
    assert share[nearest == 1].sum() == pytest.approx(0.025, abs=0.02)
    assert np.all(np.isfinite(base.fields))
