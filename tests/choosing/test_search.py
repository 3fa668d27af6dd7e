from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from tests.tables import classes

from latentbits import BernoulliMixture
from latentbits.choosing import budget
from latentbits.choosing.budget import Climb, Fit
from latentbits.choosing.refit import refit
from latentbits.choosing.search import _keeping, _splits, search
from latentbits.core.errors import DataError, FitError
from latentbits.estimators.families import families as all_families
from latentbits.estimators.families import family_of, size_of

TABLE = classes()
LARGE = classes(1200, 16, 4)


def with_bits(mean: float) -> Fit:
    return Fit(None, np.array([mean]), np.zeros(1), 0.0, 1.0, True, True)


def climbed(cost, first=8, most=64):
    climb = Climb(first, most)
    while (size := climb.next_size()) is not None:
        climb.tried[size] = with_bits(cost(size))
    return climb


@pytest.mark.parametrize("best", [1, 2, 4, 8, 16, 32, 64])
def test_every_size_is_found_by_few_fits(best):
    climb = climbed(lambda size: abs(np.log2(size / best)))
    assert climb.best == best
    assert len(climb.tried) <= 5
    assert max(climb.tried) <= 64


def test_with_little_time_a_size_that_there_is_time_for_comes_before_the_one_wanted():
    """Four times as many causes may take sixteen times as long; compilation takes the same."""
    climb = Climb(8, 64)
    assert climb.next_size(left=0.0) == 8  # the first size has no estimate
    climb.tried[8] = with_bits(1.0)._replace(seconds=2.0, compiling=1.0)
    assert climb.next_size() == climb.next_size(left=2 * 17) == 32
    assert climb.next_size(left=2 * 17 - 1) == climb.next_size(left=2 * 5) == 16
    assert climb.next_size(left=2 * 5 - 1) == climb.next_size(left=2.0) == 4
    assert climb.next_size(left=1.9) is None
    assert climb.candidates() == [32, 16, 4]  # what is left to try, whatever the time


@pytest.mark.slow("two searches for the size of a mixture")
def test_the_number_of_classes_is_found_and_rows_that_are_tested_have_no_say(monkeypatch):
    """Whatever the test rows hold, the same models are fitted and the same sizes are chosen."""
    monkeypatch.setattr(BernoulliMixture, "_n_restarts", 3)  # few, of which the best is good enough here
    reported, early = [], []
    options = {"report": lambda name, seconds: reported.append(name), "soon": early.append}
    found = search(LARGE, ["mixture", "product"], budget=None, **options)
    (first,) = early
    assert first.sizes == {"independent bits": 1, "mixture of 4": 4}
    assert [trial.size for trial in first.trials["mixture of 4"]] == [4]
    assert found.sizes == {"independent bits": 1, "mixture of 4": 4}
    assert found.families["mixture of 4"] == "mixture"
    assert [trial.size for trial in found.trials["mixture of 4"]] == [4, 16, 2, 8]
    assert reported[:2] == ["independent bits", "mixture of 4"]  # the cheapest first
    assert (found.n_train, found.n_validation, found.n_test, found.n_folds) == (720, 180, 300, 1)
    assert found.comparison.entries[0].name == "mixture of 4"
    assert not found.left_out
    assert not found.cut_short
    best = found.comparison.row_bits["mixture of 4"]
    again = -found.fitted["mixture of 4"].score_samples(LARGE[found.comparison.rows]) / np.log(2)
    np.testing.assert_allclose(best, again, rtol=1e-5)

    seen = []
    fit = budget.fit_copy
    monkeypatch.setattr(budget, "fit_copy", lambda model, X, weights: seen.append(X) or fit(model, X, weights))
    changed = LARGE.copy()
    changed[found.comparison.rows] = np.random.default_rng(0).integers(0, 2, (found.n_test, 16))
    second = search(changed, ["mixture"], budget=None)
    assert second.sizes == {"mixture of 4": 4}

    def numbers(trials):
        return [(t.size, t.bits_per_row, t.error) for t in trials["mixture of 4"]]

    assert numbers(second.trials) == numbers(found.trials)  # also: the same again, without a budget
    assert second.comparison.entries[0].bits_per_row > found.comparison.entries[0].bits_per_row
    assert all(len(X) == found.n_train for X in seen)


def test_folds_test_every_row_of_a_small_table_once():
    found = search(TABLE[:90], ["product"], budget=None)
    assert found.n_folds == 4
    assert sorted(found.comparison.rows) == list(range(90))
    assert found.n_train + found.n_validation + 23 == 90
    np.testing.assert_array_equal(found.unseen, found.comparison.rows[-22:])


def test_a_small_budget_is_kept_and_its_cost_is_reported():
    found = search(LARGE, budget=1e-3)
    assert [entry.name for entry in found.comparison.entries] == ["independent bits"]
    assert set(found.left_out) == {one.name for one in all_families("bits")} - {"product"}
    assert set(found.left_out.values()) == {"no time was left for it"}
    assert found.n_used == 1000 < found.n_rows
    assert "a sample of 1000 of the 1200 rows" in str(found)
    assert "mixture: no time was left for it" in str(found)
    assert found.was_short


def test_what_has_converged_is_compared_with_the_best_of_it(monkeypatch):
    """A mixture that was cut off is ahead; of those that may be reported, independent bits are the best."""
    fit = budget._fit

    def cut_off(model, rows, limit, seed):
        found = fit(model, rows, limit, seed)
        return found if model.get_params().get("n_components") is None else found._replace(converged=False)

    monkeypatch.setattr(budget, "_fit", cut_off)
    found = search(TABLE, ["product", BernoulliMixture(2, n_init=2, max_iter=5)], budget=None, n_folds=1)
    assert [entry.name for entry in found.comparison.entries] == ["mixture of 2", "independent bits"]
    (alone,) = found.sound
    assert (alone.name, alone.behind, alone.behind_error) == ("independent bits", 0.0, 0.0)
    assert found.comparison.entries[1].behind > 0
    assert [trial.converged for trial in found.trials["mixture of 2"]] == [False]
    assert not found.was_short  # it was not for want of time


def test_time_goes_where_it_pays(monkeypatch):
    """Quick sizes come first, then every family, then the size that promises most for its seconds."""

    class Scripted(budget.Clock):
        used = 0.0

    clock, fitted = Scripted(100.0, None), []
    script = {  # bits per row and seconds by size: more states gain more than more kinds, and take less
        "product": lambda size: (20.0, 0.1),
        "mixture": lambda size: (10 + 8 / size, 0.2 * size),
        "latent-tree": lambda size: (8 + 16 / size, 12.0),
        "clipped-gaussian": lambda size: (11 + 1 / size, 13.0),
    }
    families = {name: budget.new_entrant(name, 64, [400], "bits") for name in script}

    def fit(model, *_):
        fitted.append((family_of(model).name, size_of(model)))
        bits, seconds = script[fitted[-1][0]](fitted[-1][1])
        clock.used += seconds
        return with_bits(bits)._replace(seconds=seconds)

    monkeypatch.setattr(budget, "_fit", fit)
    budget.take_turns(families, [budget.SplitRows(LARGE, LARGE, 2)], clock, 0)
    quick = [("product", 1), ("mixture", 8), ("mixture", 32), ("mixture", 16)]
    firsts = [("latent-tree", 4), ("clipped-gaussian", 8)]
    assert fitted == [*quick, *firsts, ("latent-tree", 8), ("latent-tree", 16), ("clipped-gaussian", 4)]


def test_larger_sizes_that_would_take_too_long_are_not_tried(monkeypatch):
    clock = budget.Clock(100.0, None)
    asked = []

    def slow(model, rows, limit, seed):
        asked.append((model.n_components, limit))
        return with_bits(1 / model.n_components)._replace(seconds=60.0)

    monkeypatch.setattr(budget, "_fit", slow)
    rows = [budget.SplitRows(TABLE, TABLE, 2)]
    families = {"mixture": budget.new_entrant("mixture", 16, [1000], "bits")}
    assert budget.take_turns(families, rows, clock, 0) == {}
    assert [size for size, _ in asked] == [4, 2]  # there may be time for fewer causes, if not for more
    assert 70 < asked[0][1] <= 80
    assert families["mixture"].note == "mixture of 16 was not tried for want of time"
    assert clock.was_short


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        ([1.0, 20.0, 70.0], 2),  # of the first size in both folds, and of the next in the first: no time for the second
        ([1.0, 90.0], 16),  # no time for any other size in the second
    ],
)
def test_a_size_counts_only_if_every_fold_has_tried_it(seconds, wanted, monkeypatch):
    class Scripted(budget.Clock):
        used = 0.0

    clock, left = Scripted(100.0, None), iter(seconds)

    def fit(model, *_):
        took = next(left)
        clock.used += took
        return with_bits(1 / model.n_components)._replace(seconds=took)

    monkeypatch.setattr(budget, "_fit", fit)
    families = {"mixture": budget.new_entrant("mixture", 16, [1000, 1000], "bits")}
    budget.take_turns(families, [budget.SplitRows(TABLE, TABLE, 2)] * 2, clock, 0)
    assert not list(left)
    assert [list(climb.tried) for climb in families["mixture"].climbs] == [[4], [4]]
    assert families["mixture"].note == f"mixture of {wanted} was not tried for want of time"


def test_a_fit_that_ran_out_of_time_goes_on_before_another_size_is_begun(monkeypatch):
    """Four causes are cut off twice, and then done; two causes are cut off to the end."""

    class Scripted(budget.Clock):
        used = 0.0

    clock, asked = Scripted(100.0, None), []

    def fit(model, rows, limit, seed):
        asked.append(model.n_components)
        clock.used += 10.0
        ended = model.n_components == 4 and len(asked) > 2
        return with_bits(model.n_components)._replace(seconds=10.0, converged=ended, in_time=ended)

    monkeypatch.setattr(budget, "_fit", fit)
    families = {"mixture": budget.new_entrant("mixture", 16, [1000], "bits")}
    budget.take_turns(families, [budget.SplitRows(TABLE, TABLE, 2)], clock, 0)
    (climb,) = families["mixture"].climbs
    assert asked == [4, 4, 4, *[2] * 7]  # more causes might take too long
    assert climb.best == 4  # what has converged, though two causes have fewer bits
    assert climb.tried[4].seconds == 30.0
    assert families["mixture"].note == "the fit of mixture of 2 ran out of time"
    assert clock.was_short


@pytest.mark.filterwarnings("ignore:.*max_time:UserWarning")
def test_a_fit_that_is_cut_off_goes_on_from_where_it_was():
    """With time for one pass at a time, learning gets further every time."""
    model = BernoulliMixture(2, n_init=1, random_state=0, max_time=1e-9)
    with _keeping(None, budget=1.0):
        courses = [model.fit(TABLE).history_.copy() for _ in range(3)]
    assert len(courses[0]) < len(courses[1]) < len(courses[2])
    np.testing.assert_array_equal(courses[2][: len(courses[0])], courses[0])
    with _keeping(None, budget=None):
        again = [model.fit(TABLE).history_.copy() for _ in range(2)]
    assert len(again[0]) == len(again[1])


@pytest.mark.parametrize("asked", [False, True])
def test_rounds_that_could_not_be_scored_in_time_are_not_begun(asked, monkeypatch):
    """A fit can be cut off, scoring cannot: 30 s in the first of four rounds leave no time for three more."""

    class Scripted(budget.Clock):
        used = 0.0

    clock, begun = Scripted(100.0, None), []

    def fit(model, *_):
        begun.append(type(model).__name__)
        clock.used += 40.0 if begun[-1] == "BernoulliMixture" else 0.0
        return with_bits(1.0)._replace(seconds=40.0, scoring=30.0 if begun[-1] == "BernoulliMixture" else 0.0)

    monkeypatch.setattr(budget, "_fit", fit)
    families = {name: budget.new_entrant(name, 6, [1000] * 4, "bits") for name in ("product", "mixture")}
    left_out = budget.take_turns(families, [budget.SplitRows(TABLE, TABLE, 2)] * 4, clock, 0, asked)
    if asked:
        assert left_out == {}
        assert begun.count("BernoulliMixture") == 4
    else:
        assert left_out == {
            "mixture": "scoring its rows took 30 s in one round, and there was no time for 3 more",
        }
        assert begun.count("BernoulliMixture") == 1
        assert clock.was_short


def test_an_estimator_is_fitted_as_it_is():
    found = search(TABLE, ["product", BernoulliMixture(2, n_init=2)], budget=None, n_folds=1)
    assert found.sizes == {"independent bits": 1, "mixture of 2": 2}
    assert found.fitted["mixture of 2"].n_init == 2
    assert found.families["mixture of 2"] == "mixture"
    with pytest.raises(TypeError, match=r"must be one of BernoulliProduct, .*, found dict"):
        search(TABLE, [{}], budget=None)


def test_a_family_that_fails_is_left_out_with_the_reason(monkeypatch):
    def fail(model, rows, limit, seed):
        raise FitError("the objective became nan")

    monkeypatch.setattr(budget, "_fit", fail)
    with pytest.raises(FitError, match="product: the objective became nan"):
        search(TABLE, ["product"], budget=None)


@pytest.mark.parametrize("error", [MemoryError("Unable to allocate 1 TiB"), FitError("nan")])
def test_the_others_go_on_without_a_family_that_fails(error, monkeypatch):
    fit = budget._fit

    def fails_for_mixtures(model, rows, limit, seed):
        if isinstance(model, BernoulliMixture):
            raise error
        return fit(model, rows, limit, seed)

    monkeypatch.setattr(budget, "_fit", fails_for_mixtures)
    found = search(TABLE, ["product", "mixture"], budget=None)
    assert list(found.fitted) == ["independent bits"]
    assert str(error) in found.left_out["mixture"]


def test_a_sparse_table_is_searched_by_a_sample_of_its_rows(monkeypatch):
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 10**6, 3000), rng.integers(0, 12, 3000)
    X = sparse.csr_matrix((np.ones(3000), (rows, columns)), shape=(10**6, 12))
    X.data[:] = 1
    shapes, dense = [], sparse.csr_matrix.toarray
    monkeypatch.setattr(sparse.csr_matrix, "toarray", lambda self, *a, **k: shapes.append(self.shape) or dense(self))
    found = search(X, ["product"], budget=0.5)
    assert found.n_rows == 10**6
    assert found.n_used == 1000
    assert max(n for n, _ in shapes) <= 1000


@pytest.mark.slow("searches of real numbers")
def test_real_numbers():
    """Two factors behind six columns in different units, one constant: its density would have no bound."""
    rng = np.random.default_rng(0)
    z, w = rng.normal(size=(1100, 2)), rng.normal(size=(2, 6))
    X = (z @ w + 0.5 * rng.normal(size=(1100, 6))) * 10.0 ** np.arange(6) + 7.0
    X[:, 3] = 0.1  # its standard deviation is 2.8e-17 by rounding
    found = search(X, ["independent-gaussians", "latent-trait"], budget=None, n_folds=1)
    best, alone = found.comparison.entries
    assert (best.name, alone.name) == ("2 latent traits", "independent Gaussians")
    kept = np.delete(X, 3, axis=1)
    train = np.setdiff1d(np.arange(1100), found.comparison.rows)
    mean, std = kept[train].mean(axis=0), kept[train].std(axis=0)
    expected = np.log2(std * np.sqrt(2 * np.pi)) + (kept - mean) ** 2 / (2 * std**2) / np.log(2)
    assert alone.bits_per_row == pytest.approx(expected[found.comparison.rows].sum(axis=1).mean(), abs=0.1)
    cov = np.cov(kept[train].T)
    gauss = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * cov)[1] / np.log(2)
    assert best.bits_per_row == pytest.approx(gauss, abs=0.5)
    np.testing.assert_allclose(np.delete(found.units[1], 3), std, rtol=0.1)
    assert (found.units[0][3], found.units[1][3]) == (0.1, 1.0)


def test_missing_numbers_leave_independent_gaussians_out():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[0, 0] = np.nan
    with pytest.raises(FitError, match="independent-gaussians: it takes no missing numbers"):
        search(X, ["independent-gaussians"], budget=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": ["mixtures"]}, "'mixtures' is none of product, chow-liu-tree, latent-tree, mixture"),
        ({"families": []}, "families is empty"),
        ({"n_folds": 121}, "n_folds must be between 1 and half of the number of rows, 240; got 121"),
        ({"test_size": 0.9}, "together below 1, got 0.9 and 0.15"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        search(TABLE, budget=None, **options)


def test_what_is_no_bit_is_named_by_its_row():
    bad = TABLE.copy()
    bad[121, 2] = 7
    with pytest.raises(DataError, match="row 121, column 2 holds 7"):
        search(bad)


COUNTS = np.random.default_rng(1).integers(0, 4, 240).astype(float)


def test_weights_count_in_fits_choices_and_scores():
    """Independent bits have a closed form: shares are by weight, in the search and in the refit."""
    X = TABLE
    found = search(X, ["product"], sample_weight=COUNTS, budget=None, n_folds=1)
    there = np.flatnonzero(COUNTS)
    np.testing.assert_array_equal(found.used, there)  # what does not count is nowhere
    assert found.n_rows == len(there)
    np.testing.assert_array_equal(found.weights, COUNTS[there])
    tested = found.comparison.rows
    train = np.array([row for row in _learned_from(X, found) if COUNTS[row]])
    smoothed = found.fitted["independent bits"].smoothing
    for fitted, rows, n in (
        (found.fitted["independent bits"], train, found.n_learned),
        (refit(found, X)["independent bits"].model, there, found.n_counted),
    ):
        assert n == COUNTS[rows].sum()
        ones = COUNTS[rows] @ X[rows]
        np.testing.assert_allclose(fitted.means_, (ones + smoothed / 2) / (n + smoothed), rtol=1e-6)
    entry, bits = found.comparison.entries[0], found.comparison.row_bits["independent bits"]
    assert entry.bits_per_row == pytest.approx(np.average(bits, weights=COUNTS[tested]))
    assert entry.bits_per_row != pytest.approx(bits.mean(), rel=1e-4)
    np.testing.assert_array_equal(found.comparison.weights, COUNTS[tested])


def _learned_from(X, found):
    """Numbers of the training rows of a single split: those that are neither tested nor validated on."""
    split = _splits(
        np.random.default_rng(0).permutation(np.flatnonzero(COUNTS)),
        1,
        0.25,
        0.15,
        0,
    )[0]
    np.testing.assert_array_equal(split.test, found.comparison.rows)
    return split.train


def test_a_size_is_chosen_by_weight():
    """One validation row of ten counts as much as the others together, and would choose otherwise."""
    climb = Climb(1, 2)
    weights = np.array([9.0, 1.0])
    climb.tried = {
        1: with_bits(0.0)._replace(validation=np.array([1.0, 5.0]), weights=weights),
        2: with_bits(0.0)._replace(validation=np.array([2.0, 1.0]), weights=weights),
    }
    assert climb.best == 1
    climb.tried = {size: one._replace(weights=None) for size, one in climb.tried.items()}
    assert climb.best == 2


def test_models_without_weights_are_reported():
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(FitError, match="takes no sample_weight"):
        search(X, ["independent-gaussians"], sample_weight=np.ones(40), budget=None, n_folds=1)
