"""Headers as pandas and R write them, over bits and over real numbers, against tables that have none."""

import io
import warnings

import numpy as np
import pytest

from latentbits.core.errors import DataError
from latentbits.data import read, write

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (12, 6))
REALS = RNG.normal(size=(12, 6))


def read_text(tmp_path, text, name="x.csv", **options):
    """The table, and the warnings in doubt."""
    path = tmp_path / name
    path.write_text(text)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        table = read(path, **options)
    return table, [str(one.message) for one in warned]


def as_r(values, delimiter, corner=False):
    """What `write.table` writes, and with a name for the corner, `write.csv`."""
    names = [f'"V{j + 1}"' for j in range(values.shape[1])]
    lines = [delimiter.join((['""'] if corner else []) + names)]
    lines += [delimiter.join([f'"{i + 1}"', *(repr(float(x)) for x in row)]) for i, row in enumerate(values)]
    return "\n".join(lines) + "\n"


KINDS = pytest.mark.parametrize("values", [BITS, REALS], ids=["bits", "reals"])
WIDTHS = (1, 2, 3, 5)


@KINDS
@pytest.mark.parametrize(("delimiter", "suffix"), [(",", "csv"), (";", "csv"), ("\t", "txt"), (" ", "txt")])
def test_an_index_and_default_names_of_pandas(tmp_path, values, delimiter, suffix):
    for width in WIDTHS:
        table, warned = read_text(tmp_path, pd.DataFrame(values[:, :width]).to_csv(sep=delimiter), f"x.{suffix}")
        np.testing.assert_array_equal(table.values, values[:, :width])
        assert table.feature_names == tuple(map(str, range(width)))
        assert table.row_names == tuple(map(str, range(len(values))))
        assert warned == []


@KINDS
@pytest.mark.parametrize("width", WIDTHS)
def test_default_names_of_pandas(tmp_path, values, width):
    values = values[:, :width]
    text = pd.DataFrame(values).to_csv(index=False)
    table, warned = read_text(tmp_path, text)
    if values.dtype.kind == "i" and width <= 2:
        # 0,1 over bits could be a row of bits, and is one
        assert table.shape == (len(values) + 1, width)
        table, warned = read_text(tmp_path, text, header=True)
    np.testing.assert_array_equal(table.values, values)
    assert table.feature_names == tuple(map(str, range(width)))
    assert bool(warned) == (values.dtype.kind == "f" and width <= 2)


@KINDS
@pytest.mark.parametrize(
    ("delimiter", "corner", "suffix"),
    [(",", True, "csv"), (" ", False, "txt"), ("\t", False, "tsv"), (",", False, "csv")],
)
def test_tables_of_r(tmp_path, values, delimiter, corner, suffix):
    for width in (1, 2, 5):
        table, warned = read_text(tmp_path, as_r(values[:, :width], delimiter, corner), f"x.{suffix}")
        np.testing.assert_array_equal(table.values, values[:, :width])
        assert table.feature_names == tuple(f"V{j + 1}" for j in range(width))
        assert table.row_names == tuple(str(i + 1) for i in range(len(values)))
        assert warned == []


def test_names_of_rows_with_blanks_and_quotes(tmp_path):
    table, _ = read_text(tmp_path, '"a" "b c"\n"one row" 0 1\n"say \\"x\\"" 1 0\n', "x.txt")
    assert table.feature_names == ("a", "b c")
    assert table.row_names == ("one row", 'say "x"')


@pytest.mark.parametrize("text", ["a,b\n1,0,1\n1,1,1\n", "a,b\n0,1,\n1,1,\n", "0,1\n1,0,1\n"])
def test_a_short_header_over_anything_but_names_of_rows_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="line 2: 3 cells, but line 1 has 2"):
        read_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "shape", "doubt"),
    [
        ("0,1,2\n3,4,5\n6,7,8\n", (3, 3), False),  # it goes on counting: a row
        ("0,1,2\n3,1,0\n2,2,1\n", (2, 3), True),  # counts: names, in doubt
        ("0,1\n3,1\n2,2\n", (3, 2), False),
        ("0,1\n0.5,1\n1,0.25\n", (3, 2), True),  # a 1 without a point below: a row, in doubt
        ("0\n0.5\n0.25\n", (2, 1), True),
        (",0,1\n0,1,1\n1,0,1\n1,1,0\n", (4, 3), False),  # a row of bits whose first is missing
        (",1\n0,1\n1,0\n", (3, 2), False),
        (",0,1\n7,1,1\n3,0,1\n", (2, 2), False),  # an index that is no row of bits
        (",0\n0,1\n1,0\n", (2, 1), True),
        (",3,7\n0,1,1\n1,0,1\n2,1,0\n", (3, 2), False),
        (",3,7\n5,4,1\n2,4,1\n9,3,0\n", (4, 3), True),
        ("0,1,2\n", (1, 3), False),
    ],
)
def test_what_could_be_either(tmp_path, text, shape, doubt):
    table, warned = read_text(tmp_path, text)
    assert table.shape == shape
    assert [("x.csv: the first line" in one and "header= settles it" in one) for one in warned] == [True] * doubt


def test_numbers_without_names_stay_rows(tmp_path):
    """What is written without a header is read without one, whatever its first row is."""
    for first in ([0], [0, 1], [0, 1, 2], [np.nan, 0, 1], [np.nan, 3, 7], [np.nan, 0, 1, 2]):
        for rest in (0, 1, 0.5, 4.25, 7):
            below = np.arange(3)[:, None] * rest + np.zeros(len(first))
            below[:, 0] = np.arange(3)
            values = np.vstack([first, below])
            path = write(tmp_path / "x.csv", values)
            np.testing.assert_array_equal(read(path).values, values)
            if not np.isnan(values).any() and rest == int(rest):
                whole = write(tmp_path / "x.csv", values.astype(int))
                np.testing.assert_array_equal(read(whole).values, values)


def test_a_long_table_is_decided_by_its_first_lines(tmp_path):
    values = RNG.integers(0, 2, (3000, 3))
    table, warned = read_text(tmp_path, pd.DataFrame(values).to_csv(index=False))
    np.testing.assert_array_equal(table.values, values)
    assert warned == []


def test_labels_go_by_name_before_they_go_by_number(tmp_path):
    text = pd.DataFrame({"0": [0, 1, 1], "1": ["p", "q", "r"], "2": [1, 1, 0]}).to_csv()
    table, _ = read_text(tmp_path, text, labels=["1"])
    assert table.feature_names == ("0", "2")
    assert table.labels["1"].tolist() == ["p", "q", "r"]
    bare, _ = read_text(tmp_path, "p,1,0\nq,0,1\n", labels=["0"])
    assert bare.labels["0"].tolist() == ["p", "q"]
    with pytest.raises(DataError, match="'²'"):
        read_text(tmp_path, "p,1,0\nq,0,1\n", labels=["²"])


def test_the_same_as_pandas_reads(tmp_path):
    for trial in range(60):
        rng = np.random.default_rng(trial)
        n, d = rng.integers(3, 8), rng.integers(3, 7)
        frame = pd.DataFrame(
            np.where(rng.random((n, d)) < 0.2, np.nan, rng.normal(size=(n, d)).round(rng.integers(1, 17)))
        )
        frame = frame.dropna(how="all", ignore_index=True)
        frame.iloc[0, 0] = 0.5
        delimiter = ",;"[trial % 3 == 0]
        text = frame.to_csv(index=bool(trial % 2), sep=delimiter)
        table, _ = read_text(tmp_path, text)
        again = pd.read_csv(
            io.StringIO(text), index_col=0 if trial % 2 else None, sep=delimiter, float_precision="round_trip"
        )
        np.testing.assert_array_equal(table.values, again.to_numpy())
