"""Latent classes: profiles with intervals, and residuals of pairs of columns."""

import numpy as np
import pytest
from pictures import names_of
from scipy.special import expit
from tests.fitted import known

from latentbits import plot
from latentbits.core.errors import DataError
from latentbits.core.nodes import evenly_spaced
from latentbits.data import load_dataset
from latentbits.estimators.latent_trait.trait_maps import TraitMaps
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.figures import fitted
from latentbits.figures.any_model import pairs
from latentbits.figures.mixture import arrays, pictures

RNG = np.random.default_rng(0)
SHARES, MEANS = np.array([0.2, 0.5, 0.3]), RNG.uniform(0.05, 0.95, (3, 7))


@pytest.fixture(scope="module")
def slides():
    """Two classes of slides at the maximum of their likelihood, by plain EM."""
    data = load_dataset("carcinoma")
    share, means = np.array([0.5, 0.5]), np.array([[0.8], [0.2]]) * np.ones((2, 7))
    for _ in range(2000):
        joint = data.X @ np.log(means).T + (1.0 - data.X) @ np.log1p(-means).T + np.log(share)
        posterior = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        share, means = (
            posterior.mean(axis=0),
            (posterior.T @ data.X / posterior.sum(axis=0)[:, None]).clip(1e-9, 1 - 1e-9),
        )
    arrays = {"weights": share, "means": means}
    return data, known(BernoulliMixture(2, smoothing=0), arrays, n_features_in_=7)


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


# --- profiles ---


def test_profiles_have_a_line_a_column_and_a_colour_a_class():
    ax = pictures.plot_class_profiles(SHARES, MEANS, list("abcdef$"))
    assert labels(ax.yaxis) == list("abcdef$")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["class 1, 50%", "class 2, 30%", "class 3, 20%"]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), MEANS[1])
    places = np.array([line.get_ydata() for line in ax.lines[:3]])
    np.testing.assert_array_equal(np.rint(places), np.tile(np.arange(7), (3, 1)))
    assert np.diff(places, axis=0).min() > 0.1  # classes that agree are seen beside one another


def test_intervals_stay_within_bounds_and_points_without_are_hollow():
    errors = np.full(MEANS.shape, 0.2)
    means = MEANS.copy()
    means[1, 2], errors[1, 2] = 1.0, np.nan
    found = arrays.profiles(SHARES, means, errors)
    finite = ~np.isnan(found.low)
    assert finite.sum() == means.size - 1
    assert ((found.low > 0) & (found.high < 1))[finite].all()
    assert ((found.low < found.means) & (found.means < found.high))[finite].all()
    ax = pictures.plot_class_profiles(SHARES, means, errors=errors)
    assert ax.get_legend().get_texts()[-1].get_text() == "no interval"
    hollow = [one for one in ax.collections if one.get_gid() == "hollow" and len(one.get_offsets())]
    assert len(hollow) == 1
    np.testing.assert_allclose(hollow[0].get_facecolor()[0], [1, 1, 1, 1])
    assert "95 % intervals" in ax.get_xlabel()


def test_the_interval_is_that_of_the_log_odds():
    low, high = arrays.logit_interval(np.array([0.8]), np.array([0.05]))
    np.testing.assert_allclose(low, expit(np.log(4) - 1.959964 * 0.05 / 0.16), rtol=1e-6)
    np.testing.assert_allclose(high, expit(np.log(4) + 1.959964 * 0.05 / 0.16), rtol=1e-6)


def test_of_many_columns_those_that_differ_are_shown():
    means = np.full((2, 100), 0.5)
    means[0, [3, 70]] = 0.9
    ax = pictures.plot_class_profiles(np.array([0.5, 0.5]), means, most=2)
    assert labels(ax.yaxis) == ["4", "71"]
    assert "2 of 100 columns" in ax.get_xlabel()


def test_profiles_of_other_shapes_are_refused():
    with pytest.raises(DataError, match=r"found \(2,\)"):
        arrays.profiles(np.ones(2) / 2, MEANS)
    with pytest.raises(DataError, match=r"and \(3, 2\)"):
        arrays.profiles(SHARES, MEANS, np.ones((3, 2)))


def test_profiles_of_a_fit(slides, tmp_path):
    data, model = slides
    figure = plot.class_profiles(model, np.full(model.means_.shape, 0.05), data.feature_names)
    assert labels(figure.axes[0].yaxis) == list("ABCDEFG")
    assert plot.save_figure(figure, tmp_path / "classes.svg").read_text("utf-8").count("class 1, 50%") == 1


# --- residuals of pairs ---


def test_pairs_implied_by_classes_are_those_of_all_patterns():
    rows = np.array([[(number >> bit) & 1 for bit in range(4)] for number in range(16)])
    means = MEANS[:, :4]
    p = np.prod(np.where(rows[:, None] == 1, means, 1 - means), axis=2) @ SHARES
    expected = np.array([[p[(rows[:, j] == 1) & (rows[:, k] == 1)].sum() for k in range(4)] for j in range(4)])
    np.testing.assert_allclose(pairs.implied_pairs(SHARES, means), expected)


def test_residuals_are_pearsons_over_what_was_observed_together():
    rng = np.random.default_rng(1)
    bits = (rng.random((80, 3)) < 0.4).astype(float)
    bits[:30, 2] = np.nan
    weights = rng.integers(1, 4, 80).astype(float)
    both = pairs.implied_pairs(SHARES, MEANS[:, :3])
    found = pairs.pair_residuals(bits, both, weights)
    for j, k in ((0, 1), (0, 2), (2, 1)):
        seen = ~np.isnan(bits[:, j]) & ~np.isnan(bits[:, k])
        n, total, expected = weights[seen].sum(), 0.0, []
        p = {(1, 1): both[j, k], (1, 0): both[j, j] - both[j, k], (0, 1): both[k, k] - both[j, k]}
        p[0, 0] = 1 - sum(p.values())
        for (a, b), share in p.items():
            observed = weights[seen & (bits[:, j] == a) & (bits[:, k] == b)].sum()
            total += (observed - n * share) ** 2 / (n * share)
            expected.append(n * share)
        assert abs(found.signed[j, k]) == pytest.approx(total)
        assert found.least[j, k] == pytest.approx(min(expected))
        assert found.counts[j, k] == n
    equal = np.average(bits[:, 0] == bits[:, 1], weights=weights)
    assert (found.signed[0, 1] > 0) == (equal > both[0, 1] + 1 - both[0, 0] - both[1, 1] + both[0, 1])
    np.testing.assert_allclose(found.signed, found.signed.T)


def test_what_cannot_be_is_no_misfit_while_it_is_not_there():
    both = np.array([[0.5, 0.0], [0.0, 0.5]])  # never equal
    apart = np.array([[0, 1], [1, 0]] * 10)
    assert abs(pairs.pair_residuals(apart, both).signed[0, 1]) < 1e-9
    assert pairs.pair_residuals(np.concatenate([apart, [[1, 1]]]), both).signed[0, 1] == np.inf


def test_carcinoma_residuals_are_those_of_polca(slides):
    data, model = slides
    found = fitted._residuals(model, data.X.astype(float), None).signed
    published = {"BE": 8.869, "DF": 6.85, "BG": 5.582, "EG": 3.607, "AB": 1.678, "DE": 0.1543}  # poLCA 1.6
    for (j, k), value in published.items():
        assert abs(found["ABCDEFG".index(j), "ABCDEFG".index(k)]) == pytest.approx(value, rel=2e-3)


def test_residuals_of_items_are_those_of_mirt():
    data = load_dataset("lsat7")
    slopes = np.array([0.98755, 1.0808, 1.7075, 0.76499, 0.73567])  # mirt's own estimates
    intercepts = np.array([1.8559, 0.80797, 1.8052, 0.486, 1.8545])
    rule = evenly_spaced(161, 1)
    both = pairs.implied_pairs(np.exp(rule.log_weights), expit(slopes * rule.nodes + intercepts))
    found = pairs.pair_residuals(data.X, both).signed
    published = [0.451, 0.8564, 1.053, 2.578, 0.2661, 0.1544, 2.393, 1.383, 0.002956]
    np.testing.assert_allclose(np.abs(found[np.tril_indices(5, -1)][:9]), published, rtol=5e-3, atol=2e-5)


@pytest.mark.parametrize("q", [2, 4])
def test_pairs_implied_by_traits_agree_with_draws(q):
    rng = np.random.default_rng(q)
    weights, bias = rng.normal(size=(q, 3)), rng.normal(size=3)
    rule = fitted._rule(q)
    both = pairs.implied_pairs(np.exp(rule.log_weights), expit(rule.nodes @ weights + bias))
    p = expit(rng.standard_normal((200_000, q)) @ weights + bias)
    np.testing.assert_allclose(both, np.where(np.eye(3) == 1, p.mean(axis=0), p.T @ p / len(p)), atol=4e-3)


def test_heat_map_names_both_sides_and_frames_what_is_beyond_chance():
    residuals = np.zeros((4, 4))
    residuals[2, 1] = residuals[1, 2] = -30.0
    residuals[3, 0] = residuals[0, 3] = 40.0
    least = np.full((4, 4), 9.0)
    least[3, 0] = least[0, 3] = 0.1
    ax = pairs.plot_pair_residuals(residuals, list("abcd"), least=least)
    assert labels(ax.yaxis) == list("bcd")
    assert labels(ax.xaxis) == list("abc")
    (frame,) = ax.patches
    assert frame.get_xy() == (0.5, 0.5)  # b across, c down
    assert "−30.0" in names_of(ax)
    assert "1 pairs too sparse" in ax.get_xlabel()
    assert len(pairs.plot_pair_residuals(residuals, list("abcd")).patches) == 2


def test_of_many_columns_those_with_the_largest_residuals_are_shown():
    residuals = np.zeros((90, 90))
    residuals[80, 5] = residuals[5, 80] = 50.0
    ax = pairs.plot_pair_residuals(residuals, most=2)
    assert labels(ax.yaxis) == ["81"]
    assert labels(ax.xaxis) == ["6"]
    assert "2 of 90 columns" in ax.get_xlabel()
    with pytest.raises(DataError, match=r"\(d, d\)"):
        pairs.plot_pair_residuals(np.zeros((2, 3)))


def test_pairs_of_a_model_without_them_are_refused(slides):
    data, _ = slides
    with pytest.raises(ValueError, match="one map"):
        fitted._residuals(TraitMaps(2, 1), data.X.astype(float), None)
