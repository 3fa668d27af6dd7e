"""Where learning starts: a network's first parameters, and those of a layer that comes on top."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Key

from latentbits.core.arrays import Array
from latentbits.core.model import Summary
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.settings import Settings
from latentbits.models.noisy_or.state import State

__all__ = ["add_layer", "init", "keeping_layers"]


def init(net: Settings, key: Key[Array, ""], summary: Summary) -> Params:
    """Draw weights of the first layer, and none above it yet; in the paper's learning all of them."""
    sizes = [len(summary.mean), *net.layer_sizes]
    weights = tuple(jnp.zeros((above, below)) for below, above in pairwise(sizes))
    first = jnp.full(sizes[0], jnp.maximum(tuning.START_INPUT_BIAS, net.leak) if net.bias else net.leak)
    params = Params(weights, (first, *(jnp.full(size, tuning.START_HIDDEN_BIAS) for size in net.layer_sizes)))
    for layer in range(1, net.n_layers + 1 if net.paper else 2):
        params = _with_new_layer(net, layer, jax.random.fold_in(key, layer), params)
    return params


def add_layer(net: Settings, layer: int, key: Key[Array, ""], params: Params, state: State | None) -> Params:
    """Add a layer between two stages, on the host."""
    return _with_new_layer(net, layer, key, params)


@partial(jax.jit, static_argnums=1)
def _with_new_layer(net: Settings, layer: int, key: Key[Array, ""], params: Params) -> Params:
    """Draw hidden layer `layer` (from 1) of the network."""
    weights, biases = list(params.weights), list(params.biases)
    shape = weights[layer - 1].shape
    weights[layer - 1] = jax.random.uniform(key, shape, jnp.float64, *tuning.START_WEIGHTS)
    if layer > 1:
        kept = tuning.START_BIAS_SHARE * biases[layer - 1] if net.bias else jnp.zeros_like(biases[layer - 1])
        biases[layer - 1] = jnp.maximum(kept, net.leak)
    return Params(tuple(weights), tuple(biases))


def keeping_layers(init: Any, learned: Params) -> Any:
    """Make an `init` whose lower layers have been learned already."""
    return Partial(_keep, init, learned)


def _keep(init: Any, learned: Params, key: Key[Array, ""], summary: Summary) -> Params:
    (net,) = init.args
    params, n = init(key, summary), len(learned.weights)
    n_biases = n if net.paper else n + 1  # `add_layer` has yet to take from those of the layer that was on top
    weights = (*map(jnp.asarray, learned.weights), *params.weights[n:])
    return Params(weights, (*map(jnp.asarray, learned.biases[:n_biases]), *params.biases[n_biases:]))
