from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import ShuffleSplit
from tests.tables import NAMES, classes

from latentbits import BernoulliMixture, BernoulliProduct, BinarySparseCoding, ClippedGaussian, compare
from latentbits.choosing.compare import default_models
from latentbits.choosing.search import search
from latentbits.choosing.stack import crossed, stack
from latentbits.core.errors import DataError, FitError, TooLargeError
from latentbits.data.toys import sum_constrained
from latentbits.reports.comparison import STACK

TABLE = classes()
# independent bits have a closed form, and little to compile; smoothed so much, they know little
POOR = {"poor": BernoulliProduct(smoothing=200.0), "good": BernoulliProduct(smoothing=1.0)}


def held_out(n_rows):
    """Numbers of rows to learn from, and to score."""
    return next(ShuffleSplit(1, test_size=0.25, random_state=0).split(np.arange(n_rows)))


def bits_of(model, learned, scored):
    return -model.fit(learned).score_samples(scored) / np.log(2)


def test_the_table_and_its_numbers():
    result = compare(TABLE, POOR)
    assert [e.name for e in result.entries] == ["good", "poor"]
    best, other = result.entries
    train, test = held_out(240)
    poor, good = (bits_of(BernoulliProduct(smoothing=s), TABLE[train], TABLE[test]) for s in (200.0, 1.0))
    np.testing.assert_allclose(result.row_bits["poor"], poor, rtol=1e-6)
    assert other.bits_per_row == pytest.approx(poor.mean())
    assert other.error == pytest.approx(poor.std(ddof=1) / np.sqrt(60))
    assert other.behind == pytest.approx((poor - good).mean())
    assert other.behind_error == pytest.approx((poor - good).std(ddof=1) / np.sqrt(60))
    assert best.behind == best.behind_error == 0
    text = str(result)
    assert "best" in text
    assert "bits per row" in text
    assert compare(TABLE, [BernoulliProduct()], n_folds=4).n_rows == 240


def test_frames_keep_their_names():
    frame = pd.DataFrame(TABLE, columns=list(NAMES))
    result = compare(frame, {"a": BernoulliProduct()})
    assert result.fitted["a"].feature_names_in_.tolist() == list(NAMES)
    np.testing.assert_array_equal(result.row_bits["a"], compare(TABLE, {"a": BernoulliProduct()}).row_bits["a"])


def test_what_is_no_bit_is_named_by_its_row_in_x():
    bad = TABLE.copy()
    bad[121, 2] = 7
    with pytest.raises(DataError, match="row 121, column 2 holds 7"):
        compare(bad)


def test_an_interrupted_fit_ends_the_comparison():
    class Impatient(BernoulliProduct):
        def fit(self, X, y=None):
            super().fit(X)
            self.stop_reason_ = "interrupted"
            return self

    with pytest.raises(KeyboardInterrupt):
        compare(TABLE, {"a": Impatient()})


class Foreign(BernoulliProduct):
    """Another library's."""


def test_models_in_a_list_have_short_names_and_all_are_compared():
    models = [BernoulliProduct(), BernoulliProduct(), BernoulliProduct(smoothing=1.0), Foreign()]
    result = compare(TABLE, models)
    assert list(result.row_bits) == ["independent bits", "independent bits (2)", "independent bits (3)", "Foreign"]
    assert result.fitted["independent bits (3)"].smoothing == 1.0


def test_the_default_models_fit_the_size():
    few = ["independent bits", "Chow-Liu tree", "1 latent trait"]
    assert list(default_models(10)) == few
    assert set(default_models(30)) == {*few, "mixture of 2", "2 latent traits"}
    assert list(default_models(240, only=["latent-trait"])) == ["1 latent trait", "2 latent traits"]
    assert list(default_models(79, only=["clipped-gaussian"])) == []
    assert list(default_models(79, only=["combination-machine", "noisy-or"])) == []
    more = ["2 latent traits", "latent tree of 4 states", "mixture of 4", "mixture of 8", "clipped Gaussian of 8"]
    assert list(default_models(300))[4:] == [*more, "combination machine of 8", "noisy OR of 8", "mixture of 16"]


@pytest.mark.slow("mixtures in folds")
def test_the_simplest_that_is_good_enough():
    """Two classes: larger mixtures gain nothing that differs from noise."""
    models = [BernoulliProduct(), BernoulliMixture(2, n_init=2), BernoulliMixture(4, n_init=2)]
    assert compare(TABLE, models, n_folds=4).simplest == "mixture of 2"
    noise = np.random.default_rng(0).integers(0, 2, TABLE.shape)
    assert compare(noise, models, n_folds=4).simplest == "independent bits"


def test_density_models_of_others_can_take_part():
    result = compare(TABLE, {"a": BernoulliProduct(), "b": GaussianMixture(2, random_state=0)})
    assert {e.name for e in result.entries} == {"a", "b"}


def test_rows_that_a_model_holds_impossible_cost_infinitely_much():
    """No warning of inf - inf, no NaN as a difference, and such a model is last."""

    class Sure(BaseEstimator):
        def fit(self, X):
            return self

        def score_samples(self, X):
            return np.where(X[:, 0] == 1, -np.inf, -8.0)

    result = compare(TABLE, {"a": Sure(), "b": BernoulliProduct(), "c": Sure()})
    assert result.entries[0].name == result.simplest == "b"
    assert [e.bits_per_row for e in result.entries[1:]] == [np.inf, np.inf]
    assert [e.behind for e in result.entries[1:]] == [np.inf, np.inf]
    assert np.isnan(result.entries[1].error)
    assert compare(TABLE, {"a": Sure(), "c": Sure()}).simplest == "a"


@pytest.mark.slow("likelihoods of another table are compiled for")
def test_a_comparison_does_not_warn_of_a_spectrum():
    """Of rows with a fixed sum a part of it is negative; unseen rows show what that costs."""

    class Unscored(ClippedGaussian):
        def score_samples(self, X):
            return np.full(len(X), -6.0)

    table = sum_constrained(2000, n_features=6, random_state=0)
    m = Unscored(2)
    with pytest.warns(UserWarning, match="a Heywood case"), pytest.warns(UserWarning, match="no Gaussian has these"):
        m.fit(table)
    assert compare(table, {"a": m}).n_rows == 500


@pytest.mark.parametrize("folds", [1, 241])
def test_too_many_or_few_folds(folds):
    with pytest.raises(ValueError, match="n_folds must be between 2 and the number of rows, 240"):
        compare(TABLE, n_folds=folds)


def test_nothing_to_compare():
    with pytest.raises(ValueError, match="models is empty"):
        compare(TABLE, {})
    with pytest.raises(ValueError, match="densities cannot be compared with probabilities"):
        compare(TABLE, [BernoulliProduct(), BinarySparseCoding(2)])


class Failing(BernoulliProduct):
    """Fails by whatever it is given as `smoothing`."""

    def fit(self, X, y=None):
        raise self.smoothing


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FitError("the objective became nan"), "the objective became nan"),
        (MemoryError("Unable to allocate 93 GiB"), "out of memory (Unable to allocate 93 GiB)"),
        (ValueError("too many\n components"), "too many components"),
    ],
)
def test_a_model_that_fails_is_left_out_with_its_reason(error, reason):
    found = compare(TABLE, {"a": BernoulliProduct(), "b": Failing(smoothing=error)})
    assert [entry.name for entry in found.entries] == ["a"]
    assert found.left_out == {"b": reason}
    assert f"b is left out: {reason}" in str(found)
    with pytest.raises(FitError, match=r"no model could be fitted: b: .*; c: "):
        compare(TABLE, {"b": Failing(smoothing=error), "c": Failing(smoothing=error)})
    with pytest.raises(type(error)):
        compare(TABLE, {"b": Failing(smoothing=error)})


def test_a_mistake_in_a_model_is_none_of_that():
    with pytest.raises(ZeroDivisionError):
        compare(TABLE, {"a": BernoulliProduct(), "b": Failing(smoothing=ZeroDivisionError())})


def test_a_sparse_table_is_not_made_dense(monkeypatch):
    """Dense it would have 93 GiB; what is stored is checked, and what is too much is refused before any fit."""
    rows, columns = np.arange(1000), np.arange(1000) * 7
    X = sparse.csr_matrix((np.ones(1000), (rows, columns)), shape=(10**6, 10**5))
    with pytest.raises(TooLargeError, match=r"1,000,000 x 100,000 entries.*a sample of the rows"):
        compare(X)
    bad = X[:, :7000].copy()
    bad.data[17] = 3  # row 17, column 119
    monkeypatch.setattr(sparse.csr_matrix, "toarray", None)  # nothing may call it
    with pytest.raises(DataError, match="row 17, column 119 holds 3"):
        compare(bad, {"a": BernoulliProduct()})


def test_weights_count_in_learning_and_scoring():
    """Of one split: the fit, the mean and its standard error are those of the rows written out."""
    counts = np.random.default_rng(0).integers(0, 4, len(TABLE))
    result = compare(TABLE, POOR, sample_weight=counts)
    there = np.flatnonzero(counts)
    train, test = (there[part] for part in held_out(len(there)))
    np.testing.assert_array_equal(result.rows, test)
    np.testing.assert_array_equal(result.weights, counts[test])
    parts = [np.repeat(TABLE[part], counts[part], axis=0) for part in (train, test)]
    poor, good = (bits_of(BernoulliProduct(smoothing=s), *parts) for s in (200.0, 1.0))
    entry = {e.name: e for e in result.entries}["poor"]
    root = np.sqrt(len(poor))
    assert entry.bits_per_row == pytest.approx(poor.mean())
    assert entry.error == pytest.approx(poor.std(ddof=1) / root)
    assert entry.behind == pytest.approx((poor - good).mean(), rel=1e-3)
    assert entry.behind_error == pytest.approx((poor - good).std(ddof=1) / root, rel=1e-3)


def test_a_model_that_takes_no_weights_is_left_out():
    class Plain(BaseEstimator):
        def fit(self, X):
            return self

    result = compare(TABLE, {"a": BernoulliProduct(), "b": Plain()}, sample_weight=np.ones(len(TABLE)))
    assert result.left_out == {"b": "Plain takes no sample_weight"}
    with pytest.raises(DataError, match="X has 240 rows and sample_weight 3"):
        compare(TABLE, sample_weight=[1, 2, 3])


@pytest.mark.parametrize("n_folds", [None, 3])
def test_a_stack_is_one_more_entry_scored_with_weights_of_other_rows(n_folds):
    models = {**POOR, "b": BernoulliProduct(smoothing=30.0)}
    counts = np.arange(len(TABLE)) % 3 + 1.0
    found = compare(TABLE, models, stack=True, n_folds=n_folds, sample_weight=counts)
    rows = -np.log(2) * np.stack([found.row_bits[name] for name in models], axis=1)
    np.testing.assert_allclose(-np.log(2) * found.row_bits[STACK], crossed(rows, 0, found.weights))
    assert list(found.stack_weights) == list(models)
    np.testing.assert_allclose(list(found.stack_weights.values()), stack(rows, found.weights).weights)
    entry = next(entry for entry in found.entries if entry.name == STACK)
    assert entry.bits_per_row == pytest.approx(np.average(found.row_bits[STACK], weights=found.weights))
    assert entry.seconds >= max(other.seconds for other in found.entries)
    assert found.simplest in models
    assert set(found.fitted) == set(models)
    assert f"\nnote: {STACK}: " in str(found)
    plain = compare(TABLE, models, n_folds=n_folds, sample_weight=counts)
    assert not plain.stack_weights
    assert STACK not in plain.row_bits
    np.testing.assert_array_equal(plain.row_bits["b"], found.row_bits["b"])
    with pytest.raises(ValueError, match="no model may be called 'stack of all'"):
        compare(TABLE, {STACK: BernoulliProduct()}, stack=True)


@pytest.mark.parametrize("choose", [compare, search])
def test_a_table_of_nothing_is_refused(choose):
    with pytest.raises(DataError, match="all cells of the table are missing"):
        choose(np.full((30, 4), np.nan))
