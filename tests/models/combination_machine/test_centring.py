"""Centred coordinates are other names of the same machines."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import moments_over, some_machine, terms

from latentbits.core.tree import double
from latentbits.models.combination_machine.bordered import bordered
from latentbits.models.combination_machine.centring import Coordinates
from latentbits.models.combination_machine.machine import UNITS, Machine


@pytest.fixture(autouse=True)
def in_double():
    with double():
        yield


def moments_of(kind, machine):
    return Machine(*map(jnp.asarray, moments_over(*terms(kind, machine))[1]))


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_there_and_back_and_the_gradient(kind):
    """The gradient is that of any linear function of the machine, as a function of the point."""
    here, other, slope = (some_machine(3, 4, seed) for seed in (1, 2, 3))

    @jax.jit
    def run(moments, other, slope):
        coordinates = Coordinates.around(UNITS[kind], bordered(moments, 1.0), input_bias=True, weights=True)
        point = coordinates.of(bordered(other))
        expected = jax.grad(lambda point: jnp.sum(bordered(slope) * coordinates.machine(point)))(point)
        return coordinates.machine(point), bordered(other), coordinates.gradient(bordered(slope)), expected

    back, there, found, expected = run(moments_of(kind, here), other, slope)
    np.testing.assert_allclose(back, there, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("input_bias", "weights"), [(False, True), (True, False)])
def test_what_may_not_move_does_not(input_bias, weights):
    """A step along a gradient without input biases leaves these alone, and one without weights the weights."""
    machine = some_machine(3, 4, seed=1)
    slope = np.ones((4, 5))
    slope[:-1, :-1], slope[-1, :-1], slope[-1, -1] = weights, input_bias, 0

    @jax.jit
    def run(moments, machine, slope):
        coordinates = Coordinates.around(UNITS["binary"], bordered(moments, 1.0), input_bias, weights)
        return coordinates.machine(coordinates.of(bordered(machine)) + coordinates.gradient(slope)), bordered(machine)

    there, before = map(np.asarray, run(moments_of("binary", machine), machine, jnp.asarray(slope)))
    if not input_bias:
        np.testing.assert_allclose(there[-1], before[-1], rtol=1e-12)
    if not weights:
        np.testing.assert_allclose(there[:-1, :-1], before[:-1, :-1], rtol=1e-12)
    assert not np.allclose(there[:-1, -1], before[:-1, -1])
