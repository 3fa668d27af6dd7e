"""How much of each bit of a row every unit of a noisy-OR network explains, as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.estimators.explanations import shares_of
from latentbits.reports.networks import checked_network, project_down, strengths

__all__ = ["Credit", "credit_of", "project_down", "strengths"]


class Credit(NamedTuple):
    """Shares of a row's inputs that the units of one layer explain.

    Attributes
    ----------
    layer
        From 1.
    units : (k,) array
        Numbers of those that are on.
    shares : (k, d) array
        Of each input that is on, the share that comes from the unit; 0 for an input that is off or missing.
    rest : (d,) array
        What comes from none of the layer: from the biases of the layers below it.
    """

    layer: int
    units: np.ndarray
    shares: np.ndarray
    rest: np.ndarray


def credit_of(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    row: np.ndarray,
    states: Sequence[np.ndarray] | np.ndarray,
) -> list[Credit]:
    """Divide the explained inputs of a row among the units that are on, layer by layer.

    Of an input that is on, a unit of the lowest layer has the share w / u (`shares_of`), and one of a higher layer what
    its children have, times its share in each of them.  With the rest, the shares of a layer add up to one.

    Parameters
    ----------
    weights, biases : sequences of arrays
    row : (d,) array of 0 and 1, NaN for missing
    states : sequence of (units,) arrays of 0 and 1, or one array of all units side by side
        Of the hidden layers, bottom first: the most probable ones, for instance, a row of ``posterior(X).mode``.

    Returns
    -------
    list of Credit, bottom first

    Examples
    --------
    >>> weights, biases = [np.array([[3.0, 1.0], [0.0, 1.0]])], [np.array([1.0, 1.0]), np.ones(2)]
    >>> found = credit_of(weights, biases, np.array([1, 0]), [np.array([1, 1])])[0]
    >>> found.shares.tolist(), found.rest.tolist()
    ([[0.75, 0.0], [0.0, 0.0]], [0.25, 0.0])
    """
    network = checked_network(weights, biases)
    if np.ndim(states[0]) == 0:
        states = np.split(np.asarray(states), np.cumsum(network.sizes[1:])[:-1])
    layers = [np.nan_to_num(np.asarray(one, np.float64)) for one in (row, *states)]
    if [one.shape for one in layers] != [(size,) for size in network.sizes]:
        raise DataError(
            f"a row and states of layers of {network.sizes} units expected, found {[one.shape for one in layers]}"
        )
    found = []
    passed = np.diag(layers[0])
    for below, (weight, bias) in enumerate(zip(network.weights, network.biases)):
        parents, children = layers[below + 1], layers[below]
        passed = shares_of(weight, bias, parents, children)[0] @ passed
        units = np.flatnonzero(parents > 0)
        found.append(Credit(below + 1, units, passed[units], layers[0] - passed.sum(0)))
    return found
