from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import secants
from latentbits.core.tree import double


@jax.jit
def one_pass(bends, x, state):
    value, gradient, nothing = -0.5 * jnp.sum(bends * x**2), -bends * x, jnp.asarray(0.0)
    return value, *secants.advance(state, x, value, x + gradient, gradient, jnp.ones_like(x), nothing, nothing)


def climb(bends, start, n_passes):
    """Passes over an objective -x'Hx / 2, whose map is a step along the gradient; yields value and what is left."""
    x, bends = np.asarray(start), np.asarray(bends)
    state = jax.jit(secants.start)(x)
    for _ in range(n_passes):
        value, state, x = one_pass(bends, x, state)
        yield float(value), float(secants.left(state))


@pytest.mark.parametrize("slow", [0.1, 1e-2])
def test_what_is_left_of_a_parabola_is_stated(slow):
    """Before all of its directions have been seen, too, if those that were not are not flatter than is assumed."""
    with double():
        stated = [
            (value, left) for value, left in climb([1.0, 0.3, 0.1, slow], [1.0, 2.0, 1.0, 30.0], 30) if left < 1e9
        ]
    assert stated
    for value, left in stated:
        assert -value <= left + 1e-9


def test_a_flat_direction_that_was_seen_hides_nothing():
    """Steps along it are bounded, and so much shorter than Newton's; what is left is not."""
    with double():
        path = list(climb([0.5, 1e-5], [0.0, 30.0], 8))
    assert path[-1][1] == pytest.approx(secants.CAUTION_FACTOR * -path[-secants.PROMISED_POINTS][0], rel=1e-3)


def test_a_saddle_point_is_left():
    """Where the objective bends up, steps go on away from where it stands still, and nothing is promised."""
    with double():
        path = list(climb([1.0, 0.2, -0.05], [1.0, 1.0, 1e-3], 25))
    values, left = np.array(path).T
    assert values[-1] > 1.0
    assert np.isinf(left[values > 1e-3]).all()


def test_one_small_promise_is_not_what_is_left():
    """A pass may hardly point along a slow direction: the most that the last three points promised counts."""
    with double():
        state = secants.start(jnp.ones(2))
        lefts = []
        x = jnp.asarray([1.0, 30.0])
        for _ in range(8):
            _, state, x = one_pass(jnp.asarray([0.5, 1e-2]), x, state)
            lefts.append((float(state.promised[-1]), float(secants.left(state))))
    last, stated = np.array(lefts).T
    assert np.isfinite(stated[-1])
    np.testing.assert_array_equal(stated[2:], np.maximum(np.maximum(last[2:], last[1:-1]), last[:-2]))
