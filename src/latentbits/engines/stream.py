"""The engine for tables larger than memory: rows are read again at every pass and never held.

They are read, encoded and cut by a thread of their own while the chunks before them are computed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from latentbits.core import processor
from latentbits.core.errors import DataError
from latentbits.engines.chunks import Chunk, Layout, rechunk
from latentbits.engines.dask import DaskEngine
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.read_ahead import read_ahead

__all__ = ["StreamEngine", "moved"]


class StreamEngine:
    """Serves chunks from a factory of row blocks: a generator function, a memory map in slices, several files.

    Parameters
    ----------
    factory
        Called at the start of every pass, by a separate thread; gives an iterator of encoded blocks (uint8 bits or
        floats), of any sizes, and must give the same rows every time: others are refused, by their checksum.
    n_features
        Number of columns.
    numbered
        Of a table whose rows can be read by number: how many there are, and a function from row numbers to
        encoded rows; None for a stream.
    weights
        How often each row counts, float64, by row number; None for once.
    packed
        Whether the blocks of the factory hold complete bits, eight to a byte.  They stay so on the way to an
        accelerator, and are unpacked there; on a CPU the thread that reads them unpacks them, while others compute.
    """

    keeps_rows = False

    def __init__(
        self,
        factory: Callable[[], Iterable[np.ndarray]],
        n_features: int,
        numbered: tuple[int, Callable[[np.ndarray], np.ndarray]] | None = None,
        weights: np.ndarray | None = None,
        packed: bool = False,
    ) -> None:
        self.factory = factory
        self.packed = packed
        self.n_features = n_features
        self.numbered = numbered
        self.weights = weights
        self._seen: _Seen | None = None

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """Return the stream's chunks, in order; a few chunks and one block are in memory at a time."""
        if self.packed and processor.accelerated():
            return read_ahead(lambda: rechunk(self._same_rows(), layout, self.weights, packed=self.n_features))
        return read_ahead(lambda: rechunk(self._unpacked(), layout, self.weights, complete=self.packed))

    def blocks(self) -> Iterable[np.ndarray]:
        """Return the blocks of one more reading, a byte for each bit."""
        return read_ahead(self._unpacked)

    def _unpacked(self) -> Iterator[np.ndarray]:
        if not self.packed:
            return self._same_rows()
        return (np.unpackbits(block, axis=1, count=self.n_features) for block in self._same_rows())

    def _same_rows(self) -> Iterator[np.ndarray]:
        """Yield the blocks, and at their end an error if they were not those of the first complete reading.

        The checksum is of all bytes in a row: it does not depend on how they are cut into blocks.
        """
        n_rows, checksum = 0, 0
        for block in self.factory():
            n_rows, checksum = n_rows + len(block), zlib.crc32(np.ascontiguousarray(block).data, checksum)
            yield block
            del block
        found = _Seen(n_rows, checksum)
        if self._seen is None:
            self._seen = found
        if self._seen != found:
            how = "other rows in one pass than in another"
            if n_rows != self._seen.n_rows:
                how = f"{self._seen.n_rows} rows in one pass and {n_rows} in another"
            raise DataError(f"X gives {how}: learning reads it many times, and it must give the same rows each time")


class _Seen(NamedTuple):
    """Facts about one complete reading."""

    n_rows: int
    checksum: int


def moved(engine: Engine, by: np.ndarray) -> Engine:
    """Add a number to each column of rows of real numbers, in full precision, on an engine of the same kind."""
    if isinstance(engine, MemoryEngine):
        return MemoryEngine(engine.table + by, engine.weights)
    if isinstance(engine, DaskEngine):
        return engine.moved(by)
    blocks = lambda: (block + by for block in engine.blocks())  # noqa: E731
    return StreamEngine(blocks, engine.n_features, weights=engine.weights)
