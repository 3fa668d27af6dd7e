"""log Z and its gradient against sums over all 2^(n+m) states in float64."""

from __future__ import annotations

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import all_close, moments_over, some_machine, sums, terms

from latentbits.core import tree
from latentbits.models.combination_machine import partition
from latentbits.models.combination_machine.machine import BINARY, REAL, UNITS, Machine, Params

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def brute_force(kind, machine):
    """Sum bits by all pairs of states, real inputs by all hidden states and the Gaussian's moments."""
    if kind == "real":
        return moments_over(*terms(kind, machine))
    log_z, *moments, _ = sums(kind, machine)
    return log_z, tuple(moments)


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks, tables and groups of inputs also for a few units."""
    monkeypatch.setattr(partition, "CPU_TABLE_LOG2_FLOATS", 7)
    monkeypatch.setattr(partition, "CPU_OUTER_UNITS", 1)
    monkeypatch.setattr(partition, "GPU_TABLE_UNITS", (3, 2))
    monkeypatch.setattr(partition, "REAL_INNER_UNITS", (4, 4))
    monkeypatch.setattr(partition, "INPUTS_PER_PRODUCT", 3)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("kind", "m", "n"), [("binary", 7, 8), ("binary", 8, 7), ("binary", 0, 3), ("real", 6, 8)])
def test_equals_a_sum_over_all_states(kind, m, n):
    units, machine = UNITS[kind], some_machine(m, n, size=1.0)

    @jax.jit
    def everything(machine):
        alone = partition.exact_log_partition(units, machine)
        slope = jax.grad(partition.exact_log_partition, argnums=1)(units, machine) if m == 7 else ()
        return alone, slope, *partition.exact_moments(units, machine)

    alone, slope, log_z, moments = everything(machine)
    expected_log_z, expected = brute_force(kind, machine)
    np.testing.assert_allclose([log_z, alone], expected_log_z, rtol=0, atol=1e-10)
    all_close(moments, expected, rtol=0, atol=1e-10)
    if m == 7:
        all_close(slope, expected, rtol=0, atol=1e-10)
    assert log_z.dtype == moments.weights.dtype == np.float64


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("m", "n"), [(2, 4), (7, 8)])
def test_sums_of_a_gpu(m, n, monkeypatch):
    monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)  # the tests run on a CPU
    machine = some_machine(m, n, size=1.0)

    @jax.jit
    def both(machine):
        return tuple(partition._sum_hidden(BINARY, machine, None, wanted) for wanted in (True, False))

    (log_z, moments), (alone, _) = both(machine)
    expected_log_z, expected = brute_force("binary", machine)
    np.testing.assert_allclose([log_z, alone], expected_log_z, rtol=0, atol=1e-10)
    all_close(moments, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("kind", "m", "n", "on_gpu", "dtype"),
    [
        ("binary", 6, 7, False, SINGLE),
        ("binary", 6, 7, True, SINGLE),
        ("real", 6, 7, False, DOUBLE),
    ],
)
def test_large_weights_do_not_overflow(kind, m, n, on_gpu, dtype, monkeypatch):
    if on_gpu:
        monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)
    machine = some_machine(m, n, size=25.0)
    assert np.abs(machine.weights).max() > 50
    log_z, moments = jax.jit(lambda machine: partition.exact_moments(UNITS[kind], machine, dtype))(machine)
    expected_log_z, expected = brute_force(kind, machine)
    tolerance = 1e-6 if dtype == SINGLE else 1e-13
    np.testing.assert_allclose(log_z, expected_log_z, rtol=tolerance)
    all_close(moments, expected, rtol=tolerance, atol=100 * tolerance)
    assert log_z.dtype == moments.weights.dtype == np.float64  # that of the machine


@pytest.mark.parametrize("on_gpu", [False, True])
def test_single_precision_is_right_to_five_digits_after_the_point(on_gpu, monkeypatch):
    if on_gpu:
        monkeypatch.setattr(partition, "_sum_cached", partition._sum_fused)
    machine = some_machine(11, 150, size=0.3)
    log_z, moments = jax.jit(lambda machine: partition.exact_moments(BINARY, machine, SINGLE))(machine)
    exact_log_z, exact = moments_over(*terms("binary", machine))
    np.testing.assert_allclose(log_z, exact_log_z, rtol=0, atol=2e-5)
    all_close(moments, exact, rtol=0, atol=1e-5)


def test_parameters_of_a_model_are_a_machine():
    machine = some_machine(3, 4)
    more = len(fields(Params)) - len(fields(Machine))
    params = Params(*jax.tree.leaves(machine), *[jnp.asarray(0.0)] * more)
    assert type(jax.eval_shape(lambda params: partition.exact_moments(BINARY, params), params)[1]) is Machine
    assert jax.eval_shape(lambda params: partition.exact_log_partition(BINARY, params), params).shape == ()


def test_without_float64():
    machine = some_machine(5, 6)
    with jax.enable_x64(False):
        log_z, moments = jax.jit(partition.exact_moments, static_argnums=0)(BINARY, tree.cast(machine, SINGLE))
        assert log_z.dtype == moments.weights.dtype == np.float32
    np.testing.assert_allclose(log_z, sums("binary", machine).log_sum, rtol=1e-6)


def test_the_smaller_side_is_enumerated():
    count = partition.n_enumerated
    assert count(BINARY, 20, 64) == 20
    assert count(BINARY, 64, 20) == 20
    assert count(REAL, 64, 20) == 64


def test_too_many_states():
    with pytest.raises(ValueError, match="60 units have more states than can be summed"):
        jax.eval_shape(lambda machine: partition.exact_log_partition(BINARY, machine), some_machine(60, 61))


@pytest.mark.parametrize(("kind", "m", "n"), [("binary", 3, 5), ("binary", 5, 3), ("real", 4, 3), ("binary", 0, 3)])
def test_sums_on_the_host_are_those_of_the_program(kind, m, n):
    """With more hidden units than inputs the inputs' states are summed; a machine without units is a product."""
    machine = some_machine(m, n, size=2.0)
    log_z, moments = partition.moments_on_host(UNITS[kind], tree.to_numpy(machine))
    expected_log_z, expected = brute_force(kind, machine)
    assert np.isclose(log_z, expected_log_z, rtol=1e-12)
    all_close(moments, expected, rtol=0, atol=1e-10)
