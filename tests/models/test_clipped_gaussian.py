"""The clipped Gaussian with noise: counts, expectation propagation, likelihood and Gibbs draws against brute force."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

from latentbits.core import limits, pair_counts, tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.errors import FitError, OutOfTimeError
from latentbits.core.nodes import log_integral
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian import likelihood, spectrum, tetrachoric, wide
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.clipped_gaussian.gibbs import gibbs

D, P = 5, 2
EVERY = np.array(list(product([-1.0, 1.0], repeat=D)))


def weights_of(d, k, seed=0, low=0.3, high=0.8):
    """Weights with communalities between `low` and `high`, biases, and the noise that is left over."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, k))
    weights *= np.sqrt(rng.uniform(low, high, (d, 1))) / np.linalg.norm(weights, axis=1, keepdims=True)
    return weights, 0.7 * rng.normal(size=d), 1 - np.sum(weights**2, 1)


def draw(weights, phi, psi, n, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, weights.shape[1]))
    x = phi + y @ weights.T + np.sqrt(psi) * rng.normal(size=(n, len(phi)))
    return y, np.where(x > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def small():
    return weights_of(D, P)


def orthant(weights, phi, psi, signs):
    """P(s) as the mass of an orthant of the d-dimensional Gaussian; missing bits (0) are left out."""
    seen = signs != 0
    if not seen.any():
        return 1.0
    s = signs[seen]
    covariance = weights[seen] @ weights[seen].T + np.diag(psi[seen])
    return multivariate_normal(np.zeros(len(s)), np.outer(s, s) * covariance, seed=0).cdf(s * phi[seen])


def grid_posterior(weights, phi, psi, signs, half=7.0, n=201):
    """log p(s), mean and covariance of y for each row, by a dense grid over two dimensions."""
    axis = np.linspace(-half, half, n)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    z = (grid @ weights.T + phi) / np.sqrt(psi)
    cell = 2 * np.log(axis[1] - axis[0])
    log_joint = (signs > 0) @ norm.logcdf(z).T + (signs < 0) @ norm.logcdf(-z).T + norm.logpdf(grid).sum(1) + cell
    log_p = np.logaddexp.reduce(log_joint, axis=1)
    share = np.exp(log_joint - log_p[:, None])
    mean = share @ grid
    second = np.einsum("ng,gi,gj->nij", share, grid, grid)
    return log_p, mean, second - np.einsum("ni,nj->nij", mean, mean)


def factors(weights, phi, psi):
    return ep.factors_of(*(jnp.asarray(x) for x in (weights, phi, psi)))


approximate = jax.jit(ep.approximate)


# ---------------------------------------------------------------- counts


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("how", ["popcount", "product"])
def test_pairs_are_counted(how, missing, monkeypatch):
    rng = np.random.default_rng(0)
    table = (rng.random((333, 7)) < 0.4).astype(np.uint8)
    table[rng.random(table.shape) < missing] = MISSING
    padded = np.zeros((360, 7), np.uint8)
    padded[:333] = table
    monkeypatch.setattr(
        pair_counts, "_pairs", pair_counts._by_popcount if how == "popcount" else pair_counts._by_product
    )
    monkeypatch.setattr(pair_counts, "BLOCK", 3)  # that does not divide the columns
    batch = make_batch(
        jnp.asarray(padded), jnp.uint32(0), jnp.uint32(333), seed_key(0), missing == 0, np.dtype(np.float32)
    )
    found = pair_counts.count(batch)
    ones, seen = (table == 1).astype(int), (table != MISSING).astype(int)
    for name, expected in (
        ("ones", ones.sum(0)),
        ("observed", seen.sum(0)),
        ("pair_ones", ones.T @ ones),
        ("pair_left", ones.T @ seen),
        ("pair_observed", seen.T @ seen),
    ):
        np.testing.assert_array_equal(getattr(found, name), expected, err_msg=name)
    assert found.n_rows == 333
    host = tetrachoric.count(table)
    for mine, theirs in zip(jax.tree.leaves(found), host):
        np.testing.assert_array_equal(mine, theirs)


# ---------------------------------------------------------------- expectation propagation


@pytest.mark.slow
def test_ep_is_close_to_the_integral_in_two_dimensions():
    """Likelihood and moments at d = 40: on average within a few thousandths, in the worst of rows a few hundredths."""
    weights, phi, psi = weights_of(40, 2)
    _, signs = draw(weights, phi, psi, 64)
    signs[:8, ::3] = 0
    log_p, mean, covariance = grid_posterior(weights, phi, psi, signs)
    with tree.double():
        found = approximate(factors(weights, phi, psi), jnp.asarray(signs))
        spread = np.sqrt(np.einsum("nii->ni", covariance))
        assert np.all(found.settled)
        assert np.abs(found.log_likelihood - log_p).max() < 0.03
        assert np.abs(found.log_likelihood - log_p).mean() < 0.005
        assert np.abs((found.posterior.mean - mean) / spread).max() < 0.05
        assert np.abs(np.sqrt(np.einsum("nii->ni", found.posterior.covariance)) / spread - 1).max() < 0.05


def test_ep_knows_half_spaces_in_one_dimension():
    """One bit without noise: EP matches the moments of one half-line, so it is exact."""
    with tree.double():
        found = approximate(factors(np.array([[2.0]]), np.array([1.0]), np.zeros(1)), jnp.asarray([[1.0], [-1.0]]))
        cut = np.array([0.5, -0.5])
        np.testing.assert_allclose(found.log_likelihood, norm.logcdf(cut), atol=1e-7)
        np.testing.assert_allclose(
            found.posterior.mean[:, 0], np.array([1, -1]) * norm.pdf(cut) / norm.cdf(cut), atol=1e-5
        )


def test_a_row_without_bits_has_the_prior(small):
    with tree.double():
        found = approximate(factors(*small), jnp.zeros((2, D)))
        np.testing.assert_allclose(found.log_likelihood, 0, atol=1e-12)
        np.testing.assert_allclose(found.posterior.mean, 0, atol=1e-12)
        np.testing.assert_allclose(found.posterior.covariance[0], np.eye(P), atol=1e-12)


@pytest.mark.slow
def test_ep_settles_where_noise_is_small():
    """Nearly deterministic bits: all rows settle, and their posteriors are calibrated."""
    weights, phi, psi = weights_of(100, 3, low=0.99, high=0.995)
    y, signs = draw(weights, phi, psi, 300)
    for dtype in (np.float32, np.float64):
        with tree.rows_in(np.dtype(dtype)):
            found = approximate(
                factors(*(x.astype(dtype) for x in (weights, phi, psi))), jnp.asarray(signs.astype(dtype))
            )
            assert np.all(found.settled)
            spread = np.sqrt(np.einsum("nii->ni", np.asarray(found.posterior.covariance, float)))
            off = (np.asarray(found.posterior.mean) - y) / spread
            assert 0.9 < np.sqrt(np.mean(off**2)) < 1.1


@pytest.mark.slow
def test_the_mode_is_a_stationary_point(small):
    with tree.double():
        f = factors(*small)
        signs = jnp.asarray(EVERY)
        at = ep.mode(f, signs, jnp.zeros((32, P)))

        def joint(y):
            return jnp.sum(ep.log_density(f, signs, y[:, None])[:, 0] - 0.5 * jnp.sum(y**2, 1))

        assert np.abs(jax.grad(joint)(at)).max() < 1e-8


# ---------------------------------------------------------------- likelihood


def test_likelihoods_are_orthant_probabilities(small):
    """All 32 rows, and some with holes, against the mass of orthants in five dimensions, and a dense grid in two.

    SciPy knows the orthants to about 1e-5.
    """
    signs = np.concatenate([EVERY, [[1, 0, -1, 0, 1], [0, 0, 0, 0, 1], [0] * 5]])
    log_p = grid_posterior(*small, signs)[0]
    np.testing.assert_allclose(np.exp(log_p), [orthant(*small, s) for s in signs], atol=1e-4)
    with tree.double():
        f, given = factors(*small), jnp.asarray(signs)
        found = approximate(f, given)
        keys = jax.random.split(seed_key(0), len(signs))
        value, error = jax.jit(
            lambda f, given, at, keys: log_integral(lambda y: ep.log_density(f, given, y), at, keys, D)
        )(f, given, found.posterior, keys)
        value, error, by_ep = (np.asarray(x) for x in (value, error, found.log_likelihood))
    assert np.exp(value[:32]).sum() == pytest.approx(1, abs=1e-6)
    assert np.all(np.abs(value - log_p) < error + 1e-9)  # the grid itself ends at seven standard deviations
    np.testing.assert_allclose(value, log_p, atol=1e-4)
    np.testing.assert_allclose(by_ep, log_p, atol=0.01)
    assert np.exp(by_ep[:32]).sum() == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize(("d", "high"), [pytest.param(60, 0.8, marks=pytest.mark.slow), (8, 0.97)])
def test_few_points_tell_their_error(d, high):
    """Against a dense grid: z-scores have a spread of 1, where few points do, and where most rows need more of them."""
    weights, phi, psi = weights_of(d, 2, high=high)
    _, signs = draw(weights, phi, psi, 64)
    log_p = grid_posterior(weights, phi, psi, signs)[0]
    with tree.double():
        f, given = factors(weights, phi, psi), jnp.asarray(signs)
        at = jax.jit(lambda f, s: ep.approximate(f, s, 0.01).posterior)(f, given)
        estimate = jax.jit(lambda keys: likelihood.log_evidence(f, given, at, keys))
        found = [estimate(jax.random.split(seed_key(seed), len(signs))) for seed in range(12)]
    value, error = (np.array([part[k] for part in found]) for k in (0, 1))
    z = (value - log_p) / error
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2
    assert np.abs(np.mean(value - log_p)) < 0.002
    assert np.median(error) < likelihood.GOAL


@pytest.mark.slow
def test_a_row_gets_the_points_that_it_needs():
    """Rows without bits are known at once, and what a row gets does not depend on the rows beside it."""
    weights, phi, psi = weights_of(8, 3, high=0.97)
    _, signs = draw(weights, phi, psi, 96)
    signs[::3] = 0
    with tree.double():
        f, keys = factors(weights, phi, psi), jax.random.split(seed_key(3), len(signs))

        @jax.jit
        def estimate(signs, keys):
            return likelihood.log_evidence(f, signs, ep.approximate(f, signs).posterior, keys)

        value, error = (np.asarray(x) for x in estimate(jnp.asarray(signs), keys))
        alone = np.asarray(estimate(jnp.asarray(signs[32:64]), keys[32:64])[0])
    np.testing.assert_allclose(value[::3], 0, atol=1e-9)
    np.testing.assert_allclose(error[::3], 0, atol=1e-6)
    np.testing.assert_allclose(alone, value[32:64], atol=1e-3)
    assert np.all(error[1::3] > 0)


def test_rows_that_are_chosen_come_first():
    chosen = np.random.default_rng(0).random(77) < 0.4
    found = np.asarray(likelihood._first(jnp.asarray(chosen), 80))
    expected = np.flatnonzero(chosen)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    assert np.all(found[len(expected) :] == 77)


def test_shifts_are_even_and_independent():
    keys = jax.random.split(seed_key(0), 4000)
    u = np.asarray(likelihood._shifts(keys, 16), float)
    assert np.abs(u.mean(0) - 0.5).max() < 5 * np.sqrt(1 / 12 / 4000)
    assert np.abs((u**2).mean(0) - 1 / 3).max() < 5 * np.sqrt(4 / 45 / 4000)
    assert np.abs(np.corrcoef(u.T) - np.eye(16)).max() < 5 / np.sqrt(4000)
    assert np.abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 5 / np.sqrt(4000)


def test_numbers_are_no_part_of_compiled_functions():
    """Models that differ in numbers only hand the same functions to an engine."""
    one, other = clipped_gaussian.model(2, correction=0.5), clipped_gaussian.model(2, correction=0.25)
    for name in ("init", "prepare", "e_step", "objective", "log_likelihood", "infer", "decode", "complete", "sample"):
        assert getattr(one, name) is getattr(other, name), name
    for name in ("prepare", "update"):
        assert getattr(one.stages[0], name) is getattr(other.stages[0], name), name


@pytest.mark.slow
def test_predictions_are_conditional_probabilities(small):
    """P(bit | the others) by EP's Gaussian against ratios of probabilities."""
    rest = EVERY.copy()
    rest[:, -1] = 0
    exact = np.exp(grid_posterior(*small, rest + np.eye(D)[-1])[0] - grid_posterior(*small, rest)[0])
    with tree.double():
        f = factors(*small)
        guess = ep.predict(f, approximate(f, jnp.asarray(rest)).posterior)
        guess = np.asarray(guess)[:, -1]
    np.testing.assert_allclose(guess, exact, atol=0.01)


@pytest.mark.slow
def test_gibbs_has_the_moments_of_the_posterior(small):
    signs = EVERY[[3, 12, 27]].copy()
    signs[0, 1] = 0
    _, mean, covariance = grid_posterior(*small, signs, n=161)
    n, copies = 200, 40
    with tree.double():
        many = jnp.asarray(np.repeat(signs, copies, 0))
        keys = jax.random.split(seed_key(1), len(many))
        run = jax.jit(lambda f, s, k: gibbs(f, s, jnp.zeros((len(s), P)), k, n, 3, 100))
        drawn = np.asarray(run(factors(*small), many, keys)).reshape(3, copies, n, P)
    # chains are independent, so their spread is the error of their mean
    chain = drawn.mean(2)
    error = chain.std(1, ddof=1) / np.sqrt(copies)
    assert np.all(np.abs(chain.mean(1) - mean) < 5 * error)
    second = (drawn**2).mean(2)
    error = second.std(1, ddof=1) / np.sqrt(copies)
    assert np.all(np.abs(second.mean(1) - mean**2 - np.einsum("nii->ni", covariance)) < 5 * error)


# ---------------------------------------------------------------- spectrum


def test_factors_reproduce_correlations_that_components_overstate():
    weights, _, psi = weights_of(6, 2, seed=3)
    matrix = weights @ weights.T + np.diag(psi)
    found = spectrum.factor_weights(matrix, 2, 0.01)
    np.testing.assert_allclose(found @ found.T, weights @ weights.T, atol=1e-3)
    components = spectrum.spectrum(matrix).weights(2)
    assert np.sum(components**2) > 1.1 * np.sum(weights**2)


def squares_left(matrix, weights):
    left = matrix - weights @ weights.T
    return np.sum(np.tril(left, -1) ** 2)


def best_by_slsqp(matrix, n, most, n_starts=4):
    """Sum of squares that the best weights leave over, those that explain at most so much, from several starts."""
    d, rng = len(matrix), np.random.default_rng(0)
    bound = {"type": "ineq", "fun": lambda x: most - np.sum(x.reshape(d, n) ** 2, 1)}
    ends = (
        minimize(
            lambda x: squares_left(matrix, x.reshape(d, n)),
            0.3 * rng.normal(size=d * n),
            method="SLSQP",
            constraints=[bound],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        for _ in range(n_starts)
    )
    return min(end.fun for end in ends)


@pytest.mark.parametrize(
    ("d", "n", "noise"),
    [
        (3, 1, 0.12),
        (5, 1, 0.03),
        *(pytest.param(d, 2, noise, marks=pytest.mark.slow) for d, noise in [(6, 0.03), (6, 0.12), (8, 0.12)]),
    ],
)
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
    """Of float32, turns end where its rounding does, and the squares left over are those of float64."""
    turns, search = [], spectrum.minimize
    monkeypatch.setattr(spectrum, "minimize", lambda *a, **k: turns.append(1) or search(*a, **k))
    matrix = of_few_rows(60)
    start = spectrum.spectrum(matrix).weights(4)
    most = 0.8
    assert np.sum(np.sum(start**2, 1) > most) > 8
    exact = spectrum.within_bounds(matrix, start, most)
    n_exact = len(turns)
    single = spectrum.within_bounds(matrix.astype(np.float32), start, most)
    assert len(turns) - n_exact < n_exact
    assert np.sum(single**2, 1).max() < most + 1e-12
    assert squares_left(matrix, single) == pytest.approx(squares_left(matrix, exact), rel=1e-4)


def test_factors_end_with_the_time_there_is(monkeypatch):
    matrix = of_few_rows(8)
    start = spectrum.spectrum(matrix).weights(2)
    works = (
        lambda left: spectrum.factor_weights(matrix, 2, 0.005, left),
        lambda left: spectrum.within_bounds(matrix, start, 0.8, left),
    )
    monkeypatch.setattr(limits, "SHORT", np.inf)
    for work in works:
        work(lambda: 0.0)  # short work is done whatever the limit
    monkeypatch.setattr(limits, "SHORT", -1.0)
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


def n_above_chance(table, seed=2):
    moments = tetrachoric.count(table)
    values = np.linalg.eigvalsh(tetrachoric.correlations(moments).latent)[::-1]
    seen = None if table.max() < MISSING else (table != MISSING)[: spectrum.simulated_rows(moments)]
    return spectrum.n_above_chance(values, moments, seen, np.random.default_rng(seed), True, 0.5)


def test_parallel_analysis_knows_holes_with_a_pattern():
    """Noise of which each row shows 3 of 20 columns: a pair is seen far less often than its columns are."""
    rng = np.random.default_rng(0)
    table = (rng.random((2000, 20)) < 0.5).astype(np.uint8)
    table[np.argsort(rng.random(table.shape), axis=1) >= 3] = MISSING
    assert n_above_chance(table) == 0


@pytest.mark.slow
@pytest.mark.parametrize("holes", ["none", "blocks"])
def test_parallel_analysis_finds_a_component_in_noise_in_one_of_twenty_tables(holes, monkeypatch):
    """With 19 simulated tables the percentile of them would be exceeded by 9 %, 46 of 500 rather than 25.

    11 to 39 are within three standard errors.  Three forms of a test, each without a third of the items: pairs
    are seen in different numbers of rows.
    """
    monkeypatch.setattr(spectrum, "MOST_TWENTIES", 1)
    rng = np.random.default_rng(3)
    found = 0
    for seed in range(500):
        table = (rng.random((60, 6)) < [0.5, 0.2, 0.6, 0.3, 0.4, 0.8]).astype(np.uint8)
        if holes == "blocks":
            table[:30, :2] = table[30:45, 2:4] = table[45:, 4:] = MISSING
        found += n_above_chance(table, seed) > 0
    assert 11 <= found <= 39


def test_parallel_analysis_of_more_rows_than_it_simulates(monkeypatch):
    """Rare bits must not be taken for factors because fewer rows are simulated than there are."""
    monkeypatch.setattr(spectrum, "MOST_ROWS", 500)
    monkeypatch.setattr(spectrum, "MOST_ENTRIES", 500)
    table = (np.random.default_rng(0).random((20_000, 10)) < 0.02).astype(np.uint8)
    assert n_above_chance(table) == 0
    assert n_above_chance(np.concatenate([table, table[:10_000, :1].repeat(10, 1)])) >= 1


def test_parallel_analysis_counts_the_factors():
    weights, phi, psi = weights_of(20, 2)
    _, signs = draw(weights, phi, psi, 2000)
    table = (signs > 0).astype(np.uint8)
    table[np.random.default_rng(0).random(table.shape) < 0.1] = MISSING
    assert n_above_chance(table) == 2
    assert n_above_chance(np.random.default_rng(1).permuted(table, axis=0)) == 0


# ---------------------------------------------------------------- very many columns


def table_with_structure(n, d, missing=0.0, seed=5):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(3, d))
    X = (rng.normal(size=(n, 3)) @ loadings + rng.normal(size=(n, d)) > rng.uniform(-1.5, 1.5, d)).astype(np.uint8)
    X[:, 3] = 1  # constant
    X[rng.random((n, d)) < missing] = MISSING
    return X


def no_limit():
    return np.inf


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("bias", [True, False])
def test_block_by_block_the_correlations_are_the_same(missing, bias, monkeypatch):
    monkeypatch.setattr(wide, "PAIRS", 100)  # many blocks
    X = table_with_structure(70, 23, missing)
    whole = tetrachoric.correlations(tetrachoric.count(X), bias)
    found = wide.correlate(wide.pack([X[:5], X[5:69], X[69:]], 23), bias, 0.5, no_limit)
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
    wide.correlate(wide.pack([X], 200), True, 0.5, no_limit)
    assert sum(solved) < 1000  # of 19 900 pairs


@pytest.mark.parametrize("less", [0.0, 0.4])
def test_leading_eigenvalues(less):
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(300, 5)) * [9, 7, 5, 4, 3]
    matrix = (factor @ factor.T / 100 + np.eye(300)).astype(np.float32)
    off = np.full(300, less)
    found = spectrum.leading(matrix, 4, no_limit, less=off)
    whole = spectrum.spectrum(matrix.astype(float) - np.diag(off))
    np.testing.assert_allclose(found.values, whole.values[:4], rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * whole.vectors[:, :4], 0)), 1, atol=1e-5)
    assert (found.vectors.sum(0) >= 0).all()


def test_pairs_that_would_take_too_long_are_given_up_at_once(monkeypatch):
    """The clock is ours: each look at it is ten seconds later."""
    ticks = iter(range(0, 10**6, 10))
    monkeypatch.setattr(limits.time, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(wide, "PAIRS", 100)
    monkeypatch.setattr(tetrachoric, "PAIRS", 100)
    X = table_with_structure(40, 120)
    with pytest.raises(FitError, match=r"inverting 7,021 pairs of columns would take about \d+ s, and of max_time 30"):
        wide.correlate(wide.pack([X], 120), True, 0.5, lambda: 30.0)
    with pytest.raises(FitError, match=r"inverting 7,140 pairs of columns would take about \d+ s"):
        tetrachoric.correlations(tetrachoric.count(X), left=lambda: 30.0)
    assert len(wide.correlate(wide.pack([X], 120), True, 0.5, lambda: 1e6).columns) == 119
