"""Classes compared in an outside variable: exact where classes are known, and unbiased where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits.reports.class_fit import classification
from latentbits.reports.classes import shares_of
from latentbits.reports.outside import class_differences
from latentbits.reports.patterns import distinct

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.8] * 6, [0.2] * 6, [0.8] * 3 + [0.2] * 3])
CENTRES, SPREADS = np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.5, 0.7])
CHANCES = np.array([[0.6, 0.25, 0.15], [0.3, 0.4, 0.3], [0.15, 0.15, 0.7]])
LABELS = ["a", "b", "c"]


def drawn(n, seed):
    """Rows' given classes, an outside number, an outside category, and the errors of classification."""
    rng = np.random.default_rng(seed)
    of = rng.choice(3, n, p=WEIGHTS)
    bits = (rng.random((n, 6)) < MEANS[of]).astype(np.uint8)
    category = (rng.random(n)[:, None] > CHANCES.cumsum(1)[of]).sum(1)
    errors = classification(distinct([(bits, None)]), WEIGHTS, MEANS).modal_by_class
    return shares_of(bits, WEIGHTS, MEANS)[0].argmax(1), rng.normal(CENTRES[of], SPREADS[of]), category, errors


@pytest.mark.parametrize("method", ["bch", "ml"])
def test_known_classes_are_plain_means_and_shares(method):
    rng = np.random.default_rng(0)
    of, y = np.repeat([0, 1, 2], [50, 30, 20]), rng.normal(size=100)
    parts = [y[of == c] for c in range(3)]
    found = class_differences(of, y, np.ones(100), np.eye(3), method, [])
    np.testing.assert_allclose(found.estimate, [p.mean() for p in parts], rtol=1e-9)
    np.testing.assert_allclose(found.error, [p.std() / len(p) ** 0.5 for p in parts], rtol=1e-6)
    np.testing.assert_allclose(found.uncorrected, found.estimate, rtol=1e-9)
    variance = found.error**2
    gap = found.estimate[0] - found.estimate[2]
    np.testing.assert_allclose(found.difference[1], gap)
    np.testing.assert_allclose(found.pair_statistic[1], gap**2 / (variance[0] + variance[2]), rtol=1e-6)
    weight = 1 / variance
    overall = weight @ found.estimate / weight.sum()
    assert found.statistic == pytest.approx(weight @ (found.estimate - overall) ** 2, rel=1e-6)
    assert found.df == 2

    labels = rng.integers(0, 2, 100).astype(float)
    found = class_differences(of, labels, np.ones(100), np.eye(3), method, ["no", "yes"])
    share = np.array([labels[of == c].mean() for c in range(3)])
    np.testing.assert_allclose(found.estimate, np.column_stack([1 - share, share]), rtol=1e-6)
    np.testing.assert_allclose(found.error[:, 1], np.sqrt(share * (1 - share) / [50, 30, 20]), rtol=1e-5)
    assert (found.df, found.pair_df.tolist()) == (2, [1, 1, 1])


@pytest.mark.parametrize("method", ["bch", "ml"])
def test_counts_are_rows_written_out(method):
    given, y, category, errors = drawn(120, 3)
    counts = np.random.default_rng(0).integers(0, 3, 120)
    for values, labels in ((y, []), (category.astype(float), LABELS)):
        by_count = class_differences(given, values, counts.astype(float), errors, method, labels)
        written = [np.repeat(x, counts) for x in (given, values)]
        plain = class_differences(*written, np.ones(counts.sum()), errors, method, labels)
        np.testing.assert_allclose(by_count.estimate, plain.estimate, rtol=1e-6)
        np.testing.assert_allclose(by_count.error, plain.error, rtol=1e-6)


def test_maximum_likelihood_is_a_maximum():
    """Of P(given, y): nothing nearby is more probable."""
    given, y, _, errors = drawn(400, 5)
    found = class_differences(given, y, np.ones(400), errors, "ml", [])
    # variances and shares at the same point, by a step of EM from it
    shares, variance = np.full(3, 1 / 3), np.full(3, y.var())
    for _ in range(3000):
        joint = (
            shares * errors[:, given].T * np.exp(-0.5 * (y[:, None] - found.estimate) ** 2 / variance) / variance**0.5
        )
        r = joint / joint.sum(1, keepdims=True)
        shares, variance = r.mean(0), np.sum(r * (y[:, None] - found.estimate) ** 2, 0) / r.sum(0)
    np.testing.assert_allclose(r.T @ y / r.sum(0), found.estimate, atol=1e-4)


def test_shares_at_a_bound_are_reported():
    of, labels = np.repeat([0, 1], 20), np.repeat([0.0, 1.0, 0.0, 1.0], [20, 0, 10, 10])
    found = class_differences(of, labels, np.ones(40), np.eye(2), "ml", ["no", "yes"])
    assert np.isnan(found.error[0]).all()
    assert np.isfinite(found.error[1]).all()
    assert np.isnan(found.statistic)
    assert "held there" in found.notes[0]
    assert "a test is missing" in found.notes[1]


def test_negative_shares_by_weights_are_reported():
    errors = np.array([[0.7, 0.3], [0.3, 0.7]])
    of, labels = np.repeat([0, 1], 50), np.repeat([0.0, 1.0, 1.0], [50, 10, 40])
    found = class_differences(of, labels, np.ones(100), errors, "bch", ["no", "yes"])
    assert found.estimate.min() < 0
    assert "below 0" in found.notes[0]


def test_rows_of_a_class_that_are_all_alike():
    of = np.repeat([0, 1], 20)
    y = np.where(of == 0, 3.0, np.random.default_rng(0).normal(size=40))
    found = class_differences(of, y, np.ones(40), np.eye(2), "ml", [])
    assert np.isnan(found.error[0])
    assert np.isfinite(found.error[1])
    assert "alike" in found.notes[0]


def test_a_variable_that_makes_separate_classes_is_named():
    """Skew and not normal, and alike in both classes: the likelihood takes its two parts for the classes."""
    rng, errors = np.random.default_rng(0), np.array([[0.65, 0.35], [0.3, 0.7]])
    given, y = rng.integers(0, 2, 200), rng.exponential(size=200)
    found = class_differences(given, y, np.ones(200), errors, "ml", [])
    assert found.p < 1e-3
    assert "of the rows into another class than X does" in found.notes[-1]
    assert class_differences(given, y, np.ones(200), errors, "bch", []).notes == ()
    sure = class_differences(given, y, np.ones(200), np.array([[0.95, 0.05], [0.05, 0.95]]), "ml", [])
    assert sure.notes == ()


def test_classes_that_cannot_be_distinguished():
    with pytest.raises(ValueError, match="only 1 of 2 classes"):
        class_differences(np.zeros(5, int), np.arange(5.0), np.ones(5), np.array([[1.0, 0], [1, 0]]), "bch", [])


def test_one_class():
    found = class_differences(np.zeros(5, int), np.arange(5.0), np.ones(5), np.eye(1), "bch", [])
    assert found.estimate.tolist() == [2.0]
    assert (found.df, len(found.pairs)) == (0, 0)
    assert "class 1" in str(found)


def test_tables():
    given, y, category, errors = drawn(200, 1)
    text = str(class_differences(given, y, np.ones(200), errors, "bch", []))
    assert text.startswith("all classes alike: X2")
    assert "class 1 - class 3" in text
    frame = class_differences(given, category.astype(float), np.ones(200), errors, "ml", LABELS).to_frame()
    assert list(frame.columns) == ["a", "error of a", "b", "error of b", "c", "error of c", "X2", "p"]
    assert len(frame) == 6


@pytest.mark.slow("bias and coverage over 300 tables")
@pytest.mark.parametrize("method", ["bch", "ml"])
@pytest.mark.parametrize("labels", [[], LABELS])
def test_correction_removes_the_bias_and_errors_are_right(method, labels):
    """300 tables: means within 4.5 of their standard errors (18 of them: a false alarm in 10 000), modal classes' not.

    Intervals of 95 % cover between 90 and 99 %, which is 4 standard errors of their share.
    """
    truth = CHANCES if labels else CENTRES
    found = []
    for seed in range(300):
        given, y, category, errors = drawn(1000, seed)
        values = category.astype(float) if labels else y
        found.append(class_differences(given, values, np.ones(1000), errors, method, labels))
    estimate = np.array([f.estimate for f in found])
    error = estimate.std(0) / len(found) ** 0.5
    assert np.abs((estimate.mean(0) - truth) / error).max() < 4.5
    plain = np.array([f.uncorrected for f in found])
    assert np.abs((plain.mean(0) - truth) / (plain.std(0) / len(found) ** 0.5)).max() > 20
    stated = np.array([f.error for f in found])
    known = np.isfinite(stated)
    assert known.mean() > 0.99
    covered = (np.abs(estimate - truth) < 1.96 * stated) & known
    share = covered.sum(0) / known.sum(0)
    assert share.min() > 0.9
    assert share.max() < 0.99
