"""Every family fitted once, quickly: for tests of what all of them share."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from cases import bits
from sklearn.exceptions import ConvergenceWarning

from latentbits.data import toys
from latentbits.estimators.families import Family, families, family

__all__ = ["EVERY", "every", "fitted", "new", "table"]


def every(slow: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """A test of each family by name; those in `slow`, for which it compiles for long, are left to `make test-all`."""
    names = [one.name for one in families()]
    marks = {name: [pytest.mark.slow] if name in slow else [] for name in names}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks[name]) for name in names])


EVERY = every()

# what keeps a fit short, where a family does more than a test of its face needs
SHORT: dict[str, dict[str, Any]] = {
    "mixture": {"n_init": 1},
    "combination-machine": {"n_epochs": 5},
    "binary-sparse-coding": {"max_iter": 12, "n_init": 1, "max_active": 2, "n_candidates": 2},
    "noisy-or": {"n_updates": 10},
    "clipped-gaussian": {"extraction": "components"},  # two factors of so few columns are a Heywood case
}


def new(name: str) -> Any:
    """An estimator of two causes that nothing has been fitted to."""
    return _new(family(name))


def _new(record: Family) -> Any:
    model = record.new(2, record.rows[0], table(record.name).shape[1])
    return model.set_params(random_state=0, **SHORT.get(record.name, {}))


@cache
def table(name: str) -> np.ndarray:
    """Rows that the family takes, some of their cells missing."""
    if family(name).rows[0] == "reals":
        X = np.asarray(toys.linear_bars(120, random_state=0).X, float)
        X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
        return X
    X = bits(n=300, missing=0.1).astype(float)
    X[X == 255] = np.nan
    return X


@cache
def fitted(name: str) -> Any:
    """A fit that tests share: they must not change it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return new(name).fit(table(name))
