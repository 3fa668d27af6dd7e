"""`LatentTrait(column_types=...)`: tables of bits, numbers and categories, in and out."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.exceptions import ConvergenceWarning

from latentbits import LatentTrait, load
from latentbits.core.errors import DataError, ModelFileError
from latentbits.core.tree_serialization import digest
from latentbits.estimators import files
from latentbits.estimators.tables import column_types as mixed
from latentbits.models.latent_trait.column_kinds import ALL_BITS

TYPES = ["binary", "continuous", "categorical", "continuous", "binary", "categorical"]
NAMES = ["member", "year", "colour", "size", "paid", "grade"]
COLOURS = ["blue", "green", "red"]
WEIGHTS = np.array([1.6, 12.0, 0.0, 1.5, -1.2, -0.004, 0.9, 0.0, 1.0, 2.0, -1.5])  # one latent, 11 outputs
BIAS = np.array([0.3, 1985.0, 0.0, 0.4, -0.3, 0.05, -0.6, 0.0, 0.5, 0.2, -0.4])
N = 240  # nearly everywhere: a table of another size would be compiled for
N_DRAWN = 20_000
QUICK = {"max_iter": 30, "method": "quadrature"}
UNITS = np.array([1, 12, 1, 1, 1, 0.004, 1, 1, 1, 1, 1])
NOISE = np.array([np.nan, 60.0, np.nan, 1.6e-5, np.nan, np.nan])


def drawn(n, seed=0, missing=0.1):
    """A frame drawn from known parameters: a column of text, one of integers as categories, holes everywhere."""
    rng = np.random.default_rng(seed)
    eta = np.outer(rng.normal(size=n), WEIGHTS) + BIAS
    colour = np.argmax(eta[:, 2:5] + rng.gumbel(size=(n, 3)), 1)
    grade = np.argmax(eta[:, 7:11] + rng.gumbel(size=(n, 4)), 1)
    frame = pd.DataFrame(
        {
            "member": (rng.random(n) < 1 / (1 + np.exp(-eta[:, 0]))).astype(float),
            "year": eta[:, 1] + np.sqrt(NOISE[1]) * rng.normal(size=n),
            "colour": np.array(COLOURS, object)[colour],
            "size": eta[:, 5] + np.sqrt(NOISE[3]) * rng.normal(size=n),
            "paid": (rng.random(n) < 1 / (1 + np.exp(-eta[:, 6]))).astype(float),
            "grade": (10.0 * (grade + 1)),
        }
    )
    for name in NAMES:
        frame.loc[rng.random(n) < missing, name] = None if name == "colour" else np.nan
    return frame


def fitted(X, column_types=tuple(TYPES), **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LatentTrait(1, column_types=column_types, random_state=0, **QUICK | options).fit(X)


@pytest.fixture(scope="module")
def frame():
    return drawn(N)


@pytest.fixture(scope="module")
def model(frame):
    return fitted(frame)


@pytest.fixture(scope="module")
def known():
    """Rows enough to find the parameters that they were drawn from, and the fit."""
    frame = drawn(2000)
    return frame, fitted(frame, max_iter=1000, method="auto")


# -------------------------------------------------------------------- what is learned


@pytest.mark.slow("2000 rows until it has converged")
def test_recovery_of_known_parameters(known):
    _, model = known
    assert model.converged_
    sign = np.sign(model.components_[0] @ (WEIGHTS / UNITS**2))
    np.testing.assert_allclose(sign * model.components_[0] / UNITS, WEIGHTS / UNITS, atol=0.3)
    np.testing.assert_allclose((model.intercept_ - BIAS) / UNITS, 0, atol=0.25)
    np.testing.assert_allclose(model.noise_variance_, NOISE, rtol=0.15)
    assert model.n_parameters_ == 2 * (2 + 2 + 2 + 3) + 2
    assert model.output_names_[2:5] == ["colour=blue", "colour=green", "colour=red"]
    assert model.categories_ == {"colour": COLOURS, "grade": [10, 20, 30, 40]}


@pytest.mark.slow("fits in float64 until they have converged")
def test_all_continuous_is_factor_analysis():
    rng = np.random.default_rng(2)
    loading, noise = rng.normal(size=(2, 8)), rng.uniform(0.2, 2, 8)
    X = rng.normal(size=(500, 2)) @ loading + rng.normal(size=(500, 8)) * noise + 5 * rng.normal(size=8)
    theirs = FactorAnalysis(2, tol=1e-8, max_iter=5000, svd_method="lapack").fit(X)
    m = LatentTrait(2, column_types=["continuous"] * 8, random_state=0, dtype="float64", tol=1e-9).fit(X)
    assert m.score(X) == pytest.approx(theirs.score(X), rel=1e-6)
    np.testing.assert_allclose(m.noise_variance_, theirs.noise_variance_, rtol=5e-3)
    np.testing.assert_allclose(m.intercept_, X.mean(0), atol=1e-6)
    assert np.max(subspace_angles(m.components_.T, theirs.components_.T)) < 2e-3
    np.testing.assert_allclose(m.components_.T @ m.components_, theirs.components_.T @ theirs.components_, atol=0.02)
    assert m.n_parameters_ == 8 * 2 - 1 + 8 + 8

    # with the same noise in all columns: principal components, of which it has the space and the likelihood
    X = rng.normal(size=(500, 2)) @ loading + 0.2 * rng.normal(size=(500, 8))
    m, pca = m.fit(X), PCA(2).fit(X)
    assert np.max(subspace_angles(m.components_.T, pca.components_.T)) < 0.02
    np.testing.assert_allclose(m.noise_variance_, pca.noise_variance_, rtol=0.25)
    assert pca.score(X) < m.score(X) < pca.score(X) + 0.02  # of probabilistic PCA, which has fewer parameters

    # a column twice: the latents explain both wholly, and their variances go as low as they may, and no lower
    X[:, 1] = X[:, 0]
    m.fit(X)
    assert m.converged_
    np.testing.assert_allclose(m.noise_variance_[:2] / X.var(0)[:2], 1e-4, rtol=1e-6)
    assert m.score(X) == pytest.approx(m.history_.max() / len(X), rel=1e-5)


@pytest.mark.slow("a fit to a millionth")
def test_one_variance_for_all_is_probabilistic_pca():
    """Likelihood, noise and subspace to a millionth; scikit-learn divides by n - 1, maximum likelihood by n.

    Lengths are right to three millionths: those change the likelihood by less than the last of its digits.
    """
    rng = np.random.default_rng(3)
    n, d, q = 120, 6, 2
    X = 2 * rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + 0.7 * rng.normal(size=(n, d)) + 5 * rng.normal(size=d)
    theirs = PCA(q).fit(X)
    theirs.explained_variance_ *= (n - 1) / n
    theirs.noise_variance_ *= (n - 1) / n
    settings = {"method": "variational", "noise": "shared", "dtype": "float64", "tol": 1e-15, "random_state": 0}
    m = LatentTrait(q, column_types=["continuous"] * d, **settings).fit(X)
    assert m.converged_
    assert m.score(X) == pytest.approx(theirs.score(X), abs=1e-6)
    np.testing.assert_allclose(m.noise_variance_, theirs.noise_variance_, atol=1e-6)
    assert np.max(subspace_angles(m.components_.T, theirs.components_.T)) < 1e-6
    np.testing.assert_allclose(np.square(m.components_).sum(1), theirs.explained_variance_ - theirs.noise_variance_,
                               rtol=3e-6)  # fmt: skip
    np.testing.assert_allclose(m.intercept_, theirs.mean_, atol=1e-6)
    assert m.n_parameters_ == d * q - 1 + d + 1
    with pytest.raises(ValueError, match="noise='shared' is for continuous columns"):
        LatentTrait(1, noise="shared").fit([[0, 1], [1, 0]])


@pytest.mark.slow("2000 rows until they have converged")
def test_variational_learning_of_all_kinds(known):
    frame, model = known
    m = fitted(frame, method="variational")
    assert m.history_.max() > m.history_[0]
    bound = m.variational(frame).bound
    assert m.history_.max() == pytest.approx(bound.sum(), rel=1e-4)
    assert bound.sum() < model.log_likelihood(frame)
    assert model.history_.max() == pytest.approx(model.log_likelihood(frame), rel=1e-5)
    assert model.bic(frame) > model.aic(frame)


def test_all_bits_are_the_plain_model():
    X = (np.random.default_rng(0).random((200, 6)) < 0.4).astype(float)
    X[3, 2] = np.nan
    m = LatentTrait(1, column_types="infer")
    np.testing.assert_array_equal(m._open(X, reset=True).table, X)
    assert m._columns() == ALL_BITS


@pytest.mark.slow("a second fit of all kinds of columns")
def test_units_change_nothing(frame, model):
    """But the likelihood, by their logarithms.  Columns are centred in float64: rows in float32 keep their digits."""
    other = frame.assign(year=100 * frame["year"] + 1e9, size=1e-4 * frame["size"])
    one, two = model, fitted(other)
    shift = frame["year"].notna().sum() * np.log(100) + frame["size"].notna().sum() * np.log(1e-4)
    assert two.history_[-1] == pytest.approx(one.history_[-1] - shift, rel=1e-5)
    assert two.intercept_[1] == pytest.approx(100 * one.intercept_[1] + 1e9)
    np.testing.assert_allclose(two.components_[:, [1, 5]], one.components_[:, [1, 5]] * [100, 1e-4], rtol=1e-3)


def test_attributes(model, frame):
    assert model.components_.shape == (1, 11)
    assert model.intercept_.shape == (11,)
    assert model.noise_variance_.shape == (6,)
    assert (np.isfinite(model.noise_variance_) == [t == "continuous" for t in TYPES]).all()
    Z = model.transform(frame)
    out = model.inverse_transform(Z)
    linear = Z @ model.components_ + model.intercept_
    np.testing.assert_allclose(out[:, [1, 5]], linear[:, [1, 5]], rtol=1e-6)
    np.testing.assert_allclose(out[:, [0, 6]], 1 / (1 + np.exp(-linear[:, [0, 6]])), rtol=1e-4)
    for block in (slice(2, 5), slice(7, 11)):
        assert not model.components_[:, block.start].any()
        p = np.exp(linear[:, block])
        np.testing.assert_allclose(out[:, block], p / p.sum(1, keepdims=True), rtol=1e-4)
    assert clone(model).column_types == model.column_types
    names = model.feature_names_in_.tolist()
    assert names == NAMES


# -------------------------------------------------------------------- what goes in


def forms_of(frame):
    """The same table in every form that is taken."""
    numbers = frame.assign(colour=frame["colour"].map(dict(zip(COLOURS, range(3)))))
    yield "pandas", frame
    yield "category dtype", frame.assign(colour=frame["colour"].astype("category"))
    yield "pandas strings", frame.assign(colour=frame["colour"].astype("string"), grade=frame["grade"].astype("Int64"))
    yield "nullable booleans", frame.assign(member=frame["member"].astype("boolean"))
    yield "polars", pl.DataFrame(frame.to_dict("list"), strict=False).with_columns(pl.col(pl.Float64).fill_nan(None))
    yield "polars Categorical", pl.DataFrame(frame.to_dict("list")).with_columns(pl.col("colour").cast(pl.Categorical))
    yield "polars Enum", pl.DataFrame(frame.to_dict("list")).with_columns(pl.col("colour").cast(pl.Enum(COLOURS)))
    yield "objects", frame.to_numpy(object)
    yield "list", frame.astype(object).where(frame.notna(), None).values.tolist()
    yield "numbers", numbers.to_numpy(float)
    yield "masked", np.ma.masked_invalid(numbers.to_numpy(float))


def taken(m, model):
    """Give a model that knows its columns the parameters of another one."""
    m.params_, m.history_table_, m.n_iter_ = model.params_, model.history_table_, model.n_iter_
    m.stop_reason_, m.objective_ = model.stop_reason_, model.objective_
    m._expose()
    return m


@pytest.mark.slow("eleven forms of a table with all kinds of columns")
@pytest.mark.parametrize("form", range(11))
def test_every_form_goes_in_and_comes_back(frame, model, form):
    """The same table, the same categories; and completed in its own form, by a model of it where it has no names."""
    name, given = list(forms_of(frame))[form]
    numbers, framed = name in ("numbers", "masked"), isinstance(given, pd.DataFrame | pl.DataFrame)
    m = LatentTrait(1, column_types=TYPES)
    table = m._open(given, reset=True).table
    np.testing.assert_array_equal(table, model._open(frame, reset=False).table)
    np.testing.assert_array_equal(m._open(given, reset=False).table, table)
    if not numbers:
        assert list(m._encoding.categories.values()) == [COLOURS, [10, 20, 30, 40]]
    assert m._columns() == model._columns()

    own = model if framed else taken(m, model)
    filled, wanted = own.complete(given), model.complete(frame)
    if isinstance(filled, pl.DataFrame):
        assert filled.columns == NAMES
        assert filled["colour"].dtype == given["colour"].dtype
        assert sum(filled.null_count().row(0)) == 0
        filled = filled.with_columns(pl.col("colour").cast(pl.String)).to_pandas()
    elif isinstance(filled, pd.DataFrame):
        assert filled["colour"].dtype == given["colour"].dtype
    else:
        assert filled.dtype == own.sample(N_DRAWN).dtype == (float if numbers else object)
        filled = pd.DataFrame(filled, columns=NAMES)
        assert own.categories_ == {2: [0, 1, 2] if numbers else COLOURS, 5: [10, 20, 30, 40]}
        assert own.output_names_[:3] == ["x0", "x1", "x2=0" if numbers else "x2=blue"]
    colour = filled["colour"].map(dict(enumerate(COLOURS))) if numbers else filled["colour"]
    assert colour.tolist() == wanted["colour"].tolist()
    for other in ("member", "year", "size", "paid", "grade"):
        np.testing.assert_allclose(filled[other].astype(float), wanted[other], rtol=1e-5)


def test_samples_of_a_polars_frame_are_one(frame):
    drawn = fitted(pl.DataFrame(frame.to_dict("list"), strict=False), max_iter=2).sample(N_DRAWN)
    assert isinstance(drawn, pl.DataFrame)
    assert drawn.columns == NAMES


def test_what_is_inferred():
    frame = pd.DataFrame(
        {
            "flag": [True, False, True],
            "bit": [0, 1, 1],
            "bit with a hole": [0, np.nan, 1.0],
            "count": [0, 1, 2],
            "number": [0.5, 1.5, np.nan],
            "text": ["a", "b", None],
            "dtype": pd.Categorical([1, 0, 1]),
            "objects that are bits": pd.Series([1, None, 0], dtype=object),
        }
    )
    kinds = [c.inferred for c in mixed.read(frame)]
    wanted = ["binary", "binary", "binary", "continuous", "continuous", "categorical", "categorical", "binary"]
    assert kinds == wanted
    same = pl.DataFrame({k: frame[k].tolist() for k in ("flag", "bit", "count", "text")}, strict=False)
    assert [c.inferred for c in mixed.read(same)] == ["binary", "binary", "continuous", "categorical"]
    rows = [[True, 0, 0.5, "a", "1"], [False, 1, 2, None, "0"]]
    assert [c.inferred for c in mixed.read(rows)] == ["binary", "binary", "continuous", "categorical", "categorical"]


def test_whole_numbers_that_may_be_codes_are_said_to_be_taken_as_continuous():
    """The columns are named once; no word where the kinds are given, or the numbers are more, or no whole ones."""
    rng = np.random.default_rng(0)
    codes, sizes = rng.integers(0, 3, (60, 2)), rng.normal(size=60)
    X = pd.DataFrame(
        {"mood": codes[:, 0], "size": sizes, "age": np.arange(60), "pain": np.where(sizes > 1, np.nan, 2 + codes[:, 1])}
    )
    with pytest.warns(UserWarning, match=r"^'mood', 'pain': .*taken as continuous.*\{'mood': 'categorical', ") as said:
        LatentTrait(1, column_types="infer")._open(X, reset=True)
    assert len(said) == 1
    with pytest.warns(UserWarning, match=r"^0, 3: .*\{0: 'categorical', "):
        LatentTrait(1, column_types="infer")._open(X.to_numpy(), reset=True)
    kinds = {"mood": "categorical", "size": "continuous", "age": "continuous", "pain": "continuous"}
    m = LatentTrait(1, column_types=kinds)  # a warning is an error here
    m._open(X, reset=True)
    assert m._encoding.kinds == tuple(kinds.values())


@pytest.mark.parametrize(
    "column_types",
    [
        {"year": "continuous", "colour": "categorical", "size": "continuous", "grade": "categorical"},
        {1: "continuous", 2: "categorical", 3: "continuous", np.int64(5): "categorical"},
        np.array(TYPES),
    ],
)
def test_ways_to_say_the_kinds(frame, model, column_types):
    m = LatentTrait(1, column_types=column_types)
    m._open(frame, reset=True)
    assert m._encoding.kinds == tuple(TYPES)


@pytest.mark.parametrize(
    ("column_types", "message"),
    [
        ({"colur": "categorical"}, "'colur', which is no column of X: it has 6 columns, 'member', 'year'"),
        ({7: "binary"}, "no column of X"),
        ({"year": "real"}, r"made of 'binary', 'continuous', 'categorical'; it has 'real' for column 1 \('year'\)"),
        (["binary"] * 5, "has 5 entries, but X has 6 columns"),
        (["binary", 3, "binary", "binary", "binary", "binary"], "it has 3 for"),
        ("guess", "column_types"),
    ],
)
def test_kinds_that_make_no_sense(frame, column_types, message):
    with pytest.raises(ValueError, match=message):
        LatentTrait(1, column_types=column_types).fit(frame)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"colour": "purple"}, r"row 2, column 2 \('colour'\) holds 'purple'.*known are 'blue', 'green', 'red'"),
        ({"grade": 15}, r"row 2, column 5 \('grade'\) holds 15"),
        ({"grade": "A"}, r"row 2, column 5 \('grade'\) holds 'A'.*known are 10, 20, 30, 40"),
        ({"year": "old"}, r"continuous column must hold numbers.*row 2, column 1 \('year'\) holds 'old'"),
        ({"year": np.inf}, r"infinity: row 2, column 1 \('year'\)"),
        ({"year": 1e35}, "too large"),
        ({"member": 2}, r"must hold bits: 0, 1 or NaN for missing; row 2, column 0 \('member'\) holds 2"),
        ({"member": "yes"}, r"row 2, column 0 \('member'\) holds 'yes'"),
        ({"colour": (1, 2)}, "text, numbers or booleans"),
        ({"grade": np.inf}, "infinity"),
    ],
)
def test_values_that_a_column_does_not_take(model, frame, changed, message):
    wrong = frame.head(5).astype(object)
    for name, value in changed.items():
        wrong.at[2, name] = value
    with pytest.raises(DataError, match=message):
        model.transform(wrong)


def test_the_table_must_be_in_memory(frame):
    import dask.array

    X = frame[["member", "year"]].fillna(0).to_numpy()
    m = LatentTrait(1, column_types="infer")
    for given in (sparse.csr_matrix(X), dask.array.from_array(X), lambda: [X], iter([X])):
        with pytest.raises(TypeError, match="must be in memory"):
            m.fit(given)
    with pytest.raises(TypeError, match=r"pass X.collect\(\)"):
        m.fit(pl.DataFrame(X).lazy())


@pytest.mark.parametrize(
    "X", [np.zeros(3), np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 2, 2)), [[1], [1, 2]], 3.0]
)
def test_what_is_no_table(X):
    with pytest.raises(ValueError, match=r"2-dimensional|at least one|one length"):
        LatentTrait(1, column_types="infer").fit(X)


def test_columns_that_cannot_be_learned():
    m = LatentTrait(1, column_types=["categorical", "binary"])
    with pytest.raises(DataError, match="101 different values"):
        m.fit([[str(i), i % 2] for i in range(101)])
    with pytest.raises(DataError, match=r"column 0 has no value at all"):
        m.fit([[None, 0], [np.nan, 1]])
    with pytest.raises(DataError, match="other units"):
        LatentTrait(1, column_types=["continuous", "binary"]).fit([[1e-33, 0], [3e-33, 1]])


def test_names_and_number_of_columns_are_checked(model, frame):
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"year": "annum"}))
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="features"):
        model.transform(frame.to_numpy(object)[:, :4])


def test_sampling_is_for_bits_only(frame):
    with pytest.raises(ValueError, match="for binary columns only, and here they are binary, continuous, categorical"):
        LatentTrait(1, column_types=TYPES, method="monte_carlo").fit(frame)


@pytest.mark.slow("another table is compiled for")
def test_constant_columns_and_cuts():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(60, 0.1), np.full(60, 7), rng.normal(size=(60, 2))])
    m = fitted(X, ["continuous", "categorical", "binary", "binary"], binarize=0.0, max_iter=3)
    assert np.isfinite(m.history_).all()
    assert m.categories_ == {1: [7]}
    assert m.intercept_[0] == pytest.approx(0.1)
    assert (m.sample(5, random_state=0)[:, 1] == 7).all()


# -------------------------------------------------------------------- what comes out


def test_completion_keeps_what_was_seen(model, frame):
    filled = model.complete(frame)
    assert isinstance(filled, pd.DataFrame)
    assert not filled.isna().any(axis=None)
    for name in NAMES:
        seen = frame[name].notna()
        assert (filled[name][seen] == frame[name][seen]).all()  # to the last bit, not rounded to float32
    assert set(filled["colour"]) <= set(COLOURS)
    assert set(filled["grade"]) <= {10, 20, 30, 40}
    hole = frame["member"].isna()
    assert filled["member"][hole].between(0.001, 0.999).all()
    # the mean of a column given the rest, by the linear output at the posterior mean
    hole = frame["year"].isna()
    linear = (model.transform(frame) @ model.components_ + model.intercept_)[:, 1]
    np.testing.assert_allclose(filled["year"][hole], linear[hole], rtol=1e-6)


def test_completion_against_a_dense_grid(model, frame):
    """P(bit = 1), the mean and the best category given the rest of the row, from the public attributes alone."""
    rows = frame.head(40)
    x = np.linspace(-7, 7, 801)
    eta = x[:, None] * model.components_ + model.intercept_

    def logs(row):
        total = -0.5 * x**2
        for at, name in ((0, "member"), (6, "paid")):
            if not np.isnan(row[name]):
                total = total - np.logaddexp(0, (1 - 2 * row[name]) * eta[:, at])
        for at, name, place in ((1, "year", 1), (5, "size", 3)):
            if not np.isnan(row[name]):
                total = total - 0.5 * (row[name] - eta[:, at]) ** 2 / model.noise_variance_[place]
        for block, name in ((slice(2, 5), "colour"), (slice(7, 11), "grade")):
            if not pd.isna(row[name]):
                logits = eta[:, block]
                code = model.categories_[name].index(row[name])
                total = total + logits[:, code] - np.logaddexp.reduce(logits, axis=1)
        return total

    joint = np.array([logs(row) for _, row in rows.iterrows()])
    posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    means = model.inverse_transform(x[:, None])
    wanted = posterior @ means
    filled = model.complete(rows)
    for at, name in ((0, "member"), (6, "paid"), (1, "year"), (5, "size")):
        hole = rows[name].isna()
        np.testing.assert_allclose(filled[name][hole], wanted[hole, at], rtol=1e-4)
    for block, name in ((slice(2, 5), "colour"), (slice(7, 11), "grade")):
        hole = rows[name].isna()
        assert hole.any()
        best = np.array(model.categories_[name], object)[wanted[hole, block].argmax(1)]
        assert filled[name][hole].tolist() == best.tolist()


def test_complete_columns_come_back_as_they_are(model, frame):
    whole = frame.assign(member=True, grade=np.int8(20), colour=frame["colour"].fillna("red").astype("category"))
    others = [name for name in NAMES if not whole[name].isna().any()]
    assert len(others) == 3
    pd.testing.assert_frame_equal(model.complete(whole)[others], whole[others])


def test_samples_look_like_the_data(model, frame):
    sample = model.sample(N_DRAWN, random_state=0)
    assert sample.columns.tolist() == NAMES
    assert set(sample["colour"]) == set(COLOURS)
    assert set(sample["grade"]) == {10, 20, 30, 40}
    assert set(sample["member"]) == {0, 1}
    weights, bias = model.components_[0], model.intercept_
    spread = np.sqrt(weights[1] ** 2 + model.noise_variance_[1])
    assert abs(sample["year"].mean() - bias[1]) < 4 * spread / np.sqrt(N_DRAWN)
    assert sample["year"].std() == pytest.approx(spread, rel=0.03)
    covariance = np.cov(sample["year"], sample["size"])[0, 1]
    assert covariance == pytest.approx(weights[1] * weights[5], rel=0.1)
    x = np.linspace(-6, 6, N)
    weight = np.exp(-0.5 * x**2)
    wanted = weight @ model.inverse_transform(x[:, None]) / weight.sum()
    shares = sample["colour"].value_counts(normalize=True)
    np.testing.assert_allclose([shares[c] for c in COLOURS], wanted[2:5], atol=0.02)
    assert model.sample(0).shape == (0, 6)


# -------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "column_types",
    ["infer", {"year": "continuous", 2: "categorical", "size": "continuous", "grade": "categorical"}],
)
def test_round_trip(frame, tmp_path, column_types):
    frame = frame.assign(grade=frame["grade"].astype("category"))
    m = fitted(frame, column_types, max_iter=3)
    m.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.get_params() == m.get_params()
    assert again.categories_ == m.categories_
    assert again.output_names_ == m.output_names_
    for name in ("components_", "intercept_", "noise_variance_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(m, name))
    np.testing.assert_array_equal(again.score_samples(frame), m.score_samples(frame))
    pd.testing.assert_frame_equal(again.complete(frame), m.complete(frame))
    pd.testing.assert_frame_equal(again.sample(N_DRAWN, random_state=0), m.sample(N_DRAWN, random_state=0))
    with pytest.raises(DataError, match="known are 'blue', 'green', 'red'"):
        again.transform(frame.assign(colour="pink"))
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "n.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["extra"].clear(), "kinds of columns"),
        (lambda h: h.update(extra=[]), "must be an object"),
        (lambda h: h["extra"].update(more=1), "unknown entries"),
        (lambda h: h["extra"]["columns"].update(kinds=TYPES[::-1]), "do not agree with column_types"),
        (lambda h: h["extra"]["columns"].update(kinds=TYPES[:3]), "kinds of columns must be 6"),
        (lambda h: h["extra"]["columns"].update(kinds=["exec"] * 6), "kinds of columns must be 6"),
        (lambda h: h["extra"]["columns"].update(offset=[0.0] * 5), "offsets"),
        (lambda h: h["extra"]["columns"].update(offset=[float("inf")] * 6), "offsets"),
        (lambda h: h["extra"]["columns"].update(frame="os"), "unknown kind of frame"),
        (lambda h: h["extra"]["columns"].update(categories=[]), "categories must be given"),
        (lambda h: h["extra"]["columns"]["categories"][0].__setitem__(1, ["a", "a", "b"]), "different labels"),
        (lambda h: h["extra"]["columns"]["categories"][0].__setitem__(1, ["a", ["b"]]), "different labels"),
        (lambda h: h["extra"]["columns"]["categories"][0].__setitem__(1, ["a", "b"]), "shape"),
        (lambda h: h["extra"]["columns"].update(categories=7), "valid model"),
        (lambda h: h["extra"].update(columns=None), "kinds of columns"),
        (lambda h: h["hyperparameters"].update(column_types=None), "unknown entries"),
        (lambda h: h["hyperparameters"].update(column_types={"items": 3}), "valid model"),
        (lambda h: h["hyperparameters"].update(column_types={}), "valid model"),
    ],
)
def test_a_file_that_claims_nonsense(model, tmp_path, change, message):
    path = tmp_path / "m.safetensors"
    model.save(path)
    header, tensors = files._read(path)
    header.pop("sha256")
    change(header)
    header["sha256"] = digest(header, tensors)
    path.write_bytes(files.to_bytes(tensors, metadata={"latentbits": json.dumps(header)}))
    with pytest.raises(ModelFileError, match=message):
        load(path)
