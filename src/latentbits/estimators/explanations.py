"""Explanation of a row by a noisy-OR network: which units are on in each layer, and what each of them explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Cause", "Explanation", "explanation_of", "shares_of"]


class Cause(NamedTuple):
    """A hidden unit that is on.

    Attributes
    ----------
    name
        ``h<layer>_<unit>``, as `get_feature_names_out` has it.
    layer, unit
        From 1, the lowest hidden layer; from 0.
    probability
        Posterior probability that it is on.
    explains
        The children that are on and to which it contributes, with its share of their causal input, w / u, the
        largest first; without inputs that are unexplained.
    """

    name: str
    layer: int
    unit: int
    probability: float
    explains: dict[str, float]


class Explanation(NamedTuple):
    """The most probable causes of a row.

    Attributes
    ----------
    causes
        Units that are on, one tuple a layer, the lowest first.
    unexplained
        Inputs that are on, more by their bias than by any cause, with the bias's share.
    log_joint
        log p(row, these states), in nats.
    """

    causes: tuple[tuple[Cause, ...], ...]
    unexplained: dict[str, float]
    log_joint: float

    def __str__(self) -> str:
        lines = []
        for layer, causes in reversed(list(enumerate(self.causes, 1))):
            lines.append(f"layer {layer}" + ("" if causes else ": nothing is on"))
            lines += [f"  {c.name} ({c.probability:.2f}): {', '.join(c.explains) or 'nothing'}" for c in causes]
        if self.unexplained:
            lines.append(f"unexplained: {', '.join(self.unexplained)}")
        return "\n".join(lines)


def shares_of(
    weight: np.ndarray, bias: np.ndarray, parents: np.ndarray, children: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Share out why units of a layer are on: among the units above them, and their biases.

    A unit with causal input u is on if at least one of Poisson(u) events happens to it, so that 1 - exp(-u) is its
    probability; w / u of these come from a cause with weight w, the others from other causes and the bias.

    `weight`: (parents, children).  `bias`: (children,).  `parents`, `children`: states, 0 or 1, of the units.
    Returns (parents, children) and (children,) arrays, 0 for what is off.  They add up to one for a child that is on.
    """
    total = np.maximum(bias + parents @ weight, np.finfo(float).tiny)
    return parents[:, None] * weight * children / total, bias * children / total


def explanation_of(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    names: Sequence[Sequence[str]],
    row: np.ndarray,
    states: Sequence[np.ndarray],
    means: Sequence[np.ndarray],
    log_joint: float,
) -> Explanation:
    """Find which unit explains which, by `shares_of`.

    `names`: names of the units of each layer, inputs first.  `row`: bits, NaN for missing.  `states`, `means`: states
    of the hidden layers and their means, bottom first.
    """
    layers = [np.nan_to_num(np.asarray(row, np.float64)), *states]
    causes, unexplained = [], {}
    for below, (weight, bias) in enumerate(zip(weights, biases[:-1], strict=True)):
        children, parents = layers[below], layers[below + 1]
        shares, alone = shares_of(weight, bias, parents, children)
        if below == 0:
            most = np.flatnonzero(alone > shares.max(0, initial=0.0)).tolist()
            unexplained = {names[0][j]: float(alone[j]) for j in most}
            shares[:, most] = 0  # what is called unexplained is not said to be explained too
        found = []
        for unit in np.flatnonzero(parents > 0).tolist():
            share = shares[unit]
            best = [j for j in np.argsort(-share, kind="stable").tolist() if share[j] >= 0.1]  # of the child
            explains = {names[below][j]: float(share[j]) for j in best}
            found.append(Cause(names[below + 1][unit], below + 1, unit, float(means[below][unit]), explains))
        causes.append(tuple(found))
    return Explanation(tuple(causes), unexplained, log_joint)
