"""`CurvedTrait`: the face of a curved surface."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits import CurvedTrait, LatentTrait, load
from latentbits.engines.order import random_order
from latentbits.estimators.families import name_of
from latentbits.figures.fitted import figures_of, item_curves, item_information, wright_map
from latentbits.reports.summaries import curved_trait as summaries
from latentbits.reports.summaries.records import Rows

N = 240


def on_a_horseshoe(n, d=12, seed=0):
    """Rows along a bent line: each bit is on in a stretch of it, so that none goes up or down all along."""
    rng = np.random.default_rng(seed)
    place, centres = rng.uniform(0, 1, (n, 1)), np.linspace(0.1, 0.9, d)
    log_odds = 4 - 60 * np.abs(place - centres) ** 1.5
    return (rng.random((n, d)) < 1 / (1 + np.exp(-log_odds))).astype(float)


def small(**settings):
    given = {"layer_sizes": (8,), "n_nodes": 6, "n_epochs": 4, "random_state": 0} | settings
    return CurvedTrait(**given)


@pytest.fixture(scope="module")
def table():
    return on_a_horseshoe(N)


@pytest.fixture(scope="module")
def fitted(table):
    return small().fit(table)


@pytest.mark.slow("40 epochs of a deeper net")
def test_a_curve_tells_more_of_unseen_rows_than_a_line():
    seen, unseen = on_a_horseshoe(480, seed=1), on_a_horseshoe(N, seed=2)
    curve = CurvedTrait(1, layer_sizes=(16, 16), n_nodes=7, n_epochs=40, learning_rate=0.02, random_state=0)
    gain = curve.fit(seen).score_samples(unseen) - LatentTrait(1, weight_prior=3, random_state=0).fit(
        seen
    ).score_samples(unseen)
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    assert gain.mean() > 0.5


@pytest.mark.slow("every method of a curve is compiled")
def test_it_has_the_face_of_all(fitted, table):
    assert (fitted.stop_reason_, fitted.converged_, fitted.n_iter_) == ("completed", False, 4)
    assert np.isnan(fitted.left_to_gain_)
    posterior = fitted.posterior(table)
    np.testing.assert_array_equal(fitted.transform(table), posterior.mean)
    assert posterior.covariance.shape == posterior.mode_covariance.shape == (N, 2, 2)
    p = fitted.inverse_transform(posterior.mean)
    assert p.shape == (N, 12)
    assert np.all((p > 0) & (p < 1))
    assert set(np.unique(fitted.sample(N, random_state=1))) == {0, 1}
    # (2 + 1 + 8) numbers a column, 2 x 8 + 8 units, less a rotation
    assert fitted.n_parameters_ == 11 * 12 + 24 - 1
    assert any("batches" in note for note in fitted.fit_report(table).notes)
    assert name_of(fitted) == "2 latent traits, curved"
    assert "mean slopes of trait 1" in repr(fitted)


def test_axes_are_those_along_which_log_odds_change_most(fitted):
    slopes = fitted.mean_slopes_
    squares = slopes @ slopes.T
    np.testing.assert_allclose(squares[0, 1], 0, atol=1e-6 * squares[0, 0])
    assert squares[0, 0] >= squares[1, 1]
    assert not hasattr(fitted, "components_")


def test_a_file_holds_it(fitted, table, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(table), fitted.score_samples(table))
    np.testing.assert_array_equal(again.mean_slopes_, fitted.mean_slopes_)


def test_missing_bits_are_left_out(fitted, table):
    """Of the log-likelihood, exactly; and filled in by what is known of the row."""
    X = table.copy()
    X[:3] = table[0]
    X[:3, 3] = np.nan, 0, 1
    left_out, zero, one = fitted.log_likelihoods(X).value[:3]
    np.testing.assert_allclose(left_out, np.logaddexp(zero, one), atol=1e-4)
    np.testing.assert_allclose(fitted.complete(X)[0, 3], 1 / (1 + np.exp(zero - one)), atol=1e-4)


@pytest.mark.slow("nets are compiled in both precisions")
def test_stated_errors_are_no_smaller_than_rounding(table):
    """In one dimension nets agree to all digits: single precision against double, by the same points."""
    model = small(n_components=1, n_nodes=8, n_epochs=1).fit(table)
    single = model.log_likelihoods(table)
    exact = model.set_params(dtype="float64").log_likelihoods(table)
    assert single.value.dtype == np.float32
    away = (single.value.astype(np.float64) - exact.value) / single.error
    assert np.abs(away).max() < 3


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
    noise, others = ((rng.random((n, 12)) < 0.5).astype(float) for n in (40, 100))
    settings = {"n_epochs": 120, "learning_rate": 0.05}
    found = small(**settings).fit(noise, X_val=others)
    assert (found.stop_reason_, found.converged_) == ("held_out", False)
    assert found.score(others) > small(**settings).fit(noise).score(others) + 0.1


def test_the_error_of_a_sum_is_estimated_from_the_nets(fitted, table):
    """Below what errors of one sign would come to, and it does not shrink as if rows were independent."""
    rows = fitted.log_likelihoods(table)
    total, error = fitted.log_likelihood(table, return_error=True)
    np.testing.assert_allclose(total, np.sum(rows.value, dtype=np.float64))
    assert 0 < error < np.sum(rows.error)
    np.testing.assert_allclose(fitted.log_likelihood(table, True, np.full(N, 2.0))[1], 2 * error, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*ran out of max_time")
def test_it_ends_when_the_time_is_over(table):
    found = small(n_epochs=1000, max_time=1e-3).fit(table)
    assert found.stop_reason_ == "max_time"
    assert found.n_iter_ < 1000
    assert np.isfinite(found.score(table))


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"n_nodes": 3}, "n_nodes"), ({"layer_sizes": ()}, "layer_sizes"), ({"layer_sizes": (4, 0)}, "layer_sizes")],
)
def test_what_does_not_go_together_is_refused(settings, word, table):
    with pytest.raises(ValueError, match=word):
        small(**settings).fit(table)


def test_its_reports_and_figures(fitted, table):
    names = tuple(f"bit {j}" for j in range(12))
    found = summaries.summarize(fitted, Rows(table, names))
    assert list(found.files["items"]().columns) == ["mean_slope_1", "mean_slope_2"]
    assert "average" in summaries.show("m", fitted, table, float(N)).gallery.about
    assert set(figures_of(fitted, table)) == {"pairs"}


@pytest.mark.slow("one dimension is compiled for")
def test_a_line_has_curves_of_items(table):
    line = small(n_components=1).fit(table)
    assert set(figures_of(line, table)) == {"curves", "pairs"}
    assert item_curves(line, table).axes
    for draw in (lambda: item_information(line), lambda: wright_map(line, table)):
        with pytest.raises(ValueError, match="for an ItemResponse"):
            draw()
