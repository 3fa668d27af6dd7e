"""The combination machine against brute force over all states of inputs and hidden units, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

from latentbits.core import lbfgs, tree
from latentbits.core.batch import Batch
from latentbits.core.model import Progress
from latentbits.core.states import all_states
from latentbits.models.combination_machine import ascent, draws, evidence
from latentbits.models.combination_machine.annealing import annealed_draws
from latentbits.models.combination_machine.bordered import bordered, machine_in
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.machine import (
    BINARY,
    REAL,
    UNITS,
    Machine,
    Params,
    energy,
    hidden_field,
    log_weight,
)
from latentbits.models.combination_machine.model import model
from latentbits.models.combination_machine.partition import exact_moments


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def random_machine(m=3, d=4, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return Machine(
        jnp.asarray(scale * rng.normal(size=(m, d))), jnp.asarray(rng.normal(size=m)), jnp.asarray(rng.normal(size=d))
    )


def known(machine):
    log_z = exact_moments(BINARY, machine)[0]
    zero = jnp.zeros(())
    return Params(machine.weights, machine.hidden_bias, machine.input_bias, log_z, zero, jnp.ones(()), zero)


def joint(machine):
    """log P(x, h) of every pair, by the energy alone."""
    m, d = machine.weights.shape
    x = 2.0 * all_states(d) - 1
    h = all_states(m).astype(float)
    minus_energy = -np.array(
        [[energy(BINARY, machine, jnp.asarray(a), jnp.asarray(b)) for b in h] for a in x], np.float64
    )
    return x, h, minus_energy - logsumexp(minus_energy)


def batch_of(x, observed=None):
    values = jnp.asarray((np.asarray(x) + 1) / 2)
    seen = None if observed is None else jnp.asarray(observed)
    values = values if seen is None else values * seen
    n = len(values)
    return Batch(values, seen, jnp.ones(n), jnp.arange(n, dtype=jnp.uint32), jax.random.key(0))


def test_energy_is_the_papers():
    """Equation 2.1 spelled out, and 2.5 with its square."""
    machine = random_machine()
    x, h = np.array([1.0, -1, 1, 1]), np.array([1.0, 0, 1])
    w, theta, b = (np.asarray(v) for v in (machine.weights, machine.hidden_bias, machine.input_bias))
    expected = -sum((w[i] @ x + theta[i]) * h[i] for i in range(3)) - b @ x
    assert np.isclose(energy(BINARY, machine, jnp.asarray(x), jnp.asarray(h)), expected, atol=1e-12)
    assert np.isclose(energy(REAL, machine, jnp.asarray(x), jnp.asarray(h)), expected + 0.5 * x @ x, atol=1e-12)


def test_probabilities_by_all_states():
    """Product form 2.4, posterior of h, decoding and log Z from the joint table."""
    machine = random_machine()
    x, h, log_joint = joint(machine)
    params = known(machine)
    record = model(3)
    rows = batch_of(x)
    shared = record.prepare(params, None, None)
    np.testing.assert_allclose(
        record.log_likelihood(params, shared, rows).value, logsumexp(log_joint, axis=1), atol=1e-10
    )
    posterior = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    np.testing.assert_allclose(record.infer(params, shared, rows).mean, posterior @ h, atol=1e-10)
    np.testing.assert_array_equal(record.infer(params, shared, rows).mode, h[np.argmax(posterior, axis=1)])
    given = np.exp(log_joint - logsumexp(log_joint, axis=0, keepdims=True))
    np.testing.assert_allclose(record.decode(params, jnp.asarray(h)), given.T @ (x > 0), atol=1e-10)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_gradient_is_that_of_the_likelihood(kind):
    """3.5, 3.6 (3.8, 3.9) against central differences of 3.1, at one part in 1e7."""
    units, machine = UNITS[kind], random_machine(seed=3, scale=0.5)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 4)) if kind == "real" else rng.choice([-1.0, 1.0], (20, 4))

    @jax.jit
    def mean_log_likelihood(machine):
        return jnp.mean(log_weight(units, machine, jnp.asarray(x))) - exact_moments(units, machine)[0]

    params = Params(*jax.tree.leaves(machine), jnp.zeros(()), jnp.zeros(()), jnp.ones(()), jnp.zeros(()))
    values = jnp.asarray(x if kind == "real" else (x + 1) / 2)
    rows = Batch(values, None, jnp.ones(20), jnp.arange(20, dtype=jnp.uint32), jax.random.key(0))
    log_z, moments = jax.jit(exact_moments, static_argnums=0)(units, machine)
    shared = ascent.Shared(log_z, bordered(moments, 1.0))
    stats, _ = jax.jit(ascent.e_step(units, 0.0))(params, shared, rows, None)
    found = ascent.gradient(shared, stats, ascent.Learned())
    flat, unflatten = ravel_pytree(machine)
    step = 1e-5
    numeric = [
        (mean_log_likelihood(unflatten(flat.at[i].add(step))) - mean_log_likelihood(unflatten(flat.at[i].add(-step))))
        / (2 * step)
        for i in range(len(flat))
    ]
    np.testing.assert_allclose(ravel_pytree(machine_in(found))[0], numeric, atol=1e-8)
    assert found[-1, -1] == 0
    assert np.isclose(ascent.objective(params, shared, stats), 20 * mean_log_likelihood(machine), atol=1e-9)


def test_rows_held_out_count_in_the_objective_alone():
    machine = random_machine()
    params = known(machine)
    x = np.random.default_rng(0).choice([-1.0, 1.0], (1000, 4))
    log_z, moments = exact_moments(BINARY, machine)
    shared = ascent.Shared(log_z, bordered(moments, 1.0))
    stats, _ = jax.jit(ascent.e_step(BINARY, 0.25))(params, shared, batch_of(x), None)
    out = np.asarray(ascent._is_held_out(jnp.arange(1000, dtype=jnp.uint32), ascent.held_below(0.25)))
    assert abs(out.mean() - 0.25) < 0.01
    every, _ = jax.jit(ascent.e_step(BINARY, 0.0))(params, shared, batch_of(x[~out]), None)
    np.testing.assert_allclose(stats.clamped, every.clamped, atol=1e-9)
    told = log_weight(BINARY, machine, jnp.asarray(x[out])) - shared.log_z
    assert np.isclose(ascent.objective(params, shared, stats), told.mean() * 1000, atol=1e-8)


def test_a_climb_follows_the_gradient_of_the_penalised_likelihood():
    """In its own coordinates, by central differences; with the prior that the rows choose at this pass."""
    machine = random_machine(scale=0.5)
    x = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], (30, 4)))
    params, learned = known(machine), ascent.Learned()
    log_z, moments = exact_moments(BINARY, machine)
    shared = ascent.Shared(log_z, bordered(moments, 1.0))
    stats, _ = ascent.e_step(BINARY, 0.0)(params, shared, batch_of(x), None)
    at = Progress(jnp.asarray(0), jnp.asarray(9), jnp.asarray(0), jax.random.key(0))
    for prior in (Prior.of(0.5), Prior.of("auto")):
        state, after = jax.jit(ascent._climb(BINARY, learned))(prior, ascent._foot(params), params, shared, stats, at)
        alpha = after.precision
        assert (alpha == 4.0) == (prior.chosen == 0)

        @jax.jit
        def value(point, coordinates=state.coordinates, alpha=alpha):
            one = machine_in(coordinates.machine(point.reshape(4, 5)))
            penalty = 0.5 * alpha * jnp.sum(one.weights**2) / len(x)
            return jnp.mean(log_weight(BINARY, one, x)) - exact_moments(BINARY, one)[0] - penalty

        point, step = state.optimiser.point, 1e-5
        assert np.isclose(value(point), state.optimiser.value, atol=1e-12)
        numeric = [(value(point.at[i].add(step)) - value(point.at[i].add(-step))) / (2 * step) for i in range(19)]
        np.testing.assert_allclose(state.optimiser.gradient[:19], numeric, atol=1e-8)


def test_the_prior_that_is_chosen_has_the_most_evidence():
    rng = np.random.default_rng(0)
    known, weights, prior = (
        jnp.asarray(rng.uniform(5, 50, (3, 4))),
        jnp.asarray(0.5 * rng.normal(size=(3, 4))),
        Prior.of("auto"),
    )
    alpha = jnp.asarray(1.0)
    for _ in range(100):
        alpha = evidence.precision(prior, alpha, weights, known)
    best = evidence.lost(prior, alpha, weights, known)
    assert 1 / 9 < alpha < 400
    for factor in (0.9, 1.1):
        assert evidence.lost(prior, factor * alpha, weights, known) > best
    assert evidence.precision(Prior.of(None), alpha, weights, known) == 0
    assert np.isclose(evidence.lost(Prior.of(0.5), alpha, weights, known), 2 * jnp.sum(weights**2))


def test_another_penalty_is_as_if_it_had_been_there_all_along():
    """L-BFGS on a quadratic, whose penalty is changed under way: the next steps are those of the new one."""
    bend = jnp.asarray([1.0, 3.0, 10.0])

    def walk(state, x, more, n):
        for _ in range(n):
            state, x = lbfgs.advance(state, x, -0.5 * x @ ((bend + more) * x) + x.sum(), 1 - (bend + more) * x)
        return state, x

    state = walk(lbfgs.start(jnp.zeros(3)), jnp.zeros(3), 0.0, 4)[0]
    changed = lbfgs.penalised(state, jnp.asarray(2.0), lambda x: x)
    here = state.point
    assert np.isclose(changed.value, -0.5 * here @ ((bend + 2) * here) + here.sum(), atol=1e-12)
    np.testing.assert_allclose(changed.gradient, 1 - (bend + 2) * here, atol=1e-12)
    np.testing.assert_allclose(changed.falls, (bend + 2) * changed.points, atol=1e-12)
    np.testing.assert_allclose(walk(changed, here, 2.0, 25)[0].point, 1 / (bend + 2), atol=1e-6)


@pytest.mark.parametrize(("m", "d"), [(3, 4), (4, 3), (1, 2)])
def test_ancestral_draws_have_the_exact_distribution(m, d):
    """Frequencies of all rows, by hidden states and, where the inputs are fewer, by theirs."""
    machine = random_machine(m, d)
    keys = jax.random.split(jax.random.key(1), 40_000)
    drawn = np.asarray(jax.jit(lambda k: draws.ancestral(BINARY, machine, k))(keys))
    rows = 2.0 * all_states(d) - 1
    expected = np.exp(np.asarray(log_weight(BINARY, machine, jnp.asarray(rows)) - exact_moments(BINARY, machine)[0]))
    found = (drawn[:, None, :] == rows).all(2).mean(0)
    error = np.sqrt(expected * (1 - expected) / len(drawn))
    assert np.all(np.abs(found - expected) < 4.5 * error)


@pytest.mark.slow
def test_draws_of_real_inputs_and_of_chains():
    """Means and covariances against the mixture of Gaussians at w(h) (section 2.3)."""
    machine = random_machine(3, 2, scale=0.8)
    moments = exact_moments(REAL, machine)[1]
    keys = jax.random.split(jax.random.key(2), 5_000)
    for drawn in (draws.ancestral(REAL, machine, keys), annealed_draws(REAL, machine, keys, 8, 30, 5)):
        spread = np.asarray(drawn).std(0) / np.sqrt(len(keys))
        assert np.all(np.abs(np.asarray(drawn).mean(0) - moments.input_bias) < 4.5 * spread)
        products = np.asarray(jax.nn.sigmoid(hidden_field(machine, drawn)))[:, :, None] * np.asarray(drawn)[:, None]
        error = products.std(0) / np.sqrt(len(keys))
        assert np.all(np.abs(products.mean(0) - moments.weights) < 4.5 * error)


def test_lbfgs_climbs_a_crooked_hill():
    """Rosenbrock's valley upside down, one value and gradient a step, as the loop gives them."""

    def hill(x):
        return -jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    climb = jax.jit(lambda state, x: lbfgs.advance(state, x, *jax.value_and_grad(hill)(x)))
    x = jnp.asarray([-1.2, 1.0, -0.5, 0.8])
    state = lbfgs.start(x)
    for _ in range(150):
        state, x = climb(state, x)
    np.testing.assert_allclose(state.point, 1.0, atol=1e-5)
    assert np.isclose(state.value, 0.0, atol=1e-9)


def recursion(points, falls, gradient):
    """Nocedal & Wright (2006), algorithm 7.4, for the pairs that there are."""
    pairs = [(s, y) for s, y in zip(points, falls) if s @ y > 0]
    q, shares = gradient.copy(), []
    for s, y in reversed(pairs):
        shares.append(s @ q / (s @ y))
        q -= shares[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for (s, y), share in zip(pairs, reversed(shares)):
        q += s * (share - y @ q / (s @ y))
    return q


@pytest.mark.parametrize("n_pairs", [1, 3, 5])
def test_direction_is_that_of_the_recursion(n_pairs):
    """In its compact form, also while the memory is not full."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    points = np.zeros((5, 8))
    points[-n_pairs:] = rng.normal(size=(n_pairs, 8))
    falls, gradient = points @ (root @ root.T + np.eye(8)), rng.normal(size=8)
    found = lbfgs._direction(*map(jnp.asarray, (points, falls, gradient)))
    np.testing.assert_allclose(found, recursion(points, falls, gradient), rtol=1e-9, atol=1e-12)


def test_first_direction_is_the_gradient_and_no_longer_than_1():
    nothing = jnp.zeros((3, 2))
    np.testing.assert_allclose(lbfgs._direction(nothing, nothing, jnp.asarray([3.0, 4.0])), [0.6, 0.8], rtol=1e-12)
    np.testing.assert_allclose(lbfgs._direction(nothing, nothing, jnp.asarray([0.3, 0.4])), [0.3, 0.4], rtol=1e-12)
