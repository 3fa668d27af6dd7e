"""What a combination machine says of rows against a table of all states of inputs and hidden units, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import arrays, moments_over, some_machine, terms

from latentbits.core import tree
from latentbits.core.batch import Batch
from latentbits.models.combination_machine import draws, equations, evidence
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Params, energy
from latentbits.models.combination_machine.model import model


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def test_probabilities_by_all_states():
    """Energy (2.1, 2.5), product form (2.4), posterior of h and decoding, from the joint table."""
    machine = some_machine(3, 4, size=1.0)
    w, theta, b = arrays(machine)
    x, h = equations.inputs(4), equations.states(3)
    minus_energy = -equations.energy(w, theta, x[:, None], h, b)
    log_z = np.logaddexp.reduce(minus_energy, axis=None)
    params = Params(*jax.tree.leaves(machine), *map(jnp.asarray, (log_z, 0.0, 1.0, 0.0)))
    record = model(3)

    @jax.jit
    def everything(params, x, h):
        n = len(x)
        numbers = jnp.arange(n, dtype=jnp.uint32)
        rows = Batch((x + 1) / 2, None, jnp.ones(n), numbers, jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32)))
        shared = record.prepare(params, None, None)
        found = record.log_likelihood(params, shared, rows).value, record.infer(params, shared, rows)
        pairs = x[:, None] + 0 * h[:, :1], h + 0 * x[:, None, :1]
        energies = [energy(units, params, *pairs) for units in (BINARY, REAL)]
        return *found, record.decode(params, h), energies

    value, posterior, decoded, energies = everything(params, jnp.asarray(x), jnp.asarray(h))
    np.testing.assert_allclose(energies[0], -minus_energy, atol=1e-12)
    np.testing.assert_allclose(energies[1], equations.real_energy(w, theta, x[:, None], h, b), atol=1e-12)
    log_joint = minus_energy - log_z
    of_rows = np.logaddexp.reduce(log_joint, axis=1)
    np.testing.assert_allclose(value, of_rows, atol=1e-10)
    given = np.exp(log_joint - of_rows[:, None])
    np.testing.assert_allclose(posterior.mean, given @ h, atol=1e-10)
    np.testing.assert_array_equal(posterior.mode, h[np.argmax(given, axis=1)])
    of_states = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=0))
    np.testing.assert_allclose(decoded, of_states.T @ (x > 0), atol=1e-10)


def test_the_prior_that_is_chosen_has_the_most_evidence():
    rng = np.random.default_rng(0)
    known, weights = jnp.asarray(rng.uniform(5, 50, (3, 4))), jnp.asarray(0.5 * rng.normal(size=(3, 4)))
    precision, lost = (
        jax.jit(lambda *args, f=f: f(Prior(*args[:2]), *args[2:])) for f in (evidence.precision, evidence.lost)
    )
    alpha = 1.0
    for _ in range(100):
        alpha = precision(*Prior.of("auto"), alpha, weights, known)
    alpha = float(alpha)
    assert 1 / 9 < alpha < 400
    best = lost(*Prior.of("auto"), alpha, weights, known)
    for factor in (0.9, 1.1):
        assert lost(*Prior.of("auto"), factor * alpha, weights, known) > best
    assert precision(*Prior.of(None), alpha, weights, known) == 0
    assert np.isclose(lost(*Prior.of(0.5), alpha, weights, known), 2 * np.sum(np.asarray(weights) ** 2))


@pytest.mark.parametrize(("m", "d"), [(3, 4), (4, 3)])
def test_ancestral_draws_have_the_exact_distribution(m, d):
    """Frequencies of all rows, by hidden states and, where the inputs are fewer, by theirs."""
    machine = some_machine(m, d, size=1.0)
    keys = jax.random.split(jax.random.key(1), 20_000)
    drawn = np.asarray(jax.jit(lambda *given: draws.ancestral(BINARY, *given))(machine, keys))
    rows = equations.inputs(d)
    w, theta, b = arrays(machine)
    expected = np.exp(equations.log_probability_by_states(w, theta, rows, b))
    found = (drawn[:, None, :] == rows).all(2).mean(0)
    assert np.all(np.abs(found - expected) < 4.5 * np.sqrt(expected * (1 - expected) / len(drawn)))


def test_ancestral_draws_of_real_inputs():
    """Means and their products with the hidden units, against the mixture of Gaussians at w(h) (section 2.3)."""
    machine = some_machine(3, 2)
    keys = jax.random.split(jax.random.key(2), 20_000)
    drawn = np.asarray(jax.jit(lambda *given: draws.ancestral(UNITS["real"], *given))(machine, keys))
    w, theta, _ = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    active = 1 / (1 + np.exp(-(drawn @ w.T + theta)))
    products, _, inputs = moments_over(*terms("real", machine))[1]
    for found, exact in ((drawn, inputs), (active[:, :, None] * drawn[:, None], products)):
        assert np.all(np.abs(found.mean(0) - exact) < 4.5 * found.std(0) / np.sqrt(len(keys)))
