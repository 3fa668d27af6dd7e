"""Canonical chunks: rows re-blocked by their global number.

Every engine feeds the same chunks in the same order, so sums are taken in one order and a fit does not depend on
how its rows happened to arrive.  Where the rows of a chunk need much room there are few of them, and a call of a
program costs more than it computes: several chunks, its parts, are then computed by one call, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import jax
import numpy as np

from latentbits.core.batch import MISSING, Packed, SparseRows
from latentbits.core.errors import DataError
from latentbits.engines.threads import by_slices

__all__ = ["Chunk", "Layout", "Run", "is_complete", "layout_for", "rechunk", "run_chunks", "until"]

# Few shapes, few compilations.  If the budget allows, small tables are padded to a power of two from the first of these
# numbers to the second, so that a part of a table has the programs of the whole; larger ones to a multiple of a 64th of
# the next power of two, which wastes little.
SMALLEST_PADDED_ROWS, SMALL_TABLE_ROWS = 256, 2048
FEWEST_ROWS, MOST_ROWS = 8, 2**18  # in a chunk, whatever the budget
FEW_CHUNKS, PEEKED_CELLS = 32, 2**22  # a table has few chunks if it has fewer, which is looked for in no more cells
CPU_BYTES = 2**24  # on a CPU a chunk should stay in the cache
ROWS_PER_CALL = 2048  # most rows that one call computes, in parts of fewer
FEWEST_CALLS = 16  # if the table has enough chunks: all cores should have work
MOST_CHUNKS_PER_CALL, WASTED_SHARE = 16, 0.1  # on other devices than CPUs; the share is of padding
MEMORY_PART = 16  # a chunk may take a 16th of the memory of a device: few chunks, since each costs a launch


class Layout(NamedTuple):
    """Way of cutting rows: at most `rows_per_chunk` at a time, an update after every `rows_per_update` (None: all).

    Real numbers are handed on in `dtype`; bits stay bytes.  A call computes up to `together` chunks.  With `sparse` an
    engine that has lists of ones gives these.  Functions of rows run in NumPy in tables of up to `host_rows` rows.
    """

    rows_per_chunk: int
    dtype: np.dtype
    rows_per_update: int | None = None
    together: int = 1  # a power of two
    sparse: bool = False
    host_rows: int = 0  # less than a chunk, where engines do not know the number of rows

    def rows_of_few(self, n_columns: int) -> int:
        """Return the rows below which a table has few chunks, known to each engine before it cuts the first."""
        chunks = PEEKED_CELLS // (self.rows_per_chunk * max(n_columns, 1))
        return self.rows_per_chunk * min(FEW_CHUNKS, max(1, chunks))

    def sizes(self, n_rows: int | None) -> tuple[int, int | None]:
        """Choose the rows of a padded chunk and of an update block; `n_rows` where the table is known to be small."""
        rows = self.rows_per_chunk
        if n_rows is not None and n_rows < rows:
            power = max(SMALLEST_PADDED_ROWS, 1 << (n_rows - 1).bit_length())
            step = power if power <= SMALL_TABLE_ROWS else max(SMALLEST_PADDED_ROWS, power // 64)
            rows = min(rows, -(-n_rows // step) * step)
        block = self.rows_per_update
        if block is not None:
            rows = -(-block // -(-block // rows))  # chunks of equal size that together make the block
        return rows, block

    def of_table(self, n_rows: int) -> Layout:
        """Adapt the layout to the number of rows of a table on devices: elsewhere than on a CPU a call costs more.

        Of each call something comes back, for which the host waits longer than a device takes for a chunk.  So several
        chunks are computed by one call, where that adds few rows to the last, and leaves a call to each device.
        """
        if jax.default_backend() == "cpu" or self.rows_per_update is not None or self.sparse:
            return self

        def padded(together: int) -> int:
            return -(-n_rows // (together * self.rows_per_chunk)) * together * self.rows_per_chunk

        most, together = max(padded(1), (1 + WASTED_SHARE) * n_rows), 1
        while (
            2 * together <= MOST_CHUNKS_PER_CALL
            and padded(2 * together) <= most
            and n_rows > (len(jax.local_devices()) - 1) * 2 * together * self.rows_per_chunk
        ):
            together *= 2
        return self._replace(together=together)

    def parts(self, n_rows: int | None) -> int:
        """Choose how many chunks one call computes; `n_rows` where the table is known to have few chunks."""
        if self.rows_per_update is not None:
            return 1
        parts = self.together
        while n_rows is not None and parts > 1 and n_rows < FEWEST_CALLS * parts * self.rows_per_chunk:
            parts //= 2
        return parts


class Chunk(NamedTuple):
    """Padded raw rows, of one canonical chunk or of several: see `latentbits.core.batch.make_batch`."""

    values: np.ndarray | jax.Array | Packed | SparseRows
    number: int
    first_row: int
    n_rows: int
    complete: bool
    ends_update: bool
    weights: np.ndarray | jax.Array | None  # of the padded rows, 0 for padding; None where each counts once
    few: bool  # the table is known to have few chunks: what is called once for each is called seldom
    parts: int = 1  # of equal numbers of rows
    on_host: bool = False  # functions of rows run in NumPy, and rows stay there


def layout_for(row_floats: int, dtype: np.dtype, budget: int | None = None, n_columns: int | None = None) -> Layout:
    """Choose the largest power-of-two chunk whose E-step stays within a memory budget (bytes).

    Given the number of columns, several of them in a call, if the rows themselves stay within it as well.
    """
    budget = budget or _device_budget()
    rows = int(np.clip(_power(budget // max(1, row_floats * dtype.itemsize)), FEWEST_ROWS, MOST_ROWS))
    if n_columns is None or jax.default_backend() != "cpu":
        return Layout(rows, dtype)
    room = budget // (rows * max(1, n_columns) * dtype.itemsize)
    return Layout(rows, dtype, together=_power(min(room, ROWS_PER_CALL // rows)))


def _power(n: int) -> int:
    """Return the largest power of two up to n, at least 1."""
    return 1 << max(n, 1).bit_length() - 1


@cache
def _device_budget() -> int:
    if jax.default_backend() == "cpu":
        return CPU_BYTES
    stats = jax.local_devices()[0].memory_stats() or {}
    return max(CPU_BYTES, stats.get("bytes_limit", 2**33) // MEMORY_PART)


def rechunk(
    blocks: Iterable[np.ndarray],
    layout: Layout,
    weights: np.ndarray | None = None,
    *,
    complete: bool = False,
    packed: int | None = None,
) -> Iterator[Chunk]:
    """Cut a sequence of encoded row blocks, of any sizes, into canonical chunks.

    Holds one chunk and one block at a time; whole chunks inside one block are views, not copies.

    Parameters
    ----------
    weights
        Weights of all rows, by number; None where each counts once.
    complete
        Whether it is known that there are no holes; else each chunk is looked at.
    packed
        Number of columns of blocks that hold eight bits to a byte, which have none.
    """
    # read ahead to find out whether the table is small, or has few chunks
    reader = _Reader(blocks)
    most = layout.rows_of_few(reader.n_columns() if packed is None else packed)
    head = reader.take(most)
    few = len(head) < most
    # a table that ends within the first chunk is small, and its size is known
    rows, block = layout.sizes(len(head) if len(head) < layout.rows_per_chunk else None)
    parts = layout.parts(len(head) if few else None)
    rows *= parts
    on_host = packed is None and len(head) <= layout.host_rows
    reader.put_back(head)
    # one chunk after the other; the next is read first, since the last has to say that it is
    number, first = 0, 0
    part = reader.take(until(first, rows, block))
    while len(part):
        following = first + len(part)
        after = reader.take(until(following, rows, block))
        ends = len(after) == 0 or (block is not None and following % block == 0)
        own = None if weights is None else weights[first:following]
        chunk = _chunk(part, number, first, rows, ends, own, few, parts, layout.dtype, complete or packed is not None)
        yield chunk._replace(on_host=on_host, values=chunk.values if packed is None else Packed(chunk.values, packed))
        number, first, part = number + 1, following, after
    if weights is not None and first != len(weights):
        raise DataError(f"X has {first} rows and sample_weight {len(weights)}: there must be one for each row")


class Run(NamedTuple):
    """Neighbouring whole chunks of a table of which the number of rows is known, and no update within it."""

    first: int  # row
    n_rows: int
    of_rows: int  # of the whole table


def run_chunks(rows: np.ndarray, run: Run, layout: Layout, weights: np.ndarray | None = None) -> Iterator[Chunk]:
    """Cut a run of encoded rows and weights into the chunks that `rechunk` gives of the whole table."""
    few = run.of_rows < layout.rows_of_few(rows.shape[1])
    size, _ = layout.sizes(run.of_rows)
    parts = layout.parts(run.of_rows if few else None)
    size *= parts
    for start in range(0, run.n_rows, size):
        part, own = rows[start : start + size], None if weights is None else weights[start : start + size]
        first = run.first + start
        ends = first + len(part) == run.of_rows
        chunk = _chunk(part, first // size, first, size, ends, own, few, parts, layout.dtype)
        yield chunk._replace(on_host=run.of_rows <= layout.host_rows)


def _chunk(
    part: np.ndarray,
    number: int,
    first: int,
    size: int,
    ends: bool,
    weights: np.ndarray | None,
    few: bool,
    parts: int,
    dtype: np.dtype,
    complete: bool = False,
) -> Chunk:
    values = _pad(part, size, part.dtype if part.dtype == np.uint8 else dtype)
    own = None if weights is None else _pad(weights, size, dtype)
    return Chunk(values, number, first, len(part), complete or is_complete(part), ends, own, few, parts)


def until(first: int, rows: int, block: int | None) -> int:
    """Return the number of rows of the chunk that begins at `first`; it ends with its update block."""
    return rows if block is None else min(rows, block - first % block)


def _pad(part: np.ndarray, rows: int, dtype: np.dtype) -> np.ndarray:
    """Pad with zeros to this number of rows in this precision; return the same array where nothing changes."""
    if len(part) == rows and part.dtype == dtype:
        return part
    padded = np.empty((rows, *part.shape[1:]), dtype)
    padded[len(part) :] = 0

    def fill(some: slice) -> None:
        padded[: len(part)][some] = part[some]

    for _ in by_slices(fill, part):
        pass
    return padded


def is_complete(part: np.ndarray) -> bool:
    """Whether encoded rows have no hole."""
    if part.dtype == np.uint8:  # of bits nothing is larger, and a maximum needs no room
        return all(by_slices(lambda some: bool(part[some].max(initial=0) != MISSING), part))
    return all(by_slices(lambda some: not np.isnan(part[some].min(initial=0)), part))  # NaN if there is one


class _Reader:
    """Takes any number of rows at a time from an iterator of blocks."""

    def __init__(self, blocks: Iterable[np.ndarray]) -> None:
        self._blocks = iter(blocks)
        self._held: list[np.ndarray] = []
        self._empty: np.ndarray | None = None

    def n_columns(self) -> int:
        """Return the number of columns of the first block; 0 where there is none."""
        block = next(self._blocks, None)
        if block is None:
            return 0
        self._held.append(block)
        return int(block.shape[1])

    def take(self, n: int) -> np.ndarray:
        """Return the next n rows, fewer at the end."""
        parts: list[np.ndarray] = []
        while n > 0:
            block = self._held.pop() if self._held else next(self._blocks, None)
            if block is None:
                break
            if self._empty is None:
                self._empty = block[:0]
            if len(block) > n:
                self._held.append(block[n:])
                block = block[:n]
            if len(block):
                parts.append(block)
                n -= len(block)
        if not parts:
            return self._empty if self._empty is not None else np.zeros((0, 0), np.uint8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def put_back(self, rows: np.ndarray) -> None:
        if len(rows):
            self._held.append(rows)
