"""The engine for tables that fit in memory: chunks are put on their device once and stay there.

On an accelerator complete bits are held eight to a byte, and travel so: an eighth of its memory and of the traffic.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.errors import JaxRuntimeError

from latentbits.core import processor
from latentbits.core.errors import is_out_of_memory
from latentbits.core.tree import rows_in
from latentbits.engines.chunks import Chunk, Layout, is_complete, rechunk
from latentbits.engines.devices import device_of
from latentbits.engines.threads import by_slices

__all__ = ["MemoryEngine", "distinct", "on_device"]

BITS = np.dtype(np.uint8)


class MemoryEngine:
    """Serves the chunks of an encoded table (uint8 bits or floats, see `latentbits.core.batch`).

    Parameters
    ----------
    table
        Encoded rows, (n, d).
    weights
        How often each row counts, float64; None for once.
    complete
        Whether nothing is missing, where that is known; else it is looked for when it is asked for.
    packs
        Whether bits are held eight to a byte; None where that pays, on accelerators.  Bits with holes never are.
    """

    keeps_rows = True

    def __init__(
        self,
        table: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        complete: bool | None = None,
        packs: bool | None = None,
    ) -> None:
        self.table, self.weights = table, weights
        self.n_features = table.shape[1]
        if complete is not None:
            self.complete = complete
        self._packs = packs
        self._layout: Layout | None = None
        self._chunks: list[Chunk] = []
        self._stays = False  # the devices have no room for the table

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """Yield the table's chunks, in order; a layout's chunks are made at its first use and kept until another's."""
        layout = layout.of_table(len(self.table))
        # bits are the same bytes in every precision
        held = layout._replace(dtype=BITS) if self.table.dtype == BITS and self.weights is None else layout
        if held != self._layout:
            self._chunks = []  # the old ones go before the new ones come
            rows, packed = (self._packed, self.n_features) if self.packs else (self.table, None)
            cut = rechunk([rows], layout, self.weights, complete=self.complete, packed=packed)
            with rows_in(layout.dtype):
                self._chunks = self._placed(list(cut), layout)
            self._layout = held
        yield from self._chunks

    def _placed(self, chunks: list[Chunk], layout: Layout) -> list[Chunk]:
        """On their devices; where these have no room for all, here, from where each is sent when it is needed."""
        if self._stays:
            return chunks
        try:
            return [c if c.on_host else on_device(c, device_of(c.number, layout)) for c in chunks]
        except JaxRuntimeError as error:
            if not is_out_of_memory(error):
                raise
        self._stays = True
        n, d = self.table.shape
        warnings.warn(
            f"the device has no room for the {n} x {d} table: rows are sent there at every pass, which takes longer",
            RuntimeWarning,
            stacklevel=2,
        )
        return chunks

    @cached_property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return is_complete(self.table)

    @property
    def holds_complete_bits(self) -> bool:
        """Whether rows are bits of which none is missing."""
        return self.table.dtype == BITS and self.complete

    @property
    def packs(self) -> bool:
        """Whether bits are held eight to a byte."""
        # Measured on two cores of a CPU (mixture of 8, 256 columns): passes over packed rows take 1.1 times as long,
        # since they are unpacked at each, and memory is not what they wait for.
        wanted = processor.accelerated() if self._packs is None else self._packs
        return wanted and self.holds_complete_bits

    @cached_property
    def _packed(self) -> np.ndarray:
        """The table, eight bits to a byte: kept, since stages of learning may cut it differently."""
        n, d = self.table.shape
        width = -(-d // 8)
        packed = np.empty((n, width), BITS)

        def pack(some: slice) -> None:
            rows = np.ascontiguousarray(self.table[some])
            if d % 8:
                rows = np.pad(rows, ((0, 0), (0, 8 * width - d)))
            # of one long row: NumPy keeps the interpreter, and with it the other threads, while rows are short
            packed[some] = np.packbits(rows.reshape(-1)).reshape(-1, width)

        for _ in by_slices(pack, self.table):
            pass
        return packed

    def blocks(self) -> Iterable[np.ndarray]:
        """Return the table, as one block."""
        return [self.table]


def on_device(chunk: Chunk, device: jax.Device | None) -> Chunk:
    """Return the chunk with its rows there; None for the first device."""
    values, weights = jax.device_put((chunk.values, chunk.weights), device)
    return chunk._replace(values=values, weights=weights)


def distinct(engine: Any) -> Any:
    """Return rows of bits that are alike as one, which counts as often as all of them; other engines as they are."""
    if not isinstance(engine, MemoryEngine) or engine.table.dtype != BITS:
        return engine
    rows, which = np.unique(engine.table, axis=0, return_inverse=True)
    return MemoryEngine(rows, np.bincount(which, engine.weights).astype(np.float64))
