"""CombinationMachine with more units than can be counted: log Z is annealed, draws come from chains."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits import CombinationMachine

pytestmark = pytest.mark.optimised


N_UNITS, N_COLUMNS = 24, 30


def by_hand(units, theta, bias, first):
    """Sum over all states of a machine whose units have a column each, but the first, whose weights reach all.

    Given the first, Z is a product: log Z with that unit off and on.
    """
    fields = bias + np.outer([0, 1], first)
    free = np.logaddexp(fields, -fields)
    here = fields[:, :N_UNITS] + units
    free[:, :N_UNITS] = np.logaddexp(free[:, :N_UNITS], theta + np.logaddexp(here, -here))
    off = fields[:, 0]  # whose unit is the first one
    free[:, 0] = np.logaddexp(off, -off)
    return free.sum(1) + np.array([0, theta[0]])


@pytest.mark.slow("log Z is annealed")
def test_beyond_enumeration_log_z_has_an_error():
    """More units than can be counted: annealed, and within its error of a product that is known in closed form."""
    rng = np.random.default_rng(0)
    units, theta, first = rng.normal(size=N_UNITS), rng.normal(size=N_UNITS), np.zeros(N_COLUMNS)
    first[0] = 1.0
    m = machine(units, theta, np.zeros(N_COLUMNS), first)
    exact = np.logaddexp.reduce(by_hand(units, theta, np.zeros(N_COLUMNS), first))
    assert 0 < m.log_partition_error_ < 0.1
    assert abs(m.log_partition_ - exact) < 4 * m.log_partition_error_ + 1e-3
    assert 0.3 < m.log_partition_effective_ <= 1
    _, error = m.log_likelihood(np.zeros((5, N_COLUMNS)), return_error=True)
    assert np.isclose(error, 5 * m.log_partition_error_, rtol=1e-4)
    few = np.zeros((2, N_COLUMNS))
    few[:, :3] = np.nan
    filled = m.complete(few)
    assert np.all((filled >= 0) & (filled <= 1))


@pytest.mark.slow("log Z is annealed")
def test_draws_beyond_enumeration_see_both_modes():
    """Two modes far apart: chains from the input biases would stay in one."""
    units, theta = 0.3 * np.random.default_rng(1).normal(size=N_UNITS), np.zeros(N_UNITS)
    bias, first = np.full(N_COLUMNS, -1.19), np.full(N_COLUMNS, 2.4)
    m = machine(units, theta, bias, first)
    assert m.log_partition_error_ > 0
    upper = (m.sample(300, random_state=0).mean(1) > 0.5).mean()
    off, on = by_hand(units, theta, bias, first)  # the first unit is that of the upper mode
    share = 1 / (1 + np.exp(off - on))
    assert 0.2 < share < 0.8
    assert abs(upper - share) < 0.12


def machine(units, theta, bias, first):
    """Give the k-th unit the k-th column, and the first unit all of them."""
    components = np.diag(units) @ np.eye(N_UNITS, N_COLUMNS)
    components[0] = first
    return CombinationMachine.from_parameters(components, theta, bias, random_state=0)
