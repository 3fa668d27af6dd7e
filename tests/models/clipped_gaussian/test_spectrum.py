"""From correlations to weights: least squares, bounds, eigenvalues, and how many factors there are."""

from __future__ import annotations

import numpy as np
import pytest
from clipped_grids import draw, weights_of
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from latentbits.core import limits
from latentbits.core.batch import MISSING
from latentbits.core.errors import OutOfTimeError
from latentbits.models.clipped_gaussian import spectrum, tetrachoric


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that wait for each other over matrices this small take ten times the processor time."""
    with threadpool_limits(1):
        yield


def test_factors_reproduce_correlations_that_components_overstate():
    weights, _, psi = weights_of(6, 2, seed=3)
    matrix = weights @ weights.T + np.diag(psi)
    found = spectrum.factor_weights(matrix, 2, 0.01)
    np.testing.assert_allclose(found @ found.T, weights @ weights.T, atol=1e-3)
    components = spectrum.spectrum(matrix).weights(2)
    assert np.sum(components**2) > 1.1 * np.sum(weights**2)


def off_diagonal(matrix, weights):
    left = matrix - weights @ weights.T
    np.fill_diagonal(left, 0)
    return left


def squares_left(matrix, weights):
    return 0.5 * np.sum(off_diagonal(matrix, weights) ** 2)


def best_by_slsqp(matrix, n, most, n_starts=4):
    """Sum of squares that the best weights leave over, those that explain at most so much, from several starts."""
    d, rng = len(matrix), np.random.default_rng(0)
    bound = {
        "type": "ineq",
        "fun": lambda x: most - np.sum(x.reshape(d, n) ** 2, 1),
        "jac": lambda x: -2 * np.repeat(np.eye(d), n, axis=1) * x,
    }
    ends = (
        minimize(
            lambda x: squares_left(matrix, x.reshape(d, n)),
            0.3 * rng.normal(size=d * n),
            jac=lambda x: -2 * (off_diagonal(matrix, x.reshape(d, n)) @ x.reshape(d, n)).ravel(),
            method="SLSQP",
            constraints=[bound],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        for _ in range(n_starts)
    )
    return min(end.fun for end in ends)


@pytest.mark.parametrize(("d", "n", "noise"), [(3, 1, 0.12), (6, 2, 0.03), (8, 2, 0.12)])
def test_factors_are_at_the_minimum_of_minres(d, n, noise):
    """Where least squares leave a column no noise, too: then at the minimum of those that leave it some."""
    for seed in range(3):
        weights, *_ = weights_of(d, n, seed, high=1.0)
        error = noise * np.random.default_rng(seed).normal(size=(d, d))
        matrix = np.clip(weights @ weights.T + (error + error.T) / 2, -1, 1)
        np.fill_diagonal(matrix, 1)
        found = spectrum.factor_weights(matrix, n, 0.005)
        assert np.sum(found**2, 1).max() < 0.995 + 1e-12
        assert squares_left(matrix, found) == pytest.approx(best_by_slsqp(matrix, n, 0.995), abs=1e-8)
        single = spectrum.within_bounds(matrix.astype(np.float32), spectrum.spectrum(matrix).weights(n), 0.5)
        assert squares_left(matrix, single) == pytest.approx(best_by_slsqp(matrix, n, 0.5), abs=1e-5)


def of_few_rows(d, n=20):
    """Correlations of so few rows that factors explain all of many columns."""
    rng = np.random.default_rng(0)
    return np.corrcoef(rng.normal(size=(n, d)) + 2 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)), rowvar=False)


def test_factors_within_bounds_are_as_precise_as_their_numbers(monkeypatch):
    """With float32, turns and searches end where its rounding does, and the squares left over are those of float64.

    How many turns a large matrix takes hangs on last digits, from 9 to all 50.  Of this one it is 4 or 5 with float32
    and 8 or 9 with float64, wherever it starts; without an end by rounding, 6 to 50.
    """
    steps, search = [], spectrum.minimize
    monkeypatch.setattr(spectrum, "minimize", lambda *a, **k: (steps.append(search(*a, **k)), steps[-1])[1])
    matrix, most, rng = of_few_rows(12), 0.8, np.random.default_rng(1)
    begin = spectrum.spectrum(matrix).weights(2)
    assert np.sum(np.sum(begin**2, 1) > most) == 9
    turns, values = [], []
    for _ in range(5):
        start = begin * (1 + 1e-15 * rng.normal(size=begin.shape))
        for numbers in (matrix, matrix.astype(np.float32)):
            found = spectrum.within_bounds(numbers, start, most)
            assert np.sum(found**2, 1).max() < most + 1e-12
            turns.append((len(steps), sum(step.nfev for step in steps)))
            values.append(squares_left(matrix, found))
            steps.clear()
    (exact, n_exact), (single, n_single) = (np.transpose(turns[k::2]) for k in (0, 1))
    assert single.max() < exact.min()
    assert n_single.sum() < 0.75 * n_exact.sum()
    np.testing.assert_allclose(values[1::2], values[0], rtol=1e-4)


def test_factors_end_with_the_time_there_is(monkeypatch):
    matrix = of_few_rows(8)
    start = spectrum.spectrum(matrix).weights(2)
    works = (
        lambda left: spectrum.factor_weights(matrix, 2, 0.005, left),
        lambda left: spectrum.within_bounds(matrix, start, 0.8, left),
    )
    monkeypatch.setattr(limits, "SHORT_SECONDS", np.inf)
    for work in works:
        work(lambda: 0.0)  # short work is done whatever the limit
    monkeypatch.setattr(limits, "SHORT_SECONDS", -1.0)
    for work in works:
        with pytest.raises(OutOfTimeError, match="finding the factors of 8 columns takes longer than max_time"):
            work(lambda: 0.0)


def test_nearest_correlation_matrix():
    """Higham's (2002) example with its published answer, and a matrix that is one already."""
    matrix = np.array([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]])
    nearest = spectrum.nearest_correlation(matrix)
    np.testing.assert_allclose(nearest[[0, 0], [1, 2]], [0.7607, 0.1573], atol=5e-5)
    assert np.linalg.eigvalsh(nearest)[0] > -1e-6
    good = np.array([[1, 0.3], [0.3, 1]])
    np.testing.assert_allclose(spectrum.nearest_correlation(good), good, atol=1e-12)


def test_leading_eigenvalues():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(120, 5)) * [9, 7, 5, 4, 3]
    matrix, less = (factor @ factor.T / 100 + np.eye(120)).astype(np.float32), np.full(120, 0.4)
    found = spectrum.leading(matrix, 4, limits.no_limit, less=less)
    whole = spectrum.spectrum(matrix.astype(float) - np.diag(less))
    np.testing.assert_allclose(found.values, whole.values[:4], rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * whole.vectors[:, :4], 0)), 1, atol=1e-5)
    assert (found.vectors.sum(0) >= 0).all()


# ---------------------------------------------------------------- parallel analysis


@pytest.fixture
def few_simulations(monkeypatch):
    monkeypatch.setattr(spectrum, "MOST_SIMULATED_TWENTIES", 1)


def n_above_chance(table, seed=2):
    moments = tetrachoric.count(table)
    values = np.linalg.eigvalsh(tetrachoric.correlations(moments).latent)[::-1]
    seen = None if table.max() < MISSING else (table != MISSING)[: spectrum.simulated_rows(moments)]
    return spectrum.n_above_chance(values, moments, seen, np.random.default_rng(seed), True, 0.5)


@pytest.mark.usefixtures("few_simulations")
def test_parallel_analysis_knows_holes_with_a_pattern():
    """Noise of which each row shows 3 of 12 columns: a pair is seen far less often than its columns are."""
    rng = np.random.default_rng(0)
    table = (rng.random((1000, 12)) < 0.5).astype(np.uint8)
    table[np.argsort(rng.random(table.shape), axis=1) >= 3] = MISSING
    assert n_above_chance(table) == 0


@pytest.mark.slow("how often noise is taken for structure, over 500 tables")
@pytest.mark.usefixtures("few_simulations")
def test_parallel_analysis_finds_a_component_in_noise_in_one_of_twenty_tables():
    """With 19 simulated tables the percentile of them would be exceeded by 9 %, 46 of 500 rather than 25.

    11 to 39 are within three standard errors, and so are 3 to 23 of the half that has holes.  Three forms of a test,
    each without a third of the items: pairs are seen in different numbers of rows.
    """
    rng = np.random.default_rng(3)
    found = np.zeros(2, int)
    for seed in range(500):
        table = (rng.random((60, 6)) < [0.5, 0.2, 0.6, 0.3, 0.4, 0.8]).astype(np.uint8)
        if seed % 2:
            table[:30, :2] = table[30:45, 2:4] = table[45:, 4:] = MISSING
        found[seed % 2] += n_above_chance(table, seed) > 0
    assert 11 <= found.sum() <= 39
    assert 3 <= found[1] <= 23


def test_parallel_analysis_of_more_rows_than_it_simulates(monkeypatch):
    """Rare bits must not be taken for factors because fewer rows are simulated than there are."""
    monkeypatch.setattr(spectrum, "MOST_SIMULATED_ROWS", 500)
    monkeypatch.setattr(spectrum, "MOST_SIMULATED_ENTRIES", 500)
    table = (np.random.default_rng(0).random((20_000, 10)) < 0.02).astype(np.uint8)
    assert n_above_chance(table) == 0
    assert n_above_chance(np.concatenate([table, table[:10_000, :1].repeat(10, 1)])) >= 1


@pytest.mark.usefixtures("few_simulations")
def test_parallel_analysis_counts_the_factors():
    weights, phi, psi = weights_of(12, 2)
    _, signs = draw(weights, phi, psi, 1000)
    table = (signs > 0).astype(np.uint8)
    table[np.random.default_rng(0).random(table.shape) < 0.1] = MISSING
    assert n_above_chance(table) == 2
    assert n_above_chance(np.random.default_rng(1).permuted(table, axis=0)) == 0
