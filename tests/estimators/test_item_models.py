"""Item models of `LatentTrait`: guessing, free variance, anchors, groups, covariates, and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from scipy.stats import norm

import latentbits
from latentbits import LatentTrait, load_dataset
from latentbits.core.errors import DataError

X_NODES = np.linspace(-6, 6, 121)
WEIGHTS = norm.pdf(X_NODES) / norm.pdf(X_NODES).sum()


def answers(n, slopes, intercepts, theta, low=0.0, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    p = low + (1 - low) * expit(np.outer(theta, slopes) + intercepts)
    X = (rng.random((n, len(slopes))) < p).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def brute(X, slopes, intercepts, low, mean, sd):
    """log p of each row, by SciPy; mean and sd of each row's trait."""
    theta = mean[:, None] + sd[:, None] * X_NODES
    p = low + (1 - low) * expit(theta[..., None] * slopes + intercepts)
    seen = ~np.isnan(X)
    p = np.clip(p, 1e-300, 1 - 1e-16)  # a line search may go far
    terms = np.where(seen[:, None], np.where(X[:, None] > 0, np.log(p), np.log1p(-p)), 0.0)
    return logsumexp(terms.sum(-1) + np.log(WEIGHTS), axis=1)


def hessian(f, x, h=1e-3):
    n = len(x)
    e = h * np.eye(n)
    return np.array([
        [(f(x + e[i] + e[j]) - f(x + e[i] - e[j]) - f(x - e[i] + e[j]) + f(x - e[i] - e[j])) / (4 * h * h)
         for j in range(n)] for i in range(n)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(3)
    g = np.repeat([0, 1], 150)
    theta = np.where(g == 1, 0.5 + 1.2 * rng.standard_normal(300), rng.standard_normal(300))
    X = answers(300, [1.0, 1.5, 0.8, 1.2], [0.5, -0.5, 0.0, 1.0], theta, missing=0.1)
    return X, np.where(g == 1, "second", "first")


def test_guessing_is_a_maximum():
    rng = np.random.default_rng(0)
    X = answers(200, [1.0, 1.5, 0.8, 1.2], [0.5, -0.5, 0.0, 1.0], rng.standard_normal(200), low=0.2, missing=0.1)
    weight = rng.integers(1, 3, 200).astype(float)
    m = LatentTrait(1, asymptote=True, weight_prior=1.0, random_state=0).fit(X, sample_weight=weight)
    d = 4
    penalty = lambda a, g: 0.5 * np.sum(a**2) + np.sum((g + 1.1) ** 2) / (2 * 0.5**2)  # noqa: E731

    def loss(x):
        a, b, g = x.reshape(d, 3).T
        zero, one = np.zeros(len(X)), np.ones(len(X))
        return -weight @ brute(X, a, b, expit(g), zero, one) + penalty(a, g)

    at = np.stack([m.components_[0], m.intercept_, np.log(m.asymptote_ / (1 - m.asymptote_))], 1).ravel()
    best = minimize(loss, at, method="BFGS", options={"gtol": 1e-6})
    assert m.converged_
    assert -m.objective_ == pytest.approx(loss(at), abs=1e-6)
    assert loss(at) <= best.fun + 1e-7  # 1e-10 a row is what a fit may leave
    assert np.allclose(at, best.x, rtol=0, atol=1e-3)
    told = -loss(at) + penalty(m.components_[0], at.reshape(d, 3)[:, 2])
    assert m.log_likelihood(X, sample_weight=weight) == pytest.approx(told, abs=1e-6)
    errors = m.standard_errors(X, sample_weight=weight)
    expected = np.sqrt(np.diag(np.linalg.inv(hessian(loss, at)))).reshape(d, 3)
    assert np.allclose(errors.components[0], expected[:, 0], rtol=1e-3)
    assert np.allclose(errors.intercept, expected[:, 1], rtol=1e-3)
    assert np.allclose(errors.asymptote_logit, expected[:, 2], rtol=1e-3)
    assert errors.parameters[:3] == ("column 0 slope", "column 0 intercept", "column 0 logit of asymptote")
    assert m.n_parameters_ == 12


@pytest.mark.slow
def test_free_variance_is_the_common_slope():
    rng = np.random.default_rng(1)
    X = answers(200, [1.3] * 4, [0.5, -0.5, 0.0, 1.0], rng.standard_normal(200), seed=1)
    free = LatentTrait(1, equal_discrimination=True, population="variance", random_state=0).fit(X)
    common = LatentTrait(1, equal_discrimination=True, random_state=0).fit(X)
    assert free.log_likelihood(X) == pytest.approx(common.log_likelihood(X), abs=1e-4)
    assert np.sqrt(free.trait_variance_) == pytest.approx(common.components_[0, 0], rel=1e-2)
    assert np.array_equal(free.components_, np.ones((1, 4)))
    assert free.n_parameters_ == common.n_parameters_ == 5
    errors = free.standard_errors(X)
    assert errors.group_variances[0] > 0
    assert np.isnan(errors.components).all()


@pytest.mark.slow
def test_asymptotes_without_prior_warn():
    rng = np.random.default_rng(5)
    X = answers(200, [1.0, 1.5, 0.8, 1.2], [0.5, -0.5, 0.0, 1.0], rng.standard_normal(200), seed=5)
    with pytest.warns(UserWarning, match="no prior|gone to 0") as said:
        m = LatentTrait(1, asymptote=[0], asymptote_prior=None, random_state=0).fit(X)
    assert any("no prior" in str(one.message) for one in said)
    if m.asymptote_[0] < 1e-3:
        assert np.isnan(m.standard_errors(X).asymptote[0])
    assert np.array_equal(m.asymptote_[1:], np.zeros(3))


def test_groups(grouped):
    X, g = grouped
    m = LatentTrait(1, random_state=0).fit(X, groups=g)
    second = g == "second"

    def loss(x):
        a, b = x[:8].reshape(4, 2).T
        return -brute(X, a, b, 0.0, np.where(second, x[8], 0.0), np.where(second, np.exp(x[9]), 1.0)).sum()

    at = np.append(np.stack([m.components_[0], m.intercept_], 1).ravel(),
                   [m.group_means_[1], 0.5 * np.log(m.group_variances_[1])])  # fmt: skip
    assert m.converged_
    assert m.groups_.tolist() == ["first", "second"]
    assert -m.objective_ == pytest.approx(loss(at), abs=1e-6)
    assert loss(at) <= minimize(loss, at, method="BFGS", options={"gtol": 1e-6}).fun + 1e-7
    covariance = np.linalg.inv(hessian(loss, at))
    people = m.people(X, groups=g)
    errors = m.standard_errors(people)
    assert errors.group_means[1] == pytest.approx(np.sqrt(covariance[8, 8]), rel=1e-3)
    assert errors.group_variances[1] == pytest.approx(2 * m.group_variances_[1] * np.sqrt(covariance[9, 9]), rel=1e-3)
    assert np.isnan(errors.group_means[0])
    assert m.log_likelihood(people) == pytest.approx(-loss(at), abs=1e-6)
    assert m.score_samples(people).shape == (300,)
    assert m.complete(people).shape == X.shape
    assert not np.isnan(m.complete(people)).any()
    assert m.scores(people, method="map").value.shape == (300, 1)
    assert m.criteria(people).n_rows == int((~np.isnan(X)).any(1).sum())
    drawn = m.sample(4, random_state=0, groups=["first", "second", "second", "first"])
    assert drawn.shape == (4, 4)
    assert drawn.dtype == np.uint8
    with pytest.raises(ValueError, match="with groups"):
        m.transform(X)
    with pytest.raises(ValueError, match="groups"):
        m.sample(3)
    with pytest.raises(DataError, match="third"):
        m.transform(m.people(X[:1], groups=["third"]))


@pytest.mark.slow
def test_covariates():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(300, 2))
    theta = Z @ [0.7, -0.3] + rng.standard_normal(300)
    X = answers(300, [1.0, 1.5, 0.8, 1.2], [0.5, -0.5, 0.0, 1.0], theta, seed=4, missing=0.1)
    m = LatentTrait(1, random_state=0).fit(X, covariates=Z)

    def loss(x):
        a, b = x[:8].reshape(4, 2).T
        return -brute(X, a, b, 0.0, Z @ x[8:], np.ones(300)).sum()

    at = np.append(np.stack([m.components_[0], m.intercept_], 1).ravel(), m.coefficients_)
    assert -m.objective_ == pytest.approx(loss(at), abs=1e-6)
    assert loss(at) <= minimize(loss, at, method="BFGS", options={"gtol": 1e-6}).fun + 1e-7
    errors = m.standard_errors(m.people(X, covariates=Z)).coefficients
    assert np.allclose(errors, np.sqrt(np.diag(np.linalg.inv(hessian(loss, at))))[8:], rtol=1e-3)
    with pytest.raises(DataError, match="constant"):
        LatentTrait(1).fit(X, covariates=np.ones((300, 1)))


@pytest.mark.slow
def test_anchors_and_shared():
    rng = np.random.default_rng(6)
    theta = 0.8 + 1.5 * rng.standard_normal(400)
    slopes, intercepts = np.array([1.0, 1.5, 0.8, 1.2]), np.array([0.5, -0.5, 0.0, 1.0])
    X = answers(400, slopes, intercepts, theta, seed=6)
    anchors = {j: {"slope": slopes[j], "intercept": intercepts[j]} for j in range(4)}
    m = LatentTrait(1, fixed=anchors, population="free", random_state=0).fit(X)
    assert m.n_parameters_ == 2
    assert np.array_equal(m.components_[0], slopes)
    assert np.array_equal(m.intercept_, intercepts)

    def loss(x):
        return -brute(X, slopes, intercepts, 0.0, np.full(400, x[0]), np.full(400, np.exp(x[1]))).sum()

    best = minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-6})
    assert [m.trait_mean_, 0.5 * np.log(m.trait_variance_)] == pytest.approx(best.x, abs=1e-4)
    both = LatentTrait(1, shared={"slope": [[0, 2]], "intercept": [[1, 3]]}, random_state=0).fit(X)
    assert both.components_[0, 0] == both.components_[0, 2]
    assert both.intercept_[1] == both.intercept_[3]
    assert both.components_[0, 0] != both.components_[0, 1]
    assert both.n_parameters_ == 6


def test_given_items(tmp_path):
    m = LatentTrait.from_items([1.0, 1.5], [0.0, -1.0], [0.0, 0.25], mean=0.5, variance=2.0)
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
    assert again.trait_variance_ == m.trait_variance_
    assert m.sample(5, random_state=0).shape == (5, 2)


def test_save_and_load(grouped, tmp_path):
    X, g = grouped
    m = LatentTrait(1, asymptote=[1], random_state=0).fit(X, groups=g, covariates=np.arange(300.0)[:, None] % 7)
    m.save(tmp_path / "m.safetensors")
    again = latentbits.load(tmp_path / "m.safetensors")
    people = m.people(X, groups=g, covariates=np.arange(300.0)[:, None] % 7)
    assert np.array_equal(again.transform(people), m.transform(people))
    assert again.groups_.tolist() == m.groups_.tolist()
    assert np.array_equal(again.coefficients_, m.coefficients_)
    assert np.array_equal(again.asymptote_, m.asymptote_)


@pytest.mark.slow
def test_idle_items():
    rng = np.random.default_rng(7)
    X = answers(200, [1.0, 1.5, 0.8], [0.5, -0.5, 0.0], rng.standard_normal(200), seed=7)
    with_idle = np.column_stack([X, np.ones(200)])
    m = LatentTrait(1, asymptote=[0, 3], random_state=0).fit(with_idle)
    alone = LatentTrait(1, asymptote=[0], random_state=0).fit(X)
    assert m.components_[0, 3] == 0
    assert m.n_parameters_ == alone.n_parameters_ == 7
    assert m.log_likelihood(with_idle) == pytest.approx(alone.log_likelihood(X), abs=2e-3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"population": "variance"}, "equal_discrimination"),
        ({"fixed": {9: {"slope": 1.0}}}, "no column"),
        ({"fixed": {0: {"slop": 1.0}}}, "parameters are"),
        ({"asymptote": True, "n_nodes": 20}, "n_nodes"),
        ({"asymptote": True, "n_components": 2}, "n_components"),
        ({"asymptote": True, "asymptote_prior": (0.0, -1.0)}, "above 0"),
        ({"shared": {"slope": [[0, 1], [1, 2]]}}, "twice"),
        ({"fixed": {j: {"slope": 1.0, "intercept": 0.0} for j in range(3)}}, "from_items"),
    ],
)
def test_refused(options, said):
    X = np.eye(3)[[0, 1, 2, 0]]
    with pytest.raises(ValueError, match=said):
        LatentTrait(**{"n_components": 1, **options}).fit(X)


# ---------------------------------------------------------------- reference numbers, made with mirt 1.45.1


@pytest.mark.real_data
def test_rasch_of_lsat7(real_data):
    X = load_dataset("lsat7").X
    m = LatentTrait(1, equal_discrimination=True, population="variance", random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(-2664.900891, abs=1e-4)
    assert m.trait_variance_ == pytest.approx(1.02265, abs=1e-4)
    assert m.intercept_ == pytest.approx([1.8683, 0.791, 1.461, 0.5215, 1.993], abs=1e-4)
    errors = m.standard_errors(X)
    assert errors.group_variances[0] == pytest.approx(0.1313, rel=2e-3)
    assert errors.intercept == pytest.approx([0.1004, 0.08116, 0.09131, 0.07872, 0.1037], rel=2e-3)


@pytest.mark.real_data
def test_3pl_of_lsat7(real_data):
    X = load_dataset("lsat7").X
    m = LatentTrait(1, asymptote=True, random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(-2659.42689, abs=1e-4)
    assert m.components_[0] == pytest.approx([1.1161, 1.6477, 2.2153, 0.91272, 0.83048], abs=2e-4)
    assert m.intercept_ == pytest.approx([1.5187, 0.23003, 1.4996, 0.0082496, 1.5182], abs=2e-4)
    assert m.asymptote_ == pytest.approx([0.24055, 0.25773, 0.23242, 0.21085, 0.24631], abs=5e-5)
    errors = m.standard_errors(X)
    assert errors.components[0] == pytest.approx([0.2282, 0.5305, 0.6371, 0.2055, 0.1828], rel=2e-3)
    assert errors.intercept == pytest.approx([0.2107, 0.3211, 0.3043, 0.2328, 0.199], rel=2e-3)
    assert errors.asymptote_logit == pytest.approx([0.4872, 0.4625, 0.4672, 0.4385, 0.4949], rel=2e-3)
    one = LatentTrait(1, asymptote=[4], asymptote_prior=(-1.5, 3.0), random_state=0).fit(X)
    assert one.log_likelihood(X) == pytest.approx(-2658.79084, abs=1e-4)
    assert one.asymptote_[4] == pytest.approx(0.19898, abs=2e-4)
    with pytest.warns(UserWarning, match="no prior|gone to 0"):
        flat = LatentTrait(1, asymptote=True, asymptote_prior=None, random_state=0).fit(X)
    assert flat.converged_
    assert flat.log_likelihood(X) == pytest.approx(-2658.05435, abs=2e-4)
    assert flat.asymptote_[1] == pytest.approx(0.2979, abs=1e-3)


@pytest.mark.real_data
def test_3pl_of_ability16(real_data):
    X = load_dataset("ability16").X
    m = LatentTrait(1, asymptote=True, random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(-12547.74884, abs=1e-3)
    assert m.components_[0, [0, 5, 11, 12]] == pytest.approx([2.2533, 1.49, 1.3754, 5.4898], abs=1e-3)
    assert m.asymptote_[[0, 5, 11, 12]] == pytest.approx([0.19532, 0.13438, 0.18428, 0.063659], abs=1e-4)
    errors = m.standard_errors(X)
    slopes = [0.2634, 0.1687, 0.1877, 0.1249, 0.1501, 0.1399, 0.1408, 0.169, 0.118, 0.1331, 0.1607, 0.2296, 0.8947,
              0.9722, 0.5391, 0.6111]  # fmt: skip
    assert errors.components[0] == pytest.approx(slopes, rel=5e-3)
    logits = [0.2863, 0.3878, 0.3538, 0.3449, 0.3246, 0.3257, 0.3228, 0.2732, 0.3349, 0.3278, 0.3446, 0.2206, 0.145,
              0.1547, 0.1559, 0.1443]  # fmt: skip
    assert errors.asymptote_logit == pytest.approx(logits, rel=5e-3)
