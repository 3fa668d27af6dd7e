"""Networks and rows to try, and what is expected of the hidden states by `latentbits.models.noisy_or.equations`."""

from __future__ import annotations

from itertools import pairwise

import jax.numpy as jnp
import numpy as np

from latentbits.models.noisy_or.equations import Network, Sums, all_hidden, causal_input, noisy_or, posterior, sums
from latentbits.models.noisy_or.network import Params


def some_network(sizes: tuple[int, ...], seed: int = 0, scale: float = 1.0, bias: float = 0.1) -> Network:
    """Draw weights, some strong and many weak; `sizes` has the inputs first."""
    rng = np.random.default_rng(seed)
    weights = [rng.gamma(0.6, scale, (up, down)) for down, up in pairwise(sizes)]
    biases = [rng.uniform(0.2, 2.0, n) * bias for n in sizes]
    biases[-1] = rng.uniform(0.2, 0.8, sizes[-1])
    return Network(weights, biases)


def as_params(network: Network, dtype: type = np.float64) -> Params:
    """Give the same to the library; float64 inside `latentbits.core.tree.double` alone."""
    weights, biases = ([jnp.asarray(np.asarray(v, dtype)) for v in layers] for layers in network)
    return Params(tuple(weights), tuple(biases))


def draw(network: Network, n: int, seed: int = 0, missing: float = 0.0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draw rows, some inputs NaN, and the hidden states they come from, each (rows, units)."""
    rng = np.random.default_rng(seed)
    above, drawn = np.zeros((n, 0)), []
    causes = [*network.weights, np.zeros((0, len(network.biases[-1])))]  # the top layer has none
    for weights, bias in zip(reversed(causes), reversed(network.biases), strict=True):
        above = (rng.random((n, len(bias))) < noisy_or(bias + above @ weights)).astype(float)
        drawn.insert(0, above)
    x = drawn[0]
    x[rng.random(x.shape) < missing] = np.nan
    return x, drawn[1:]


def posterior_means(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """P(S_i = 1 | row) for each hidden layer, (rows, units)."""
    shares = np.array([posterior(network, row)[0] for row in x])
    return [shares @ states for states in all_hidden(network)]


def completion(network: Network, x: np.ndarray) -> np.ndarray:
    """P(bit = 1 | row) for each input: that of a second copy of it, beside the one that may have been seen."""
    on = noisy_or(causal_input(network, 0, all_hidden(network)))
    return np.array([posterior(network, row)[0] @ on for row in x])


def expected_sums(network: Network, x: np.ndarray, weight: np.ndarray) -> Sums:
    """What (9) sums, over rows and all hidden states, each as probable as it is."""
    states = all_hidden(network)
    parts = [
        sums(network, np.tile(row, (len(states[0]), 1)), states, row_weight * posterior(network, row)[0])
        for row, row_weight in zip(x, weight, strict=True)
    ]
    return Sums(*([sum(layers) for layers in zip(*field, strict=True)] for field in zip(*parts, strict=True)))
