"""The engine for Dask collections: passes over the rows are made in whatever workers Dask has.

Rows are cut into runs of whole canonical chunks by their global numbers, near the borders of the user's own blocks.  A
pass is one task for each run, which is given the functions and the parameters of the pass, and gives back branches of
the fixed tree in which every engine sums (`engines/tree_sum.py`); so a fit has the bits of one in memory, however many
workers there are, and whichever of them dies.  What a task needs is in the graph: the parameters are a task of their
own once a pass, and runs are made from the user's collection, so that Dask can make again what a worker took with it.
(Data that is scattered would be lost with its worker.)  Runs are kept in the workers of a `distributed` client where
they fit, and read again at every pass elsewhere.

Functions travel by value, once a process: a function that is unpickled for each task would be compiled for each task.
"""

from __future__ import annotations

import math
import pickle
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from latentbits.engines.chunks import Chunk, Layout, Run, rechunk, run_chunks
from latentbits.engines.passes import Work

__all__ = ["DaskEngine", "active_client"]

MERGED_RESULTS = 16  # results of runs are merged in groups of this size, so that the client gets few
KEPT_MEMORY_SHARE = 0.5  # rows may take this part of the memory of all workers
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 10.0, 600.0  # a client asks again after these, at first and in the end
# of a large graph there is a warning to scatter data instead, which does not outlive its worker
WHOLE_GRAPHS = {"distributed.admin.large-graph-warning-threshold": 2**63}
OF_CLIENTS = (None, "distributed", "dask.distributed")  # names of the scheduler under which an active client computes


class DaskEngine:
    """Has passes made where the blocks of a Dask collection are.

    Learning from small batches (updates after every few rows) takes one block after the other into this process,
    since each update waits for the one before.  So does whatever asks for chunks or blocks.

    Parameters
    ----------
    sources
        Delayed blocks of rows, of any kind and size.
    lengths
        How many rows each has.
    n_features
        Number of columns.
    encode
        From a block and the number of its first row to encoded rows; it travels to the workers.
    bits
        Whether rows are bits, encoded as bytes; else they are real numbers.
    weights
        How often each row counts, float64, by row number; None for once.
    """

    keeps_rows = False

    def __init__(
        self,
        sources: Sequence[Any],
        lengths: Sequence[int],
        n_features: int,
        encode: Callable[[Any, int], np.ndarray],
        bits: bool,
        weights: np.ndarray | None = None,
    ) -> None:
        self.sources, self.lengths, self.encode, self.bits = list(sources), list(lengths), encode, bits
        self.n_features, self.weights = n_features, weights
        self.starts = [0, *np.cumsum(self.lengths).tolist()]
        self.n_rows: int = self.starts[-1]
        self._cut: list[tuple[Run, Any]] = []

    # ---------------------------------------------------------------- in this process

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """Yield the canonical chunks in this process; one chunk and one block are in its memory at a time."""
        yield from rechunk(self.blocks(), layout, self.weights)

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield encoded blocks, one after the other, in this process."""
        for rows in [rows for _, rows in self._cut] or self._encoded():
            yield rows.compute()

    # ---------------------------------------------------------------- in the workers

    def on_runs(
        self, work: Work, given: PyTree, layout: Layout, merge: Callable[[list[Any]], Any] | None = None
    ) -> list[Any]:
        """Do work on each run of chunks; return results in order, merged until there are few where `merge` is given."""
        import dask

        parts = self.delayed_runs(work, given, layout)
        while merge is not None and len(parts) > MERGED_RESULTS:
            merged = dask.delayed(merge, pure=False)
            parts = [merged(parts[i : i + MERGED_RESULTS]) for i in range(0, len(parts), MERGED_RESULTS)]
        return _computed(parts)

    def delayed_runs(self, work: Work, given: PyTree, layout: Layout, when: Any = True) -> list[Any]:
        """Delay work on each run of chunks; it gives None where `when`, which may be delayed, is false."""
        import dask

        leaves, structure = jax.tree.flatten(given)
        # numbers of Python stay as they are: they are programs of their own
        leaves = [np.asarray(x) if hasattr(x, "dtype") else x for x in leaves]
        leaves = dask.delayed(leaves, pure=False, traverse=False)
        task, how = dask.delayed(_on_run, pure=False), _Structure(structure)
        return [
            task(work, how, leaves, rows, run, layout, self._weights_of(run), when) for run, rows in self.runs(layout)
        ]

    def lazy_rows(self, parts: list[Any], like: PyTree, layout: Layout) -> PyTree:
        """Return results of runs as Dask arrays in the blocks of the collection, a tree of them.

        Parameters
        ----------
        parts
            Delayed trees, one for each run.
        like
            The tree of one run: shapes and dtypes; arrays without an axis are the same in every run.
        layout
            That of the runs.
        """
        import dask
        import dask.array as da

        shapes, structure = jax.tree.flatten(like)
        leaves_of = dask.delayed(jax.tree.leaves, pure=False)
        leaves = [leaves_of(part) for part in parts]
        arrays = []
        for i, shape in enumerate(shapes):
            if not shape.shape:
                arrays.append(da.from_delayed(leaves[0][i], (), shape.dtype))
                continue
            pieces = [
                da.from_delayed(leaf[i], (run.n_rows, *shape.shape[1:]), shape.dtype)
                for leaf, (run, _) in zip(leaves, self.runs(layout))
            ]
            arrays.append(da.concatenate(pieces).rechunk({0: tuple(self.lengths)}))
        return jax.tree.unflatten(structure, arrays)

    def on_blocks(self, work: Callable[[np.ndarray, int], Any]) -> list[Any] | None:
        """Do work on each encoded block, given the number of its first row; None where rows are no bits."""
        import dask

        if not self.bits:
            return None
        task = dask.delayed(work, pure=False)
        return _computed([task(block, first) for block, first in zip(self._encoded(), self.starts)])

    def runs(self, layout: Layout) -> list[tuple[Run, Any]]:
        """Return runs of whole chunks, with their delayed rows; kept until a layout comes that they do not fit."""
        size, _ = layout.sizes(self.n_rows)
        size *= layout.parts(self.n_rows if self.n_rows < layout.rows_of_few(self.n_features) else None)
        if not self._cut or any(run.first % size for run, _ in self._cut):
            self._cut = []  # the old ones go before the new ones come
            borders = sorted({0, self.n_rows, *(round(start / size) * size for start in self.starts[1:-1])})
            borders = [border for border in borders if border <= self.n_rows]
            cut = [Run(a, b - a, self.n_rows) for a, b in pairwise(borders)]
            encoded = self._encoded()
            self._cut = list(zip(cut, self._kept([self._rows(encoded, run) for run in cut])))
        return self._cut

    def moved(self, by: np.ndarray) -> DaskEngine:
        """Return the rows with a number added to each column."""
        return DaskEngine(self.sources, self.lengths, self.n_features, _Moved(self.encode, by), self.bits, self.weights)

    def _encoded(self) -> list[Any]:
        import dask

        task = dask.delayed(self.encode, pure=False)
        return [task(block, first) for block, first in zip(self.sources, self.starts)]

    def _rows(self, encoded: list[Any], run: Run) -> Any:
        """Return the rows of a run: a block, or parts of some."""
        import dask

        pieces, last = [], run.first + run.n_rows
        for i in range(bisect_right(self.starts, run.first) - 1, bisect_left(self.starts, last)):
            block, start, end = encoded[i], self.starts[i], self.starts[i + 1]
            a, b = max(start, run.first), min(end, last)
            if a < b:
                whole = (a, b) == (start, end)
                pieces.append(block if whole else dask.delayed(_piece, pure=False)(block, a - start, b - start))
        return pieces[0] if len(pieces) == 1 else dask.delayed(_joined, pure=False)(pieces)

    def _kept(self, rows: list[Any]) -> list[Any]:
        """Return the same rows, in the memory of the workers where they have room for them."""
        import dask

        client = active_client()
        if client is None or not rows:
            return rows
        workers = client.scheduler_info(n_workers=-1)["workers"].values()  # some versions list five unless asked
        room = KEPT_MEMORY_SHARE * sum(worker["memory_limit"] or math.inf for worker in workers)  # 0 is no limit
        bytes_ = self.n_rows * self.n_features * (1 if self.bits else 8)
        if bytes_ > room:
            return rows
        with dask.config.set(WHOLE_GRAPHS):
            return list(dask.persist(*rows))

    def _weights_of(self, run: Run) -> np.ndarray | None:
        return None if self.weights is None else self.weights[run.first : run.first + run.n_rows]


@dataclass(frozen=True)
class _Moved:
    """Encodes blocks, and adds to them."""

    encode: Callable[[Any, int], np.ndarray]
    by: np.ndarray

    def __call__(self, block: Any, first_row: int) -> np.ndarray:
        return self.encode(block, first_row) + self.by


class _Structure:
    """The structure of a tree with the functions it holds, which travels by value and arrives once in a process."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (_sent(self.structure),)


@lru_cache(maxsize=64)
def _sent(structure: Any) -> bytes:
    import cloudpickle

    return cloudpickle.dumps(jax.tree.unflatten(structure, [0] * structure.num_leaves))


@lru_cache(maxsize=64)
def _received(held: bytes) -> _Structure:
    return _Structure(jax.tree.structure(pickle.loads(held)))


def _on_run(
    work: Work,
    how: _Structure,
    leaves: list[np.ndarray],
    rows: np.ndarray,
    run: Run,
    layout: Layout,
    weights: np.ndarray | None,
    when: bool,
) -> Any:
    """One task."""
    if not when:
        return None
    return work(jax.tree.unflatten(how.structure, leaves), run_chunks(rows, run, layout, weights), layout)


def _piece(rows: np.ndarray, first: int, last: int) -> np.ndarray:
    return rows[first:last].copy()  # a view would travel, and be kept, with the whole block


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(pieces)


def _computed(parts: list[Any]) -> list[Any]:
    """By the scheduler that Dask has been given."""
    import dask

    client = active_client()
    if client is None:
        return list(dask.compute(*parts))
    with dask.config.set(WHOLE_GRAPHS):
        return _gathered(client, parts)


def _gathered(client: Any, parts: list[Any]) -> list[Any]:
    """From the workers of a client.

    When a worker dies while its answer is fetched, the client may miss the word that the answer is there again, and
    wait for ever.  To ask for the same keys once more has the scheduler repeat what it knows of them, and computes
    nothing that is there or under way.
    """
    found: list[Any] = []
    futures, patience = client.compute(parts), FIRST_WAIT_SECONDS
    while len(found) < len(futures):
        try:
            found.append(futures[len(found)].result(timeout=patience))
        except TimeoutError:
            futures, patience = client.compute(parts), min(2 * patience, LONGEST_WAIT_SECONDS)
    return found


def active_client() -> Any:
    """Find the client of `distributed` that computes Dask's tasks; None where there is none, or another scheduler."""
    distributed = sys.modules.get("distributed")  # who has a client has imported it
    if distributed is None:
        return None
    import dask

    if dask.config.get("scheduler", None) not in OF_CLIENTS:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None
