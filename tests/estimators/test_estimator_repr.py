"""Lines that a fitted estimator shows below scikit-learn's own, and a table below its diagram (families: test_face)."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.fitted import known
from tests.tables import classes

from latentbits import BernoulliMixture, BernoulliProduct, load
from latentbits.core.model import Measure, Stop
from latentbits.estimators.history import history_table

LONG = ["did you sleep well during the last week", "<b>tea</b>", "milk", "honey", "salt", "bread"]


def mixture_of(k):
    means = np.linspace(0.95, 0.5, 6) * np.linspace(1, 0.1, k)[:, None]  # the first two columns differ most
    names = np.array(LONG, dtype=object)
    model = BernoulliMixture(k, n_init=1, random_state=0)
    return known(model, {"weights": np.full(k, 1 / k), "means": means}, feature_names_in_=names, n_rows_=40.0)


@pytest.fixture
def mixture():
    return mixture_of(2)


def line_of(text, about):
    return next(line.strip() for line in text.splitlines()[1:] if line.strip().startswith(about))


def test_weights_count_as_rows():
    patterns, counts = np.unique(classes(), axis=0, return_counts=True)
    model = BernoulliProduct().fit(patterns, sample_weight=counts)
    assert model.n_rows_ == 240
    assert "from 240 rows x 6 columns" in repr(model)


def test_names_of_columns_are_text_and_short(mixture):
    text, page = repr(mixture), mixture._repr_mimebundle_()["text/html"]
    assert "did you sleep well duri…" in text
    assert "tea" in text
    assert "&lt;b&gt;tea" in page
    assert "<b>tea" not in page
    odd = copy.copy(mixture)
    odd.feature_names_in_ = np.array(["a\x1b[31m", "b\nc", *"defg"], dtype=object)
    assert "\x1b" not in repr(odd)
    assert len(repr(odd).splitlines()) == len(text.splitlines())


def test_the_page_has_the_diagram_and_the_table(mixture):
    page = mixture._repr_html_()
    assert page.rindex("sk-estimator") < page.index("latentbits-found")
    assert "kind 2" in page.partition("latentbits-found")[2]


def test_unfitted_it_is_scikit_learns():
    model = BernoulliMixture(3, random_state=0)
    assert repr(model) == "BernoulliMixture(n_components=3, random_state=0)"
    assert "latentbits-found" not in model._repr_html_()


def test_a_fit_that_failed_shows_nothing(mixture):
    with pytest.raises(ValueError, match="bits"):
        mixture.fit(np.full((3, 6), 5))
    assert len(repr(mixture).splitlines()) == 1


def test_inside_of_others_it_is_as_scikit_learn_writes_its_own(mixture):
    class Plain(BernoulliMixture):
        __repr__ = BaseEstimator.__repr__

    settings = {"n_components": 2, "n_init": 1, "random_state": 0, "max_iter": 123456, "smoothing": 0.5, "tol": 1e-12}
    ours, plain = mixture.set_params(**settings), Plain(**settings)
    plain.__class__.__name__ = "BernoulliMixture"
    for around in (
        lambda model: make_pipeline(FunctionTransformer(), model),
        lambda model: GridSearchCV(model, {"n_components": [2, 3]}),
    ):
        text = repr(around(ours))
        assert text.replace("plain", "bernoullimixture") == repr(around(plain)).replace("plain", "bernoullimixture")
        assert max(map(len, text.splitlines())) <= 80
        assert "bits per row" not in text
    assert BaseEstimator.__repr__(ours) == BaseEstimator.__repr__(plain)


def test_a_file_shows_the_same(mixture, tmp_path):
    mixture.save(tmp_path / "m.safetensors")
    assert repr(load(tmp_path / "m.safetensors")) == repr(mixture)


@pytest.mark.parametrize(
    ("reason", "left", "words"),
    [
        (Stop.MAX_ITER, 3.21, "not converged (max_iter) after 7 iterations, 3.2 nats left"),
        (Stop.MAX_ITER, 128.0, "not converged (max_iter) after 7 iterations, 130 nats left"),
        (Stop.MAX_TIME, np.nan, "not converged (max_time) after 7 iterations"),
        (Stop.INTERRUPTED, np.nan, "not converged (interrupted) after 7 iterations"),
        (Stop.STALLED, 0.5, "not converged (stalled) after 7 iterations, 0.5 nats left"),
        (Stop.COMPLETED, np.nan, "completed after 7 iterations"),
        (Stop.HELD_OUT, np.nan, "stopped by held-out rows after 7 iterations"),
        (Stop.CONVERGED, 1e-9, "converged after 7 iterations"),
        (Stop.GIVEN, np.nan, "none: the parameters were given"),
    ],
)
def test_how_learning_ended(mixture, reason, left, words):
    mixture.n_iter_, mixture.stop_reason_, mixture.left_to_gain_ = 7, str(reason), left
    assert line_of(repr(mixture), "learning").endswith(f"  {words}")


def test_what_is_no_likelihood_is_left_out(mixture):
    assert "bits per row" in repr(mixture)
    other = copy.copy(mixture)
    other.history_table_ = history_table([("pursuit", Measure.PROGRESS, -3.0)])
    assert "bits per row" not in repr(other)
    mixture.n_rows_ = np.nan
    assert "bits per row" not in repr(mixture)
    assert "from 6 columns" in repr(mixture)


def test_constant_columns_are_counted():
    X = classes()
    X[:, 1] = 1
    assert "from 240 rows x 6 columns, 1 constant" in repr(BernoulliProduct().fit(X))


def test_of_many_causes_the_first():
    text = repr(mixture_of(7))
    assert "kind 5" in text
    assert "kind 6" not in text
    assert text.endswith("and 2 more")
