"""The gradient of the likelihood of a combination machine, and what climbs it: the paper's, and central differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import arrays, log_probabilities, moments_over, some_machine, terms

from latentbits.core import tree
from latentbits.core.batch import Batch
from latentbits.core.model import Progress
from latentbits.models.combination_machine import ascent, equations, likelihood, rows
from latentbits.models.combination_machine.bordered import bordered, machine_in
from latentbits.models.combination_machine.evidence import Prior
from latentbits.models.combination_machine.machine import BINARY, UNITS, Machine, Params, log_weight

STEP = 1e-5


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def parts(matrix):
    """Take weights, hidden and input biases from a bordered matrix."""
    return matrix[:-1, :-1], matrix[:-1, -1], matrix[-1, :-1]


def slopes(value, at):
    """Central differences."""
    steps = STEP * np.eye(at.size).reshape(-1, *at.shape)
    return np.reshape([(value(at + step) - value(at - step)) / (2 * STEP) for step in steps], at.shape)


def known(kind, machine):
    """Parameters, and what a pass shares: the sums over states, by brute force."""
    log_z, moments = moments_over(*terms(kind, machine))
    params = Params(*jax.tree.leaves(machine), *map(jnp.asarray, (log_z, 0.0, 1.0, 0.0)))
    expected = np.block([[moments[0], moments[1][:, None]], [moments[2], np.ones(1)]])
    return params, likelihood.Shared(jnp.asarray(log_z), jnp.asarray(expected))


def batch_of(kind, x):
    values = jnp.asarray(x if kind == "real" else (x + 1) / 2)
    return Batch(
        values, None, jnp.asarray(np.ones(len(x))), jnp.asarray(np.arange(len(x)), "uint32"), jax.random.key(0)
    )


def e_step(kind, held_out, params, shared, x):
    return jax.jit(likelihood.e_step(UNITS[kind], held_out))(params, shared, batch_of(kind, x), None)[0]


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_gradient_is_that_of_the_likelihood(kind):
    """Equal to 3.5, 3.6 (3.8, 3.9), and to central differences of 3.1 at one part in 1e7."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(20, 4)) if kind == "real" else rng.choice([-1.0, 1.0], (20, 4))
    machine = some_machine(3, 4, seed=3, size=0.5)
    params, shared = known(kind, machine)
    stats = e_step(kind, 0.0, params, shared, x)
    matrix, found, objective, log_weights = jax.jit(
        lambda params, shared, stats: (
            bordered(params),
            likelihood.gradient(shared, stats, likelihood.Learned()),
            likelihood.objective(params, shared, stats),
            log_weight(UNITS[kind], params, jnp.asarray(x)),
        )
    )(params, shared, stats)
    numeric = slopes(lambda one: log_probabilities(kind, parts(one), x).mean(), np.asarray(matrix))
    np.testing.assert_allclose(found, numeric, atol=1e-8)
    assert found[-1, -1] == 0
    of_paper = equations.gradient if kind == "binary" else equations.real_gradient
    w, theta, b = arrays(machine)
    for ours, theirs in zip(parts(found), of_paper(w, theta, x, b)):
        np.testing.assert_allclose(ours * len(x), theirs, atol=1e-12)
    exact = log_probabilities(kind, parts(np.asarray(matrix)), x)
    assert np.isclose(objective, exact.sum(), atol=1e-9)
    np.testing.assert_allclose(log_weights - params.log_partition, exact, atol=1e-9)  # (2.4), (2.6)


def test_rows_held_out_count_in_the_objective_alone():
    params, shared = known("binary", some_machine(3, 4))
    x = np.random.default_rng(0).choice([-1.0, 1.0], (1000, 4))
    stats = e_step("binary", 0.25, params, shared, x)
    out = np.asarray(rows.is_held_out(jnp.asarray(np.arange(1000), "uint32"), rows.held_below(0.25)))
    assert abs(out.mean() - 0.25) < 0.01
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(params)[:3])
    kept = np.column_stack([x[~out], np.ones((~out).sum())])
    active = 1 / (1 + np.exp(-(x[~out] @ w.T + theta)))
    np.testing.assert_allclose(stats.clamped[:-1], active.T @ kept, atol=1e-9)
    np.testing.assert_allclose(stats.clamped[-1], kept.sum(0), atol=1e-9)
    value = jax.jit(likelihood.objective)(params, shared, stats)
    assert np.isclose(value, log_probabilities("binary", (w, theta, b), x[out]).mean() * 1000, atol=1e-8)


def test_a_climb_follows_the_gradient_of_the_penalised_likelihood():
    """In its own coordinates, by central differences; with the prior that the rows choose at this pass."""
    params, shared = known("binary", some_machine(3, 4, size=0.5))
    x = np.random.default_rng(0).choice([-1.0, 1.0], (30, 4))
    stats = e_step("binary", 0.0, params, shared, x)
    at = Progress(*map(jnp.asarray, (0, 9, 0)), jax.random.key(0))
    climb = jax.jit(
        lambda prior, *given: ascent._climb(BINARY, likelihood.Learned())(Prior(*prior), ascent._foot(given[0]), *given)
    )
    machines = jax.jit(jax.vmap(lambda coordinates, point: machine_in(coordinates.machine(point)), (None, 0)))
    for prior in (Prior.of(0.5), Prior.of("auto")):
        state, after = climb(tuple(prior), params, shared, stats, at)
        alpha = float(after.precision)
        assert (alpha == 4.0) == (prior.chosen == 0)
        here = np.asarray(state.optimiser.point)
        points = here + STEP * np.concatenate([np.zeros((1, 20)), np.eye(20)[:19], -np.eye(20)[:19]])
        every = machines(state.coordinates, jnp.asarray(points.reshape(-1, 4, 5)))
        values = [
            log_probabilities("binary", one, x).mean() - 0.5 * alpha * np.sum(one[0] ** 2) / len(x)
            for one in zip(*(np.asarray(leaf) for leaf in jax.tree.leaves(every)))
        ]
        assert np.isclose(values[0], state.optimiser.value, atol=1e-12)
        numeric = np.subtract(values[1:20], values[20:]) / (2 * STEP)
        np.testing.assert_allclose(state.optimiser.gradient[:19], numeric, atol=1e-8)


def test_a_machine_of_few_active_units_is_climbed_in_both_halves():
    """With at most one unit on, the machine is a mixture of 4 products, in the rows' half and in that of the states."""
    machine = some_machine(3, 4, size=0.5)
    x = np.random.default_rng(1).choice([-1.0, 1.0], (20, 4))
    params, _ = known("binary", machine)

    @jax.jit
    def step(params, batch):
        shared = likelihood.expectations(BINARY, 1, None)(params, None, None)
        stats, _ = likelihood.e_step(BINARY, 0.0, 1)(params, shared, batch, None)
        return likelihood.gradient(shared, stats, likelihood.Learned()), likelihood.objective(params, shared, stats)

    def value(matrix):
        w, theta, b = parts(matrix)
        fields = np.vstack([b, b + w])
        log_share = np.append(0, theta) + np.logaddexp(fields, -fields).sum(1)
        log_share -= np.logaddexp.reduce(log_share)
        log_p = x @ fields.T - np.logaddexp(fields, -fields).sum(1) + log_share
        return np.logaddexp.reduce(log_p, 1).mean()

    found, objective = step(params, batch_of("binary", x))
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    matrix = np.block([[w, theta[:, None]], [b, np.zeros(1)]])
    numeric = slopes(value, matrix)
    np.testing.assert_allclose(found, numeric, atol=1e-8)
    assert np.isclose(objective, 20 * value(matrix), atol=1e-9)


def test_machines_are_parts_of_one_matrix():
    machine = some_machine(3, 4)
    matrix, back = jax.jit(lambda machine: (bordered(machine, 1.0), machine_in(bordered(machine, 1.0))))(machine)
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    np.testing.assert_array_equal(matrix, np.block([[w, theta[:, None]], [b, np.ones(1)]]))
    assert isinstance(back, Machine)
    jax.tree.map(np.testing.assert_array_equal, back, machine)
