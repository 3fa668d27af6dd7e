"""What a fitted estimator shows of itself: lines below scikit-learn's own, a table below its diagram."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from quick import every, fitted, table
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from latentbits import BernoulliMixture, BernoulliProduct, load
from latentbits.core.model import Measure, Stop
from latentbits.estimators.families import name_of
from latentbits.estimators.history import history_table

LONG = ["did you sleep well during the last week", "<b>tea</b>", "milk", "honey"]
ROWS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)


@pytest.fixture(scope="module")
def mixture():
    return BernoulliMixture(2, n_init=1, random_state=0).fit(pd.DataFrame(ROWS, columns=LONG))


def line_of(text, about):
    return next(line.strip() for line in text.splitlines()[1:] if line.strip().startswith(about))


@every(slow=("latent-trait", "combination-machine", "noisy-or"))
def test_every_family_tells_what_it_found(name):
    model, X = fitted(name), table(name)
    text = repr(model)
    assert text.startswith(BaseEstimator.__repr__(model) + "\n")
    assert max(map(len, text.splitlines())) <= 80
    assert f"{name_of(model)}, from {len(X)} rows x {X.shape[1]} columns" in text
    assert f"after {model.n_iter_} iteration" in line_of(text, "learning")
    assert (name == "product") == (len(text.splitlines()) <= len(BaseEstimator.__repr__(model).splitlines()) + 3)


@every(slow=("latent-trait", "combination-machine", "noisy-or"))
def test_bits_per_row_are_those_of_the_score_but_for_what_is_said(name):
    model, X = fitted(name), table(name)
    measure = model.history_table_["measure"][-1]
    if measure not in (Measure.LIKELIHOOD, Measure.BOUND):
        assert "per row" not in repr(model)
        return
    line = line_of(repr(model), "log density" if model.real_valued else "bits per row")
    told = float(line.split("  ")[-1].split()[0])
    score = model.score(X) * (1 if model.real_valued else -1 / np.log(2))
    if "(" in line:  # a bound or a penalty: on the side that is worse
        assert "bound" in line or "penalty" in line or "estimate" in line
        assert told <= score if model.real_valued else told >= score
    else:
        assert told == pytest.approx(score, rel=1e-3)


def test_weights_count_as_rows(mixture):
    patterns, counts = np.unique(ROWS, axis=0, return_counts=True)
    model = BernoulliProduct().fit(patterns, sample_weight=counts)
    assert model.n_rows_ == 40
    assert "from 40 rows x 4 columns" in repr(model)


def test_names_of_columns_are_text_and_short(mixture):
    text, page = repr(mixture), mixture._repr_mimebundle_()["text/html"]
    assert "did you sleep well duri…" in text
    assert "tea" in text
    assert "&lt;b&gt;tea" in page
    assert "<b>tea" not in page
    odd = copy.copy(mixture)
    odd.feature_names_in_ = np.array(["a\x1b[31m", "b\nc", "d", "e"], dtype=object)
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
    model = copy.copy(mixture)
    with pytest.raises(ValueError, match="bits"):
        model.fit(ROWS + 5)
    assert len(repr(model).splitlines()) == 1


def test_inside_of_others_it_is_as_scikit_learn_writes_its_own(mixture):
    class Plain(BernoulliMixture):
        __repr__ = BaseEstimator.__repr__

    settings = {"n_components": 2, "n_init": 1, "random_state": 0, "max_iter": 123456, "smoothing": 0.5, "tol": 1e-12}
    ours, plain = copy.copy(mixture).set_params(**settings), Plain(**settings)
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


def test_a_clone_and_a_file(mixture, tmp_path):
    assert repr(clone(mixture)) == BaseEstimator.__repr__(mixture)
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
    model = copy.copy(mixture)
    model.n_iter_, model.stop_reason_, model.left_to_gain_ = 7, str(reason), left
    assert line_of(repr(model), "learning").endswith(f"  {words}")


def test_what_is_no_likelihood_is_left_out(mixture):
    model = copy.copy(mixture)
    model.history_table_ = history_table([("pursuit", Measure.PROGRESS, -3.0)])
    assert "bits per row" not in repr(model)
    model = copy.copy(mixture)
    model.n_rows_ = np.nan
    assert "bits per row" not in repr(model)
    assert "from 4 columns" in repr(model)


def test_constant_columns_are_told():
    assert "from 2 rows x 2 columns, 1 constant" in repr(BernoulliProduct().fit([[0, 1], [1, 1]]))


def test_of_many_causes_the_first():
    model = BernoulliMixture(7, n_init=1, random_state=0, tol=1, max_iter=3)
    text = repr(model.fit(ROWS))
    assert "kind 5" in text
    assert "kind 6" not in text
    assert text.endswith("and 2 more")
