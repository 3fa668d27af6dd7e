"""Centred coordinates are other names of the same machines."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import some_machine

from latentbits.core.tree import double
from latentbits.models.combination_machine.bordered import bordered, machine_in
from latentbits.models.combination_machine.centring import Coordinates
from latentbits.models.combination_machine.machine import BINARY, REAL
from latentbits.models.combination_machine.partition import exact_log_partition, exact_moments


@pytest.fixture(autouse=True)
def in_double():
    with double():
        yield


@pytest.mark.parametrize("units", [BINARY, REAL], ids=lambda units: units.name)
def test_there_and_back_and_the_gradient(units):
    """The gradient is that of any function of the machine, as a function of the point."""
    here, other = some_machine(3, 4, seed=1), some_machine(3, 4, seed=2)
    moments = exact_moments(units, here)[1]
    coordinates = Coordinates.around(units, bordered(moments, 1.0), input_bias=True, weights=True)
    point = coordinates.of(bordered(other))
    np.testing.assert_allclose(coordinates.machine(point), bordered(other), rtol=1e-12, atol=1e-15)
    slope = jax.grad(lambda machine: exact_log_partition(units, machine))
    expected = jax.grad(lambda point: exact_log_partition(units, machine_in(coordinates.machine(point))))(point)
    np.testing.assert_allclose(coordinates.gradient(bordered(slope(other))), expected, rtol=1e-10, atol=1e-12)


def test_what_may_not_move_does_not():
    """A step along a gradient without input biases leaves these alone, and one without weights the weights."""
    machine = some_machine(3, 4, seed=1)
    moments = bordered(exact_moments(BINARY, machine)[1], 1.0)
    for input_bias, weights in ((False, True), (True, False)):
        slope = jax.tree.map(jnp.ones_like, machine)
        slope = type(slope)(slope.weights * weights, slope.hidden_bias, slope.input_bias * input_bias)
        coordinates = Coordinates.around(BINARY, moments, input_bias, weights)
        step = coordinates.of(bordered(machine)) + coordinates.gradient(bordered(slope))
        there = machine_in(coordinates.machine(step))
        if not input_bias:
            np.testing.assert_allclose(there.input_bias, machine.input_bias, rtol=1e-12)
        if not weights:
            np.testing.assert_allclose(there.weights, machine.weights, rtol=1e-12)
        assert not np.allclose(there.hidden_bias, machine.hidden_bias)
