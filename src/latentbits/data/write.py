"""Write a table to a file, whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from latentbits.core.atomic import write_atomically
from latentbits.core.errors import DataError, import_extra
from latentbits.data.formulas import guarded
from latentbits.data.headers import could_be_names

__all__ = ["check_extension", "write"]

EXTENSIONS = (".csv", ".tsv", ".npy", ".npz", ".parquet")


def check_extension(path: str | os.PathLike[str]) -> str:
    """Return the extension of a table in lower case; refuse one that `write` does not know or has no library for."""
    found = Path(path).suffix.lower()
    if found not in EXTENSIONS:
        raise DataError(f"{path}: cannot write {Path(path).suffix!r}; known are {' '.join(EXTENSIONS)}")
    if found == ".parquet":
        import_extra("pyarrow.parquet", extra="tables", purpose="writing parquet")
    return found


def write(
    path: str | os.PathLike[str],
    values: Any,
    feature_names: Sequence[str] | None = None,
    labels: Mapping[str, Any] | None = None,
) -> Path:
    """Write a two-dimensional array as csv, tsv, npy, npz or parquet, by the extension; NaN is an empty cell.

    In csv and tsv a name or a label that a spreadsheet would take for a formula gets an apostrophe before it, which
    `read` takes away again.

    The file is written under another name in the same folder and then moved into place, so that a reader
    never sees half of it.

    Parameters
    ----------
    path : path
    values : (n, d) array
        Bits, integers or real numbers; a sparse one is written as dense, row by row.
    feature_names : sequence of d str, optional
        The header of csv, tsv and parquet, kept beside the array in npz; ``.npy`` has no room for it.
    labels : mapping of names to n values, optional
        What goes with the rows (ids, groups), as first columns; in npz beside the array; not in ``.npy``.

    Returns
    -------
    Path
        Where it was written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(write(folder + "/z.csv", [[1, 0.25], [0, float("nan")]], ["a", "b"]).read_text())
    a,b
    1,0.25
    0,
    <BLANKLINE>
    """
    target = Path(path)
    array = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    if array.ndim != 2 or array.dtype.kind not in "buif":
        raise DataError(f"values must be a two-dimensional array of numbers, found {array.dtype} {array.shape}")
    names = None if feature_names is None else [str(name) for name in feature_names]
    if names is not None and (len(names) != array.shape[1] or len(set(names)) != len(names)):
        raise DataError(f"feature_names must be {array.shape[1]} different names, found {len(names)}: {names[:5]}")
    beside = {str(name): np.asarray(column).astype(str) for name, column in (labels or {}).items()}
    if any(column.shape != (len(array),) for column in beside.values()):
        raise DataError(f"labels must have {len(array)} values each, one a row")
    if beside and names is None:
        names = [f"x{j}" for j in range(array.shape[1])]
    writers: dict[str, Callable[[IO[bytes]], None]] = {
        ".csv": lambda file: _write_text(file, array, names, beside, ","),
        ".tsv": lambda file: _write_text(file, array, names, beside, "\t"),
        ".npy": lambda file: np.save(file, array, allow_pickle=False),
        ".npz": lambda file: _write_npz(file, array, names, beside),
        ".parquet": lambda file: _write_parquet(file, array, names, beside),
    }
    writer = writers[check_extension(target)]
    if not target.parent.is_dir():
        raise DataError(f"{target}: there is no folder {target.parent}; make it first")
    with write_atomically(target) as file:
        writer(file)
    return target


def _cell(value: Any) -> str:
    """Return the shortest text that reads back as the same number; whole numbers without a point."""
    if value != value:
        return ""
    # str of a NumPy scalar is as short as its type allows; float() would show the digits of float64
    return str(int(value)) if abs(value) < 2**24 and value == int(value) else str(value)


def _as_numbers(rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Yield the rows; if the first could be taken for names, with points in it: 0.0, 1.0, 2.0."""
    for place, row in enumerate(rows):
        pointed = place == 0 and could_be_names([str(cell) for cell in row])
        yield [f"{cell}.0" if cell != "" else "" for cell in row] if pointed else row


Labels = Mapping[str, np.ndarray]


def _write_text(
    file: IO[bytes], array: np.ndarray, names: Sequence[str] | None, labels: Labels, delimiter: str
) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    # the csv module quotes what ends its own lines, which for readers a carriage return does
    words = chain(names or (), labels, *labels.values())
    quoting: Literal[0, 1] = csv.QUOTE_ALL if any("\r" in str(word) for word in words) else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n", quoting=quoting)
    if names is not None:
        writer.writerow([guarded(name) for name in (*labels, *names)])
    whole = array.dtype.kind != "f"
    numbers = array.astype(np.uint8) if array.dtype.kind == "b" else array
    texts = [[guarded(str(text)) for text in column] for column in labels.values()]
    first = zip(*texts, strict=True) if texts else repeat((), len(numbers))
    cells: Iterator[list[Any]] = (row.tolist() if whole else [_cell(value) for value in row] for row in numbers)
    if names is None and (not whole or array.shape[1] > 2):  # 0 and 1 in one or two columns of integers are bits
        cells = _as_numbers(cells)
    writer.writerows([*some, *others] for some, others in zip(first, cells, strict=True))
    text.detach()


def _write_npz(file: IO[bytes], array: np.ndarray, names: Sequence[str] | None, labels: Labels) -> None:
    beside: dict[str, Any] = {} if names is None else {"feature_names": np.array(names, dtype=str)}
    beside |= {f"label_{name or 'row'}": column for name, column in labels.items()}
    np.savez_compressed(file, X=array, **beside)


def _write_parquet(file: IO[bytes], array: np.ndarray, names: Sequence[str] | None, labels: Labels) -> None:
    pa = import_extra("pyarrow", extra="tables", purpose="writing parquet")
    pq = import_extra("pyarrow.parquet", extra="tables", purpose="writing parquet")
    columns = [pa.array(np.ascontiguousarray(column), from_pandas=True) for column in array.T]
    header = list(names) if names is not None else [f"x{j}" for j in range(array.shape[1])]
    text = {name or "row": pa.array(column.tolist(), pa.string()) for name, column in labels.items()}
    pq.write_table(pa.table([*text.values(), *columns], names=[*text, *header]), file)
