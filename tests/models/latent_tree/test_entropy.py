"""Shares that are worth their entropy, too; the sweep that asks for them is tested with the model."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.models.latent_tree.twin import close

from latentbits.core.tree import double
from latentbits.models.latent_tree.entropy import best_shares


def shares(counts, bonus, worths, there=True):
    with double():
        return np.asarray(jax.jit(best_shares)(counts, bonus, worths, np.broadcast_to(there, counts.shape)))


@pytest.mark.parametrize("worth", [1e-9, 1.0, 1e2, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_shares_are_where_the_slope_is_the_same_for_all(worth, spread):
    """A concave sum under one constraint has no other top."""
    rng = np.random.default_rng(0)
    counts, bonus = rng.gamma(0.3, size=(30, 5)) * 10 + 1e-3, rng.random((30, 5)) * spread
    counts[:10, :2] = 0
    worths = worth * rng.uniform(0.5, 2, 30)
    found = shares(counts, bonus, worths)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    # t times the slope, whose second part is 0 where t is
    logs = np.log(np.where(found > 0, found, 1))
    times = counts + worths[:, None] * found * (bonus - logs)
    off = times - found * times.sum(1, keepdims=True)
    assert np.all(np.abs(off) < 1e-12 * (counts.sum(1) + worths * (1 + spread))[:, None])
    assert np.all(found[counts > 0] > 0)


def test_shares_without_counts_or_worth():
    counts, bonus, worths = np.zeros((30, 5)), np.tile([1.0, 2, 5, 0, 0], (30, 1)), np.zeros(30)
    counts[1, :2], worths[0] = [1, 3], 2
    found = shares(counts, bonus, worths, np.arange(5) < 2)
    close(found[:2], [[1 / (1 + np.e), np.e / (1 + np.e), 0, 0, 0], [0.25, 0.75, 0, 0, 0]])
    assert np.all(np.isnan(found[2:]))
