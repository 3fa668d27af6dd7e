"""Tables as users hold them: in arrays, lists, frames, sparse matrices, memory maps and files, of every dtype.

A `Held` knows what it means: `truth` is the table in float64, NaN for missing, or None where it is no table of numbers.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from tests.fuzz.verdict import Case

__all__ = ["FORMATS", "Held", "held_table", "some_bits", "some_reals", "to_file"]

COLUMNS = (5, 5, 5, 5, 5, 3, 1)  # few numbers of columns: each is compiled again
ROWS = (1, 2, 7, 40, 60)


@dataclass
class Held:
    """What a case gives to the library, what it means, and how it is held, in words."""

    X: Any
    truth: np.ndarray | None
    what: str


def some_bits(case: Case, n: int | None = None, d: int | None = None, missing: float | None = None) -> np.ndarray:
    """Bits as float64 with NaN; now and then constant columns, empty columns and empty rows."""
    rng = case.rng
    n, d = n or case.pick(*ROWS), d or case.pick(*COLUMNS)
    centres = rng.random((2, d))
    bits = (rng.random((n, d)) < centres[rng.integers(2, size=n)]).astype(float)
    if case.chance(0.2):
        bits[:, rng.integers(d)] = rng.integers(2)
    holes = case.pick(0.0, 0.0, 0.2, 0.6) if missing is None else missing
    bits[rng.random(bits.shape) < holes] = np.nan
    if missing is None and case.chance(0.06):
        bits[:, rng.integers(d)] = np.nan
    if missing is None and case.chance(0.06):
        bits[rng.integers(n)] = np.nan
    return bits


def some_reals(case: Case, n: int | None = None, d: int | None = None, missing: float = 0.0) -> np.ndarray:
    """Sums of two causes and noise, somewhere and of some size."""
    rng = case.rng
    n, d = n or 60, d or 5
    table = (rng.random((n, 2)) < 0.4) @ (3 * rng.normal(size=(2, d))) + rng.normal(size=(n, d))
    table[rng.random(table.shape) < missing] = np.nan
    return table


# --- holders of a table whose meaning is known ---


def held_table(case: Case, truth: np.ndarray) -> Held:
    """The same table in the hands of somebody else."""
    holders = _HOLDERS if not np.isnan(truth).any() else [h for h in _HOLDERS if h not in _WHOLE]
    holder = holders[int(case.rng.integers(len(holders)))]
    X = holder(case, truth.copy())
    return Held(X, truth, holder.__name__.strip("_").replace("_", " "))


def _array(case: Case, t: np.ndarray) -> Any:
    whole = not np.isnan(t).any()
    kinds = ["f8", "f4", "f2", ">f8", "O"] + (["?", "i1", "u1", "i8", "u8", ">i2"] if whole else [])
    kind = np.dtype(case.pick(*kinds))
    case.say(f"dtype {kind}")
    return t.astype(kind)


def _fortran_array(case: Case, t: np.ndarray) -> Any:
    return np.asfortranarray(t)


def _strided_array(case: Case, t: np.ndarray) -> Any:
    return np.repeat(np.repeat(t, 2, axis=0), 2, axis=1)[::2, ::2]


def _read_only_array(case: Case, t: np.ndarray) -> Any:
    t.setflags(write=False)
    return t


def _objects_with_none(case: Case, t: np.ndarray) -> Any:
    return np.where(np.isnan(t), None, t.astype(object))


def _objects_with_NA(case: Case, t: np.ndarray) -> Any:
    import pandas as pd

    X = t.astype(object)
    X[np.isnan(t)] = pd.NA
    return X


def _list_of_lists(case: Case, t: np.ndarray) -> Any:
    return [[None if v != v and case.chance(0.5) else v for v in row] for row in t.tolist()]


def _masked_array(case: Case, t: np.ndarray) -> Any:
    return np.ma.masked_invalid(t)


def _pandas(case: Case, t: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(t, columns=[f"c{j}" for j in range(t.shape[1])])


def _pandas_nullable(case: Case, t: np.ndarray) -> Any:
    import pandas as pd

    kind = case.pick("Int8", "boolean", "Float32", "Int64")
    return pd.DataFrame(t).astype(kind).rename(columns=str)


def _pandas_objects(case: Case, t: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(_objects_with_NA(case, t), columns=[f"c{j}" for j in range(t.shape[1])])


def _polars(case: Case, t: np.ndarray) -> Any:
    import polars as pl

    frame = pl.DataFrame({f"c{j}": [None if v != v else v for v in t[:, j].tolist()] for j in range(t.shape[1])})
    return frame.cast(case.pick(pl.Float64, pl.Float32, pl.Int8, pl.Boolean))


def _sparse(case: Case, t: np.ndarray) -> Any:
    kind = case.pick(sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array)
    return kind(t)


def _memory_map(case: Case, t: np.ndarray) -> Any:
    path = case.folder / "map.npy"
    np.save(path, t.astype(case.pick("f8", "f4")))
    return np.load(path, mmap_mode="r")


def _stream(case: Case, t: np.ndarray) -> Any:
    step = case.pick(1, 3, 1000)
    return lambda: (t[i : i + step] for i in range(0, len(t), step))


_WHOLE = ()
_HOLDERS = [
    _array,
    _array,
    _fortran_array,
    _strided_array,
    _read_only_array,
    _objects_with_none,
    _objects_with_NA,
    _list_of_lists,
    _masked_array,
    _pandas,
    _pandas_nullable,
    _pandas_objects,
    _polars,
    _sparse,
    _memory_map,
    _stream,
]


# --- files ---

FORMATS = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".npy", ".npz", ".sparse.npz", ".zarr", ".pandas.csv")


def to_file(case: Case, truth: np.ndarray, suffix: str, names: list[str] | None = None) -> Path:
    """Write the table by other means than the library's own."""
    import pandas as pd

    path = case.folder / f"table{suffix.replace('.sparse', '').replace('.pandas', '')}"
    case.say(f"file {suffix}")
    frame = pd.DataFrame(truth, columns=names or [f"c{j}" for j in range(truth.shape[1])])
    if suffix == ".pandas.csv":
        index = case.chance(0.5)
        case.say(f"pandas' default names, index={index}")
        pd.DataFrame(truth).to_csv(path, index=index)
    elif suffix in (".csv", ".csv.gz", ".tsv", ".txt"):
        delimiter = {".tsv": "\t", ".txt": " "}.get(suffix, ",")
        text = frame.to_csv(sep=delimiter, index=False, header=case.chance(0.7), na_rep="NA")
        path.write_bytes(gzip.compress(text.encode()) if suffix == ".csv.gz" else text.encode())
    elif suffix == ".parquet":
        frame.to_parquet(path)
    elif suffix == ".npy":
        np.save(path, truth)
    elif suffix == ".npz":
        np.savez(path, X=truth)
    elif suffix == ".sparse.npz":
        sparse.save_npz(path, sparse.csr_array(truth))
    elif suffix == ".zarr":
        import zarr

        zarr.save_array(str(path), truth)
    return path


# --- what is no table of bits, or hardly one ---


def odd_table(case: Case) -> Held:
    """Things that users pass by mistake."""
    import pandas as pd
    import polars as pl

    rng = case.rng
    n, d = case.pick(0, 1, 4, 9), case.pick(0, 1, 5, 5)
    bits = rng.integers(2, size=(n, d))
    odd: dict[str, Any] = {
        "no rows or no columns": lambda: np.zeros(case.pick((0, 5), (5, 0), (0, 0))),
        "three dimensions": lambda: np.zeros((2, 3, 4)),
        "one dimension": lambda: np.zeros(5),
        "a scalar": lambda: case.pick(0, 1.5, None, True, "text", b"bytes", 1j),
        "complex": lambda: bits.astype(complex),
        "structured": lambda: np.zeros(4, dtype=[("a", "i1"), ("b", "f4")]),
        "strings": lambda: bits.astype(str),
        "bytes": lambda: bits.astype("S1"),
        "datetimes": lambda: bits.astype("M8[s]"),
        "timedeltas": lambda: bits.astype("m8[s]"),
        "0 and 255": lambda: (bits * 255).astype(np.uint8),
        "-1 and 1": lambda: (2 * bits - 1).astype(np.int8),
        "0, 1 and 2": lambda: rng.integers(3, size=(n, d)),
        "extreme": lambda: rng.choice([0.0, 1.0, 1e308, -1e308, 1e-320, np.inf, -np.inf], (n, d)),
        "near bits": lambda: bits + rng.choice([0, 1e-9, 1e-17, -1e-17], (n, d)),
        "large integers": lambda: np.full((n, d), 2**70, dtype=object),
        "decimals": lambda: np.array([[Decimal(int(v)) for v in row] for row in bits], dtype=object).reshape(n, d),
        "ragged lists": lambda: [[0, 1], [1]],
        "empty lists": lambda: case.pick([], [[]], [[], []]),
        "a dict": lambda: {"a": [0, 1], "b": [1, 0]},
        "a set": lambda: {0, 1},
        "an iterator": lambda: iter(bits),
        "a function of nothing": lambda: case.pick(lambda: [], lambda: None, lambda: [None], lambda: [bits[0:0]]),
        "a generator": lambda: (row for row in bits),
        "a path": lambda: case.pick("nowhere.csv", Path("nowhere")),
        "a frame with text": lambda: pd.DataFrame({"a": [0, 1], "b": ["x", "y"]}),
        "a frame with one name twice": lambda: pd.DataFrame(rng.integers(2, size=(6, 2)), columns=["a", "a"]),
        "a frame with names of two types": lambda: pd.DataFrame(rng.integers(2, size=(6, 2)), columns=["a", 1]),
        "a frame with levels of names": lambda: pd.DataFrame(
            rng.integers(2, size=(6, 2)), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
        ),
        "a frame with NA for a name": lambda: pd.DataFrame(rng.integers(2, size=(6, 2)), columns=[pd.NA, "b"]),
        "a frame of categories": lambda: pd.DataFrame({"a": pd.Categorical([0, 1, 0]), "b": [0, 1, 1]}),
        "a frame of categories of text": lambda: pd.DataFrame({"a": pd.Categorical(["u", "v", "u"]), "b": [0, 1, 1]}),
        "a frame of dates": lambda: pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 3), "b": [0, 1, 1]}),
        "a frame of timedeltas": lambda: pd.DataFrame({"a": pd.to_timedelta([0, 1, 0], "ns"), "b": [0, 1, 1]}),
        "a frame of periods": lambda: pd.DataFrame({"a": pd.period_range("2020", periods=3), "b": [0, 1, 1]}),
        "a frame of intervals": lambda: pd.DataFrame({"a": pd.interval_range(0, 3), "b": [0, 1, 1]}),
        "a frame of sparse columns": lambda: pd.DataFrame(rng.integers(2, size=(6, 3))).astype("Sparse[int]"),
        "a frame of complex": lambda: pd.DataFrame({"a": np.zeros(3, complex), "b": [0, 1, 1]}),
        "a frame of lists": lambda: pd.DataFrame({"a": [[0], [1], [0]], "b": [0, 1, 1]}),
        "an empty frame": lambda: case.pick(pd.DataFrame(), pd.DataFrame({"a": []}), pl.DataFrame()),
        "a series": lambda: case.pick(pd.Series([0, 1]), pl.Series([0, 1])),
        "a lazy frame": lambda: pl.DataFrame({"a": [0, 1]}).lazy(),
        "polars text": lambda: pl.DataFrame({"a": ["0", "1"], "b": [0, 1]}),
        "polars dates": lambda: pl.DataFrame({"a": [date(2020, 1, 1)] * 2, "b": [0, 1]}),
        "polars categories": lambda: pl.DataFrame({"a": pl.Series(["u", "v"], dtype=pl.Categorical), "b": [0, 1]}),
        "polars lists": lambda: pl.DataFrame({"a": [[0], [1]], "b": [0, 1]}),
        "polars decimals": lambda: pl.DataFrame({"a": [Decimal("0"), Decimal("1")], "b": [0, 1]}),
        "polars durations": lambda: pl.DataFrame({"a": [0, 1], "b": [0, 1]}).cast({"a": pl.Duration}),
        "sparse complex": lambda: sparse.csr_array(np.eye(3, dtype=complex)),
        "sparse with explicit zeros": lambda: sparse.csr_array(([0.0, 1.0], ([0, 1], [1, 0])), shape=(3, 5)),
        "sparse with cells given twice": lambda: sparse.coo_array(([1, 1], ([0, 0], [1, 1])), shape=(3, 5)),
        "sparse without rows": lambda: sparse.csr_array((0, 5)),
        "sparse with infinity": lambda: sparse.csr_array(([np.inf], ([0], [1])), shape=(3, 5)),
        "matrix": lambda: np.asmatrix(rng.integers(2, size=(6, 5))),
        "blocks of different widths": lambda: lambda: [np.zeros((2, 5)), np.zeros((2, 4))],
        "float16 that overflows": lambda: np.full((4, 5), np.float16("inf")),
        "long doubles": lambda: bits.astype(np.longdouble),
        "objects of bool": lambda: bits.astype(bool).astype(object),
        "a list of arrays": lambda: list(rng.integers(2, size=(6, 5))),
        "a list of frames": lambda: [pd.DataFrame(bits)],
        "nested tuples": lambda: tuple(map(tuple, rng.integers(2, size=(6, 5)).tolist())),
        "None in a list": lambda: [[0, None, 1], [None, 1, 0]],
        "NA in a list": lambda: [[0, pd.NA, 1], [pd.NA, 1, 0]],
        "NaT in an array": lambda: np.array([[0, pd.NaT], [1, 0]], dtype=object),
    }
    what = case.pick(*odd)
    return Held(odd[what](), None, what)
