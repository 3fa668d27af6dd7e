"""The engine for tables larger than memory: rows are read anew at every pass and never held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from latentbits.engines.chunks import Chunk, Layout, rechunk
from latentbits.engines.dask import DaskEngine
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine

__all__ = ["StreamEngine", "moved"]


class StreamEngine:
    """Serves chunks from a factory of row blocks: a generator function, a memory map in slices, several files.

    Parameters
    ----------
    factory
        Called at the start of every pass; gives an iterator of encoded blocks (uint8 bits or floats), of any sizes,
        and must give the same rows every time.
    n_features
        Number of columns.
    numbered
        Of a table whose rows can be asked for by number: how many there are, and a function from row numbers to
        encoded rows; None for a stream.
    weights
        How often each row counts, float64, by row number; None for once.
    """

    keeps_rows = False

    def __init__(
        self,
        factory: Callable[[], Iterable[np.ndarray]],
        n_features: int,
        numbered: tuple[int, Callable[[np.ndarray], np.ndarray]] | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        self.factory = factory
        self.n_features = n_features
        self.numbered = numbered
        self.weights = weights

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """The stream's chunks, in order; one chunk and one block are in memory at a time."""
        yield from rechunk(self.factory(), layout, self.weights)

    def blocks(self) -> Iterable[np.ndarray]:
        """The blocks of one more reading."""
        return self.factory()


def moved(engine: Engine, by: np.ndarray) -> Engine:
    """The rows of real numbers with a number added to each column, in full precision, on an engine of the same kind."""
    if isinstance(engine, MemoryEngine):
        return MemoryEngine(engine.table + by, engine.weights)
    if isinstance(engine, DaskEngine):
        return engine.moved(by)
    blocks = lambda: (block + by for block in engine.blocks())  # noqa: E731
    return StreamEngine(blocks, engine.n_features, weights=engine.weights)
