"""The contract of engines: whoever makes the passes, every family learns the same parameters.

They are equal to the bit, since all add chunks in one fixed tree.  Only a model with a state per row may differ in
memory, within what a fit is worth, since all others start every row anew at every pass.

Spawned workers and workers that are killed: `engines/test_dask.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import dask
import jax
import numpy as np
import on_workers
import pytest
from cases import CASES, each
from scripts import printed_by

from latentbits.engines.chunks import layout_for, rechunk
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Elsewhere
from latentbits.engines.stream import StreamEngine

FLOAT32 = np.dtype(np.float32)
STATED = 2e-3  # by how much a family with a state per row may differ in memory
# plain EM of two stages, each cut off after a few passes: the second begins where the first stood
CUT_OFF = {"trait maps by the bound, then by nodes": 0.01}


@contextmanager
def in_memory(table):
    yield MemoryEngine(table)


@contextmanager
def streamed(sizes, table):
    """The table in batches of the given sizes, in rotation."""

    def batches():
        first, number = 0, 0
        while first < len(table):
            size = sizes[number % len(sizes)]
            yield table[first : first + size]
            first, number = first + size, number + 1

    yield StreamEngine(batches, table.shape[1])


@contextmanager
def in_blocks(table):
    """Of Dask, one after the other."""
    engine = on_workers.on_dask(table, (110, 1, 203))
    assert isinstance(engine, Elsewhere)
    with dask.config.set(scheduler="synchronous"):
        yield engine


WAYS = {
    "in memory": in_memory,
    "in batches": partial(streamed, (7, 300, 1)),
    "in equal batches": partial(streamed, (64,)),
    "in Dask's blocks": in_blocks,
}


@pytest.fixture(params=each(CASES), scope="module")
def case(request):
    return request.param


@pytest.fixture(scope="module")
def expected(case):
    """A stream of one batch."""
    return on_workers.alone(case)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_learns_the_same_parameters(case, expected, way):
    with WAYS[way](case.table) as engine:
        found = on_workers.learned(case, engine)
    if way == "in memory" and case.model.start_rows is not None:
        for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(expected.params), strict=True):
            near = CUT_OFF.get(case.name, STATED)
            np.testing.assert_allclose(a, b, rtol=near, atol=near)
    else:
        assert on_workers.same_bits(found, expected)


def test_the_budget_makes_several_chunks(case):
    """Otherwise the test before this one would compare nothing."""
    layout = layout_for(case.model.row_floats(case.table.shape[1]), FLOAT32, on_workers.BUDGET)
    assert sum(1 for _ in rechunk([case.table], layout)) > 1


# ---------------------------------------------------------------- processes of their own


@pytest.mark.slow
def test_two_dask_workers_learn_the_same_parameters():
    """What the run-time checks have wrapped cannot be pickled, and here there are none."""
    pytest.importorskip("distributed")
    assert printed_by("on_workers.py", "threads", 2).count("has the same bits") == len(CASES)


@pytest.mark.slow
def test_one_and_four_devices_learn_the_same_parameters():
    """The number of virtual devices is fixed when JAX begins."""
    printed = printed_by("on_devices.py", 1, 4)
    assert printed.count("has the same bits") == len(on_workers.NAMES)
    # all but small batches, and clipped Gaussians, whose rows are packed into one chunk
    assert int(printed.splitlines()[-1].split()[0]) >= len(on_workers.NAMES) - 3
