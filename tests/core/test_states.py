from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core.states import all_states, count_sparse_states, sparse_states, state_block


@pytest.mark.parametrize("m", [0, 1, 5])
def test_all_states_are_all_and_different(m):
    states = all_states(m)
    assert {tuple(s) for s in states.tolist()} == set(product([0, 1], repeat=m))
    assert len(states) == 2**m


def test_blocks_make_up_the_whole():
    m, count = 6, 16
    block = jax.jit(state_block, static_argnums=(1, 2))
    blocks = [np.asarray(block(jnp.asarray(first), count, m)) for first in range(0, 2**m, count)]
    np.testing.assert_array_equal(np.concatenate(blocks), all_states(m))


@pytest.mark.parametrize(("m", "k"), [(5, 0), (5, 2), (5, 5), (4, 9)])
def test_sparse_states_are_those_of_all_states(m, k):
    states = sparse_states(m, k)
    expected = {tuple(s) for s in all_states(m).tolist() if sum(s) <= k}
    assert {tuple(s) for s in states.tolist()} == expected
    assert len(states) == count_sparse_states(m, k) == len(expected)
    assert (np.diff(states.sum(1).astype(int)) >= 0).all()


def test_bounds_are_named():
    with pytest.raises(ValueError, match="m must be between 0 and 24"):
        all_states(25)
    with pytest.raises(ValueError, match="max_active"):
        sparse_states(3, -1)
