"""Trees of the largest mutual information, against all trees, and the orders in which sums run over them."""

from __future__ import annotations

from itertools import combinations

import jax
import numpy as np
import pytest
from tests.models.latent_tree.twin import rows
from tests.models.steps import batch_of

from latentbits.core.pair_counts import count
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_tree.structure import (
    is_order,
    joint_probabilities,
    mutual_information,
    ordered,
    spanning_tree,
)


def test_the_structure_is_the_best_of_all_trees():
    rng = np.random.default_rng(0)
    for d in (2, 3, 5):
        trees = [some for some in combinations(combinations(range(d), 2), d - 1) if _joins(some, d)]
        for _ in range(5):
            information = rng.random((d, d))
            information = information + information.T
            found = spanning_tree(information).parent
            value = sum(information[j, p] for j, p in enumerate(found) if p < d)
            assert np.isclose(value, max(sum(information[a, b] for a, b in some) for some in trees))
            assert np.sum(found == d) == 1


def _joins(edges, d):
    """Say whether these edges make one tree of all columns."""
    group = list(range(d))
    for a, b in edges:
        old, new = group[a], group[b]
        if old == new:
            return False
        group = [new if x == old else x for x in group]
    return True


def test_mutual_information_by_its_definition():
    table = rows(200, 3, 0.2, seed=2)
    table[:, 1] = np.where(table[:, 0] == 255, table[:, 1], table[:, 0])
    with double():
        counts = to_numpy(jax.jit(lambda table: count(batch_of(table, np.ones(200))))(table))
    joint, smoothed = (joint_probabilities(counts, smoothing) for smoothing in (0.0, 2.0))
    found = mutual_information(joint)
    means = np.array([(np.sum(table[:, j] == 1) + 1) / (np.sum(table[:, j] != 255) + 2) for j in range(3)])
    for i, j in combinations(range(3), 2):
        both = (table[:, i] != 255) & (table[:, j] != 255)
        cells = np.array([[np.sum(both & (table[:, i] == a) & (table[:, j] == b)) for b in (0, 1)] for a in (0, 1)])
        q = cells / cells.sum()
        outer = q.sum(1, keepdims=True) * q.sum(0)
        np.testing.assert_allclose(found[i, j], np.sum(q[q > 0] * np.log((q / outer)[q > 0])), atol=1e-12)
        by_chance = np.outer([1 - means[i], means[i]], [1 - means[j], means[j]])  # as two more rows would have them
        np.testing.assert_allclose(smoothed[:, :, i, j], (cells + 2 * by_chance) / (cells.sum() + 2))


@pytest.mark.parametrize("shape", ["chain", "star", "random", "pairs"])
def test_orders_have_every_column_after_what_hangs_from_it(shape):
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 9, 40):
        parent = {
            "chain": np.arange(1, d + 1),
            "star": np.array([d, *[0] * (d - 1)]),
            "random": np.array([d, *(rng.integers(0, j) for j in range(1, d))]),
            "pairs": np.array([d if j % 2 == 0 else j - 1 for j in range(d)]),
        }[shape]
        found = ordered(parent)
        assert is_order(*found)
        assert d <= 3 or shape != "random" or not is_order(np.roll(found.parent, 1), found.steps, found.leaves)
