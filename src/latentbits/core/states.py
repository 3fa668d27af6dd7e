"""Tables of binary states: all of them, those with few active units, and the n-th block of a long enumeration."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Int, UInt8

from latentbits.core.arrays import Array, namespace

__all__ = ["all_states", "count_sparse_states", "sparse_states", "state_block"]


def all_states(m: int) -> UInt8[np.ndarray, "states {m}"]:
    """Return all ``2**m`` states of m binary units; unit i is bit i of the state's number.

    >>> all_states(2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    if not 0 <= m <= 24:
        raise ValueError(f"m must be between 0 and 24 to hold all 2**m states at once, got {m}; use state_block")
    numbers = np.arange(2**m, dtype=np.uint32)
    return ((numbers[:, None] >> np.arange(m, dtype=np.uint32)) & 1).astype(np.uint8)


def state_block(first: Int[Array, ""], count: int, m: int) -> UInt8[Array, "{count} {m}"]:
    """Return states number ``first`` to ``first + count - 1`` of `all_states`, without holding the others.

    Traced with a running `first`, it lets a loop sum over 2**m states in blocks (m up to 31).

    >>> import jax.numpy as jnp
    >>> state_block(jnp.asarray(2), 2, 2).tolist()
    [[0, 1], [1, 1]]
    """
    xp = namespace(first)
    numbers = first.astype("uint32") + xp.arange(count, dtype="uint32")
    return ((numbers[:, None] >> xp.arange(m, dtype="uint32")) & 1).astype("uint8")


def count_sparse_states(m: int, max_active: int) -> int:
    """Return the number of states of m units with at most `max_active` of them on.

    >>> count_sparse_states(5, 2)
    16
    """
    return sum(comb(m, k) for k in range(min(max_active, m) + 1))


def sparse_states(m: int, max_active: int) -> UInt8[np.ndarray, "states {m}"]:
    """Return states of m units with at most `max_active` on, the emptiest first.

    >>> sparse_states(3, 1).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    if max_active < 0:
        raise ValueError(f"max_active must be at least 0, got {max_active}")
    table = np.zeros((count_sparse_states(m, max_active), m), np.uint8)
    row = 0
    for k in range(min(max_active, m) + 1):
        for active in combinations(range(m), k):
            table[row, list(active)] = 1
            row += 1
    return table
