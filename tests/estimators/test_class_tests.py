from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.tables import classes

from latentbits import BernoulliMixture
from latentbits.core.errors import DataError
from latentbits.data import load_dataset
from latentbits.reports import bootstrap

QUICK = {"n_draws": 19, "n_starts": 4}


def two_classes(n=80):
    return classes(n, means=np.tile([[0.85], [0.2]], 5))


@pytest.fixture(scope="module")
def one_of_two():
    X = two_classes()
    m = BernoulliMixture(1, smoothing=0, random_state=0).fit(X)
    return X, m, m.bootstrap_test(X, random_state=1, **QUICK)


@pytest.mark.slow("a bootstrap beside two fits")
def test_the_statistic_is_of_two_fits_and_p_counts_the_draws(one_of_two):
    X, m, test = one_of_two
    more = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    assert test.log_likelihood == pytest.approx(m.log_likelihood(X), abs=1e-3)
    assert test.log_likelihood_more == pytest.approx(more.log_likelihood(X), abs=1e-3)
    assert test.statistic == pytest.approx(2 * (test.log_likelihood_more - test.log_likelihood), abs=1e-9)
    assert test.p_value == (1 + np.sum(test.draws >= test.statistic)) / 20 == 0.05
    assert np.all(test.draws >= 0)
    assert test.notes == ()
    assert "LR, 1 against 2 classes" in str(test)
    assert test["n_draws"] == len(test.to_json()["draws"]) == 19


def test_g2_and_x2_are_sums_over_all_patterns(one_of_two):
    X, m, test = one_of_two
    observed, expected = [], []
    for pattern in itertools.product([0, 1], repeat=X.shape[1]):
        observed.append(np.all(pattern == X, axis=1).sum())
        expected.append(len(X) * np.exp(m.score_samples([pattern])[0]))
    observed, expected = np.array(observed, float), np.array(expected)
    some = observed > 0
    g2 = 2 * np.sum(observed[some] * np.log(observed[some] / expected[some]))
    assert test.g2 == pytest.approx(g2, rel=1e-4)
    assert test.x2 == pytest.approx(np.sum((observed - expected) ** 2 / expected), rel=1e-4)
    assert test.g2_p == (1 + np.sum(test.g2_draws >= test.g2)) / 20
    assert test.x2_p == (1 + np.sum(test.x2_draws >= test.x2)) / 20


@pytest.mark.slow("another size is compiled for")
def test_two_classes_are_enough_for_two():
    X = two_classes()
    m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    test = m.bootstrap_test(X, random_state=3, **QUICK)
    assert test.p_value > 0.05
    assert np.all(test.draws >= 0)


def test_draws_are_those_of_the_seed(one_of_two):
    X, m, test = one_of_two
    np.testing.assert_array_equal(m.bootstrap_test(X, random_state=1, **QUICK).draws, test.draws)
    assert not np.array_equal(m.bootstrap_test(X, random_state=4, **QUICK).draws, test.draws)


def test_counts_of_patterns_are_rows_written_out(one_of_two):
    X, m, test = one_of_two
    patterns, counts = np.unique(X, axis=0, return_counts=True)
    weighted = m.bootstrap_test(patterns, random_state=1, sample_weight=counts, **QUICK)
    assert weighted.statistic == pytest.approx(test.statistic, abs=1e-4)
    assert weighted.g2 == pytest.approx(test.g2, abs=1e-6)
    np.testing.assert_array_equal(weighted.draws, test.draws)
    with pytest.raises(ValueError, match="whole numbers"):
        m.bootstrap_test(patterns, sample_weight=counts + 0.5, **QUICK)


@pytest.mark.slow("tables with holes are compiled for")
def test_draws_have_the_holes_of_the_table():
    X = two_classes()
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    X[7] = np.nan  # no observation at all
    m = BernoulliMixture(1, smoothing=0).fit(X)
    test = m.bootstrap_test(X, random_state=0, **QUICK)
    more = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    assert test.statistic == pytest.approx(2 * (more.log_likelihood(X) - m.log_likelihood(X)), abs=1e-3)
    assert test.p_value == 0.05
    assert np.isnan([test.g2, test.g2_p, test.x2, test.x2_p]).all()
    assert "missing" in test.notes[-1]


@pytest.mark.slow("another size is compiled for")
def test_a_poor_fit_is_reported_and_not_tested():
    """The test is made with the best maximum, and what the model lacks is in the notes."""
    X = two_classes()
    best = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="max_iter"):
        poor = BernoulliMixture(2, smoothing=0, random_state=0, accelerate=False, n_init=1, max_iter=1).fit(X)
    assert poor.log_likelihood(X) < best.log_likelihood(X) - 0.1
    test = poor.bootstrap_test(X, random_state=0, **QUICK)
    assert test.log_likelihood == pytest.approx(best.log_likelihood(X), abs=1e-3)
    assert "below a better maximum" in test.notes[0]


def test_what_cannot_be_tested_is_refused():
    X = two_classes(20)
    with pytest.raises(ValueError, match="smoothing=0"):
        BernoulliMixture(1).fit(X).bootstrap_test(X)
    m = BernoulliMixture(1, smoothing=0).fit(X)
    for wrong in ({"n_draws": 0}, {"n_starts": 1.5}, {"n_more": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            m.bootstrap_test(X, **wrong)
    with pytest.raises(ValueError, match="no row"):
        m.bootstrap_test(np.full((3, 5), np.nan))


@pytest.mark.slow("two sizes are compiled for")
def test_several_classes_more():
    X = two_classes(40)
    m = BernoulliMixture(1, smoothing=0).fit(X)
    one, two = (m.bootstrap_test(X, random_state=0, n_more=more, **QUICK) for more in (1, 2))
    assert two.n_more == 2
    assert two.statistic >= one.statistic - 1e-3
    assert two.draws.mean() > one.draws.mean()


@pytest.mark.slow("other chunks are compiled for")
def test_large_tables_are_drawn_and_climbed_some_at_a_time(one_of_two, monkeypatch):
    X, m, test = one_of_two
    monkeypatch.setattr(bootstrap, "CHUNK_BYTES", 2**16)
    monkeypatch.setattr(bootstrap, "BLOCK_BYTES", 1)
    done: list[int] = []
    found = bootstrap.bootstrap_test(
        X.astype(np.uint8), None, m.weights_, m.means_, n_draws=19, seed=0, n_starts=4, after_each=done.append
    )
    assert len(done) > 1
    assert sum(done) == len(found.draws) == 19
    assert len(np.unique(found.draws)) == 19  # parts share no draws
    assert found.statistic == pytest.approx(test.statistic, abs=1e-4)
    assert np.all(found.draws >= 0)


@pytest.mark.slow("200 draws of a bootstrap")
def test_raters_of_carcinoma():
    """Against poLCA with 200 draws: means within four standard errors of both."""
    X = load_dataset("carcinoma").X
    m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    test = m.bootstrap_test(X, n_draws=200, random_state=0)
    assert test.statistic == pytest.approx(47.10372, abs=2e-3)
    assert test.g2 == pytest.approx(62.36543, rel=1e-4)
    assert test.x2 == pytest.approx(92.64814, rel=1e-3)
    assert test.p_value == 1 / 201
    error, sd = np.sqrt(1 / 200 + 1 / 200), 2.776
    assert abs(test.draws.mean() - 7.413) < 4 * sd * error
    assert abs(np.log(test.draws.std() / sd)) < 4 * 1.2 * error
    assert abs(np.quantile(test.draws, 0.95) - 12.89) < 4 * 2.1 * sd * error
    assert abs(test.g2_draws.mean() - 20.34) < 4 * 6.11 * error


@pytest.mark.slow("covariates are compiled for")
def test_classes_with_covariates_come_by_share_and_have_reports():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 2))
    rare = rng.random(500) < 1 / (1 + np.exp(1.5 - 1.5 * z[:, 0]))
    bits = (rng.random((500, 6)) < np.where(rare, 0.9, 0.2)[:, None]).astype(int)
    m = BernoulliMixture(2, smoothing=0, random_state=0).fit(bits, covariates=z)
    assert m.weights_[0] > m.weights_[1]
    assert m.means_[1].mean() > m.means_[0].mean()
    assert m.coefficients_[1, 1] > 1
    errors = m.standard_errors(bits, covariates=z)
    assert (np.abs(m.coefficients_[1] - [-1.5, 1.5, 0.0]) < 4 * errors.errors[0]).all()
    report = m.fit_report(bits, covariates=z)
    assert report.n_parameters == 3 + 12
    assert np.isnan(report.g2)
    share = m.transform(bits, covariates=z)
    assert report.entropy == pytest.approx(1 + np.sum(share * np.log(share)) / (500 * np.log(2)))
    assert report.log_likelihood == pytest.approx(m.log_likelihood(bits, covariates=z))
    with pytest.raises(DataError, match="covariates"):
        m.fit_report(bits)
