"""How the explorer spends its fits."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import bits

from latentbits import BernoulliMixture, LatentTrait
from latentbits.explorer import explore as exploring

TABLE = bits(n=60, d=6, k=2)


@pytest.mark.parametrize(
    ("model", "rows", "finished", "is_map"),
    [
        (LatentTrait(2, random_state=0), 60, True, True),
        (LatentTrait(2, random_state=1), 60, True, False),  # another fit
        (LatentTrait(1, random_state=0), 60, True, False),
        (BernoulliMixture(2, random_state=0), 60, True, False),
        (LatentTrait(2, random_state=0), 50, True, False),  # learned from a sample
        (LatentTrait(2, random_state=0), 60, False, False),
    ],
)
def test_the_entry_of_two_traits_is_the_map(model, rows, finished, is_map):
    given = SimpleNamespace(counting=np.arange(60), values=TABLE)
    found = SimpleNamespace(n_used=rows, units=None, fitted={"it": model})
    mapped = LatentTrait(2, random_state=0)
    mapped.stop_reason_ = "converged" if finished else "max_time"
    assert exploring._on_the_map(found, given, mapped) == ({"it": mapped} if is_map else {})


@pytest.mark.slow
def test_two_traits_are_fitted_to_all_rows_once(monkeypatch):
    """The map is shown as the model of the comparison, and its cards are those of the map."""
    learned = []
    fit = LatentTrait.fit

    def counted(self, X, *given, **settings):
        learned.append(len(X))
        return fit(self, X, *given, **settings)

    monkeypatch.setattr(LatentTrait, "fit", counted)
    estimator = exploring.family("latent-trait").new(2, "bits", 6).set_params(random_state=0)
    found = exploring.explore(TABLE, model=estimator, out=None, budget=None)
    assert learned.count(60) == 1
    assert found.models["2 latent traits"] is found.map


def test_equal_rows_are_learned_from_once():
    X = np.vstack([TABLE[:20]] * 3).astype(float)
    X[5, 2] = X[25, 2] = np.nan  # equal, with a hole
    values, weights = exploring._each_once(X, None)
    assert weights.sum() == 60
    assert len(np.unique(np.nan_to_num(values, nan=2), axis=0)) == len(values) < 30
    np.testing.assert_allclose(weights @ np.nan_to_num(values), np.nan_to_num(X).sum(axis=0))
    values, weights = exploring._each_once(X, np.arange(60.0))
    assert weights.sum() == np.arange(60.0).sum()
    distinct = np.eye(20)
    assert exploring._each_once(distinct, None)[0] is distinct
