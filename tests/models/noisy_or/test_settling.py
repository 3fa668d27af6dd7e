"""The exact end of learning: secants in coordinates of which complete data would tell as much everywhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_twin as twin
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from latentbits import NoisyOrNetwork
from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.core.tree import double
from latentbits.data import toys
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or import settling
from latentbits.models.noisy_or.network import Params


@pytest.mark.parametrize("alpha", [1.0, 1.6])
@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_the_gradient_is_that_of_the_objective(sizes, alpha, monkeypatch):
    """By every angle, of all layers, with the prior."""
    network = twin.some_network((5, *sizes), seed=3)
    x, _ = twin.draw(network, 40, seed=4, missing=0.2)
    raw = jnp.asarray(np.where(np.isnan(x), 255, x).astype(np.uint8))
    model = networks.model(sizes, alpha=alpha, beta=1.3, inference="exact")
    stage = model.stages[-1]
    with double():
        batch = make_batch(raw, jnp.uint32(0), jnp.uint32(40), jax.random.key(0), False, np.dtype(np.float64))
        params = twin.as_params(network)
        begun = Progress(jnp.asarray(0), jnp.asarray(9), jnp.asarray(0), jax.random.key(1))
        flat, back = ravel_pytree((params.weights, params.biases))

        def passed(params):
            shared = model.prepare(params, stage.start(params), begun)
            stats, _ = stage.e_step(params, shared, batch, None)
            return model.objective(params, shared, stats), shared, stats

        def objective(angle):
            return passed(Params(*back(-jnp.log1p(-(jnp.sin(angle / 2) ** 2)))))[0]

        found = {}
        advance = settling.secants.advance

        def spy(state, at, value, image, gradient, *rest, **known):
            found.update(gradient=gradient, value=value)
            return advance(state, at, value, image, gradient, *rest, **known)

        monkeypatch.setattr(settling.secants, "advance", spy)
        value, shared, stats = passed(params)
        stage.update(stage.start(params), params, shared, stats, begun)
        expected = jax.grad(objective)(settling._angle(flat))
    np.testing.assert_allclose(found["value"], value)
    np.testing.assert_allclose(found["gradient"], expected, rtol=1e-6, atol=1e-8)


def test_the_exact_end_keeps_the_best_and_says_what_is_left():
    """More passes gain no more than what was said to be left."""
    X = toys.lines(300, random_state=1).X
    m = NoisyOrNetwork((6,), n_updates=40, dtype="float64", random_state=0).fit(X)
    more = NoisyOrNetwork((6,), n_updates=40, tol=1e-6, dtype="float64", random_state=0).fit(X)
    assert m.converged_
    assert m.left_to_gain_ <= 1e-4 * 300
    exact = m.history_table_["stage"] == "all layers, exactly"
    assert m.objective_ == m.history_table_["objective"][exact].max()
    assert more.objective_ - m.objective_ <= m.left_to_gain_ + 0.01


def test_biases_that_are_not_learned_stay():
    X = toys.lines(200, random_state=2).X
    m = NoisyOrNetwork((3,), bias=False, leak=0.01, n_updates=10, random_state=0).fit(X)
    np.testing.assert_array_equal(m.biases_[0], 0.01)
    assert len(np.unique(m.biases_[1])) > 1
