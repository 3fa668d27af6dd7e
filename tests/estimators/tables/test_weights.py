"""Weights as users give them, and as engines take them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from tests.fitted import fitted, new
from tests.tables import classes

from latentbits.core.errors import DataError
from latentbits.estimators.tables.weights import in_rows, open_weights

FACTORS = (1e-12, 1e-5, 1 / 300, 0.1, 1.0, 2.0, 1e12)


@pytest.mark.parametrize(
    ("counts", "factors"),
    [
        ([1, 0, 3, 2], FACTORS),
        ([2, 3, 5], FACTORS),
        ([7], FACTORS),
        ([11, 500, 23, 120_001], (1.0, 2.0, 1e12)),  # these differ from a survey's where they are whole numbers
    ],
)
def test_multiples_of_counts_are_the_counts(counts, factors):
    for factor in factors:
        weights = factor * np.array(counts, float)
        found = in_rows(weights)
        np.testing.assert_array_equal(found.weights, np.array(counts) / np.gcd.reduce(counts))
        np.testing.assert_allclose(found.unit * found.weights, weights, rtol=1e-14)


@pytest.mark.parametrize("factor", FACTORS)
def test_other_weights_have_a_mean_of_one_where_they_count(factor):
    weights = np.append(np.random.default_rng(0).gamma(2, 1, 50), [0, 0])
    found = in_rows(factor * weights)
    np.testing.assert_array_equal(found.weights, in_rows(weights).weights)
    np.testing.assert_allclose((found.weights.sum(), found.unit * 50), (50, factor * weights.sum()))
    np.testing.assert_allclose(found.unit * found.weights, factor * weights, rtol=1e-8)
    assert found.weights.sum() == sum(found.weights.tolist()[::-1])  # whatever the order
    rounded = in_rows(np.array([0.73, 1.12, 2.05]))  # to two digits: hundredths of rows are no rows
    np.testing.assert_allclose(rounded.weights.mean(), 1)


def test_no_weights_are_none():
    assert in_rows(None) == (None, 1.0)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (None, "NaN")])
def test_a_missing_weight_is_named_with_what_to_do(value, word):
    with pytest.raises(DataError, match=f"sample_weight contains {word}, in row 2: give 0"):
        open_weights([1.0, 2.0, value], 3)


@pytest.mark.parametrize("name", ["product", "mixture"])
def test_weights_for_fewer_rows_than_a_stream_has_are_refused(name):
    X = classes()
    with pytest.raises(
        DataError, match=r"X has (240|more) rows (and|than) sample_weight,? 200: there must be one for each"
    ):
        new(name).fit(lambda: iter([X[:100], X[100:]]), sample_weight=np.ones(200))


@pytest.mark.parametrize("size", [1e300, 1e-40])
def test_weights_that_are_no_numbers_to_compute_with_are_refused(size):
    said = re.escape(f"is {size:.3g}, and must be between 1e-15 and 1e+15: ")
    with pytest.raises(DataError, match=said + ".* divide all"):
        open_weights(np.array([0.0, size]), 2)


def test_a_series_goes_with_the_rows_of_its_index_or_is_refused():
    """Sorted, filtered, numbered from 0 again: by position each row would have the weight of another."""
    X = pd.DataFrame(classes())
    weights = pd.Series(np.arange(240.0), X.index)
    model = fitted("product")
    for use in (lambda w: new("product").fit(X, sample_weight=w), lambda w: model.score(X, sample_weight=w),
                lambda w: model.log_likelihood(X, sample_weight=w), lambda w: model.fit_report(X, w)):  # fmt: skip
        with pytest.raises(DataError, match=r"index of sample_weight is not that of X, .*sample_weight.loc\[X.index\]"):
            use(weights[::-1])
    shuffled = weights.sample(frac=1, random_state=0)
    expected = model.score(X.to_numpy(), sample_weight=weights.to_numpy())
    assert model.score(X, sample_weight=shuffled.loc[X.index]) == pytest.approx(expected)
    assert model.score(X, sample_weight=weights.to_numpy()) == pytest.approx(expected)
    assert model.score(X.to_numpy(), sample_weight=weights) == pytest.approx(expected)
