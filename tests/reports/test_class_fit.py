"""Fit of latent classes against enumeration of all patterns, and pairs and tables against plain loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from latentbits.core.batch import MISSING
from latentbits.reports.class_fit import bivariate_residuals, class_fit, classification, saturated
from latentbits.reports.fit import fit_report
from latentbits.reports.patterns import distinct

WEIGHTS = np.array([0.6, 0.4])
MEANS = np.array([[0.9, 0.7, 0.2, 0.6], [0.2, 0.3, 0.8, 0.1]])


def drawn(n=300, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    of = rng.choice(2, n, p=WEIGHTS)
    bits = (rng.random((n, 4)) < MEANS[of]).astype(np.uint8)
    bits[rng.random(bits.shape) < missing] = MISSING
    return bits


def chance(row):
    return sum(w * np.prod([m if x else 1 - m for x, m in zip(row, ms)]) for w, ms in zip(WEIGHTS, MEANS))


def report_of(bits, weights=None, n_parameters=9, **options):
    rows = distinct([(bits, weights)])
    report = fit_report(-1.0, 0.0, n_parameters, round(rows.n_rows), ("a note",))
    return class_fit(report, rows, WEIGHTS, MEANS, **options)


def test_patterns_keep_counts_and_squares_across_blocks():
    bits = np.array([[0, 1], [1, MISSING], [0, 1], [MISSING, MISSING], [1, 1]], np.uint8)
    weights = np.array([2.0, 1.0, 3.0, 9.0, 0.0])
    whole = distinct([(bits, weights)])
    parts = distinct([(bits[:2], weights[:2]), (bits[2:], weights[2:])])
    for rows in (whole, parts):
        found = {tuple(row): (n, s) for row, n, s in zip(rows.bits.tolist(), rows.counts, rows.squares)}
        assert found == {(0, 1): (5.0, 13.0), (1, MISSING): (1.0, 1.0)}


def test_wide_patterns():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (20, 100)).astype(np.uint8)
    rows = distinct([(np.concatenate([bits, bits[:5]]), None)])
    assert len(rows.bits) == 20
    assert rows.n_rows == 25


def test_statistics_against_enumeration():
    bits = drawn()
    observed = [np.sum((bits == row).all(1)) for row in product((0, 1), repeat=4)]
    expected = [len(bits) * chance(row) for row in product((0, 1), repeat=4)]
    found = report_of(bits)
    assert found.x2 == pytest.approx(sum((o - e) ** 2 / e for o, e in zip(observed, expected)))
    assert found.g2 == pytest.approx(2 * sum(o * np.log(o / e) for o, e in zip(observed, expected) if o))
    assert found.df == 16 - 1 - 9
    assert 0 < found.g2_p < 1
    posterior = np.array([[w * np.prod(np.where(x, m, 1 - m)) for w, m in zip(WEIGHTS, MEANS)] for x in bits])
    posterior /= posterior.sum(1, keepdims=True)
    uncertain = -np.sum(posterior * np.log(posterior))
    assert found.entropy == pytest.approx(1 - uncertain / (len(bits) * np.log(2)))
    assert found.notes == ("a note",)
    assert found.smallest_class == 0.4


def test_counts_are_rows_written_out():
    bits = drawn(60)
    weights = np.random.default_rng(1).integers(0, 4, 60).astype(float)
    by_count, written = report_of(bits, weights), report_of(np.repeat(bits, weights.astype(int), 0))
    np.testing.assert_allclose([by_count.g2, by_count.x2], [written.g2, written.x2])


def test_no_p_where_it_would_say_nothing():
    few = report_of(drawn(8))
    assert np.isnan(few.g2_p)
    assert "too few" in few.notes[1]
    assert "sparse" in report_of(drawn(70)).notes[1]
    none = report_of(drawn(), n_parameters=15)
    assert np.isnan([none.g2_p, none.x2_p]).all()
    assert "df 0" in none.notes[1]
    assert "smoothing=1" in report_of(drawn(), smoothing=1.0).notes[1]
    halves = report_of(drawn(), np.full(300, 1.5))
    assert "whole numbers" in halves.notes[1]
    assert "note: a note" in str(halves)


def test_many_columns_need_no_enumeration():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (50, 1500)).astype(np.uint8)
    means = np.full((2, 1500), 0.5)
    found = class_fit(fit_report(0.0, 0.0, 3001, 50), distinct([(bits, None)]), np.array([0.5, 0.5]), means)
    assert np.isnan(found.g2_p)
    assert found.df > 1e300
    assert found.g2 == pytest.approx(2 * 50 * (1500 * np.log(2) - np.log(50)))


def test_columns_that_never_vary_make_no_patterns():
    bits = drawn()
    wide = np.concatenate([bits, np.ones((300, 1), np.uint8)], 1)
    report = fit_report(-1.0, 0.0, 9, 300)
    means = np.concatenate([MEANS, np.ones((2, 1))], 1)
    found = class_fit(report, distinct([(wide, None)]), WEIGHTS, means, (4,))
    assert (found.df, found.n_at_bound) == (6, 0)
    assert found.g2 == pytest.approx(report_of(bits).g2)


def test_probabilities_at_a_bound_are_reported():
    means = MEANS.copy()
    means[0, 0] = 1.0
    found = class_fit(fit_report(-1.0, 0.0, 9, 300), distinct([(drawn(), None)]), WEIGHTS, means)
    assert found.n_at_bound == 1
    assert any(note.startswith("1 of 8 probabilities") for note in found.notes)


def test_saturated_model_with_holes():
    """Against a general optimiser over the probabilities of all patterns."""
    bits = drawn(80, missing=0.25)[:, :3]
    rows = distinct([(bits, None)])
    cells = np.array(list(product((0, 1), repeat=3)))
    agrees = ((rows.bits[:, None] == cells) | (rows.bits[:, None] == MISSING)).all(2)

    def loss(at):
        p = np.exp(at - np.logaddexp.reduce(at))
        return -rows.counts @ np.log(agrees @ p)

    best = min(minimize(loss, np.random.default_rng(s).normal(size=8), tol=1e-12).fun for s in range(3))
    assert saturated(rows.bits, rows.counts) == pytest.approx(-best, abs=2e-3)
    assert saturated(np.zeros((1, 30), np.uint8), np.ones(1)) is None


def test_holes():
    bits = drawn(400, missing=0.1)
    found = report_of(bits)
    assert np.isnan(found.x2)
    assert np.isfinite([found.g2, found.g2_p]).all()
    assert any("saturated model fitted" in note for note in found.notes)
    complete = drawn(400)
    assert saturated(complete, np.ones(400)) == pytest.approx(
        sum(n * np.log(n / 400) for n in distinct([(complete, None)]).counts), abs=2e-3
    )


def test_classification_against_loops():
    bits = drawn(200, missing=0.2)
    rows = distinct([(bits, None)])
    found = classification(rows, WEIGHTS, MEANS)
    table, counts = np.zeros((2, 2)), np.zeros(2)
    for row in bits:
        if (row == MISSING).all():
            continue
        seen = row != MISSING
        joint = [w * np.prod(np.where(row[seen], m[seen], 1 - m[seen])) for w, m in zip(WEIGHTS, MEANS)]
        posterior = np.array(joint) / sum(joint)
        table[posterior.argmax()] += posterior
        counts[posterior.argmax()] += 1
    np.testing.assert_allclose(found.counts, counts)
    np.testing.assert_allclose(found.posterior_by_modal, table / counts[:, None])
    np.testing.assert_allclose(found.modal_by_class, (table / table.sum(0)).T)
    assert found.expected_error == pytest.approx(1 - np.trace(table) / counts.sum())
    assert "modal class 1" in str(found)


def test_a_class_without_assigned_rows():
    found = classification(distinct([(drawn(), None)]), np.array([0.6, 0.4, 1e-9]), np.vstack([MEANS, MEANS[:1]]))
    assert np.isnan(found.posterior_by_modal[2]).all()
    assert found.notes == ("no row is most probably of class 3",)


def test_classes_that_are_alike_leave_all_to_guess_and_one_class_has_no_entropy():
    rows, alike = distinct([(drawn(), None)]), (np.full(3, 1 / 3), np.repeat(MEANS[:1], 3, 0))
    assert classification(rows, *alike).entropy == pytest.approx(0, abs=1e-12)
    assert class_fit(fit_report(-1.0, 0.0, 14, 300), rows, *alike).entropy == pytest.approx(0, abs=1e-12)
    one = np.ones(1), MEANS[:1]
    assert np.isnan(classification(rows, *one).entropy)
    assert classification(rows, *one).expected_error == 0
    assert np.isnan(class_fit(fit_report(-1.0, 0.0, 4, 300), rows, *one).entropy)


@pytest.mark.parametrize("missing", [0, 0.3])
def test_pairs_against_loops(missing):
    bits = drawn(150, missing=missing)
    found = bivariate_residuals(distinct([(bits, None)]), WEIGHTS, MEANS, list("abcd"))
    expected = []
    for i, j in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]:
        pair = bits[:, [i, j]]
        pair = pair[(pair != MISSING).all(1)]
        x2 = 0.0
        for cell in product((0, 1), repeat=2):
            chances = [np.where(cell, m[[i, j]], 1 - m[[i, j]]).prod() for m in MEANS]
            e = len(pair) * WEIGHTS @ chances
            x2 += (np.sum((pair == cell).all(1)) - e) ** 2 / e
        expected.append((x2, len(pair)))
    np.testing.assert_allclose(np.column_stack([found.x2, found.n_rows]), expected)
    np.testing.assert_allclose(found.matrix, found.matrix.T)
    assert found.matrix[0, 3] == found.x2[2]
    assert found.table().index[0] == "-".join("abcd"[i] for i in found.pairs[found.x2.argmax()]).replace("-", " - ")


def test_pairs_never_observed_together_and_long_tables():
    bits = np.full((40, 10), MISSING, np.uint8)
    bits[:20, :5] = np.random.default_rng(0).integers(0, 2, (20, 5))
    bits[20:, 5:] = np.random.default_rng(1).integers(0, 2, (20, 5))
    means = np.full((1, 10), 0.5)
    found = bivariate_residuals(distinct([(bits, None)]), np.ones(1), means, [f"c{j}" for j in range(10)])
    assert np.isnan(found.matrix[0, 7])
    assert np.isfinite(found.matrix[0, 4])
    assert "never observed together" in found.notes[-1]
    assert str(found).endswith("the 10 largest; to_frame, to_csv and the file of a report have 35 more pairs")
    assert len(found.shown()[0].index) == 10
    assert found.shown()[0].columns["X2"].tolist() == np.sort(found.x2[~np.isnan(found.x2)].round(12))[:-11:-1].tolist()
    assert len(found.to_frame()) == found.to_csv().count("\n") - 1 == 45
