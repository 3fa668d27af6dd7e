from __future__ import annotations

import numpy as np
import pytest
from tests.models.mixture import twin

from latentbits.core.tree import double, to_numpy
from latentbits.models.mixture import bootstrap as many


def some_tables(missing=0.0, n_tables=3, n=60, d=4, length=40):
    """Small tables as patterns with counts, and the rows they are made of."""
    rng = np.random.default_rng(5)
    truth = np.array([0.3, 0.7]), rng.uniform(0.1, 0.9, (2, d))
    patterns, counts, tables = np.zeros((n_tables, length, d), np.uint8), np.zeros((n_tables, length)), []
    for t in range(n_tables):
        holes = rng.random((n, d)) < missing if missing else None
        rows = many.draw(rng, *truth, holes, n)
        first, _, of_kind = many.distinct(rows)
        patterns[t, : len(first)], counts[t, : len(first)] = rows[first], of_kind
        tables.append(rows)
    return patterns, counts, tables


def climbed(patterns, counts, at, n_cycles, tol=-1.0):
    with double():
        return to_numpy(many.climb(patterns, counts, at, np.int64(n_cycles), np.float64(tol), complete=False))


def plain_em(rows, at, n_iter):
    """Take steps of EM from the first two classes, bit by bit; give the log-likelihood after them."""
    params = twin.parameters(at[:2, 0] ** 2 / (at[:2, 0] ** 2).sum(), np.sin(at[:2, 1:] / 2) ** 2)
    for _ in range(n_iter + 1):
        params = twin.parameters(params.weights, np.clip(params.means, 1e-12, 1 - 1e-12))
        params, value = twin.em(rows, params)
    return value


def test_a_climb_is_em():
    """The likelihood is that of the rows, never falls, and ends where hundreds of plain steps end.

    Classes without weight stay without, and change nothing.
    """
    patterns, counts, tables = some_tables(0.3)
    at = many.random_starts(np.random.default_rng(1), patterns, counts, 1, 2, 4)[:, 0]
    start = before = climbed(patterns, counts, at, 0)
    for t, rows in enumerate(tables):
        assert start.value[t] == pytest.approx(plain_em(rows, at[t], 0), abs=1e-9)
    for _ in range(12):
        after = climbed(patterns, counts, before.at, 1)
        assert np.all(after.value >= before.value - 1e-9)
        before = after
    end = climbed(patterns, counts, at, 3000, tol=1e-9)
    assert np.all(end.left <= 1e-9)
    assert np.all(end.at[:, 2:, 0] == 0)
    for t, rows in enumerate(tables):
        assert plain_em(rows, end.at[t], 500) == pytest.approx(end.value[t], abs=1e-5)


def test_starts_are_mixtures_of_weights_that_add_to_one():
    patterns, counts, _ = some_tables(0.2)
    rng = np.random.default_rng(3)
    fitted = many.random_starts(rng, patterns, counts, 1, 2, 4)[:, 0]
    starts = {
        "random": many.random_starts(rng, patterns, counts, 6, 3, 4),
        "split": many.splits(rng, fitted, 2, 5),
        "added": many.additions(rng, fitted, patterns, counts, 2, 5),
    }
    for name, at in starts.items():
        np.testing.assert_allclose((at[..., 0] ** 2).sum(2), 4, rtol=1e-12, err_msg=name)
    assert np.all(starts["random"][:, :, 3, 0] == 0)
    assert np.all(starts["split"][..., 0] > 0)
    assert np.ptp(starts["added"][:, :, 2:], axis=1).min() > 0  # each start has classes of its own


def test_halves_that_are_not_pushed_apart_have_the_likelihood_of_the_whole():
    patterns, counts, _ = some_tables()
    fitted = many.random_starts(np.random.default_rng(4), patterns, counts, 1, 2, 4)[:, 0]
    split = many.splits(np.random.default_rng(4), fitted, 2, 2, apart=0.0)
    whole = climbed(patterns, counts, fitted, 0)
    for start in range(2):
        np.testing.assert_allclose(climbed(patterns, counts, split[:, start], 0).value, whole.value, rtol=1e-12)


def test_kinds_of_rows_are_told_apart_by_bits_and_by_holes():
    rng = np.random.default_rng(0)
    for d in (3, 40):  # as numbers, and as bytes
        rows = rng.choice(np.array([0, 1, 255], np.uint8), (200, d), p=[0.5, 0.4, 0.1])
        rows[100:] = rows[:100][rng.permutation(100)]
        first, kind, counts = many.distinct(rows)
        np.testing.assert_array_equal(rows[first][kind], rows)
        assert len(first) == len(np.unique(rows, axis=0))
        np.testing.assert_array_equal(np.bincount(kind), counts)


def test_draws_have_the_shares_and_the_holes_asked_for():
    weights, means = np.array([0.25, 0.75]), np.array([[0.9, 0.1], [0.2, 0.5]])
    holes = np.zeros((20000, 2), bool)
    holes[::4, 0] = True
    rows = many.draw(np.random.default_rng(1), weights, means, holes, 20000)
    np.testing.assert_array_equal(rows == 255, holes)
    seen = np.where(rows == 255, np.nan, rows)
    expected = weights @ means
    np.testing.assert_allclose(np.nanmean(seen, axis=0), expected, atol=5 * 0.5 / np.sqrt(15000))
    both = np.mean(np.all(rows[~holes.any(1)] == 1, axis=1))
    assert abs(both - (0.25 * 0.09 + 0.75 * 0.1)) < 5 * 0.5 / np.sqrt(15000)
