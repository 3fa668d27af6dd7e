"""Sums in a fixed tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from latentbits.engines.tree_sum import Branch, TreeSum


def by_halves(values, first=0):
    """The tree of the docstring, from its top: the largest power of two to the left."""
    if len(values) == 1:
        return np.float64(values[0])
    half = 1 << (len(values) - 1).bit_length() - 1
    return by_halves(values[:half]) + by_halves(values[half:])


@settings(max_examples=25)
@given(st.integers(1, 70), st.lists(st.integers(1, 70), max_size=8), st.integers(0, 2**32 - 1))
def test_any_runs_come_to_the_same_bits(n, cuts, seed):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)).astype(np.float32)
    borders = sorted({0, n, *(cut for cut in cuts if cut < n)})
    runs = [range(a, b) for a, b in zip(borders, borders[1:])]  # noqa: RUF007
    parts = [TreeSum(Branch(i, 1, values[i]).copied() for i in run).branches for run in runs]
    total = TreeSum(branch for part in parts for branch in part).total()
    assert float(total) == float(by_halves(values))


def test_what_is_read_only_or_narrow_is_not_added_to_in_place():
    a, b = np.ones(3), np.ones(3, np.float32)
    a.flags.writeable = False
    total = TreeSum([Branch(0, 1, a), Branch(1, 1, b)]).total()
    np.testing.assert_array_equal(total, 2)
    total = TreeSum([Branch(0, 1, b), Branch(1, 1, b)]).total()
    assert total.dtype == np.float64
    np.testing.assert_array_equal(b, 1)
