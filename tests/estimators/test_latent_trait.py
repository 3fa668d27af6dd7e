"""LatentTrait as a user meets it: published fits, standard errors, scores, rotations, and awkward tables."""

from __future__ import annotations

import warnings

import equinox as eqx
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from latentbits import LatentTrait, load, load_dataset
from latentbits.data import toys
from latentbits.estimators import psychometrics, trait_likelihoods


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


# Tables of 500 x 6 for one latent and of 500 x 8 for two wherever size does not matter: compiled code is shared.


def answers(n=500, d=6, q=1, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    w, b = scale * rng.lognormal(0, 0.3, (d, q)) * np.where(np.arange(d)[:, None] % q == np.arange(q), 1, 0.2), None
    b = rng.normal(size=d)
    z = rng.normal(size=(n, q))
    return (rng.random((n, d)) < sigmoid(z @ w.T + b)).astype(float), w, b, z


# ---------------------------------------------------------------- published fits


@pytest.mark.slow
def test_lsat6_two_parameters():
    X = load_dataset("lsat6").X
    m = LatentTrait(1, random_state=0).fit(X)
    assert m.converged_
    assert abs(m.log_likelihood(X) - -2466.653) < 0.01
    np.testing.assert_allclose(m.components_[0], [0.8254, 0.7229, 0.8905, 0.6886, 0.6575], atol=0.005)
    np.testing.assert_allclose(m.intercept_, [2.7730, 0.9902, 0.2492, 1.2848, 2.0536], atol=0.005)
    errors = m.standard_errors(X)
    np.testing.assert_allclose(errors.components[0], [0.2581, 0.1867, 0.2326, 0.1852, 0.2100], atol=0.01)
    np.testing.assert_allclose(m.difficulty_, -m.intercept_ / m.components_[0])
    np.testing.assert_array_equal(errors.discrimination, errors.components[0])
    assert m.n_parameters_ == 10
    np.testing.assert_allclose(m.aic(X), 2 * 10 + 2 * 2466.653, atol=0.02)
    np.testing.assert_allclose(m.bic(X), 10 * np.log(1000) + 2 * 2466.653, atol=0.02)


@pytest.mark.slow
def test_lsat6_one_parameter():
    X = load_dataset("lsat6").X
    m = LatentTrait(1, equal_discrimination=True, random_state=0).fit(X)
    assert abs(m.log_likelihood(X) - -2466.938) < 0.01
    np.testing.assert_allclose(m.components_, 0.7551, atol=0.005)
    np.testing.assert_allclose(m.standard_errors(X).components, 0.0694, atol=0.001)
    assert m.n_parameters_ == 6


def test_lsat7():
    X = load_dataset("lsat7").X
    m = LatentTrait(1, random_state=0).fit(X)
    assert abs(m.log_likelihood(X) - -2658.805) < 0.01
    np.testing.assert_allclose(m.components_[0], [0.9877, 1.0808, 1.7067, 0.7650, 0.7357], atol=0.005)
    one = LatentTrait(1, equal_discrimination=True, random_state=0).fit(X)
    assert abs(one.log_likelihood(X) - -2664.901) < 0.01


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


@pytest.mark.slow
@pytest.mark.optimised
def test_standard_errors_cover_the_truth():
    """Over 40 simulated tables about 95 % of the intervals of 1.96 errors hold the truth (5 standard errors: 0.88)."""
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(1000 + seed)
        w, b = np.linspace(0.7, 1.6, 6), np.linspace(-1, 1, 6)
        X = (rng.random((500, 6)) < sigmoid(rng.normal(size=(500, 1)) * w + b)).astype(float)
        m = LatentTrait(1, random_state=0).fit(X)
        errors = m.standard_errors(X)
        inside += [np.abs(m.components_[0] - w) < 1.96 * errors.components[0]]
        inside += [np.abs(m.intercept_ - b) < 1.96 * errors.intercept]
    assert 0.90 < np.mean(inside) < 0.99


@pytest.mark.slow
def test_standard_errors_in_two_dimensions_are_those_of_the_curvature():
    """The covariance is the inverse of minus the Hessian on the tangent space of the canonical rotation."""
    X, *_ = answers(400, 6, 2, scale=1.5)
    m = LatentTrait(2, random_state=0, dtype="float64", tol=1e-10).fit(X)
    errors = m.standard_errors(X)
    gram = m.components_ @ m.components_.T
    np.testing.assert_allclose(gram[0, 1], 0, atol=1e-9)
    # along the covariance's own directions a step of one standard deviation costs half a nat
    values, vectors = np.linalg.eigh(errors.covariance)
    assert np.sum(values > 1e-10) == 6 * 3 - 1
    for place in (-3, -8):
        step = 0.3 * np.sqrt(values[place]) * vectors[:, place].reshape(6, 3)
        drop = [_moved(m, sign * step).log_likelihood(X) - m.log_likelihood(X) for sign in (1, -1)]
        np.testing.assert_allclose(np.mean(drop), -0.5 * 0.09, rtol=0.05)


def _moved(m, step):
    other = LatentTrait(2, random_state=0, dtype="float64")
    other.__dict__.update(m.__dict__)
    moved = (m.params_.weights + step[:, :2], m.params_.bias + step[:, 2])
    other.params_ = eqx.tree_at(lambda p: (p.weights, p.bias), m.params_, moved)
    return other


@pytest.mark.slow
def test_scores_follow_the_latents_and_tell_their_errors():
    X, _, _, z = answers(1500, 30, seed=2)
    m = LatentTrait(1, random_state=0).fit(X)
    for method in ("eap", "map"):
        scores = m.scores(X, method)
        away = (scores.value[:, 0] - z[:, 0]) / scores.error[:, 0]
        assert 0.9 < np.sqrt(np.mean(away**2)) < 1.1
    np.testing.assert_allclose(m.scores(X).value, m.transform(X), atol=1e-6)
    with pytest.raises(ValueError, match="eap"):
        m.scores(X, "mean")


@pytest.mark.slow
def test_the_bound_is_named_and_is_one():
    X, *_ = answers(500, 8, 2)
    m = LatentTrait(2, random_state=0).fit(X)
    found = m.variational(X)
    assert np.all(found.bound <= m.score_samples(X) + 1e-4)
    assert found.mean.shape == (500, 2)
    assert found.covariance.shape == (500, 2, 2)
    v = LatentTrait(2, method="variational", random_state=0).fit(X)
    np.testing.assert_allclose(v.variational(X).bound.sum(), v.history_.max(), rtol=1e-4)
    assert v.log_likelihood(X) < m.log_likelihood(X) + 0.01


@pytest.mark.slow
def test_the_rotation_is_canonical_and_rotations_change_no_probability():
    X, *_ = answers(500, 8, 2, scale=2.0, seed=4)
    m = LatentTrait(2, random_state=0).fit(X)
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


def test_item_information_is_the_curvature_of_the_likelihood():
    X, *_ = answers(500, 6)
    m = LatentTrait(1, random_state=0).fit(X)
    z = np.linspace(-2, 2, 5)[:, None]
    p = m.inverse_transform(z)
    np.testing.assert_allclose(m.item_information(z), m.components_[0] ** 2 * p * (1 - p), rtol=1e-4)
    np.testing.assert_array_equal(m.item_information(z[:, 0]), m.item_information(z))  # a list will do
    with pytest.raises(ValueError, match="shape"):
        m.item_information([[0.0, 1.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("flip", "right", "low", "high"), [(0.05, 0.99, 4.6, 5.2), (0.15, 0.90, 7.8, 8.4)])
def test_three_noisy_prototypes_part(flip, right, low, high):
    """The paper's first experiment: the prototype whose own posterior mean is nearest is the right one."""
    shares, errors = [], []
    for seed in range(3):
        toy = toys.noisy_prototypes(n_per_prototype=200, n_features=16, flip=flip, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # near-separable bits may run away
            m = LatentTrait(2, method="variational", random_state=0).fit(toy.X)
        places, own = m.variational(toy.X).mean, m.variational(toy.prototypes).mean
        nearest = np.argmin(((places[:, None] - own[None]) ** 2).sum(-1), axis=1)
        shares.append(np.mean(nearest == toy.labels))
        errors.append(-m.score(toy.X))
    assert np.mean(shares) >= right
    assert low < np.mean(errors) < high


# ---------------------------------------------------------------- awkward tables


@pytest.mark.slow
def test_rare_bits_do_not_put_the_weights_to_sleep():
    """Where nearly all bits are equal the bound's own optimum is w = 0, from which quadrature must get away."""
    rng = np.random.default_rng(0)
    w = 0.5 * rng.normal(size=(20, 1)) + 0.5
    X = (rng.random((1000, 20)) < sigmoid(rng.normal(size=(1000, 1)) @ w.T + 3)).astype(float)
    auto, alone = (LatentTrait(1, method=m, random_state=0).fit(X) for m in ("auto", "quadrature"))
    assert abs(auto.log_likelihood(X) - alone.log_likelihood(X)) < 0.05
    assert auto.discrimination_.max() > 0.5


@pytest.mark.slow
def test_constant_columns_change_nothing_for_the_others():
    X, *_ = answers(60, 6)
    wide = np.hstack([X, np.zeros((60, 9)), np.ones((60, 5))])
    narrow, broad = (LatentTrait(1, weight_prior=2.0, random_state=0).fit(t) for t in (X, wide))
    assert broad.converged_
    np.testing.assert_allclose(broad.components_[0, :6], narrow.components_[0], atol=0.02)
    np.testing.assert_allclose(np.abs(broad.intercept_[6:]), np.log(2000 * 60 + 1))
    assert broad.n_parameters_ == narrow.n_parameters_
    assert abs(broad.log_likelihood(wide) - narrow.log_likelihood(X)) < 0.02
    nothing = LatentTrait(1, random_state=0).fit(np.ones((500, 6)))
    np.testing.assert_array_equal(nothing.components_, 0)


@pytest.mark.slow
def test_runaway_columns_leave_the_other_errors_alone():
    X, *_ = answers(500, 8, 2, scale=1.5)
    X[:, 7] = X[:, 6]
    with pytest.warns(UserWarning, match="run to infinity"):
        m = LatentTrait(2, random_state=0).fit(X)
    with pytest.warns(UserWarning, match="no standard errors"):
        errors = m.standard_errors(X)
    assert np.isnan(errors.intercept[6:]).all()
    assert np.isfinite(errors.intercept[:6]).all()
    assert (errors.components[:, :6] > 0).all()


@pytest.mark.slow
def test_the_error_of_a_likelihood_is_no_smaller_than_it_is():
    """A duplicated column, so steep bits, against a dense grid."""
    X, *_ = answers(200, 5)
    X[:, 4] = X[:, 0]
    with pytest.warns(UserWarning, match="run to infinity"):
        m = LatentTrait(1, random_state=0).fit(X)
    total, error = m.log_likelihood(X, return_error=True)
    z = np.linspace(-8, 8, 40001)
    a = z[:, None] * m.components_[0] + m.intercept_
    joint = -np.logaddexp(0, -a) @ X.T - np.logaddexp(0, a) @ (1 - X.T) - 0.5 * z[:, None] ** 2
    exact = np.sum(np.logaddexp.reduce(joint, axis=0) + np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi))
    assert abs(total - exact) < error < 20


@pytest.mark.slow
def test_the_error_told_covers_the_true_one_however_much_work_there_may_be(monkeypatch):
    """60 columns, six of them very steep: the less work is allowed, the larger the error that is told."""
    rng = np.random.default_rng(5)
    w, b = np.append([12.0, 15, 20, 25, 30, 40], 0.4 * rng.normal(size=54)), rng.normal(size=60)
    X = (rng.random((200, 60)) < sigmoid(rng.normal(size=(200, 1)) * w + b)).astype(float)
    m = LatentTrait(1, weight_prior=0.1, random_state=0).fit(X)
    m.params_ = eqx.tree_at(lambda p: (p.weights, p.bias), m.params_, (w[:, None], b))
    z = np.linspace(-8, 8, 40001)
    a = z[:, None] * w + b
    joint = -np.logaddexp(0, -a) @ X.T - np.logaddexp(0, a) @ (1 - X.T) - 0.5 * z[:, None] ** 2
    exact = np.sum(np.logaddexp.reduce(joint, axis=0) + np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi))
    monkeypatch.setattr(trait_likelihoods, "SHARE", 0)
    errors = []
    for terms in (0, 2 * 10**6, 10**8):
        monkeypatch.setattr(trait_likelihoods, "MOST_TERMS", terms)
        total, error = m.log_likelihood(X, return_error=True)
        assert abs(total - exact) < error
        errors.append(error)
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.1


@pytest.mark.slow
def test_many_dimensions():
    q = 20  # more than the points of a small rule can span
    X, *_ = answers(100, 24, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = LatentTrait(q, random_state=0, max_iter=2, weight_prior=2.0).fit(X)
    assert np.isfinite(m.score(X))
    with pytest.raises(ValueError, match="between 5 and 14"):
        LatentTrait(q, n_nodes=3).fit(X)


@pytest.mark.slow
def test_a_constant_column_gets_no_weight_and_a_finite_bias(tmp_path):
    X, *_ = answers(500, 6)
    X[:, 2], X[:, 4] = 1, 0
    m = LatentTrait(1, random_state=0).fit(X)
    np.testing.assert_array_equal(m.components_[:, [2, 4]], 0)
    p = m.inverse_transform([[0.0]])[0]
    assert 0.99 < p[2] < 1
    assert 0 < p[4] < 0.01
    errors = m.standard_errors(X)
    assert np.isnan(errors.intercept[[2, 4]]).all()
    assert np.isfinite(errors.intercept[[0, 1, 3, 5]]).all()
    # neither a parameter nor a part of the likelihood, also after a file; and rows without an answer are none
    without = LatentTrait(1, random_state=0).fit(np.delete(X, [2, 4], 1))
    assert m.n_parameters_ == without.n_parameters_ == 8
    m.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").n_parameters_ == 8
    assert abs(m.aic(X) - without.aic(np.delete(X, [2, 4], 1))) < 0.01
    more = np.vstack([X, np.full((500, 6), np.nan)])
    np.testing.assert_allclose(m.bic(more), m.bic(X), atol=0.001)
    assert m.criteria(more).n_rows == 500


def test_more_parameters_than_the_answers_can_tell_are_named():
    X, *_ = answers(500, 6)
    X[:, 2:] = np.nan
    with pytest.warns(UserWarning, match="4 parameters for 3 degrees of freedom, as 2 binary columns"):
        LatentTrait(1, random_state=0, max_iter=20, tol=1e-3).fit(X)


def _dense(m, X):
    """Log-likelihood and standard errors of (w, b) of one dimension by a dense grid, in NumPy; for a prior of 3."""
    z = np.linspace(-9, 9, 3001)
    w, b, seen = m.components_[0], m.intercept_, ~np.isnan(X)
    a, x = z[:, None] * w + b, np.nan_to_num(X)
    joint = (x * seen) @ -np.logaddexp(0, -a).T + ((1 - x) * seen) @ -np.logaddexp(0, a).T - 0.5 * z**2
    total = np.logaddexp.reduce(joint, axis=1) + np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi)
    share = np.exp(joint - joint.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    p, extended, d = sigmoid(a), np.stack([z, np.ones_like(z)], 1), len(w)
    information = np.zeros((d, 2, d, 2))
    for row in range(len(X)):
        at = np.flatnonzero(seen[row])
        score = ((x[row, at] - p[:, at])[:, :, None] * extended[:, None]).reshape(len(z), -1)
        mean = share[row] @ score
        own = np.outer(mean, mean) - (share[row][:, None] * score).T @ score
        own = own.reshape(len(at), 2, len(at), 2)
        for k, j in enumerate(at):
            own[k, :, k] += (extended * (share[row] * p[:, j] * (1 - p[:, j]))[:, None]).T @ extended
        information[np.ix_(at, [0, 1], at, [0, 1])] += own
    information = information.reshape(2 * d, 2 * d) + np.diag(np.tile([1 / 9, 0.0], d))
    return total.sum(), np.sqrt(np.diag(np.linalg.inv(information))).reshape(d, 2)


@pytest.mark.slow
def test_steep_items_on_sparse_rows():
    """60 items of which a row has 6: likelihood and standard errors against a dense grid."""
    rng = np.random.default_rng(3)
    w, b = 1.2 * rng.lognormal(0, 0.4, 60), rng.normal(size=60)
    w[:6] = [4, 5, 6, 7, 8, 9]
    X = (rng.random((800, 60)) < sigmoid(rng.normal(size=(800, 1)) * w + b)).astype(float)
    X[rng.random(X.shape).argsort(1) >= 6] = np.nan
    m = LatentTrait(1, random_state=0, weight_prior=3.0).fit(X)
    total, error = m.log_likelihood(X, return_error=True)
    exact, errors = _dense(m, X)
    assert abs(total - exact) < error < 0.1
    penalty = np.sum(m.components_**2) / 18
    assert abs(m.objective_ + penalty - exact) < 0.1
    told = m.standard_errors(X)
    np.testing.assert_allclose(told.components[0], errors[:, 0], rtol=0.02)
    np.testing.assert_allclose(told.intercept, errors[:, 1], rtol=0.02)


@pytest.mark.slow
def test_rows_and_columns_without_an_observation():
    X, *_ = answers(500, 6)
    X[7] = np.nan
    X[:, 3] = np.nan
    m = LatentTrait(1, random_state=0).fit(X)
    assert np.isfinite(m.components_).all()
    assert abs(m.transform(X)[7, 0]) < 1e-4
    assert abs(m.score_samples(X)[7]) < 1e-5
    assert m.intercept_[3] == 0
    np.testing.assert_allclose(m.complete(X)[:, 3], 0.5, atol=1e-6)
    without = LatentTrait(1, random_state=0).fit(np.delete(np.delete(X, 7, 0), 3, 1))
    np.testing.assert_allclose(np.delete(m.components_[0], 3), without.components_[0], atol=0.01)


@pytest.mark.slow
def test_two_identical_columns_warn_by_name_or_stay_finite():
    X, *_ = answers(500, 6)
    X[:, 5] = X[:, 4]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    with pytest.warns(UserWarning, match="'e', 'f' run to infinity"):
        m = LatentTrait(1, random_state=0).fit(frame)
    assert np.isfinite(m.components_).all()
    assert np.isfinite(m.score(frame))
    held = LatentTrait(1, weight_prior=2.0, random_state=0).fit(frame)  # no warning: warnings are errors here
    assert held.discrimination_.max() < 15


@pytest.mark.slow
def test_separable_bits_are_held_by_a_prior():
    """Noiseless prototypes: maximum likelihood runs to infinity and says so; a weak prior keeps it finite."""
    toy = toys.noisy_prototypes(n_per_prototype=60, n_features=8, flip=0.0, random_state=0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        m = LatentTrait(2, random_state=0).fit(toy.X)
    assert any("run to infinity" in str(w.message) for w in seen)
    assert np.isfinite(m.components_).all()
    assert m.log_likelihood(toy.X) > -2 * len(toy.X)  # log 3 = 1.1 nats tell which prototype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        held = LatentTrait(2, weight_prior=3.0, random_state=0).fit(toy.X)
    assert held.discrimination_.max() < 20
    assert held.score(toy.X) > -3


@pytest.mark.slow
def test_more_columns_than_rows():
    X, *_ = answers(25, 60)
    m = LatentTrait(1, weight_prior=2.0, random_state=0).fit(X)
    assert np.isfinite(m.components_).all()
    assert np.isfinite(m.score(X))


@pytest.mark.slow
def test_more_than_three_dimensions():
    q = 4
    X, *_ = answers(500, 24, q, scale=2.0)
    m = LatentTrait(q, random_state=0).fit(X)
    total, error = m.log_likelihood(X, return_error=True)
    assert 0 < error < 0.15
    assert abs(m.objective_ - total) < 0.5  # points that are the same for all rows would be flattered by 3 nats
    less = LatentTrait(2, random_state=0).fit(X)
    assert total > less.log_likelihood(X) + 30
    assert m.posterior(X[:3]).covariance.shape == (3, q, q)


@pytest.mark.slow
def test_sampling_em_needs_its_sample():
    X, *_ = answers(500, 6)
    few, many = (LatentTrait(1, method="monte_carlo", n_samples=k, random_state=0).fit(X) for k in (20, 2000))
    best = LatentTrait(1, random_state=0).fit(X)
    assert few.log_likelihood(X) < many.log_likelihood(X) <= best.log_likelihood(X) + 0.01
    assert best.log_likelihood(X) - many.log_likelihood(X) < 0.5


@pytest.mark.slow
def test_a_seed_gives_the_same_fit_and_a_file_keeps_it(tmp_path):
    X, *_ = answers(500, 8, 2)
    a, b = (LatentTrait(2, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.components_, b.components_)
    a.save(tmp_path / "m.safetensors")
    c = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(a.components_, c.components_)
    np.testing.assert_array_equal(a.score_samples(X), c.score_samples(X))


def test_messages():
    X, *_ = answers(500, 6)
    with pytest.raises(ValueError, match="n_components must be 1, got 2"):
        LatentTrait(2, equal_discrimination=True).fit(X)
    with pytest.raises(ValueError, match="method"):
        LatentTrait(method="laplace").fit(X)
    m = LatentTrait(1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="varimax, promax, oblimin"):
        m.rotate("quartimax")


# ---------------------------------------------------------------- weights


@pytest.mark.slow
def test_standard_errors_take_weights_for_counts():
    X, *_ = answers()
    rows, counts = np.unique(X, axis=0, return_counts=True)
    m = LatentTrait(1, random_state=0).fit(X)
    np.testing.assert_allclose(
        m.standard_errors(rows, counts).covariance, m.standard_errors(X).covariance, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(m.criteria(rows, counts)[2:], m.criteria(X)[2:], rtol=1e-6)
    with pytest.raises(ValueError, match="weights_are must be"):
        m.standard_errors(X, weights_are="sums")


@pytest.mark.slow
def test_the_sandwich_is_that_of_numerical_scores():
    """A^-1 B A^-1 with B from derivatives of each row's log-likelihood; the unit of the weights does not matter."""
    X, *_ = answers()
    weight = np.random.default_rng(1).uniform(0.2, 3, len(X))
    m = LatentTrait(1, random_state=0, tol=1e-9, dtype="float64").fit(X, sample_weight=weight)
    found = m.standard_errors(X, weight, "sampling").covariance
    np.testing.assert_allclose(m.standard_errors(X, 10 * weight, "sampling").covariance, found, rtol=1e-3, atol=1e-7)
    bread = m.standard_errors(X, weight).covariance
    scores, step, params = [], 1e-4, m.params_
    for column in range(X.shape[1]):
        for of in ("weights", "bias"):
            values = []
            for sign in (1, -1):
                moved = np.array(getattr(params, of))
                moved[column] += sign * step
                m.params_ = eqx.tree_at(lambda p, of=of: getattr(p, of), params, moved)
                values.append(m.score_samples(X))
            scores.append((values[0] - values[1]) / (2 * step))
    weighted = weight[:, None] * np.stack(scores, 1)
    np.testing.assert_allclose(found, bread @ (weighted.T @ weighted) @ bread, rtol=5e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.optimised
def test_sandwich_errors_are_those_of_unequal_chances():
    """150 samples in which answers with a high latent have nine times the chance: spread of estimates by error told.

    A ratio of standard deviations is known to 1 / sqrt(2 * 150) = 0.06 for each of 10 parameters; their root mean
    square to less.  Weights as counts, in units in which they add up to the rows, tell too little.
    """
    rng, told, counted, found = np.random.default_rng(0), [], [], []
    w, b, n = np.array([1.0, 1.5, 0.8, 1.2, 1.0]), np.array([0.5, -0.5, 0.0, 1.0, -1.0]), 1000
    m = LatentTrait(1, random_state=0)
    for _ in range(150):
        z = rng.normal(size=20 * n)
        z = z[rng.random(len(z)) < np.where(z > 0.5, 0.9, 0.1)][:n]
        X = (rng.random((n, 5)) < sigmoid(z[:, None] * w + b)).astype(float)
        weight = np.where(z > 0.5, 1.0, 9.0)
        weight *= n / weight.sum()
        m.fit(X, sample_weight=weight)
        found.append(np.concatenate([m.components_[0], m.intercept_]))
        for errors, how in ((told, "sampling"), (counted, "counts")):
            each = m.standard_errors(X, weight, how)
            errors.append(np.concatenate([each.components[0], each.intercept]))
    found = np.array(found)
    spread = found.std(0, ddof=1)
    assert np.all(np.abs(found.mean(0) - np.concatenate([w, b])) < 5 * spread / np.sqrt(150) + 0.05)
    ratio, naive = (spread / np.sqrt(np.mean(np.square(errors), 0)) for errors in (told, counted))
    assert 0.88 < np.sqrt(np.mean(ratio**2)) < 1.12
    assert np.all((ratio > 0.8) & (ratio < 1.25))
    assert np.sqrt(np.mean(naive**2)) > 1.2


def test_up_to_32_dimensions_are_allowed():
    LatentTrait(n_components=32)._validate_params()
    with pytest.raises(ValueError, match="n_components"):
        LatentTrait(n_components=33)._validate_params()
