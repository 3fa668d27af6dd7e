"""`ClippedGaussian` as a user meets it: published numbers, the paper's examples, recovery, awkward tables."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from tests import tables

from latentbits import ClippedGaussian, load, load_dataset
from latentbits.core import limits
from latentbits.core.errors import FitError, ModelFileError, TooLargeError
from latentbits.data.toys import bump, sum_constrained
from latentbits.models.clipped_gaussian import bivariate


@pytest.fixture(scope="module")
def table():
    return tables.clipped(1500, 12, 2).X.astype(np.uint8)


@pytest.fixture(scope="module")
def fitted(table):
    return ClippedGaussian(2).fit(table)


@pytest.fixture(scope="module")
def clipped():
    """A deterministic model of two hidden variables, and rows of it."""
    rng = np.random.default_rng(1)
    weights, phi = rng.normal(size=(12, 2)), 0.5 * rng.normal(size=12)
    X = (phi + rng.normal(size=(3000, 2)) @ weights.T > 0).astype(np.uint8)
    return ClippedGaussian(2, noise="none").fit(X)


# ---------------------------------------------------------------- correlations


def test_published_numbers_of_lsat6():
    """R's psych and lavaan agree on the correlations; psych's tau has the other sign.

    The best probit factor model has about -2467; components, which explain variances too, are far off.
    """
    X = load_dataset("lsat6").X
    m = ClippedGaussian(1).fit(X)
    expected = [0.1703, 0.2275, 0.1072, 0.0665, 0.1891, 0.1111, 0.1724, 0.1867, 0.1055, 0.2009]
    np.testing.assert_allclose(m.correlation_[np.triu_indices(5, 1)], expected, atol=5e-4)
    np.testing.assert_allclose(m.thresholds_, [1.4325, 0.5505, 0.1332, 0.7160, 1.1264], atol=5e-4)
    np.testing.assert_allclose(m.eigenvalues_, np.linalg.eigvalsh(m.correlation_)[::-1], atol=1e-12)
    np.testing.assert_allclose(m.binary_eigenvalues_, np.linalg.eigvalsh(m.binary_correlation_)[::-1], atol=1e-12)
    factors = m.log_likelihood(X)
    assert -2468 < factors < -2466.5
    assert ClippedGaussian(1, extraction="components").fit(X).log_likelihood(X) < factors - 10


@pytest.mark.parametrize("n_rows", [None, 7])
def test_the_bump_has_two_hidden_variables(n_rows):
    """All shifts, and any sample of them.

    A row changes sign at two places, half of the circle apart, so between spins i < j (within half of it) lies one
    change or none: ``<s_i s_j> = 1 - 2 (F_j - F_i)`` with F_i the share of rows that change between spin 0 and i.  So
    ``sin(pi <s_i s_j> / 2) = cos(pi F_i - pi F_j)``, which has rank two whatever the sample.
    """
    rows = bump(n_rows, n_features=64, random_state=0).X
    m = ClippedGaussian(2, bias=False, correction=0, noise="none").fit(rows)
    assert np.abs(m.eigenvalues_[2:]).max() < 1e-12 * m.eigenvalues_[0]
    if n_rows is None:
        np.testing.assert_allclose(m.eigenvalues_[:2], 32, rtol=1e-12)
        assert np.sum(m.binary_eigenvalues_ > 1e-9) == 32
        # cosine and sine: one sinusoid for each of the two, orthogonal to each other
        spins = 2 * np.pi * np.arange(64) / 64
        waves = np.stack([np.cos(spins), np.sin(spins)])
        assert np.degrees(subspace_angles(m.components_.T, waves.T).max()) < 1e-4
        assert m.n_states() == 64  # opposite spins have one line between them: half of what lines in general would give


def test_constraints_on_whole_rows_show_in_the_spectrum():
    """Sum of spins zero: C_ij = sin(-pi / (2 (N - 1))), which no Gaussian has for N >= 4."""
    components = {"bias": False, "extraction": "components"}
    with pytest.warns(UserWarning, match="far below what chance"):
        m = ClippedGaussian(2, **components).fit(sum_constrained(5000, n_features=8, random_state=0))
    assert m.eigenvalues_[-1] == pytest.approx(1 - 7 * np.sin(np.pi / 14), abs=0.1)
    assert m.negative_share_ > 0.05
    repaired = ClippedGaussian(2, **components, repair=True).fit(sum_constrained(5000, n_features=8, random_state=0))
    assert repaired.eigenvalues_[-1] > -1e-6
    assert repaired.negative_share_ == m.negative_share_


def test_missing_entries_cost_precision_only(table, fitted):
    whole, partial = fitted, ClippedGaussian(2).fit(tables.with_holes(table, 0.2))
    pairs = np.triu_indices(12, 1)
    off = (partial.correlation_ - whole.correlation_)[pairs] / partial.correlation_error_[pairs]
    assert np.abs(off).max() < 4
    assert np.all(partial.correlation_error_[pairs] > whole.correlation_error_[pairs])


# ---------------------------------------------------------------- awkward tables


@pytest.mark.slow("likelihoods of two tables are compiled for")
def test_constant_columns_are_set_aside(table):
    X = table.copy()
    X[:, 3], X[:, 7] = 0, 1
    m = ClippedGaussian(2).fit(X)
    rest = ClippedGaussian(2).fit(np.delete(X, [3, 7], 1))
    np.testing.assert_allclose(np.delete(m.components_, [3, 7], 1), rest.components_, atol=1e-10)
    assert not m.components_[:, [3, 7]].any()
    assert m.undetermined_[3].sum() == 11
    np.testing.assert_allclose(m.score_samples(X), rest.score_samples(np.delete(X, [3, 7], 1)), atol=0.01)
    assert np.isfinite(m.score_samples(1 - X)).all()


@pytest.mark.slow("likelihoods of another table are compiled for")
def test_duplicate_columns_and_perfect_correlations(table):
    X = np.column_stack([table, table[:, 0], 1 - table[:, 1]])
    with pytest.warns(UserWarning, match="pairs of columns are not determined"):  # nested bits of unequal means
        m = ClippedGaussian(3, correction=0).fit(X)
    assert m.correlation_[0, 12] == 1
    assert m.correlation_[1, 13] == -1
    corrected = ClippedGaussian(3).fit(X)
    assert 0.99 < corrected.correlation_[0, 12] < 1
    assert np.isfinite(m.score_samples(X)).all()


@pytest.mark.slow("likelihoods of a table with holes are compiled for")
def test_pairs_that_were_never_seen_together(table):
    X = table.astype(float)
    X[:700, 0], X[700:, 1], X[:, 2] = np.nan, np.nan, np.nan
    with pytest.warns(UserWarning, match="the correlations of 1 of 55 pairs of columns are not determined"):
        m = ClippedGaussian(2).fit(X)
    assert m.undetermined_[0, 1]
    assert m.undetermined_[2].sum() == 11
    assert m.correlation_[0, 1] == 0
    assert np.isnan(m.correlation_error_[0, 1])
    assert np.isfinite(m.score_samples(X)).all()


# ---------------------------------------------------------------- use


def test_rotation_keeps_what_the_model_says(fitted):
    latents = np.random.default_rng(0).normal(size=(20, 2))
    for method in ("varimax", "promax", "oblimin"):
        turned = fitted.rotate(method)
        now = (latents @ turned.matrix) @ turned.components
        np.testing.assert_allclose(now, latents @ fitted.components_, atol=1e-5, err_msg=method)


def test_moments_come_out_as_they_went_in():
    """The dichotomised Gaussian: means and covariances of a sample within five of their standard errors."""
    mean = np.array([0.1, 0.3, 0.5, 0.9])
    spread = np.sqrt(mean * (1 - mean))
    correlation = np.array([[1, 0.3, 0.1, 0], [0.3, 1, -0.2, 0.1], [0.1, -0.2, 1, 0.2], [0, 0.1, 0.2, 1]])
    cov = correlation * np.outer(spread, spread)
    m = ClippedGaussian.from_moments(mean, cov)
    X = m.sample(50_000, random_state=0).astype(float)
    assert np.all(np.abs(X.mean(0) - mean) < 5 * spread / np.sqrt(len(X)))
    away = X - X.mean(0)
    for i in range(4):
        for j in range(i):
            product = away[:, i] * away[:, j]
            assert abs(product.mean() - cov[i, j]) < 5 * product.std() / np.sqrt(len(X))


def test_moments_of_constant_bits(tmp_path):
    m = ClippedGaussian.from_moments([0, 0.5, 1], np.diag([0, 0.25, 0]))
    assert m.sample(1000, random_state=0)[:, [0, 2]].tolist() == [[0, 1]] * 1000
    m.save(tmp_path / "m.safetensors")
    assert np.isfinite(load(tmp_path / "m.safetensors").thresholds_).all()


@pytest.mark.parametrize("n", [2, 1000])
def test_covariances_divided_by_one_less_are_refused(n):
    X = (np.arange(3 * n).reshape(n, 3) ** 2 % 5 < 2).astype(float)
    X[0], X[1] = 0, 1
    advice = r"numpy\.cov divides by n - 1; numpy\.cov\(X\.T, bias=True\) is meant"
    with pytest.raises(ValueError, match=rf"for n = {n} rows: {advice}"):
        ClippedGaussian.from_moments(X.mean(0), np.cov(X.T))
    with pytest.raises(ValueError, match=r"the diagonal of cov") as error:
        ClippedGaussian.from_moments([0.5, 0.5], np.diag([0.25, 0.3]))
    assert "numpy" not in str(error.value)


def test_moments_that_no_bits_have():
    with pytest.raises(ValueError, match=r"no bits have a covariance of 0\.3 between column 0 and column 1"):
        ClippedGaussian.from_moments([0.5, 0.5], [[0.25, 0.3], [0.3, 0.25]])
    with pytest.raises(ValueError, match=r"the diagonal of cov must be mean \(1 - mean\)"):
        ClippedGaussian.from_moments([0.5, 0.5], np.eye(2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        ClippedGaussian.from_moments([0.5, 1.5], np.eye(2))
    with pytest.raises(ValueError, match="needs rows"):
        ClippedGaussian.from_moments([0.5, 0.5], np.eye(2) / 4, n_components="parallel")
    one = np.full((6, 6), -0.25 / 5)
    np.fill_diagonal(one, 0.25)
    with pytest.warns(UserWarning, match="no Gaussian has bits with these covariances"):
        ClippedGaussian.from_moments(np.full(6, 0.5), one)
    weak = np.where(np.eye(3) > 0, 0.25, 0.1)
    with pytest.warns(UserWarning, match="this model leaves something over"):
        ClippedGaussian.from_moments(np.full(3, 0.5), weak, n_components=1)


# ---------------------------------------------------------------- without noise


@pytest.mark.slow("cells of a model without noise")
def test_rows_of_a_deterministic_model_are_explained_bit_by_bit(clipped):
    X = clipped.sample(300, random_state=0)
    found = clipped.posterior(X)
    assert not found.violated.any()
    np.testing.assert_array_equal(clipped.inverse_transform(found.mean), X)
    assert np.all(np.isfinite(clipped.score_samples(X)))
    drawn = clipped.sample_posterior(X[:20], 50, random_state=0)
    np.testing.assert_array_equal(
        clipped.inverse_transform(drawn.reshape(-1, 2)).reshape(20, 50, 12), np.repeat(X[:20, None], 50, 1)
    )


@pytest.mark.slow("cells of a model without noise")
def test_posteriors_without_noise_are_those_of_the_cell():
    """A bump's cell is a wedge, in which |y| has Rayleigh's distribution; a missing spin at its edge is a coin."""
    rows = bump(n_features=24).X
    m = ClippedGaussian(2, noise="none", bias=False, correction=0).fit(rows)
    found = m.posterior(rows)
    np.testing.assert_allclose(np.linalg.norm(found.mean, axis=1), np.sqrt(np.pi / 2), atol=0.02)
    radial = np.linalg.eigvalsh(found.covariance)[:, 1]  # of which EP has less than half
    np.testing.assert_allclose(radial, 2 - np.pi / 2, atol=0.04)
    np.testing.assert_allclose(m.score_samples(rows), -np.log(24), atol=0.02)
    hidden = np.stack([rows[0], rows[0]]).astype(float)
    hidden[0, 0] = np.nan  # the spin opposite tells it
    hidden[1, [0, 12]] = np.nan  # and without that, the row may as well begin one spin later
    filled = m.complete(hidden)
    assert filled[0, 0] == 1
    np.testing.assert_allclose(filled[1, [0, 12]], 0.5, atol=0.05)


@pytest.mark.slow("cells of a model without noise")
def test_rows_that_no_y_produces_say_so(clipped):
    impossible = 1 - (clipped.thresholds_ > 0).astype(int)  # all bits against their biases, in all directions
    X = np.stack([impossible, clipped.sample(1, random_state=0)[0]])
    with pytest.warns(UserWarning, match="1 of 2 rows cannot be produced by any y"):
        found = clipped.posterior(X)
    assert found.violated.tolist()[1] == 0
    wrong = np.sum(clipped.inverse_transform(found.mean[:1]) != X[:1])
    assert found.violated[0] == wrong > 0
    assert clipped.score_samples(X)[0] == -np.inf
    assert np.isnan(found.covariance[0]).all()


@pytest.mark.slow("cells of a model without noise")
def test_a_morph_flips_bits_one_after_another(clipped):
    a, b = clipped.sample(2, random_state=3)
    way = clipped.morph(a, b, n_steps=50)
    np.testing.assert_array_equal(way.bits[[0, -1]], [a, b])
    flips = np.abs(np.diff(way.bits.astype(int), axis=0))
    np.testing.assert_array_equal(flips.sum(0), a != b)  # each at most once: a line crosses a hyperplane once
    assert flips.sum(1).max() <= 3
    middle = (way.cross_fade[0] + way.cross_fade[-1]) / 2
    np.testing.assert_allclose(way.cross_fade[[24, 25]].mean(0), middle, atol=1e-12)
    with pytest.raises(ValueError, match="n_steps"):
        clipped.morph(a, b, 1)


@pytest.mark.slow("a separate fit")
def test_a_morph_of_rows_with_names(table):
    frame = pd.DataFrame(table, columns=list("abcdefghijkl"))
    m = ClippedGaussian(2).fit(frame)
    way = m.morph(frame.iloc[0], frame.iloc[1])
    turned = m.morph(frame.iloc[0][::-1], frame.iloc[[1]][list("lkjihgfedcba")])
    np.testing.assert_array_equal(way.latents, turned.latents)
    with pytest.raises(ValueError, match="x_b has no 'a'"):
        m.morph(frame.iloc[0], frame.iloc[1].drop("a"))
    with pytest.raises(ValueError, match="x_a must be one row of 12 bits"):
        m.morph(table[:2], table[1])


def test_a_rare_column_does_not_hide_a_misfit():
    X = np.zeros((5000, 8), int)
    X[:, :6] = sum_constrained(5000, n_features=6, random_state=0)
    X[:3, 6], X[2:4, 7] = 1, 1
    with pytest.warns(UserWarning, match="far below what chance"):
        ClippedGaussian(2, extraction="components").fit(X)


def test_the_noise_has_its_share_of_every_column(table, fitted):
    """Where components explain more than a column has, weights are shortened: x has variance 1, phi stays."""
    m = ClippedGaussian("positive").fit(table)
    np.testing.assert_allclose(np.sum(m.components_**2, 0) + m.noise_variance_, 1)
    assert m.noise_variance_.min() == pytest.approx(0.1)
    np.testing.assert_allclose(m.thresholds_, fitted.thresholds_)
    assert np.all(np.any(m.components_ != 0, 1))


def correlated(correlation, means=0.5):
    """Moments of bits whose Gaussians are correlated so."""
    phi = bivariate.thresholds(np.full(len(correlation), means))
    covariance = bivariate.covariance(phi[:, None], phi, correlation) / 4
    np.fill_diagonal(covariance, means * (1 - means))
    return np.full(len(correlation), means), covariance


@pytest.mark.parametrize("means", [0.5, 0.2])
def test_factors_may_explain_nearly_all_of_a_column(means):
    """Communalities above 0.9 are found as they are; rows have probabilities and posteriors all the same."""
    loadings = np.sqrt([0.938, 0.956, 0.6, 0.5, 0.7])
    exact = np.outer(loadings, loadings)
    np.fill_diagonal(exact, 1)
    m = ClippedGaussian.from_moments(*correlated(exact, means), n_components=1, noise="unique", extraction="factors")
    np.testing.assert_allclose(m.communalities_, loadings**2, atol=1e-5)
    np.testing.assert_allclose(m.noise_variance_, 1 - loadings**2, atol=1e-5)
    every = (np.arange(32)[:, None] >> np.arange(5)) & 1
    assert np.exp(m.score_samples(every)).sum() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("keep_pairs", [True, False])
def test_a_heywood_case_is_reported_with_the_names_of_its_columns(keep_pairs):
    """The correlations of the first column with two others are too large for how these are correlated."""
    correlation = np.array([[1, 0.75, 0.73], [0.75, 1, 0.45], [0.73, 0.45, 1]])
    heywood = pytest.warns(
        UserWarning, match=r"a Heywood case: .* of column 0, whose uniqueness is at its bound of 0.005"
    )
    with heywood, pytest.warns(UserWarning, match="leaves something over"):
        m = ClippedGaussian.from_moments(*correlated(correlation), n_components=1, noise="unique", repair=False)
    # lambda_1^2 = 0.995, and the others are least squares given it
    np.testing.assert_allclose(m.components_[0], [0.997497, 0.717313, 0.696215], atol=2e-6)
    np.testing.assert_allclose(m.noise_variance_[0], 0.005, rtol=1e-9)
    exact = ClippedGaussian.from_moments(*correlated(correlation))
    frame = pd.DataFrame(exact.sample(20_000, random_state=0), columns=["a", "b", "c"])
    with pytest.warns(UserWarning, match=r"of column 0 \('a'\), whose"):
        m = ClippedGaussian(1, extraction="factors", keep_pairs=keep_pairs).fit(frame)
    np.testing.assert_allclose(m.communalities_, [0.995, 0.516, 0.486], atol=0.05)
    np.testing.assert_allclose(m.communalities_ + m.noise_variance_, 1)


@pytest.mark.parametrize("bias", [True, False])
def test_the_cross_fade_is_linear_pca(table, bias):
    m = ClippedGaussian(2, bias=bias).fit(table)
    pca = PCA(2).fit(table.astype(float))
    kept = pca.inverse_transform(pca.transform(table[:2].astype(float)))
    np.testing.assert_allclose(m.morph(table[0], table[1], 2).cross_fade, kept, atol=1e-9)


def test_a_table_without_structure_says_so():
    X = np.random.default_rng(0).integers(0, 2, (200, 6))
    heywood = pytest.warns(UserWarning, match=r"a Heywood case: .* of column 3, whose .*: leave out a column")
    with heywood, pytest.warns(UserWarning, match="larger than chance"):
        assert ClippedGaussian("parallel", random_state=0, n_init=3).fit(X).n_components_ == 1


# ---------------------------------------------------------------- real data


@pytest.mark.real_data
def test_held_out_twos(real_data, monkeypatch):
    """A prototype had 113.0 108.2 98.8 88.6 77.6 nats at P = 1 2 4 8 16 on another split (independent: 123.1)."""
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    X = load_dataset("usps_twos").X
    order = np.random.default_rng(0).permutation(len(X))
    train, test = X[order[:731]], X[order[731:]]
    for k, expected in ((2, 108.2), (8, 88.6)):
        with pytest.warns(UserWarning, match="no Gaussian has"):
            m = ClippedGaussian(k, likelihood="ep").fit(train)
        assert -m.score(test) == pytest.approx(expected, abs=2)
        if k == 2:
            exact = m.set_params(likelihood="importance").score_samples(test)
            assert np.abs(m.set_params(likelihood="ep").score_samples(test) - exact).max() < 0.01


# ---------------------------------------------------------------- very many columns


@pytest.mark.parametrize(("extraction", "missing"), [("components", 0.2), ("factors", 0.0)])
def test_without_pairs_the_model_is_the_same(table, extraction, missing):
    X = tables.with_holes(table, missing)
    whole = ClippedGaussian(2, extraction=extraction).fit(X)
    lean = ClippedGaussian(2, extraction=extraction, keep_pairs=False).fit(X)
    # minres stops where least squares hardly fall any more, which is somewhat before its end
    close = 1e-5 if extraction == "components" else 2e-3
    np.testing.assert_allclose(lean.components_, whole.components_, atol=close)
    np.testing.assert_allclose(lean.thresholds_, whole.thresholds_, atol=1e-9)
    np.testing.assert_allclose(lean.noise_variance_, whole.noise_variance_, atol=2 * close)
    n = len(lean.eigenvalues_)
    assert n >= 5
    np.testing.assert_allclose(lean.eigenvalues_, whole.eigenvalues_[:n], atol=1e-5)
    np.testing.assert_allclose(lean.binary_eigenvalues_, whole.binary_eigenvalues_[:n], atol=1e-5)
    assert lean.converged_
    assert lean.n_components_ == 2


def test_what_is_not_kept_says_so_and_a_file_is_small(table, tmp_path):
    lean = ClippedGaussian(2, keep_pairs=False).fit(table)
    for m in (lean, _saved(lean, tmp_path)):
        for name in ("correlation_", "binary_correlation_", "correlation_error_", "undetermined_", "corrected_"):
            assert getattr(m, name) is None
        assert np.isnan(m.negative_share_)
        assert len(m.history_) == 0
        np.testing.assert_array_equal(m.components_, lean.components_)
        with pytest.raises(ValueError, match="keep_pairs=True"):
            m.morph(table[0], table[1])
    for one in ({"repair": True}, {"n_components": "positive"}):
        with pytest.raises(ValueError, match="keep_pairs=False does not go with"):
            ClippedGaussian(keep_pairs=False, **one).fit(table)


def test_a_file_lacks_pairs_only_if_its_model_does(table, tmp_path):
    """As one would be written that pretends to: the checksum is right."""
    lean = ClippedGaussian(2, keep_pairs=False).fit(table)
    lean.keep_pairs = True
    with pytest.raises(ModelFileError, match="negative_share"):
        _saved(lean, tmp_path)
    whole = ClippedGaussian(2).fit(table)
    whole.params_ = whole.params_.replace(correlation=np.zeros((0, 0)))
    with pytest.raises(ModelFileError, match="'correlation' must have shape"):
        _saved(whole, tmp_path)


def _saved(m, folder):
    m.save(folder / "m.safetensors")
    return load(folder / "m.safetensors")


def test_very_many_columns_make_no_large_file_and_pairs_are_kept_if_asked(tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (12, 1100)).astype(np.uint8)
    m = ClippedGaussian(2).fit(X)
    assert m.correlation_ is None
    assert m.components_.shape == (2, 1100)
    m.save(tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").stat().st_size < 100_000  # 30 MB with all pairs
    assert ClippedGaussian(2)._keeps(1024)
    assert not ClippedGaussian(2)._keeps(1025)
    assert ClippedGaussian(2, keep_pairs=True)._keeps(1025)
    assert ClippedGaussian(2, repair=True)._keeps(1025)


def test_a_model_that_would_not_fit_is_refused_before_the_work_begins(table, monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 20_000)
    with pytest.raises(TooLargeError, match=r"12 columns.* needs about 36.9 kB of memory, and 12.0 kB is the limit"):
        ClippedGaussian(2).fit(table)
    with pytest.raises(MemoryError, match=r"needs about .* of memory.*leave columns out"):
        ClippedGaussian(2, keep_pairs=False).fit(table)
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    assert ClippedGaussian(2).fit(table).converged_


def test_time_is_heeded(monkeypatch):
    """The clock is ours: every look at it is a second later."""
    ticks = iter(range(10**6))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    X = np.random.default_rng(0).integers(0, 2, (12, 1100)).astype(np.uint8)
    with pytest.raises(FitError, match=r"raise max_time, or take fewer columns"):
        ClippedGaussian(2, max_time=1.0).fit(X)


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    "settings",
    [{"keep_pairs": False}, pytest.param({"n_components": "parallel"}, marks=pytest.mark.slow("tables are simulated"))],
)
def test_counts_are_the_table_written_out(table, settings):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((300, 12)) < 0.1, np.nan, table[:300])
    counts = rng.integers(0, 5, len(rows))
    settings = {"n_components": 2, "random_state": 0, **settings}
    a = ClippedGaussian(**settings).fit(rows, sample_weight=counts)
    b = ClippedGaussian(**settings).fit(np.repeat(rows, counts, axis=0))
    for name in ("components_", "thresholds_", "noise_variance_", "means_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("keep_pairs", [True, False])
def test_an_empty_cell_is_empty_whatever_the_weights(table, keep_pairs):
    """Weights in tenths are those in whole numbers, but for rows being fewer: cells, constant columns and pairs too."""
    rows = table[:400].copy()
    rows[:, 1] &= rows[:, 0]  # never the second alone
    rows[:, 2] = 1
    weight = np.random.default_rng(1).integers(1, 5, len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"n_components": 1, "correction": 0.0, "keep_pairs": keep_pairs}
        a, b = (ClippedGaussian(**settings).fit(rows, sample_weight=w) for w in (weight, 0.1 * weight))
    np.testing.assert_allclose(a.components_, b.components_, atol=1e-6)
    np.testing.assert_allclose(np.delete(a.thresholds_, 2), np.delete(b.thresholds_, 2), atol=1e-6)
    if keep_pairs:
        np.testing.assert_allclose(a.correlation_, b.correlation_, atol=1e-9)
        assert a.correlation_[0, 1] == b.correlation_[0, 1] == 1
        assert a.correlation_[2, 2] == b.correlation_[2, 2] == 0


# --- maximum likelihood ---


@pytest.mark.slow("EM until it has converged")
def test_likelihood_of_lsat6_is_that_of_a_normal_ogive(tmp_path):
    """As high as the logistic model's, -2466.653, but for the link; criteria; and a file of it."""
    X = load_dataset("lsat6").X
    by_moments, m = ClippedGaussian(1).fit(X), ClippedGaussian(1, learner="likelihood").fit(X)
    assert m.converged_
    assert m.left_to_gain_ < 1e-6 * len(X)
    assert m.log_likelihood(X) == pytest.approx(-2466.685, abs=0.002)
    assert m.log_likelihood(X) > by_moments.log_likelihood(X) + 0.02
    assert m.objective_ == pytest.approx(m.log_likelihood(X), abs=0.002)
    assert m.history_[-1] == pytest.approx(m.objective_, abs=0.01)
    np.testing.assert_allclose(m.noise_variance_, 1 - m.communalities_)
    assert m.n_parameters_ == 10
    assert m.aic(X) == pytest.approx(2 * 10 - 2 * m.log_likelihood(X))
    assert m.bic(X) == pytest.approx(10 * np.log(1000) - 2 * m.log_likelihood(X))
    with pytest.raises(ValueError, match="learner='likelihood'"):
        by_moments.aic(X)
    m.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.learner == "likelihood"
    assert again.aic(X) == m.aic(X)
    np.testing.assert_array_equal(again.components_, m.components_)


@pytest.mark.slow("EM is compiled for")
def test_nothing_has_converged_without_an_iteration():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        m = ClippedGaussian(1, learner="likelihood", max_iter=0).fit(load_dataset("lsat6").X)
    assert not m.converged_


def test_moments_alone_have_no_likelihood():
    with pytest.raises(ValueError, match="needs rows"):
        ClippedGaussian.from_moments([0.5, 0.5], np.eye(2) / 4, noise="unique", n_components=1, learner="likelihood")
