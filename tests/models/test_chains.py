"""Gibbs chains of the combination machine against sums over all states."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import some_machine, sums

from latentbits.core.tree import cast, double
from latentbits.models.combination_machine.chains import gibbs, gibbs_moments, tempered
from latentbits.models.combination_machine.machine import BINARY, UNITS, Machine

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "real"])
def test_tempered_chains_have_the_moments_of_the_machine(kind, machine):
    """At every level: those of the machine, and at the bottom those of a product."""
    field = jnp.asarray([0.3, -0.5, 0.0, 1.0])

    @jax.jit
    def go(key):
        return tempered(UNITS[kind], machine, field, key, jnp.ones((N, 4)), jnp.ones((3, N // 4, 4)), 30)

    x, warm = go(jax.random.key(5))
    exact = sums(kind, machine, np.zeros(4), np.zeros(4))
    assert np.all(np.abs(np.asarray(x).mean(0) - exact.inputs) < 5 * np.sqrt(exact.squares / N))
    mean = np.asarray(UNITS[kind].mean(field))
    assert np.all(np.abs(np.asarray(warm[0]).mean(0) - mean) < 5 * np.sqrt((1 + mean**2) / (N / 4)))


def test_tempered_chains_cross_where_plain_ones_do_not():
    """Two modes, all chains in one of them; half of them belong to the other."""
    pattern = np.repeat([1.0, -1.0], 6)
    rows = np.stack([pattern, -pattern])
    machine = Machine(jnp.asarray(1.5 * rows, "f"), jnp.zeros(2), jnp.zeros(12))
    x = jnp.asarray(np.tile(pattern, (400, 1)), "f")
    stay = jax.jit(lambda key: gibbs(BINARY, machine, key, x, 150))(jax.random.key(1))
    warm = jnp.ones((4, 100, 12))
    cross, _ = jax.jit(lambda key: tempered(BINARY, machine, jnp.zeros(12), key, x, warm, 150))(jax.random.key(1))
    in_first = [np.mean(np.asarray(v) @ pattern > 0) for v in (stay, cross)]
    assert in_first[0] > 0.9
    assert 0.4 < in_first[1] < 0.6
