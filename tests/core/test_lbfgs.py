"""L-BFGS, one value and gradient a step, against the recursion of the textbook and on hills."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import lbfgs, tree

direction = jax.jit(lbfgs._direction)
advance = jax.jit(lbfgs.advance)


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def recursion(points, falls, gradient):
    """Follow Nocedal & Wright (2006), algorithm 7.4, for the pairs that there are."""
    pairs = [(s, y) for s, y in zip(points, falls) if s @ y > 0]
    q, shares = gradient.copy(), []
    for s, y in reversed(pairs):
        shares.append(s @ q / (s @ y))
        q -= shares[-1] * y
    s, y = pairs[-1]
    q *= s @ y / (y @ y)
    for (s, y), share in zip(pairs, reversed(shares)):
        q += s * (share - y @ q / (s @ y))
    return q


def test_direction_is_that_of_the_recursion():
    """In its compact form, also while the memory is not full."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    for n_pairs in (1, 3, 5):
        points = np.zeros((5, 8))
        points[-n_pairs:] = rng.normal(size=(n_pairs, 8))
        falls, gradient = points @ (root @ root.T + np.eye(8)), rng.normal(size=8)
        found = direction(*map(jnp.asarray, (points, falls, gradient)))
        np.testing.assert_allclose(found, recursion(points, falls, gradient), rtol=1e-9, atol=1e-12)


def test_first_direction_is_the_gradient_and_no_longer_than_1():
    nothing = jnp.asarray(np.zeros((3, 2)))
    for gradient, expected in (([3.0, 4.0], [0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        np.testing.assert_allclose(direction(nothing, nothing, jnp.asarray(gradient)), expected, rtol=1e-12)


def test_lbfgs_climbs_a_crooked_hill():
    """Rosenbrock's valley upside down."""

    def hill(x):
        return -jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    @jax.jit
    def climbed(x):
        def step(_, carry):
            return lbfgs.advance(*carry, *jax.value_and_grad(hill)(carry[1]))

        return jax.lax.fori_loop(0, 150, step, (lbfgs.start(x), x))[0]

    state = climbed(jnp.asarray([-1.2, 1.0, -0.5, 0.8]))
    np.testing.assert_allclose(state.point, 1.0, atol=1e-5)
    assert np.isclose(state.value, 0.0, atol=1e-9)


def test_another_penalty_is_as_if_it_had_been_there_all_along():
    """A quadratic whose penalty is changed under way: the next steps are those of the new one."""
    bend = np.array([1.0, 3.0, 10.0])

    def walk(state, x, more, n):
        for _ in range(n):
            x = np.asarray(x)
            value, slope = -0.5 * x @ ((bend + more) * x) + x.sum(), 1 - (bend + more) * x
            state, x = advance(state, *map(jnp.asarray, (x, value, slope)))
        return state

    state = walk(jax.jit(lbfgs.start)(jnp.asarray(np.zeros(3))), np.zeros(3), 0.0, 4)
    changed = jax.jit(lambda state, more: lbfgs.penalised(state, more, lambda x: x))(state, jnp.asarray(2.0))
    here = np.asarray(state.point)
    assert np.isclose(changed.value, -0.5 * here @ ((bend + 2) * here) + here.sum(), atol=1e-12)
    np.testing.assert_allclose(changed.gradient, 1 - (bend + 2) * here, atol=1e-12)
    np.testing.assert_allclose(changed.falls, (bend + 2) * np.asarray(changed.points), atol=1e-12)
    np.testing.assert_allclose(walk(changed, here, 2.0, 25).point, 1 / (bend + 2), atol=1e-6)
