"""Cells of a hyperplane arrangement against slow twins: all cells by their vertices, linear programs, counts."""

from __future__ import annotations

from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import linprog, minimize

from latentbits.core import tree
from latentbits.core.states import all_states
from latentbits.models.clipped_gaussian import cell_probability, hyperplane_cells

ROWS, TOTAL = 80, 24  # the same for most, so that they share their programs

find = jax.jit(hyperplane_cells.find, static_argnums=4)
nearest = jax.jit(hyperplane_cells.nearest)
integrate = jax.jit(cell_probability.integrate, static_argnums=7)
gibbs = jax.jit(cell_probability.gibbs, static_argnums=(5, 6))
log_interval = jax.jit(cell_probability.log_interval)
truncated_normal = jax.jit(cell_probability.truncated_normal)


@pytest.fixture(autouse=True)
def in_double():
    with tree.double():
        yield


def arrangement(d, q, seed=0, bias=0.7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, q)) * rng.uniform(0.3, 3, size=(d, 1)), bias * rng.normal(size=d)


def clip(w, phi, y):
    return np.where(y @ w.T + phi > 0, 1.0, -1.0)


def all_cells(w, phi):
    """Every cell touches a vertex (there are at least as many hyperplanes as dimensions): look around all of them."""
    d, q = w.shape
    sides = np.array(list(product([-1.0, 1.0], repeat=q)))
    around = [
        np.linalg.solve(w[list(some)], sides.T * 1e-7 - phi[list(some), None]).T for some in combinations(range(d), q)
    ]
    return np.unique(clip(w, phi, np.concatenate(around)), axis=0)


def feasible(w, phi, signs):
    """Whether a linear program finds a y at a positive distance from all hyperplanes."""
    seen = signs != 0
    a, b = signs[seen, None] * w[seen], signs[seen] * phi[seen]
    a, b = a / np.linalg.norm(a, axis=1, keepdims=True), b / np.linalg.norm(a, axis=1)
    q = w.shape[1]
    answer = linprog(
        np.r_[np.zeros(q), -1], A_ub=np.c_[-a, np.ones(len(a))], b_ub=b, bounds=[(None, None)] * q + [(None, 1)]
    )
    return answer.x[-1] > 1e-9


def wide(w, phi, d=TOTAL):
    """Add columns which no row observes: tests that share their shapes are compiled once."""
    more = d - len(w)
    return np.concatenate([w, np.ones((more, w.shape[1]))]), np.concatenate([phi, np.zeros(more)])


def run_find(w, phi, signs, n_slides=64):
    y, count = find(jnp.asarray(w), jnp.asarray(phi), jnp.asarray(signs), jax.random.key(0), n_slides)
    y, count = np.asarray(y), np.asarray(count)
    np.testing.assert_array_equal(count, ((clip(w, phi, y) != signs) & (signs != 0)).sum(1))
    return y, count


@pytest.mark.parametrize(
    ("d", "q"),
    [(TOTAL, 3), *(pytest.param(*one, marks=pytest.mark.slow("a large program")) for one in [(256, 2), (100, 8)])],
)
def test_every_row_of_the_model_has_a_cell(d, q):
    for bias in (0.7, 0.0):
        w, phi = arrangement(d, q, seed=q, bias=bias)
        rows = clip(w, phi, np.random.default_rng(d).normal(size=(ROWS, q)))
        assert (run_find(w, phi, rows, n_slides=64 if d == TOTAL else 0)[1] == 0).all()


def test_rows_without_a_cell_are_found_as_a_linear_program_finds_them():
    w, phi = arrangement(TOTAL, 3, seed=1)
    rng = np.random.default_rng(1)
    rows = clip(w, phi, rng.normal(size=(ROWS, 3)))
    rows[np.arange(ROWS), rng.integers(TOTAL, size=ROWS)] *= -1
    rows[rng.random(rows.shape) < 0.4] = 0  # few bits left: about half of the rows have a cell
    _, count = run_find(w, phi, rows)
    expected = [feasible(w, phi, row) for row in rows]
    assert 15 < sum(expected) < 65
    np.testing.assert_array_equal(count == 0, expected)


@pytest.mark.slow("another program, that of two latents")
def test_a_tiny_triangle_is_found_and_its_inside_out_is_not():
    rng, width = np.random.default_rng(0), 1e-9
    w = rng.normal(size=(14, 2))
    y = rng.normal(size=2)
    phi = -w @ y + rng.normal(size=14)
    angle = np.array([0, 2, 4]) * np.pi / 3
    w[:3], phi[:3] = np.stack([np.cos(angle), np.sin(angle)], 1), 0
    phi[:3] = width - w[:3] @ y
    rows = np.tile(clip(w, phi, y), (ROWS, 1))
    assert (rows[0, :3] > 0).all()
    rows[1:, :3] = -1
    at, count = run_find(w, phi, rows)
    assert count[0] == 0
    np.testing.assert_allclose(at[0], y, atol=2 * width)
    assert (count[1:] == 1).all()


FEWER = pytest.mark.slow("another program, that of fewer latents")


@pytest.mark.parametrize(
    ("d", "q", "total", "share"),
    [pytest.param(14, 1, 14, 1, marks=FEWER), pytest.param(14, 2, 14, 1, marks=FEWER), (12, 3, TOTAL, 0.98)],
)
def test_fewest_violated_bits_against_all_cells(d, q, total, share):
    w, phi = arrangement(d, q, seed=3)
    every = all_cells(w, phi)
    assert len(every) == hyperplane_cells.n_cells(d, q)
    rows = np.random.default_rng(d).choice([-1.0, 1.0], size=(ROWS, d))
    fewest = (rows[:, None] != every).sum(2).min(1)
    w, phi = wide(w, phi, total)
    _, count = run_find(w, phi, np.pad(rows, [(0, 0), (0, total - d)]))
    assert (count >= fewest).all()
    assert ((count == 0) == (fewest == 0)).all()
    assert np.mean(count == fewest) >= share
    assert (fewest > 2).any()


def test_an_answer_does_not_depend_on_the_other_rows():
    w, phi = arrangement(TOTAL, 3, seed=3)
    rows = np.random.default_rng(0).choice([-1.0, 1.0], size=(ROWS, TOTAL))
    y, count = run_find(w, phi, rows)
    turned, count_turned = run_find(w, phi, np.roll(rows, 7, 0))
    np.testing.assert_array_equal(np.roll(count, 7), count_turned)
    np.testing.assert_allclose(np.roll(y, 7, 0), turned, atol=1e-6)


def test_columns_without_weights_count_but_do_not_matter():
    w, phi = arrangement(TOTAL, 3, seed=1)
    w[[3, 4, 5]], phi[[3, 4, 5]] = 0, [2.0, -np.inf, np.inf]
    rows = clip(w, phi, np.random.default_rng(2).normal(size=(ROWS, 3)))
    assert (run_find(w, phi, rows)[1] == 0).all()
    rows[:, [3, 4]] *= -1
    y, count = run_find(w, phi, rows)
    assert (count == 2).all()
    assert np.isfinite(np.asarray(nearest(*map(jnp.asarray, (w, phi, rows, y))))).all()


@pytest.mark.parametrize("bias", [0.7, 0.0])
def test_nearest_against_a_general_optimiser(bias):
    w, phi = arrangement(TOTAL, 3, seed=2, bias=bias)
    rows = clip(w, phi, np.random.default_rng(5).normal(size=(ROWS, 3)))
    y, _ = run_find(w, phi, rows)
    mode = np.asarray(nearest(*map(jnp.asarray, (w, phi, rows, y))))
    assert (rows * (mode @ w.T + phi) > -1e-12).all()
    for i in range(12):
        a, b = rows[i, :, None] * w, rows[i] * phi
        answer = minimize(
            lambda v: v @ v / 2, y[i], jac=lambda v: v, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
            constraints={"type": "ineq", "fun": lambda v, a=a, b=b: a @ v + b, "jac": lambda v, a=a: a},
        )  # fmt: skip
        np.testing.assert_allclose(mode[i], answer.x, atol=1e-6)


def test_interval_masses_and_draws_keep_their_digits():
    low = np.array([-1, 1e-9, 5, -np.inf, 12, -30, 3, -np.inf, -7, 8, 2])
    high = np.array([1, 2e-9, 5 + 1e-8, -25, 12.5, -29.9, 3.6, np.inf, 12, 9, 1])

    def direct(a, b):
        """Integrated from where the density is largest, and relative to the density there."""
        top = 0.0 if a <= 0 <= b else a if a > 0 else b
        ends = [(max(a, top - 20), top), (top, min(b, top + 20))]
        mass = sum(quad(lambda t: np.exp((top**2 - t**2) / 2), *pair, epsabs=0, epsrel=1e-13)[0] for pair in ends)
        return np.log(mass) - top**2 / 2 - np.log(2 * np.pi) / 2

    value = log_interval(jnp.asarray(low), jnp.asarray(high))
    assert value[-1] == -np.inf  # empty
    np.testing.assert_allclose(value[:-1], [direct(*ends) for ends in zip(low[:-1], high[:-1])], rtol=1e-12, atol=1e-12)

    low, high, whole = low[:-1, None], high[:-1, None], value[:-1, None]
    u = np.linspace(0.001, 0.999, 41)
    x = np.sort(truncated_normal(*map(jnp.asarray, np.broadcast_arrays(low, high, u))), axis=1)
    assert ((low <= x) & (x <= high)).all()
    share = np.exp(log_interval(jnp.asarray(low + 0 * x), jnp.asarray(x)) - whole)
    # numbers around 5 are 1e-15 apart, 1e-7 of the narrowest interval there; its logarithms have a digit less
    np.testing.assert_allclose(share, np.broadcast_to(u, share.shape), atol=2e-5)


N_DRAWN = 200_000


def log_probabilities(w, phi, cells_of, rows, size):
    """Integrate over the cell of each row, from moments of draws: log p and its error, bits violated, and shares drawn.

    Moments are NaN where there are few draws.
    """
    q = w.shape[1]
    draws = np.random.default_rng(1).normal(size=(N_DRAWN, q))
    _, which = np.unique(np.concatenate([cells_of, clip(w, phi, draws)]), axis=0, return_inverse=True)
    which = which.ravel()[len(cells_of) :]
    count = np.bincount(which, minlength=len(cells_of))
    mean, covariance = np.full((size, q), np.nan), np.full((size, q, q), np.nan)
    for k in np.flatnonzero(count > 100):
        mean[k], covariance[k] = draws[which == k].mean(0), np.cov(draws[which == k].T).reshape(q, q)
    more, offset = wide(w, phi, rows.shape[1])
    y, violated = run_find(more, offset, rows)
    args = map(jnp.asarray, (more, offset, rows[:size], y[:size], mean, covariance))
    value, error = map(np.asarray, integrate(*args, jax.random.split(jax.random.key(0), size), 256)[:2])
    return value, error, violated[:size], count / N_DRAWN


@pytest.mark.slow("cells in three dimensions")
@pytest.mark.parametrize(
    ("d", "q", "total", "size"),
    [pytest.param(14, 1, 14, ROWS, marks=FEWER), pytest.param(10, 2, 14, ROWS, marks=FEWER), (4, 3, TOTAL, 24)],
)
def test_probabilities_of_all_cells_are_those_counted_and_sum_to_one(d, q, total, size):
    w, phi = arrangement(d, q, seed=3)
    every = all_cells(w, phi)
    states = 2.0 * all_states(d) - 1
    codes = 2 ** np.arange(d)
    impossible = states[~np.isin(states @ codes, every @ codes)][: size - len(every)]
    n, last = len(every), len(every) + len(impossible)
    rows = np.zeros((ROWS, total))
    rows[:n, :d], rows[n:last, :d] = every, impossible
    value, error, violated, share = log_probabilities(w, phi, every, rows, size)
    assert (violated[n:last] > 0).all()
    assert (value[n:last] == -np.inf).all()
    assert (error[n:last] == 0).all()
    np.testing.assert_allclose(value[last:], 0, atol=0.05)  # nothing observed: anything goes
    p = np.exp(value[:n])
    spread = p * error[:n]
    assert abs(p.sum() - 1) < 4 * np.sqrt((spread**2).sum()) + 1e-14
    assert np.sqrt((spread**2).sum()) < (1e-15 if q == 1 else 0.004)
    often = N_DRAWN * p > 20
    z = (share - p)[often] / np.sqrt(p / N_DRAWN + spread**2)[often]
    assert np.abs(z).max() < 4.5


def test_orthant_probabilities():
    rng = np.random.default_rng(4)
    w = rng.normal(size=(3, 3))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    phi = 0.5 * rng.normal(size=3)
    signs = np.unique(2.0 * all_states(3) - 1, axis=0)  # in the order of `all_cells`
    rows = np.zeros((ROWS, TOTAL))
    rows[:8, :3] = signs
    value, error, violated, _ = log_probabilities(w, phi, signs, rows, 24)
    assert (violated == 0).all()
    for s, log_p, spread in zip(signs, value, error):
        expected = stats.multivariate_normal.cdf(s * phi, cov=s[:, None] * (w @ w.T) * s, abseps=1e-6, releps=1e-6)
        if expected > 1e-4:  # below, the reference is not accurate
            assert spread < 0.05
            assert abs(log_p - np.log(expected)) < 4.5 * spread


@pytest.mark.slow("another program, that of two latents")
def test_draws_have_the_exact_moments_of_a_thin_oblique_cell():
    # a box turned by 45 degrees, 1000 times as long as wide: along its sides, two independent truncated Gaussians
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    w, phi = wide(np.repeat(turn, 2, axis=0), -np.array([-0.5, 1.5, 0.7, 0.702]), 14)
    rows = np.zeros((ROWS, 14))
    rows[:, :4] = [1, -1, 1, -1]
    y, violated = run_find(w, phi, rows)
    assert (violated == 0).all()
    keys = jax.random.split(jax.random.key(3), ROWS)
    draws = np.asarray(gibbs(*map(jnp.asarray, (w, phi, rows, y)), keys, 2, 24))[8:]
    assert (clip(w, phi, draws)[..., :4] == rows[0, :4]).all()
    box = draws @ turn.T
    for k, law in enumerate((stats.truncnorm(-0.5, 1.5), stats.truncnorm(0.7, 0.702))):
        means = box[..., k].mean(0)  # one per chain, and chains are independent
        assert abs(means.mean() - law.mean()) < 4 * means.std() / np.sqrt(ROWS)
        squares = ((box[..., k] - law.mean()) ** 2).mean(0)
        assert abs(squares.mean() - law.var()) < 4 * squares.std() / np.sqrt(ROWS)
        assert means.std() < 0.6 * law.std()  # 16 draws of a chain are worth more than 3


def test_draws_in_one_dimension_are_exact_at_once():
    given = np.ones((2, 1)), np.array([-9.0, -8.0]), np.ones((2000, 2)), np.full((2000, 1), 10.0)
    draws = np.asarray(gibbs(*map(jnp.asarray, given), jax.random.split(jax.random.key(0), 2000), 1, 1)).ravel()
    assert stats.kstest(draws, stats.truncnorm(9, np.inf).cdf).pvalue > 1e-3


def test_the_number_of_cells_without_biases():
    # walking round the circle crosses each of 256 lines through the origin twice
    w, phi = arrangement(256, 2, seed=0, bias=0.0)
    crossing = np.sort(np.concatenate([np.arctan2(w[:, 0], -w[:, 1]), np.arctan2(-w[:, 0], w[:, 1])]))
    between = crossing + np.diff(crossing, append=crossing[0] + 2 * np.pi) / 2
    rows = clip(w, phi, np.stack([np.cos(between), np.sin(between)], 1))
    assert len(np.unique(rows > 0, axis=0)) == hyperplane_cells.n_cells(256, 2, bias=False) == 512
    assert ((rows != np.roll(rows, 1, 0)).sum(1) == 1).all()


@pytest.mark.parametrize(("d", "q", "bias"), [(9, 2, 0.0), (5, 3, 0.5), (2, 3, 0.5)])
def test_the_number_of_cells_counted_from_samples(d, q, bias):
    w, phi = arrangement(d, q, seed=1, bias=bias)
    y = np.random.default_rng(0).normal(size=(100_000, q)) * np.geomspace(0.2, 50, 100_000)[:, None]
    assert len(np.unique(y @ w.T + phi > 0, axis=0)) == hyperplane_cells.n_cells(d, q, bias=bias > 0)


def test_neighbours_along_a_line_differ_in_one_bit():
    w, phi = arrangement(TOTAL, 3, seed=4)
    start, direction = np.random.default_rng(0).normal(size=(2, 3))
    crossing = np.sort(-(phi + w @ start) / (w @ direction))
    between = np.concatenate([crossing[:1] - 1, (crossing[1:] + crossing[:-1]) / 2, crossing[-1:] + 1])
    rows = clip(w, phi, start + between[:, None] * direction)
    assert ((rows[1:] != rows[:-1]).sum(1) == 1).all()
    assert (rows[0] == -rows[-1]).all()
