"""Gibbs chains of the combination machine against sums over all states."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import some_machine, sums

from latentbits.core.tree import cast, double
from latentbits.models.combination_machine.chains import gibbs, gibbs_moments
from latentbits.models.combination_machine.machine import UNITS

N = 20000


@pytest.fixture(scope="module")
def machine():
    with double():
        return cast(some_machine(3, 4, seed=1), np.dtype("float32"))


@partial(jax.jit, static_argnums=0)
def run(kind, machine, key, x, clamped):
    x = gibbs(UNITS[kind], machine, key, x, 40, clamped)
    return x, gibbs_moments(machine, x)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_chains_forget_their_start_and_have_the_moments_of_the_machine(kind, machine):
    """5 standard errors; a product of a probability and an input has no more variance than E[x^2]."""
    exact = sums(kind, machine, np.zeros(4), np.zeros(4))
    _, moments = run(kind, machine, jax.random.key(3), jnp.ones((N, 4)), None)
    error = np.sqrt(exact.squares / N)
    assert np.all(np.abs(moments.weights - exact.products) < 5 * error)
    assert np.all(np.abs(moments.input_bias - exact.inputs) < 5 * error)
    assert np.all(np.abs(moments.hidden_bias - exact.hidden) < 5 * np.sqrt(exact.hidden * (1 - exact.hidden) / N))


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_clamped_chains_have_the_conditional_moments(kind, machine):
    """Half of the chains hold two inputs, half only one; what is held does not move."""
    held = np.array([[1.0, 0, 1, 0], [0, 1, 0, 0]])
    start = np.array([[1.0, -1, -1, -1], [-1, -1, 1, 1]])
    which = np.arange(N) % 2
    x, _ = run(kind, machine, jax.random.key(4), jnp.asarray(start[which], "float32"), jnp.asarray(held[which]))
    assert np.all(np.where(held[which] > 0, x == start[which], True))
    for k in range(2):
        exact = sums(kind, machine, start[k] * held[k], held[k])
        mean = np.asarray(x)[which == k].mean(0)
        assert np.all(np.abs(mean - exact.inputs) < 5 * np.sqrt(exact.squares / (N / 2)))


def test_weights_of_chains_count_as_copies():
    with double():
        machine = some_machine(3, 4)
        x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)))
        copies = gibbs_moments(machine, jnp.concatenate([x, x[1:2], x[1:2]]))
        weighted = gibbs_moments(machine, x, jnp.asarray([0.5, 1.5, 0.5, 0.5]))
        for a, b in zip(jax.tree.leaves(copies), jax.tree.leaves(weighted)):
            np.testing.assert_allclose(a, b, rtol=1e-14)
