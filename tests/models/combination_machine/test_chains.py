"""Gibbs chains of the combination machine against sums over all states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import all_close, some_machine, sums

from latentbits.core.tree import double
from latentbits.models.combination_machine.chains import gibbs, gibbs_moments, tempered
from latentbits.models.combination_machine.machine import BINARY, Machine

N = 9_000


def machine():
    return Machine(*(jnp.asarray(np.asarray(leaf), "f") for leaf in jax.tree.leaves(some_machine(3, 3, seed=1))))


def test_chains_have_the_moments_of_the_machine_and_the_conditional_ones():
    """They forget their start; a third each holds nothing, two inputs, and one, which does not move.

    5 standard errors; a product of a probability and an input has no more variance than E[x^2].
    """
    held = np.array([[0.0, 0, 0], [1, 0, 1], [0, 1, 0]])
    start = np.array([[1.0, 1, 1], [1, -1, -1], [-1, -1, 1]])
    part = np.arange(N) % 3

    @jax.jit
    def run(machine, key, x, clamped):
        x = gibbs(BINARY, machine, key, x, 40, clamped)
        return x, gibbs_moments(machine, x, (jnp.sum(clamped, 1) == 0).astype(x.dtype))

    x, moments = run(machine(), jax.random.key(4), jnp.asarray(start[part], "f"), jnp.asarray(held[part], "f"))
    x = np.asarray(x)
    assert np.all(np.where(held[part] > 0, x == start[part], True))
    for k in range(3):
        exact = sums("binary", machine(), start[k] * held[k], held[k])
        assert np.all(np.abs(x[part == k].mean(0) - exact.inputs) <= 5 * np.sqrt(exact.squares / (N / 3)))
    exact = sums("binary", machine())
    assert np.all(np.abs(moments.weights - exact.products) < 5 * np.sqrt(exact.squares / (N / 3)))
    assert np.all(np.abs(moments.hidden_bias - exact.hidden) < 5 * np.sqrt(exact.hidden * (1 - exact.hidden) * 3 / N))
    np.testing.assert_allclose(moments.input_bias, x[part == 0].mean(0), atol=1e-4)


def test_weights_of_chains_count_as_copies():
    with double():
        x = np.random.default_rng(0).normal(size=(4, 3))
        run = jax.jit(gibbs_moments)
        copies = run(some_machine(3, 3), jnp.asarray(x[[0, 1, 2, 3, 1, 1]]))
        weighted = run(some_machine(3, 3), jnp.asarray(x), jnp.asarray([0.5, 1.5, 0.5, 0.5]))
        all_close(copies, weighted, rtol=1e-14)


def test_tempered_chains_have_the_moments_of_the_machine():
    """At every level: those of the machine, and at the bottom those of a product."""
    field = np.array([0.3, -0.5, 1.0])
    start = jnp.ones((N, 3)), jnp.ones((3, N // 4, 3))
    run = jax.jit(lambda machine, field, key, *x: tempered(BINARY, machine, field, key, *x, 30))
    x, warm = run(machine(), jnp.asarray(field, "f"), jax.random.key(5), *start)
    exact = sums("binary", machine())
    assert np.all(np.abs(np.asarray(x).mean(0) - exact.inputs) < 5 * np.sqrt(exact.squares / N))
    mean = np.tanh(field)
    assert np.all(np.abs(np.asarray(warm)[0].mean(0) - mean) < 5 * np.sqrt((1 + mean**2) / (N / 4)))


@pytest.mark.slow("150 sweeps of 800 chains")
def test_tempered_chains_cross_where_plain_ones_do_not():
    """Two modes, all chains in one of them; half of them belong to the other."""
    pattern = np.repeat([1.0, -1.0], 6)
    rows = np.stack([pattern, -pattern])
    machine = Machine(*(jnp.asarray(v, "f") for v in (1.5 * rows, np.zeros(2), np.zeros(12))))
    x, warm = (jnp.asarray(v, "f") for v in (np.tile(pattern, (400, 1)), np.ones((4, 100, 12))))

    @jax.jit
    def both(machine, key, x, warm):
        none = jnp.zeros_like(machine.input_bias)
        return gibbs(BINARY, machine, key, x, 150), tempered(BINARY, machine, none, key, x, warm, 150)[0]

    stay, cross = (np.mean(np.asarray(v) @ pattern > 0) for v in both(machine, jax.random.key(1), x, warm))
    assert stay > 0.9
    assert 0.4 < cross < 0.6
