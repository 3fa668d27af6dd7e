from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import anderson
from latentbits.core.tree import double


def after(state, value):
    """Make one pass of a map that halves everything."""
    point = state.point
    return anderson.advance(state, point, jnp.asarray(value), 0.5 * point[None])


@pytest.mark.parametrize(("fall", "kept"), [(5e-5, True), (5e-3, False)])
def test_a_fall_of_the_last_digits_is_no_reason_to_go_back(fall, kept):
    """Where an objective is flat, float32 tells less of it than a pass gains."""
    with double():
        state, _, _ = after(anderson.start(jnp.ones(3), 1, 2), -1000.0)
        assert bool(after(state, -1000.0 - fall)[2]) is kept


def test_one_small_promise_is_not_what_is_left():
    with double():
        state = anderson.start(jnp.ones(3), 1, 2)
        lefts = []
        for nats in (0.3, 1e-9, 0.1, 1e-9, 1e-9):
            state = anderson.promise(state, jnp.asarray(nats))
            lefts.append(float(anderson.left(state)))
    np.testing.assert_allclose(lefts, [np.inf, np.inf, 0.3, 0.1, 0.1])
