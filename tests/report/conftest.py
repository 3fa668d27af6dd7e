"""Shared by the tests of reports: an exploration made of numbers."""

import numpy as np
import pytest

from latentbits.report.map_summaries import TraitMap
from latentbits.report.summaries import Exploration


@pytest.fixture
def mapped():
    """A function that gives a map of 50 rows and 6 columns, with changes."""
    return _mapped


def _mapped(q=2, **changes):
    rng = np.random.default_rng(1)
    fields = {
        "source": "zoo",
        "means": rng.normal(size=(50, q)),
        "components": rng.normal(size=(q, 6)),
        "intercept": rng.normal(size=6) / 2,
        "column_names": tuple("abcdef"),
        "labels": ["cat", "dog"] * 25,
        "label_name": "class",
    }
    return TraitMap(**{**fields, **changes})


@pytest.fixture
def explored():
    """A function that gives an exploration of a small table, with changes."""
    return _explored


def _explored(**changes):
    k, d = 3, 6
    rng = np.random.default_rng(0)
    fields = {
        "source": "zoo",
        "n_rows": 100,
        "n_columns": d,
        "n_held_out": 25,
        "models": ("mixture of 3", "mixture of 2", "independent bits"),
        "bits": np.array([3.0, 3.5, 5.0]),
        "errors": np.array([0.1, 0.1, 0.2]),
        "behind": np.array([0.0, 0.5, 2.0]),
        "behind_errors": np.array([0.0, 0.1, 0.3]),
        "shown": "mixture of 3",
        "weights": np.array([0.6, 0.395, 0.005]),
        "means": rng.random((k, d)),
        "column_names": tuple("abcdef"),
        "image_shape": None,
        "history": np.array([5.0, 3.2, 3.0]),
        "truth": np.ones((4, d)),
        "given": np.where(np.arange(d) < 3, 1.0, np.nan) * np.ones((4, 1)),
        "completed": np.full((4, d), 0.7),
        "right": 0.9,
        "right_alone": 0.75,
    }
    return Exploration(**{**fields, **changes})
