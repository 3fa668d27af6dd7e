from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp

from latentbits import BernoulliMixture, load
from latentbits.core.errors import DataError
from latentbits.reports.membership import information


def regression(n=150, missing=0.0, seed=0):
    """Bits of two classes that depend on two covariates of very different units, which are correlated."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2)) @ [[1, 30], [0, 40]] + [2, 1000]
    second = rng.random(n) < expit(0.5 + 1.2 * (Z[:, 0] - 2) - 0.02 * (Z[:, 1] - 1000))
    means = np.array([[0.85, 0.8, 0.7, 0.3, 0.25], [0.2, 0.3, 0.1, 0.6, 0.8]])
    X = (rng.random((n, 5)) < means[second.astype(int)]).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X, Z


def log_likelihoods(X, Z, means, coefficients):
    """Bit by bit."""
    term = np.where(X[:, None] == 1, np.log(means), np.log1p(-means))
    prior = log_softmax(np.column_stack([np.ones(len(Z)), Z]) @ coefficients.T, axis=1)
    return logsumexp(np.where(np.isnan(X)[:, None], 0, term).sum(2) + prior, axis=1)


def taken_apart(at, k, d, q):
    coefficients = np.concatenate([np.zeros((1, q)), at[: (k - 1) * q].reshape(k - 1, q)])
    return expit(at[(k - 1) * q :].reshape(k, d)), coefficients


def fitted(X, Z, k=2, **options):
    return BernoulliMixture(k, smoothing=0, random_state=0, n_init=4, tol=1e-11, **options).fit(X, covariates=Z)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_maximum_is_that_of_a_direct_optimiser(missing):
    X, Z = regression(missing=missing)
    m = fitted(X, Z)
    assert m.converged_
    rows = log_likelihoods(X, Z, m.means_, m.coefficients_)
    np.testing.assert_allclose(m.score_samples(X, covariates=Z), rows, rtol=1e-9)
    assert m.log_likelihood(X, covariates=Z) == pytest.approx(rows.sum(), rel=1e-12)
    assert m.score(X, covariates=Z) == pytest.approx(rows.mean(), rel=1e-12)

    unit = (Z - Z.mean(0)) / Z.std(0)  # the optimiser's covariates: it knows no better
    start = np.concatenate([[0.5, 1, -1], logit(np.clip(m.means_, 0.05, 0.95)).ravel()])
    found = minimize(lambda at: -log_likelihoods(X, unit, *taken_apart(at, 2, 5, 3)).sum(), start, tol=1e-9)
    assert rows.sum() == pytest.approx(-found.fun, abs=1e-6)
    slopes = found.x[1:3] / Z.std(0)
    np.testing.assert_allclose(m.coefficients_[1, 1:], slopes, rtol=2e-3)
    np.testing.assert_allclose(m.coefficients_[1, 0], found.x[0] - slopes @ Z.mean(0), rtol=2e-3)
    np.testing.assert_array_equal(m.coefficients_[0], 0)
    assert m.n_parameters_ == 3 + 10


def test_membership_is_p_of_the_class_given_bits_and_covariates():
    X, Z = regression(missing=0.2)
    m = fitted(X, Z)
    term = np.where(X[:, None] == 1, m.means_, 1 - m.means_)
    joint = np.where(np.isnan(X)[:, None], 1, term).prod(2)
    joint *= np.exp(log_softmax(np.column_stack([np.ones(len(Z)), Z]) @ m.coefficients_.T, axis=1))
    share = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(m.transform(X, covariates=Z), share, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(m.posterior(X, covariates=Z).mean, share, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(m.weights_, share.mean(0), atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_steps_of_em_never_fall(smoothing):
    X, Z = regression(missing=0.2)
    m = BernoulliMixture(3, smoothing=smoothing, random_state=0, n_init=1, max_iter=60, accelerate=False, tol=1e-3)
    m.fit(X, covariates=Z)
    assert len(m.history_) > 5
    assert np.all(np.diff(m.history_) > -1e-9)


def test_covariates_that_tell_nothing_leave_the_mixture_as_it_is():
    X, _ = regression()
    pairs, noise = np.concatenate([X, X]), np.repeat([[1.0], [-1.0]], len(X), axis=0)
    m = fitted(pairs, noise)
    plain = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
    np.testing.assert_allclose(m.coefficients_[1, 1], 0, atol=1e-4)
    assert m.log_likelihood(pairs, covariates=noise) == pytest.approx(2 * plain.log_likelihood(X), abs=2e-3)


def test_counts_are_rows_written_out():
    X, Z = regression(60)
    counts = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = BernoulliMixture(2, smoothing=0, random_state=0, n_init=4, tol=1e-11).fit(
        X, covariates=Z, sample_weight=counts
    )
    again = np.repeat(np.arange(len(X)), counts)
    written = fitted(X[again], Z[again])
    total = weighted.log_likelihood(X, sample_weight=counts, covariates=Z)
    assert total == pytest.approx(written.log_likelihood(X[again], covariates=Z[again]), abs=1e-6)
    errors = weighted.membership_errors(X, Z, sample_weight=counts).errors
    other = information(X[again], Z[again], np.ones(len(again)), weighted.means_, weighted.coefficients_)
    own = information(X, Z, counts.astype(float), weighted.means_, weighted.coefficients_)
    np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-9)
    assert errors.shape == (1, 3)


@pytest.mark.parametrize(("k", "missing"), [(2, 0.0), (3, 0.3)])
def test_the_information_is_that_of_finite_differences(k, missing):
    X, Z = regression(40, missing)
    Z = (Z - Z.mean(0)) / Z.std(0)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, len(X)).astype(float)
    at = rng.normal(size=(k - 1) * 3 + k * 5)

    def value(at):
        return weights @ log_likelihoods(X, Z, *taken_apart(at, k, 5, 3))

    h, size = 1e-4, len(at)
    steps = h * np.eye(size)
    bend = np.array(
        [[value(at + a + b) - value(at + a - b) - value(at - a + b) + value(at - a - b) for b in steps] for a in steps]
    ) / (4 * h**2)
    found = information(X, Z, weights, *taken_apart(at, k, 5, 3))
    np.testing.assert_allclose(found, -bend, atol=1e-4)


def test_errors_of_coefficients():
    X, Z = regression(400)
    m = fitted(X, Z)
    told = m.membership_errors(X, Z)
    assert told.notes == ()
    inverse = np.linalg.inv(information(X, Z, np.ones(len(X)), m.means_, m.coefficients_))
    np.testing.assert_allclose(told.errors.ravel(), np.sqrt(np.diag(inverse))[:3], rtol=1e-6)
    np.testing.assert_allclose(told.z, told.coefficients / told.errors)
    assert np.all(told.p[0, 1:] < 0.05)
    assert "class 2, covariate 1" in str(told)
    held = m.means_.copy()
    at = np.unravel_index(np.abs(held - 0.5).argmax(), held.shape)  # the nearest to its bound
    held[at] = np.round(held[at])
    m.means_ = held
    told = m.membership_errors(X, Z)
    assert np.isnan(told.means[at])
    assert not np.isnan(told.errors).any()
    assert "0 or 1" in told.notes[0]


def test_files_and_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, Z = regression(80)
    frame = pandas.DataFrame(Z, columns=["age", "income"])
    m = fitted(X, frame)
    m.save(tmp_path / "model")
    other = load(tmp_path / "model")
    np.testing.assert_array_equal(other.coefficients_, m.coefficients_)
    np.testing.assert_array_equal(other.score_samples(X, covariates=frame), m.score_samples(X, covariates=frame))
    assert list(other.covariate_names_) == ["age", "income"]
    assert other.n_parameters_ == m.n_parameters_
    with pytest.raises(DataError, match="age, income"):
        other.score(X, covariates=frame[["income", "age"]])
    assert "class 2, income" in str(m.membership_errors(X, frame))


def test_what_is_missing_or_of_no_use_is_told():
    X, Z = regression(60)
    m = fitted(X, Z)
    for use in (m.score_samples, m.transform, m.posterior, m.complete, m.score, m.bic):
        with pytest.raises(DataError, match="fitted with covariates"):
            use(X)
    drawn = m.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(0), m.weights_ @ m.means_, atol=0.02)  # 5 standard errors
    with pytest.raises(ValueError, match="fit it without"):
        m.bootstrap_test(X)
    with pytest.raises(DataError, match="59"):
        m.score(X, covariates=Z[1:])
    with pytest.raises(DataError, match="1 columns"):
        m.score(X, covariates=Z[:, :1])
    fresh = BernoulliMixture(2, smoothing=0)
    with pytest.raises(DataError, match="same in all rows"):
        fresh.fit(X, covariates=np.ones(len(X)))
    with pytest.raises(DataError, match="follows from"):
        fresh.fit(X, covariates=np.column_stack([Z, Z.sum(1)]))
    with pytest.raises(ValueError, match="NaN"):
        fresh.fit(X, covariates=np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="init must be 'random'"):
        BernoulliMixture(2, init="split").fit(X, covariates=Z)
    with pytest.raises(ValueError, match="float64"):
        BernoulliMixture(2, dtype="float32").fit(X, covariates=Z)
    plain = BernoulliMixture(2, random_state=0, n_init=1).fit(X)
    with pytest.raises(DataError, match="without covariates"):
        plain.score(X, covariates=Z)
    with pytest.raises(ValueError, match="without covariates"):
        plain.membership_errors(X, Z)
    again = m.fit(X)  # without: nothing of the covariates is left
    assert not hasattr(again, "coefficients_")
    assert again.transform(X).shape == (60, 2)
