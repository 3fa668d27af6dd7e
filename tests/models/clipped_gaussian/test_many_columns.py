"""Correlations of very many columns, block by block, against all at once."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits.core import limits
from latentbits.core.batch import MISSING
from latentbits.core.errors import FitError
from latentbits.models.clipped_gaussian import many_columns, tetrachoric


def table_with_structure(n, d, missing=0.0, seed=5):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(3, d))
    X = (rng.normal(size=(n, 3)) @ loadings + rng.normal(size=(n, d)) > rng.uniform(-1.5, 1.5, d)).astype(np.uint8)
    X[:, 3] = 1  # constant
    X[rng.random((n, d)) < missing] = MISSING
    return X


@pytest.mark.parametrize(("missing", "bias"), [(0.0, True), (0.3, True), (0.3, False)])
def test_block_by_block_the_correlations_are_the_same(missing, bias, monkeypatch):
    monkeypatch.setattr(many_columns, "WIDE_PAIRS_AT_ONCE", 100)  # many blocks
    X = table_with_structure(70, 23, missing)
    whole = tetrachoric.correlations(tetrachoric.count(X), bias)
    found = many_columns.correlate(many_columns.pack([X[:5], X[5:69], X[69:]], 23), bias, 0.5, limits.no_limit)
    assert len(found.columns) == 22
    at = np.ix_(found.columns, found.columns)
    np.testing.assert_allclose(found.latent, whole.latent[at], atol=1e-6)
    np.testing.assert_allclose(found.binary, whole.binary[at], atol=1e-6)
    np.testing.assert_allclose(found.means, whole.means, atol=1e-12)
    pairs = np.triu_indices(22, 1)
    assert found.n_pairs == len(pairs[0])
    assert found.n_undetermined == whole.undetermined[at][pairs].sum()
    assert found.n_corrected == whole.corrected[at][pairs].sum()
    assert found.n_corrected > 0 or not bias


def test_tables_that_are_alike_are_solved_once(monkeypatch):
    solved = []
    solve = tetrachoric.of_tables
    monkeypatch.setattr(tetrachoric, "of_tables", lambda *a, **k: (solved.append(len(a[0])), solve(*a, **k))[1])
    X = table_with_structure(12, 200)
    many_columns.correlate(many_columns.pack([X], 200), True, 0.5, limits.no_limit)
    assert sum(solved) < 1000  # of 19 900 pairs


def test_pairs_that_would_take_too_long_are_given_up_at_once(monkeypatch):
    """The clock is ours: each look at it is ten seconds later."""
    ticks = iter(range(0, 10**6, 10))
    monkeypatch.setattr(limits.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(many_columns, "WIDE_PAIRS_AT_ONCE", 100)
    monkeypatch.setattr(tetrachoric, "INVERTED_PAIRS_AT_ONCE", 100)
    X = table_with_structure(40, 60)
    with pytest.raises(FitError, match=r"inverting 1,711 pairs of columns would take about \d+ s, and of max_time 30"):
        many_columns.correlate(many_columns.pack([X], 60), True, 0.5, lambda: 30.0)
    with pytest.raises(FitError, match=r"inverting 1,770 pairs of columns would take about \d+ s"):
        tetrachoric.correlations(tetrachoric.count(X), left=lambda: 30.0)
    assert len(many_columns.correlate(many_columns.pack([X], 60), True, 0.5, lambda: 1e6).columns) == 59
