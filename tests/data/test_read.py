"""Every format: what it must give, and what it must refuse by name."""

import gzip
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from latentbits.core.errors import DataError, MissingDependencyError
from latentbits.data import Table, read, write

BITS = np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8)
GAPS = np.array([[0.0, np.nan, 1.0], [1.0, 0.0, 0.25]], dtype=np.float32)
NAMES = ("a", "b", "c")


def read_text(tmp_path, text, name="x.csv", **options) -> Table:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, **options)


# --- text ---


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "0,1,1\n1,0,0\n"),
        ("x.csv", "0,1,1\r\n1,0,0"),
        ("x.csv", "\ufeff0,1,1\n1,0,0\n"),
        ("x.csv", "0;1;1\n1;0;0\n"),
        ("x.csv", " 0, 1, 1\n\n 1, 0, 0\n\n"),
        ("x.csv", '"0","1","1"\n"1","0","0"\n'),
        ("x.csv", "false,true,TRUE\nTrue,False,0\n"),
        ("x.csv", "0.0,1.0,1\n1e0,0,-0\n"),
        ("x.tsv", "0\t1\t1\n1\t0\t0\n"),
        ("x.txt", "0 1 1\n1  0 0\n"),
        ("x.amat", "0 1 1 \n1 0 0 \n"),
        ("nltcs.train.data", "0,1,1\n1,0,0\n"),
        ("x.DATA", "0,1,1\n1,0,0\n"),
    ],
)
def test_plain_text_gives_bits(tmp_path, name, text):
    table = read_text(tmp_path, text, name)
    assert table.values.dtype == np.uint8
    assert table.feature_names is None
    np.testing.assert_array_equal(table.values, BITS)


def test_gzip_is_unpacked(tmp_path):
    table = read_text(tmp_path, gzip.compress(b"a,b,c\n0,1,1\n1,0,0\n"), "x.csv.gz")
    np.testing.assert_array_equal(table.values, BITS)
    assert table.feature_names == NAMES


def test_missing_cells_are_nan(tmp_path):
    table = read_text(tmp_path, "a,b,c,d,e\n1,,NA,?,nan\n0,1,1,1,1\n")
    assert table.values.dtype == np.float32
    np.testing.assert_array_equal(table.values[0], [1, *[np.nan] * 4])
    assert (read_text(tmp_path, "0,-1\n1,1\n").values == [[0, -1], [1, 1]]).all()
    marked = read_text(tmp_path, "0,-1\n1,1\n", missing=("", "-1")).values
    np.testing.assert_array_equal(marked, [[0, np.nan], [1, 1]])


def test_a_header_is_found_or_forced(tmp_path):
    assert read_text(tmp_path, "a,2\n1,0\n").feature_names == ("a", "2")
    assert read_text(tmp_path, "NA,1\n1,0\n").feature_names is None
    assert read_text(tmp_path, "10,11\n1,0\n", header=True).feature_names == ("10", "11")
    with pytest.raises(DataError, match="line 1"):
        read_text(tmp_path, "a,b\n1,0\n", header=False)


def test_a_first_column_without_a_name_names_the_rows(tmp_path):
    table = read_text(tmp_path, ",a,b\nr1,0,1\nr2,1,0\n")
    assert table.row_names == ("r1", "r2")
    assert table.feature_names == ("a", "b")
    np.testing.assert_array_equal(table.values, [[0, 1], [1, 0]])


def test_all_columns_of_text_are_reported_or_kept(tmp_path):
    text = "site,q1,kind,q2\nnorth,1,a,0\nsouth,0,b,unknown\nnorth,1,b,1\n"
    with pytest.raises(
        DataError, match=r"from line 2 on: columns that hold no numbers: site .*, kind .*, q2 \(with unk"
    ):
        read_text(tmp_path, text)
    table = read_text(tmp_path, text, keep_text=True)
    assert table.feature_names == ("q1",)
    assert {name: cells.tolist() for name, cells in table.labels.items()} == {
        "site": ["north", "south", "north"],
        "kind": ["a", "b", "b"],
        "q2": ["0", "unknown", "1"],
    }
    assert [(one.label, one.use) for one in table.odd] == [("site", "label"), ("kind", "label"), ("q2", "marks")]
    with pytest.raises(DataError, match=r"columns that hold no numbers: a .*, b .* Bits are written as 0 and 1"):
        read_text(tmp_path, "a,b\nx,y\ny,x\n", keep_text=True)
    assert read_text(tmp_path, "id,q\n12345678901234567890,1\n2,0\n", keep_text=True).labels["id"].tolist() == [
        "12345678901234567890",
        "2",
    ]


def test_a_first_row_with_a_word_is_no_header_where_words_are_kept(tmp_path):
    rows = "north,1,0,1\nsouth,0,0,1\n"
    table = read_text(tmp_path, rows, keep_text=True)
    assert (table.feature_names, table.values.tolist()) == (None, [[1, 0, 1], [0, 0, 1]])
    assert table.labels["0"].tolist() == ["north", "south"]
    assert read_text(tmp_path, "site,q\n" + "north,1\n" * 2, keep_text=True).feature_names == ("q",)
    with pytest.warns(UserWarning, match=r"the first line \(site,0,1\) is taken for a row, and could be names"):
        assert read_text(tmp_path, "site,0,1\nnorth,1,1\n", keep_text=True).shape == (2, 2)
    assert read_text(tmp_path, rows.replace("0,1", "1,0"), header=False, keep_text=True).shape == (2, 3)
    assert read_text(tmp_path, "site,0,1\nnorth,1,1\n", header=True, keep_text=True).shape == (1, 2)


def test_labels_are_kept_apart(tmp_path):
    table = read_text(tmp_path, "party,v1,v2\nrep,1,0\ndem,0,?\n", labels=["party"])
    assert table.feature_names == ("v1", "v2")
    assert table.labels["party"].tolist() == ["rep", "dem"]
    np.testing.assert_array_equal(table.values, [[1, 0], [0, np.nan]])
    bare = read_text(tmp_path, "rep,1,0\ndem,0,1\n", "x.data", labels=[0])
    assert bare.labels["0"].tolist() == ["rep", "dem"]
    np.testing.assert_array_equal(bare.values, [[1, 0], [0, 1]])
    with pytest.raises(DataError, match="class"):
        read_text(tmp_path, "party,v\nrep,1\n", labels=["class"])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b\n0,1\n1,maybe\n", ["x.csv", "line 3", "row 1", "'b'", "'maybe'"]),
        ("0,1\n1,x\n", ["line 2", "column 1", "'x'"]),
        ("a,b\n0,1_0\n", ["line 2", "'1_0'"]),
        ("0,1\n1,0,1\n", ["line 2", "3 cells", "has 2"]),
        ("a,b\n\n0\n", ["line 3", "1 cells"]),
        ("a,a\n0,1\n", ["line 1", "'a'"]),
        ("a,,c\n0,1,1\n", ["line 1", "column 1", "no name"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("a,b\n", ["0 rows"]),
        (b"0,1\n1,\xff\n", ["line 2", "0xff", "UTF-8"]),
        (b"0,1\n1,\0\n", ["line 2", "NUL"]),
        ("0,1\n1,9007199254740993\n", ["line 2", "column 1", "more digits"]),
    ],
)
def test_bad_text_is_refused_by_place(tmp_path, text, parts):
    with pytest.raises(DataError) as caught:
        read_text(tmp_path, text)
    for part in parts:
        assert part in str(caught.value)


def test_bad_arguments_are_named(tmp_path):
    path = tmp_path / "x.csv"
    with pytest.raises(DataError, match="no such file"):
        read(path)
    path.write_text("0,1\n")
    for option in ({"header": "maybe"}, {"delimiter": ",,"}, {"labels": "a"}):
        with pytest.raises(DataError, match=next(iter(option))):
            read(path, **option)
    with pytest.raises(DataError, match=r"\.xlsx"):
        read(tmp_path / "x.xlsx")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(DataError, match="compressed"):
        read(tmp_path / "x.npy.gz")


def test_a_single_mark_is_added_to_the_usual_ones(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("0,-1\nNA,1\n.,N/A\nyes,No\n")
    np.testing.assert_array_equal(read(path, missing="-1").values, [[0, np.nan], [np.nan, 1], [np.nan, np.nan], [1, 0]])


# --- round trips ---


@pytest.mark.parametrize("values", [BITS, BITS.astype(bool), GAPS, GAPS.astype(np.float64)])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npy", ".npz", ".parquet"])
def test_what_is_written_is_read(tmp_path, suffix, values):
    path = write(tmp_path / f"x{suffix}", values, None if suffix == ".npy" else NAMES)
    table = read(path)
    assert table.values.dtype == (np.float32 if values.dtype.kind == "f" else np.uint8)
    np.testing.assert_array_equal(table.values, values)
    assert table.feature_names == (None if suffix == ".npy" else NAMES)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_float32_survives_text(tmp_path, suffix):
    values = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    table = read(write(tmp_path / f"x{suffix}", values))
    np.testing.assert_array_equal(table.values.astype(np.float32), values)  # text has the digits of float32, no more


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npy", ".npz", ".parquet"])
@pytest.mark.parametrize(
    "values",
    [
        1_700_000_000 + np.arange(100.0)[:, None],
        np.random.default_rng(0).standard_normal((50, 2)),
        np.array([[0.1, np.nan], [1e300, -1e-300]]),
        np.array([[2**53 - 1, -(2**53)], [2**60, 0]]),
    ],
    ids=["timestamps", "normal", "extreme", "integers"],
)
def test_no_digit_is_lost(tmp_path, suffix, values):
    table = read(write(tmp_path / f"x{suffix}", values))
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values, values)


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".parquet"])
def test_an_integer_that_would_be_rounded_is_refused(tmp_path, suffix):
    path = write(tmp_path / f"x{suffix}", np.array([[0, 1], [1, 2**63 - 1]]), None if suffix == ".npy" else ["a", "b"])
    with pytest.raises(DataError, match="9223372036854775807"):
        read(path)
    if suffix in (".csv", ".parquet"):
        assert read(path, labels="b").labels["b"].tolist() == ["1", "9223372036854775807"]
    else:
        assert np.isnan(read(path, missing=str(2**63 - 1)).values[1, 1])


def test_one_column_with_gaps_keeps_its_rows(tmp_path):
    values = np.array([[1.0], [np.nan], [0.0], [np.nan]])
    np.testing.assert_array_equal(read(write(tmp_path / "x.csv", values)).values, values)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "x.npy", BITS)

    def fail(*arguments, **options):
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        write(path, 1 - BITS)
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(read(path).values, BITS)


def test_write_refuses_by_name(tmp_path):
    with pytest.raises(DataError, match="values"):
        write(tmp_path / "x.csv", [1, 2])
    with pytest.raises(DataError, match="feature_names"):
        write(tmp_path / "x.csv", BITS, ["a", "a", "b"])
    with pytest.raises(DataError, match=r"\.doc"):
        write(tmp_path / "x.doc", BITS)
    with pytest.raises(DataError, match="no folder"):
        write(tmp_path / "none" / "x.csv", BITS)


# --- arrays ---


def test_npy_is_mapped_when_large_or_on_request(tmp_path, monkeypatch):
    path = write(tmp_path / "x.npy", BITS.astype(np.int64))
    assert isinstance(read(path, mmap=True).values, np.memmap)
    assert not isinstance(read(path).values, np.memmap)
    monkeypatch.setattr(sys.modules["latentbits.data.read"], "MMAP_BYTES", 8)
    assert isinstance(read(path).values, np.memmap)
    assert not isinstance(read(path, mmap=False).values, np.memmap)
    np.testing.assert_array_equal(read(path).values, BITS)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3),
        np.zeros((2, 2, 2)),
        np.zeros((2, 2), complex),
        np.array([["a"]]),
        np.zeros((2, 2), "M8[s]"),
        np.zeros((2, 2), [("a", int)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_that_are_no_tables_are_refused(tmp_path, suffix, array):
    path = tmp_path / f"x{suffix}"
    np.save(path, array) if suffix == ".npy" else np.savez(path, X=array)
    with pytest.raises(DataError, match=path.name):
        read(path)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_arrays_are_refused(tmp_path, shape):
    np.savez(tmp_path / "x.npz", X=np.zeros(shape))
    np.save(tmp_path / "x.npy", np.zeros(shape))
    for name in ("x.npz", "x.npy"):
        with pytest.raises(DataError, match=name):
            read(tmp_path / name)


def test_pickles_stay_closed(tmp_path):
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = print
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", X=array)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(DataError, match=name):
            read(tmp_path / name)


def test_an_absurd_header_is_refused(tmp_path):
    path = write(tmp_path / "x.npy", BITS)
    path.write_bytes(path.read_bytes().replace(b"(2, 3), }      ", b"(2, 3000000000)", 1))
    with pytest.raises(DataError, match=r"x\.npy"):
        read(path)


def test_npz_chooses_its_table(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=BITS, other=1 - BITS, row_names=["r", "s"], items=NAMES)
    table = read(path)
    np.testing.assert_array_equal(table.values, BITS)
    assert table.row_names == ("r", "s")
    assert table.feature_names == NAMES
    np.testing.assert_array_equal(read(path, key="other").values, 1 - BITS)
    with pytest.raises(DataError, match="holds X"):
        read(path, key="none")
    np.savez(path, one=BITS, two=BITS)
    with pytest.raises(DataError, match="key="):
        read(path)


def test_npz_unpacks_bits_where_it_says_so(tmp_path):
    path = tmp_path / "x.npz"
    bits = np.random.default_rng(0).integers(0, 2, (4, 11), dtype=np.uint8)
    packed = np.packbits(bits, axis=1)
    for beside in (
        {"n_features": 11, "encoding": "packbits"},
        {"shape": [4, 11], "encoding": "np.packbits axis=1"},
        {"n_features": 11, "meta": '{"name": "x", "encoding": "np.packbits axis=1"}'},
        {"meta": '{"n": 11, "use": "np.unpackbits(bits,axis=1)[:,:n]"}'},
        {"meta": '{"n_items": 11, "use": "np.unpackbits(bits,axis=1)[:,:n_items]"}'},
    ):
        np.savez(path, bits=packed, **beside)
        np.testing.assert_array_equal(read(path).values, bits)
    np.savez(path, train=packed, test=packed[:2], n_features=11, encoding="packbits")
    np.testing.assert_array_equal(read(path, key="test").values, bits[:2])
    np.savez(path, X=packed, meta='{"use": "np.unpackbits(X, axis=1)"}')
    assert read(path).shape == (4, 16)


def test_npz_is_not_unpacked_by_guess(tmp_path):
    path = tmp_path / "x.npz"
    column = np.array([[0], [1], [1], [0]], np.uint8)
    for beside in ({"n_features": 5}, {"shape": [4, 5]}, {"meta": '{"n": 5}'}, {"n_features": 1}):
        np.savez(path, X=column, **beside)
        np.testing.assert_array_equal(read(path).values, column)
    np.savez(path, X=7 * column, n_features=5)
    with pytest.warns(UserWarning, match=r"X is read as it stands.*5 packed bits.*encoding='packbits'"):
        np.testing.assert_array_equal(read(path).values, 7 * column)


def test_npz_marks_gaps_where_it_says_so(tmp_path):
    path = tmp_path / "x.npz"
    codes = np.array([[0, 255], [1, 1]], np.uint8)
    np.savez(path, X=codes)
    np.testing.assert_array_equal(read(path).values, codes)
    np.testing.assert_array_equal(read(path, missing="255").values, [[0, np.nan], [1, 1]])
    for beside in ({"missing": 255}, {"meta": '{"missing": 255}'}, {"meta": '{"what": "votes; 255 = missing; party"}'}):
        np.savez(path, X=codes, **beside)
        np.testing.assert_array_equal(read(path).values, [[0, np.nan], [1, 1]])
    for beside in ({"meta": '{"what": "see table 255: missing persons"}'}, {"meta": "255"}, {"missing": "none"}):
        np.savez(path, X=codes, **beside)
        np.testing.assert_array_equal(read(path).values, codes)
    np.savez(path, X=np.array([[0, -1], [1, 1]]))
    np.testing.assert_array_equal(read(path, missing=["-1"]).values, [[0, np.nan], [1, 1]])


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix, scipy.sparse.csc_array])
def test_sparse_stays_sparse(tmp_path, make):
    scipy.sparse.save_npz(tmp_path / "x.npz", make(BITS))
    table = read(tmp_path / "x.npz")
    assert table.values.format == "csr"
    np.testing.assert_array_equal(table.values.toarray(), BITS)


def test_sparse_with_wild_indices_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, format=b"csc", shape=[2, 3], data=[1], indices=[10**6], indptr=[0, 1, 1, 1])
    with pytest.raises(DataError, match=r"x\.npz"):
        read(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_a_carriage_return_in_a_name_or_a_label_comes_back(tmp_path, suffix):
    path = write(tmp_path / f"x{suffix}", [[1, 0.5], [0, 1]], ["a\rb", "c"], {"who": ["x\ry", "z"]})
    table = read(path, labels="who")
    assert table.feature_names == ("a\rb", "c")
    assert table.labels["who"].tolist() == ["x\ry", "z"]
    assert table.values.tolist() == [[1, 0.5], [0, 1]]


def test_parquet_tells_of_all_columns_of_text_or_keeps_them(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    day = pa.array([0, 1, 2], pa.date32())
    pq.write_table(pa.table({"who": ["p", None, "q"], "a": [1, 0, 1], "day": day}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"column 'who' holds string, column 'day' holds date32\[day\], not numbers"):
        read(tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet", keep_text=True)
    assert table.feature_names == ("a",)
    assert table.labels["who"].tolist() == ["p", "", "q"]
    assert [(one.label, one.what, one.n_different) for one in table.odd] == [("who", "text", 2), ("day", "dates", 3)]


def test_parquet_keeps_names_gaps_and_labels(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"yes": [True, False], "gap": [1.0, None], "who": ["p", "q"]}, index=["r", "s"])
    frame.to_parquet(tmp_path / "x.parquet")
    table = read(tmp_path / "x.parquet", labels=["who"])
    assert table.feature_names == ("yes", "gap")
    assert table.row_names == ("r", "s")
    assert table.labels["who"].tolist() == ["p", "q"]
    np.testing.assert_array_equal(table.values, [[1, 1], [0, np.nan]])
    with pytest.raises(DataError, match="'who'"):
        read(tmp_path / "x.parquet")


def test_parquet_names_what_it_cannot_take(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bits = pa.array([0, 1])
    pq.write_table(pa.table([bits, bits, bits], names=["a", "b", "a"]), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet: two columns are named 'a'; names must differ"):
        read(tmp_path / "x.parquet")
    for kind in (pa.timestamp("ns"), pa.date64(), pa.duration("s"), pa.time64("us")):
        pq.write_table(pa.table({"a": bits, "when": bits.cast(kind)}), tmp_path / "x.parquet")
        with pytest.raises(DataError, match=r"column 'when' holds .*, not numbers"):
            read(tmp_path / "x.parquet")


def test_zarr_array_and_group(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(tmp_path / "a.zarr"), BITS)
    np.testing.assert_array_equal(read(tmp_path / "a.zarr").values, BITS)
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    group.create_array("bits", data=GAPS)
    np.testing.assert_array_equal(read(tmp_path / "g.zarr").values, GAPS)
    group.create_array("more", data=BITS)
    np.testing.assert_array_equal(read(tmp_path / "g.zarr", key="more").values, BITS)
    with pytest.raises(DataError, match="key="):
        read(tmp_path / "g.zarr")
    zarr.create_array(str(tmp_path / "huge.zarr"), shape=(10**9, 10**9), chunks=(10, 10), dtype="u1")
    with pytest.raises(DataError, match="memory"):
        read(tmp_path / "huge.zarr")


@pytest.mark.filterwarnings("ignore")  # what anndata warns about while writing is not ours
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_matrix])
def test_h5ad_keeps_names(tmp_path, make):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    cells = anndata.AnnData(
        make(BITS.astype(np.float32)), obs=pd.DataFrame(index=["r", "s"]), var=pd.DataFrame(index=list(NAMES))
    )
    cells.write_h5ad(tmp_path / "x.h5ad")
    table = read(tmp_path / "x.h5ad")
    dense = table.values.toarray() if scipy.sparse.issparse(table.values) else table.values
    np.testing.assert_array_equal(dense, BITS)
    assert scipy.sparse.issparse(table.values) == (make is not np.asarray)
    assert (table.feature_names, table.row_names) == (NAMES, ("r", "s"))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "x.parquet", BITS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="tables"):
        read(path)


def test_import_is_light():
    heavy = "jax pandas polars pyarrow sklearn pooch zarr anndata scipy.sparse"
    code = f"import sys, latentbits.data; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_text_that_could_be_a_formula_gets_an_apostrophe(tmp_path, suffix):
    names = ["=1+2", "+x", "-y", "@z", "'=1+2", "'@y", "'90s", "a=b", "\tt", "-3", "＝1"]
    labels = ["=cmd()", "-5.5", "'quoted'"]
    path = write(tmp_path / f"x{suffix}", np.eye(3, 11) - 2, names, {"@who": labels})
    first, *rows = path.read_text().splitlines()
    cells = first.replace('"', "").split("," if suffix == ".csv" else "\t")
    assert cells[:9] == ["'@who", "'=1+2", "'+x", "'-y", "'@z", "''=1+2", "''@y", "'90s", "a=b"]
    assert cells[-2:] == ["-3", "'＝1"]  # a number is none
    assert [row[: row.index("," if suffix == ".csv" else "\t")] for row in rows] == ["'=cmd()", "-5.5", "'quoted'"]
    assert "-1" in rows[0].split("," if suffix == ".csv" else "\t")  # numbers stay numbers
    table = read(path, labels=["@who"])
    assert table.feature_names == tuple(names)
    assert table.labels["@who"].tolist() == labels


def test_labels_are_written_beside_the_values(tmp_path):
    values, labels = np.array([[1.0, np.nan], [0.0, 0.5]]), {"id": ["p1", "p2"], "n": [3, 4]}
    for kind in ("csv", "tsv", "parquet"):
        path = write(tmp_path / f"x.{kind}", values, ["a", "b"], labels)
        table = read(path, labels=["id", "n"])
        assert table.feature_names == ("a", "b")
        assert table.labels["id"].tolist() == ["p1", "p2"]
        assert table.labels["n"].tolist() == ["3", "4"]
        np.testing.assert_array_equal(table.values, values.astype(np.float32))
    kept = np.load(write(tmp_path / "x.npz", values, None, labels))
    assert kept["label_id"].tolist() == ["p1", "p2"]
    with pytest.raises(DataError, match="labels must have 2 values"):
        write(tmp_path / "x.csv", values, None, {"id": ["p1"]})
