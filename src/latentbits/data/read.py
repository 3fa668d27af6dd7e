"""Read a table of bits from a file: text, parquet, NumPy, sparse, zarr or h5ad.

`read` looks at the extension and gives a `Table`.  Whatever is wrong with a file, the error is a `DataError`
that names the file, the place in it and what to do; no reader unpickles anything.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, LatentBitsError, import_extra
from latentbits.data.text import TEXT_SUFFIXES, find_labels, parse_text

__all__ = ["Table", "read"]

MISSING = ("", "NA", "N/A", "NaN", "nan", "?", ".")
MMAP_BYTES = 64 * 2**20  # plain .npy files above this stay on the disk unless told otherwise


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds: the values, and the names that go with them.

    Attributes
    ----------
    values : (n, d) array
        uint8 when every cell is 0 or 1; float32 with NaN where a cell is missing, or where values are real; a
        SciPy CSR array or matrix when the file is sparse; a read-only `numpy.memmap` of the file's own type
        for a large ``.npy``.
    feature_names, row_names : tuple of str, or None
    labels : dict of 1-D arrays
        The columns that `read` was told to keep apart, as text.
    """

    values: Any
    feature_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape


def read(
    source: str | os.PathLike[str],
    *,
    header: bool | str = "auto",
    missing: str | Sequence[str] = MISSING,
    delimiter: str | None = None,
    key: str | None = None,
    labels: str | Sequence[str | int] = (),
    mmap: bool | str = "auto",
) -> Table:
    """Read the table in a file; its extension says how.

    ``.csv .tsv .tab .txt .data .dat .amat`` (each also with ``.gz``), ``.parquet``, ``.npy``, ``.npz``
    (dense, bit-packed or SciPy sparse), ``.zarr`` and ``.h5ad``.  That the values are 0 or 1 is not checked
    here; the estimators do that.

    Parameters
    ----------
    source : path
    header : "auto", True or False
        Of text files: whether the first line holds names.  "auto": yes, if a cell in it is neither a number
        nor missing.  A first column without a name holds the names of the rows, as pandas and R write them.
    missing : str or sequence of str
        Cells that mean "not observed"; a single string is added to the default ones.  Those that are numbers ("-1")
        also count in the binary formats.
    delimiter : str, optional
        Of text files; guessed from the first line if not given.  A blank means any run of blanks.
    key : str, optional
        Which array of an ``.npz`` or zarr group; else ``X``, else the only two-dimensional one.
    labels : str, or sequence of str or int
        Columns to keep apart as text, by name or by number from 0 (text and parquet).
    mmap : "auto", True or False
        Whether a ``.npy`` stays on the disk; "auto": above 64 MiB.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "bits.csv")
    ...     _ = path.write_text("hair,eggs\\n1,0\\n0,NA\\n")
    ...     table = read(path)
    >>> table.feature_names, table.values.tolist()
    (('hair', 'eggs'), [[1.0, 0.0], [0.0, nan]])
    """
    path = Path(source)
    if header not in ("auto", True, False):
        raise DataError(f"header must be 'auto', True or False, found {header!r}")
    if isinstance(missing, str):
        missing = (*MISSING, missing)
    if isinstance(labels, str):
        labels = (labels,)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(f"delimiter must be a single character, found {delimiter!r}")
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = Path(path.stem).suffix.lower()
        if suffix not in TEXT_SUFFIXES:
            raise DataError(f"{path}: of compressed files only text is read ({' '.join(TEXT_SUFFIXES)} .gz)")
    arrays: dict[str, Callable[[], Table]] = {
        ".parquet": lambda: _read_parquet(path, missing, labels),
        ".npy": lambda: _read_npy(path, missing, mmap),
        ".npz": lambda: _read_npz(path, missing, key),
        ".zarr": lambda: _read_zarr(path, missing, key),
        ".h5ad": lambda: _read_h5ad(path, missing),
    }
    if path.is_dir() and suffix != ".zarr":
        raise DataError(f"{path} is a folder, not a table")
    if suffix not in TEXT_SUFFIXES and suffix not in arrays:
        known = " ".join((*TEXT_SUFFIXES, *arrays))
        raise DataError(f"{path}: cannot tell the format from the extension {suffix!r}; known are {known}")
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what readers warn about is either harmless or fails below
            if suffix in TEXT_SUFFIXES:
                cells = parse_text(path, suffix, header, missing, delimiter, labels)
                table = Table(_narrow(path, cells.values), *cells[1:])
            else:
                table = arrays[suffix]()
    except LatentBitsError:
        raise
    except Exception as error:
        # Each library has its own errors for a broken file, and some (zlib.error, KeyError) say little.
        detail = str(error).strip().partition("\n")[0] or "no further detail"
        raise DataError(
            f"{path}: cannot be read as {suffix} ({type(error).__name__}: {detail}); is the file complete, "
            "and does its extension match its contents?"
        ) from error
    n, d = table.shape
    if n == 0 or d == 0:
        raise DataError(f"{path}: the table has {n} rows and {d} columns; at least one of each is needed")
    return table


# --- from anything to the types of Table.values ---


def _numeric_missing(missing: Sequence[str]) -> list[float]:
    """The numbers among the marks of missing cells."""
    found = []
    for mark in missing:
        try:
            value = float(mark)
        except ValueError:
            continue
        if np.isfinite(value):
            found.append(value)
    return found


def _check_array(path: Path, values: Any) -> None:
    """Refuse what is not a real two-dimensional array, or could not be held in memory."""
    if len(values.shape) != 2:
        raise DataError(f"{path}: the array has shape {tuple(values.shape)}; a table has two dimensions")
    if np.dtype(values.dtype).kind not in "buif":
        raise DataError(f"{path}: the array has dtype {values.dtype}; bits, integers or real numbers are needed")


def _check_memory(path: Path, shape: Sequence[int], itemsize: int) -> None:
    """Refuse a header that promises more than the machine can hold, before anything is allocated."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    n_bytes = itemsize
    for length in shape:
        n_bytes *= int(length)
    if n_bytes > memory:
        raise DataError(f"{path}: {n_bytes} bytes are more than the memory; a .npy file can stay on the disk")


def _narrow(path: Path, values: np.ndarray, missing: Sequence[float] = ()) -> np.ndarray:
    """The array as uint8 if it is all 0 and 1, else as float32 with NaN for what is missing."""
    _check_array(path, values)
    absent = np.isin(values, list(missing)) if len(missing) else np.zeros((), bool)
    if not absent.any() and ((values == 0) | (values == 1)).all():
        return values.astype(np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
    overflow = np.isinf(narrow) & np.isfinite(values)
    if overflow.any():
        row, column = np.argwhere(overflow)[0]
        raise DataError(f"{path}: {values[row, column]} in row {row}, column {column} is beyond float32")
    if absent.any():
        narrow[absent] = np.nan
    return narrow


def _names(values: Any, length: int) -> tuple[str, ...] | None:
    """Names as a tuple, if there is one for each of `length`."""
    names = np.asarray(values)
    return tuple(map(str, names.tolist())) if names.shape == (length,) else None


# --- columns and arrays ---


def _read_parquet(path: Path, missing: Sequence[str], labels: Sequence[str | int]) -> Table:
    pa = import_extra("pyarrow", extra="tables", purpose="reading parquet")
    pq = import_extra("pyarrow.parquet", extra="tables", purpose="reading parquet")
    frame = pq.read_table(path, partitioning=None)
    names = tuple(map(str, frame.column_names))
    if len(set(names)) < len(names):
        raise DataError(f"{path}: two columns have the same name; names must differ")
    kept = find_labels(path, labels, names, len(names))
    index = [j for j, name in enumerate(names) if name.startswith("__index_level_")]  # pandas' row names
    numeric = [j for j in range(len(names)) if j not in kept.values() and j not in index]
    _check_memory(path, (frame.num_rows, len(numeric)), 8)
    values = np.empty((frame.num_rows, len(numeric)), dtype=np.float64)
    for place, j in enumerate(numeric):
        column = frame.column(j)
        kind = column.type
        if not any(test(kind) for test in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating,
                                           pa.types.is_decimal, pa.types.is_null)):  # fmt: skip
            raise DataError(f"{path}: column {names[j]!r} holds {kind}, not numbers; name it in labels=")
        values[:, place] = column.cast(pa.float64(), safe=False).to_numpy()
    return Table(
        _narrow(path, values, _numeric_missing(missing)),
        tuple(names[j] for j in numeric),
        tuple(str(cell) for cell in frame.column(index[0]).to_pylist()) if index else None,
        {name: np.array([str(cell) for cell in frame.column(j).to_pylist()]) for name, j in kept.items()},
    )


def _read_npy(path: Path, missing: Sequence[str], mmap: bool | str) -> Table:
    # Through a memory map even when it is copied: the map first compares the header with the file size.
    values = np.lib.format.open_memmap(path, mode="r")
    _check_array(path, values)
    if mmap is True or (mmap == "auto" and values.nbytes > MMAP_BYTES):
        return Table(values)
    return Table(_narrow(path, np.array(values), _numeric_missing(missing)))


def _read_npz(path: Path, missing: Sequence[str], key: str | None) -> Table:
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
    if {"format", "shape", "data"} <= sizes.keys():
        from scipy import sparse

        with path.open("rb") as file:
            return Table(_sparse_rows(path, sparse.load_npz(file)))
    _check_memory(path, (sum(sizes.values()),), 1)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        beside = dict(archive)
    values = beside.pop(_choose(path, key, {name: array.shape for name, array in beside.items()}))
    width = _packed_width(values, beside)
    marks = _numeric_missing(missing)
    if width is not None:
        values = np.unpackbits(values, axis=1, count=width)
    elif values.dtype == np.uint8 and np.isin(values, (0, 1, 255)).all():
        marks = [*marks, 255.0]  # how this project stores a missing bit in a byte
    bits = _narrow(path, values, marks)
    names = beside.get("feature_names", beside.get("items"))
    rows = beside.get("row_names")
    return Table(
        bits,
        None if names is None else _names(names, bits.shape[1]),
        None if rows is None else _names(rows, bits.shape[0]),
    )


def _choose(path: Path, key: str | None, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """The array of an archive that holds the table."""
    there = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        if key not in shapes:
            raise DataError(f"{path}: key {key!r} is not in the file, which holds {there}")
        return key
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if "X" in tables or len(tables) == 1:
        return "X" if "X" in tables else tables[0]
    raise DataError(f"{path}: which array is the table? Name it with key=; the file holds {there}")


def _packed_width(values: np.ndarray, beside: Mapping[str, np.ndarray]) -> int | None:
    """The number of columns that `numpy.packbits` put into these bytes, or None where it did not."""
    if values.dtype != np.uint8 or values.ndim != 2:
        return None
    meta: Any = {}
    if "meta" in beside:
        try:
            meta = json.loads(str(beside["meta"]))
        except ValueError:
            pass
    meta = meta if isinstance(meta, dict) else {}
    sizes = {name: np.ravel(beside[name]).tolist() for name in ("n_features", "shape") if name in beside}
    for name in ("n_features", "n_items", "n"):
        found = sizes.get(name, sizes.get("shape", [meta.get(name)]))
        width = found[-1] if found else None
        if isinstance(width, int) and width > 0 and -(-width // 8) == values.shape[1]:
            return width
    if "packbits" in str(meta.get("use", "")) or "packbits" in str(meta.get("encoding", "")):
        return 8 * values.shape[1]
    return None


def _sparse_rows(path: Path, values: Any) -> Any:
    """A sparse array by rows, its indices checked: SciPy trusts them, and compiled code would follow them."""
    _check_array(path, values)
    if hasattr(values, "check_format"):
        values.check_format(full_check=True)
    _check_memory(path, values.shape[:1], 8)
    return values.tocsr()


def _read_zarr(path: Path, missing: Sequence[str], key: str | None) -> Table:
    zarr = import_extra("zarr", extra="tables", purpose="reading zarr")
    node = zarr.open(str(path), mode="r")
    if isinstance(node, zarr.Group):
        members = dict(node.arrays())
        node = members[_choose(path, key, {name: tuple(array.shape) for name, array in members.items()})]
    _check_array(path, node)
    _check_memory(path, node.shape, node.dtype.itemsize)
    return Table(_narrow(path, np.asarray(node[:]), _numeric_missing(missing)))


def _read_h5ad(path: Path, missing: Sequence[str]) -> Table:
    anndata = import_extra("anndata", extra="tables", purpose="reading h5ad")
    cells = anndata.read_h5ad(path)
    if cells.X is None:
        raise DataError(f"{path}: the AnnData has no X")
    sparse = hasattr(cells.X, "tocsr")
    values = _sparse_rows(path, cells.X) if sparse else _narrow(path, np.asarray(cells.X), _numeric_missing(missing))
    return Table(values, tuple(map(str, cells.var_names)), tuple(map(str, cells.obs_names)))
