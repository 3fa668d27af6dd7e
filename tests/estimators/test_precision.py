"""Digits: rows in float32 where that is enough, in float64 where it is not, and what is lost is said."""

from __future__ import annotations

import copy
import itertools
import warnings

import numpy as np
import pytest
from tests.fitted import fitted, new, table

import latentbits
from latentbits import BernoulliProduct, CombinationMachine
from latentbits.choosing.compare import score_rows
from latentbits.core.errors import PrecisionWarning
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.stream import StreamEngine
from latentbits.engines.summary import column_moments, row_powers

CODING = "binary-sparse-coding"
BARS = table(CODING)


def summed(energies, on):
    """Sum over the states of each row: the log, and the posterior means of their bits."""
    top = energies.max(1, keepdims=True)
    weight = np.exp(energies - top)
    total = weight.sum(1)
    return top[:, 0] + np.log(total), weight @ on / total[:, None]


def states(n):
    return np.array(list(itertools.product((0, 1), repeat=n)), float)


def causes_by_force(m, X):
    on = states(len(m.components_))
    means, seen = on @ m.components_, np.sum(~np.isnan(X), 1)[:, None]
    prior = on.sum(1) * np.log(m.prior_) + (1 - on).sum(1) * np.log1p(-m.prior_)
    away = np.stack([np.nansum((row - means) ** 2, 1) for row in X])
    return summed(prior - away / (2 * m.noise_std_**2) - seen / 2 * np.log(2 * np.pi * m.noise_std_**2), on)


def units_by_force(m, X):
    """A mixture of normal distributions of variance 1 around b + w(h); what weights and log Z share is left out."""
    on = states(len(m.hidden_bias_))
    from_bias = on @ m.components_
    weight = on @ (m.hidden_bias_ + m.components_ @ m.input_bias_) + 0.5 * np.sum(from_bias**2, 1)
    weight -= np.log(np.sum(np.exp(weight - weight.max()))) + weight.max()
    away = np.stack([np.sum((row - m.input_bias_ - from_bias) ** 2, 1) for row in X])
    return summed(weight - away / 2 - X.shape[1] / 2 * np.log(2 * np.pi), on)


@pytest.mark.slow("two fits in float64")
@pytest.mark.parametrize("X", [300 + 0.01 * BARS, 10_000 + BARS], ids=["300 + X / 100", "10 000 + X"])
def test_sparse_coding_far_from_zero_is_what_all_states_sum_to(X):
    m = new(CODING).fit(X)
    assert m.dtype_ == "float64"
    value, mean = causes_by_force(m, X)
    np.testing.assert_allclose(m.score_samples(X), value, rtol=1e-6)
    np.testing.assert_allclose(m.transform(X), mean, atol=1e-6)
    assert m.score(X) == pytest.approx(value.mean(), rel=1e-6)
    assert m.log_likelihoods(X).error.max() == 0
    single = copy.copy(m).set_params(dtype="float32")
    for score in (single.score, single.score_samples):
        with pytest.warns(PrecisionWarning, match="known to ±"):
            score(X)


def test_an_ordinary_table_stays_in_float32_with_the_same_bits():
    near = fitted(CODING)
    assert near.dtype_ == "float32"
    single = new(CODING).set_params(dtype="float32").fit(BARS)
    np.testing.assert_array_equal(near.components_, single.components_)
    np.testing.assert_array_equal(near.score_samples(BARS), single.score_samples(BARS))
    assert near.transform(BARS).dtype == np.float32
    assert near.log_likelihoods(BARS).error.max() == 0


def test_rows_far_from_those_of_the_fit_are_computed_in_float64():
    near, X = fitted(CODING), BARS + 10_000
    np.testing.assert_allclose(near.score_samples(X), causes_by_force(near, X)[0], rtol=1e-9)
    assert near.transform(X).dtype == np.float64
    np.testing.assert_array_equal(near.score_samples(lambda: iter([X[:20], X[20:]])), near.score_samples(X))


def test_float32_where_it_is_asked_for_says_what_it_costs():
    """Some hundred noises from 0: the stated error is about the one that is made, and no mean goes without it."""
    near, X = fitted(CODING), BARS + 600
    m = copy.copy(near).set_params(dtype="float32")
    rows, truth = m.log_likelihoods(X), causes_by_force(near, X)[0]
    made = np.sqrt(np.mean((np.asarray(rows.value, float) - truth) ** 2))
    assert 0.5 * made < np.mean(rows.error) < 10 * made
    np.testing.assert_array_equal(rows.error, rows.rounding)
    total, error = m.log_likelihood(X, return_error=True)
    assert abs(total - truth.sum()) < error
    with warnings.catch_warnings(record=True) as said:  # others may be said as well: that the noise cannot be known
        warnings.simplefilter("always")
        new(CODING).set_params(dtype="float32").fit(10_000 + BARS)
    assert any("rows in float32" in str(one.message) and "dtype='auto'" in str(one.message) for one in said)


def test_times_in_seconds_are_said_to_be_too_far_away():
    """1.7e9 is too far from 0 for float64, too: the noise stops at what can be known, which is right and said."""
    X = 1.7e9 + BARS
    with pytest.warns(PrecisionWarning, match="subtract from each column"):
        m = new(CODING).fit(X)
    assert m.score(X) == pytest.approx(causes_by_force(m, X)[0].mean(), abs=0.05)


@pytest.fixture(scope="module")
def reals():
    rng = np.random.default_rng(0)
    return (rng.random((240, 2)) < 0.5) @ (2 * rng.normal(size=(2, 6))) + rng.normal(size=(240, 6))


@pytest.mark.slow("machines learned far from 0, by the default learner")
@pytest.mark.parametrize("offset", [30_000.0, 1.7e9])
def test_a_machine_of_real_numbers_is_the_same_anywhere(reals, offset, tmp_path):
    here = CombinationMachine(2, kind="real", random_state=0).fit(reals)
    X = reals + offset
    m = CombinationMachine(2, kind="real", random_state=0).fit(X)
    value, mean = units_by_force(m, X)
    np.testing.assert_allclose(m.score_samples(X), value, atol=1e-4)
    np.testing.assert_allclose(m.transform(X), mean, atol=1e-4)
    assert m.score(X) == pytest.approx(here.score(reals), abs=0.01)
    assert m.log_likelihoods(X).error.max() == 0
    holes = X.copy()
    holes[::2, 0] = np.nan
    assert np.abs(m.complete(holes) - X).max() < 5
    np.testing.assert_allclose(m.sample(500, random_state=0).mean(0), X.mean(0), atol=0.5)
    np.testing.assert_allclose(m.inverse_transform(m.transform(X)).mean(0), X.mean(0), atol=0.2)
    m.save(tmp_path / "m.safetensors")
    loaded = latentbits.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.score_samples(X), m.score_samples(X))
    np.testing.assert_array_equal(loaded.input_bias_, m.input_bias_)
    given = CombinationMachine.from_parameters(m.components_, m.hidden_bias_, m.input_bias_, kind="real")
    np.testing.assert_allclose(given.score_samples(X), value, atol=1e-4)
    if offset < 1e5:  # further away log Z itself has no digits left, and is not used
        own = X @ m.input_bias_ - 0.5 * np.sum(X**2, 1)
        plain = own + np.logaddexp(0, X @ m.components_.T + m.hidden_bias_).sum(1) - m.log_partition_
        np.testing.assert_allclose(plain, value, atol=1e-3)


@pytest.mark.slow("machines learned far from 0, by the default learner")
def test_a_far_machine_learns_the_same_from_a_stream(reals):
    """Of a stream rows are not shuffled, so the order is that of the table in memory."""
    X = reals[np.random.default_rng(0).permutation(len(reals))] + 30_000
    stream = CombinationMachine(2, kind="real", random_state=0).fit(lambda: iter([X[:100], X[100:]]))
    memory = CombinationMachine(2, kind="real", random_state=0).fit(reals + 30_000)
    np.testing.assert_allclose(stream.components_, memory.components_, atol=5e-3)
    np.testing.assert_allclose(stream.input_bias_, memory.input_bias_, atol=5e-3)
    np.testing.assert_array_equal(stream._offset, memory._offset)


@pytest.fixture(scope="module")
def wide():
    """Draw 40 rows of 30 000 bits, with means of about 1/2."""
    rng = np.random.default_rng(0)
    return (rng.random((40, 30_000)) < rng.uniform(0.3, 0.7, 30_000)).astype(np.uint8)


def product_by_force(m, X):
    p = np.clip(m.params_.means, 1e-12, 1 - 1e-12)
    return X @ np.log(p) + (1 - X) @ np.log1p(-p)


def test_many_columns_are_computed_in_float64(wide):
    m = BernoulliProduct().fit(wide)
    assert m.dtype_ == "float64"
    np.testing.assert_allclose(m.score_samples(wide), product_by_force(m, wide), rtol=1e-12)
    assert m.log_likelihoods(wide).error.max() == 0
    assert fitted("product").dtype_ == "float32"


@pytest.mark.slow("30 000 columns in both precisions")
@pytest.mark.parametrize(
    "model", [new("product"), new("mixture").set_params(max_iter=3, tol=1e6)], ids=["product", "mixture"]
)
def test_many_columns_in_float32_have_a_stated_error(wide, model):
    m = model.fit(wide)
    truth = m.score_samples(wide)
    rows = m.set_params(dtype="float32").log_likelihoods(wide)
    made = np.sqrt(np.mean((np.asarray(rows.value, float) - truth) ** 2))
    assert made > 1e-4  # or there is nothing to state
    assert made / 3 < np.mean(rows.error)
    # errors of rounding do not average out: those of all rows may have one sign
    total, error = m.log_likelihood(wide, return_error=True)
    assert error == pytest.approx(rows.rounding.sum())
    assert abs(total - truth.sum()) < 3 * error
    assert score_rows(m, wide)[1] == pytest.approx(error / 40 / np.log(2))


def test_rows_that_a_model_holds_most_improbable_are_computed_in_float64():
    """Few columns, but thousands of nats: float32 would be wrong in the second decimal."""
    X = np.zeros((300, 400), np.uint8)
    m = BernoulliProduct(smoothing=0).fit(X)
    worst = np.ones((1, 400), np.uint8)
    assert m.score_samples(worst)[0] == pytest.approx(product_by_force(m, worst)[0], rel=1e-13)


def test_moments_far_from_zero_are_the_same_on_every_engine():
    rng = np.random.default_rng(0)
    X = 1.7e9 + rng.normal(size=(1000, 3))
    X[::7, 1] = np.nan
    memory = MemoryEngine(X)
    stream = StreamEngine(lambda: iter([X[:10], X[10:700], X[700:]]), 3)
    found = column_moments(memory)
    np.testing.assert_allclose(found.variance, np.nanvar(X - 1.7e9, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.mean - 1.7e9, np.nanmean(X - 1.7e9, axis=0), atol=1e-6)
    for one, other in zip(found, column_moments(stream), strict=True):
        np.testing.assert_array_equal(one, other)
    assert row_powers(memory) == row_powers(stream)


def test_a_likelihood_that_is_no_number_is_said():
    m, X = copy.copy(fitted("mixture")), table("mixture")
    m.params_ = m.params_.replace(means=np.full_like(m.params_.means, np.nan))
    with pytest.warns(PrecisionWarning, match=r"log p\(x\) of 240 rows is not a number"):
        m.log_likelihoods(X)
