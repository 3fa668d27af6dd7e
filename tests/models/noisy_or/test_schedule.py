"""The paper's schedule: all layers are sampled from the beginning, and adapted one after the other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np
import pytest
from scipy.stats import norm

from latentbits.core.batch import Batch
from latentbits.core.model import Summary
from latentbits.core.tree import double
from latentbits.models.noisy_or import equations, tuning
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or import update as updating
from latentbits.models.noisy_or.recipes import PAPER

FALSE_ALARM = 1e-6
SIZES = (4, 3, 2)  # inputs first
LEAK = 1e-3


@pytest.fixture(scope="module")
def network():
    """Weights so even that 15 sweeps forget where they began, and that no row comes to rest before."""
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0.2, 0.8, shape) for shape in ((3, 4), (2, 3))]
    return equations.Network(weights, [rng.uniform(0.2, 0.6, size) for size in SIZES])


def effect(weights):
    return -np.expm1(-np.asarray(weights))


def credits_of(network, found):
    """What each cause and each bias has explained."""
    weights, biases = (zip(network.weights, found.credits), zip(network.biases, found.bias_credits))
    return tuple(tuple(effect(w) * c for w, c in pairs) for pairs in (weights, biases))


@pytest.mark.slow("chains are compiled")
def test_all_layers_are_sampled_while_the_lowest_is_learned(network):
    """A row many times over: means, of numbers between 0 and 1, against sums over all states."""
    n, row, model = 4000, np.array([[1.0, 1.0, 0.0, 1.0]]), networks.model(SIZES[1:], recipe=PAPER, bias=False)
    with double():
        params = examples.as_params(network)
        numbers = jnp.asarray(np.arange(n), "uint32")
        rows = Batch(jnp.asarray(np.tile(row, (n, 1))), None, jnp.asarray(np.ones(n)), numbers, jax.random.key(0))
        shared = model.prepare(params, model.stages[0].start(params), None)
        stats, _ = jax.jit(model.e_step)(params, shared, rows, None)
    exact = examples.expected_sums(network, row, np.ones(1))
    credit, bias_credit = credits_of(network, exact)
    found, true = [*stats.seen, *stats.credit, *stats.bias_credit], [*exact.counts, *credit, *bias_credit]
    limit = norm.isf(FALSE_ALARM / (2 * sum(map(np.size, true)))) * 0.5 / np.sqrt(n)
    for one, other in zip(found, true, strict=True):
        np.testing.assert_allclose(np.asarray(one) / n, other, rtol=0, atol=limit)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layer", [1, 2])
def test_layers_above_wait_for_their_turn(network, layer, bias):
    """A stage has the weights to its children by (9), with biases those of the children; the last, the top's too."""
    model, below = networks.model(SIZES[1:], recipe=PAPER, bias=bias), layer - 1
    rows, _ = examples.draw(network, 30, seed=1)
    sums = examples.expected_sums(network, rows, np.ones(30))
    credit, bias_credit = credits_of(network, sums)
    with double():
        params = examples.as_params(network)
        state = model.stages[below].start(params)
        assert model.prepare(params, state, None).depth == 2  # layers that are sampled
        average = [tuple(map(jnp.asarray, one)) for one in (sums.counts, credit, sums.bias_counts, bias_credit)]
        (net,) = model.update.args
        found = updating._fitted(net, state.layer, params, tuple(average), state.change, average[2])
    expected = [[effect(w) for w in values] for values in network]
    expected[0][below] = equations.frequency(credit[below], sums.counts[below], 1.0, 1.5)
    for place in ([below] if bias else []) + ([2] if layer == 2 else []):
        expected[1][place] = equations.frequency(bias_credit[place], sums.bias_counts[place], 1.0, 1.5)
    for values, others in zip((found.weights, found.biases), expected, strict=True):
        for one, other in zip(values, others, strict=True):
            np.testing.assert_allclose(effect(one), other, rtol=1e-9, atol=1e-12)
    assert [stage.name for stage in model.stages] == ["layer 1", "layer 2"]


def test_all_weights_begin_at_random_and_layers_that_were_learned_are_kept(network):
    """The bias of a layer that was on top is not: it is what the layer above is to explain."""
    model = networks.model(SIZES[1:], recipe=PAPER, bias=False)
    with double():
        half, none = jnp.asarray(np.full(4, 0.5)), jnp.asarray(np.zeros((1, 4)))
        summary = Summary(jnp.asarray(np.float64(10)), half, half, half, none, jnp.asarray(np.zeros((1, 4), np.uint8)))
        begun = model.init(jax.random.key(0), summary)
        lowest = examples.as_params(equations.Network(network.weights[:1], network.biases[:2]))
        kept = networks.keeping_layers(model.init, lowest)(jax.random.key(0), summary)
    for w in begun.weights:
        assert (tuning.START_WEIGHTS[0] <= np.asarray(w)).all()
        assert (np.asarray(w) <= tuning.START_WEIGHTS[1]).all()
    assert [set(np.asarray(b).tolist()) for b in begun.biases] == [{LEAK}, {LEAK}, {tuning.START_HIDDEN_BIAS}]
    np.testing.assert_array_equal(kept.weights[0], network.weights[0])
    np.testing.assert_array_equal(kept.weights[1], begun.weights[1])
    np.testing.assert_array_equal(kept.biases[0], network.biases[0])
    np.testing.assert_array_equal(kept.biases[1], begun.biases[1])
