"""Models from files that are never read whole."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import zarr
from tests.fitted import new
from tests.tables import classes

from latentbits import BernoulliProduct
from latentbits.core.errors import DataError, MissingDependencyError
from latentbits.data import row_files
from latentbits.engines.order import in_random_order
from latentbits.engines.stream import StreamEngine
from latentbits.estimators.tables.opening import open_rows

BITS = classes().astype(np.uint8)


def write_zarr(path, table, rows=100, packed=None):
    array = zarr.create_array(str(path), shape=table.shape, chunks=(rows, table.shape[1]), dtype=table.dtype,
                              config={"write_empty_chunks": True})  # fmt: skip
    array[:] = table
    if packed is not None:
        array.attrs["packed_bits"] = packed


def write_files(folder, table, kind):
    """Write the table to a file, or to several, and return what to give to `fit`."""
    path = folder / f"big.{kind}"
    if kind == "npy":
        np.save(path, table)
    elif kind == "zarr":
        write_zarr(path, table)
    elif kind == "parquet":
        pd.DataFrame(table, columns=[f"q{j}" for j in range(table.shape[1])]).to_parquet(path, row_group_size=90)
    elif kind == "fortran.npy":
        np.save(path, np.asfortranarray(table))
    else:
        for number, part in enumerate(np.array_split(table, 11)):
            np.save(folder / f"rows-{number}.npy", part)
        path = str(folder / "rows-*.npy")
    return path


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("npy", 0.0),
        ("fortran.npy", 0.1),
        ("zarr", 0.0),
        ("zarr", 0.1),
        ("parquet", 0.0),
        ("parquet", 0.1),
        ("rows", 0.1),
    ],
)
def test_a_file_gives_the_bits_of_the_array(tmp_path, monkeypatch, kind, missing):
    monkeypatch.setattr(row_files, "BLOCK_CELLS", 6 * 70)
    table = classes(missing=missing) if missing else BITS
    given = write_files(tmp_path, table, kind)
    ours, theirs = (new("mixture").fit(X) for X in (given, table))
    for one, other in zip(jax.tree.leaves(ours.params_), jax.tree.leaves(theirs.params_), strict=True):
        np.testing.assert_array_equal(one, other)
    assert ours.score(given) == theirs.score(table)
    np.testing.assert_array_equal(ours.transform(given), theirs.transform(table))
    np.testing.assert_array_equal(ours.complete(given), theirs.complete(table))


@pytest.mark.parametrize("kind", ["npy", "zarr", "rows"])
def test_minibatches_of_a_file_are_shuffled(tmp_path, kind):
    """Rows of files that have numbers are learned from in the order of rows in memory."""
    table = np.sort(BITS, axis=0)
    given = write_files(tmp_path, table, kind)
    ours, theirs = (in_random_order(open_rows(BernoulliProduct(), X, reset=True)) for X in (given, table))
    shuffled, expected = (np.concatenate(list(engine.blocks())) for engine in (ours, theirs))
    assert (shuffled != table).any()
    np.testing.assert_array_equal(shuffled, expected)


def test_names_of_parquet(tmp_path):
    given = write_files(tmp_path, BITS, "parquet")
    model = BernoulliProduct().fit(given)
    assert model.feature_names_in_.tolist() == [f"q{j}" for j in range(6)]
    model.score(pd.DataFrame(BITS, columns=model.feature_names_in_))
    pd.DataFrame(BITS, columns=list("abcdef")).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="feature names should match"):
        model.score(tmp_path / "other.parquet")


def test_packed_bits(tmp_path):
    table = classes(d=11).astype(np.uint8)
    write_zarr(tmp_path / "packed.zarr", np.packbits(table, axis=1), packed=11)
    engine = open_rows(BernoulliProduct(), tmp_path / "packed.zarr", reset=True)
    np.testing.assert_array_equal(np.concatenate(list(engine.blocks())), table)
    numbers = np.array([5, 239, 0, 5])
    np.testing.assert_array_equal(engine.numbered[1](numbers), table[numbers])


def test_lists_of_paths(tmp_path):
    np.save(tmp_path / "a.npy", BITS[:130])
    write_zarr(tmp_path / "b.zarr", BITS[130:])
    engine = open_rows(BernoulliProduct(), [tmp_path / "a.npy", str(tmp_path / "b.zarr")], reset=True)
    assert isinstance(engine, StreamEngine)
    np.testing.assert_array_equal(np.concatenate(list(engine.blocks())), BITS)
    numbers = np.array([239, 3, 129, 130])
    np.testing.assert_array_equal(engine.numbered[1](numbers), BITS[numbers])


def test_a_value_that_is_no_bit_is_named_by_its_file(tmp_path):
    for name, value in (("a", 1), ("b", 7)):
        part = np.zeros((20, 3), np.uint8)
        part[13, 2] = value
        np.save(tmp_path / f"{name}.npy", part)
    with pytest.raises(DataError, match=r"b\.npy: X must hold bits.*row 13, column 2 holds 7"):
        BernoulliProduct().fit(tmp_path / "*.npy")


def test_files_that_do_not_belong_together(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 3), np.uint8))
    np.save(tmp_path / "b.npy", np.zeros((5, 4), np.uint8))
    with pytest.raises(DataError, match=r"b\.npy has 4 columns and .*a\.npy 3"):
        BernoulliProduct().fit(tmp_path / "*.npy")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bits.csv", r"streamed from \.parquet \.npy \.zarr files; read others first: latentbits\.read"),
        ("nothing.npy", "there is no such file"),
        ("no-*.npy", "there is no such file"),
    ],
)
def test_what_is_no_file_of_rows(tmp_path, name, message):
    with pytest.raises(DataError, match=message):
        BernoulliProduct().fit(Path(tmp_path, name))


def test_a_block_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "BLOCK_CELLS", 6 * 50)
    np.save(tmp_path / "a.npy", BITS)
    engine = open_rows(BernoulliProduct(), tmp_path / "a.npy", reset=True)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-400])
    with pytest.raises(DataError, match=r"a\.npy: row 150 and after cannot be read \(ValueError: the file is"):
        list(engine.blocks())
    write_zarr(tmp_path / "b.zarr", BITS, rows=50)
    engine = open_rows(BernoulliProduct(), tmp_path / "b.zarr", reset=True)
    (tmp_path / "b.zarr" / "c" / "3" / "0").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"b\.zarr: row 150 and after cannot be read"):
        list(engine.blocks())


def test_packed_bits_that_lack_a_chunk(tmp_path):
    write_zarr(tmp_path / "b.zarr", np.packbits(BITS, axis=1), rows=50, packed=6)
    (tmp_path / "b.zarr" / "c" / "3" / "0").unlink()
    with pytest.raises(DataError, match="it lacks 1 of 5 chunks"):
        BernoulliProduct().fit(tmp_path / "b.zarr")


def test_the_extra_is_named(tmp_path, monkeypatch):
    given = write_files(tmp_path, BITS, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"latentbits\[tables\]"):
        BernoulliProduct().fit(given)
