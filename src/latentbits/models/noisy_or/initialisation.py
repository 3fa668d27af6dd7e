"""Where learning starts: a network's first parameters, and those of a layer that comes on top."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jax.tree_util import Partial

from latentbits.core import keys
from latentbits.core.arrays import AnyKey, fold_in, namespace, uniform
from latentbits.core.model import Summary
from latentbits.core.tree import to_numpy
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.settings import Settings
from latentbits.models.noisy_or.state import State

__all__ = ["add_layer", "init", "keeping_layers"]


def init(net: Settings, key: AnyKey, summary: Summary) -> Params:
    """Draw weights of the first layer, and none above it yet; in the paper's learning all of them."""
    xp = namespace(summary)
    sizes = [len(summary.mean), *net.layer_sizes]
    weights = tuple(xp.zeros((above, below)) for below, above in pairwise(sizes))
    first = xp.full(sizes[0], xp.maximum(0.02, net.leak) if net.bias else net.leak)
    params = Params(weights, (first, *(xp.full(size, tuning.START_HIDDEN_BIAS) for size in net.layer_sizes)))
    for layer in range(1, net.n_layers + 1 if net.paper else 2):
        params = _with_new_layer(net, layer, fold_in(key, layer), params)
    return params


def add_layer(net: Settings, layer: int, key: AnyKey, params: Params, state: State | None) -> Params:
    """Add a layer between two stages, on the host."""
    return _with_new_layer(net, layer, keys.raw(key), to_numpy(params))


def _with_new_layer(net: Settings, layer: int, key: AnyKey, params: Params) -> Params:
    """Draw hidden layer `layer` (from 1) of the network."""
    xp = namespace(params.biases[0])
    weights, biases = list(params.weights), list(params.biases)
    weights[layer - 1] = uniform(key, weights[layer - 1].shape, *tuning.START_WEIGHTS)
    if layer > 1:
        # of its bias a unit keeps when it gets parents
        kept = 0.2 * biases[layer - 1] if net.bias else xp.zeros_like(biases[layer - 1])
        biases[layer - 1] = xp.maximum(kept, net.leak)
    return Params(tuple(weights), tuple(biases))


def keeping_layers(init: Any, learned: Params) -> Any:
    """Make an `init` whose lower layers have been learned already."""
    return Partial(_keep, init, learned)


def _keep(init: Any, learned: Params, key: AnyKey, summary: Summary) -> Params:
    (net,) = init.args
    params, n = init(key, summary), len(learned.weights)
    n_biases = n if net.paper else n + 1  # `add_layer` has yet to take from those of the layer that was on top
    weights = (*learned.weights, *params.weights[n:])
    return Params(weights, (*learned.biases[:n_biases], *params.biases[n_biases:]))
