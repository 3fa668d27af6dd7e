"""Which column hangs from which: the tree of the largest mutual information (Chow & Liu 1968), and in which order sums
run over it.

A pass over a tree takes `width` nodes at a time, whose children have all been done: as matrix products of one shape,
whatever the tree.  Taking those first that are farthest from the root needs the fewest steps (Hu 1961).
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from latentbits.core.pair_counts import Stats

__all__ = ["Structure", "is_order", "joint_probabilities", "mutual_information", "spanning_tree"]

WIDTH = 8  # nodes at a time
ROUND_TO = 8  # steps, so that trees of nearly one depth share their programs


class Structure(NamedTuple):
    """A forest over the columns.

    Attributes
    ----------
    parent
        Of each column; that of a root is d, one more than the last.
    steps
        (steps, width) columns in an order in which children come before their parents; d + 1 where there is none.
    """

    parent: np.ndarray
    steps: np.ndarray


def joint_probabilities(counts: Stats, smoothing: float) -> np.ndarray:
    """P(x_i = a, x_j = b), (2, 2, d, d), as if so many more rows had been seen, with independent columns.

    These have the smoothed mean of each column, so margins agree.
    """
    ones, seen = np.asarray(counts.ones, float), np.asarray(counts.observed, float)
    mean = (ones + smoothing / 2) / np.maximum(seen + smoothing, 1e-300)
    mean = np.where(seen + smoothing > 0, mean, 0.5)
    both, left, pairs = (np.asarray(x, float) for x in (counts.pair_ones, counts.pair_left, counts.pair_observed))
    own = np.stack([1 - mean, mean])
    by_chance = own[:, None, :, None] * own[None, :, None, :]
    cells = np.stack([np.stack([pairs - left - left.T + both, left.T - both]), np.stack([left - both, both])])
    total = pairs + smoothing
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (cells + smoothing * by_chance) / total
    return np.where(total > 0, np.clip(found, 0, 1), by_chance)


def mutual_information(joint: np.ndarray) -> np.ndarray:
    """In nats, (d, d), of pairs of columns; 0 on the diagonal."""
    left, right = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * (np.log(joint) - np.log(left) - np.log(right))
    found = np.nansum(np.where(joint > 0, terms, 0), axis=(0, 1))
    np.fill_diagonal(found, 0)
    return np.maximum(found, 0)


def spanning_tree(information: np.ndarray, width: int = WIDTH) -> Structure:
    """The tree whose edges have the most mutual information in all, hung up in its middle."""
    d = len(information)
    if d == 1:
        return Structure(np.array([1]), _steps(np.array([1]), width))
    # the library finds the smallest sum, and takes a 0 for no edge: distances are positive, and larger for less
    distance = 1 + information.max() - information
    np.fill_diagonal(distance, 0)
    edges = minimum_spanning_tree(distance).tocsr()
    edges = edges + edges.T
    far = breadth_first_order(edges, 0, directed=False)[0][-1]
    order, before = breadth_first_order(edges, far, directed=False)
    path = [order[-1]]
    while path[-1] != far:
        path.append(before[path[-1]])
    root = path[len(path) // 2]
    parent = breadth_first_order(edges, root, directed=False)[1]
    parent = np.where(parent < 0, d, parent)
    return Structure(parent.astype(np.int32), _steps(parent, width))


def _steps(parent: np.ndarray, width: int) -> np.ndarray:
    d = len(parent)
    children: list[int] = np.bincount(parent, minlength=d + 1).tolist()
    depth = np.zeros(d, int)
    for node in range(d):  # trees are hung up in their middle, so paths are short
        up = parent[node]
        while up < d:
            depth[node] += 1
            up = parent[up]
    ready = [(-int(depth[node]), node) for node in range(d) if children[node] == 0]
    heapq.heapify(ready)
    steps: list[list[int]] = []
    while ready:
        now = [heapq.heappop(ready)[1] for _ in range(min(width, len(ready)))]
        for node in now:
            up = int(parent[node])
            children[up] -= 1
            if up < d and children[up] == 0:
                heapq.heappush(ready, (-int(depth[up]), up))
        steps.append(now + [d + 1] * (width - len(now)))
    steps += [[d + 1] * width] * (-len(steps) % ROUND_TO)
    return np.array(steps, np.int32)


def is_order(parent: np.ndarray, steps: np.ndarray) -> bool:
    """Whether these steps have every column once, and each before the one that it hangs from.

    >>> is_order(np.array([2, 2, 3]), np.array([[0, 1], [2, 4]])), is_order(np.array([1, 0]), np.array([[0, 1]]))
    (True, False)
    """
    d = len(parent)
    if parent.min(initial=0) < 0 or parent.max(initial=0) > d or steps.ndim != 2:
        return False
    when = np.full(d + 2, len(steps) + 1)
    nodes = steps[steps != d + 1]
    if not np.array_equal(np.sort(nodes), np.arange(d)):
        return False
    when[steps] = np.arange(len(steps))[:, None]
    when[d:] = len(steps) + 1
    return bool(np.all(when[:d] < when[parent]))
