"""Counts of pairs of bits against products of matrices in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import pair_counts
from latentbits.core.batch import MISSING, make_batch
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian import tetrachoric


@pytest.mark.parametrize(("how", "missing"), [("popcount", 0.3), ("product", 0.0)])
def test_pairs_are_counted(how, missing, monkeypatch):
    rng = np.random.default_rng(0)
    table = (rng.random((333, 7)) < 0.4).astype(np.uint8)
    table[rng.random(table.shape) < missing] = MISSING
    padded = np.zeros((360, 7), np.uint8)
    padded[:333] = table
    monkeypatch.setattr(pair_counts, "_pairs", getattr(pair_counts, f"_by_{how}"))
    monkeypatch.setattr(pair_counts, "BLOCK_COLUMNS", 3)  # that does not divide the columns
    numbers = jnp.uint32(0), jnp.uint32(333), seed_key(0)
    batch = make_batch(jnp.asarray(padded), *numbers, missing == 0, np.dtype(np.float32))
    found = jax.jit(pair_counts.count)(batch)
    ones, seen = (table == 1).astype(int), (table != MISSING).astype(int)
    for name, expected in (
        ("ones", ones.sum(0)),
        ("observed", seen.sum(0)),
        ("pair_ones", ones.T @ ones),
        ("pair_left", ones.T @ seen),
        ("pair_observed", seen.T @ seen),
    ):
        np.testing.assert_array_equal(getattr(found, name), expected, err_msg=name)
    assert found.n_rows == 333
    for mine, theirs in zip(jax.tree.leaves(found), tetrachoric.count(table)):
        np.testing.assert_array_equal(mine, theirs)
