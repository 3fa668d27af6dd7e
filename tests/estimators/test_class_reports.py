"""Reports of latent classes: numbers made with R's poLCA on carcinoma, and the ways in which tables come."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from latentbits import BernoulliMixture, load, load_dataset
from latentbits.core.errors import DataError

NAN = np.nan

# poLCA 1.6.0.2, 50 starts, tol 1e-12; standard errors by the inverse Hessian in the metric of probabilities, those at a
# bound held there (NaN)
REFERENCE = {
    1: {
        "fit": (-524.464818, 7, 1062.9296, 1082.3244, 476.78139, 1975.38669, 120),
        "p": (0.0, 0.0),
        "means": [[0.55932, 0.66949, 0.38136, 0.27119, 0.60169, 0.21186, 0.55932]],
        "mean_errors": [[0.0457, 0.0433, 0.04471, 0.04093, 0.04507, 0.03762, 0.0457]],
    },
    2: {
        "fit": (-317.256837, 15, 664.5137, 706.0739, 62.36543, 92.64814, 112),
        "p": (0.99996, 0.90837),
        "entropy": 0.985508,
        "weights": [0.50121, 0.49879],
        "weight_errors": [0.046342, 0.046342],
        "means": [[1, 0.98309, 0.76087, 0.54106, 0.97864, 0.4227, 1], [0.1165, 0.35437, 0, 0, 0.22292, 0, 0.1165]],
        "mean_errors": [
            [NAN, 0.01677, 0.05606, 0.06506, 0.02056, 0.06439, NAN],
            [0.04289, 0.06274, NAN, NAN, 0.05448, NAN, 0.04289],
        ],
        "counts": [59, 59],
        "expected_error": 0.0032535,
        "posterior_by_modal": [[0.99796, 0.0020411], [0.0044659, 0.99553]],
        "modal_by_class": [[0.99554, 0.0044551], [0.0020461, 0.99795]],
        "pairs": [1.678, 0, 0, 0.09793, 0, 0.001244, 0.07959, 0.5641, 8.869, 0.4379, 5.582, 0.6428, 1.037, 1.069, 0,
                  0.1543, 6.85, 0, 0.558, 3.607, 0],
    },
    3: {
        "fit": (-293.704979, 23, 633.4100, 697.1357, 15.26171, 20.50336, 104),
        "p": (1.0, 1.0),
        "entropy": 0.925665,
        "weights": [0.44473, 0.37356, 0.18171],
        "weight_errors": [0.047975, 0.047619, 0.040767],
        "means": [
            [1, 0.98094, 0.8575, 0.58625, 1, 0.47639, 1],
            [0.05731, 0.13794, 0, 0, 0.055082, 0, 0],
            [0.51283, 1, 0, 0.057599, 0.7506, 0, 0.63065],
        ],
        "mean_errors": [
            [NAN, 0.01888, 0.05572, 0.07002, NAN, 0.07066, NAN],
            [0.03889, 0.0649, NAN, NAN, 0.03789, NAN, NAN],
            [0.122, NAN, NAN, 0.05571, 0.1122, NAN, 0.1257],
        ],
        "counts": [51, 44, 23],
        "expected_error": 0.031774,
        "posterior_by_modal": [[0.99539, 0, 0.0046079], [0, 0.98044, 0.019555], [0.074473, 0.040915, 0.88461]],
        "modal_by_class": [[0.96736, 0, 0.03264], [0, 0.97865, 0.021348], [0.01096, 0.040129, 0.94891]],
        "pairs": [0.01328, 0, 0.6307, 0.2531, 0, 0.1182, 0.02525, 0.6134, 0.003955, 0.4957, 0, 0.04131, 0, 0.07358, 0,
                  1.592, 4.449, 0.4728, 0, 0.06307, 0],
    },
}  # fmt: skip


def reported(m, X, sample_weight=None):
    """The report of all families, with what classes add to it."""
    return m._more_of_fit(X, sample_weight, m.criteria(X, sample_weight))


@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=pytest.mark.slow("other sizes")) for k in (1, 3))])
def test_carcinoma(k):
    """118 slides by 7 pathologists: log-likelihoods to 0.01, statistics to 0.5 %, standard errors to 1 %."""
    X, expected = load_dataset("carcinoma").X, REFERENCE[k]
    m = BernoulliMixture(k, smoothing=0, random_state=0, tol=1e-10, n_init=2 if k == 2 else None).fit(X)
    report = reported(m, X)
    log_likelihood, n_parameters, aic, bic, g2, x2, df = expected["fit"]
    assert report.log_likelihood == pytest.approx(log_likelihood, abs=0.01)
    assert (report.n_parameters, report.df, report.n_rows) == (n_parameters, df, 118)
    assert [report.aic, report.bic] == pytest.approx([aic, bic], abs=0.02)
    assert [report.g2, report.x2] == pytest.approx([g2, x2], rel=0.005)
    assert [report.g2_p, report.x2_p] == pytest.approx(expected["p"], abs=2e-4)

    errors = m.standard_errors(X)
    np.testing.assert_allclose(m.means_, expected["means"], atol=2e-4)
    np.testing.assert_allclose(errors.means, expected["mean_errors"], rtol=0.01)
    at_bound = int(np.isnan(expected["mean_errors"]).sum())
    assert report.n_at_bound == at_bound
    assert (f"{at_bound} probabilities are at 0 or 1" in str(errors)) == (at_bound > 0)
    assert "118 rows in 128 possible patterns are sparse" in str(report)
    if k == 1:
        return
    assert report.entropy == pytest.approx(expected["entropy"], rel=0.001)
    np.testing.assert_allclose(m.weights_, expected["weights"], atol=2e-4)
    np.testing.assert_allclose(errors.weights, expected["weight_errors"], rtol=0.01)
    classified = m.classification(X)
    assert classified.counts.tolist() == expected["counts"]
    assert classified.expected_error == pytest.approx(expected["expected_error"], rel=0.005)
    np.testing.assert_allclose(classified.posterior_by_modal, expected["posterior_by_modal"], rtol=0.005, atol=5e-5)
    np.testing.assert_allclose(classified.modal_by_class, expected["modal_by_class"], rtol=0.005, atol=5e-5)
    np.testing.assert_allclose(m.bivariate_residuals(X).x2, expected["pairs"], rtol=0.01, atol=1e-4)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = (rng.random((120, 7)) < np.where(rng.random(120) < 0.35, 0.2, 0.8)[:, None]).astype(float)
    return X


@pytest.fixture(scope="module")
def fitted(table):
    return BernoulliMixture(2, smoothing=0, random_state=1, n_init=2).fit(table)


def test_classes_come_by_share(table):
    """From whatever start; and the model is the same but for their order."""
    for seed in range(3):
        m = BernoulliMixture(2, smoothing=0, random_state=seed, n_init=2).fit(table)
        assert (np.diff(m.weights_) <= 0).all()
        np.testing.assert_array_equal(m.transform(table).argmax(1), m.posterior(table).mode.argmax(1))
        np.testing.assert_allclose(m.transform(table).mean(0), m.weights_, atol=0.02)


def test_tables_come_in_many_kinds(table, fitted):
    """A frame, a sparse matrix, a stream and a table of patterns with counts tell the same."""
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    forms = [
        (scipy.sparse.csr_array(table), None),
        (lambda: iter([table[:50], table[50:]]), None),
        (patterns, counts),
    ]
    errors, classified, pairs = (
        fitted.standard_errors(table),
        fitted.classification(table),
        fitted.bivariate_residuals(table),
    )
    report = reported(fitted, table)
    for X, weight in forms:
        np.testing.assert_allclose(fitted.standard_errors(X, weight).covariance, errors.covariance, rtol=1e-9)
        np.testing.assert_allclose(
            fitted.classification(X, weight).modal_by_class, classified.modal_by_class, rtol=1e-9
        )
        np.testing.assert_allclose(fitted.bivariate_residuals(X, weight).x2, pairs.x2, rtol=1e-9)
        more = reported(fitted, X, weight)
        np.testing.assert_allclose([more.g2, more.x2, more.entropy], [report.g2, report.x2, report.entropy], rtol=1e-9)


def test_names_of_columns(table):
    X = pd.DataFrame(table, columns=list("ABCDEFG"))
    m = BernoulliMixture(2, smoothing=0, random_state=1, n_init=2).fit(X)
    assert "class 2: E" in m.standard_errors(X).to_frame().index
    assert "A - B" in m.bivariate_residuals(X).to_frame().index


def test_rows_without_an_answer_do_not_count(table, fitted):
    with_nothing = np.vstack([table, np.full((30, 7), np.nan)])
    assert reported(fitted, with_nothing).entropy == pytest.approx(reported(fitted, table).entropy)
    assert fitted.classification(with_nothing).counts.sum() == 120
    y = np.arange(150.0)
    found = fitted.class_differences(with_nothing, y)
    np.testing.assert_allclose(found.estimate, fitted.class_differences(table, y[:120]).estimate)


def test_an_early_end_is_reported(table, fitted):
    with pytest.warns(ConvergenceWarning):
        early = BernoulliMixture(2, smoothing=0, random_state=1, n_init=1, max_iter=2, tol=-1).fit(table)
    assert "learning ended by 'max_iter'" in early.standard_errors(table).notes[-1]
    assert not any("learning ended" in note for note in fitted.standard_errors(table).notes)


def test_a_loaded_model_reports_the_same(table, fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    found = load(tmp_path / "m.safetensors").standard_errors(table)
    np.testing.assert_array_equal(found.covariance, fitted.standard_errors(table).covariance)


@pytest.mark.parametrize("method", ["bch", "ml"])
def test_outside_variables_come_in_many_kinds(table, fitted, method):
    rng = np.random.default_rng(3)
    y = rng.normal(size=120) + table.mean(1)
    y[7] = np.nan
    plain = fitted.class_differences(table, y, method)
    assert plain.n_rows == 119
    assert "left out: 1" in plain.notes[-1]
    series = fitted.class_differences(table, pd.Series(y), method)
    np.testing.assert_allclose(series.estimate, plain.estimate)
    kept = ~np.isnan(y)
    weighted = fitted.class_differences(table, np.nan_to_num(y), method, sample_weight=np.where(kept, 1.0, 0.0))
    assert weighted.n_rows == 119

    bits = table[:, 0].astype(int)
    ways = [bits, bits.astype(bool), ["yes" if b else "no" for b in bits], pd.Categorical(np.where(bits, "yes", "no"))]
    found = [fitted.class_differences(table, way, method) for way in ways]
    assert [f.categories for f in found] == [["0", "1"], ["False", "True"], ["no", "yes"], ["no", "yes"]]
    for f in found:
        np.testing.assert_allclose(f.estimate, found[0].estimate)
    codes = fitted.class_differences(table, bits + table[:, 1], method)
    assert "taken as continuous: kind='categorical'" in codes.notes[-1]
    assert fitted.class_differences(table, bits + table[:, 1], method, kind="continuous").notes == codes.notes[:-1]
    mean = fitted.class_differences(table, bits, "bch", kind="continuous")
    assert mean.categories == []
    np.testing.assert_allclose(mean.estimate, fitted.class_differences(table, bits, "bch").estimate[:, 1])


@pytest.mark.parametrize("y", [np.full(120, 3.1), ["a"] * 120], ids=["number", "label"])
def test_an_outside_variable_that_is_the_same_in_all_rows_is_refused(table, fitted, y):
    """Rounding errors were tested against each other, with any p."""
    with pytest.raises(DataError, match="y is the same in all rows"):
        fitted.class_differences(table, y)


def test_known_classes_are_plain_means():
    """Columns that tell the class: nothing is left to correct."""
    of = np.arange(120) < 80
    X = np.repeat(of[:, None], 7, 1).astype(float)
    y = np.random.default_rng(0).normal(size=120)
    m = BernoulliMixture(2, smoothing=0, random_state=0, n_init=2).fit(X)
    for method in ("bch", "ml"):
        found = m.class_differences(X, y, method)
        np.testing.assert_allclose(found.estimate, [y[of].mean(), y[~of].mean()], rtol=1e-6)
        np.testing.assert_allclose(found.error, [y[of].std() / 80**0.5, y[~of].std() / 40**0.5], rtol=1e-5)


def test_refusals(table, fitted):
    with pytest.raises(ValueError, match="weights_are must be"):
        fitted.standard_errors(table, weights_are="survey")
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        fitted.standard_errors(table, level=95)
    with pytest.raises(ValueError, match="method must be 'bch' or 'ml'"):
        fitted.class_differences(table, table[:, 0], "modal")
    with pytest.raises(ValueError, match="kind must be"):
        fitted.class_differences(table, table[:, 0], kind="number")
    with pytest.raises(DataError, match="X has 120 rows and y 5"):
        fitted.class_differences(table, np.arange(5.0))
    with pytest.raises(DataError, match="the same in all rows"):
        fitted.class_differences(table, ["a"] * 120)
    with pytest.raises(DataError, match="cannot be continuous"):
        fitted.class_differences(table, ["a", "b"] * 60, kind="continuous")
    with pytest.raises(DataError, match="infinity, in row 3"):
        fitted.class_differences(table, np.where(np.arange(120) == 3, np.inf, 0.5))
    with pytest.raises(DataError, match="1-dimensional"):
        fitted.class_differences(table, table)
    for report in (fitted.standard_errors, fitted.classification, fitted.bivariate_residuals):
        with pytest.raises(DataError, match="no row with an answer"):
            report(np.full((3, 7), np.nan))
    with pytest.raises(DataError, match="no row has both"):
        fitted.class_differences(table, np.full(120, np.nan), kind="continuous")


def test_too_many_parameters_are_refused(table, fitted, monkeypatch):
    monkeypatch.setattr("latentbits.reports.class_errors.MOST_PARAMETERS", 15)
    with pytest.raises(ValueError, match="16 x 16 numbers, and this stops at 15"):
        fitted.standard_errors(table)
