"""Rows of files that are never read whole: parquet, zarr and npy, one or many, block by block.

`open_files` looks at headers alone.  Blocks come in the order of the rows; npy and zarr also give rows by number.
Whatever cannot be read is a `DataError` that names the file and the rows.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError, LatentBitsError, did_you_mean_file, import_extra
from latentbits.data.bounds import check_claim
from latentbits.data.read import (
    check_array,
    check_shape,
    choose_array,
    column_numbers,
    in_a_line,
    packed_columns,
    parquet_columns,
    reading,
)

__all__ = ["RowFile", "RowFiles", "are_paths", "open_files"]

BLOCK_CELLS = 2**22  # cells of a block, about: some megabytes once they are bytes


class RowFile(NamedTuple):
    """One file, by its header.

    `blocks` reads all rows, some at a time; `take` those of these numbers, which ascend, or is None.  `packed` reads
    packed bits as they are, eight to a byte; None for other files.
    """

    path: Path
    shape: tuple[int, int]
    names: tuple[str, ...] | None
    blocks: Callable[[], Iterator[np.ndarray]]
    take: Callable[[np.ndarray], np.ndarray] | None
    packed: Callable[[], Iterator[np.ndarray]] | None = None


class RowFiles:
    """The rows of files of the same columns, one file after the other.

    Attributes
    ----------
    shape
        Of the table that they make together.
    names
        Of the columns, where the files have them.
    numbered
        Whether rows can be asked for by number.
    packed
        Whether all files hold bits, eight to a byte.
    """

    def __init__(self, parts: Sequence[RowFile]) -> None:
        first = parts[0]
        for part in parts[1:]:
            if part.shape[1] != first.shape[1]:
                raise DataError(
                    f"{part.path} has {part.shape[1]} columns and {first.path} {first.shape[1]}: files of one table "
                    "must have the same"
                )
            if part.names != first.names:
                raise DataError(
                    f"{part.path} and {first.path} differ in the names of their columns, or in their order: files of "
                    "one table must have the same"
                )
        self.parts = tuple(parts)
        self.names = first.names
        self._ends = list(accumulate(part.shape[0] for part in parts))
        self.shape = (self._ends[-1], first.shape[1])
        self.numbered = all(part.take is not None for part in parts)
        self.packed = all(part.packed is not None for part in parts)

    def unnamed(self) -> RowFiles:
        """Return the same rows, whose columns have no names."""
        return RowFiles([part._replace(names=None) for part in self.parts])

    def columns(self, order: Sequence[int]) -> RowFiles:
        """Return the same rows, with their columns in another order."""
        return RowFiles([_ordered(part, list(order)) for part in self.parts])

    def blocks(self) -> Iterator[tuple[Path, int, np.ndarray]]:
        """Return blocks of rows: the file of each, the number of its first row there, and the rows."""
        return self._blocks(lambda part: part.blocks())

    def packed_blocks(self) -> Iterator[np.ndarray]:
        """Return blocks of files that are all packed, as they are."""
        return (block for _, _, block in self._blocks(lambda part: part.packed() if part.packed else iter(())))

    def _blocks(self, read: Callable[[RowFile], Iterator[np.ndarray]]) -> Iterator[tuple[Path, int, np.ndarray]]:
        for part in self.parts:
            here, blocks = 0, read(part)
            while True:
                with _named(part, f"row {here} and after"):
                    block = next(blocks, None)
                    if block is None:
                        if here != part.shape[0]:
                            raise ValueError(f"it ends after {here} of {part.shape[0]} rows")
                        break
                yield part.path, here, block
                here += len(block)
                del block  # not held while the next one is read

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers, which ascend."""
        found, start = [], 0
        for part, end in zip(self.parts, self._ends):
            low, high = np.searchsorted(numbers, [start, end])
            if high > low and part.take is not None:
                here = numbers[low:high] - start
                with _named(part, f"some of rows {here[0]} to {here[-1]}"):
                    found.append(part.take(here))
            start = end
        return found[0] if len(found) == 1 else np.concatenate(found)


def _ordered(part: RowFile, order: list[int]) -> RowFile:
    take = part.take
    return part._replace(
        names=None if part.names is None else tuple(part.names[j] for j in order),
        blocks=lambda: (block[:, order] for block in part.blocks()),
        take=None if take is None else lambda numbers: take(numbers)[:, order],
        packed=None,
    )


@contextmanager
def _named(part: RowFile, rows: str) -> Iterator[None]:
    """Say which rows of which file could not be read: each library has other errors, and some say little."""
    try:
        yield
    except LatentBitsError:
        raise
    except Exception as error:
        raise DataError(f"{part.path}: {rows} cannot be read ({in_a_line(error)})") from error


def are_paths(X: Any) -> bool:
    """Judge whether this is the path of a file, or a list of some.

    >>> are_paths("rows-*.npy"), are_paths([Path("a.npy"), "b.npy"]), are_paths([[0, 1]]), are_paths([])
    (True, True, False, False)
    """
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(one, str | os.PathLike) for one in X)
    return isinstance(X, str | os.PathLike)


def open_files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> RowFiles:
    """Open ``.parquet``, ``.zarr`` and ``.npy``: a path, a pattern such as ``rows-*.npy``, or a list of them.

    Files that a pattern finds are ordered by name, numbers in names by value: ``rows-9`` comes before ``rows-10``.
    """
    given = [source] if isinstance(source, str | os.PathLike) else source
    return RowFiles([_open(path) for one in given for path in _found(os.fspath(one))])


def _found(given: str) -> list[Path]:
    if os.path.exists(given) or not glob.has_magic(given):
        return [Path(given)]
    found = sorted(glob.glob(given, recursive=True), key=_by_numbers)
    if not found:
        raise DataError(f"{given}: there is no such file")
    return [Path(path) for path in found]


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names, numbers in them by value.

    >>> sorted(["r10", "r9", "q", "r9b"], key=_by_numbers)
    ['q', 'r9', 'r9b', 'r10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _open(path: Path) -> RowFile:
    openers = {".parquet": _open_parquet, ".npy": _open_npy, ".zarr": _open_zarr}
    suffix = path.suffix.lower()
    if suffix not in openers:
        if not path.exists() and not suffix:
            raise DataError(
                f"{path}: there is no such file. Of a public data set of that name the table is "
                f"latentbits.load_dataset({str(path)!r}).X"
            )
        raise DataError(
            f"{path}: rows are streamed from {' '.join(openers)} files; read others first: latentbits.read(path).values"
        )
    if not path.exists():
        raise DataError(f"{path}: there is no such file.{did_you_mean_file(path)}")
    with reading(path, suffix):
        found = openers[suffix](path)
    check_shape(path, found.shape)
    return found


def _block_rows(n_columns: int) -> int:
    return max(1, BLOCK_CELLS // max(1, n_columns))


def _open_npy(path: Path) -> RowFile:
    mapped = np.lib.format.open_memmap(path, mode="r")  # compares the header with the size of the file
    check_array(path, mapped)
    (n, d), kind, offset, by_rows = mapped.shape, mapped.dtype, mapped.offset, mapped.flags.c_contiguous
    rows = _block_rows(d)
    del mapped

    def blocks() -> Iterator[np.ndarray]:
        if not by_rows:
            table = np.lib.format.open_memmap(path, mode="r")
            yield from (np.array(table[start : start + rows]) for start in range(0, n, rows))
            return
        # read, not mapped: a file that was cut off meanwhile is an error then, not the end of the process
        with path.open("rb") as file:
            file.seek(offset)
            for start in range(0, n, rows):
                wanted = min(rows, n - start)
                cells = np.fromfile(file, kind, wanted * d)
                if len(cells) < wanted * d:
                    raise ValueError("the file is too short")
                yield cells.reshape(wanted, d)

    def take(numbers: np.ndarray) -> np.ndarray:
        return np.array(np.lib.format.open_memmap(path, mode="r")[numbers])

    return RowFile(path, (n, d), None, blocks, take)


def _open_zarr(path: Path) -> RowFile:
    zarr = import_extra("zarr", extra="tables", purpose="reading zarr")
    node = zarr.open(str(path), mode="r")
    if isinstance(node, zarr.Group):
        arrays = dict(node.arrays())
        node = arrays[choose_array(path, None, {name: tuple(array.shape) for name, array in arrays.items()})]
    check_array(path, node)
    stored = node.shards or node.chunks  # what is read and decoded at a time
    check_claim(path, prod(stored) * node.dtype.itemsize, f"{tuple(stored)} numbers in a chunk")
    packed = packed_columns(path, node)
    n, d = node.shape if packed is None else (node.shape[0], packed)

    def unpacked(rows: np.ndarray) -> np.ndarray:
        return rows if packed is None else np.unpackbits(rows, axis=1, count=d)

    rows = max(1, _block_rows(d) // stored[0]) * stored[0]

    def stored_blocks() -> Iterator[np.ndarray]:
        for start in range(0, n, rows):
            yield np.asarray(node[start : min(start + rows, n)])

    def blocks() -> Iterator[np.ndarray]:
        return map(unpacked, stored_blocks())

    def take(numbers: np.ndarray) -> np.ndarray:
        return unpacked(np.asarray(node.oindex[numbers]))

    return RowFile(path, (n, d), None, blocks, take, None if packed is None else stored_blocks)


def _open_parquet(path: Path) -> RowFile:
    import_extra("pyarrow", extra="tables", purpose="reading parquet")
    pq = import_extra("pyarrow.parquet", extra="tables", purpose="reading parquet")
    with pq.ParquetFile(path) as file:
        n, columns = file.metadata.num_rows, parquet_columns(path, file.schema_arrow, ())
    names = columns.numeric
    rows = _block_rows(len(names))

    def blocks() -> Iterator[np.ndarray]:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield _cells(path, batch, names)

    return RowFile(path, (n, len(names)), names, blocks, None)


def _cells(path: Path, batch: Any, names: Sequence[str]) -> np.ndarray:
    """Return the rows of a batch of columns: bytes where all are, else numbers."""
    pa = import_extra("pyarrow", extra="tables", purpose="reading parquet")
    small = all(column.null_count == 0 and column.type in (pa.bool_(), pa.uint8()) for column in batch.columns)
    cells = np.empty((batch.num_columns, batch.num_rows), np.uint8 if small else np.float64)
    for place, name in enumerate(names):
        column = batch.column(name)
        cells[place] = column.to_numpy(zero_copy_only=False) if small else column_numbers(path, name, column)
    return np.ascontiguousarray(cells.T)
