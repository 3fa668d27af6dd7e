"""The engine for tables that fit in memory: chunks are put on their device once and stay there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import jax
import numpy as np

from latentbits.core.tree import rows_in
from latentbits.engines.chunks import Chunk, Layout, is_complete, rechunk
from latentbits.engines.devices import device_of

__all__ = ["MemoryEngine", "on_device"]


class MemoryEngine:
    """Serves the chunks of an encoded table (uint8 bits or floats, see `latentbits.core.batch`).

    Parameters
    ----------
    table
        Encoded rows, (n, d).
    weights
        How often each row counts, float64; None for once.
    """

    keeps_rows = True

    def __init__(self, table: np.ndarray, weights: np.ndarray | None = None) -> None:
        self.table, self.weights = table, weights
        self.n_features = table.shape[1]
        self._layout: Layout | None = None
        self._chunks: list[Chunk] = []

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """The table's chunks, in order; a layout's chunks are made at its first use and kept until another's."""
        if layout != self._layout:
            self._chunks = []  # the old ones go before the new ones come
            with rows_in(layout.dtype):
                self._chunks = [
                    on_device(chunk, device_of(chunk.number, layout))
                    for chunk in rechunk([self.table], layout, self.weights)
                ]
            self._layout = layout
        yield from self._chunks

    @cached_property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return is_complete(self.table)

    def blocks(self) -> Iterable[np.ndarray]:
        """The table, as one block."""
        return [self.table]


def on_device(chunk: Chunk, device: jax.Device | None) -> Chunk:
    """The chunk with its rows there; None for the first device."""
    values, weights = jax.device_put((chunk.values, chunk.weights), device)
    return chunk._replace(values=values, weights=weights)
