"""Latent class regression against sums bit by bit and a direct optimiser."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from tests.models.mixture import twin
from tests.models.steps import step, unchecked
from tests.tables import as_bytes, with_holes

from latentbits import BernoulliMixture, load
from latentbits.core.errors import DataError
from latentbits.models.mixture import membership
from latentbits.reports.membership import information, membership_errors

MIX, CENTRE = np.array([[1, 30], [0, 40]]), np.array([2, 1000])


def regression(n=240, missing=0.2, seed=0):
    """Draw bits of two classes that depend on two covariates of very different units, which are correlated."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 2)) @ MIX + CENTRE
    second = rng.random(n) < expit(0.5 + 1.2 * (Z[:, 0] - 2) - 0.02 * (Z[:, 1] - 1000))
    means = np.array([[0.85, 0.8, 0.7, 0.3, 0.25], [0.2, 0.3, 0.1, 0.6, 0.8]])
    return with_holes(rng.random((n, 5)) < means[second.astype(int)], missing, seed), Z


def log_joint(X, Z, means, coefficients):
    """Give log P(row, class), bit by bit."""
    prior = log_softmax(np.column_stack([np.ones(len(Z)), Z]) @ coefficients.T, axis=1)
    return twin.log_joint(as_bytes(X), twin.parameters(np.ones(len(means)), means)) + prior


def log_likelihoods(*given):
    return logsumexp(log_joint(*given), axis=1)


def taken_apart(at, k, d, q):
    coefficients = np.concatenate([np.zeros((1, q)), at[: (k - 1) * q].reshape(k - 1, q)])
    return expit(at[(k - 1) * q :].reshape(k, d)), coefficients


@pytest.fixture(scope="module")
def case():
    """A model fitted to rows with holes that count once to three times."""
    X, Z = regression()
    counts = np.random.default_rng(0).integers(1, 4, len(X))
    Z = pandas.DataFrame(Z, columns=["age", "income"])
    m = BernoulliMixture(2, smoothing=0, random_state=0, n_init=4, tol=1e-11)
    m.fit(X, covariates=Z, sample_weight=counts)
    return SimpleNamespace(m=m, X=X, Z=Z, values=Z.to_numpy(), counts=counts)


@pytest.mark.slow("an optimiser of SciPy beside the fit")
def test_the_maximum_is_that_of_a_direct_optimiser(case):
    m, X, Z, counts = case.m, case.X, case.values, case.counts
    assert m.converged_
    rows = log_likelihoods(X, Z, m.means_, m.coefficients_)
    np.testing.assert_allclose(m.score_samples(X, covariates=case.Z), rows, rtol=1e-9, atol=1e-12)
    total = m.log_likelihood(X, sample_weight=counts, covariates=case.Z)
    assert total == pytest.approx(counts @ rows, rel=1e-12)
    assert m.score(X, covariates=case.Z) == pytest.approx(rows.mean(), rel=1e-12)

    unit = (Z - Z.mean(0)) / Z.std(0)  # the optimiser's covariates: it knows no better
    start = np.concatenate([[0.5, 1, -1], logit(np.clip(m.means_, 0.05, 0.95)).ravel()])
    found = minimize(lambda at: -counts @ log_likelihoods(X, unit, *taken_apart(at, 2, 5, 3)), start, tol=1e-9)
    assert total == pytest.approx(-found.fun, abs=1e-6)
    slopes = found.x[1:3] / Z.std(0)
    np.testing.assert_allclose(m.coefficients_[1, 1:], slopes, rtol=2e-3)
    np.testing.assert_allclose(m.coefficients_[1, 0], found.x[0] - slopes @ Z.mean(0), rtol=2e-3)
    np.testing.assert_array_equal(m.coefficients_[0], 0)
    assert m.n_parameters_ == 3 + 10


def test_membership_is_p_of_the_class_given_bits_and_covariates(case):
    m, X, Z = case.m, case.X, case.Z
    share = twin.shares(log_joint(X, case.values, m.means_, m.coefficients_))
    np.testing.assert_allclose(m.transform(X, covariates=Z), share, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(m.posterior(X, covariates=Z).mean, share, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(m.weights_, np.average(share, axis=0, weights=case.counts), atol=1e-4)
    drawn = m.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(0), m.weights_ @ m.means_, atol=0.02)  # 5 standard errors


def test_steps_of_em_are_those_of_the_formulas_and_never_fall():
    """Classes by their expected counts; coefficients by 2 / n of the gradient, of covariates that are made white."""
    X, Z = regression()
    k, n, rng = 3, len(X), np.random.default_rng(1)
    centre, turn = CENTRE.astype(float), np.linalg.inv(MIX)
    white = np.column_stack([np.ones(n), (Z - centre) @ turn])
    start = np.full(k, 1 / k), rng.uniform(0.2, 0.8, (k, 5)), 0.3 * rng.normal(size=(k, 3)), centre, turn
    at, table, values = unchecked(membership.Params, *start), np.column_stack([X, Z]), []
    for i in range(40):
        model = membership.model(k, centre, turn, 1.0, accelerate=False)
        _, after, objective = step(model, at, table)
        values.append(objective)
        if i == 0:
            prior = log_softmax(white @ at.slopes.T, axis=1)
            joint = twin.log_joint(as_bytes(X), twin.parameters(np.ones(k), at.means)) + prior
            share, base = twin.shares(joint), twin.column_means(as_bytes(X), 1.0)
            members, ones, seen = twin.counts_of(as_bytes(X), share)
            pseudo = np.sum(base * np.log(at.means) + (1 - base) * np.log1p(-at.means))
            assert objective == pytest.approx(logsumexp(joint, axis=1).sum() + pseudo, rel=1e-12)
            np.testing.assert_allclose(after.weights, members / n, rtol=1e-9)
            np.testing.assert_allclose(after.means, (ones + base) / (seen + 1), rtol=1e-9)
            np.testing.assert_allclose(after.slopes, at.slopes + 2 / n * (share - np.exp(prior)).T @ white, rtol=1e-9)
        at = after
    assert np.all(np.diff(values) > -1e-9)
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize(("k", "missing"), [(2, 0.0), (3, 0.3)])
def test_the_information_is_that_of_finite_differences(k, missing):
    X, Z = regression(40, missing)
    Z = (Z - Z.mean(0)) / Z.std(0)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, len(X)).astype(float)
    at = rng.normal(size=(k - 1) * 3 + k * 5)

    def value(at):
        return weights @ log_likelihoods(X, Z, *taken_apart(at, k, 5, 3))

    h = 1e-4
    steps = h * np.eye(len(at))
    bend = np.array(
        [[value(at + a + b) - value(at + a - b) - value(at - a + b) + value(at - a - b) for b in steps] for a in steps]
    ) / (4 * h**2)
    found = information(X, Z, weights, *taken_apart(at, k, 5, 3))
    np.testing.assert_allclose(found, -bend, atol=1e-4)


def test_errors_of_coefficients(case):
    m, X, Z = case.m, case.X, case.values
    told = m.membership_errors(X, case.Z, sample_weight=case.counts)
    assert told.notes == ()
    inverse = np.linalg.inv(information(X, Z, case.counts.astype(float), m.means_, m.coefficients_))
    np.testing.assert_allclose(told.errors.ravel(), np.sqrt(np.diag(inverse))[:3], rtol=1e-6)
    np.testing.assert_allclose(told.z, told.coefficients / told.errors)
    assert np.all(told.p[0, 1:] < 0.05)
    assert "class 2, income" in str(told)
    means = m.means_
    at = np.unravel_index(np.abs(means - 0.5).argmax(), means.shape)  # the nearest to its bound
    m.means_ = means.copy()
    m.means_[at] = np.round(means[at])
    told = m.membership_errors(X, case.Z, sample_weight=case.counts)
    m.means_ = means
    assert np.isnan(told.means[at])
    assert not np.isnan(told.errors).any()
    assert "0 or 1" in told.notes[0]


def test_errors_do_not_depend_on_units_and_those_of_bits_are_shown(case):
    """Dates as 20250131 are 10^5 times further from 0 than they are apart: the information is not singular for that."""
    X, Z, counts, means = case.X, case.values, case.counts.astype(float), case.m.means_
    at, names = case.m.coefficients_, (["intercept", "age", "income"], list("abcde"))
    plain = membership_errors(X, Z, counts, means, at, *names)
    moved = at.copy()
    moved[:, 2] /= 5.0
    moved[:, 0] -= moved[:, 2] * 2e7
    told = membership_errors(X, np.column_stack([Z[:, 0], 2e7 + 5 * Z[:, 1]]), counts, means, moved, *names)
    assert told.notes == ()
    np.testing.assert_allclose(told.errors[0, 1:], plain.errors[0, 1:] / [1, 5], rtol=1e-5)
    np.testing.assert_allclose(told.means, plain.means, rtol=1e-5)
    along = np.array([1.0, 0.0, 2e7])  # log-odds where income was 0
    assert np.sqrt(along @ told.covariance @ along) == pytest.approx(plain.errors[0, 0], rel=1e-3)
    table = told.table()
    assert table.index[:4] == ["class 2, intercept", "class 2, age", "class 2, income", "class 1: a"]
    np.testing.assert_array_equal(table.columns["estimate"][3:], means.ravel())
    np.testing.assert_array_equal(table.columns["standard error"][3:], told.means.ravel())


def test_reports_of_classes_take_covariates(case):
    """Posteriors and expected tables of pairs are those of each row's covariates, counted out."""
    m, X, Z = case.m, case.X, case.Z
    counts = case.counts * (~np.isnan(X)).any(1)  # rows without an answer are left out
    share = m.transform(X, covariates=Z)
    found = m.classification(X, counts, covariates=Z)
    modal = share.argmax(1)
    for s in range(2):
        assert found.counts[s] == counts[modal == s].sum()
        np.testing.assert_allclose(
            found.posterior_by_modal[s], np.average(share[modal == s], axis=0, weights=counts[modal == s])
        )
    prior = softmax(np.column_stack([np.ones(len(X)), case.values]) @ m.coefficients_.T, axis=1)
    pairs = m.bivariate_residuals(X, counts, covariates=Z)
    seen, x2 = ~np.isnan(X[:, 1]) & ~np.isnan(X[:, 3]), 0.0
    for a, b in np.ndindex(2, 2):
        of_class = np.abs(1 - a - m.means_[:, 1]) * np.abs(1 - b - m.means_[:, 3])
        expected = counts[seen] @ prior[seen] @ of_class
        x2 += (counts[(X[:, 1] == a) & (X[:, 3] == b)].sum() - expected) ** 2 / expected
    assert pairs.matrix[1, 3] == pytest.approx(x2, rel=1e-6)
    assert pairs.names == [f"column {j}" for j in range(5)]
    for report in (m.classification, m.bivariate_residuals):
        with pytest.raises(DataError, match=r"covariates= to .*classification, bivariate_residuals"):
            report(X)
    with pytest.raises(ValueError, match="not for a mixture with covariates"):
        m.standard_errors(X, counts, weights_are="sampling", covariates=Z)


def test_files_and_names(case, tmp_path):
    m, X, Z = case.m, case.X, case.Z
    m.save(tmp_path / "model")
    other = load(tmp_path / "model")
    np.testing.assert_array_equal(other.coefficients_, m.coefficients_)
    np.testing.assert_array_equal(other.score_samples(X, covariates=Z), m.score_samples(X, covariates=Z))
    assert list(other.covariate_names_) == ["age", "income"]
    assert other.n_parameters_ == m.n_parameters_
    with pytest.raises(DataError, match="age, income"):
        other.score(X, covariates=Z[["income", "age"]])
    other.set_params(accelerate=False, n_init=1, tol=1e-2).fit(X)  # without: nothing of the covariates is left
    assert not hasattr(other, "coefficients_")
    assert other.transform(X).shape == (len(X), 2)
    with pytest.raises(DataError, match="without covariates"):
        other.score(X, covariates=Z)
    with pytest.raises(ValueError, match="without covariates"):
        other.membership_errors(X, Z)


def test_what_is_missing_or_of_no_use_is_told(case):
    m, X, Z = case.m, case.X, case.values
    for use in (m.score_samples, m.transform, m.posterior, m.complete, m.score, m.bic):
        with pytest.raises(DataError, match="fitted with covariates"):
            use(X)
    with pytest.raises(ValueError, match="fit it without"):
        m.bootstrap_test(X)
    with pytest.raises(DataError, match="239"):
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
    for options in ({"smoothing": "auto"}, {"init": "anneal"}):
        with pytest.raises(ValueError, match="with covariates"):
            BernoulliMixture(2, **options).fit(X, covariates=Z)
