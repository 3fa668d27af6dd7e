"""What every estimator makes of tables that are nearly tables: dates, doubled names, other marks of missing."""

import datetime

import numpy as np
import pytest
from scipy import sparse

from latentbits import BernoulliProduct, BinarySparseCoding, LatentTrait, compare, explore
from latentbits.choosing.search import search
from latentbits.core.errors import DataError
from latentbits.estimators.tables.opening import open_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
BITS = [0, 1, 1]
DAY = datetime.date(2020, 1, 1)


def opened(X, real):
    """Open X as an engine, without a fit."""
    estimator = BinarySparseCoding(2) if real else BernoulliProduct()
    return open_rows(estimator, X, reset=True, real=real)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 2), "M8[s]"),
        np.ones((3, 2), "m8[D]"),
        np.ma.masked_array(np.ones((3, 2), "m8[D]")),
        np.array([[np.timedelta64(1, "s"), 0], [0, 1]], object),
        np.array([[np.datetime64("2020"), 0], [0, 1]], object),
        [[DAY, 0], [0, 1]],
        [[datetime.timedelta(1), 0], [0, 1]],
        lambda: iter([np.ones((3, 2), "m8[D]")]),
    ],
    ids=["M8", "m8", "masked", "object m8", "object M8", "date", "timedelta", "stream"],
)
def test_dates_in_arrays_are_refused(X, real):
    with pytest.raises(DataError, match="column 0 holds dates or times"):
        opened(X, real)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.to_datetime(["2020", "2021", None])),
        pd.Series(pd.to_datetime(["2020", "2021", None], utc=True)),
        pd.Series(pd.to_timedelta([0, 1, 1])),
        pd.Series(pd.period_range("2020", periods=3)),
        pd.Series([DAY] * 3),
        pl.Series([DAY] * 3),
        pl.Series([datetime.timedelta(1)] * 3),
        pl.Series([datetime.datetime(2020, 1, 1)] * 3),
        pl.Series([datetime.time(1)] * 3),
    ],
    ids=lambda column: str(column.dtype),
)
def test_dates_in_frames_are_refused_by_name(column, real):
    library = pl if isinstance(column, pl.Series) else pd
    frame = library.DataFrame({"a": BITS, "when": column})
    with pytest.raises(DataError, match=r"column 1 \('when'\) holds dates or times"):
        opened(frame, real)


def test_dates_are_refused_wherever_tables_go():
    span = np.ones((20, 2), "m8[D]")
    frame = pd.DataFrame({"a": np.tile([0, 1], 10), "when": span[:, 0]})
    for refused in (
        lambda: LatentTrait(1, column_types="infer").fit(frame),
        lambda: LatentTrait(1, column_types="infer").fit(span),
        lambda: compare(span),
        lambda: search(span, budget=1),
        lambda: explore(span, out=None, budget=1),
    ):
        with pytest.raises(DataError, match="holds dates or times"):
            refused()


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None, np.nan], ids=str)
def test_every_mark_of_missing_is_missing(missing, real):
    rows = [[missing, 1], [1, 0], [0, 1]]
    plain, *others = (
        np.concatenate(list(opened(X, real).blocks()))
        for X in (np.array([[np.nan, 1], [1, 0], [0, 1]]), rows, np.array(rows, dtype=object))
    )
    for other in others:
        np.testing.assert_array_equal(other, plain)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("left_out", [np.nan, 1.0, 0.0])
def test_sparse_columns_may_leave_out_any_number(left_out, real):
    X = np.array([[np.nan, 1], [1, 0], [0, 1]])
    frame = pd.DataFrame(X).astype(pd.SparseDtype(float, left_out))
    for block, plain in zip(opened(frame, real).blocks(), opened(X, real).blocks(), strict=True):
        np.testing.assert_array_equal(block, plain)


@pytest.mark.parametrize("wrap", [lambda frame: frame, lambda frame: lambda: iter([frame])], ids=["frame", "stream"])
def test_doubled_names_are_one_clear_line(wrap):
    frame = pd.DataFrame([[0, 1, 1], [1, 0, 1]], columns=["a", "b", "a"])
    with pytest.raises(DataError, match=r"^X has two columns named 'a'; names must differ$"):
        BernoulliProduct().fit(wrap(frame))
    with pytest.raises(DataError, match="two columns named 'a'"):
        LatentTrait(1, column_types="infer").fit(frame)


MARK = r"If {0} marks a missing bit, make it NaN \(missing='{0}' when it is read from a file\)"


@pytest.mark.parametrize("value", [-9, -1, 9, 99, 255])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, pd.DataFrame], ids=["array", "sparse", "frame"])
def test_a_code_among_bits_may_be_a_missing_one(value, wrap):
    """To cut would make an answer of it: right or wrong, as the number may be."""
    X = np.array([[0, 1], [1, 0], [value, 0], [1, 1]])
    with pytest.raises(DataError, match=rf"row 2, column 0.* holds {value}\. " + MARK.format(value)) as caught:
        BernoulliProduct().fit(wrap(X))
    assert "binarize=" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1, -9, 99], MARK.format(-9) + r", and likewise with 99: binarize would"),
        ([1, -1, 1, -1], MARK.format(-1) + r"; if bits are -1 and 1, a model made with binarize=0 takes"),
        ([0, 255, 255, 0], MARK.format(255) + r"; if bits are 0 and 255, a model made with binarize=127.5 takes"),
        ([1, 2, 1, 2], MARK.format(2) + r"; if bits are 1 and 2, a model made with binarize=1.5 takes"),
        ([0, 1, 2, 3], MARK.format(2) + r", and likewise with 3; if these are counts, .*binarize=0.5 takes all but 0"),
        ([0, 1, 0.5, 1], r"holds 0.5. A model made with binarize=0.5, say, takes every value above"),
        ([0.0, 1.5, -2.5, np.nan], r"holds 1.5. A model made with binarize=0.5, say"),
        ([0, 3, 4, 5, 6, 7], r"holds 3. A model made with binarize=0.5, say, .* and the rest as a 0.$"),
        ([0, 3, 77, 5, 255, 7], r"holds 3. A model made with binarize=0.5.*numpy.unpackbits first"),
    ],
)
def test_what_is_no_bit_is_explained_by_the_values_around_it(values, message):
    with pytest.raises(DataError, match=message):
        BernoulliProduct().fit(np.array(values)[:, None])
