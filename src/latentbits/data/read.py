"""Read a table of bits from a file: text, parquet, NumPy, sparse, zarr or h5ad.

`read` looks at the extension and gives a `Table`.  Whatever is wrong with a file, the error is a `DataError`
that names the file, the place in it and what to do; no reader unpickles anything.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError, LatentBitsError, did_you_mean_file, import_extra
from latentbits.data.archives import NOTES, Member, load_members, members, missing_codes, packed_width, unmarked_packing
from latentbits.data.bounds import check_claim
from latentbits.data.columns import ColumnsError, Odd, all_words, of_words, refusal
from latentbits.data.headers import first_doubled
from latentbits.data.text import TEXT_SUFFIXES, find_labels, parse_text

__all__ = [
    "PACKED",
    "Table",
    "check_array",
    "check_shape",
    "choose_array",
    "column_numbers",
    "in_a_line",
    "packed_columns",
    "parquet_columns",
    "read",
    "reading",
]

MISSING = ("", "NA", "N/A", "NaN", "nan", "?", ".")
SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
MMAP_BYTES = 64 * 2**20  # plain .npy files above this stay on the disk by default
PACKED = "packed_bits"  # attribute of a zarr array of packed bits: how many columns were packed


@dataclass(frozen=True, eq=False)
class Table:
    """Contents of a file: the values, and the names that go with them.

    Attributes
    ----------
    values : (n, d) array
        uint8 when every cell is 0 or 1; else float32 where that holds every number exactly, as it does bits, or
        float64, with NaN where a cell is missing; a SciPy CSR array or matrix when the file is sparse; a read-only
        `numpy.memmap` of the file's own type for a large ``.npy``.
    feature_names, row_names : tuple of str, or None
    labels : dict of 1-D arrays
        The columns that `read` was asked to keep apart, as text.
    odd : tuple of `latentbits.data.columns.Odd`
        Those of them that were not named, but hold no numbers (``keep_text=True``).
    """

    values: Any
    feature_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    odd: tuple[Odd, ...] = ()

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
    keep_text: bool = False,
) -> Table:
    """Read the table in a file; its extension says how.

    ``.csv .tsv .tab .txt .data .dat .amat`` (each also with ``.gz``), ``.parquet``, ``.npy``, ``.npz``
    (dense, SciPy sparse, or packed where the file says so), ``.zarr`` and ``.h5ad``.  That the values are 0 or 1 is not
    checked here; the estimators do that.  A number that float64 cannot hold is refused, not rounded.

    Parameters
    ----------
    source : path
    header : "auto", True or False
        Of text files: whether the first line holds names.  "auto": yes, if a cell in it is neither a number
        nor missing, or if it is 0, 1, 2, ..., pandas' own names, over numbers that it does not belong to.  In
        two columns a first line 0, 1, and in one column 0, is a row unless all numbers below have points.  A
        warning tells what was decided in doubt.  A first column without a name holds the names of the rows, as
        pandas and R write them, also where the header has one cell fewer than the rows.
    missing : str or sequence of str
        Cells that mean "not observed"; a single string is added to the default ones.  Those that are numbers ("-1")
        also count in the binary formats, as does an entry ``missing=255`` in an ``.npz``.
    delimiter : str, optional
        Of text files; guessed from the first line if not given.  A blank means any run of blanks.
    key : str, optional
        Which array of an ``.npz`` or zarr group; else ``X``, else the only two-dimensional one.
    labels : str, or sequence of str or int
        Columns to keep apart as text, by name or by number from 0 (text and parquet).  Digits in a str are a number
        where no column has that name.
    mmap : "auto", True or False
        Whether a ``.npy`` stays on the disk; "auto": above 64 MiB.
    keep_text : bool, default=False
        Whether columns that hold no numbers, and are not named, are kept as labels too; else they are an error, which
        names all of them.

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
    doubts: list[str] = []
    arrays: dict[str, Callable[[], Table]] = {
        ".parquet": lambda: _read_parquet(path, missing, labels, keep_text),
        ".npy": lambda: _read_npy(path, missing, mmap),
        ".npz": lambda: _read_npz(path, missing, key, doubts),
        ".zarr": lambda: _read_zarr(path, missing, key),
        ".h5ad": lambda: _read_h5ad(path, missing),
    }
    if path.is_dir() and suffix != ".zarr":
        raise DataError(f"{path} is a folder, not a table")
    if suffix not in TEXT_SUFFIXES and suffix not in arrays:
        known = " ".join((*TEXT_SUFFIXES, *arrays))
        save = "; save the sheet as csv" if suffix in SHEETS else ""
        raise DataError(f"{path}: cannot tell the format from the extension {suffix!r}; known are {known}{save}")
    if not path.exists():
        raise DataError(f"{path}: there is no such file.{did_you_mean_file(path)}")
    with reading(path, suffix), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what readers warn about is either harmless or fails below
        if suffix in TEXT_SUFFIXES:
            cells = parse_text(path, suffix, header, missing, delimiter, labels, doubts, keep_text)
            table = Table(_narrow(path, cells.values), *cells[1:])
        else:
            table = arrays[suffix]()
    for doubt in doubts:
        warnings.warn(f"{path}: {doubt}", stacklevel=2)
    if table.odd and table.shape[1] == 0:
        raise refusal(f"{path}: ", all_words(table.odd))
    check_shape(path, table.shape)
    return table


@contextmanager
def reading(path: Path, suffix: str) -> Iterator[None]:
    """Turn errors of a broken file, other ones in each library (and some say little), into one that names the file."""
    try:
        yield
    except LatentBitsError:
        raise
    except Exception as error:
        raise DataError(
            f"{path}: cannot be read as {suffix} ({in_a_line(error)}); is the file complete, "
            "and does its extension match its contents?"
        ) from error


def in_a_line(error: Exception) -> str:
    """Return the kind of an error and the first line of what it says."""
    detail = str(error).strip().partition("\n")[0] or "no further detail"
    return f"{type(error).__name__}: {detail}"


def check_shape(path: Path, shape: tuple[int, int]) -> None:
    """Refuse a table of nothing."""
    n, d = shape
    if n == 0 or d == 0:
        raise DataError(f"{path}: the table has {n} rows and {d} columns; at least one of each is needed")


# --- from anything to the types of Table.values ---


def _numeric_missing(missing: Sequence[str]) -> list[float]:
    """Return the numbers among the marks of missing cells."""
    found = []
    for mark in missing:
        try:
            value = float(mark)
        except ValueError:
            continue
        if np.isfinite(value):
            found.append(value)
    return found


def check_array(path: Path, values: Any) -> None:
    """Refuse what is not a real two-dimensional array, or could not be held in memory."""
    if len(values.shape) != 2:
        raise DataError(f"{path}: the array has shape {tuple(values.shape)}; a table has two dimensions")
    if np.dtype(values.dtype).kind not in "buif":
        raise DataError(f"{path}: the array has dtype {values.dtype}; bits, integers or real numbers are needed")


def _slices(values: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield some rows at a time, so that what is computed of them stays small."""
    rows = max(1, 2**20 // max(1, values.shape[1]))  # numbers checked at a time
    for start in range(0, len(values), rows):
        yield slice(start, start + rows), values[start : start + rows]


def _narrow(path: Path, values: np.ndarray, missing: Sequence[float] = ()) -> np.ndarray:
    """Convert an array to uint8 if it is all 0 and 1, else to float32 or float64 without changing a number."""
    check_array(path, values)
    marks = list(missing)
    if all(((part == 0) | (part == 1)).all() and not np.isin(part, marks).any() for _, part in _slices(values)):
        return values.astype(np.uint8, copy=False)
    kind: type[np.floating] = np.float32
    for place, part in _slices(values):
        absent = np.isin(part, marks)
        lost = _rounded(part, np.float64) & ~absent
        if lost.any():
            row, column = np.argwhere(lost)[0]
            raise DataError(
                f"{path}: {part[row, column]} in row {place.start + row}, column {column} cannot be held by float64; "
                "subtract a constant from the column first"
            )
        if kind is np.float32 and (_rounded(part, np.float32) & ~absent).any():
            kind = np.float64
    check_claim(path, values.size * np.dtype(kind).itemsize, f"{values.shape} numbers")
    narrow = np.empty(values.shape, kind)
    for place, part in _slices(values):
        absent = np.isin(part, marks)
        narrow[place] = np.where(absent, 0, part)
        narrow[place][absent] = np.nan
    return narrow


def _rounded(values: np.ndarray, kind: type[np.floating]) -> np.ndarray:
    """Find which numbers are others in another floating-point type; longdouble's digits beyond float64 do not count."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(kind)
        if values.dtype.kind in "bf":
            if kind is np.float64:
                return np.isinf(near) & np.isfinite(values)
            return (near != values) & ~np.isnan(values)
        # an integer: compared as one, where it has not gone over the top
        limit = float(2 ** (8 * values.dtype.itemsize - (values.dtype.kind == "i")))
        return (near >= limit) | (near.astype(values.dtype) != values)


def _names(values: Any, length: int) -> tuple[str, ...] | None:
    """Return names as a tuple, if there is one for each of `length`."""
    names = np.asarray(values)
    return tuple(map(str, names.tolist())) if names.shape == (length,) else None


# --- columns and arrays ---


def _read_parquet(path: Path, missing: Sequence[str], labels: Sequence[str | int], keep_text: bool) -> Table:
    import_extra("pyarrow", extra="tables", purpose="reading parquet")
    pq = import_extra("pyarrow.parquet", extra="tables", purpose="reading parquet")
    with pq.ParquetFile(path) as file:
        n, schema = file.metadata.num_rows, file.schema_arrow
        kept, index, numeric, others = parquet_columns(path, schema, labels, keep_text)
        wanted = [*numeric, *kept, *others, *index[:1]]
        check_claim(path, 8 * n * max(1, len(wanted)), f"{n} rows of {len(wanted)} columns")
        frame = file.read(columns=wanted)
    values = np.empty((n, len(numeric)), dtype=np.float64)
    for place, name in enumerate(numeric):
        values[:, place] = column_numbers(path, name, frame.column(name))

    def text(name: str) -> list[str]:
        return ["" if cell is None else str(cell) for cell in frame.column(name).to_pylist()]

    return Table(
        _narrow(path, values, _numeric_missing(missing)),
        numeric,
        tuple(text(index[0])) if index else None,
        {name: np.array(text(name)) for name in (*kept, *others)},
        tuple(of_words(name, name, filter(None, text(name)), what) for name, what in others.items()),
    )


class ParquetColumns(NamedTuple):
    """The columns of a parquet file by what they are for: text to keep, pandas' row names, numbers.

    `others` are those that hold no numbers and were not named, and what they hold.
    """

    kept: Sequence[str]
    row_names: Sequence[str]
    numeric: tuple[str, ...]
    others: Mapping[str, str]


def parquet_columns(path: Path, schema: Any, labels: Sequence[str | int], keep_text: bool = False) -> ParquetColumns:
    """Find which columns hold the table; complain of those that hold no numbers, unless they are to be kept."""
    pa = import_extra("pyarrow", extra="tables", purpose="reading parquet")
    names = tuple(map(str, schema.names))
    if doubled := first_doubled(names):
        raise DataError(f"{path}: two columns are named {doubled!r}; names must differ")
    kept = find_labels(path, labels, names, len(names))
    index = [name for name in names if name.startswith("__index_level_")]  # pandas' row names
    mine = tuple(name for name in names if name not in kept and name not in index)
    numbers = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    kinds = {name: schema.field(name).type for name in mine}
    others = {name: kind for name, kind in kinds.items() if not any(test(kind) for test in numbers)}
    if others and not keep_text:
        found = [Odd(name, name, str(kind), "label", (), 0) for name, kind in others.items()]
        wrong = ", ".join(f"column {name!r} holds {kind}" for name, kind in others.items())
        raise ColumnsError(f"{path}: {wrong}, not numbers; name it in labels=", f"{path}: {wrong}, not numbers.", found)
    whats = {name: "dates" if pa.types.is_temporal(kind) else "text" for name, kind in others.items()}
    return ParquetColumns(tuple(kept), index, tuple(name for name in mine if name not in others), whats)


def column_numbers(path: Path, name: str, column: Any) -> np.ndarray:
    """Return a column of a parquet file as float64, NaN for null; refused where that would change a number."""
    pa = import_extra("pyarrow", extra="tables", purpose="reading parquet")
    if pa.types.is_integer(column.type):
        whole = column.drop_null().to_numpy()
        if (lost := _rounded(whole, np.float64)).any():
            raise DataError(
                f"{path}: column {name!r} holds {whole[lost][0]}, which float64 cannot hold; subtract a constant "
                "first, or name it in labels="
            )
    cast = column.cast(pa.float64(), safe=False)
    return cast.to_numpy() if isinstance(cast, pa.ChunkedArray) else cast.to_numpy(zero_copy_only=False)


def _read_npy(path: Path, missing: Sequence[str], mmap: bool | str) -> Table:
    # Through a memory map even when it is copied: the map first compares the header with the file size.
    values = np.lib.format.open_memmap(path, mode="r")
    check_array(path, values)
    if mmap is True or (mmap == "auto" and values.nbytes > MMAP_BYTES):
        return Table(values)
    check_claim(path, values.nbytes, f"{values.shape} numbers")
    return Table(_narrow(path, np.array(values), _numeric_missing(missing)))


def _read_npz(path: Path, missing: Sequence[str], key: str | None, doubts: list[str]) -> Table:
    known = members(path)
    if {"format", "shape", "data"} <= known.keys():
        return Table(_read_sparse(path, known))
    name = choose_array(path, key, {name: member.shape for name, member in known.items()})
    beside = load_members(path, (*NOTES, "feature_names", "items", "row_names"), known)
    width = packed_width(known[name], beside)
    if width is not None:
        check_claim(path, known[name].shape[0] * width, f"{known[name].shape[0]} rows of {width} packed bits")
    check_array(path, known[name])
    values = load_members(path, (name,), known)[name]
    if width is not None:
        values = np.unpackbits(values, axis=1, count=width)
        marks = _numeric_missing(missing)
    else:
        marks = _numeric_missing([*missing, *missing_codes(beside)])
        if columns := unmarked_packing(values, beside):
            doubts.append(
                f"{name} is read as it stands, {values.shape[1]} columns of bytes. If they are {columns} packed bits, "
                "add encoding='packbits' to the file: numpy.savez(..., encoding='packbits')"
            )
    table = _narrow(path, values, marks)
    names = beside.get("feature_names", beside.get("items"))
    rows = beside.get("row_names")
    return Table(
        table,
        None if names is None else _names(names, table.shape[1]),
        None if rows is None else _names(rows, table.shape[0]),
    )


def choose_array(path: Path, key: str | None, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Return the array of an archive that holds the table."""
    there = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        if key not in shapes:
            raise DataError(f"{path}: key {key!r} is not in the file, which holds {there}")
        return key
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if "X" in tables or len(tables) == 1:
        return "X" if "X" in tables else tables[0]
    raise DataError(f"{path}: which array is the table? Name it with key=; the file holds {there}")


def _read_sparse(path: Path, known: Mapping[str, Member]) -> Any:
    """Read a matrix that SciPy saved, after a check of the claims of its arrays and shape."""
    from scipy import sparse

    check_claim(path, sum(prod(m.shape) * m.dtype.itemsize for m in known.values()), "its arrays")
    if prod(known["shape"].shape) > 2:
        raise DataError(f"{path}: the sparse array has {prod(known['shape'].shape)} dimensions; a table has two")
    _check_sparse_claim(path, load_members(path, ("shape",), known)["shape"].tolist())
    with path.open("rb") as file:
        return _sparse_rows(path, sparse.load_npz(file))


def _check_sparse_claim(path: Path, shape: Sequence[int]) -> None:
    """Check the shape of a sparse file: empty rows and columns cost it nothing, but memory some bytes each."""
    for length, what in zip(shape, ("rows", "columns")):
        check_claim(path, 8 * int(length), f"{length} sparse {what}")


def _sparse_rows(path: Path, values: Any) -> Any:
    """Return a sparse array by rows, its indices checked: SciPy trusts them, and compiled code would follow them."""
    check_array(path, values)
    if hasattr(values, "check_format"):
        values.check_format(full_check=True)
    return values.tocsr()


def _read_zarr(path: Path, missing: Sequence[str], key: str | None) -> Table:
    zarr = import_extra("zarr", extra="tables", purpose="reading zarr")
    node = zarr.open(str(path), mode="r")
    if isinstance(node, zarr.Group):
        members_of = dict(node.arrays())
        node = members_of[choose_array(path, key, {name: tuple(array.shape) for name, array in members_of.items()})]
    check_array(path, node)
    for shape, what in ((node.shape, "numbers"), (node.chunks, "numbers in a chunk"), (node.shards, "in a shard")):
        if shape is not None:
            check_claim(path, prod(shape) * node.dtype.itemsize, f"{tuple(shape)} {what}")
    columns = packed_columns(path, node)
    if columns is not None:
        check_claim(path, node.shape[0] * columns, f"{node.shape[0]} rows of {columns} packed bits")
        return Table(np.unpackbits(np.asarray(node[:]), axis=1, count=columns))
    return Table(_narrow(path, np.asarray(node[:]), _numeric_missing(missing)))


def packed_columns(path: Path, node: Any) -> int | None:
    """Return the number of columns that were packed into a zarr array, by what it says; None where it says nothing."""
    packed = node.attrs.get(PACKED)
    if packed is None:
        return None
    if type(packed) is not int or node.dtype != np.uint8 or packed < 1 or -(-packed // 8) != node.shape[1]:
        raise DataError(
            f"{path}: it says {PACKED}={packed!r}, but an array of {node.dtype} {tuple(node.shape)} cannot hold so "
            "many packed bits in a row"
        )
    if node.nchunks_initialized != node.nchunks:  # zarr would take what it lacks for zeros
        raise DataError(f"{path}: it lacks {node.nchunks - node.nchunks_initialized} of {node.nchunks} chunks")
    return packed


def _read_h5ad(path: Path, missing: Sequence[str]) -> Table:
    anndata = import_extra("anndata", extra="tables", purpose="reading h5ad")
    _check_h5ad_claim(path)
    cells = anndata.read_h5ad(path)
    if cells.X is None:
        raise DataError(f"{path}: the AnnData has no X")
    sparse = hasattr(cells.X, "tocsr")
    values = _sparse_rows(path, cells.X) if sparse else _narrow(path, np.asarray(cells.X), _numeric_missing(missing))
    return Table(values, tuple(map(str, cells.var_names)), tuple(map(str, cells.obs_names)))


def _check_h5ad_claim(path: Path) -> None:
    """Check the sizes that an HDF5 file claims: it can name arrays without holding them, and anndata reads them all."""
    h5py = import_extra("h5py", extra="tables", purpose="reading h5ad")
    total = 0

    def add(name: str, node: Any) -> None:
        nonlocal total
        if isinstance(node, h5py.Dataset):
            total += (node.size or 0) * node.dtype.itemsize
        elif "shape" in node.attrs:  # a sparse matrix
            _check_sparse_claim(path, np.ravel(node.attrs["shape"]).tolist())

    with h5py.File(path, "r") as file:
        file.visititems(add)
    check_claim(path, total, "its arrays")
