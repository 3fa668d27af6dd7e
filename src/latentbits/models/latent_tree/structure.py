"""Which column hangs from which: the tree of the largest mutual information (Chow & Liu 1968), and in which order sums
run over it.

Sums take several columns at a time, whose children have all been done: matrix products of one shape, whatever the tree.
Taking those first that are farthest from the root needs the fewest steps (Hu 1961).  How many at a time depends on the
tree: of a chain two can be done, from both ends.  Leaves, of which there is less to do, come before all others.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from latentbits.core.pair_counts import Stats

__all__ = ["Structure", "cells", "is_order", "joint_probabilities", "mutual_information", "ordered", "spanning_tree"]

WIDTHS = (1, 2, 4, 8, 16)  # columns at a time
STEP = 1.0  # what a step costs beside its columns, in columns
EIGHTHS = 8  # of the next power of two: to which numbers of steps are rounded, so that trees share their programs


class Structure(NamedTuple):
    """A forest over the columns."""

    parent: np.ndarray  # of each column; that of a root is d, one more than the last
    # (steps, width) columns with others below them, and roots, in an order in which children come before their
    # parents; d + 1 where there is none
    steps: np.ndarray
    leaves: np.ndarray  # (batches, width) all other columns, filled up in the same way


def cells(counts: Stats) -> np.ndarray:
    """Count the rows in which x_i = a and x_j = b, (2, 2, d, d)."""
    both, left, pairs = (np.asarray(x, float) for x in (counts.pair_ones, counts.pair_left, counts.pair_observed))
    return np.stack([np.stack([pairs - left - left.T + both, left.T - both]), np.stack([left - both, both])])


def joint_probabilities(counts: Stats, smoothing: float) -> np.ndarray:
    """Estimate P(x_i = a, x_j = b), (2, 2, d, d), with `smoothing` pseudo-rows of independent columns.

    These have the smoothed mean of each column, so margins agree.
    """
    ones, seen = np.asarray(counts.ones, float), np.asarray(counts.observed, float)
    mean = (ones + smoothing / 2) / np.maximum(seen + smoothing, 1e-300)
    mean = np.where(seen + smoothing > 0, mean, 0.5)
    own = np.stack([1 - mean, mean])
    by_chance = own[:, None, :, None] * own[None, :, None, :]
    total = np.asarray(counts.pair_observed, float) + smoothing
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (cells(counts) + smoothing * by_chance) / total
    return np.where(total > 0, np.clip(found, 0, 1), by_chance)


def mutual_information(joint: np.ndarray) -> np.ndarray:
    """Compute the mutual information of pairs of columns in nats, (d, d); 0 on the diagonal."""
    left, right = joint.sum(1, keepdims=True), joint.sum(0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * (np.log(joint) - np.log(left) - np.log(right))
    found = np.nansum(np.where(joint > 0, terms, 0), axis=(0, 1))
    np.fill_diagonal(found, 0)
    return np.maximum(found, 0)


def spanning_tree(information: np.ndarray) -> Structure:
    """Find the tree whose edges have the most mutual information in all, rooted in its middle."""
    d = len(information)
    if d == 1:
        return ordered(np.array([1]))
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
    return ordered(np.where(parent < 0, d, parent))


def ordered(parent: np.ndarray) -> Structure:
    """Choose the order in which sums run over a forest.

    >>> ordered(np.array([1, 2, 4, 2])).steps.ravel().tolist()  # column 2 is the root, and 0 and 3 are leaves
    [1, 2]
    """
    d = len(parent)
    leaves = np.flatnonzero((np.bincount(parent, minlength=d + 1)[:d] == 0) & (parent < d))
    every = [_filled(_steps(parent, leaves, width), width, d) for width in WIDTHS]
    steps = min(every, key=lambda one: len(one) * (one.shape[1] + STEP))
    width = max(width for width in WIDTHS if width <= max(len(leaves), 1))
    batches = [leaves[first : first + width].tolist() for first in range(0, len(leaves), width)]
    return Structure(parent.astype(np.int32), steps, _filled(batches, width, d))


def _steps(parent: np.ndarray, leaves: np.ndarray, width: int) -> list[list[int]]:
    """Group the columns that are no leaves into steps of at most `width`."""
    d = len(parent)
    waiting = np.bincount(np.delete(parent, leaves), minlength=d + 1).tolist()  # children that are no leaves
    depth = _depths(parent)
    ready = [(-int(depth[j]), j) for j in np.setdiff1d(np.arange(d), leaves).tolist() if waiting[j] == 0]
    heapq.heapify(ready)
    steps: list[list[int]] = []
    while ready:
        now = [heapq.heappop(ready)[1] for _ in range(min(width, len(ready)))]
        for column in now:
            up = int(parent[column])
            waiting[up] -= 1
            if up < d and waiting[up] == 0:
                heapq.heappush(ready, (-int(depth[up]), up))
        steps.append(now)
    return steps


def _depths(parent: np.ndarray) -> np.ndarray:
    """Count the columns above each column."""
    d = len(parent)
    depth, up = np.zeros(d, int), parent
    while (up < d).any():  # trees are hung up in their middle, so paths are short
        depth += up < d
        up = np.append(parent, d)[up]
    return depth


def _filled(parts: list[list[int]], width: int, d: int) -> np.ndarray:
    """Fill parts up to rows of one length, and to a rounded number of rows."""
    step = max(1, (1 << (max(len(parts), 1) - 1).bit_length()) // EIGHTHS)
    found = np.full((-(-len(parts) // step) * step, width), d + 1, np.int32)
    for row, part in zip(found, parts):
        row[: len(part)] = part
    return found


def is_order(parent: np.ndarray, steps: np.ndarray, leaves: np.ndarray) -> bool:
    """Check that every column is listed once, leaves apart, and each of the others before its parent.

    >>> none = np.zeros((0, 1), int)
    >>> is_order(np.array([2, 2, 3]), np.array([[2]]), np.array([[0, 1]]))
    True
    >>> is_order(np.array([1, 0]), np.array([[0, 1]]), none), is_order(np.array([1, 2]), np.array([[1], [0]]), none)
    (False, False)
    """
    d = len(parent)
    if parent.min(initial=0) < 0 or parent.max(initial=0) > d or steps.ndim != 2 or leaves.ndim != 2:
        return False
    last, inner = leaves[leaves != d + 1], steps[steps != d + 1]
    if not np.array_equal(np.sort(np.append(inner, last)), np.arange(d)):
        return False
    if np.isin(parent, last).any() or (parent[last] == d).any():
        return False
    when = np.full(d + 2, -1)
    when[steps] = np.arange(len(steps))[:, None]
    when[d:] = len(steps)
    return bool(np.all(when[:d] < when[parent]))
