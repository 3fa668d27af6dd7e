"""Fits that several files of this folder look at."""

from __future__ import annotations

from functools import cache

import pytest

from latentbits import ItemResponse, load_dataset


@pytest.fixture(scope="session")
def lsat():
    """Fit LSAT6 or LSAT7 to the end, each once: a function of name and settings, for the model and its rows."""

    @cache
    def fit(name="lsat7", **settings):
        X = load_dataset(name).X
        return ItemResponse(random_state=0, dtype="float64", tol=1e-10, **settings).fit(X), X

    return fit
