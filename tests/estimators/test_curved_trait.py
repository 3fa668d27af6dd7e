"""`LatentTrait(decoder="mlp")`: the face of a curved surface."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from latentbits import LatentTrait, load
from latentbits.engines.order import random_order
from latentbits.estimators.families import name_of
from latentbits.figures.fitted import figures_of, item_curves, item_information, wright_map
from latentbits.telling import latent_trait as telling
from latentbits.telling.records import Table


def on_a_horseshoe(n, d=12, seed=0):
    """Rows along a bent line: each bit is on in a stretch of it, so that none goes up or down all along."""
    rng = np.random.default_rng(seed)
    place, centres = rng.uniform(0, 1, (n, 1)), np.linspace(0.1, 0.9, d)
    log_odds = 4 - 60 * np.abs(place - centres) ** 1.5
    return (rng.random((n, d)) < 1 / (1 + np.exp(-log_odds))).astype(float)


def small(**settings):
    given = {"decoder_layers": (8,), "n_nodes": 6, "n_epochs": 4, "random_state": 0} | settings
    return LatentTrait(given.pop("n_components", 2), decoder="mlp", **given)


@pytest.fixture(scope="module")
def table():
    return on_a_horseshoe(300)


@pytest.fixture(scope="module")
def fitted(table):
    return small().fit(table)


@pytest.mark.slow
def test_a_curve_tells_more_of_unseen_rows_than_a_line():
    seen, unseen = on_a_horseshoe(600, seed=1), on_a_horseshoe(400, seed=2)
    curve = LatentTrait(
        1, decoder="mlp", decoder_layers=(16, 16), n_nodes=7, n_epochs=60, learning_rate=0.02, random_state=0
    )
    gain = curve.fit(seen).score_samples(unseen) - LatentTrait(1, weight_prior=3, random_state=0).fit(
        seen
    ).score_samples(unseen)
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    assert gain.mean() > 0.5


@pytest.mark.slow
def test_of_a_straight_trait_a_curve_tells_about_as_much():
    rng = np.random.default_rng(3)
    slopes, bias = rng.uniform(0.8, 2, 8), rng.normal(size=8)
    table = (rng.random((1400, 8)) < 1 / (1 + np.exp(-(rng.normal(size=(1400, 1)) * slopes + bias)))).astype(float)
    seen, unseen = table[:1000], table[1000:]
    curve = LatentTrait(1, decoder="mlp", decoder_layers=(8,), n_nodes=7, n_epochs=20, random_state=0)
    line = LatentTrait(1, random_state=0)
    assert curve.fit(seen).score(unseen) > line.fit(seen).score(unseen) - 0.03


def test_it_has_the_face_of_all(fitted, table):
    assert (fitted.stop_reason_, fitted.converged_, fitted.n_iter_) == ("completed", False, 4)
    assert np.isnan(fitted.left_to_gain_)
    assert fitted.transform(table).shape == (300, 2)
    posterior = fitted.posterior(table[:5])
    assert posterior.covariance.shape == posterior.mode_covariance.shape == (5, 2, 2)
    np.testing.assert_allclose(fitted.scores(table[:5]).value, posterior.mean)
    p = fitted.inverse_transform(posterior.mean)
    assert p.shape == (5, 12)
    assert np.all((p > 0) & (p < 1))
    drawn = fitted.sample(50, random_state=1)
    assert set(np.unique(drawn)) == {0, 1}
    np.testing.assert_array_equal(drawn, fitted.sample(50, random_state=1))
    # (2 + 1 + 8) numbers a column, 2 x 8 + 8 units, less a rotation
    assert fitted.n_parameters_ == 11 * 12 + 24 - 1
    assert any("mlp" in note for note in fitted.fit_report(table).notes)
    assert name_of(fitted) == "2 latent traits, curved"
    assert "mean slopes of trait 1" in repr(fitted)


def test_axes_are_those_along_which_log_odds_change_most(fitted):
    slopes = fitted.mean_slopes_
    squares = slopes @ slopes.T
    np.testing.assert_allclose(squares[0, 1], 0, atol=1e-6 * squares[0, 0])
    assert squares[0, 0] >= squares[1, 1]
    assert not hasattr(fitted, "components_")


def test_the_same_seed_gives_the_same_fit(fitted, table):
    np.testing.assert_array_equal(small().fit(table).score_samples(table), fitted.score_samples(table))
    assert not np.array_equal(small(random_state=1).fit(table).score_samples(table), fitted.score_samples(table))


def test_a_file_holds_it(fitted, table, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(table), fitted.score_samples(table))
    np.testing.assert_array_equal(again.mean_slopes_, fitted.mean_slopes_)


def test_missing_bits_are_left_out(fitted, table):
    """Of the log-likelihood, exactly; and filled in by what is known of the row."""
    row = table[:1].copy()
    row[0, 3] = np.nan
    filled = np.repeat(row, 2, axis=0)
    filled[:, 3] = 0, 1
    zero, one = fitted.log_likelihoods(filled).value
    np.testing.assert_allclose(fitted.log_likelihoods(row).value[0], np.logaddexp(zero, one), atol=1e-4)
    np.testing.assert_allclose(fitted.complete(row)[0, 3], 1 / (1 + np.exp(zero - one)), atol=1e-4)
    holes = np.where(np.random.default_rng(0).random(table.shape) < 0.3, np.nan, table)
    assert np.isfinite(small().fit(holes).score(table))


def test_weights_count(table):
    """A row of weight 0 is none; and weights are not left out."""
    weights = np.r_[np.ones(150), np.zeros(150)]
    found = small().fit(table, sample_weight=weights)
    others = table.copy()
    others[150:] = 1 - others[150:]
    np.testing.assert_array_equal(
        found.score_samples(table), small().fit(others, sample_weight=weights).score_samples(table)
    )
    assert not np.array_equal(found.score_samples(table), small().fit(table).score_samples(table))


def test_a_stream_is_learned_from(fitted, table):
    """As it comes: where that is the order that rows in memory are shuffled to, with the same bits."""
    shuffled = table[np.concatenate(list(random_order(*table.shape)))]

    def batches():
        yield shuffled[:70]
        yield shuffled[70:]

    np.testing.assert_array_equal(small().fit(batches).score_samples(table), fitted.score_samples(table))


def test_held_out_rows_may_stop_it(table):
    """Those given; a tenth of a table that is large enough; or none, where none is asked for."""
    others = on_a_horseshoe(100, seed=5)
    given = small(n_epochs=6).fit(table, X_val=others)
    assert len(given.held_out_history_) >= 6
    rows = given.log_likelihoods(others)
    # the points are others since the axes were turned
    assert abs(rows.value.mean() - given.held_out_history_.max()) < 5 * given.error_of_mean(rows)
    many = on_a_horseshoe(500, seed=6)
    assert len(small(n_epochs=1).fit(many).held_out_history_) >= 1
    assert len(small(n_epochs=1, validation_fraction=0.0).fit(many).held_out_history_) == 0


def test_a_curve_that_learns_rows_by_heart_is_stopped():
    rng = np.random.default_rng(7)
    noise, others = (rng.random((n, 10)) < 0.5 for n in (40, 200))
    settings = {"decoder_layers": (32, 32), "n_epochs": 120, "learning_rate": 0.02}
    found = small(**settings).fit(noise.astype(float), X_val=others.astype(float))
    assert (found.stop_reason_, found.converged_) == ("held_out", False)
    assert found.score(others) > small(**settings).fit(noise.astype(float)).score(others) + 0.1


def test_the_error_of_a_sum_is_told_from_the_nets(fitted, table):
    """Below what errors of one sign would come to, and it does not shrink as if rows were independent."""
    rows = fitted.log_likelihoods(table)
    total, error = fitted.log_likelihood(table, return_error=True)
    np.testing.assert_allclose(total, np.sum(rows.value, dtype=np.float64))
    assert 0 < error < np.sum(rows.error)
    twice = fitted.log_likelihood(np.repeat(table, 2, axis=0), return_error=True)[1]
    np.testing.assert_allclose(twice, 2 * error, rtol=1e-4)
    np.testing.assert_allclose(fitted.log_likelihood(table, True, np.full(300, 2.0))[1], twice, rtol=1e-6)
    # with more points, of the same model, it is less, and covers the difference
    finer = deepcopy(fitted).set_params(n_nodes=12)
    better, less = finer.log_likelihood(table, return_error=True)
    assert less < error / 3
    assert abs(total - better) < 4 * np.hypot(error, less)


@pytest.mark.filterwarnings("ignore:.*ran out of max_time")
def test_it_ends_when_the_time_is_over(table):
    found = small(n_epochs=1000, max_time=1e-3).fit(table)
    assert found.stop_reason_ == "max_time"
    assert found.n_iter_ < 1000
    assert np.isfinite(found.score(table))


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"asymptote": True}, "asymptote"),
        ({"asymptote": np.array([0, 1])}, "asymptote"),
        ({"fixed": {0: {"slope": 1.0}}}, "fixed"),
        ({"population": "variance"}, "population"),
        ({"n_maps": 2}, "n_maps"),
        ({"method": "variational"}, "method"),
        ({"column_types": "infer"}, "column_types"),
        ({"equal_discrimination": True, "n_components": 1}, "equal_discrimination"),
        ({"n_nodes": 3}, "n_nodes"),
        ({"decoder_layers": ()}, "decoder_layers"),
        ({"decoder_layers": (4, 0)}, "decoder_layers"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, word, table):
    with pytest.raises(ValueError, match=word):
        small(**settings).fit(table)


def test_what_is_of_slopes_is_refused(fitted, table):
    for name in ("standard_errors", "item_fit", "reliability", "variational", "person_fit"):
        with pytest.raises(ValueError, match=f"{name}.* decoder='linear'"):
            getattr(fitted, name)(table)
    with pytest.raises(ValueError, match="item_information"):
        fitted.item_information([[0.0, 0.0]])
    with pytest.raises(ValueError, match="groups and covariates"):
        small().fit(table, groups=np.arange(300) % 2)
    with pytest.raises(ValueError, match="decoder_layers is for decoder='mlp'"):
        LatentTrait(1, decoder_layers=(4,)).fit(table)


def test_what_is_told_and_drawn_of_it(fitted, table):
    names = tuple(f"bit {j}" for j in range(12))
    told = telling.tell(fitted, Table(table, names))
    assert told.files["items"]().columns == ("mean_slope_1", "mean_slope_2")
    assert "average" in telling.show("m", fitted, table, 300.0).gallery.about
    assert set(figures_of(fitted, table)) == {"pairs"}
    line = small(n_components=1).fit(table)
    assert set(figures_of(line, table)) == {"curves", "pairs"}
    assert item_curves(line, table).axes
    for draw in (lambda: item_information(line), lambda: wright_map(line, table)):
        with pytest.raises(ValueError, match="decoder='linear'"):
            draw()
