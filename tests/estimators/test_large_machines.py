"""CombinationMachine with more units than can be counted: log Z is annealed, draws come from chains."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits import CombinationMachine
from latentbits.core.tree import double
from latentbits.models.combination_machine.ascent import machine_of
from latentbits.models.combination_machine.machine import BINARY
from latentbits.models.combination_machine.partition import exact_moments

pytestmark = pytest.mark.optimised


@pytest.mark.slow
def test_beyond_enumeration_log_z_has_an_error():
    """30 units on 40 columns: annealed, and within its error of a product that is known in closed form."""
    rng = np.random.default_rng(0)
    components = np.kron(np.eye(30), np.ones(1))[:, :30] * rng.normal(size=(30, 1))
    components = np.concatenate([components, np.zeros((30, 10))], axis=1)
    theta = rng.normal(size=30)
    m = CombinationMachine.from_parameters(components, theta, random_state=0)
    # each unit has an input of its own, so Z is a product: 2 + e^theta 2 cosh w for each, and 2 for a free input
    w = components.diagonal()
    exact = np.sum(np.log(2 + np.exp(theta) * 2 * np.cosh(w))) + 10 * np.log(2)
    assert 0 < m.log_partition_error_ < 0.1
    assert abs(m.log_partition_ - exact) < 4 * m.log_partition_error_ + 1e-3
    assert 0.3 < m.log_partition_effective_ <= 1
    _, error = m.log_likelihood(np.zeros((5, 40)), return_error=True)
    assert np.isclose(error, 5 * m.log_partition_error_, rtol=1e-4)
    few = np.zeros((2, 40))
    few[:, :3] = np.nan
    assert np.all((m.complete(few) >= 0) & (m.complete(few) <= 1))


@pytest.mark.slow
def test_draws_beyond_enumeration_see_both_modes():
    """24 units on 30 columns, two modes far apart: chains from the input biases would stay in one."""
    rng = np.random.default_rng(1)
    W = 0.05 * rng.normal(size=(24, 30))
    W[0] = 2.4
    m = CombinationMachine.from_parameters(W, np.zeros(24), np.full(30, -1.18), random_state=0)
    assert m.log_partition_error_ > 0
    upper = (m.sample(300, random_state=0).mean(1) > 0.5).mean()
    with double():
        machine = machine_of(jax.tree.map(jnp.asarray, m.params_))
        on = float(exact_moments(BINARY, machine, np.dtype(np.float32))[1].hidden_bias[0])  # the upper mode's unit
    assert abs(upper - on) < 0.12
