"""Early stopping: held-out rows say when to stop, and which point is kept."""

from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from latentbits import BernoulliMixture, BernoulliProduct, LatentTrait, LatentTree, NoisyOrNetwork
from latentbits.engines.held_out import FEWEST_WAITED_PASSES, Course, split
from latentbits.engines.memory import MemoryEngine


@pytest.fixture(scope="module")
def tables():
    """Few rows of many columns, which are soon learned by heart; and more of the same."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=460)
    X = (rng.random((460, 24)) < rng.uniform(0.1, 0.9, (3, 24))[kind]).astype(np.uint8)
    return X[:60], X[60:160], X[160:]


OPTIONS = {"smoothing": 0.1, "random_state": 0, "accelerate": False, "n_init": 1}


@pytest.fixture(scope="module")
def early(tables):
    train, valid, _ = tables
    return BernoulliMixture(12, **OPTIONS).fit(train, X_val=valid)


def test_stops_where_held_out_rows_gain_no_more(tables, early):
    train, valid, test = tables
    plain = BernoulliMixture(12, **OPTIONS).fit(train)
    assert early.stop_reason_ == "held_out"
    assert not early.converged_
    assert early.n_iter_ < plain.n_iter_
    history = early.held_out_history_
    assert len(history) == early.n_iter_ + 1
    assert np.argmax(history) < len(history) - 1  # it went beyond, and came back
    np.testing.assert_allclose(early.score(valid), history.max(), atol=1e-5)
    assert early.score(valid) > plain.score(valid)
    assert early.score(test) > plain.score(test)
    np.testing.assert_allclose(early.objective_, early.history_[np.argmax(history)], rtol=1e-9)


def test_the_way_is_that_of_a_fit_without(tables, early):
    with pytest.warns(ConvergenceWarning):
        same = BernoulliMixture(12, **OPTIONS, max_iter=int(np.argmax(early.held_out_history_))).fit(tables[0])
    np.testing.assert_array_equal(early.means_, same.means_)


def test_of_several_starts_the_best_for_held_out_rows_is_kept(tables, early):
    train, valid, _ = tables
    several = BernoulliMixture(12, **OPTIONS | {"n_init": 4}).fit(train, X_val=valid)
    assert several.score(valid) >= early.score(valid)


@pytest.mark.slow("a tree learned three times")
def test_a_tree_stops_early_by_given_rows_or_a_share(tables):
    train, valid, test = (rows[:, :8] for rows in tables)
    with pytest.warns(ConvergenceWarning):
        plain = LatentTree(6, smoothing=0.1, random_state=0, max_iter=100).fit(train)
    for early in (
        LatentTree(6, smoothing=0.1, random_state=0).fit(train, X_val=valid),
        LatentTree(6, smoothing=0.1, validation_fraction=0.25, random_state=0).fit(train),
    ):
        assert early.stop_reason_ == "held_out"
        assert early.score(test) > plain.score(test)


@pytest.mark.slow("a trait without prior, which runs away")
def test_a_trait_stops_early(tables):
    train, valid, _ = tables
    with pytest.warns(UserWarning, match="infinity"):
        plain = LatentTrait(2, weight_prior=None, random_state=0).fit(train)
    early = LatentTrait(2, weight_prior=None, random_state=0).fit(train, X_val=valid)
    assert early.stop_reason_ == "held_out"
    assert early.score(valid) > plain.score(valid)


def test_families_that_cannot_be_stopped_refuse(tables):
    train, valid, _ = tables
    for m in (BernoulliProduct(), NoisyOrNetwork((2,))):
        with pytest.raises(ValueError, match="cannot stop early with these settings"):
            m.fit(train, X_val=valid)
    with pytest.raises(ValueError, match="dense table in memory"):
        LatentTree(2, validation_fraction=0.1).fit(lambda: [train])
    with pytest.raises(ValueError, match=r"X_val: .*24 features"):
        LatentTree(2).fit(train, X_val=valid[:, :5])


def test_rows_that_are_impossible_everywhere_do_not_decide():
    course = Course()
    for i in range(3 * FEWEST_WAITED_PASSES):
        course = course.after(-np.inf, i, 0.0, i)
    assert not course.over
    assert course.params is None


def test_resumes_to_the_same_end(tables, early, tmp_path):
    train, valid, _ = tables
    for max_time in (1e-6, 1e-6, None):
        with pytest.warns(ConvergenceWarning) if max_time else nullcontext():
            m = BernoulliMixture(12, **OPTIONS, max_time=max_time).fit(train, X_val=valid, checkpoint=tmp_path)
    np.testing.assert_array_equal(m.means_, early.means_)
    assert m.stop_reason_ == "held_out"


def test_split_is_of_all_rows_once_with_their_weights():
    table = np.arange(20, dtype=np.uint8).reshape(10, 2)
    learned, held = split(MemoryEngine(table, np.arange(10.0)), 0.3)
    assert len(held.table) == 3
    both = np.concatenate([learned.table, held.table])
    np.testing.assert_array_equal(both[np.argsort(both[:, 0])], table)
    np.testing.assert_array_equal(learned.weights, learned.table[:, 0] / 2)


def test_patience():
    course = Course()
    for i in range(FEWEST_WAITED_PASSES + 1):
        course = course.after(-float(i), i, 0.0, i)
        assert course.over == (i == FEWEST_WAITED_PASSES)
    assert course.params == 0


def test_a_fit_that_keeps_gaining_is_not_stopped():
    course = Course()
    for i in range(3 * FEWEST_WAITED_PASSES):
        course = course.after(float(i), i, 0.0, i)
        assert not course.over
        assert course.params == i
