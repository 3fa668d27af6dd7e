"""Items: observed proportions against curves, information with its error, the Wright map, and pictures of a fit."""

import numpy as np
import pandas as pd
import pytest
from pictures import names_of, overlapping
from scipy.special import expit
from tests.fitted import known

from latentbits import plot
from latentbits.core.errors import DataError
from latentbits.core.nodes import evenly_spaced
from latentbits.data import load_dataset
from latentbits.estimators.families import family
from latentbits.estimators.latent_trait.item_response import ItemResponse
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.estimators.latent_trait.trait_maps import TraitMaps
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.figures import fitted
from latentbits.figures.latent_trait import item_arrays, items

RULE = evenly_spaced(161, 1)
NODES, LOG_WEIGHTS = RULE.nodes[:, 0], RULE.log_weights


def with_curves(slopes, intercepts, q=1, **names):
    """A model whose curves are set."""
    none = dict.fromkeys(("log_variance", "centre", "scale"), np.zeros(0))
    weights = np.reshape(slopes, (-1, q))
    arrays = {"weights": weights, "bias": np.array(intercepts), **none}
    return known(ItemResponse(n_factors=q), arrays, n_features_in_=len(weights), **names)


SLOPES, INTERCEPTS = [0.98755, 1.0808, 1.7075, 0.76499, 0.73567], [1.8559, 0.80797, 1.8052, 0.486, 1.8545]  # of mirt


@pytest.fixture(scope="module")
def lsat():
    return load_dataset("lsat7"), with_curves(SLOPES, INTERCEPTS)


def drawn(slopes, difficulty, n, seed=0):
    """Answers of n persons, and the curves at the nodes."""
    rng = np.random.default_rng(seed)
    trait = rng.standard_normal((n, 1))
    bits = (rng.random((n, len(slopes))) < expit(slopes * (trait - difficulty))).astype(float)
    return bits, expit(slopes * (NODES[:, None] - difficulty))


# --- observed proportions ---


def test_observed_shares_lie_on_the_curve_where_the_model_is_right():
    slopes, difficulty = np.array([1.0, 2.0, 0.7, -1.2, 1.5]), np.array([-1.0, 0.0, 0.5, 0.2, 1.0])
    bits, curves = drawn(slopes, difficulty, 20_000)
    found = item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves)
    inside = (found.low <= found.expected) & (found.expected <= found.high)
    assert inside[found.counts > 0].mean() > 0.85
    there = found.counts > 0
    at = expit(slopes[:, None] * (found.places - difficulty[:, None]))
    np.testing.assert_allclose(at[there], found.expected[there], atol=1e-3)
    np.testing.assert_allclose(found.counts.sum(axis=1), 20_000)


def test_an_item_of_another_slope_is_seen():
    slopes, difficulty = np.ones(8), np.zeros(8)
    bits, _ = drawn(np.r_[3.0, slopes[1:]], difficulty, 20_000)
    curves = expit(slopes * (NODES[:, None] - difficulty))
    found = item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves)
    gap = found.observed[0] - found.expected[0]
    assert gap[0] < -0.05
    assert gap[-1] > 0.05


def test_expected_shares_are_those_of_bayes_without_the_item():
    bits = np.array([[1.0, 0.0, np.nan]])
    curves = expit(np.array([1.0, 2.0, 0.5]) * NODES[:, None])
    weights = np.exp(LOG_WEIGHTS)
    found = item_arrays._expected_by_others(bits, LOG_WEIGHTS, curves)[0]
    others = weights * (1 - curves[:, 1])
    assert found[0] == pytest.approx(others @ curves[:, 0] / others.sum())
    both = weights * curves[:, 0] * (1 - curves[:, 1])
    assert found[2] == pytest.approx(both @ curves[:, 2] / both.sum())


def test_weights_count_and_missing_answers_do_not():
    bits, curves = drawn(np.ones(4), np.zeros(4), 60)
    twice = item_arrays.observed_by_others(np.concatenate([bits, bits]), NODES, LOG_WEIGHTS, curves, n_groups=3)
    weighed = item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves, np.full(60, 2.0), n_groups=3)
    for one, other in zip(twice, weighed):
        np.testing.assert_allclose(one, other)
    bits[:50, 1] = np.nan
    assert item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves).counts[1].sum() == 10


def test_an_item_without_answers_has_no_groups():
    bits, curves = drawn(np.ones(3), np.zeros(3), 40)
    bits[:, 2] = np.nan
    found = item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves)
    assert found.counts[2].sum() == 0
    assert np.isnan(found.places[2]).all()
    ax = items.plot_item_fit(NODES, curves[:, 2], found, 2, name="no $answers$")
    assert ax.get_title(loc="left") + ax.get_title() == "no $answers$"
    ax.figure.canvas.draw()


def test_a_flat_curve_has_its_groups_in_the_middle():
    found = item_arrays._inverse(NODES, np.full(len(NODES), 0.3), np.array([0.3, np.nan]))
    np.testing.assert_array_equal(found, [0.0, np.nan])


def test_item_fit_draws_a_point_and_a_bar_a_group():
    bits, curves = drawn(np.ones(6), np.linspace(-1, 1, 6), 500)
    found = item_arrays.observed_by_others(bits, NODES, LOG_WEIGHTS, curves)
    ax = items.plot_item_fit(NODES, curves[:, 3], found, 3)
    bars, points = ax.collections
    n_groups = int((found.counts[3] > 0).sum())
    assert len(bars.get_segments()) == len(points.get_offsets()) == n_groups > 2
    segment = bars.get_segments()[0]
    assert segment[0][1] <= points.get_offsets()[0][1] <= segment[1][1]


# --- information ---


def test_the_error_is_the_inverse_root_of_the_information():
    x = np.linspace(-2, 2, 9)
    information = np.outer(4 - x**2 / 2, [0.5, 0.5])
    ax = items.plot_test_information(x[:, None], information)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), information.sum(axis=1))
    (other,) = (one for one in ax.figure.axes if one is not ax)
    np.testing.assert_allclose(other.lines[0].get_ydata(), 1 / np.sqrt(information.sum(axis=1)))


def test_information_must_be_there():
    with pytest.raises(DataError, match="above 0"):
        items.plot_test_information(np.zeros(3), np.zeros(3))


# --- Wright map ---


@pytest.mark.parametrize("d", [5, 60])
def test_wright_map_names_every_item_and_none_on_another(d):
    rng = np.random.default_rng(d)
    difficulty = rng.normal(0, 1, d)
    names = [f"a rather long name {item}" for item in range(d)]
    ax = items.plot_wright_map(rng.normal(size=300), difficulty, names)
    assert set(names_of(ax)[2:]) == {items.short(name, 18) for name in names}
    assert overlapping(ax) == []
    if d == 5:
        heights = [text.xy[1] for text in ax.texts[2:]]
        span = np.diff(ax.get_ylim())[0]
        np.testing.assert_allclose(heights, difficulty, atol=0.05 * span)


def test_items_beyond_the_scale_are_reported():
    ax = items.plot_wright_map(np.linspace(-1, 1, 50), np.array([0.0, 31.25, -8.0, np.nan]), ["a", "b", "c", "d"])
    assert names_of(ax)[2:] == ["a", "b ↑ 31.2", "c ↓ -8"]
    assert max(ax.get_ylim()) < 2


def test_persons_count_by_their_weights():
    scores = np.array([-1.0, 0.0, 1.0])
    found = item_arrays.wright_map(scores, np.zeros(2), np.array([1.0, 5.0, 2.0]))
    assert found.persons.sum() == 8
    with pytest.raises(DataError, match="finite"):
        item_arrays.wright_map(np.array([np.nan]), np.zeros(2))


def test_names_go_to_the_nearest_free_column():
    found = item_arrays.name_columns(np.array([5.0, 50.0, 50.5, 51.0, 90.0]), np.full(5, 30.0), 10.0, (100.0, 100.0))
    assert found.columns.tolist() == [0, 0, 1, 2, 0]
    np.testing.assert_allclose(found.heights, [5.0, 50.0, 50.5, 51.0, 90.0])
    crowded = item_arrays.name_columns(np.full(8, 50.0), np.full(8, 90.0), 10.0, (100.0, 100.0))
    assert np.diff(np.sort(crowded.heights)).min() == pytest.approx(10.0)


# --- of a fitted model ---


def test_pictures_of_a_fit_have_the_names_of_its_columns(lsat, tmp_path):
    data, model = lsat
    curves = plot.item_curves(model, data.X, data.feature_names)
    titles = [ax.get_title(loc="left") for ax in curves.axes if ax.get_visible()]
    assert titles == list(data.feature_names)
    information = plot.item_information(model, data.feature_names)
    assert set(names_of(information.axes[0])) == set(data.feature_names)
    wright = plot.wright_map(model, data.X, data.feature_names)
    assert set(names_of(wright.axes[0])[2:]) == set(data.feature_names)
    for kind in ("svg", "png"):
        assert plot.save_figure(wright, tmp_path / f"wright.{kind}").stat().st_size > 1000


def test_names_of_the_frame_are_taken(lsat):
    names = ["one", "two", "three", "four", "five"]
    frame = pd.DataFrame(lsat[0].X, columns=names)
    model = with_curves(SLOPES, INTERCEPTS, feature_names_in_=np.array(names, object))
    figure = plot.item_pairs(model, frame)
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["two", "three", "four", "five"]
    assert fitted._names(model, "abcde") == list("abcde")
    with pytest.raises(DataError, match="found 2"):
        plot.wright_map(model, frame, ["a", "b"])


def test_slopes_that_run_away_are_left_out_of_the_information(lsat, monkeypatch):
    data, model = lsat
    steep = model.discrimination_.copy()
    steep[1] = 40.0
    monkeypatch.setattr(model, "discrimination_", steep)
    figure = plot.item_information(model, data.feature_names)
    assert "item2" not in names_of(figure.axes[0])
    assert "item2" in figure.get_supxlabel()


def test_what_can_be_drawn_depends_on_the_model(lsat):
    data, model = lsat
    assert tuple(fitted.figures_of(model, data.X)) == family("item-response").figures
    assert tuple(fitted.figures_of(BernoulliMixture(2), data.X)) == family("mixture").figures
    assert fitted.figures_of(TraitMaps(), data.X) == {}
    assert tuple(fitted.figures_of(LatentTrait(1), data.X)) == family("latent-trait").figures
    plane = with_curves(np.ones((5, 2)), INTERCEPTS, q=2)
    with pytest.raises(ValueError, match="for one trait, found 2"):
        plot.item_curves(plane, data.X)
    assert len(names_of(plot.item_pairs(plane, data.X).axes[0])) == 10


def test_a_stream_is_refused(lsat):
    data, model = lsat
    with pytest.raises(TypeError, match="in memory"):
        plot.item_curves(model, lambda: iter([data.X]))
