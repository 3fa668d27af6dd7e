from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr, ndtri

from latentbits.data import load_dataset
from latentbits.models.clipped_gaussian import bivariate, tetrachoric
from latentbits.models.clipped_gaussian.bivariate import covariance, invert, slope
from latentbits.models.clipped_gaussian.tetrachoric import (
    Moments,
    correlations,
    count,
    from_covariance,
)


@cache
def reference(h, k, rho):
    """Eq. 10 in theta = asin(r) by quadrature in pieces that shrink towards pi/2, at 30 digits."""
    with mp.workdps(30):
        h, k, theta = mp.mpf(h), mp.mpf(k), mp.asin(mp.mpf(rho))

        def integrand(t):
            s = mp.sin(t)
            return mp.exp(-((h - k * s) ** 2 / (1 - s * s) + k * k) / 2)

        marks = [mp.mpf(0), *(mp.pi / 2 - mp.mpf(10) ** (-mp.mpf(i) / 2) for i in range(18))]
        ends = [mp.sign(theta) * x for x in marks if x < abs(theta)] + [theta]
        return 2 / mp.pi * mp.quad(integrand, ends)


def spread(seed, n):
    """Thresholds and correlations of all kinds: equal, opposite, close, none, extreme; weak, strong, near perfect."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        h = float(rng.choice([0, 0.01, 0.3, 1, 2, 4, 7]) * rng.standard_normal())
        near = h + 10 ** rng.uniform(-9, 0) * rng.standard_normal()
        k = float(rng.choice([h, -h, near, -near, 0.0, 2 * rng.standard_normal()]))
        tiny = 10 ** rng.uniform(-15, 0)
        yield h, k, float(rng.choice([1 - tiny, tiny - 1, tiny, rng.uniform(-1, 1)]))


def test_forward_and_inverse_against_quadrature():
    """Correlations come back where the covariance tells them."""
    tried = 0
    for h, k, rho in spread(0, 16):
        exact = reference(h, k, rho)
        assert abs(float(covariance(h, k, rho) - exact)) < 1e-14
        found = float(invert(h, k, float(exact)))
        if slope(h, k, rho) > 1e-5 and abs(found) < 1:
            tried += 1
            assert found == pytest.approx(rho, abs=1e-10)
    assert tried >= 8


def test_slope_is_the_derivative():
    with mp.workdps(30):
        for h, k, rho in [(0.3, -0.8, 0.4), (2.0, 1.5, 0.95), (0.0, 1.0, -0.999)]:
            step = mp.mpf(10) ** -8
            both = [reference(h, k, mp.mpf(rho) + sign * step) for sign in (1, -1)]
            assert float(slope(h, k, rho)) == pytest.approx(float((both[0] - both[1]) / (2 * step)), rel=1e-9)


def test_round_trip_of_many_pairs():
    rng = np.random.default_rng(2)
    h, k = 3 * rng.standard_normal((2, 300, 200))
    rho = np.sin(rng.uniform(-np.pi / 2, np.pi / 2, h.shape))
    found = invert(h, k, covariance(h, k, rho))
    assert found.shape == rho.shape
    told = slope(h, k, rho) > 1e-5
    assert told.mean() > 0.4
    assert np.abs(found - rho)[told].max() < 1e-10
    # Whatever the slope, what was found has the covariance that was asked for.
    assert np.abs(covariance(h, k, found) - covariance(h, k, rho)).max() < 1e-13


def test_no_bias_is_the_sine():
    given = np.linspace(-1, 1, 2001)
    assert np.array_equal(invert(0.0, -0.0, given), np.sin(np.pi / 2 * given))
    assert np.abs(covariance(0.0, 0.0, np.sin(np.pi / 2 * given)) - given).max() < 1e-7
    assert np.abs(covariance(0.0, 0.0, np.sin(np.pi / 2 * given)) - given)[100:-100].max() < 1e-15


def test_symmetries():
    h, k, rho = np.random.default_rng(3).uniform(-1, 1, (3, 1000)) * [[3], [3], [1]]
    given = covariance(h, k, rho)
    for other in (covariance(k, h, rho), covariance(-h, -k, rho), -covariance(h, -k, -rho), -covariance(-h, k, -rho)):
        assert np.abs(other - given).max() < 1e-15


def test_bounds():
    h, k = np.array([[-1.0, -0.3, 0.0, 0.0, -2.0, 1.0, 5.0], [0.4, -0.3, 0.0, 0.7, -9.0, 1.0, -5.0]])
    p, q = ndtr(h), ndtr(k)
    for sign, frechet in ((1, np.minimum(p, q)), (-1, np.maximum(p + q - 1, 0))):
        bound = covariance(h, k, sign)
        assert np.abs(bound - 4 * (frechet - p * q)).max() < 1e-15
        assert (invert(h, k, bound) == sign).all()
        assert (invert(h, k, bound + 0.1 * sign) == sign).all()
    assert invert(np.inf, 0.3, 0.0) == 0 == covariance(np.inf, 0.3, 0.9)
    assert np.isnan(invert([np.nan, 0.0, 1.0], [0.0, np.nan, 1.0], [0.1, 0.1, np.nan])).all()
    assert invert(np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)


def simulate(n, d, q, seed, spread=1.0):
    """Bits of q factors and noise, their thresholds and the correlations behind them."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((d, q))
    weights /= np.sqrt(1 + (weights**2).sum(1, keepdims=True))
    phi = spread * rng.uniform(-1, 1, d)
    noise = np.sqrt(1 - (weights**2).sum(1))
    latent = rng.standard_normal((n, q)) @ weights.T + noise * rng.standard_normal((n, d))
    truth = weights @ weights.T
    np.fill_diagonal(truth, 1)
    return (latent + phi > 0).astype(np.uint8), phi, truth


def hide(X, share, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = 255
    return X


def table(both, left, right, neither):
    """Two columns with these cells: both one, only the left, only the right, none."""
    return np.repeat(np.array([[1, 1], [1, 0], [0, 1], [0, 0]], np.uint8), [both, left, right, neither], axis=0)


def only_pair(found: tetrachoric.Correlations):
    return tuple(matrix[0, 1] for matrix in found[1:])


def test_lsat6():
    """Tetrachorics and thresholds as published for it."""
    found = correlations(count(np.asarray(load_dataset("lsat6").X, np.uint8)))
    published = [0.1703, 0.2275, 0.1072, 0.0665, 0.1891, 0.1111, 0.1724, 0.1867, 0.1055, 0.2009]
    assert found.latent[np.triu_indices(5, 1)] == pytest.approx(published, abs=5e-4)
    phi = bivariate.thresholds(found.means)
    assert phi == pytest.approx([1.4325, 0.5505, 0.1332, 0.7160, 1.1264], abs=5e-4)
    assert not found.undetermined.any()
    assert not found.corrected.any()


def test_count_pair_by_pair():
    X = hide(simulate(300, 6, 2, 0)[0], 0.3)
    found = count(X)
    seen, ones = X != 255, X == 1
    assert found.n_rows == 300
    assert np.array_equal(found.ones, ones.sum(0))
    assert np.array_equal(found.observed, seen.sum(0))
    for i in range(6):
        for j in range(6):
            assert found.pair_ones[i, j] == (ones[:, i] & ones[:, j]).sum()
            assert found.pair_left[i, j] == (ones[:, i] & seen[:, j]).sum()
            assert found.pair_observed[i, j] == (seen[:, i] & seen[:, j]).sum()


def test_counts_of_several_chunks(monkeypatch):
    X = hide(simulate(300, 6, 2, 0)[0], 0.3)
    whole, complete = count(X), count(X % 2)
    monkeypatch.setattr(tetrachoric, "COUNTED_ROWS_AT_ONCE", 64)
    assert all(np.array_equal(a, b) for a, b in zip(whole, count(X), strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(complete, count(X % 2), strict=True))


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_each_pair_alone(missing):
    """Each entry is that of the pair's own rows; few at a time or all together."""
    X = hide(simulate(400, 8, 2, 4, spread=2.0)[0], missing)
    found = correlations(count(X))
    for i in range(8):
        for j in range(i):
            rows = (X[:, i] != 255) & (X[:, j] != 255)
            alone = correlations(count(X[rows][:, [i, j]]))
            for whole, part in zip(found[1:], alone[1:], strict=True):
                assert whole[i, j] == whole[j, i]
                assert whole[i, j] == pytest.approx(part[0, 1], abs=1e-11)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_blocks_do_not_matter(missing, monkeypatch):
    moments = count(hide(simulate(200, 30, 2, 5, spread=2.0)[0], missing))
    whole = correlations(moments)
    monkeypatch.setattr(tetrachoric, "INVERTED_PAIRS_AT_ONCE", 50)
    monkeypatch.setattr(bivariate, "SOLVED_PAIRS_AT_ONCE", 7)
    for a, b in zip(whole, correlations(moments), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11, rtol=0)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_within_their_errors(missing):
    X, phi, truth = simulate(20_000, 25, 3, 6, spread=1.5)
    found = correlations(count(hide(X, missing)))
    i, j = np.triu_indices(25, 1)
    z = (found.latent - truth)[i, j] / found.error[i, j]
    assert np.abs(z).max() < 4.5
    assert 0.8 < z.std() < 1.2  # 300 pairs, though not independent ones
    assert np.abs(bivariate.thresholds(found.means) - phi).max() < 0.06


@pytest.mark.parametrize(
    ("h", "k", "rho", "bias"), [(1.4, 1.1, 0.7, True), (-0.5, 0.5, -0.6, True), (0, 0, 0.5, False)]
)
def test_errors_by_simulation(h, k, rho, bias):
    """Tables drawn from the truth: the correlations found spread as their errors say."""
    n, draws = 2000, 2000
    p, q = ndtr(h), ndtr(k)
    both = p * q + covariance(h, k, rho) / 4
    cells = np.random.default_rng(7).multinomial(n, [both, p - both, q - both, 1 - p - q + both], draws).astype(float)
    # All tables as pairs of columns (2 t, 2 t + 1) of one; the other pairs are nonsense and not looked at.
    few = 20
    found = []
    for part in cells.reshape(-1, few, 4):
        ones = np.stack([part[:, 0] + part[:, 1], part[:, 0] + part[:, 2]], 1).ravel()
        pair_ones = ones[:, None] * ones / n
        even = np.arange(0, 2 * few, 2)
        pair_ones[even, even + 1] = pair_ones[even + 1, even] = part[:, 0]
        full = np.full((2 * few, 2 * few), float(n))
        moments = Moments(float(n), ones, full[0], pair_ones, ones[:, None] + 0 * full, full)
        result = correlations(moments, bias=bias)
        found.append((result.latent[even, even + 1], result.error[even, even + 1]))
    latent, error = np.concatenate(found, 1)
    assert latent.mean() == pytest.approx(rho, abs=0.004)
    assert latent.std() == pytest.approx(error.mean(), rel=0.06)


def test_errors_of_brown_and_benedetti():
    """Their formula for the tetrachoric correlation (1977) from the cells a, b, c, d."""
    a, b, c, d = 61, 23, 17, 44
    latent, error = only_pair(correlations(count(table(a, b, c, d))))[1:3]
    n = a + b + c + d
    h, k = ndtri((a + b) / n), ndtri((a + c) / n)
    root = np.sqrt(1 - latent**2)
    one, two = ndtr((h - latent * k) / root) - 0.5, ndtr((k - latent * h) / root) - 0.5
    density = slope(h, k, latent) / 4
    variance = (a + d) * (b + c) / 4 + (a + c) * (b + d) * one**2 + (a + b) * (c + d) * two**2
    variance += 2 * (a * d - b * c) * one * two - (a * b - c * d) * one - (a * c - b * d) * two
    assert error == pytest.approx(np.sqrt(variance / n**3) / density, rel=1e-10)


@pytest.mark.parametrize("cells", [(0, 40, 30, 130), (25, 0, 60, 115), (60, 20, 0, 30), (40, 50, 60, 0)])
def test_an_empty_cell(cells):
    moments = count(table(*cells))
    sign = -1 if cells[0] * cells[3] == 0 else 1
    found = correlations(moments)
    binary, latent, error, undetermined, corrected = only_pair(found)
    # Half a row is in the empty cell, and the margins are what they were.
    filled = np.array(cells) - 0.5 * sign * np.array([1, -1, -1, 1])
    n, share = sum(cells), np.array([cells[0] + cells[1], cells[0] + cells[2]]) / sum(cells)
    assert latent == pytest.approx(invert(*ndtri(share), 4 * (filled[0] / n - share.prod())), abs=1e-10)
    assert found.means == pytest.approx(share)
    assert binary == pytest.approx(4 * (cells[0] / n - share.prod()))  # as counted
    assert corrected
    assert not undetermined
    assert 0 < error < 1
    assert 0 < sign * latent < 1
    binary, latent, error, undetermined, corrected = only_pair(correlations(moments, correction=0))
    assert latent == sign
    assert undetermined  # at a bound with unequal margins rho has no hold on the table
    assert np.isnan(error)
    assert not corrected


def test_correction_stops_at_independence():
    """Two bits so rare that half a row is more than independent ones would share."""
    latent, error, undetermined, corrected = only_pair(correlations(count(table(0, 5, 5, 1000))))[1:]
    assert corrected
    assert not undetermined
    assert latent == pytest.approx(0, abs=1e-10)
    assert error > 0.3


def test_duplicate_and_opposite_columns():
    rng = np.random.default_rng(8)
    x = (rng.random(500) < 0.3).astype(np.uint8)
    X = np.stack([x, x, 1 - x], 1)
    found = correlations(count(X))
    assert 0.98 < found.latent[0, 1] < 1
    assert found.latent[0, 2] == pytest.approx(-found.latent[0, 1], abs=1e-10)
    assert found.corrected.sum() == 6
    exact = correlations(count(X), correction=0)
    assert np.array_equal(exact.latent, [[1, 1, -1], [1, 1, -1], [-1, -1, 1]])
    assert not exact.undetermined.any()  # the slope is infinite there
    assert np.isnan(exact.error[~np.eye(3, dtype=bool)]).all()  # but nothing to tell an error by


@pytest.mark.parametrize("bias", [True, False])
def test_constant_and_empty_columns_are_set_aside(bias):
    X = simulate(300, 6, 2, 9)[0]
    X[:, 1], X[:, 3], X[:, 4] = 0, 1, 255
    found = correlations(count(X), bias=bias)
    assert found.means[[1, 3, 4]].tolist() == [0, 1, 0.5]
    for gone in (1, 3, 4):
        for matrix in (found.binary, found.latent):
            assert not matrix[gone].any()
            assert not matrix[:, gone].any()
        others = np.arange(6) != gone
        assert found.undetermined[gone, others].all()
        assert np.isnan(found.error[gone, others]).all()
        assert not found.corrected[gone].any()
    kept = [0, 2, 5]
    alone = correlations(count(X[:, kept]), bias=bias)
    for whole, part in zip(found[1:], alone[1:], strict=True):
        np.testing.assert_allclose(whole[np.ix_(kept, kept)], part, atol=1e-11)


def test_pairs_without_common_rows_or_constant_in_them():
    X = simulate(400, 4, 2, 10)[0]
    X[:200, 0] = X[200:, 1] = 255  # never together
    X[X[:, 0] == 1, 2] = 255  # where 2 was observed, 0 is 0
    found = correlations(count(X))
    for pair in ((0, 1), (0, 2)):
        assert found.undetermined[pair]
        assert np.isnan(found.error[pair])
        assert found.latent[pair] == 0
    assert not found.undetermined[3].any()
    assert np.array_equal(np.diag(found.latent), np.ones(4))


def test_extreme_means_are_flagged():
    """Hundreds of thousands of rows, of which 3 and 4 have a one, never in the same row: any rho <= 0 would do."""
    n = 1_000_000.0
    ones = np.array([3.0, 4.0])
    left = np.repeat(ones[:, None], 2, 1)
    full = np.full((2, 2), n)
    found = correlations(Moments(n, ones, full[0], np.diag(ones), left, full), correction=1e-9)
    assert found.undetermined[0, 1]
    assert np.isnan(found.error[0, 1])
    assert -1 < found.latent[0, 1] < 0


@pytest.mark.parametrize(("bias", "correction"), [(True, 0.5), (False, 0.0)])
def test_tiny_tables(bias, correction):
    """Tables of up to three rows and three columns, missing bits too: bounded, symmetric, NaN only in the error."""
    rng = np.random.default_rng(11)
    for n in (0, 1, 2, 3):
        for _ in range(30):
            X = rng.choice(np.array([0, 1, 255], np.uint8), (n, 3), p=[0.4, 0.4, 0.2])
            found = correlations(count(X), bias=bias, correction=correction)
            assert np.array_equal(found.latent, found.latent.T)
            assert np.abs(found.latent).max() <= 1
            assert np.isfinite(found.binary).all()
            bare = (np.abs(found.latent) == 1) & ~np.eye(3, dtype=bool)
            assert np.array_equal(np.isnan(found.error), found.undetermined | bare)
            varies = [set(column[column != 255]) == {0, 1} for column in X.T]
            assert np.diag(found.latent).tolist() == varies


def test_without_bias():
    X = simulate(3000, 12, 3, 12, spread=0.0)[0]
    found = correlations(count(X), bias=False)
    s = 2.0 * X - 1
    assert found.binary == pytest.approx(s.T @ s / 3000, abs=1e-15)
    assert found.latent == pytest.approx(np.sin(np.pi / 2 * (s.T @ s / 3000)), abs=1e-15)
    assert not found.corrected.any()


def test_a_shifted_bump_has_rank_two_whatever_the_shifts():
    """Without bias and correction theta_ij = pi / 2 - pi |G_j - G_i| for the distribution G of the shifts: a cosine."""
    places = np.arange(64) / 64
    shifts = np.random.default_rng(13).random(37)
    X = (np.cos(2 * np.pi * (places - shifts[:, None])) > 0).astype(np.uint8)
    found = correlations(count(X), bias=False, correction=0.0)
    values = np.linalg.eigvalsh(found.latent)
    assert values[-2] > 1
    assert np.abs(values[:-2]).max() < 1e-12


def test_matrices_of_real_pictures_solve_quickly_and_correctly():
    """Strong correlations, extreme means and many empty cells together, as in pictures: every pair meets its table."""
    rng = np.random.default_rng(14)
    grid = np.linspace(0, 1, 60)
    kernel = np.exp(-((grid[:, None] - grid) ** 2) / 0.02)
    latent = rng.multivariate_normal(np.zeros(60), kernel, 400, method="eigh")
    X = (latent + np.linspace(-2.5, 2.5, 60) > 0).astype(np.uint8)
    moments = count(X)
    found = correlations(moments)
    assert 0.1 < found.corrected.mean() < 0.9
    phi = bivariate.thresholds(found.means)
    varies = np.isfinite(phi)
    plain = ~found.corrected & np.outer(varies, varies)
    np.fill_diagonal(plain, False)
    phi[~varies] = 0
    again = covariance(phi[:, None], phi, found.latent)
    assert np.abs(again - found.binary)[plain].max() < 1e-13


def test_from_covariance():
    """The same as from counts, where these have no empty cell; a constant column and perfect pairs too."""
    X = simulate(400, 6, 2, 15)[0]
    X[:, 2], X[:, 4], X[:, 5] = 1, X[:, 0], 1 - X[:, 1]
    found = correlations(count(X), correction=0.0)
    same = from_covariance(found.means, found.binary)
    assert same.latent == pytest.approx(found.latent, abs=1e-9)
    assert same.latent[0, 4] == 1
    assert same.latent[1, 5] == -1
    assert np.array_equal(same.undetermined, found.undetermined)
    assert np.array_equal(np.isnan(same.error), ~np.eye(6, dtype=bool))
    assert not same.corrected.any()
    # Bits that exclude each other, as far as rounding lets their covariance say so.
    means = np.array([0.1, 0.3])
    off = 4 * -means.prod()
    at_bound = from_covariance(means, np.array([[0.36, off], [off, 0.84]]) * (1 - 1e-16))
    assert at_bound.latent[0, 1] == -1
    assert at_bound.undetermined[0, 1]
