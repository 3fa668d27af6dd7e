"""The noisy-OR network in plain NumPy and float64, straight from Lewicki & Sejnowski (1996): every sum over all states.

A missing input is NaN and is left out.  States of the hidden layers are lists of 0/1 arrays, bottom first, with the
units along its last axis.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from latentbits.models.noisy_or.network import Params


class Network(NamedTuple):
    """`weights` (parents, children), bottom first; `biases` of each layer, inputs first."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]


class Expected(NamedTuple):
    """Sums over rows for the update (9), as `latentbits.models.noisy_or.enumeration.Statistics` has them."""

    counts: list[np.ndarray]
    credits: list[np.ndarray]
    bias_counts: list[np.ndarray]
    bias_credits: list[np.ndarray]


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
        above = (rng.random((n, len(bias))) < 1 - np.exp(-(bias + above @ weights))).astype(float)
        drawn.insert(0, above)
    x = drawn[0]
    x[rng.random(x.shape) < missing] = np.nan
    return x, drawn[1:]


def causal_input(network: Network, layer: int, states: list[np.ndarray]) -> np.ndarray:
    """(2), for the units of a layer (0 are the inputs)."""
    u = network.biases[layer]
    return u + states[layer] @ network.weights[layer] if layer < len(states) else u


def log_joint(network: Network, x: np.ndarray, states: list[np.ndarray]) -> np.ndarray:
    """log of (1), of one row or of many."""
    total = np.float64(0.0)
    for layer, values in enumerate([x, *states]):
        u = causal_input(network, layer, states)
        terms = np.where(values == 1, np.log(-np.expm1(-u)), -u)
        total = total + np.where(np.isnan(values), 0, terms).sum(-1)
    return total


def all_hidden(network: Network) -> list[np.ndarray]:
    """List every state of all hidden layers together, layer by layer, (states, units)."""
    sizes = [len(w) for w in network.weights]
    return np.split(np.array(list(product([0.0, 1.0], repeat=sum(sizes)))), np.cumsum(sizes)[:-1], axis=1)


def posterior(network: Network, x: np.ndarray) -> tuple[np.ndarray, float]:
    """Probability of each of `all_hidden` given one row, and the row's evidence."""
    logs = log_joint(network, x, all_hidden(network))
    log_sum = np.logaddexp.reduce(logs)
    return np.exp(logs - log_sum), log_sum


def log_evidence(network: Network, x: np.ndarray) -> np.ndarray:
    """log p(x) of each row."""
    return np.array([posterior(network, row)[1] for row in x])


def posterior_means(network: Network, x: np.ndarray) -> list[np.ndarray]:
    """P(S_i = 1 | row) for each hidden layer, (rows, units)."""
    shares = np.array([posterior(network, row)[0] for row in x])
    return [shares @ states for states in all_hidden(network)]


def completion(network: Network, x: np.ndarray) -> np.ndarray:
    """P(bit = 1 | row) for each input: that of a second copy of it, beside the one that may have been seen."""
    on = 1 - np.exp(-causal_input(network, 0, all_hidden(network)))
    return np.array([posterior(network, row)[0] @ on for row in x])


def expected_statistics(network: Network, x: np.ndarray, weight: np.ndarray) -> Expected:
    """Sum S_i m_j and S_i S_j m_j / g_j over rows and all hidden states."""
    counts, credits = ([np.zeros_like(w) for w in network.weights] for _ in range(2))
    bias_counts, bias_credits = ([np.zeros_like(b) for b in network.biases] for _ in range(2))
    states = all_hidden(network)
    for row, row_weight in zip(x, weight, strict=True):
        p = row_weight * posterior(network, row)[0]
        for layer, values in enumerate([np.broadcast_to(row, (len(p), len(row))), *states]):
            seen = ~np.isnan(values)
            credit = np.where(seen, values, 0) / (1 - np.exp(-causal_input(network, layer, states)))
            bias_counts[layer] += p @ seen
            bias_credits[layer] += p @ credit
            if layer < len(states):
                above = (p[:, None] * states[layer]).T
                counts[layer] += above @ seen
                credits[layer] += above @ credit
    return Expected(counts, credits, bias_counts, bias_credits)
