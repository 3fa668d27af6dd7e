"""Trees as plain arrays: where their columns are, and which edges chance would not make.

A tree is given as `LatentTree` has one of its: `parents`, the column that each hangs from, -1 for a root, and
`information`, what each has in common with that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from latentbits.core.errors import DataError

__all__ = [
    "BITS_PER_NAT",
    "around",
    "beyond_chance",
    "by_state",
    "checked_parents",
    "edges_of",
    "on_pixels",
    "outline",
    "state_shares",
    "touching",
]

BITS_PER_NAT = 1 / float(np.log(2))  # in a nat
N_PUSHES = 150  # times that columns push each other apart


class Outline(NamedTuple):
    """A tree from left to right: every column on a separate line, and as far in as it is from the root."""

    line: np.ndarray
    depth: np.ndarray


def checked_parents(parents: np.ndarray) -> np.ndarray:
    """Return parents as an array of numbers, or raise an error that says what is wrong with them.

    >>> checked_parents([-1, 0, 1]).tolist()
    [-1, 0, 1]
    """
    found = np.asarray(parents)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise DataError("parents must be one whole number a column, -1 for a root")
    if found.min() < -1 or found.max() >= len(found):
        raise DataError(f"parents must be columns from 0 to {len(found) - 1}, or -1 for a root")
    if len(_downward(found)) < len(found):
        raise DataError("parents are not those of a tree: there is a circle")
    return found


def _children(parents: np.ndarray, information: np.ndarray | None = None) -> list[list[int]]:
    """List the children of every column, then the roots; those with the most in common with the parent first."""
    d = len(parents)
    strength = np.zeros(d) if information is None else np.asarray(information)
    found: list[list[int]] = [[] for _ in range(d + 1)]
    for column in np.argsort(-strength, kind="stable").tolist():
        found[int(parents[column])].append(column)
    return found


def _downward(parents: np.ndarray) -> list[int]:
    """List columns, each after its parent; those of circles are left out."""
    children = _children(parents)
    order = list(children[-1])
    for column in order:
        order.extend(children[column])
    return order


def outline(parents: np.ndarray, information: np.ndarray) -> Outline:
    """Lay a tree out from left to right, so that neither edges nor names cross.

    Its children are above and below a column by turns, the strongest next to it.  All of a subtree is on lines
    that follow one another.

    >>> outline(np.array([-1, 0, 0, 2]), np.array([0.0, 0.1, 0.4, 0.2]))
    Outline(line=array([1, 0, 2, 3]), depth=array([0, 1, 1, 2]))
    """
    parents = checked_parents(parents)
    children, d = _children(parents, information), len(parents)
    depth, size = np.zeros(d, int), np.ones(d, int)
    order = _downward(parents)
    for column in order:
        depth[column] = 0 if parents[column] < 0 else depth[parents[column]] + 1
    for column in reversed(order):
        if parents[column] >= 0:
            size[parents[column]] += size[column]
    line, first = np.zeros(d, int), np.zeros(d, int)
    start = 0
    for root in children[-1]:
        first[root] = start
        start += size[root]
    for column in order:
        below, above = children[column][::2], children[column][1::2]
        place = first[column]
        for child in reversed(above):
            first[child] = place
            place += size[child]
        line[column] = place
        place += 1
        for child in below:
            first[child] = place
            place += size[child]
    return Outline(line, depth)


def around(parents: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Lay a tree out around its root, (d, 2), within a square from -1 to 1.

    Each subtree has a part of the circle by its size, as phylogenies without a root are drawn (equal angles); then
    columns push each other apart, and edges pull, for some steps (Fruchterman & Reingold 1991).

    >>> places = around(np.array([-1, 0, 0]), np.array([0.0, 0.2, 0.1]))
    >>> places.shape, bool(np.abs(places).max() <= 1)
    ((3, 2), True)
    """
    parents = checked_parents(parents)
    places = _equal_angles(parents, information)
    if len(parents) <= 600:  # more columns take too long to push each other apart
        places = _pushed_apart(places, parents)
    low, high = places.min(axis=0), places.max(axis=0)
    return (places - (low + high) / 2) / max(1e-9, float((high - low).max()) / 2)


def _equal_angles(parents: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Give each column its part of the circle: edges of length 1, none of which cross."""
    children, order, d = _children(parents, information), _downward(parents), len(parents)
    size = np.ones(d)
    for column in reversed(order):
        if parents[column] >= 0:
            size[parents[column]] += size[column]
    places, start, width = np.zeros((d, 2)), np.zeros(d), np.zeros(d)
    angle = 0.0
    several = len(children[-1]) > 1  # trees: none of them is in the middle
    for root in children[-1]:
        start[root], width[root] = angle, 2 * np.pi * size[root] / d
        angle += width[root]
        middle = start[root] + width[root] / 2
        places[root] = several * np.array([np.cos(middle), np.sin(middle)])
    for column in order:
        angle = start[column]
        for child in children[column]:
            start[child], width[child] = angle, width[column] * size[child] / max(1.0, size[column] - 1)
            angle += width[child]
            middle = start[child] + width[child] / 2
            places[child] = places[column] + [np.cos(middle), np.sin(middle)]
    return places


def _pushed_apart(places: np.ndarray, parents: np.ndarray) -> np.ndarray:
    own = np.flatnonzero(parents >= 0)
    for step in range(N_PUSHES):
        apart = places[:, None] - places[None]
        square = np.maximum(np.square(apart).sum(axis=2), 1e-3)
        push = (apart / square[:, :, None] ** 1.5).sum(axis=1)  # falls off fast: leaves stay apart, branches short
        along = places[own] - places[parents[own]]
        pull = along * np.linalg.norm(along, axis=1, keepdims=True)
        np.add.at(push, own, -pull)
        np.add.at(push, parents[own], pull)
        length = np.maximum(np.linalg.norm(push, axis=1, keepdims=True), 1e-9)
        places = places + push / length * np.minimum(length, 0.5 * (1 - step / N_PUSHES))
    return places


def on_pixels(shape: tuple[int, int]) -> np.ndarray:
    """Place columns that are the pixels of an image, (d, 2).

    >>> on_pixels((2, 2)).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    down, across = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return np.column_stack([across, down]).astype(float)


def edges_of(parents: np.ndarray, information: np.ndarray) -> np.ndarray:
    """List the columns that have a parent, those with the most in common with it first.

    >>> edges_of(np.array([1, -1, 1]), np.array([0.1, 0.0, 0.3])).tolist()
    [2, 0]
    """
    order = np.argsort(-np.asarray(information), kind="stable")
    return order[np.asarray(parents)[order] >= 0]


def beyond_chance(information: np.ndarray, n_rows: float) -> np.ndarray:
    """Mark edges with more in common than chance gives the best of all pairs of independent columns.

    Twice the rows times the information is about chi-squared with one degree of freedom (as a test of likelihoods),
    and each of the d (d - 1) / 2 pairs could have been an edge.

    `information`: nats.  `n_rows`: that it was counted in.
    """
    information = np.asarray(information)
    d = information.shape[-1]
    # 0.01 is the chance that any two of all columns have so much in common if all are independent
    return 2 * n_rows * information > chi2.isf(0.01 / max(1, d * (d - 1) // 2), 1)


def touching(parents: np.ndarray, shape: tuple[int, int]) -> tuple[int, int]:
    """Count the edges that join touching pixels (by a side or a corner), and all edges.

    >>> touching(np.array([-1, 0, 1, 0]), (2, 2))
    (3, 3)
    """
    places, own = on_pixels(shape), np.flatnonzero(parents >= 0)
    far = np.abs(places[own] - places[parents[own]]).max(axis=1)
    return int(np.sum(far <= 1)), len(own)


def state_shares(parents: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Compute P(state) of every column, (d, k), from P(state | state of the parent), (d, k, k).

    >>> halves = np.full((2, 2, 2), 0.5)
    >>> state_shares(np.array([-1, 0]), halves).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    found = np.zeros(transitions.shape[:2])
    for column in _downward(parents):
        above = parents[column]
        found[column] = transitions[column, 0] if above < 0 else found[above] @ transitions[column]
    return found


def by_state(transitions: np.ndarray, emissions: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort states by P(bit = 1 | state), the least first; states that do not exist come last.

    `transitions` (d, k, k): P(state | state of the parent), the latter first.  `emissions`: (d, k).
    """
    there = transitions.max(axis=1) > 0
    order = np.argsort(np.where(there, emissions, np.inf), axis=1, kind="stable")
    own = np.arange(len(parents))
    above = np.where((parents < 0)[:, None], np.arange(emissions.shape[1]), order[np.maximum(parents, 0)])
    sorted_transitions = transitions[own[:, None, None], above[:, :, None], order[:, None, :]]
    return sorted_transitions, np.take_along_axis(emissions, order, axis=1)
