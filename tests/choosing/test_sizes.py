"""Several sizes side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.tables import classes

from latentbits import BernoulliMixture, BernoulliProduct, NoisyOrNetwork, compare, size_table
from latentbits.choosing import sizes

TABLE = classes()


@pytest.mark.slow("each size is learned twice")
def test_each_size_is_the_fit_of_that_size():
    X = TABLE
    mixture = BernoulliMixture(smoothing=0, n_init=1, random_state=0)
    found = size_table(mixture, X, (1, 2))
    alone = [BernoulliMixture(k, smoothing=0, n_init=1, random_state=0).fit(X).fit_report(X) for k in (1, 2)]
    assert found.sizes == (1, 2)
    assert found.n_parameters.tolist() == [6, 13]
    for name in ("log_likelihood", "aic", "bic", "sabic", "caic"):
        np.testing.assert_allclose(found[name], [one[name] for one in alone], rtol=1e-9)
    assert found.best("bic") == 2
    assert [m.n_components for m in found.fitted] == [1, 2]
    assert mixture.n_components == 2
    with pytest.raises(ValueError, match="criterion must be one of aic"):
        found.best("log_likelihood")
    lines = str(found).splitlines()
    assert lines[1].split() == ["n_parameters", "log_likelihood", "aic", "bic", "sabic", "caic", "converged"]
    assert lines[4].split()[:2] == ["g2", "x2"]  # what does not fit is below
    assert max(len(line) for line in lines if not line.startswith("note")) <= 80
    record = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert record["n_parameters"] == [6, 13]
    assert record["reports"][1]["n_rows"] == 240
    assert "fitted" not in record


def test_a_size_that_fails_is_reported_and_left_out(monkeypatch):
    honest = sizes._fitted

    def failing(estimator, X, sample_weight):
        if estimator.n_components == 3:
            raise ValueError("too many for these rows")
        return honest(estimator, X, sample_weight)

    monkeypatch.setattr(sizes, "_fitted", failing)
    found = size_table(BernoulliMixture(n_init=1, random_state=0), TABLE, (1, 3))
    assert found.sizes == (1,)
    assert "mixture of 3 is not there: too many for these rows" in found.notes
    assert any("smoothing=1" in note for note in found.notes)


def test_an_interrupt_keeps_what_is_finished(monkeypatch):
    honest = sizes._fitted

    def stopped(estimator, X, sample_weight):
        if estimator.n_components == 2:
            raise KeyboardInterrupt
        return honest(estimator, X, sample_weight)

    monkeypatch.setattr(sizes, "_fitted", stopped)
    found = size_table(BernoulliMixture(smoothing=0, n_init=1), TABLE, (1, 2, 3))
    assert (found.sizes, found.interrupted) == ((1,), True)
    assert found.notes[0] == "interrupted before mixture of 2 was fitted"


def test_what_has_no_size_is_refused():
    with pytest.raises(ValueError, match="BernoulliProduct has no size"):
        size_table(BernoulliProduct(), TABLE)
    with pytest.raises(ValueError, match="sizes is empty"):
        size_table(NoisyOrNetwork(), TABLE, ())


@pytest.mark.slow("a separate comparison")
def test_a_comparison_tells_what_fits_cost():
    X, weights = TABLE, np.tile([1.0, 2.0], 120)
    models = {"one": BernoulliProduct(smoothing=0), "two": BernoulliMixture(2, n_init=1, random_state=0)}
    found = compare(X, models, sample_weight=weights)
    learned = np.setdiff1d(np.arange(240), found.rows)
    for entry in found.entries:
        alone = found.fitted[entry.name].fit_report(X[learned], weights[learned])
        assert entry.n_parameters == alone.n_parameters == {"one": 6, "two": 13}[entry.name]
        np.testing.assert_allclose([entry.aic, entry.bic], [alone.aic, alone.bic], rtol=1e-9)
    assert found.off_maximum == ("two",)
    text = str(found).splitlines()
    assert max(map(len, text)) <= 80
    (line,) = [line for line in text if line.startswith("two") and line.endswith("*")]
    assert line.split()[1] == "13"
