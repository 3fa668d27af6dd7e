"""Ctrl-C in fits, comparisons and searches: what is finished is kept, and what is kept can be used."""

import signal
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.fitted import new
from tests.tables import classes

import latentbits
from latentbits import (
    BernoulliMixture,
    BernoulliProduct,
    BinarySparseCoding,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
    compare,
)
from latentbits.choosing.search import search
from latentbits.engines.monitor import Monitor

FAMILIES = {
    "mixture": BernoulliMixture(2, n_init=2, accelerate=False),
    "split": BernoulliMixture(3, init="split"),
    "traits": LatentTrait(1, accelerate=False, tol=1e-3),
    "machine": CombinationMachine(2, n_epochs=3),
    "pursuit": CombinationMachine(2, learner="pursuit"),
    "stochastic": CombinationMachine(2, learner="stochastic", n_epochs=3),
    "network": NoisyOrNetwork((2, 2), n_updates=3),
    "causes": BinarySparseCoding(3, max_iter=3),
}
SLOW = pytest.mark.slow("learners of many stages, each pressed at four places")


@pytest.fixture(autouse=True)
def own_handler():
    """Take Python's own, which a job in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def press(monkeypatch):
    """Have the key pressed after a pass, or at the beginning of a stage, counted from 1."""

    def at(method, number):
        plain, seen = getattr(Monitor, method), 0

        def pressing(self, *args):
            nonlocal seen
            plain(self, *args)
            seen += 1
            if seen == number:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Monitor, method, pressing)

    return at


def rows():
    return classes(means=[[0.85] * 6, [0.2] * 6])


def pressed_fit(estimator):
    """Fit as far as it comes; None where KeyboardInterrupt was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return estimator.set_params(random_state=0).fit(rows())
        except KeyboardInterrupt:
            return None


@pytest.mark.parametrize("family", [pytest.param(name, marks=[SLOW] * (name != "mixture")) for name in FAMILIES])
def test_what_is_kept_has_learned_something_and_can_be_used(family, press, monkeypatch, tmp_path):
    kept = []
    for method, number in [("record", 1), ("record", 3), ("begin_stage", 2), ("begin_stage", 3)]:
        with monkeypatch.context():
            press(method, number)
            fitted = pressed_fit(clone(FAMILIES[family]))
        monkeypatch.undo()
        if fitted is None:
            continue
        kept.append((method, number))
        if fitted.stop_reason_ != "interrupted":  # there are fewer stages
            assert method == "begin_stage"
            continue
        assert fitted.n_iter_ > 0
        fitted.save(tmp_path / "m.safetensors")
        again = latentbits.load(tmp_path / "m.safetensors")
        assert again.stop_reason_ == "interrupted"
        assert np.isfinite(fitted.score(rows()))
        assert again.score(rows()) == fitted.score(rows())
    assert ("record", 3) in kept  # three passes are enough for all


@pytest.mark.parametrize("name", ["mixture", "product"])
def test_a_fit_that_has_learned_nothing_is_none(name, press):
    press("begin_stage", 1)
    estimator = new(name)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(rows())
    assert not hasattr(estimator, "params_")


def test_half_a_clipped_gaussian_is_none(press):
    press("begin_stage", 2)
    with pytest.raises(KeyboardInterrupt):
        new("clipped-gaussian").fit(rows())


def test_a_key_pressed_at_the_very_end_costs_nothing(monkeypatch):
    plain = new("mixture").fit(rows())
    finish = BernoulliMixture._finish
    monkeypatch.setattr(
        BernoulliMixture, "_finish", lambda *args: (finish(*args), signal.raise_signal(signal.SIGINT))[0]
    )
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        fitted = new("mixture").fit(rows())
    np.testing.assert_array_equal(fitted.params_.means, plain.params_.means)
    assert fitted.stop_reason_ == "interrupted"


# --- comparisons and searches ---

PLAIN = {"accelerate": False, "n_init": 1, "random_state": 0}  # one stage
NAMED = {"bits": BernoulliProduct(), "two": BernoulliMixture(2, **PLAIN), "three": BernoulliMixture(3, **PLAIN)}


def test_a_comparison_keeps_what_is_finished(press):
    press("begin_stage", 3)
    with pytest.warns(UserWarning, match="interrupted before three could be compared"):
        found = compare(rows(), NAMED)
    assert found.interrupted
    assert found.unfinished == ("three",)
    assert "three" in str(found)
    whole = compare(rows(), {name: NAMED[name] for name in ("bits", "two")})
    assert not whole.interrupted
    assert [(e.name, e.bits_per_row) for e in found.entries] == [(e.name, e.bits_per_row) for e in whole.entries]


@pytest.mark.parametrize("number", [1, 2])
def test_a_comparison_of_nothing_is_none(number, press):
    press("begin_stage", number)  # with folds, the first of two fits of the first model is not enough
    with pytest.raises(KeyboardInterrupt):
        compare(rows(), NAMED, n_folds=2)


def test_a_model_of_others_does_not_hold_up_the_end(press):
    class Deaf(BernoulliProduct):
        def fit(self, X, y=None):
            super().fit(X)
            signal.raise_signal(signal.SIGINT)
            return self

    with pytest.warns(UserWarning, match="interrupted before deaf, last could"):
        found = compare(rows(), {"bits": BernoulliProduct(), "deaf": Deaf(), "last": BernoulliProduct()})
    assert list(found.fitted) == ["bits"]


def test_a_search_keeps_what_is_finished(press):
    families = ["product", BernoulliMixture(2, **PLAIN), new("clipped-gaussian")]
    press("begin_stage", 1 + 1 + 1)  # a stage of the product, one of the mixture, and the first of the Gaussian
    with pytest.warns(UserWarning, match="the search was interrupted"):
        found = search(rows(), families, n_folds=1, budget=None)
    assert found.interrupted
    assert set(found.families.values()) == {"product", "mixture"}
    assert found.left_out == {"clipped-gaussian": "interrupted before it was fitted"}


@pytest.mark.slow("a search by folds, with all its starts")
def test_a_search_forgets_a_size_that_not_all_folds_have_tried(press):
    # the product and the first size of the mixture in two folds, all starts, EM and Newton each; the second size in one
    press("begin_stage", 2 + 2 * 3 + 1)
    with pytest.warns(UserWarning, match="the search was interrupted"):
        found = search(rows(), ["product", "mixture"], n_folds=2, budget=None)
    (name,) = (name for name, family in found.families.items() if family == "mixture")
    assert [trial.size for trial in found.trials[name]] == [2]
    assert found.cut_short == {name: "interrupted before other sizes were tried"}
    assert np.isfinite(found.comparison.row_bits[name]).all()


def test_a_search_that_has_finished_nothing_is_none(press):
    press("begin_stage", 1)
    with pytest.raises(KeyboardInterrupt):
        search(rows(), ["product", "mixture"], n_folds=1, budget=None)
