"""Latent traits and items as a user meets them: published fits, standard errors, rotations, and awkward tables."""

from __future__ import annotations

import warnings
from copy import copy, deepcopy

import numpy as np
import pandas as pd
import pytest
from made import set_to
from tests.tables import answers

from latentbits import ItemResponse, LatentTrait, load, load_dataset
from latentbits.estimators import psychometrics
from latentbits.models.latent_trait import equations
from latentbits.models.latent_trait.column_kinds import Params


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


# Tables of 240 x 6 for one latent and of 500 x 8 for two wherever size does not matter: compiled code is shared.


@pytest.fixture(scope="module")
def answered():
    """Answers to six items, and the fit of one trait to them."""
    X = answers()
    return X, ItemResponse(random_state=0).fit(X)


@pytest.fixture(scope="module")
def plane():
    """A fit of two traits, each with other columns, as exact as it can be."""
    X = answers(500, 8, 2, scale=2.0, seed=4)
    return X, ItemResponse(n_factors=2, random_state=0, dtype="float64", tol=1e-10).fit(X)


# ---------------------------------------------------------------- published fits

# log-likelihood, slopes and their errors, intercepts; of one slope for all, the slope and its error
PUBLISHED = {
    "lsat6": (-2466.653, [0.8254, 0.7229, 0.8905, 0.6886, 0.6575], [0.2581, 0.1867, 0.2326, 0.1852, 0.2100],
              [2.7730, 0.9902, 0.2492, 1.2848, 2.0536]),
    "lsat7": (-2658.805, [0.9877, 1.0808, 1.7067, 0.7650, 0.7357], None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_slope_for_each_item(lsat, name):
    value, slopes, errors, intercepts = PUBLISHED[name]
    m, X = lsat(name)
    assert m.converged_
    assert abs(m.log_likelihood(X) - value) < 0.01
    np.testing.assert_allclose(m.components_[0], slopes, atol=0.005)
    np.testing.assert_allclose(m.difficulty_, -m.intercept_ / m.components_[0])
    assert m.n_parameters_ == 10
    np.testing.assert_allclose(m.aic(X), 2 * 10 - 2 * value, atol=0.02)
    np.testing.assert_allclose(m.bic(X), 10 * np.log(1000) - 2 * value, atol=0.02)
    if errors is not None:
        np.testing.assert_allclose(m.intercept_, intercepts, atol=0.005)
        found = m.standard_errors(X)
        np.testing.assert_allclose(found.components[0], errors, atol=0.01)
        np.testing.assert_array_equal(found.discrimination, found.components[0])


@pytest.mark.parametrize(
    ("name", "value", "slope", "error"), [("lsat6", -2466.938, 0.7551, 0.0694), ("lsat7", -2664.901, None, None)]
)
def test_one_slope_for_all_items(lsat, name, value, slope, error):
    m, X = lsat(name, model="1PL")
    assert abs(m.log_likelihood(X) - value) < 0.01
    assert m.n_parameters_ == 6
    if slope is not None:
        np.testing.assert_allclose(m.components_, slope, atol=0.005)
        np.testing.assert_allclose(m.standard_errors(X).components, error, atol=0.001)


@pytest.mark.real_data
def test_ability16_with_missing_answers(real_data, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    X = load_dataset("ability16").X
    m = LatentTrait(1, random_state=0).fit(X)
    assert abs(m.log_likelihood(X) - -12612.7) < 0.2
    two = LatentTrait(2, random_state=0).fit(X)
    assert abs(two.log_likelihood(X) - -12453.27) < 0.05  # the same from every start, plain and accelerated


@pytest.mark.real_data
@pytest.mark.optimised
def test_usps_twos(real_data, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    X = load_dataset("usps_twos").X
    with pytest.warns(UserWarning, match="run to infinity"):  # pixels that are set in a few rows only
        m = LatentTrait(2, random_state=0).fit(X)
    assert 104.5 < -m.score(X) < 105.6  # independent bits: 120.83


# ---------------------------------------------------------------- recovery, errors, scores


@pytest.mark.slow("coverage of intervals over 25 tables")
@pytest.mark.optimised
def test_standard_errors_cover_the_truth():
    """Over 25 simulated tables 95 % of the intervals of 1.96 errors hold the truth: 0.90 is 4 standard errors away."""
    inside = []
    for seed in range(25):
        rng = np.random.default_rng(1000 + seed)
        w, b = np.linspace(0.7, 1.6, 6), np.linspace(-1, 1, 6)
        X = (rng.random((500, 6)) < sigmoid(rng.normal(size=(500, 1)) * w + b)).astype(float)
        m = ItemResponse(random_state=0).fit(X)
        errors = m.standard_errors(X)
        inside += [np.abs(m.components_[0] - w) < 1.96 * errors.components[0]]
        inside += [np.abs(m.intercept_ - b) < 1.96 * errors.intercept]
    assert 0.90 < np.mean(inside) < 0.99


@pytest.mark.slow("two traits in float64 are compiled for")
def test_standard_errors_in_two_dimensions_are_those_of_the_curvature(plane):
    """The covariance is the inverse of minus the Hessian on the tangent space of the canonical rotation."""
    X, m = plane
    # along the covariance's own directions a step of one standard deviation costs half a nat
    values, vectors = np.linalg.eigh(m.standard_errors(X).covariance)
    assert np.sum(values > 1e-10) == 8 * 3 - 1
    for place in (-3, -8):
        step = 0.3 * np.sqrt(values[place]) * vectors[:, place].reshape(8, 3)
        drop = [_moved(m, sign * step).log_likelihood(X) - m.log_likelihood(X) for sign in (1, -1)]
        np.testing.assert_allclose(np.mean(drop), -0.5 * 0.09, rtol=0.05)


def _moved(m, step):
    other = copy(m)
    other.params_ = m.params_.replace(weights=m.params_.weights + step[:, :-1], bias=m.params_.bias + step[:, -1])
    return other


@pytest.mark.slow("two traits in float64 are compiled for")
def test_the_bound_is_named_and_is_one(plane):
    X, best = plane
    none = np.zeros(0)
    m = set_to(LatentTrait(2, dtype="float64"), Params, best.params_.weights, best.params_.bias, none, none, none, d=8)
    found = m.variational(X)
    assert np.all(found.bound <= m.score_samples(X) + 1e-4)
    assert found.mean.shape == (500, 2)
    assert found.covariance.shape == (500, 2, 2)
    v = LatentTrait(2, method="variational", random_state=0, dtype="float64").fit(X)
    np.testing.assert_allclose(v.variational(X).bound.sum(), v.history_.max(), rtol=1e-4)
    assert v.log_likelihood(X) < m.log_likelihood(X) + 0.01


@pytest.mark.slow("two traits in float64 are compiled for")
def test_the_rotation_is_canonical_and_rotations_change_no_probability(plane):
    X, m = plane
    gram = m.components_ @ m.components_.T
    assert abs(gram[0, 1]) < 1e-9 * gram[0, 0]
    assert gram[0, 0] >= gram[1, 1]
    assert np.all(m.components_.sum(1) >= 0)
    Z = m.transform(X[:5])
    plain = Z @ m.components_
    for method in ("varimax", "promax", "oblimin"):
        r = m.rotate(method)
        np.testing.assert_allclose((Z @ r.matrix) @ r.components, plain, atol=1e-8)
        np.testing.assert_allclose(np.diag(r.correlation), 1, atol=1e-8)
        np.testing.assert_allclose(r.matrix.T @ r.matrix, r.correlation, atol=1e-8)
        # simple structure: each column belongs to one latent
        size = np.sort(np.abs(r.components), axis=0)
        assert np.mean(size[0] / size[1]) < 0.4
    assert abs(m.rotate("varimax").correlation[0, 1]) < 1e-8


def test_many_columns_need_no_matrix_over_pairs_of_them(monkeypatch):
    """Of the decomposition that turns the weights, no part is d x d, and axes and signs are what they were."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3000, 2)) * [1.0, 2.0]
    sizes, svd = [], np.linalg.svd

    def spy(*args, **options):
        found = svd(*args, **options)
        sizes.extend(x.size for x in found)
        return found

    monkeypatch.setattr(np.linalg, "svd", spy)
    axes = psychometrics.canonical_axes(weights)
    assert max(sizes) <= weights.size
    turned = weights @ axes
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    assert abs(turned[:, 0] @ turned[:, 1]) < 1e-8
    assert np.linalg.norm(turned[:, 0]) > np.linalg.norm(turned[:, 1])
    assert (turned.sum(0) >= 0).all()
    few = rng.normal(size=(2, 3))  # fewer columns than latents: all axes are there all the same
    axes = psychometrics.canonical_axes(few)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.norm((few @ axes)[:, 2]) < 1e-12


def test_item_information_is_the_curvature_of_the_likelihood(lsat):
    m, _ = lsat()
    z = np.linspace(-2, 2, 5)[:, None]
    p = m.inverse_transform(z)
    np.testing.assert_allclose(m.item_information(z), m.components_[0] ** 2 * p * (1 - p), rtol=1e-4)
    np.testing.assert_array_equal(m.item_information(z[:, 0]), m.item_information(z))  # a list will do
    with pytest.raises(ValueError, match="shape"):
        m.item_information([[0.0, 1.0]])


# ---------------------------------------------------------------- awkward tables


@pytest.mark.slow("rows enough for rare bits")
def test_rare_bits_do_not_put_the_weights_to_sleep():
    """Where nearly all bits are equal the bound's own optimum is w = 0, from which quadrature must get away."""
    rng = np.random.default_rng(0)
    w = 0.5 * rng.normal(size=(20, 1)) + 0.5
    X = answers(1000, slopes=w, intercepts=np.full(20, 3.0))
    auto, alone = (LatentTrait(1, method=m, random_state=0).fit(X) for m in ("auto", "quadrature"))
    assert abs(auto.log_likelihood(X) - alone.log_likelihood(X)) < 0.05
    assert auto.components_.max() > 0.5


@pytest.mark.slow("three tables are compiled for")
def test_constant_columns_have_no_weight_and_change_nothing_for_the_others(answered, tmp_path):
    """They are neither parameters nor a part of the likelihood, also after a file; rows without an answer are none."""
    wide, whole = answered[0].copy(), ItemResponse(weight_prior=2.0, random_state=0)
    wide[:, 2], wide[:, 4] = 1, 0
    rest = [0, 1, 3, 5]
    narrow, m = (deepcopy(whole).fit(t) for t in (wide[:, rest], wide))
    assert m.converged_
    np.testing.assert_allclose(m.components_[0, rest], narrow.components_[0], atol=0.02)
    np.testing.assert_array_equal(m.components_[:, [2, 4]], 0)
    np.testing.assert_allclose(m.intercept_[[2, 4]], np.log(2000 * 240 + 1) * np.array([1, -1]))
    errors = m.standard_errors(wide)
    assert np.isnan(errors.intercept[[2, 4]]).all()
    assert np.isfinite(errors.intercept[rest]).all()
    m.save(tmp_path / "m.safetensors")
    assert m.n_parameters_ == narrow.n_parameters_ == load(tmp_path / "m.safetensors").n_parameters_ == 8
    assert abs(m.aic(wide) - narrow.aic(wide[:, rest])) < 0.02
    more = np.vstack([wide, np.full((10, 6), np.nan)])
    np.testing.assert_allclose(m.bic(more), m.bic(wide), atol=0.001)
    assert m.criteria(more).n_rows == 240
    nothing = deepcopy(whole).fit(np.ones((240, 6)))
    np.testing.assert_array_equal(nothing.components_, 0)


@pytest.mark.slow("two traits in float64 are compiled for")
def test_runaway_columns_leave_the_other_errors_alone():
    X = answers(500, 8, 2, scale=1.5)
    X[:, 7] = X[:, 6]
    with pytest.warns(UserWarning, match="run to infinity"):
        m = ItemResponse(n_factors=2, random_state=0, dtype="float64").fit(X)
    with pytest.warns(UserWarning, match="no standard errors"):
        errors = m.standard_errors(X)
    assert np.isnan(errors.intercept[6:]).all()
    assert np.isfinite(errors.intercept[:6]).all()
    assert (errors.components[:, :6] > 0).all()


@pytest.mark.slow("rules of many nodes")
def test_the_stated_error_covers_the_true_one(monkeypatch):
    """60 columns, six of them very steep: by nodes for all rows, and by those of each row."""
    rng = np.random.default_rng(5)
    w, b = np.append([12.0, 15, 20, 25, 30, 40], 0.4 * rng.normal(size=54)), rng.normal(size=60)
    X = (rng.random((200, 60)) < sigmoid(rng.normal(size=(200, 1)) * w + b)).astype(float)
    none = np.zeros(0)
    m = set_to(LatentTrait(1, random_state=0), Params, w[:, None], b, none, none, none, d=60)
    exact = equations.likelihood(X, w[:, None], b, equations.grid(1, step=0.0004)).sum()
    total, error = m.log_likelihood(X, return_error=True)
    assert abs(total - exact) < error < 0.01
    monkeypatch.setattr(LatentTrait, "_of_bits", False)  # as where columns are too many for it
    total, error = m.log_likelihood(X, return_error=True)
    assert abs(total - exact) < error < 0.1


@pytest.mark.slow("a rule for twenty dimensions")
def test_many_dimensions():
    q = 20  # more than the points of a small rule can span
    X = answers(40, 24, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = LatentTrait(q, random_state=0, max_iter=2, weight_prior=2.0).fit(X)
    assert np.isfinite(m.score(X))


def test_more_parameters_than_the_answers_can_tell_are_named(lsat):
    X = lsat()[1].astype(float)
    X[:, 2:] = np.nan
    with pytest.warns(UserWarning, match="4 parameters for 3 degrees of freedom, as 2 binary columns"):
        ItemResponse(random_state=0, max_iter=20, tol=1e-3, dtype="float64").fit(X)


@pytest.mark.slow("two tables are compiled for")
def test_rows_and_columns_without_an_observation(answered):
    X = answered[0].copy()
    X[7] = np.nan
    X[:, 2:4] = np.nan
    m = ItemResponse(random_state=0).fit(X)
    assert np.isfinite(m.components_).all()
    assert abs(m.transform(X)[7, 0]) < 1e-4
    assert abs(m.score_samples(X)[7]) < 1e-5
    rest = [0, 1, 4, 5]
    np.testing.assert_array_equal(m.intercept_[2:4], 0)
    np.testing.assert_allclose(m.complete(X)[:, 2:4], 0.5, atol=1e-6)
    without = ItemResponse(random_state=0).fit(np.delete(X, 7, 0)[:, rest])
    np.testing.assert_allclose(m.components_[0, rest], without.components_[0], atol=0.01)


@pytest.mark.slow("slopes that run away")
def test_two_identical_columns_warn_by_name_or_stay_finite(answered):
    X = answered[0].copy()
    X[:, 5] = X[:, 4]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    with pytest.warns(UserWarning, match="'e', 'f' run to infinity"):
        m = ItemResponse(random_state=0).fit(frame)
    assert np.isfinite(m.components_).all()
    assert np.isfinite(m.score(frame))
    held = ItemResponse(weight_prior=2.0, random_state=0).fit(frame)  # no warning: warnings are errors here
    assert held.discrimination_.max() < 15


@pytest.mark.slow("four dimensions")
def test_more_than_three_dimensions():
    q = 4
    X = answers(240, 24, q, scale=2.0)
    m = LatentTrait(q, random_state=0, tol=1e-3).fit(X)
    total, error = m.log_likelihood(X, return_error=True)
    assert 0 < error < 0.15
    assert abs(m.objective_ - total) < 0.5  # points that are the same for all rows would be flattered by 3 nats
    assert m.posterior(X).covariance.shape == (240, q, q)


def test_messages(lsat):
    m, X = lsat()
    with pytest.raises(ValueError, match=r"n_factors must be 1 .* got 2"):
        ItemResponse("1PL", 2).fit(X)
    with pytest.raises(ValueError, match="method"):
        LatentTrait(method="laplace").fit(X)
    with pytest.raises(ValueError, match="between 5 and 14"):
        LatentTrait(20, n_nodes=3).fit(X)
    with pytest.raises(ValueError, match="varimax, promax, oblimin"):
        m.rotate("quartimax")
    with pytest.raises(ValueError, match="eap"):
        m.scores(X, "mean")
    with pytest.raises(ValueError, match="weights_are must be"):
        m.standard_errors(X, weights_are="sums")


# ---------------------------------------------------------------- weights


@pytest.mark.slow("weighted tables are compiled for")
def test_standard_errors_take_weights_for_counts(answered):
    X, m = answered
    rows, counts = np.unique(X, axis=0, return_counts=True)
    np.testing.assert_allclose(
        m.standard_errors(rows, counts).covariance, m.standard_errors(X).covariance, rtol=1e-6, atol=1e-9
    )
    counted, written_out = m.criteria(rows, counts), m.criteria(X)
    assert counted.n_rows == written_out.n_rows
    np.testing.assert_allclose(counted.bic, written_out.bic, rtol=1e-6)


@pytest.mark.slow("a fit in float64")
def test_the_sandwich_is_that_of_numerical_scores(answered):
    """A^-1 B A^-1 with B from derivatives of each row's log-likelihood; the unit of the weights does not matter."""
    X, _ = answered
    weight = np.random.default_rng(1).uniform(0.2, 3, len(X))
    m = ItemResponse(random_state=0, tol=1e-9, dtype="float64").fit(X, sample_weight=weight)
    found = m.standard_errors(X, weight, "sampling").covariance
    np.testing.assert_allclose(m.standard_errors(X, 10 * weight, "sampling").covariance, found, rtol=1e-3, atol=1e-7)
    bread = m.standard_errors(X, weight).covariance
    scores, step = [], 1e-4
    for place in np.ndindex(6, 2):
        moved = np.zeros((6, 2))
        moved[place] = step
        up, down = (_moved(m, sign * moved).score_samples(X) for sign in (1, -1))
        scores.append((up - down) / (2 * step))
    weighted = weight[:, None] * np.stack(scores, 1)
    np.testing.assert_allclose(found, bread @ (weighted.T @ weighted) @ bread, rtol=5e-3, atol=1e-5)


@pytest.mark.slow("calibration over 100 samples")
@pytest.mark.optimised
def test_sandwich_errors_are_those_of_unequal_chances():
    """100 samples in which answers with a high latent have nine times the chance: spread of estimates by error stated.

    A ratio of standard deviations is known to 1 / sqrt(2 * 100) = 0.07 for each of 10 parameters, which may be off by 4
    of that; their root mean square, to less than half.  False alarms: 0.1 %.  Weights as counts, in units in which they
    add up to the rows, tell too little; errors vary so little that those of 20 samples show it.
    """
    rng, stated, counted, found = np.random.default_rng(0), [], [], []
    w, b, n = np.array([1.0, 1.5, 0.8, 1.2, 1.0]), np.array([0.5, -0.5, 0.0, 1.0, -1.0]), 1000
    m = ItemResponse(random_state=0)
    for sample in range(100):
        z = rng.normal(size=20 * n)
        z = z[rng.random(len(z)) < np.where(z > 0.5, 0.9, 0.1)][:n]
        X = (rng.random((n, 5)) < sigmoid(z[:, None] * w + b)).astype(float)
        weight = np.where(z > 0.5, 1.0, 9.0)
        weight *= n / weight.sum()
        m.fit(X, sample_weight=weight)
        found.append(np.concatenate([m.components_[0], m.intercept_]))
        for errors, how in ((stated, "sampling"), (counted, "counts"))[: 2 if sample < 20 else 1]:
            each = m.standard_errors(X, weight, how)
            errors.append(np.concatenate([each.components[0], each.intercept]))
    found = np.array(found)
    spread = found.std(0, ddof=1)
    assert np.all(np.abs(found.mean(0) - np.concatenate([w, b])) < 5 * spread / np.sqrt(100) + 0.05)
    ratio, naive = (spread / np.sqrt(np.mean(np.square(errors), 0)) for errors in (stated, counted))
    assert 0.88 < np.sqrt(np.mean(ratio**2)) < 1.12
    assert np.all(np.abs(np.log(ratio)) < 4 * 0.0707)
    assert np.sqrt(np.mean(naive**2)) > 1.2


def test_up_to_32_dimensions_are_allowed():
    LatentTrait(n_components=32)._validate_params()
    with pytest.raises(ValueError, match="n_components"):
        LatentTrait(n_components=33)._validate_params()
