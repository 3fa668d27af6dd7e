"""Sums over chunks in one fixed tree, so that every process and device adds them in the same order.

Additions of floating-point numbers do not associate.  The tree is the binary one over the numbers of the chunks: 0 and
1, 2 and 3, then those pairs, and so on.  A run of neighbouring chunks, wherever it is summed, comes to a few whole
branches of that tree, and branches in order come to the total, with the bits that one process would have found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from latentbits.core import tree

__all__ = ["Branch", "TreeSum"]


class Branch(NamedTuple):
    """The statistics of 2, 4, 8... chunks from a multiple of that number on, in float64; those of one as they are."""

    first: int
    n_chunks: int
    stats: PyTree

    def copied(self) -> Branch:
        """Copy the branch to the host."""
        return self._replace(stats=jax.tree.map(np.array, self.stats))


class TreeSum:
    """Adds up branches, which come in the order of their chunks; what is added may be added to in place.

    >>> total = TreeSum(Branch(i, 1, np.float32(i)) for i in range(2, 7))
    >>> [(one.first, one.n_chunks, float(one.stats)) for one in total.branches]
    [(2, 2, 5.0), (4, 2, 9.0), (6, 1, 6.0)]
    """

    def __init__(self, branches: Iterable[Branch] = ()) -> None:
        self.branches: list[Branch] = []
        for one in branches:
            self.add(one)

    def add(self, branch: Branch) -> None:
        """One more, beside the last one."""
        held = self.branches
        while held and held[-1].n_chunks == branch.n_chunks and held[-1].first % (2 * branch.n_chunks) == 0:
            left = held.pop()
            branch = Branch(left.first, 2 * left.n_chunks, tree.added(left.stats, branch.stats))
        held.append(branch)

    def total(self) -> PyTree:
        """Add all branches, the smaller first; statistics of a single chunk come back unchanged."""
        *rest, total = (one.stats for one in self.branches)
        for stats in reversed(rest):
            total = tree.added(stats, total)
        return total
