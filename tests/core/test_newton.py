"""Newton's method with a way back, on objectives whose maxima are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import newton
from latentbits.core.tree import double


def climbed(objective, x, n_steps=60):
    with double():
        x = np.asarray(x, float)
        state, unit, lefts = jax.jit(newton.start)(x), np.eye(x.size), []
        derivatives = jax.jit(lambda x: (objective(x), jax.grad(objective)(x), -jax.hessian(objective)(x)))
        step = jax.jit(newton.advance)
        for _ in range(n_steps):
            state, x = step(state, x, *derivatives(x), unit)
            lefts.append(float(state.left))
        return np.asarray(state.best), lefts, float(state.value)


def test_a_maximum_from_beside_a_saddle():
    best, lefts, _ = climbed(lambda x: -((x[0] ** 2 - 1) ** 2) - x[1] ** 2, [1e-3, 2.0])
    assert np.allclose(np.abs(best), [1, 0], atol=1e-6)
    assert lefts[0] > 1  # the saddle is no end
    assert lefts[-1] == pytest.approx(0, abs=1e-9)


def test_what_runs_away_is_left_with_nothing_to_gain():
    best, lefts, value = climbed(lambda x: -jnp.exp(-x[0]) - x[1] ** 2, [0.0, 1.0], 400)
    assert np.isfinite(best).all()
    assert value == pytest.approx(0, abs=1e-8)
    assert lefts[-1] < 1e-8
