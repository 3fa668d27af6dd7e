"""Whatever a file holds, `read` gives a Table or one of our errors."""

import gzip
import io
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latentbits.core.errors import LatentBitsError
from latentbits.data import Table, read, write

SUFFIXES = [".csv", ".txt", ".csv.gz", ".parquet", ".npy", ".npz", ".zarr", ".h5ad"]
settings.register_profile("files", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
FILES = settings.get_profile("files")


def read_or_refuse(suffix: str, data: bytes, **options: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x" + suffix)
        path.write_bytes(data)
        try:
            table = read(path, **options)
        except LatentBitsError:
            return
        assert isinstance(table, Table)
        n, d = table.values.shape
        assert n > 0
        assert d > 0
        assert table.feature_names is None or len(table.feature_names) == d
        assert np.dtype(table.values.dtype).kind in "buif"


@pytest.mark.parametrize("suffix", SUFFIXES)
@FILES
@given(data=st.binary(max_size=300))
def test_bytes(suffix, data):
    read_or_refuse(suffix, data)


@pytest.mark.parametrize("suffix", [".csv", ".txt"])
@FILES
@given(
    text=st.text(alphabet='01,\t\n\r "?.-eNA_x;\ufeffé', max_size=80),
    header=st.sampled_from(["auto", True, False]),
    labels=st.lists(st.integers(-1, 3), max_size=2),
)
def test_texts(suffix, text, header, labels):
    read_or_refuse(suffix, text.encode(), header=header, labels=labels)


@cache
def sound(suffix: str) -> bytes:
    """A file that reads well, to be damaged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x" + suffix)
        values = np.arange(12, dtype=np.float32).reshape(4, 3)
        if suffix == ".csv.gz":
            path.write_bytes(gzip.compress(b"a,b\n0,1\n1,0\n"))
        elif suffix == ".sparse.npz":
            scipy.sparse.save_npz(path, scipy.sparse.csr_array(values), compressed=False)
        elif suffix == ".h5ad":
            anndata = pytest.importorskip("anndata")
            anndata.AnnData(values).write_h5ad(path)
        else:
            write(path, values)
        return path.read_bytes()


@pytest.mark.filterwarnings("ignore")  # anndata, while the sound file is written
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".sparse.npz", ".parquet", ".csv.gz"])
@FILES
@given(place=st.floats(0, 1), damage=st.binary(min_size=1, max_size=8), cut=st.booleans())
def test_damaged_files(suffix, place, damage, cut):
    data = bytearray(sound(suffix))
    start = int(place * (len(data) - 1))
    data[start : start + len(damage)] = damage
    read_or_refuse(suffix, bytes(data[: start + 1] if cut else data))


@pytest.mark.filterwarnings("ignore")
@settings(parent=FILES, max_examples=15)
@given(place=st.floats(0, 1))
def test_cut_h5ad(place):
    data = sound(".h5ad")
    read_or_refuse(".h5ad", data[: int(place * len(data))])


@FILES
@given(data=st.binary(max_size=100), name=st.sampled_from(["X.npy", "X", "bits.npy", "meta.npy"]))
def test_archives_of_junk(data, name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
    read_or_refuse(".npz", file.getvalue())


@FILES
@given(
    shape=st.lists(st.integers(-1, 2**62), max_size=3),
    kind=st.sampled_from(["<f8", "|u1", "|O", "<c16", "x"]),
)
def test_headers_that_lie(shape, kind):
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header = text.encode().ljust(117) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 16
    read_or_refuse(".npy", data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", data)
    read_or_refuse(".npz", file.getvalue())
