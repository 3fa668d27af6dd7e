"""How many parameters of a tree rows can tell of, against the rank of all changes of their probabilities."""

from __future__ import annotations

from itertools import product

import jax
import numpy as np
import pytest
from tests.models.latent_tree.twin import joint_of, random_params

from latentbits.models.latent_tree.dimension import dimension

RANKED = [
    ([3, 0, 1], [1, 1, 1]),
    ([3, 0, 1], [2, 2, 2]),
    ([1, 4, 1, 2], [2, 3, 3, 2]),
    ([4, 0, 1, 2], [3, 3, 3, 3]),
    ([4, 0, 0, 0], [3, 2, 2, 4]),
    ([5, 0, 1, 2, 3], [2, 2, 2, 2, 2]),
    ([5, 0, 1, 2, 3], [4, 4, 4, 4, 4]),
    ([5, 0, 0, 0, 2], [4, 2, 3, 2, 1]),
    ([6, 0, 0, 1, 1, 2], [2, 2, 2, 2, 2, 2]),
    ([6, 0, 1, 2, 3, 4], [3, 3, 3, 3, 3, 3]),
    ([6, 0, 0, 1, 1, 2], [3, 4, 3, 2, 2, 3]),
    ([6, 0, 6, 2, 2, 4], [2, 3, 1, 2, 3, 2]),
    ([4, 0, 0, 0], [8, 8, 8, 8]),
]


def probabilities(p):
    """Give P(row) of all rows, with one column after the other, from leaves to roots."""
    parent, d = p.parent[0], p.parent.shape[1]
    every = np.array(list(product([0, 1], repeat=d)))
    inside = np.where(every[..., None] == 1, p.emission[0], 1 - p.emission[0])  # by rows, columns and states

    def depth(j):
        return 0 if parent[j] == d else 1 + depth(parent[j])

    total = 1.0
    for j in sorted(range(d), key=depth, reverse=True):
        message = inside[:, j] @ p.transition[0, j].T
        if parent[j] == d:
            total = total * message[:, 0]
        else:
            inside[:, parent[j]] *= message
    return total


def test_the_probabilities_ranked_here_are_those_of_all_states():
    p = random_params([[1, 4, 1, 2]], [2, 3, 3, 2], seed=1)
    every = np.array(list(product([0, 1], repeat=4)))
    np.testing.assert_allclose(probabilities(p), joint_of(p, every)[0].sum((0, 1)))


@pytest.mark.parametrize(("parent", "sizes"), RANKED)
def test_parameters_are_as_many_as_ways_to_change(parent, sizes):
    """The rank of what the probabilities of all rows change by; they are linear in each parameter."""
    d = len(parent)
    p = jax.tree.map(np.array, random_params([parent], sizes, seed=1))
    there = p.transition > 0
    there[p.parent == d, 1:] = False  # a root has one distribution

    def changes(name, where):
        at = getattr(p, name)
        before, at[where] = at[where], 1.0
        most = probabilities(p)
        at[where] = 0.0
        least = probabilities(p)
        at[where] = before
        return most - least

    found = [changes("emission", where) for where in np.ndindex(p.emission.shape)]
    for above in zip(*np.nonzero(there.any(3))):
        each = np.array([changes("transition", (*above, t)) for t in np.flatnonzero(there[above])])
        found += list(each[1:] - each[0])  # shares that add up to 1
    values = np.linalg.svd(np.array(found), compute_uv=False)
    assert dimension(np.array(parent), np.array(sizes), np.ones(d, bool)) == np.sum(values > 1e-10 * values[0])


def test_columns_that_never_vary_have_no_parameters():
    few = dimension(np.array([-1, 0, 0]), np.full(3, 2), np.ones(3, bool))
    wide = np.array([-1, 0, 0, 2, 3])
    assert dimension(wide, np.full(5, 2), np.array([True, True, True, False, False])) == few
    assert dimension(np.array([-1]), np.array([4]), np.array([False])) == 0
    # a variable whose bit says nothing, between others
    assert dimension(np.array([3, 3, 3, -1]), np.array([2, 2, 2, 2]), np.array([True, True, True, False])) == 7
