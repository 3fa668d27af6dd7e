"""Noisy-OR networks as plain arrays: checked, named, and projected down to the inputs.

A network is given as `NoisyOrNetwork` has it: `weights`, bottom first, one (parents, children) array for each hidden
layer, and `biases`, one array a layer, the inputs first.  Layers are counted from 1, the lowest hidden one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = ["Network", "checked_network", "names_of", "project_down", "strengths"]


class Network(NamedTuple):
    """Weights and biases that fit each other, in float64."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of all layers, inputs first."""
        return tuple(len(bias) for bias in self.biases)


def checked_network(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> Network:
    """Make a network of the arrays, or say what is wrong with them.

    >>> checked_network([np.ones((2, 3))], [np.ones(3), np.ones(2)]).sizes
    (3, 2)
    """
    found = Network(
        tuple(np.asarray(one, np.float64) for one in weights), tuple(np.asarray(one, np.float64) for one in biases)
    )
    if not weights or len(biases) != len(weights) + 1:
        raise DataError(
            f"a network has one layer of weights or more, and one layer of biases more; found {len(weights)} and "
            f"{len(biases)}"
        )
    for layer, weight in enumerate(found.weights):
        shape = (found.biases[layer + 1].size, found.biases[layer].size)
        if weight.shape != shape or found.biases[layer].ndim != 1 or found.biases[layer + 1].ndim != 1:
            raise DataError(
                f"weights[{layer}] must be {shape}, (parents, children), to fit its biases; found {weight.shape}"
            )
    if not all(np.isfinite(one).all() and (one >= 0).all() for one in (*found.weights, *found.biases)):
        raise DataError("weights and biases of a noisy-OR network must be finite and not negative")
    return found


def names_of(layer: int, n_units: int) -> list[str]:
    """Name the units of a layer, as columns of `NoisyOrNetwork.transform`.

    >>> names_of(2, 3)
    ['h2_0', 'h2_1', 'h2_2']
    """
    return [f"h{layer}_{unit}" for unit in range(n_units)]


def strengths(weights: np.ndarray) -> np.ndarray:
    """Compute f = 1 - exp(-w): how often a cause, were it the only one, turns its child on.

    >>> strengths(np.log([1.25, 2.0])).round(3).tolist()
    [0.2, 0.5]
    """
    return -np.expm1(-np.asarray(weights, np.float64))


# --- down to the inputs ---


def project_down(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    layer: int | None = None,
    states: np.ndarray | None = None,
) -> np.ndarray:
    """Compute P(input is on | states of a layer): what its units, each alone, make the inputs look like.

    Units between the layer and the inputs are averaged over, each on with its own probability p:

        P(child is off) = exp(-b) prod_i E[exp(-S_i w_i)] = exp(-b) prod_i (1 - p_i f_i),      f = 1 - exp(-w)

    This is exact where parents are independent given `states`, that is for the two layers next below.  Farther down it
    leaves out that parents have causes in common; as these can only make them agree, what it gives is then too large,
    never too small.

    Parameters
    ----------
    weights, biases : sequences of arrays
        As `NoisyOrNetwork.weights_` and `biases_`.
    layer : int, optional
        From 1, the lowest hidden layer; else the top.
    states : (n, units of the layer) array of 0 and 1, optional
        Else each unit alone, in their order.

    Returns
    -------
    (n, d) array

    Examples
    --------
    >>> certain, never = 30.0, 0.0
    >>> lines = np.array([[certain, certain, never], [never, never, certain]])
    >>> both = [lines, np.array([[certain, np.log(2.0)]])]  # always the first, every other time the second
    >>> project_down(both, [np.zeros(3), np.zeros(2), np.zeros(1)]).round(3).tolist()
    [[1.0, 1.0, 0.5]]
    """
    network = checked_network(weights, biases)
    layer = len(network.weights) if layer is None else layer
    if not 1 <= layer <= len(network.weights):
        raise DataError(f"layer must be from 1 to {len(network.weights)}, found {layer!r}")
    on = np.eye(network.sizes[layer]) if states is None else np.asarray(states, np.float64)
    if on.ndim != 2 or on.shape[1] != network.sizes[layer]:
        raise DataError(f"states of layer {layer} must be (n, {network.sizes[layer]}), found {on.shape}")
    for below in reversed(range(layer)):
        on = _one_layer_down(on, network.weights[below], network.biases[below])
    return on


def _one_layer_down(on: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Compute P(child is on), (n, children), of parents that are on independently with probabilities `on`."""
    off = np.exp(-bias) * np.ones((len(on), 1))
    for parent, strength in enumerate(strengths(weight)):  # no (n, parents, children) array
        off = off * (1 - on[:, parent, None] * strength)
    return 1 - off
