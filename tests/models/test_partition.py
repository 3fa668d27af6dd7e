"""log Z and its gradient against sums over all 2^(n+m) states in float64, and against finite differences."""

from __future__ import annotations

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from latentbits.core import tree
from latentbits.core.states import all_states
from latentbits.models.combination_machine import partition
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Machine, Params

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

exact_moments = jax.jit(partition.exact_moments, static_argnums=(0, 2))
exact_log_partition = jax.jit(partition.exact_log_partition, static_argnums=(0, 2))
gradient = jax.jit(jax.grad(partition.exact_log_partition, argnums=1), static_argnums=(0, 2))


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def a_machine(m, n, scale=1.0, seed=0):
    rng = np.random.default_rng([seed, m, n])
    return Machine(*(jnp.asarray(scale * rng.normal(size=shape)) for shape in [(m, n), (m,), (n,)]))


def brute_force(units, machine):
    """log Z and moments: binary by all pairs of states, real by all hidden states and the Gaussian's moments."""
    m, n = machine.weights.shape
    w, theta, b = (np.asarray(leaf) for leaf in jax.tree.leaves(machine))
    h = all_states(m).astype(float)
    if units.name == "binary":
        x = 2.0 * all_states(n) - 1
        g = (x @ w.T + theta) @ h.T + (x @ b)[:, None]  # -E of equation 2.1
        log_z = logsumexp(g)
        p = np.exp(g - log_z)
        moments = h.T @ p.T @ x, h.T @ p.sum(0), p.sum(1) @ x
        return log_z, Machine(*map(jnp.asarray, moments))
    x = b + h @ w
    g = h @ theta + (x**2).sum(1) / 2 + n / 2 * np.log(2 * np.pi)
    log_z = logsumexp(g)
    p = np.exp(g - log_z)
    return log_z, Machine(*map(jnp.asarray, ((h * p[:, None]).T @ x, p @ h, p @ x)))


def close(a, b, **tolerance):
    for ours, theirs in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks, tables and groups of inputs also for a few units."""
    monkeypatch.setattr(partition, "CACHED", (7, 2))
    monkeypatch.setattr(partition, "FUSED", (3, 2))
    monkeypatch.setattr(partition, "REAL_UNITS", (4, 4))
    monkeypatch.setattr(partition, "GROUP", 3)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize(("m", "n"), [(0, 3), (1, 4), (3, 1), (1, 1), (5, 8), (8, 6), (10, 3)])
def test_equals_a_sum_over_all_states(kind, m, n):
    units, machine = UNITS[kind], a_machine(m, n)

    def both(machine):  # a new function for the compiler, which would remember other sizes of blocks
        return *partition.exact_moments(units, machine), partition.exact_log_partition(units, machine)

    log_z, moments, alone = jax.jit(both)(machine)
    expected_log_z, expected = brute_force(units, machine)
    np.testing.assert_allclose([log_z, alone], expected_log_z, rtol=0, atol=1e-10)
    close(moments, expected, rtol=0, atol=1e-10)
    assert log_z.dtype == moments.weights.dtype == np.float64


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("m", "n"), [(0, 3), (2, 4), (3, 2), (4, 9), (7, 7)])
@pytest.mark.parametrize("with_moments", [False, True])
def test_sums_of_a_gpu(m, n, with_moments, monkeypatch):
    monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)  # the tests run on a CPU
    machine = a_machine(m, n)
    log_z, moments = jax.jit(lambda machine: partition._sum_hidden(BINARY, machine, None, with_moments))(machine)
    expected_log_z, expected = brute_force(BINARY, machine)
    np.testing.assert_allclose(log_z, expected_log_z, rtol=0, atol=1e-10)
    if with_moments:
        close(moments, expected, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("units", [BINARY, REAL], ids=lambda units: units.name)
@pytest.mark.parametrize(("m", "n"), [(4, 6), (6, 4)])
def test_moments_are_the_derivative(units, m, n):
    machine = a_machine(m, n, 0.5)
    _, moments = exact_moments(units, machine)
    direction = a_machine(m, n, seed=1)
    step = 1e-5

    def moved(t):
        return exact_log_partition(units, jax.tree.map(lambda a, b: a + t * b, machine, direction))

    slope = (moved(step) - moved(-step)) / (2 * step)
    expected = sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(moments), jax.tree.leaves(direction), strict=True))
    np.testing.assert_allclose(slope, expected, rtol=1e-7)
    close(gradient(units, machine), moments, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(
    ("kind", "m", "n", "on_gpu"),
    [("binary", 6, 7, False), ("binary", 6, 7, True), ("binary", 7, 6, False), ("real", 6, 7, False)],
)
def test_large_weights_do_not_overflow(kind, m, n, on_gpu, dtype, monkeypatch):
    if on_gpu:
        monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)
    units, machine = UNITS[kind], a_machine(m, n)
    largest = max(jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(machine))
    machine = jax.tree.map(lambda leaf: 60 / largest * leaf, machine)
    log_z, moments = jax.jit(lambda machine: partition.exact_moments(units, machine, dtype))(machine)
    expected_log_z, expected = brute_force(units, machine)
    tolerance = 1e-6 if dtype == SINGLE else 1e-13
    np.testing.assert_allclose(log_z, expected_log_z, rtol=tolerance)
    close(moments, expected, rtol=tolerance, atol=100 * tolerance)
    assert log_z.dtype == moments.weights.dtype == np.float64  # that of the machine


def test_parameters_of_a_model_are_a_machine():
    machine = a_machine(3, 4)
    more = len(fields(Params)) - len(fields(Machine))
    params = Params(*jax.tree.leaves(machine), *[jnp.zeros(())] * more)
    log_z, moments = exact_moments(BINARY, params)
    assert type(moments) is Machine
    assert log_z == exact_log_partition(BINARY, params) == exact_log_partition(BINARY, machine)


def test_without_float64():
    with jax.enable_x64(False):
        machine = tree.cast(a_machine(5, 6), SINGLE)
        log_z, moments = exact_moments(BINARY, machine)
        assert log_z.dtype == moments.weights.dtype == np.float32
    np.testing.assert_allclose(log_z, brute_force(BINARY, a_machine(5, 6))[0], rtol=1e-6)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_single_precision_is_right_to_five_digits_after_the_point(on_gpu, monkeypatch):
    if on_gpu:
        monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)
    machine = a_machine(11, 150, 0.3)

    def sums(dtype):
        return jax.jit(lambda machine: partition.exact_moments(BINARY, machine, dtype))(machine)

    (log_z, moments), (exact_log_z, exact) = sums(SINGLE), sums(DOUBLE)
    np.testing.assert_allclose(log_z, exact_log_z, rtol=0, atol=2e-5)
    close(moments, exact, rtol=0, atol=1e-5)


def test_the_smaller_side_is_enumerated():
    count = partition.n_enumerated
    assert count(BINARY, 20, 64) == 20
    assert count(BINARY, 64, 20) == 20
    assert count(REAL, 64, 20) == 64


def test_too_many_states():
    with pytest.raises(ValueError, match="60 units have more states than can be summed"):
        partition.exact_log_partition(BINARY, a_machine(60, 61))


@pytest.mark.parametrize(("units", "m", "n"), [(BINARY, 3, 5), (BINARY, 5, 3), (REAL, 4, 3), (BINARY, 0, 3)])
def test_log_z_on_the_host_is_that_of_the_program(units, m, n):
    """With more hidden units than inputs the inputs' states are summed; a machine without units is a product."""
    machine = a_machine(m, n, 2.0)
    expected = brute_force(units, machine)[0]
    assert np.isclose(partition.log_partition_on_host(units, tree.to_numpy(machine)), expected, rtol=1e-12)
