"""Every family fitted once a worker, quickly: for tests of what all of them share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests import tables

from latentbits.core.model import Measure
from latentbits.estimators import files
from latentbits.estimators.families import families, family
from latentbits.estimators.history import history_table

__all__ = ["EVERY", "every", "fitted", "known", "new", "table"]


def every(slow: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Test each family by name; those in `slow`, and those that stand in for another, are left to `make test-all`."""
    mark = pytest.mark.slow("what it compiles takes long")
    return pytest.mark.parametrize(
        "name",
        [pytest.param(one.name, marks=[mark] if one.name in slow or not one.searched else []) for one in families()],
    )


EVERY = every()

# settings that keep a fit short, where a family does more than a test of its face needs
SHORT: dict[str, dict[str, Any]] = {
    "mixture": {"n_init": 1, "accelerate": False},
    "latent-trait": {"method": "variational", "accelerate": False, "tol": 1e-3},
    "item-response": {"tol": 1e-2},
    "curved-trait": {"layer_sizes": (4,), "n_nodes": 5, "n_epochs": 2},
    "trait-maps": {"method": "variational", "n_init": 1, "tol": 1e-3},
    "combination-machine": {"learner": "gradient", "recipe": "freund1994", "max_iter": 20},
    "binary-sparse-coding": {"max_iter": 12, "n_init": 1, "max_active": 2, "n_candidates": 2},
    "noisy-or": {"recipe": {"inference": "exact"}, "max_iter": 3},
    "clipped-gaussian": {"extraction": "components"},  # two factors of so few columns are a Heywood case
}


def new(name: str) -> Any:
    """Make an estimator of two causes that nothing has been fitted to."""
    record = family(name)
    model = record.new(2, record.rows[0], tables.D)
    return model.set_params(random_state=0, **SHORT.get(name, {}))


@cache
def table(name: str) -> np.ndarray:
    """Draw rows that the family takes, some of their cells missing."""
    return tables.bars(missing=0.05) if family(name).rows[0] == "reals" else tables.classes(missing=0.1)


@cache
def fitted(name: str) -> Any:
    """Fit once, for all tests: they must not change it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return new(name).fit(table(name))


def known(estimator: Any, arrays: Mapping[str, Any], **attributes: Any) -> Any:
    """Make a fitted model of six columns, without a fit: its parameters, by their names in files, are set."""
    estimator.n_features_in_ = tables.D
    history = [("EM", Measure.LIKELIHOOD, objective) for objective in (-9.0, -8.0, -7.5)]
    learned = {"history_table_": history_table(history), "n_iter_": 3, "stop_reason_": "converged", "objective_": -7.5}
    for name, value in (learned | attributes).items():
        setattr(estimator, name, value)
    estimator.params_ = files._unflatten(estimator._params_type(), {k: np.asarray(v) for k, v in arrays.items()})
    estimator._expose()
    return estimator
