"""A strength that the data choose, against urns and against the evidence written out."""

from __future__ import annotations

from itertools import product as every

import jax
import numpy as np
import pytest
from scipy.special import betaln
from tests.models.mixture import twin
from tests.models.steps import step, unchecked
from tests.tables import as_bytes, classes

from latentbits.core.tree import double
from latentbits.models.mixture import coordinates, smoothing, tuning
from latentbits.models.mixture import model as mixture


def urns(table, labels, k, mean, strength):
    """Give log P(rows and their components), one after the other, each given those before it."""
    total, n, ones = 0.0, np.zeros(k), np.zeros((k, table.shape[1]))
    for i, (row, c) in enumerate(zip(table, labels)):
        p = (ones[c] + strength * mean) / (n[c] + strength)
        total += np.log((n[c] + strength) / (i + k * strength)) + np.log(np.where(row, p, 1 - p)).sum()
        n[c] += 1
        ones[c] += row
    return total


def counts(n, ones, seen):
    return unchecked(coordinates.Counts, *(np.array(x, float) for x in (n, ones, seen)))


def bound_at(k, table, weights, means, strength):
    """Ask the stage of the evidence for what it says of parameters."""
    model = mixture.model(k, "auto", accelerate=False)
    acting = model.acting_in(next(stage for stage in model.stages if stage.name == "evidence"))
    params = unchecked(smoothing.Smoothed, np.array(weights), np.array(means), np.float64(strength))
    return float(step(acting, params, table, complete=True)[2])


def test_evidence_against_urns_and_its_bound_against_all_assignments():
    rng = np.random.default_rng(5)
    table = (rng.random((7, 3)) < 0.4).astype(np.uint8)
    k, strength, labels = 2, 0.7, rng.integers(2, size=7)
    mean = twin.column_means(table, strength)
    with double():
        evidence = jax.jit(smoothing.log_evidence)(strength, counts(*twin.counts_of(table, np.eye(k)[labels])), mean)
    assert evidence == pytest.approx(urns(table, labels, k, mean, strength), rel=1e-12)
    exact = np.logaddexp.reduce([urns(table, one, k, mean, strength) for one in every(range(k), repeat=7)])
    for spread in (1e-9, 0.1, 0.3):
        means = np.clip(mean + spread * rng.normal(size=(k, 3)), 0.05, 0.95)
        assert exact - 5 < bound_at(k, table, [0.4, 0.6], means, strength) < exact
    # a component that has all rows leaves nothing to be unsure of
    alone = bound_at(k, table, [1.0, 0.0], np.stack([mean, mean]), strength)
    assert alone == pytest.approx(urns(table, [0] * 7, k, mean, strength), rel=1e-10)


def evidence_of_bits(strength, ones, seen, mean):
    a, b = strength * mean, strength * (1 - mean)
    return np.sum(betaln(ones + a, seen - ones + b) - betaln(a, b))


@pytest.mark.parametrize("begin", [0.05, 50.0])
@pytest.mark.parametrize("truth", [0.5, 6.0])
def test_the_strength_is_the_most_probable_one(begin, truth):
    rng = np.random.default_rng(1)
    mean = rng.uniform(0.1, 0.6, 12)
    seen = np.repeat(rng.integers(0, 60, 80)[:, None], 12, 1)
    ones = rng.binomial(seen, rng.beta(truth * mean, truth * (1 - mean), (80, 12)))
    with double():
        found, choose = np.float64(begin), jax.jit(smoothing.most_probable)
        for _ in range(4):
            found = np.float64(choose(found, counts(np.zeros(80), ones, seen), mean))
    below, at, above = (evidence_of_bits(found * f, ones, seen, mean) for f in (0.98, 1, 1.02))
    assert at > max(below, above)
    assert found == pytest.approx(truth, rel=0.25)


def test_a_step_with_a_strength_to_choose_keeps_it_first_and_then_takes_the_most_probable():
    table, start, strength = as_bytes(classes(k=3, missing=0.1)), twin.some_parameters(), np.float64(1.7)
    model = mixture.model(3, "auto", accelerate=False)
    acting = model.acting_in(model.stages[0])
    assert model.stages[0].name == "choice of smoothing"
    for iteration in [tuning.SMOOTHING_FIXED_PASSES - 1] + [tuning.SMOOTHING_FIXED_PASSES] * 8:
        params = unchecked(smoothing.Smoothed, start.weights, start.means, strength)
        _, found, objective = step(acting, params, table, None, iteration)
        assert objective == pytest.approx(twin.em(table, start, strength)[1])
        wanted, _ = twin.em(table, start, float(found.smoothing))
        base = twin.column_means(table, strength)  # as they were before the choice
        _, ones, seen = twin.counts_of(table, twin.shares(twin.log_joint(table, start)))
        np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-10)
        np.testing.assert_allclose(found.means, wanted.means, rtol=1e-10)
        assert found.smoothing == 1.7 or iteration == tuning.SMOOTHING_FIXED_PASSES
        strength = found.smoothing
    below, at, above = (evidence_of_bits(strength * f, ones, seen, base) for f in (0.9, 1, 1.1))
    assert at > max(below, above)
