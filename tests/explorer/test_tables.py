"""A table comes as an array, a frame, a sparse matrix or a public set; which of its rows are shown."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from latentbits import load_dataset
from latentbits.core.errors import DataError
from latentbits.explorer import tables
from latentbits.explorer.notes import columns_kept
from latentbits.explorer.tables import shown_labels, shown_rows, take_table

BITS = np.tile([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]], (5, 1))
PARTY = np.tile(["left", "right"], 5)


def test_labels_are_taken_out_of_a_frame():
    frame = pl.DataFrame({"a": BITS[:, 0], "party": PARTY, "b": BITS[:, 1], "c": BITS[:, 2]})
    given = take_table(frame, "party")
    np.testing.assert_array_equal(given.values, BITS)
    assert given.columns == ("a", "b", "c")
    assert given.labels["party"].tolist() == PARTY.tolist()
    table, n_close = shown_rows(given, 0)
    assert table.labels[0].levels == ("left", "right")
    assert table.labels[0].codes.tolist() == [0, 1] * 5
    assert n_close == 10


def test_frames_of_all_kinds():
    """Nullable types, names that occur twice, names that are numbers, labels that are missing or of several types."""
    frame = pd.DataFrame({1: pd.array([0, 1, pd.NA, 1, 0] * 2, "Int64"), "kind": ["a", None, 3, "a", 3] * 2})
    frame["flag"] = pd.array([True, False, pd.NA, True, False] * 2, "boolean")
    frame.columns = ["bit", "kind", "bit"]
    given = take_table(frame, "kind")
    np.testing.assert_array_equal(given.values[:3], [[0, 1], [1, 0], [np.nan, np.nan]])
    assert given.columns == ("bit", "bit")
    assert shown_rows(given, 0)[0].labels[0].levels == ("3", "a")
    assert shown_rows(given, 0)[0].labels[0].codes[:3].tolist() == [1, -1, 0]
    numbered = take_table(
        pd.DataFrame(BITS), list(PARTY), column_names=pd.Index(["a", "b", "c"]), row_names=np.arange(10)
    )
    assert numbered.columns == ("a", "b", "c")
    assert numbered.labels["label"].tolist() == PARTY.tolist()
    assert numbered.row_names[3] == "3"
    days = np.array(["2026-01-01", "2026-02-01"] * 5, "datetime64[D]")
    known = take_table(BITS, {"day": days, "na": pd.array(["a", pd.NA] * 5, "string")}).labels
    assert known["day"].tolist()[:2] == ["2026-01-01", "2026-02-01"]
    assert known["na"].tolist()[:2] == ["a", None]
    assert take_table(BITS, [None, *np.arange(9.0)]).labels["label"].tolist() == [None, *range(9)]


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_of_a_frame_that_are_no_bits_are_labels(library):
    columns = {
        "a": BITS[:, 0],
        "party": PARTY,
        "b": BITS[:, 1],
        "depth": np.arange(10) / 4,
        "c": BITS[:, 2],
        "on": BITS[:, 1] > 0,
        "day": [datetime.date(2026, 1, i + 1) for i in range(10)],
    }
    warning = r"taken as labels, since they are no bits: party \(text\), depth \(numbers\), day \(dates\)"
    with pytest.warns(UserWarning, match=warning):
        given = take_table(library.DataFrame(columns))
    assert given.columns == ("a", "b", "c", "on")
    assert (given.real, list(given.labels)) == (False, ["party", "depth", "day"])
    assert given.labels["depth"].tolist() == (np.arange(10) / 4).tolist()
    for labels, first in (("day", "day"), (np.arange(10), "label")):  # those that are named come first
        with pytest.warns(UserWarning, match="taken as labels"):
            given = take_table(library.DataFrame(columns), labels)
        assert [*given.labels] == list(dict.fromkeys([first, "party", "depth", "day"]))
    del columns["party"], columns["day"]
    assert take_table(library.DataFrame(columns), real=True).columns == ("a", "b", "depth", "c", "on")


def test_codes_in_a_frame_are_reported_at_once():
    frame = pd.DataFrame(np.nan_to_num(BITS), columns=["a", "b", "c"])
    frame.loc[3, "a"], frame.loc[4, "c"] = -9, 99
    with pytest.raises(
        DataError, match=r"a \(with -9\), c \(with 99\)\. If -9 and 99 mark missing cells, make them NaN"
    ):
        take_table(frame)


def test_words_for_bits_in_a_frame():
    """pandas reads numbers that are text; other words for bits are none here, and no labels either."""
    frame = pd.DataFrame({"a": ["0", "1"] * 5, "b": [True, None] * 5, "c": [1, 0] * 5})
    np.testing.assert_array_equal(take_table(frame).values[:2], [[0, 1, 1], [1, np.nan, 0]])
    for column in (["yes", "no"] * 5, pd.Categorical([0, 1] * 5)):
        with pytest.raises(DataError, match=r"columns that hold no numbers: d .*Bits are written as 0 and 1"):
            take_table(frame.assign(d=column))


def test_a_label_that_is_no_column():
    with pytest.raises(DataError, match="labels: there is no column 'partei'; there are a, b"):
        take_table(pd.DataFrame({"a": [0, 1] * 5, "b": [1, 0] * 5}), "partei")


def test_a_public_set_brings_all_it_has():
    digits = load_dataset("digits")
    given = take_table(digits)
    assert given.source == "digits"
    assert given.image_shape == (8, 8)
    assert given.columns == digits.feature_names == take_table(digits.X, image_shape=(8, 8)).columns
    assert set(given.labels) == set(digits.labels)
    assert not given.real


def test_labels_that_are_all_different_name_the_rows():
    given = take_table(BITS, {"party": PARTY, "site": np.arange(10)})
    assert given.row_names[:2] == ("site 0", "site 1")
    assert [labels.name for labels in shown_rows(given, 0)[0].labels] == ["party"]


def test_measured_numbers_stay_numbers():
    """As numbers or as text, with holes; few whole numbers are kinds, and codes such as 007 are words."""
    wet = np.array([0.5, 1.5, 2.5, np.nan, 0.5] * 2)
    text = np.array(["0.5", "1.5", "2.5", "", "0.5"] * 2)
    ages = np.arange(24) * 2 % 22
    (first, second, few, codes), left_out = shown_labels(
        {"wet": wet, "text": text, "grade": np.arange(10) % 3, "code": np.array(["007", "08"] * 5)}, np.arange(10)[::-1]
    )
    for labels in (first, second):
        assert labels.levels == ()
        np.testing.assert_array_equal(labels.numbers, wet[::-1])
        assert labels.codes.tolist() == [0, -1, 0, 0, 0] * 2
    assert (few.levels, few.numbers) == (("0", "1", "2"), None)
    assert codes.levels == ("007", "08")
    assert left_out == ()
    assert shown_labels({"age": ages}, np.arange(24))[0][0].numbers.tolist() == ages.tolist()
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz") * 4)  # all kinds are kept; the page colours the commonest
    ((labels,), left_out) = shown_labels({"letter": letters}, np.arange(104))
    assert (len(labels.levels), left_out) == (26, ())


def test_labels_that_tell_nothing_are_listed_with_the_reason():
    known = {
        "site": [f"site {i}" for i in range(20)],
        "number": np.arange(1, 21),
        "country": ["CH"] * 20,
        "blank": [None] * 20,
        "nearly": [f"n{i // 2 if i < 4 else i}" for i in range(20)],
        "party": ["left", "right"] * 10,
    }
    given = take_table(np.tile(BITS, (2, 1)), known)
    table, _ = shown_rows(given, 0)
    assert [labels.name for labels in table.labels] == ["party"]
    assert dict(table.left_out_labels) == {
        "site": "no two rows share one: they name rows",
        "number": "no two rows share one: they name rows",
        "country": "the same in every row",
        "blank": "nothing is known",
        "nearly": "18 different ones in 20 rows: too many to be kinds",
    }
    assert given.row_names[3] == "site 3"


def test_measured_numbers_name_no_rows():
    """Though no two rows share one."""
    given = take_table(BITS, {"wet": np.arange(10) / 4, "mass": np.arange(10) ** 2 * 3 + 7})
    assert given.row_names[:2] == ("mass 7", "mass 10")
    assert take_table(BITS, {"wet": np.arange(10) / 4}).row_names is None
    labels = shown_rows(given, 0)[0].labels
    assert [one.name for one in labels if one.numbers is not None] == ["wet"]


def test_sparse_rows_stay_sparse_until_shown_and_fractions_are_real_numbers():
    given = take_table(sparse.csr_array(np.nan_to_num(BITS)))
    assert sparse.issparse(given.values)
    np.testing.assert_array_equal(shown_rows(given, 0)[0].values, np.nan_to_num(BITS))
    given = take_table(BITS + 0.25)
    assert given.real
    np.testing.assert_array_equal(given.values, BITS + 0.25)


def test_other_whole_numbers_must_be_explained():
    """Counts, codes or slips: an error names the first, and one of two arguments says what they are."""
    counts = 3 * BITS
    with pytest.raises(DataError, match=r"row 0.*column 1"):
        take_table(counts)
    assert take_table(counts, real=True).real
    np.testing.assert_array_equal(take_table(counts, binarize=0).values, BITS)
    np.testing.assert_array_equal(take_table(sparse.csr_array(counts), binarize=0).values.toarray(), BITS)
    with pytest.raises(DataError, match="binarize=-1 would make the zeros that a sparse table leaves out ones"):
        take_table(sparse.csr_array(np.nan_to_num(BITS)), binarize=-1)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"image_shape": (2, 2)}, "image_shape 2x2 needs 4 columns, found 3"),
        ({"labels": PARTY[:4]}, "labels: label must be 10 values, one a row"),
        ({"column_names": ["a"]}, "column_names must be 3 names, found 1"),
        ({"row_names": ["a"]}, "row_names must be 10 names, found 1"),
    ],
)
def test_what_does_not_fit_is_refused(more, words):
    with pytest.raises(DataError, match=words):
        take_table(BITS, **more)


def test_of_many_rows_a_sample_comes_first(monkeypatch):
    """Rows looked at closely are a sample, every row is there once, and labels and names go with their rows."""
    monkeypatch.setattr(tables, "MOST_CLOSE", 6)
    names = [f"row {i}" for i in range(10)]
    table, n_close = shown_rows(take_table(BITS, PARTY, row_names=names), 0)
    assert n_close == 6
    assert sorted(table.numbers) == list(range(10))
    assert table.numbers[:6].tolist() != list(range(6))
    np.testing.assert_array_equal(table.values, BITS[table.numbers])
    assert table.row_names == tuple(names[i] for i in table.numbers)
    assert table.labels[0].codes.tolist() == (table.numbers % 2).tolist()


def test_a_page_is_not_filled_beyond_its_size(monkeypatch):
    monkeypatch.setattr(tables, "FEWEST_SHOWN", 2)
    monkeypatch.setattr(tables, "MOST_BYTES", 8 * (tables.PLACED + 3 / 8))
    assert len(shown_rows(take_table(BITS), 0)[0].values) == 8


def test_of_very_many_columns_those_that_vary_most_are_taken(monkeypatch):
    monkeypatch.setattr(tables, "MOST_COLUMNS", 3)
    X = np.zeros((10, 5))
    X[:1, 0] = X[:5, 1] = X[:4, 3] = X[:2, 4] = 1  # column 2 is constant, and column 0 nearly
    for values in (X, sparse.csr_matrix(X)):
        given = take_table(values, column_names=list("abcde"))
        assert given.columns == ("b", "d", "e")
        assert given.n_columns == 5
        np.testing.assert_array_equal(np.asarray(sparse.csr_matrix(given.values).todense()), X[:, [1, 3, 4]])
    assert take_table(X, image_shape=(1, 5)).values.shape == (10, 5)
    holes = np.where(np.arange(10)[:, None] < [0, 9, 0, 0, 0], np.nan, X)  # of b next to nothing is left
    assert take_table(holes, column_names=list("abcde")).columns == ("a", "d", "e")
    assert "Of the 5 columns the page and its models have the 3 that vary most" in columns_kept(given)


def test_a_sparse_table_is_checked_without_making_it_dense(monkeypatch):
    """Dense it would have 93 GiB."""
    rows = np.arange(2000)
    X = sparse.csr_matrix((np.ones(2000), (rows, rows * 3)), shape=(10**6, 10**5))
    monkeypatch.setattr(sparse.csr_matrix, "toarray", None)
    given = take_table(X)
    assert given.values.shape == (10**6, tables.MOST_COLUMNS)
    assert given.values.nnz == 2000
    X.data[5] = 2
    with pytest.raises(DataError, match="row 5, column 15 holds 2"):
        take_table(X)


def test_labels_without_names_and_with_the_same_name_are_distinguished():
    wet = np.arange(10.0) / 4
    numbered = pd.DataFrame(np.column_stack([BITS, wet, PARTY])).astype(dict.fromkeys(range(BITS.shape[1]), float))
    with pytest.warns(UserWarning, match="taken as labels"):
        known = take_table(numbered).labels
    assert list(known) == ["label 1", "label 2"]
    twice = pd.DataFrame({**{f"b{j}": BITS[:, j] for j in range(BITS.shape[1])}, "x": wet, "y": PARTY})
    with pytest.warns(UserWarning, match="taken as labels"):
        known = take_table(twice.rename(columns={"x": "site", "y": "site"})).labels
    assert list(known) == ["site", "site (2)"]
    assert known["site (2)"].tolist() == PARTY.tolist()
    assert list(take_table(BITS, np.column_stack([PARTY, PARTY])).labels) == ["label 1", "label 2"]
    assert list(take_table(BITS, pd.DataFrame({"a": PARTY})).labels) == ["a"]


def test_a_table_of_nothing_is_refused():
    with pytest.raises(DataError, match="all cells of the table are missing"):
        take_table(np.full((30, 4), np.nan))


def test_names_do_not_act_on_the_page():
    """Neither by characters that turn what is beside them around, nor by their length."""
    turned, endless = "a\u202eb", "m" * 10_000
    given = take_table(
        BITS,
        {turned: [endless, turned] * 5},
        column_names=["x\ny", turned, endless],
        source=turned,
        row_names=[turned] * 10,
    )
    short = "m" * 199 + "…"
    assert (given.source, given.columns, given.row_names[0]) == (
        r"a\u202eb",
        (r"x\ny", r"a\u202eb", short),
        r"a\u202eb",
    )
    ((label,), _) = shown_labels(given.labels, np.arange(10))
    assert (label.name, label.levels) == (r"a\u202eb", (r"a\u202eb", short))


def test_texts_of_numbers_are_in_the_order_of_the_numbers():
    grades = np.array(["1", "2", "3", "10"] * 20, dtype=object)
    ((grade,), left_out) = shown_labels({"grade": grades}, np.arange(8))
    assert (grade.levels, grade.ordered, left_out) == (("1", "2", "3", "10"), True, ())
    np.testing.assert_array_equal(grade.codes, [0, 1, 2, 3] * 2)
