"""The face that all estimators share: what goes in, what comes out, and what is said when it cannot."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import bits
from quick import EVERY, every, fitted, new, table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import latentbits
from latentbits import BernoulliMixture, BernoulliProduct, load_dataset
from latentbits.core.errors import DataError
from latentbits.data.read import Table
from latentbits.estimators.families import families, family, family_of, name_of, size_of
from latentbits.estimators.tables import validate
from latentbits.telling.records import Table as TellTable

ONCE = iter([np.zeros((2, 3))])
NAMES = ["ant", "bee", "cat", "dog", "eel", "fly"]


@pytest.fixture
def X():
    table = bits(n=300, missing=0.1).astype(float)
    table[table == 255] = np.nan
    return table


@every(slow=("latent-trait", "combination-machine", "noisy-or"))
def test_shapes_and_types(name):
    m, X = fitted(name), table(name)
    n, d = X.shape
    latents = m.transform(X)
    k = latents.shape[1]
    assert latents.shape == (n, k)
    posterior = m.posterior(X)
    assert posterior.mean.shape == posterior.mode.shape == (n, k)
    assert m.inverse_transform(latents).shape == (n, d)
    rows = m.score_samples(X)
    assert rows.shape == (n,)
    assert rows.dtype == np.float64
    assert m.score(X) == pytest.approx(rows.mean())
    total, error = m.log_likelihood(X, return_error=True)
    assert total == m.log_likelihood(X) == pytest.approx(rows.sum())
    assert 0 <= error < 1e-2 * abs(total)
    sample = m.sample(40, random_state=0)
    assert sample.shape == (40, d)
    assert m.real_valued or set(np.unique(sample)) <= {0, 1}
    np.testing.assert_array_equal(sample, m.sample(40, random_state=0))
    assert m.sample(0).shape == (0, d)
    assert m.history_.ndim == 1
    assert m.n_iter_ >= 1
    assert list(m.get_feature_names_out()) == list(dict.fromkeys(m.get_feature_names_out()))
    assert len(m.get_feature_names_out()) == k


@every(slow=("combination-machine", "noisy-or"))
def test_completion_keeps_what_was_seen(name):
    m, X = fitted(name), table(name)
    filled = m.complete(X)
    seen = ~np.isnan(X)
    np.testing.assert_allclose(filled[seen], X[seen], rtol=1e-6)  # real numbers as the rows' precision has them
    assert np.isfinite(filled).all()
    assert m.real_valued or ((filled[~seen] >= 0) & (filled[~seen] <= 1)).all()
    complete = X[seen.all(1)][:20]
    if len(complete):
        np.testing.assert_allclose(m.complete(complete), complete, rtol=1e-6)


@every(slow=("combination-machine", "noisy-or"))
def test_the_record_describes_the_class(name):
    """Its name for people, its size and its rows are those of the fitted model."""
    m, record = fitted(name), family(name)
    assert family_of(m) is record
    assert (size_of(m), name_of(m)) == ((2, record.title(2)) if record.size else (1, record.title()))
    assert m.real_valued == ("bits" not in record.rows)
    told = record.teller.tell(m, TellTable(table(name), tuple(f"c{j}" for j in range(m.n_features_in_))))
    assert set(told.files) == set(record.files)
    shown = record.teller.show(name_of(m), m, table(name)[:50], len(table(name)))
    assert (shown.gallery is None) == record.alone
    for layer in () if shown.gallery is None else shown.gallery.layers:
        assert layer.active.shape == (50, len(layer.names))
        assert len(layer.weights) == len(layer.usage) == len(layer.examples) == len(layer.names)


def test_no_family_is_a_default():
    for name in ("mixtur", "", "Mixture"):
        with pytest.raises(ValueError, match="there is no family"):
            family(name)
    with pytest.raises(TypeError, match="an estimator must be one of"):
        family_of(object())


def test_public_names_are_those_of_the_records():
    lines = Path(latentbits.__file__).read_text("utf-8")
    for record in families():
        assert f"import {record.class_name} as {record.class_name}\n" in lines  # for checkers of types
        assert getattr(latentbits, record.class_name) is record.cls
        assert record.class_name in latentbits.__all__


def test_a_row_with_nothing_seen_gets_the_prior(X):
    m = BernoulliMixture(3, random_state=0, n_init=1).fit(X)
    nothing = np.full((1, 6), np.nan)
    np.testing.assert_allclose(m.transform(nothing)[0], m.weights_, rtol=1e-5)
    np.testing.assert_allclose(m.complete(nothing)[0], m.weights_ @ m.means_, rtol=1e-5)
    assert m.score_samples(nothing)[0] == pytest.approx(0, abs=1e-5)


def forms_of(X):
    """The same table in every form that is taken."""
    import dask.array

    filled = np.where(np.isnan(X), 1, X)
    yield "list", filled.tolist(), filled
    yield "list with None", np.where(np.isnan(X), None, X).tolist(), X
    yield "float32", filled.astype(np.float32), filled
    yield "int64", filled.astype(int), filled
    yield "uint8", filled.astype(np.uint8), filled
    yield "bool", filled.astype(bool), filled
    yield "object", np.where(np.isnan(X), None, X), X
    yield "Fortran order", np.asfortranarray(X), X
    yield "pandas", pd.DataFrame(X, columns=NAMES), X
    yield "masked", np.ma.masked_array(filled, np.isnan(X)), X
    yield "pandas objects", pd.DataFrame(np.where(np.isnan(X), pd.NA, X), columns=NAMES), X
    yield "pandas nullable", pd.DataFrame(X, columns=NAMES).astype("boolean"), X
    yield "polars", pl.DataFrame(X, schema=NAMES).fill_nan(None), X
    yield "polars Boolean", pl.DataFrame(X, schema=NAMES).fill_nan(None).cast(pl.Boolean), X
    yield "sparse", sparse.csr_matrix(filled), filled
    yield "sparse array", sparse.coo_array(filled.astype(np.int8)), filled
    yield "factory", lambda: (X[i : i + 47] for i in range(0, len(X), 47)), X
    yield "factory of frames", lambda: (pd.DataFrame(X[i : i + 150], columns=NAMES) for i in (0, 150)), X
    yield "factory of sparse", lambda: [sparse.csr_matrix(filled)], filled
    yield "Dask", dask.array.from_array(X, chunks=(64, 4)), X


@pytest.mark.parametrize("form", range(20))
def test_every_form_of_input_gives_the_same_fit(X, form):
    _, given, plain = list(forms_of(X))[form]
    m = BernoulliMixture(2, random_state=0, n_init=2, max_iter=40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected, expected_scores = m.fit(plain).means_, m.score_samples(plain)
        got = m.fit(given)
    np.testing.assert_array_equal(got.means_, expected)
    np.testing.assert_allclose(got.score_samples(given), expected_scores, rtol=1e-5)
    assert got.complete(given).shape == (300, 6)


def test_a_memory_map_is_streamed(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert type(validate.open_rows(BernoulliProduct(), mapped, reset=True, binarize=None)).__name__ == "StreamEngine"
    np.testing.assert_array_equal(BernoulliProduct().fit(mapped).means_, BernoulliProduct().fit(X).means_)


def test_a_large_sparse_table_is_never_dense(X, monkeypatch):
    monkeypatch.setattr(validate, "SPARSE_IN_MEMORY", 100)
    monkeypatch.setattr(validate, "SLICE_BYTES", 6 * 8 * 50)
    table = sparse.csr_matrix(np.nan_to_num(X))
    assert type(validate.open_rows(BernoulliProduct(), table, reset=True, binarize=None)).__name__ == "StreamEngine"
    np.testing.assert_array_equal(BernoulliProduct().fit(table).means_, BernoulliProduct().fit(table.toarray()).means_)


def test_frames_keep_their_names(X):
    frame = pd.DataFrame(X, columns=NAMES, index=[f"site {i}" for i in range(len(X))])
    m = BernoulliMixture(2, random_state=0, n_init=1).fit(frame)
    assert m.feature_names_in_.tolist() == NAMES
    filled = m.complete(frame)
    assert filled.columns.tolist() == NAMES
    assert filled.index.equals(frame.index)
    shown = m.set_output(transform="pandas").transform(frame)
    assert shown.columns.tolist() == ["bernoullimixture0", "bernoullimixture1"]
    assert shown.index.equals(frame.index)
    polars = pl.DataFrame(X, schema=NAMES)
    assert m.complete(polars).columns == NAMES
    with pytest.raises(ValueError, match="feature names should match"):
        m.transform(frame.rename(columns={"ant": "gnu"}))


# ---------------------------------------------------------------- strict mode


@pytest.mark.parametrize("kind", [float, np.float32, int, np.uint8])
@pytest.mark.parametrize("name", [one.name for one in families() if "bits" in one.rows])
def test_what_is_no_bit_is_named(name, kind):
    X = np.zeros((50, 6), kind)
    X[41, 3] = 2
    with pytest.raises(DataError, match=r"row 41, column 3 holds 2\. .*If 2 marks a missing bit, .*binarize=1 takes"):
        new(name).fit(X)


def test_the_name_of_the_column_is_told():
    frame = pd.DataFrame(np.zeros((4, 6)), columns=NAMES)
    frame.loc[2, "dog"] = 0.5
    with pytest.raises(DataError, match=r"row 2, column 3 \('dog'\) holds 0\.5"):
        BernoulliProduct().fit(frame)


@pytest.mark.parametrize("library", ["pandas", "pandas categories", "polars"])
def test_a_column_of_text_is_named(library):
    data = {"a": [0, 1, None], "id": ["1", "p2", "p3"]}
    frame = pl.DataFrame(data) if library == "polars" else pd.DataFrame(data)
    if library == "pandas categories":
        frame["id"] = frame["id"].astype("category")
    with pytest.raises(DataError, match=r"column 1 \('id'\) holds '(1|p2)'\. Leave columns of text out"):
        BernoulliProduct().fit(frame)
    frame = frame.assign(kind="x") if library != "polars" else frame.with_columns(kind=pl.lit("x"))
    with pytest.raises(DataError, match=r"Leave columns of text \('id', 'kind'\) out"):
        BernoulliProduct().fit(frame)


def test_a_mark_for_missing_is_recognised():
    with pytest.raises(DataError, match=r"holds -1\. If -1 marks a missing bit, make it NaN"):
        BernoulliProduct().fit(np.array([[1, 0], [-1, 0]]))


@pytest.mark.parametrize(
    ("X", "step"),
    [
        (load_dataset("lsat6"), "pass its .X"),
        (Table(np.eye(2)), "pass its .values"),
        (pl.DataFrame({"a": [1]}).lazy(), r"pass X.collect\(\)"),
    ],
    ids=["Dataset", "Table", "LazyFrame"],
)
def test_what_is_one_step_from_a_table(X, step):
    with pytest.raises(TypeError, match=step):
        BernoulliProduct().fit(X)


def test_rows_are_counted_across_batches():
    good, bad = np.zeros((30, 4)), np.zeros((30, 4))
    bad[7, 1] = -1
    with pytest.raises(DataError, match="row 37, column 1 holds -1"):
        BernoulliProduct().fit(lambda: [good, bad])


def test_rows_are_counted_in_sparse_tables():
    table = sparse.lil_matrix((100, 4))
    table[63, 2] = 3
    with pytest.raises(DataError, match="row 63, column 2 holds 3"):
        BernoulliProduct().fit(table.tocsr())


def test_transform_is_as_strict_as_fit(X):
    m = BernoulliMixture(2, random_state=0, n_init=1).fit(X)
    with pytest.raises(DataError, match="row 0, column 0 holds 7"):
        m.transform(np.full((2, 6), 7))


def test_binarize_cuts_and_keeps_holes():
    table = np.array([[0.2, 3.0], [np.nan, -1.0], [0.9, 0.5]])
    m = BernoulliProduct(smoothing=0, binarize=0.5).fit(table)
    np.testing.assert_allclose(m.means_, [0.5, 1 / 3])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros(5), ValueError, "2D array"),
        (np.zeros((0, 3)), ValueError, "0 sample"),
        (np.zeros((3, 0)), ValueError, "0 feature"),
        (np.array([[np.inf, 0]]), ValueError, "infinity"),
        ([["a", "b"]], ValueError, "column 0 holds 'a'"),
        (np.array([[1j, 0]]), ValueError, "Complex"),
        ((row for row in [[1, 0]]), TypeError, "can be read only once"),
        (lambda: 3, TypeError, "must give an iterable of batches"),
        (lambda: [], DataError, "no batches"),
        (lambda: [np.zeros((0, 3))], ValueError, "no rows"),
        (lambda: [np.zeros((2, 3)), np.zeros((2, 4))], ValueError, "X has 4 features, but"),
        (lambda: ONCE, TypeError, "gives the same iterator each time"),
        (
            lambda: [pd.DataFrame(np.eye(2), columns=["a", "b"]), pd.DataFrame(np.eye(2), columns=["b", "a"])],
            ValueError,
            "feature names",
        ),
        (lambda: [np.zeros(3)], DataError, "must be 2-dimensional"),
        (None, ValueError, "2D array|array"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_bad_input_is_told_apart(X, error, message):
    with pytest.raises(error, match=message):
        BernoulliMixture(2, random_state=0).fit(X)


def test_a_stream_without_rows(X):
    m = BernoulliProduct().fit(X)
    with pytest.raises(DataError, match="no rows"):
        m.score_samples(lambda: [np.zeros((0, 6))])


def test_infinity_in_a_memory_map(tmp_path):
    table = np.zeros((9, 2))
    table[4, 1] = np.inf
    np.save(tmp_path / "x.npy", table)
    with pytest.raises(DataError, match="infinity"):
        BernoulliProduct(binarize=0.5).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"smoothing": -1},
        {"init": "magic"},
        {"n_init": 0},
        {"max_iter": -1},
        {"max_time": 0},
        {"dtype": "float16"},
        {"dtype": int},
        {"binarize": "yes"},
        {"tol": "small"},
    ],
    ids=str,
)
def test_bad_parameters_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        BernoulliMixture(**{"n_components": 2, **options}).fit(np.eye(4))


@EVERY
def test_use_before_fit(name):
    for method in ("transform", "score_samples", "complete", "posterior", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(new(name), method)(np.eye(6))


def test_points_of_the_wrong_dimension():
    m = BernoulliMixture(3, random_state=0, n_init=1).fit(np.eye(6))
    with pytest.raises(DataError, match="Z has 2 columns, but BernoulliMixture has 3 latents"):
        m.inverse_transform(np.ones((4, 2)))


def test_a_fit_that_fails_leaves_nothing_behind(X):
    m = BernoulliProduct().fit(X)
    with pytest.raises(DataError):
        m.fit(np.full((3, 2), 5))
    with pytest.raises(NotFittedError):
        m.score(X)


def test_very_many_columns_take_little_memory():
    """The sample of rows and the chunks shrink with the number of columns."""
    from latentbits.engines.chunks import layout_for
    from latentbits.engines.summary import sampled_rows

    assert sampled_rows(64) == 1024
    assert sampled_rows(10**6) * 10**6 * 8 <= 2**27
    assert layout_for(3 * 10**6, np.dtype(np.float32), 2**24).rows_per_chunk == 8


def test_a_fit_that_did_not_converge_says_so(X):
    with pytest.warns(ConvergenceWarning, match="reached max_iter after 2 iterations"):
        m = BernoulliMixture(3, random_state=0, max_iter=2, accelerate=False, n_init=1).fit(X)
    assert not m.converged_


def test_double_precision_on_request(X):
    m = BernoulliMixture(3, random_state=0, dtype=np.float64, n_init=1).fit(X)
    assert m.transform(X).dtype == np.float64
    assert BernoulliMixture(3, random_state=0, n_init=1).fit(X).transform(X).dtype == np.float32
    assert m.means_.dtype == np.float64
