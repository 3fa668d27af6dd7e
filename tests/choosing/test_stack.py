"""Weights of a mixture of models: the best there are, and rows that did not choose the weights they are scored with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from latentbits.choosing.stack import crossed, log_mixture, stack


def rows_of(n, k, seed, spread=1.0):
    rng = np.random.default_rng(seed)
    return -30 + rng.normal(scale=3, size=(n, 1)) + spread * rng.normal(size=(n, k))


@pytest.mark.parametrize(("n", "k", "spread"), [(300, 5, 0.3), (40, 12, 5.0), (7, 9, 1.0)])
def test_no_weights_are_better(n, k, spread):
    """Against SciPy's optimiser over logits, and by the conditions of an optimum."""
    rows = rows_of(n, k, n + k, spread)
    found = stack(rows)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert found.gap < 1e-9
    assert found.log_likelihood == pytest.approx(log_mixture(rows, found.weights).mean(), abs=1e-12)
    gradient = np.exp(rows - log_mixture(rows, found.weights)[:, None]).mean(axis=0)
    assert gradient.max() - 1 < 2e-9

    def cost(logits):
        w = np.exp(logits - logits.max())
        return -log_mixture(rows, w / w.sum()).mean()

    theirs = min(minimize(cost, start, method="BFGS").fun for start in (np.zeros(k), np.log(found.weights + 1e-6)))
    assert -theirs <= found.log_likelihood + 1e-9
    assert -theirs == pytest.approx(found.log_likelihood, abs=1e-5)


def test_a_model_that_is_always_ahead_gets_all():
    rows = rows_of(100, 4, 0)
    rows[:, 2] = rows.max(axis=1) + 0.1
    assert stack(rows).weights.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_never_worse_than_one_model(spread):
    for seed in range(5):
        rows = rows_of(30, 6, seed, spread)
        assert stack(rows).log_likelihood >= rows.mean(axis=0).max() - 1e-12  # as sums are rounded


def test_models_that_say_the_same():
    one = rows_of(20, 1, 3)
    found = stack(np.repeat(one, 3, axis=1))
    assert found.log_likelihood == pytest.approx(one.mean(), abs=1e-12)
    assert found.gap < 1e-9


def test_a_model_may_hold_rows_impossible_but_not_all_may():
    rows = rows_of(40, 3, 5)
    rows[::2, 0] = rows[1::2, 1] = rows[:, 2] = -np.inf
    found = stack(rows)
    np.testing.assert_allclose(found.weights, [0.5, 0.5, 0], atol=1e-9)
    assert np.isfinite(found.log_likelihood)
    rows[7] = -np.inf
    with pytest.raises(ValueError, match="row 7 has no finite"):
        stack(rows)
    rows[7] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        stack(rows)


def test_weights_of_rows_are_repetitions():
    rows, counts = rows_of(30, 4, 8), np.arange(30) % 3 + 1
    written_out = stack(np.repeat(rows, counts, axis=0))
    np.testing.assert_allclose(stack(rows, counts.astype(float)).weights, written_out.weights, atol=1e-6)


def test_no_row_chooses_the_weights_that_it_is_scored_with():
    """A row that is changed moves the weights of the other half alone; noise gains nothing but by looking at it."""
    rows = rows_of(60, 8, 1)
    before = crossed(rows, 0)
    changed = rows.copy()
    changed[10, 3] += 20
    moved = ~np.isclose(crossed(changed, 0), before, atol=1e-6)
    assert 25 <= moved.sum() <= 31  # half of the rows by their weights, and the row itself by what it says
    assert moved[10]
    noise = rows_of(60, 30, 2)
    assert crossed(noise, 0).mean() < stack(noise).log_likelihood
    with pytest.raises(ValueError, match="two rows"):
        crossed(rows[:1], 0)
