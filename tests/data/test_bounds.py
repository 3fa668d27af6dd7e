"""Small files that claim to be huge: refused before any room is made for what they claim."""

import gzip
import io
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from latentbits.core.errors import DataError
from latentbits.data import read

BOUNDS = sys.modules["latentbits.data.bounds"]
NONE = np.zeros(0, np.int64)


def refuse(path, words):
    """Read a file, which must be refused without taking memory."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=words) as caught:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert path.name in str(caught.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"format": b"coo", "shape": [10**9, 5], "row": NONE, "col": NONE, "data": np.zeros(0)},
        {"format": b"coo", "shape": [5, 10**9], "row": NONE, "col": NONE, "data": np.zeros(0)},
        {"format": b"csc", "shape": [10**9, 1], "indices": NONE, "indptr": [0, 0], "data": np.zeros(0)},
        {"format": b"csr", "shape": [10**9, 1], "indices": NONE, "indptr": [0, 0], "data": np.zeros(0)},
        {"format": b"dia", "shape": [10**9, 1], "offsets": NONE, "data": np.zeros((0, 1))},
        {"format": b"bsr", "shape": [10**9, 1], "indices": NONE, "indptr": [0, 0], "data": np.zeros((0, 10**9, 1))},
    ],
    ids=lambda arrays: f"{arrays['format'].decode()}{arrays['shape']}",
)
def test_a_sparse_file_cannot_claim_rows_that_it_does_not_hold(tmp_path, arrays):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **arrays)
    assert path.stat().st_size < 2000
    refuse(path, "1000000000 sparse")


def test_a_sparse_file_may_have_many_empty_rows(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, format=b"coo", shape=[10**6, 10**5], row=[7], col=[8], data=[1.0])
    assert read(path).shape == (10**6, 10**5)


def zipped(path, header_shape, body, kind="|u1"):
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {header_shape}, }}".encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)


def test_an_archive_is_held_to_its_headers(tmp_path):
    path = tmp_path / "x.npz"
    zipped(path, (10**9, 1), bytes(100))
    refuse(path, "claims .* but holds 100")
    zipped(path, (2 * 10**7, 1), bytes(2 * 10**7))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = (500).to_bytes(4, "little")  # the size that the archive states
    path.write_bytes(data)
    refuse(path, "x.npz")


def test_what_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    """On a machine of 8 MiB."""
    monkeypatch.setattr(BOUNDS, "available_memory", lambda: 2**23)
    text, packed, array = tmp_path / "x.csv.gz", tmp_path / "x.npz", tmp_path / "x.npy"
    text.write_bytes(gzip.compress(b"0,1\n" * 2**20))
    refuse(text, "unpacked it is more than 1048576 bytes")
    zipped(packed, (2**23, 1), bytes(2**23))
    refuse(packed, "more than half of the memory")
    bits = io.BytesIO()
    np.savez_compressed(bits, X=np.zeros((1000, 1000), np.uint8), encoding="packbits")
    packed.write_bytes(bits.getvalue())
    refuse(packed, "1000 rows of 8000 packed bits")
    np.save(array, np.zeros((2**20, 8), np.uint8))
    refuse(array, "can stay on the disk")
    assert read(array, mmap=True).shape == (2**20, 8)
    text.write_bytes(gzip.compress(b"0,1\n" * 2**10))
    assert read(text).shape == (2**10, 2)


def test_parquet_of_long_runs(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n, path = 10**7, tmp_path / "x.parquet"
    options = {"write_batch_size": n, "data_page_size": 2**30, "max_rows_per_page": n, "write_statistics": False}
    pq.write_table(pa.table({"a": pa.nulls(n)}), path, row_group_size=n, **options)
    assert path.stat().st_size < 1000
    refuse(path, "claims 10000000 rows")


def test_zarr_without_chunks_and_with_a_huge_one(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(10**9, 5), chunks=(10, 5), dtype="u1")
    refuse(tmp_path / "a.zarr", r"claims \(1000000000, 5\) numbers")
    array = zarr.create_array(str(tmp_path / "b.zarr"), shape=(3, 5), chunks=(10, 5), dtype="u1")
    array[:] = 1
    text = tmp_path / "b.zarr" / "zarr.json"
    text.write_text(text.read_text().replace("10,", f"{10**9},", 1))
    refuse(tmp_path / "b.zarr", "in a chunk")


@pytest.mark.filterwarnings("ignore")  # what anndata warns about while writing is not ours
@pytest.mark.parametrize("sparse", [False, True])
def test_h5ad_without_its_numbers(tmp_path, sparse):
    anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
    from scipy.sparse import csc_matrix

    path = tmp_path / "x.h5ad"
    values = np.eye(2, dtype=np.float32)
    anndata.AnnData(csc_matrix(values) if sparse else values).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        if sparse:
            file["X"].attrs["shape"] = [10**9, 2]
        else:
            kept = dict(file["X"].attrs)
            del file["X"]
            file.create_dataset("X", shape=(10**9, 2), dtype="f4", chunks=(1000, 2)).attrs.update(kept)
    refuse(path, "1000000000 sparse rows" if sparse else "its arrays")
