"""`ItemResponse`: guessing, anchors, groups and covariates of people, their errors, and refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pandas
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import norm
from tests.tables import answers

import latentbits
from latentbits import BernoulliMixture, ItemResponse, load_dataset
from latentbits.core.errors import DataError
from latentbits.core.tree import double
from latentbits.estimators.latent_trait.item_scores import _params_near
from latentbits.estimators.tables.beside_bits import Beside, labels_of
from latentbits.figures import fitted
from latentbits.models.latent_trait import item_learning

NODES = np.linspace(-6, 6, 61)
WEIGHTS = norm.pdf(NODES) / norm.pdf(NODES).sum()
N = 240
ITEMS = {"slopes": np.array([1.0, 1.5, 0.8, 1.2]), "intercepts": np.array([0.5, -0.5, 0.0, 1.0])}


def brute(X, slopes, intercepts, low, mean, sd):
    """log p of each row, by SciPy; mean and sd of each row's trait."""
    theta = mean[:, None] + sd[:, None] * NODES
    p = low + (1 - low) * expit(theta[..., None] * slopes + intercepts)
    p = np.clip(p, 1e-300, 1 - 1e-16)  # a line search may go far
    terms = np.where(np.isnan(X)[:, None], 0.0, np.where(X[:, None] > 0, np.log(p), np.log1p(-p)))
    return logsumexp(terms.sum(-1) + np.log(WEIGHTS), axis=1)


def distinct(*columns, weight=None):
    """Give the rows that differ, and how often each is there."""
    table = np.nan_to_num(np.column_stack(columns), nan=-9)
    rows, place = np.unique(table, axis=0, return_inverse=True)
    return np.where(rows == -9, np.nan, rows), np.bincount(place.ravel(), weight)


def covariance_at_the_top(loss, at, h=1e-3):
    """Give the inverse Hessian, by differences; no more than rounding is left to gain there."""
    n, e = len(at), h * np.eye(len(at))
    hessian = np.zeros((n, n))
    for i, j in zip(*np.triu_indices(n)):
        both = loss(at + e[i] + e[j]) + loss(at - e[i] - e[j]) - loss(at + e[i] - e[j]) - loss(at - e[i] + e[j])
        hessian[i, j] = hessian[j, i] = both / (4 * h * h)
    slope = np.array([loss(at + step) - loss(at - step) for step in e]) / (2 * h)
    covariance = np.linalg.inv(hessian)
    assert np.linalg.eigvalsh(hessian)[0] > 0
    assert slope @ covariance @ slope / 2 < 1e-7  # nats; 1e-10 a row is what a fit may leave
    assert np.abs(covariance @ slope).max() < 1e-3
    return covariance


@pytest.fixture(scope="module")
def people():
    """Answers `X` of two groups `g`, with age and income, which tell a little, as a frame `Z`; 4 items, some holes."""
    rng = np.random.default_rng(3)
    second = np.arange(N) % 2 == 1
    Z = pandas.DataFrame(rng.normal(size=(N, 2)), columns=["age", "inc"])
    theta = Z.to_numpy() @ [0.7, -0.3] + np.where(second, 0.5 + 1.2 * rng.normal(size=N), rng.normal(size=N))
    X = answers(N, seed=4, traits=theta, missing=0.1, **ITEMS)
    return SimpleNamespace(X=X, Z=Z, g=np.where(second, "second", "first"), second=second)


@pytest.fixture(scope="module")
def both(people):
    """Groups and covariates, and one item that may be guessed."""
    m = ItemResponse({1: "3PL"}, weight_prior=1.0, random_state=0)
    return m.fit(people.X, groups=people.g, covariates=people.Z)


@pytest.fixture(scope="module")
def grouped(people):
    return ItemResponse(random_state=0).fit(people.X, groups=people.g)


# ---------------------------------------------------------------- maxima and errors, by brute force


@pytest.mark.slow("finite differences of a fit with groups, covariates and asymptotes")
def test_all_parameters_are_a_maximum(people, both):
    m, X, Z, g, second = both, people.X, people.Z.to_numpy(), people.g, people.second

    def likelihood(x):
        a, b = x[:8].reshape(4, 2).T
        mean, sd = np.where(second, x[9], 0.0) + Z @ x[11:], np.where(second, np.exp(x[10]), 1.0)
        return brute(X, a, b, expit(x[8]) * (np.arange(4) == 1), mean, sd).sum()

    def loss(x):
        return -likelihood(x) + 0.5 * np.sum(x[:8:2] ** 2) + (x[8] + 1.1) ** 2 / (2 * 0.5**2)

    guessed = m.asymptote_[1]
    at = np.concatenate([
        np.stack([m.components_[0], m.intercept_], 1).ravel(), [np.log(guessed / (1 - guessed))],
        [m.population_.mean[1], 0.5 * np.log(m.population_.variance[1])], m.population_.coefficients,
    ])  # fmt: skip
    assert m.converged_
    assert m.population_.groups == ("first", "second")
    assert m.n_parameters_ == 13
    assert -m.objective_ == pytest.approx(loss(at), abs=1e-6)
    expected = np.sqrt(np.diag(covariance_at_the_top(loss, at)))
    known = {"groups": g, "covariates": people.Z}
    errors = m.standard_errors(X, **known)
    items = np.stack([errors.components[0], errors.intercept], 1).ravel()
    np.testing.assert_allclose(items, expected[:8], rtol=1e-3)
    assert errors.asymptote_logit[1] == pytest.approx(expected[8], rel=1e-3)
    assert errors.group_means[1] == pytest.approx(expected[9], rel=1e-3)
    assert errors.group_variances[1] == pytest.approx(2 * m.population_.variance[1] * expected[10], rel=1e-3)
    np.testing.assert_allclose(errors.coefficients, expected[11:], rtol=1e-3)
    assert np.isnan(errors.group_means[0])
    assert np.isnan(errors.asymptote_logit[[0, 2, 3]]).all()
    assert m.log_likelihood(X, **known) == pytest.approx(likelihood(at), abs=1e-6)
    assert m.criteria(X, **known).n_rows == int((~np.isnan(X)).any(1).sum())
    filled = m.complete(X, **known)
    assert filled.shape == X.shape
    assert not np.isnan(filled).any()
    drawn = m.sample(N, random_state=0, groups=g, covariates=people.Z)
    assert drawn.shape == X.shape
    assert drawn.dtype == np.uint8


@pytest.mark.slow("items that are all guessed are compiled for")
def test_guessing_is_a_maximum():
    rng = np.random.default_rng(0)
    X = answers(N, guessing=0.2, missing=0.1, **ITEMS)
    weight = rng.integers(1, 3, N).astype(float)
    m = ItemResponse("3PL", weight_prior=1.0, random_state=0).fit(X, sample_weight=weight)
    rows, counts = distinct(X, weight=weight)
    penalty = lambda a, g: 0.5 * np.sum(a**2) + np.sum((g + 1.1) ** 2) / (2 * 0.5**2)  # noqa: E731

    def loss(x):
        a, b, g = x.reshape(4, 3).T
        zero, one = np.zeros(len(rows)), np.ones(len(rows))
        return -counts @ brute(rows, a, b, expit(g), zero, one) + penalty(a, g)

    at = np.stack([m.components_[0], m.intercept_, np.log(m.asymptote_ / (1 - m.asymptote_))], 1).ravel()
    assert -m.objective_ == pytest.approx(loss(at), abs=1e-6)
    by_hand = -loss(at) + penalty(m.components_[0], at.reshape(4, 3)[:, 2])
    assert m.log_likelihood(X, sample_weight=weight) == pytest.approx(by_hand, abs=1e-6)
    errors = m.standard_errors(X, sample_weight=weight)
    expected = np.sqrt(np.diag(covariance_at_the_top(loss, at))).reshape(4, 3)
    found = np.stack([errors.components[0], errors.intercept, errors.asymptote_logit], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert errors.parameters[:3] == ("column 0 slope", "column 0 intercept", "column 0 logit of asymptote")
    assert m.n_parameters_ == 12


@pytest.mark.slow("fits of two groups")
def test_anchors():
    """A test of given items that is hard for these people, and reports in units of their trait."""
    slopes, intercepts = ITEMS.values()
    theta = -1.2 + 1.5 * np.random.default_rng(6).normal(size=N)
    X = answers(N, seed=6, traits=theta, **ITEMS)
    X[:, 2] = 0  # all are wrong, which shows that people are weak: it is no constant of the sum
    fixed = {j: {"slope": slopes[j], "intercept": intercepts[j]} for j in range(4)}
    m = ItemResponse(fixed=fixed, population="free", random_state=0).fit(X)
    assert m.n_parameters_ == 2
    assert np.array_equal(m.components_[0], slopes)
    assert np.array_equal(m.intercept_, intercepts)
    rows, counts = distinct(X)

    def loss(x):
        return -counts @ brute(rows, slopes, intercepts, 0.0, *np.tile([[x[0]], [np.exp(x[1])]], len(rows)))

    best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-6})
    assert [m.population_.mean[0], 0.5 * np.log(m.population_.variance[0])] == pytest.approx(best.x, abs=1e-4)
    assert m.population_.mean[0] < -0.5

    table = m.sum_scores(X)
    z = np.linspace(-8, 8, 4001)
    wrong = (1 - expit(z[:, None] * slopes + intercepts)).prod(1)
    posterior = np.exp(-0.5 * (z - m.population_.mean[0]) ** 2 / m.population_.variance[0]) * wrong
    mean = posterior @ z / posterior.sum()
    assert table.eap[0] == pytest.approx(mean, abs=1e-5)
    assert table.sd[0] == pytest.approx((posterior @ (z - mean) ** 2 / posterior.sum()) ** 0.5, abs=1e-5)
    assert np.isfinite(table.eap).all()
    np.testing.assert_allclose(m.person_fit(X).score, m.scores(X).value, atol=1e-6)


@pytest.mark.slow("two plans of parameters are compiled for")
def test_shared_and_idle_items():
    X = answers(N, seed=7, **ITEMS)
    both = ItemResponse(shared={"slope": [[0, 2]], "intercept": [[1, 3]]}, random_state=0).fit(X)
    assert both.components_[0, 0] == both.components_[0, 2]
    assert both.intercept_[1] == both.intercept_[3]
    assert both.components_[0, 0] != both.components_[0, 1]
    assert both.n_parameters_ == 6
    X[:, 3] = 1
    m = ItemResponse({0: "3PL", 3: "3PL"}, random_state=0).fit(X)
    alone = ItemResponse({0: "3PL"}, random_state=0).fit(X[:, :3])
    assert m.components_[0, 3] == 0
    assert m.n_parameters_ == alone.n_parameters_ == 7
    assert m.log_likelihood(X) == pytest.approx(alone.log_likelihood(X[:, :3]), abs=2e-3)


def test_given_items(tmp_path):
    m = ItemResponse.from_items([1.0, 1.5], [0.0, -1.0], [0.0, 0.25], mean=0.5, variance=2.0)
    rows = np.array([[1.0, 1.0], [0.0, np.nan], [np.nan, np.nan]])
    found = m.score_samples(rows)
    mean, sd = np.full(3, 0.5), np.full(3, np.sqrt(2.0))
    low = np.array([0.0, 0.25])
    assert np.allclose(found, brute(rows, np.array([1.0, 1.5]), np.array([0.0, -1.0]), low, mean, sd), atol=1e-8)
    assert m.transform(rows)[2, 0] == pytest.approx(0.5, abs=1e-6)
    p = m.inverse_transform([[0.0]])[0]
    assert p == pytest.approx([0.5, 0.25 + 0.75 * expit(-1.0)])
    information = (0.75 * 1.5 * expit(-1) * expit(1)) ** 2 / (p[1] * (1 - p[1]))
    assert m.item_information([[0.0]])[0, 1] == pytest.approx(information)
    m.save(tmp_path / "m.safetensors")
    again = latentbits.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.score_samples(rows), found)
    assert again.fixed == m.fixed
    assert again.population_.variance == m.population_.variance
    assert m.sample(5, random_state=0).shape == (5, 2)
    with pytest.raises(ValueError, match="none estimated"):
        m.standard_errors(rows)


def test_steep_items_are_resolved_though_they_are_hidden():
    """P(bit) by a dense rule; the nodes that learning begins with put it wrong by .001."""
    slopes, intercepts, asymptotes = np.array([24.0, 1.0, 100.0]), np.array([10.0, 0.3, -60.0]), np.array([0, 0, 0.2])
    m = ItemResponse.from_items(slopes, intercepts, asymptotes)
    z = np.linspace(-6, 6, 20_001)
    p = asymptotes + (1 - asymptotes) * expit(np.multiply.outer(z, slopes) + intercepts)
    prior = norm.pdf(z)[:, None]
    X = np.array([[np.nan] * 3, [np.nan, 1.0, np.nan]])
    shares = np.concatenate([prior, prior * p[:, 1:2]], 1)
    expected = (shares / shares.sum(0)).T @ p
    np.testing.assert_allclose(m.complete(X)[:, ::2], expected[:, ::2], atol=1e-5)


def test_groups_have_criteria_and_scores_and_no_reports_of_one_population(people, both):
    m, X, known = both, people.X, {"groups": people.g, "covariates": people.Z}
    report = m.fit_report(X, **known)
    assert report.n_parameters == 13
    assert np.isnan(report.m2)
    assert any("groups or covariates" in note for note in report.notes)
    mixed = (people.X == 0).any(1) & (people.X == 1).any(1)
    assert np.isfinite(m.scores(X, method="wle", **known).value[mixed]).all()
    for method in ("item_fit", "local_dependence", "person_fit", "reliability"):
        with pytest.raises(ValueError, match="one population"):
            getattr(m, method)(X)
    with pytest.raises(ValueError, match="one population"):
        fitted.item_pairs(m, X)
    assert list(fitted.figures_of(m, X)) == ["information"]


@pytest.mark.slow("a second fit with covariates")
def test_units_of_covariates_change_nothing(people, both):
    """Dates as 20250131 are learned from as well as other numbers, and reported in their units."""
    X, g, units = people.X, people.g, np.array([1e4, 300.0])
    m = ItemResponse({1: "3PL"}, weight_prior=1.0, random_state=0)
    dates = 2e7 + people.Z * units
    m.fit(X, groups=g, covariates=dates)
    assert m.converged_
    np.testing.assert_allclose(m.population_.coefficients * units, both.population_.coefficients, atol=1e-6)
    np.testing.assert_allclose(m.population_.mean, both.population_.mean, atol=1e-6)
    known, before = {"groups": g, "covariates": dates}, {"groups": g, "covariates": people.Z}
    np.testing.assert_allclose(m.score_samples(X, **known), both.score_samples(X, **before), atol=1e-6)
    shift = 2e7 * m.population_.coefficients.sum()
    np.testing.assert_allclose(m.intercept_ + m.components_[0] * shift, both.intercept_, atol=1e-5)
    np.testing.assert_allclose(m.transform(X, **known) - shift, both.transform(X, **before), atol=1e-5)
    found, plain = m.standard_errors(X, **known), both.standard_errors(X, **before)
    np.testing.assert_allclose(found.coefficients * units, plain.coefficients, rtol=1e-4)
    np.testing.assert_allclose(found.components, plain.components, rtol=1e-4)
    np.testing.assert_allclose(found.group_means, plain.group_means, rtol=1e-4)


def test_plausible_values_are_of_each_rows_group_and_covariates(people, both):
    """Mean and spread over draws are those of the posterior by dense integration."""
    m, X, known = both, people.X, {"groups": people.g, "covariates": people.Z}
    second, slopes, intercepts = people.second, m.components_[0], m.intercept_
    mean = np.where(second, m.population_.mean[1], 0.0) + people.Z.to_numpy() @ m.population_.coefficients
    sd = np.where(second, m.population_.variance[1] ** 0.5, 1.0)
    theta = mean[:, None] + sd[:, None] * NODES
    p = m.asymptote_ + (1 - m.asymptote_) * expit(theta[..., None] * slopes + intercepts)
    joint = np.where(np.isnan(X)[:, None], 1.0, np.where(X[:, None] > 0, p, 1 - p)).prod(-1) * WEIGHTS
    share = joint / joint.sum(1, keepdims=True)
    exact = (share * theta).sum(1)
    spread = np.sqrt((share * theta**2).sum(1) - exact**2)
    drawn = m.plausible_values(X, 40, random_state=0, **known).draws[..., 0]
    away = (drawn.mean(0) - exact) / spread * np.sqrt(40)
    assert abs(away.mean()) < 4 / np.sqrt(N)
    assert 0.85 < away.std() < 1.15
    assert np.mean(drawn.var(0, ddof=1) / spread**2) == pytest.approx(1, abs=0.05)


@pytest.mark.slow("standard errors of groups with covariates")
def test_plausible_values_of_drawn_parameters_are_less_sure(people, both):
    """Parameters are as far from the estimates as their errors say, and so are means of draws."""
    m, X, second, known = both, people.X, people.second, {"groups": people.g, "covariates": people.Z}
    drawn = m.plausible_values(X, 40, random_state=0, **known).draws[..., 0]
    errors = m.standard_errors(X, **known)
    near = [_params_near(m, errors.covariance, np.random.default_rng(i)) for i in range(100)]
    for name, expected in (("mean", errors.group_means), ("coefficients", errors.coefficients)):
        found = np.std([getattr(one, name) for one in near], axis=0)
        np.testing.assert_allclose(found, np.nan_to_num(expected), rtol=0.35)
    unsure = m.plausible_values(X, 40, random_state=0, errors=errors, **known).draws[:, second, 0]
    assert unsure.mean(1).std() > 1.5 * drawn[:, second].mean(1).std()
    with pytest.raises(ValueError, match="13 parameters"):
        m.plausible_values(X, errors=replace(errors, covariance=np.eye(3)), **known)


def rubin(draws, second):
    """Give the difference of two groups' means with its error, of all draws together."""
    first, second = draws[:, ~second], draws[:, second]
    gap = second.mean(1) - first.mean(1)
    within = sum(part.var(1, ddof=1).mean() / part.shape[1] for part in (first, second))
    return gap.mean(), np.sqrt(within + (1 + 1 / len(gap)) * gap.var(ddof=1))


@pytest.mark.slow("40 tables of two groups are fitted")
def test_plausible_values_give_a_difference_of_groups_with_its_error():
    """True is .6; with parameters held the errors are a sixth too small, and without groups the difference is."""
    second, found, bare = np.arange(400) % 2 == 1, [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = answers(400, 8, seed=seed, traits=rng.normal(size=400) + 0.6 * second)
        m = ItemResponse(random_state=0).fit(X, groups=second)
        errors = m.standard_errors(X, groups=second)
        drawn = m.plausible_values(X, 10, random_state=seed, errors=errors, groups=second)
        found.append(rubin(drawn.draws[..., 0], second))
        if seed < 5:
            bare.append(
                rubin(ItemResponse().fit(X).plausible_values(X, 10, random_state=seed).draws[..., 0], second)[0]
            )
    gap, error = np.transpose(found)
    away = (gap - 0.6) / error
    assert abs(gap.mean() - 0.6) < 3 * gap.std() / np.sqrt(40)
    assert 0.75 < away.std() < 1.25
    assert np.mean(np.abs(away) < 1.96) > 0.85
    assert np.mean(bare) < 0.85 * gap[:5].mean()


# ---------------------------------------------------------------- people


def test_covariates_in_another_order_are_refused(people, both):
    X, g, Z, m = people.X, people.g, people.Z, both
    turned = Z[["inc", "age"]]
    for use in (m.transform, m.score_samples):
        with pytest.raises(DataError, match="must be age, inc, in this order, as in fit"):
            use(X, groups=g, covariates=turned)
    with pytest.raises(DataError, match="in this order"):
        m.sample(N, random_state=0, groups=g, covariates=turned)
    same = m.transform(X, groups=g, covariates=Z)
    unnamed = m.transform(X, groups=g, covariates=Z.to_numpy())
    np.testing.assert_array_equal(unnamed, same)  # no names, no order


@pytest.mark.slow("covariates alone are compiled for")
def test_names_of_an_array_bind_no_frame(people):
    X, Z = people.X, people.Z
    m = ItemResponse(random_state=0).fit(X, covariates=Z.to_numpy())
    np.testing.assert_array_equal(m.transform(X, covariates=Z), m.transform(X, covariates=Z.to_numpy()))
    with pytest.raises(DataError, match="z0, z1"):  # they are not a coincidence
        m.transform(X, covariates=Z.set_axis(["z1", "z0"], axis=1))


@pytest.mark.parametrize("model", [ItemResponse(), BernoulliMixture(2)])
def test_covariates_that_are_none_are_named(people, model):
    X, Z = people.X, people.Z
    with pytest.raises(DataError, match=r"column 'place' has 'a': categories need .*pandas.get_dummies"):
        model.fit(X, covariates=Z.assign(place=["a", "b"] * (N // 2)))
    with pytest.raises(DataError, match="column 0 has 'a'"):
        model.fit(X, covariates=["a", "b"] * (N // 2))
    with pytest.raises(DataError, match="row 3 of column 'inc' is NaN"):
        model.fit(X, covariates=Z.assign(inc=Z["inc"].where(np.arange(N) != 3)))


def test_rows_without_weight_tell_nothing_of_groups_and_covariates():
    X, g, z = np.tile([[1, 0], [0, 1]], (10, 1)), np.array(["a", "b"] * 10), np.arange(20.0)
    weight = np.where(g == "a", 1.0, 0.0)
    with pytest.raises(DataError, match="no row of groups b has a weight above 0"):
        labels_of(Beside(X, g), weight)
    with pytest.raises(DataError, match="constant"):
        labels_of(Beside(X, None, np.where(g == "a", 3.1, z)), weight)
    assert labels_of(Beside(X, None, np.where(g == "a", z, 3.1)), weight).covariates == ("z0",)


def test_groups_that_are_none_are_refused(people):
    X = people.X
    with pytest.raises(DataError, match=r"240 different labels for 240 people, 1\.0 in each.*goes into covariates"):
        ItemResponse().fit(X, groups=people.Z["age"])
    with pytest.raises(DataError, match="60 different labels for 480 people"):  # enough for a few groups, not for many
        ItemResponse().fit(np.tile(X, (2, 1)), groups=np.arange(480) % 60)
    with pytest.raises(DataError, match="1001 different labels"):
        ItemResponse().fit(np.ones((20020, 2)), groups=np.arange(20020) % 1001)
    with pytest.raises(DataError, match="row 2"):
        ItemResponse().fit(X, groups=pandas.Series(["a", "b", None] * (N // 3), dtype="string"))
    with pytest.raises(DataError, match="constant"):
        ItemResponse().fit(X, covariates=np.ones((N, 1)))
    few = Beside(X[:8], ["a", "b"] * 4)
    with pytest.raises(DataError, match="2 different labels for 8 people"):
        ItemResponse().fit(few.X, groups=few.groups)
    assert labels_of(few, np.full(8, 5.0)).groups == ("a", "b")  # 40 people in 8 patterns
    with pytest.raises(DataError, match="for 8 people"):
        labels_of(few, np.full(8, 0.1))


def of_categories(g):
    return pandas.Categorical(g, categories=["x", "second", "first"])  # no row is x


@pytest.mark.slow("groups alone are compiled for")
def test_first_category_is_the_reference(people, grouped, tmp_path):
    X, g = people.X, people.g
    first = ItemResponse(random_state=0).fit(X, groups=of_categories(g))
    assert first.population_.groups == ("second", "first")
    assert (first.population_.mean[0], first.population_.variance[0]) == (0.0, 1.0)
    np.testing.assert_array_equal(first.transform(X, groups=g), first.transform(X, groups=pandas.Categorical(g)))
    assert first.objective_ == pytest.approx(grouped.objective_, abs=1e-6)
    first.save(tmp_path / "m.safetensors")
    assert latentbits.load(tmp_path / "m.safetensors").population_.groups == ("second", "first")


def test_order_of_categories(people):
    for labels in (of_categories(people.g), pandas.Series(of_categories(people.g))):
        assert labels_of(Beside(people.X, labels), None).groups == ("second", "first")


def test_order_of_a_polars_enum(people):
    polars = pytest.importorskip("polars")
    of = lambda kind: labels_of(Beside(people.X, polars.Series(people.g, dtype=kind)), None).groups  # noqa: E731
    assert of(polars.Enum(["x", "second", "first"])) == ("second", "first")
    assert of(polars.Categorical()) == of(polars.String()) == ("first", "second")


def test_a_file_holds_people_and_the_call_that_works_is_shown(people, both, tmp_path):
    X, g, Z = people.X, people.g, people.Z
    with pytest.raises(ValueError, match="pass groups=g, covariates=Z"):
        both.scores(X, groups=g)
    with pytest.raises(ValueError, match=r"sample\(n, groups=g, covariates=Z\)"):
        both.sample(N, groups=g)
    with pytest.raises(DataError, match="third"):
        both.transform(X[:1], groups=["third"], covariates=Z[:1])
    both.save(tmp_path / "m.safetensors")
    again, known = latentbits.load(tmp_path / "m.safetensors"), {"groups": g, "covariates": Z}
    assert np.array_equal(again.transform(X, **known), both.transform(X, **known))
    assert again.population_.groups == both.population_.groups
    assert np.array_equal(again.population_.coefficients, both.population_.coefficients)
    assert np.array_equal(again.asymptote_, both.asymptote_)


@pytest.mark.slow("groups alone are compiled for")
def test_the_call_that_works_with_groups_is_shown(people, grouped):
    with pytest.raises(ValueError, match="pass groups=g"):
        grouped.scores(people.X)
    with pytest.raises(ValueError, match=r"sample\(n, groups=g\)"):
        grouped.sample(3)
    assert grouped.scores(people.X, method="map", groups=people.g).value.shape == (N, 1)


@pytest.mark.slow("groups alone and covariates alone are compiled for")
def test_people_who_run_away_are_warned_of(people):
    """Sums of answers move the trait without end; people whose sums are all alike have no variance."""
    X, Z = np.nan_to_num(people.X), people.Z
    X[0, 0] = np.nan
    total = np.nansum(X, 1)
    m = ItemResponse(max_iter=50, random_state=0)
    with pytest.warns(UserWarning, match="run away|max_iter") as said:
        m.fit(X, covariates=Z.assign(inc=total))
    (warning,) = [str(one.message) for one in said if "run away" in str(one.message)]
    assert "one standard deviation of inc moves the trait" in warning
    assert "of age" not in warning
    with pytest.warns(UserWarning, match="run away|max_iter") as said:
        m.fit(X, groups=np.where(total > 3, "high", np.where(total == 2, "same", "average")))
    (warning,) = [str(one.message) for one in said if "run away" in str(one.message)]
    assert "the mean of high is" in warning
    assert "standard deviations from that of average, the variance of same is" in warning
    m.set_params(max_iter=1000).fit(X, covariates=Z / [50.0, 1.0])  # units do not warn: a warning is an error here
    assert abs(m.population_.coefficients[0]) > 10


@pytest.mark.parametrize(("points", "groups"), [(2, 1), (2, 3), (5, 3)])
def test_squares_by_group(points, groups):
    rng = np.random.default_rng(0)
    group, share = rng.integers(0, groups, 40), rng.random((40, points))
    scores = rng.normal(size=(40, points, 10))  # wide for 2 points, not for 5
    squares = partial(item_learning._squares, groups=groups)
    with double():
        found = jax.jit(squares)(group, share, scores)
        program = str(jax.make_jaxpr(squares)(group, share, scores))
    assert ("scan" in program) == (points == 2 and groups > 1)  # a loop over groups, which many make slow
    expected = [np.einsum("nk,nkl,nkm->lm", share[group == g], scores[group == g], scores[group == g])
                for g in range(groups)]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"population": "variance"}, "model='Rasch'"),
        ({"fixed": {9: {"slope": 1.0}}}, "no column"),
        ({"fixed": {0: {"slop": 1.0}}}, "parameters are"),
        ({"model": "3PL", "n_nodes": 20}, "n_nodes"),
        ({"model": "3PL", "n_factors": 2}, "n_factors"),
        ({"model": {0: "Rasch"}}, "'2PL' or '3PL' for each column"),
        ({"model": "3PL", "asymptote_prior": (0.0, -1.0)}, "above 0"),
        ({"shared": {"slope": [[0, 1], [1, 2]]}}, "twice"),
        ({"fixed": {j: {"slope": 1.0, "intercept": 0.0} for j in range(3)}}, "from_items"),
    ],
)
def test_refused(options, said):
    X = np.eye(3)[[0, 1, 2, 0]]
    with pytest.raises(ValueError, match=said):
        ItemResponse(**options).fit(X)


# ---------------------------------------------------------------- reference numbers, made with mirt 1.45.1


@pytest.mark.slow("three plans of parameters are compiled for")
def test_3pl_of_lsat7():
    X = load_dataset("lsat7").X
    m = ItemResponse("3PL", random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(-2659.42689, abs=1e-4)
    assert m.components_[0] == pytest.approx([1.1161, 1.6477, 2.2153, 0.91272, 0.83048], abs=2e-4)
    assert m.intercept_ == pytest.approx([1.5187, 0.23003, 1.4996, 0.0082496, 1.5182], abs=2e-4)
    assert m.asymptote_ == pytest.approx([0.24055, 0.25773, 0.23242, 0.21085, 0.24631], abs=5e-5)
    errors = m.standard_errors(X)
    assert errors.components[0] == pytest.approx([0.2282, 0.5305, 0.6371, 0.2055, 0.1828], rel=2e-3)
    assert errors.intercept == pytest.approx([0.2107, 0.3211, 0.3043, 0.2328, 0.199], rel=2e-3)
    assert errors.asymptote_logit == pytest.approx([0.4872, 0.4625, 0.4672, 0.4385, 0.4949], rel=2e-3)
    one = ItemResponse({4: "3PL"}, asymptote_prior=(-1.5, 3.0), random_state=0).fit(X)
    assert one.log_likelihood(X) == pytest.approx(-2658.79084, abs=1e-4)
    assert one.asymptote_[4] == pytest.approx(0.19898, abs=2e-4)
    with pytest.warns(UserWarning, match="no prior|gone to 0"):
        flat = ItemResponse("3PL", asymptote_prior=None, random_state=0).fit(X)
    assert flat.converged_
    assert flat.log_likelihood(X) == pytest.approx(-2658.05435, abs=2e-4)
    assert flat.asymptote_[1] == pytest.approx(0.2979, abs=1e-3)
    gone = flat.asymptote_ < 1e-3
    assert gone.any()
    np.testing.assert_array_equal(np.isnan(flat.standard_errors(X).asymptote), gone)
