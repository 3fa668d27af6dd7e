"""The largest terms of Z (Freund & Haussler 1994, section 3.1) against all of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import all_close, moments_over, some_machine, terms

from latentbits.core import tree
from latentbits.models.combination_machine import largest
from latentbits.models.combination_machine.machine import BINARY, REAL, Machine

moments = jax.jit(largest.largest_moments, static_argnums=(0, 2))
states = jax.jit(largest.largest_states, static_argnums=(0, 2))


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def test_the_largest_are_found():
    """Which they are, their sum, and the gradient of it."""
    for seed in range(3):
        machine = some_machine(9, 7, seed, size=0.6)
        h, g, x = terms("binary", machine)
        best = np.argsort(-g)[:40]
        log_z, found, chosen = moments(BINARY, machine, 40)
        assert {tuple(one) for one in np.asarray(chosen)} == {tuple(one) for one in h[best]}
        all_close((log_z, found), moments_over(h[best], g[best], x[best]), rtol=0, atol=1e-12)


def test_all_terms_are_exact():
    machine = some_machine(6, 7, size=0.6)
    log_z, found, h = moments(REAL, machine, 1000)
    all_close((log_z, found), moments_over(*terms("real", machine)), rtol=0, atol=1e-10)
    assert len(np.unique(h, axis=0)) == 64


def test_what_the_search_finds_and_can_miss():
    """Two units that help each other: one alone has g = 36 + theta, both 144 and their thetas.

    Flips find what the beam has passed; where no state on the way is larger, only more terms do.
    """

    def pair(*theta):
        return Machine(*(jnp.asarray(v) for v in (np.full((2, 8), 3.0), np.array(theta), np.zeros(8))))

    beam = jax.jit(largest._one_by_one, static_argnums=(0, 2))
    np.testing.assert_array_equal(beam(REAL, pair(-40.0, -35.0), 1)[0], [[0, 1]])
    np.testing.assert_array_equal(states(REAL, pair(-40.0, -35.0), 1)[0], [[1, 1]])
    np.testing.assert_array_equal(states(REAL, pair(-40.0, -40.0), 1)[0], [[0, 0]])
    np.testing.assert_array_equal(states(REAL, pair(-40.0, -40.0), 2)[0], [[1, 1], [0, 0]])


def test_more_units_than_an_integer_has_bits():
    """Orthogonal weights: units are independent, so that the largest states are known."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=40) * 3
    w = np.linalg.qr(rng.normal(size=(64, 64)))[0][:40]
    h, g = states(REAL, Machine(*map(jnp.asarray, (w, odds - 0.5, np.zeros(64)))), 41)
    np.testing.assert_array_equal(h[0], odds > 0)
    assert len(np.unique(h, axis=0)) == 41
    second = np.argsort(np.abs(odds))[0]
    np.testing.assert_array_equal(np.flatnonzero(np.asarray(h[1] != h[0])), [second])
    assert (np.diff(g) <= 1e-9).all()
