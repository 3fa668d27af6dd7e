"""Bits eight to a byte on the disk."""

from __future__ import annotations

import errno

import numpy as np
import pytest
import zarr

from latentbits.core.errors import DataError
from latentbits.data import read, write_packed
from latentbits.data.row_files import open_files


@pytest.fixture
def table():
    return np.random.default_rng(0).integers(0, 2, (1000, 11)).astype(np.uint8)


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr("latentbits.data.bit_packing.CHUNK_BYTES", 2 * 64)


@pytest.mark.parametrize("kind", ["array", "bool", "blocks", "path"])
def test_what_is_written_is_read(tmp_path, table, small_chunks, kind):
    np.save(tmp_path / "a.npy", table)
    sources = {
        "array": table,
        "bool": table.astype(bool),
        "blocks": (block for block in np.array_split(table.astype(float), 7)),
        "path": tmp_path / "a.npy",
    }
    path = write_packed(tmp_path / "bits.zarr", sources[kind])
    np.testing.assert_array_equal(np.concatenate([block for *_, block in open_files(path).blocks()]), table)
    np.testing.assert_array_equal(read(path).values, table)
    array = zarr.open(str(path), mode="r")
    assert array.shape == (1000, 2)
    assert dict(array.attrs) == {"packed_bits": 11}
    assert array.nchunks == 16


def test_chunks_of_zeros_are_there(tmp_path, small_chunks):
    path = write_packed(tmp_path / "bits.zarr", np.zeros((200, 9), bool))
    assert read(path).values.sum() == 0


@pytest.mark.parametrize("value", [np.nan, 2.0])
def test_what_is_no_bit_is_named_and_nothing_is_left(tmp_path, table, small_chunks, value):
    bad = table.astype(float)
    bad[700, 3] = value
    with pytest.raises(DataError, match=f"row 700, column 3 holds {value}"):
        write_packed(tmp_path / "bits.zarr", np.array_split(bad, 3))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing(tmp_path, table, small_chunks, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zarr.Array, "append", full)
    with pytest.raises(OSError, match=r"cannot write .*bits\.zarr: No space left") as caught:
        write_packed(tmp_path / "bits.zarr", table)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_where_nothing_is_written(tmp_path, table):
    with pytest.raises(DataError, match=r"written as \.zarr"):
        write_packed(tmp_path / "bits.npy", table)
    with pytest.raises(DataError, match="no rows"):
        write_packed(tmp_path / "bits.zarr", [])
    write_packed(tmp_path / "bits.zarr", table)
    with pytest.raises(DataError, match="exists already"):
        write_packed(tmp_path / "bits.zarr", table)


def test_a_wrong_number_of_columns(tmp_path, table):
    path = write_packed(tmp_path / "bits.zarr", table)
    zarr.open(str(path)).attrs["packed_bits"] = 17
    with pytest.raises(DataError, match=r"says packed_bits=17, but an array of uint8 \(1000, 2\)"):
        open_files(path)
