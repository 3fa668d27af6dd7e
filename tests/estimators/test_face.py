"""The face that all estimators share: what goes in, what comes out, and what is said when it cannot."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from functools import cache
from pathlib import Path

import dask.array
import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests import tables
from tests.fitted import EVERY, every, fitted, new, table
from tests.tables import N, classes

import latentbits
from latentbits import BernoulliMixture, BernoulliProduct, load, load_dataset
from latentbits.core.errors import DataError
from latentbits.core.model import Measure
from latentbits.data.read import Table
from latentbits.engines.chunks import layout_for
from latentbits.engines.row_sample import sampled_rows
from latentbits.estimators.families import families, family, family_of, name_of, size_of
from latentbits.estimators.scoring import LEAST_NATS
from latentbits.estimators.tables import encoding, opening
from latentbits.reports.summaries.records import Rows

ONCE = iter([np.zeros((2, 3))])
NAMES = ["ant", "bee", "cat", "dog", "eel", "fly"]
SHAPE = (N, len(NAMES))


@pytest.fixture(scope="module")
def X():
    return classes(missing=0.1)


# ---------------------------------------------------------------- every family, by the fit that tests share


@EVERY
def test_shapes_and_types(name):
    m, X = fitted(name), table(name)
    before = dict(vars(m))
    latents = m.transform(X)
    n, k = latents.shape
    posterior = m.posterior(X)
    assert posterior.mean.shape == posterior.mode.shape == (n, k)
    np.testing.assert_allclose(posterior.mean, latents, rtol=1e-5, atol=1e-6)
    on_the_first = {"maps": 0} if name == "trait-maps" else {}
    assert m.inverse_transform(latents, **on_the_first).shape == X.shape
    rows = m.score_samples(X)
    assert (rows.shape, rows.dtype) == ((n,), np.float64)
    assert m.score(X) == pytest.approx(rows.mean())
    weights = np.arange(n)
    assert m.score(X, sample_weight=weights) == pytest.approx(rows @ weights / weights.sum())
    total, error = m.log_likelihood(X, return_error=True)
    assert total == m.log_likelihood(X) == pytest.approx(rows.sum())
    assert 0 <= error < 1e-2 * abs(total)
    sample = m.sample(40, random_state=0)
    assert sample.shape == (40, X.shape[1])
    assert m.real_valued or set(np.unique(sample)) <= {0, 1}
    np.testing.assert_array_equal(sample, m.sample(40, random_state=0))
    assert m.sample(0).shape == (0, X.shape[1])
    assert m.history_.ndim == 1
    assert m.n_iter_ >= 1
    assert len(set(m.get_feature_names_out())) == len(m.get_feature_names_out()) == k
    assert vars(m).keys() == before.keys()
    assert all(vars(m)[key] is before[key] for key in before)  # the use of a model leaves it as it is


@EVERY
def test_completion_keeps_what_was_seen(name):
    m, X = fitted(name), table(name)
    filled, seen = m.complete(X), ~np.isnan(X)
    np.testing.assert_allclose(filled[seen], X[seen], rtol=1e-6)  # real numbers as the rows' precision has them
    assert np.isfinite(filled).all()
    assert m.real_valued or ((filled[~seen] >= 0) & (filled[~seen] <= 1)).all()
    complete = X[seen.all(1)]
    np.testing.assert_allclose(m.complete(complete), complete, rtol=1e-6)


@EVERY
def test_rows_are_on_their_own_and_one_with_nothing_seen_says_nothing(name):
    m, X = fitted(name), table(name).copy()
    X[0] = np.nan
    order = np.random.default_rng(0).permutation(len(X))
    for method in (m.score_samples, m.transform):
        np.testing.assert_allclose(method(X[order]), method(X)[order], rtol=1e-5, atol=1e-6)
    assert m.score_samples(X)[0] == pytest.approx(0, abs=1e-5)


@EVERY
def test_the_form_of_a_table_is_nothing_to_a_fitted_model(name):
    m, X = fitted(name), table(name)
    forms = [lambda: (X[i : i + 47] for i in range(0, len(X), 47))]
    if name in (
        "latent-trait",
        "item-response",
        "trait-maps",
        "binary-sparse-coding",
    ):  # which have ways of their own with lazy tables
        forms.append(dask.array.from_array(X, chunks=(100, 4)))
    scores, latents, filled = m.score_samples(X), m.transform(X), m.complete(X)
    for given in forms:
        np.testing.assert_allclose(m.score_samples(given), scores, rtol=1e-6)
        np.testing.assert_allclose(m.transform(given), latents, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(m.complete(given), filled, rtol=1e-5, atol=1e-6)


@EVERY
def test_round_trip_to_the_bit(name, tmp_path):
    """By a file, and by pickle; a frame comes back as one."""
    X, model = table(name), copy.copy(fitted(name))
    model.feature_names_in_ = np.array(NAMES, dtype=object)
    frame = pd.DataFrame(X, columns=NAMES, index=[f"site {i}" for i in range(len(X))])
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.feature_names_in_.tolist() == NAMES
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, again.params_, model.params_)))
    for one in ("history_", "history_table_", "objective_", "n_iter_", "converged_", "stop_reason_", "n_rows_"):
        np.testing.assert_array_equal(getattr(again, one), getattr(model, one))
    for other in (again, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.score_samples(frame), model.score_samples(frame))
        np.testing.assert_array_equal(other.transform(frame), model.transform(frame))
        np.testing.assert_array_equal(other.sample(40, random_state=0), model.sample(40, random_state=0))
    filled = again.complete(frame)
    assert filled.columns.tolist() == NAMES
    assert filled.index.equals(frame.index)
    with pytest.raises(ValueError, match="feature names should match"):
        again.transform(frame.rename(columns={"ant": "gnu"}))
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "n.safetensors").read_bytes()


@EVERY
def test_a_clone_is_equal_and_not_fitted(name):
    m = fitted(name)
    other = clone(m)
    assert other.get_params() == m.get_params()
    assert repr(other) == BaseEstimator.__repr__(m)
    for method in ("transform", "score_samples", "complete", "posterior", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(other, method)(np.eye(6))


@EVERY
def test_the_record_describes_the_class(name):
    """Its name for people, its size and its rows are those of the fitted model."""
    m, record = fitted(name), family(name)
    assert family_of(m) is record
    assert (size_of(m), name_of(m).removeprefix("2 ")) == (
        (2, record.title(2).removeprefix("2 ")) if record.size else (1, record.title())
    )  # of maps the name begins with their number
    assert m.real_valued == ("bits" not in record.rows)
    summary = record.summaries.summarize(m, Rows(table(name), tuple(f"c{j}" for j in range(m.n_features_in_))))
    assert set(summary.files) == set(record.files)
    shown = record.summaries.show(name_of(m), m, table(name)[:50], len(table(name)))
    assert (shown.gallery is None) == record.alone
    for layer in () if shown.gallery is None else shown.gallery.layers:
        assert layer.active.shape == (50, len(layer.names))
        assert len(layer.weights) == len(layer.usage) == len(layer.examples) == len(layer.names)


@EVERY
def test_it_shows_what_it_found(name):
    """Bits per row are those of the score, but for what is said: bounds and penalties are on the worse side."""
    model, X = fitted(name), table(name)
    text, first = repr(model), BaseEstimator.__repr__(model)
    assert text.startswith(first + "\n")
    assert max(map(len, text.splitlines())) <= 80
    assert f"{name_of(model)}, from {len(X)} rows x {X.shape[1]} columns" in text
    lines = [line.strip() for line in text.splitlines()[1:]]
    assert any(line.startswith("learning") and f"after {model.n_iter_} iteration" in line for line in lines)
    assert (name == "product") == (len(lines) + 1 <= len(first.splitlines()) + 3)
    if model.history_table_["measure"][-1] not in (Measure.LIKELIHOOD, Measure.BOUND):
        assert "per row" not in text
        return
    line = next(one for one in lines if one.startswith("log density" if model.real_valued else "bits per row"))
    shown = float(line.split("  ")[-1].split()[0])
    score = model.score(X) * (1 if model.real_valued else -1 / np.log(2))
    if "(" in line:
        assert "bound" in line or "penalty" in line or "estimate" in line
        assert shown <= score if model.real_valued else shown >= score
    else:
        assert shown == pytest.approx(score, rel=1e-3)


@every(slow=tuple(one.name for one in families() if one.name not in ("product", "mixture")))  # compiled once more
def test_rows_count_by_their_weights(name):
    """Each of two fits describes the rows that count more in it better than the other does."""
    X = table(name)
    heavy = np.where(X[:, 0] > 0.5, 5.0, 1.0)
    one, other = (_weighted(name, X, weights) for weights in (heavy, 6 - heavy))
    assert one.n_rows_ == heavy.sum()
    assert one.score(X, sample_weight=heavy) > other.score(X, sample_weight=heavy)
    assert other.score(X, sample_weight=6 - heavy) > one.score(X, sample_weight=6 - heavy)


def _weighted(name, X, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return new(name).fit(X, sample_weight=weights)


# ---------------------------------------------------------------- the records of families


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


# ---------------------------------------------------------------- forms of tables


def forms_of(X):
    """Give the same table in every form that is taken, with the array that it stands for."""
    filled = np.where(np.isnan(X), 1, X)
    return {
        "list": (filled.tolist(), filled),
        "list with None": (np.where(np.isnan(X), None, X).tolist(), X),
        "float32": (filled.astype(np.float32), filled),
        "int64": (filled.astype(int), filled),
        "uint8": (filled.astype(np.uint8), filled),
        "bool": (filled.astype(bool), filled),
        "object": (np.where(np.isnan(X), None, X), X),
        "Fortran order": (np.asfortranarray(X), X),
        "masked": (np.ma.masked_array(filled, np.isnan(X)), X),
        "pandas": (pd.DataFrame(X, columns=NAMES), X),
        "pandas objects": (pd.DataFrame(np.where(np.isnan(X), pd.NA, X), columns=NAMES), X),
        "pandas nullable": (pd.DataFrame(X, columns=NAMES).astype("boolean"), X),
        "polars": (pl.DataFrame(X, schema=NAMES).fill_nan(None), X),
        "polars Boolean": (pl.DataFrame(X, schema=NAMES).fill_nan(None).cast(pl.Boolean), X),
        "sparse": (sparse.csr_matrix(filled), filled),
        "sparse array": (sparse.coo_array(filled.astype(np.int8)), filled),
        "factory": (lambda: (X[i : i + 47] for i in range(0, len(X), 47)), X),
        "factory of frames": (lambda: (pd.DataFrame(X[i : i + 150], columns=NAMES) for i in (0, 150)), X),
        "factory of sparse": (lambda: [sparse.csr_matrix(filled)], filled),
        "Dask": (dask.array.from_array(X, chunks=(64, 4)), X),
    }


FORMS = forms_of(classes(missing=0.1))


@cache
def plainly(missing):
    """Fit an array, with holes or without, and score its rows."""
    plain = FORMS["object" if missing else "list"][1]
    m = new("mixture").fit(plain)
    return m.means_, m.score_samples(plain)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_same_fit(form):
    given, plain = FORMS[form]
    means, scores = plainly(bool(np.isnan(plain).any()))
    m = new("mixture").fit(given)
    np.testing.assert_array_equal(m.means_, means)
    np.testing.assert_allclose(m.score_samples(given), scores, rtol=1e-5)
    assert m.complete(given).shape == SHAPE


def test_a_memory_map_is_streamed(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert type(opening.open_rows(BernoulliProduct(), mapped, reset=True, binarize=None)).__name__ == "StreamEngine"
    np.testing.assert_array_equal(BernoulliProduct().fit(mapped).means_, fitted("product").means_)


def test_a_large_sparse_table_is_never_dense(X, monkeypatch):
    monkeypatch.setattr(opening, "DENSE_BYTES", 100)
    monkeypatch.setattr(encoding, "SLICE_BYTES", 6 * 8 * 50)
    table = sparse.csr_matrix(np.nan_to_num(X))
    assert type(opening.open_rows(BernoulliProduct(), table, reset=True, binarize=None)).__name__ == "StreamEngine"
    np.testing.assert_array_equal(BernoulliProduct().fit(table).means_, BernoulliProduct().fit(table.toarray()).means_)


def test_frames_keep_their_names(X):
    frame = pd.DataFrame(X, columns=NAMES, index=[f"site {i}" for i in range(len(X))])
    m = new("mixture").fit(frame)
    assert m.feature_names_in_.tolist() == NAMES
    shown = m.set_output(transform="pandas").transform(frame)
    assert shown.columns.tolist() == ["bernoullimixture0", "bernoullimixture1"]
    assert shown.index.equals(frame.index)
    assert m.complete(pl.DataFrame(X, schema=NAMES)).columns == NAMES


def test_a_row_with_nothing_seen_gets_the_prior():
    m, nothing = fitted("mixture"), np.full((1, 6), np.nan)
    np.testing.assert_allclose(m.transform(nothing)[0], m.weights_, rtol=1e-5)
    np.testing.assert_allclose(m.complete(nothing)[0], m.weights_ @ m.means_, rtol=1e-5)


def test_very_many_columns_take_little_memory():
    """The sample of rows and the chunks shrink with the number of columns."""
    assert sampled_rows(64) == 1024
    assert sampled_rows(10**6) * 10**6 * 8 <= 2**27
    assert layout_for(3 * 10**6, np.dtype(np.float32), 2**24).rows_per_chunk == 8


# ---------------------------------------------------------------- strict mode


def named(value):
    return rf"row 41, column 3 holds {value}\. .*If {value} marks a missing bit, .*binarize=1 takes"


@pytest.mark.parametrize("name", [one.name for one in families("bits")])
def test_what_is_no_bit_is_named(name):
    X = np.zeros((50, 6))
    X[41, 3] = 2
    with pytest.raises(DataError, match=named(2)):
        new(name).fit(X)
    for kind in (np.float32, int, np.uint8) if name == "product" else ():
        with pytest.raises(DataError, match=named(2)):
            new(name).fit(X.astype(kind))


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


def test_rows_are_counted_across_batches_and_in_sparse_tables():
    good, bad = np.zeros((30, 4)), np.zeros((30, 4))
    bad[7, 1] = -1
    with pytest.raises(DataError, match="row 37, column 1 holds -1"):
        BernoulliProduct().fit(lambda: [good, bad])
    table = sparse.lil_matrix((100, 4))
    table[63, 2] = 3
    with pytest.raises(DataError, match="row 63, column 2 holds 3"):
        BernoulliProduct().fit(table.tocsr())


def test_transform_is_as_strict_as_fit():
    m = fitted("mixture")
    with pytest.raises(DataError, match="row 0, column 0 holds 7"):
        m.transform(np.full((2, 6), 7))
    with pytest.raises(DataError, match="Z has 3 columns, but BernoulliMixture has 2 latents"):
        m.inverse_transform(np.ones((4, 3)))
    with pytest.raises(DataError, match="no rows"):
        m.score_samples(lambda: [np.zeros((0, 6))])


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
        (np.array([[1j, 0]]), ValueError, "Complex"),
        ((row for row in [[1, 0]]), TypeError, "can be read only once"),
        (lambda: 3, TypeError, "must return an iterable of batches"),
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
def test_kinds_of_bad_input_are_distinguished(X, error, message):
    with pytest.raises(error, match=message):
        BernoulliMixture(2, random_state=0).fit(X)


@EVERY
def test_a_table_of_nothing_is_refused(name):
    """In a fit and in a score; a row of nothing has its log-likelihood, 0 up to what is estimated."""
    nothing = np.full((8, tables.D), np.nan)
    if not family(name).foreign:
        assert abs(fitted(name).score_samples(nothing[:1])[0]) < LEAST_NATS / 10
        for work in (clone(new(name)).fit, fitted(name).score):
            with pytest.raises(DataError, match="all cells of the table are missing"):
                work(nothing)


def test_streams_and_rows_that_count_of_nothing_are_refused():
    nothing = np.full((8, 3), np.nan)
    with pytest.raises(DataError, match="all cells of the table are missing"):
        BernoulliMixture(2).fit(lambda: [nothing])
    nothing[0] = 1
    with pytest.raises(DataError, match="all cells of the table are missing"):
        BernoulliProduct().fit(nothing, sample_weight=np.arange(8) > 0)


@pytest.mark.parametrize(("first", "later"), [(200, 240), (240, 200), (0, 240)])
def test_rows_of_the_first_call_are_those_of_later_ones(first, later):
    """The call that a stream is opened by counts, too."""
    lengths = itertools.chain([first], itertools.repeat(later))
    with pytest.raises(DataError, match=f"X gives {first} rows in one pass and {later} in another"):
        BernoulliProduct().fit(lambda: [np.zeros((next(lengths), 3), np.uint8)])


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
        {"dtype": "double precision"},
        {"binarize": "yes"},
        {"tol": "small"},
    ],
    ids=str,
)
def test_bad_parameters_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        BernoulliMixture(**{"n_components": 2, **options}).fit(np.eye(4))


def test_a_fit_that_fails_leaves_nothing_behind(X):
    m = BernoulliProduct().fit(X)
    with pytest.raises(DataError):
        m.fit(np.full((3, 2), 5))
    with pytest.raises(NotFittedError):
        m.score(X)


def test_a_fit_that_did_not_converge_says_so(X):
    with pytest.warns(ConvergenceWarning, match="reached max_iter after 2 iterations"):
        m = new("mixture").set_params(max_iter=2).fit(X)
    assert not m.converged_


def test_double_precision_on_request(X):
    m = BernoulliProduct(dtype=np.float64).fit(X)
    assert m.transform(X).dtype == np.float64
    assert fitted("product").transform(X).dtype == np.float32
    assert m.means_.dtype == np.float64
