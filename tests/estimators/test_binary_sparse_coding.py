"""`BinarySparseCoding` as its users meet it."""

from __future__ import annotations

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sparse_coding
from sklearn.exceptions import ConvergenceWarning

import latentbits
from latentbits import BinarySparseCoding
from latentbits.core.errors import PrecisionWarning
from latentbits.data import toys
from latentbits.estimators import binary_sparse_coding as module
from latentbits.models.binary_sparse_coding import learning, sizes


@pytest.fixture(scope="module")
def small():
    """Six bars of three pixels, and a fit of few iterations."""
    return toys.linear_bars(240, size=3, random_state=5)


@pytest.fixture(scope="module")
def quick(small):
    m = BinarySparseCoding(6, max_active=3, n_candidates=5, max_iter=12, n_init=1, random_state=0)
    return m.set_params(keep_components=True).fit(small.X)


@pytest.fixture(scope="module")
def toy():
    return toys.linear_bars(600, random_state=5)


@pytest.fixture(scope="module")
def fitted(toy):
    return BinarySparseCoding(10, max_active=3, n_candidates=5, keep_components=True, random_state=0).fit(toy.X)


def bars_of(m, toy):
    """The cause of each bar, and the cosine between the two."""
    scale = np.linalg.norm(m.components_, axis=1)[:, None], np.linalg.norm(toy.components, axis=1)[:, None]
    cosine = (m.components_ / scale[0]) @ (toy.components / scale[1]).T
    return cosine.argmax(0), cosine.max(0)


@pytest.mark.slow("60 iterations of eight starts")
def test_the_default_recipe_finds_bars_noise_and_sparseness(fitted, toy):
    cause, cosine = bars_of(fitted, toy)
    assert len(set(cause)) == 10
    assert cosine.min() > 0.99
    assert fitted.sparseness_ == pytest.approx(toy.causes.sum(1).mean(), abs=0.1)
    assert fitted.noise_std_ == pytest.approx(2, abs=0.1)
    assert fitted.prior_ * 10 == pytest.approx(fitted.sparseness_)
    assert fitted.stop_reason_ == "completed"


def test_the_history_of_all_three_ends_in_the_fit(quick):
    assert len(quick.history_) == len(quick.sparseness_history_) == len(quick.components_history_) == 13
    assert quick.sparseness_history_[0] == 3
    assert quick.sparseness_history_[-1] == pytest.approx(quick.sparseness_)
    assert quick.noise_history_[-1] == pytest.approx(quick.noise_std_)
    np.testing.assert_allclose(quick.components_history_[-1], quick.components_)


def test_the_answers_of_a_small_model_are_exact(quick, small):
    """With six causes all 64 states are summed, whatever was learned with."""
    theta = sparse_coding.theta_of(quick)
    X = small.X[:12].copy()
    X[::2, ::3] = np.nan
    rows = sparse_coding.infer_all(X, theta)
    np.testing.assert_allclose(quick.score_samples(X), [r.log_evidence for r in rows], rtol=1e-5)
    np.testing.assert_allclose(quick.transform(X), [r.mean for r in rows], atol=1e-3)
    found = quick.posterior(X, n_states=3)
    np.testing.assert_array_equal(found.mode, [r.states[r.probabilities.argmax()] for r in rows])
    np.testing.assert_array_equal(found.states[:, 0], found.mode)
    np.testing.assert_allclose(found.probabilities, [np.sort(r.probabilities)[:-4:-1] for r in rows], atol=1e-3)
    assert quick.truncation_loss_ == 0
    assert quick.log_likelihood(X, return_error=True)[1] < 0.01
    np.testing.assert_allclose(quick.denoise(X), [theta.W @ r.mean for r in rows], atol=1e-2)


@pytest.mark.slow("60 iterations of eight starts")
def test_missing_pixels_are_filled_in_and_noise_is_taken_out(fitted, toy):
    clean = toy.causes @ toy.components
    X = np.where(np.random.default_rng(0).random(toy.X.shape) < 0.3, np.nan, toy.X)
    hole = np.isnan(X)
    filled = fitted.complete(X)
    np.testing.assert_array_equal(filled[~hole], X[~hole])  # as it was given, in whatever precision rows are computed
    assert np.sqrt(np.mean((filled - clean)[hole] ** 2)) < 1
    assert np.sqrt(np.mean((fitted.denoise(toy.X) - clean) ** 2)) < 0.5
    np.testing.assert_allclose(fitted.inverse_transform(toy.causes), toy.causes @ fitted.components_, atol=1e-4)


def test_what_was_observed_comes_back_as_it_was_given(quick, small):
    X = small.X[:20].astype(np.float64)
    X[:, 0] = 1 / 3
    X[::2, 1] = np.nan
    expected = quick.complete(X)
    np.testing.assert_array_equal(expected[~np.isnan(X)], X[~np.isnan(X)])
    frame = quick.complete(pd.DataFrame(X))
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    np.testing.assert_array_equal(quick.complete(lambda: [X[:7], X[7:]]), expected)
    lazy = quick.complete(da.from_array(X, chunks=(6, X.shape[1])))
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), expected)
    table = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are numbers, say
        np.testing.assert_array_equal(quick.complete(table).compute(), expected)
    short = np.where(np.isnan(X), np.nan, np.round(X))
    assert quick.complete(short).dtype == np.float32  # which holds them all


def test_a_file_keeps_everything_but_the_components_on_the_way(quick, small, tmp_path):
    quick.save(tmp_path / "m.safetensors")
    again = latentbits.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.transform(small.X), quick.transform(small.X))
    np.testing.assert_array_equal(again.sparseness_history_, quick.sparseness_history_)
    assert (again.max_active_, again.n_candidates_) == (3, 5)


@pytest.mark.slow("four fits")
def test_auto_grows_until_little_is_lost(monkeypatch):
    monkeypatch.setattr(sizes, "MOST_SETTLED_STATES", 0)  # as with more rows or causes
    toy = toys.linear_bars(400, size=3, active=2.5, random_state=0)
    m = BinarySparseCoding(6, n_init=2, random_state=0).fit(toy.X)
    assert (m.max_active_, m.n_candidates_) == (6, 6)  # by way of (5, 6)
    monkeypatch.setattr(learning, "LEAST_GAIN_NATS_PER_ROW", 1e6)
    small = BinarySparseCoding(6, n_init=2, random_state=0).fit(toy.X)
    assert (small.max_active_, small.n_candidates_) == (3, 5)
    assert m.n_iter_ == 60 + 20 + 20
    assert m.score(toy.X) >= small.score(toy.X) - 0.01


def gained_by_exact_em(m, X, n_steps):
    """Nats in all that steps of exact EM by enumeration add to where a fit has ended."""
    theta = sparse_coding.theta_of(m)
    values = []
    for _ in range(n_steps):
        rows = sparse_coding.infer_all(X, theta)
        values.append(sum(r.log_evidence for r in rows))
        theta = sparse_coding.update(X, rows, theta, m.n_causes)
    return values[-1] - values[0]


@pytest.mark.slow("until it has converged")
def test_with_most_entries_missing_nothing_is_left_to_gain():
    truth = sparse_coding.some_theta(4, 9, seed=3, sigma=0.6, active=1.6)
    X = sparse_coding.draw(truth, 120, seed=4, missing=0.7)
    X = X[~np.isnan(X).all(1)]
    m = BinarySparseCoding(4, random_state=0).fit(X)
    assert m.stop_reason_ == "converged"
    assert m.history_[-1] == pytest.approx(m.log_likelihood(X), abs=0.01)
    assert gained_by_exact_em(m, X, 12) < 0.01
    rows = sparse_coding.infer_all(X, sparse_coding.theta_of(m))
    np.testing.assert_allclose(m.transform(X), [r.mean for r in rows], atol=1e-4)
    np.testing.assert_allclose(m.score_samples(X), [r.log_evidence for r in rows], atol=1e-3)


@pytest.mark.slow("the default recipe")
def test_little_noise_is_found():
    n_causes, n_columns, rng = 5, 12, np.random.default_rng(1)
    W = rng.normal(size=(n_causes, n_columns))
    causes = rng.random((600, n_causes)) < 2 / n_causes
    noise = 0.02 * np.linalg.norm(W, axis=1).mean()
    X = causes @ W + noise * rng.normal(size=(600, n_columns))
    m = BinarySparseCoding(n_causes, random_state=0).fit(X)
    assert m.noise_std_ == pytest.approx(noise, rel=0.03)  # its standard error is below 1 %, less n_causes of 600 rows


@pytest.mark.slow("the default recipe")
def test_small_bars_do_not_end_in_a_poor_optimum():
    """From one start, seven of eight fits do."""
    toy = toys.linear_bars(500, size=3, random_state=4)
    m = BinarySparseCoding(6, random_state=0).fit(toy.X)
    cause, cosine = bars_of(m, toy)
    assert len(set(cause)) == 6
    assert cosine.min() > 0.99


def test_restarts_are_ranked_by_the_likelihood_not_by_what_few_states_are_worth(monkeypatch, quick, small):
    """A fit that looks better to the states it was learned with is worse."""
    good, real = quick.params_, module.fit
    worse = good.replace(components=0.5 * good.components)
    ends = iter([(worse, -1.0), (good, -2.0), (worse, -0.5)])

    def found(*args, **options):
        result = real(*args, **{**options, "params": good})
        params, objective = next(ends)
        return result._replace(params=params, objective=objective)

    monkeypatch.setattr(module, "fit", found)
    monkeypatch.setattr(learning, "STARTS_AT_ONCE", 1)
    m = BinarySparseCoding(6, max_active=3, n_candidates=5, max_iter=1, n_init=3, random_state=0).fit(small.X)
    np.testing.assert_array_equal(m.components_, good.components)


def test_starts_end_when_the_best_was_found_often_enough():
    assert not learning.found_often([], 2)
    assert not learning.found_often([-3.0, -2.0], 2)
    assert learning.found_often([-3.0, -2.0, -2.001], 2)
    assert not learning.found_often([-3.0, -3.0, -2.0], 2)
    assert not learning.found_often([-3.0, -2.0, -2.001, -2.0], 4)


def test_starts_come_in_rounds_of_one_size():
    plans = {n_init: BinarySparseCoding(10, n_init=n_init)._plan() for n_init in (None, 1, 3, 10, 11)}
    found = {n_init: plan.at_a_time(1797 * 64 * 10) for n_init, plan in plans.items()}
    assert found == {None: 8, 1: 1, 3: 3, 10: 5, 11: 1}
    assert plans[10].at_a_time(10_000 * 64 * 10) == 1


def test_gamma_and_candidates_along_learning():
    auto = sizes.Sizes(20)
    assert (auto.first(), auto.after((3, 5)), auto.after((5, 8)), auto.beyond((5, 8))) == (
        (3, 5),
        (5, 8),
        (7, 11),
        (7, 11),
    )
    assert auto.after((7, 11)) == (7, 11)  # 9 of 14 have more states than MOST_STATES_PER_ROW
    assert auto.beyond((7, 14)) == (7, 15)
    given = sizes.Sizes(20, 5, 8)
    assert (given.first(), given.after((3, 5)), given._replace(grow=False).first()) == ((3, 5), (5, 8), (5, 8))
    assert (sizes.Sizes(3).first(), sizes.Sizes(20, 6).first(), sizes.Sizes(20, None, 4).first()) == (
        (3, 3),
        (6, 8),
        (3, 4),
    )
    assert (sizes.Sizes(12).in_use((3, 5)), sizes.Sizes(13).in_use((3, 5))) == ((12, 12), (3, 5))
    assert sizes.n_states((3, 5)) == 26
    settles = [
        one.settle(16_000) for one in (sizes.Sizes(10), sizes.Sizes(11), sizes.Sizes(10, 3), sizes.Sizes(20, 20, 20))
    ]
    assert settles == [True, False, False, True]


@pytest.mark.slow("2^13 states")
def test_with_many_causes_the_likelihood_is_a_bound_and_its_loss_is_stated():
    theta = sparse_coding.some_theta(13, 6, seed=0, sigma=2.0, active=4.0)
    X = sparse_coding.draw(theta, 150, seed=1)
    m = BinarySparseCoding(13, max_active=2, n_candidates=4, max_iter=3, n_init=1, random_state=0).fit(X)
    with pytest.warns(PrecisionWarning, match="known to ±"):
        bound = m.score_samples(X)
    exact = np.array([r.log_evidence for r in sparse_coding.infer_all(X[:5], sparse_coding.theta_of(m))])
    assert np.all(bound[:5] <= exact + 1e-3)
    assert m.truncation_loss_ > 0
    assert m.log_likelihood(X, return_error=True)[1] >= m.truncation_loss_ * len(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_active": 4, "n_candidates": 3}, "must not be larger than n_candidates"),
        ({"n_candidates": 11}, "must not be larger than n_causes"),
        ({"recipe": {"cut": (5, 2)}}, "0 <= first <= last"),
        ({"recipe": {"temperature": 0.5}}, "temperature must be a number from 1"),
        ({"recipe": {"init": "zero"}}, "init must be one of random"),
        ({"recipe": {"renew": 1}}, "renew must be True or False"),
        ({"recipe": {"mood": 1}}, "recipe has no mood: it has init,"),
        ({"recipe": "theirs"}, "recipe"),
        ({"n_causes": 0}, "n_causes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message, small):
    with pytest.raises(ValueError, match=message):
        BinarySparseCoding(**{"n_causes": 10, **options}).fit(small.X)


@pytest.mark.slow("two truncations")
def test_a_large_truncation_is_begun_with_a_small_one(toy):
    """With 5 of 8 causes from the first iteration on, nearly all fits miss some bars."""
    m = BinarySparseCoding(10, max_active=5, n_candidates=8, random_state=0).fit(toy.X)
    assert (m.max_active_, m.n_candidates_, m.n_iter_) == (5, 8, 80)
    cause, cosine = bars_of(m, toy)
    assert len(set(cause)) == 10
    assert cosine.min() > 0.99
    at_once = BinarySparseCoding(10, max_active=5, n_candidates=8, grow=False, max_iter=3, random_state=0)
    assert at_once.fit(toy.X).n_iter_ == 3


@pytest.mark.slow("two truncations")
def test_growth_that_is_cut_short_keeps_what_was_learned(toy, monkeypatch):
    real = module.fit
    m = BinarySparseCoding(10, max_active=5, n_candidates=8, max_iter=3, n_init=1, random_state=0)

    def out_of_time(*args, **options):
        result = real(*args, **options)
        return result._replace(reason="max_time") if "params" in options else result

    monkeypatch.setattr(module, "fit", out_of_time)
    with pytest.warns(ConvergenceWarning, match="ran out of max_time after 4 iterations"):
        m.fit(toy.X)
    assert (m.max_active_, m.n_candidates_, m.stop_reason_) == (5, 8, "max_time")

    def interrupted(*args, **options):
        if "params" in options:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(module, "fit", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        m.fit(toy.X)
    assert (m.max_active_, m.n_candidates_, m.stop_reason_) == (3, 5, "interrupted")
    assert np.isfinite(m.components_).all()


@pytest.mark.slow("two recipes")
def test_options_of_the_papers_recipe_reach_learning(toy):
    X, settings = toy.X[:60], {"n_init": 1, "max_iter": 4, "random_state": 0}
    recipe = {"init_noise": "std", "renew": False, "temperature": 1.0}
    code = BinarySparseCoding(8, max_active=2, n_candidates=3, recipe=recipe, **settings).fit(X)
    assert code.noise_history_[0] == pytest.approx(np.sqrt(X.var(0).mean()), rel=1e-5)
    assert code.reseeded_ == 0
    recipe = {"init_noise": "residual", "temperature": 1.0}
    grown = BinarySparseCoding(8, max_active=4, n_candidates=5, recipe=recipe, **settings).fit(X)
    assert grown.noise_history_[0] == code.noise_history_[0]
    sparseness = grown.sparseness_history_
    assert sparseness[0] == sparseness[1] != sparseness[2]  # the first pass is for the noise
    assert (np.diff(sparseness[2:5]) != 0).all()
    assert sparseness[5] != sparseness[6]  # but not that of learning with more states, which begins where it stands
