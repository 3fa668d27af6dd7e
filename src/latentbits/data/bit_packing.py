"""Write bits of any number of rows eight to a byte, block by block, as a zarr array that `fit` streams."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, import_extra
from latentbits.data.read import PACKED
from latentbits.data.row_files import are_paths, open_files

__all__ = ["write_packed"]

CHUNK_BYTES = 2**20  # of packed bits that are read at a time


def write_packed(path: str | os.PathLike[str], source: Any) -> Path:
    """Write complete bits to a ``.zarr``, packed eight to a byte: an eighth of the room, and of the traffic.

    The array is `numpy.packbits` of the rows along their columns, and its attribute ``packed_bits`` is the number of
    columns.  Neither the table nor the array is ever held whole.  Blocks are written to another folder, which is moved
    into place at the end: where the disk is full, or a bit is none, nothing is left.

    Parameters
    ----------
    path : path
        Must end in ``.zarr``, and not exist.
    source : array, iterable of blocks, or path
        Rows of 0 and 1 (or booleans); a path, a pattern or a list of them as `fit` takes it.

    Returns
    -------
    Path
        Where it was written.

    Examples
    --------
    >>> import tempfile
    >>> from latentbits.data import read
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read(write_packed(folder + "/bits.zarr", [[0, 1, 1], [0, 0, 1]])).values.tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    target = Path(path)
    zarr = import_extra("zarr", extra="tables", purpose="writing zarr")
    if target.suffix.lower() != ".zarr":
        raise DataError(f"{target}: packed bits are written as .zarr")
    if target.exists():
        raise DataError(f"{target}: it exists already; remove it first, or choose another name")
    if not target.parent.is_dir():
        raise DataError(f"{target}: there is no folder {target.parent}; make it first")
    temporary = target.with_name(f".latentbits-{secrets.token_hex(8)}.tmp")
    try:
        _write(zarr, temporary, _blocks(source))
        temporary.replace(target)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _blocks(source: Any) -> Iterable[Any]:
    if are_paths(source):
        return (block for _, _, block in open_files(source).blocks())
    if hasattr(source, "shape") or (isinstance(source, list) and source and np.ndim(source[0]) == 1):
        return [source]
    return source


def _write(zarr: Any, folder: Path, blocks: Iterable[Any]) -> None:
    array, n_rows, n_columns = None, 0, 0
    rest = np.zeros((0, 0), np.uint8)  # that does not fill a chunk yet
    for block in blocks:
        bits = _bits(np.asarray(block), n_rows + len(rest))
        if array is None:
            n_columns = bits.shape[1]
            width = -(-n_columns // 8)
            rows = max(1, CHUNK_BYTES // width)
            array = zarr.create_array(
                str(folder),
                shape=(0, width),
                chunks=(rows, width),
                dtype=np.uint8,
                attributes={PACKED: n_columns},
                config={"write_empty_chunks": True},  # so that a chunk that is lost is known from one of zeros
            )
            rest = np.zeros((0, width), np.uint8)
        if bits.shape[1] != n_columns:
            raise DataError(f"a block has {bits.shape[1]} columns, and the first {n_columns}: they must have the same")
        packed = np.concatenate([rest, np.packbits(bits, axis=1)])
        whole = len(packed) // rows * rows
        array.append(packed[:whole])
        n_rows, rest = n_rows + whole, packed[whole:]
    if array is None or n_rows + len(rest) == 0:
        raise DataError("there are no rows to write: at least one is needed")
    array.append(rest)


def _bits(block: np.ndarray, first_row: int) -> np.ndarray:
    """Convert a block to booleans; refuse anything but bits, also what is missing, for which there is no room."""
    if block.ndim != 2:
        raise DataError(f"a block of rows must be 2-dimensional, found {block.ndim} dimensions")
    if block.dtype == bool:
        return block
    good = (block == 0) | (block == 1)
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        raise DataError(
            f"row {first_row + row}, column {column} holds {block[row, column]}: only 0 and 1 can be packed (missing "
            "bits can be written as .npy or .parquet)"
        )
    return block == 1
