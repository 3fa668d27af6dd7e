"""Callbacks of scikit-learn: what they see of a fit, and what they may ask for."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tests.fitted import new
from tests.tables import NAMES, classes

from latentbits import BernoulliProduct
from latentbits.core.errors import DataError

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")

ROWS = classes()


class Notes:
    """Keep what it is given; ask for an end after a number of passes."""

    def __init__(self, most=None):
        self.most = most
        self.begun, self.ended, self.given = [], [], {}
        self.open = 0

    def setup(self, estimator, context):
        self.open += 1

    def teardown(self, estimator, context):
        self.open -= 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.ended.append(context.task_name)
        if context.task_name == "fit":
            self.given = {"X": X, "y": y, "metadata": metadata, "fitted": fitted_estimator}
        return self.most is not None and self.ended.count("pass") >= self.most


def test_every_stage_and_pass_is_a_task_and_the_fit_is_what_it_is_without():
    notes, plain = Notes(), new("mixture").set_params(n_init=2).fit(ROWS)
    model = clone(plain).set_callbacks(notes).fit(ROWS)
    np.testing.assert_array_equal(model.means_, plain.means_)
    assert sorted(notes.begun) == sorted(notes.ended)
    assert notes.begun[0] == notes.ended[-1] == "fit"
    assert set(plain.history_table_["stage"]) <= set(notes.begun)
    n_stages = sum(name not in ("fit", "pass") for name in notes.begun)
    assert notes.ended.count("pass") >= len(plain.history_table_) + n_stages  # and those of the other restart
    assert notes.open == 0


def test_the_end_of_the_fit_has_rows_weights_and_a_model():
    notes, y, weights = Notes(), np.arange(240), np.full(240, 2.0)
    model = BernoulliProduct().set_callbacks(notes).fit(ROWS, y, sample_weight=weights)
    assert notes.given["X"] is ROWS
    assert notes.given["y"] is y
    assert notes.given["metadata"]["sample_weight"] is weights
    assert notes.given["fitted"].score(ROWS) == model.score(ROWS)


def test_a_callback_can_end_learning():
    notes = Notes(most=3)
    model = new("mixture").set_params(tol=-1e9, max_iter=50).set_callbacks(notes)
    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        model.fit(ROWS)
    assert model.stop_reason_ == "interrupted"
    assert len(model.history_table_) == 3
    assert np.isfinite(model.score(ROWS))


def test_a_fit_that_fails_tears_them_down():
    notes = Notes()
    model = BernoulliProduct().set_callbacks(notes)

    def batches():
        yield ROWS[:100]
        yield ROWS[100:] + 5

    with pytest.raises(DataError):
        model.fit(batches)
    assert notes.open == 0
    assert not hasattr(model, "_callback_fit_ctx")


def test_in_a_pipeline_and_a_search_they_are_passed_on():
    class Everywhere(Notes):
        max_propagation_depth = None

    notes = Everywhere()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The estimator FunctionTransformer does not support callbacks")
        make_pipeline(FunctionTransformer(), BernoulliProduct()).set_callbacks(notes).fit(ROWS)
    assert "pass" in notes.ended
    notes = Everywhere()
    search = GridSearchCV(BernoulliProduct(), {"smoothing": [0.5, 1.0]}, cv=2)
    search.set_callbacks(notes).fit(ROWS)
    assert notes.ended.count("pass") >= 5  # two settings in two folds, and the best of all rows
    assert notes.open == 0


def test_scikit_learns_own_bar(capfd):
    new("mixture").set_callbacks(callback.ProgressBar()).fit(pd.DataFrame(ROWS, columns=NAMES))
    assert "BernoulliMixture - fit" in capfd.readouterr().out


@pytest.mark.slow("a separate process")
def test_nothing_is_imported_for_those_who_use_none():
    script = "import sys, latentbits; latentbits.BernoulliProduct; print([m for m in sys.modules if 'callback' in m])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "sklearn.callback" not in found.stdout
    assert "latentbits.estimators.callbacks" in found.stdout


def test_they_are_no_parameters():
    model = BernoulliProduct().set_callbacks(Notes())
    assert "callbacks" not in str(model.get_params())
    assert repr(clone(model)) == "BernoulliProduct()"
    model.set_callbacks()
    assert not hasattr(model, "_skl_callbacks")
