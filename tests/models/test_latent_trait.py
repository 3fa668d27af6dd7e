"""The latent trait model against slow twins in float64: dense grids, finite differences, plain EM in NumPy."""

from __future__ import annotations

from itertools import product as pairs_of

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import nodes, tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.model import Progress
from latentbits.core.packed import inverse_factor, pairs, solve, unpack
from latentbits.engines.chunks import Layout
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import map_rows, start_pass
from latentbits.models.latent_trait import bits, kinds, quadrature, sampling, variational
from latentbits.models.latent_trait.kinds import ALL_BITS, Params
from latentbits.models.latent_trait.model import METHODS, finer, model

FLOAT64 = np.dtype(np.float64)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def simulate(n=400, d=6, q=1, seed=0, missing=0.0, scale=1.3):
    rng = np.random.default_rng(seed)
    w, b = scale * rng.normal(size=(d, q)), rng.normal(size=d)
    table = (rng.random((n, d)) < sigmoid(rng.normal(size=(n, q)) @ w.T + b)).astype(np.uint8)
    table[rng.random((n, d)) < missing] = MISSING
    return table, w, b


def as_params(w, b):
    nothing = jnp.zeros(0)
    return Params(jnp.asarray(w, float), jnp.asarray(b, float), nothing, nothing, nothing)


def as_rows(params, table):
    holes = (table == MISSING).any()
    batch = make_batch(jnp.asarray(table), jnp.uint32(0), jnp.uint32(len(table)), seed_key(0), not holes, FLOAT64)
    return batch, kinds.rows_of(ALL_BITS, params, batch)


def grid(q, width=8.0, step=0.05):
    axis = np.arange(-width, width + step / 2, step if q == 1 else 4 * step)
    points = np.array(list(pairs_of(axis, repeat=q)))
    log_weight = -0.5 * (points**2).sum(1)
    return points, log_weight - np.logaddexp.reduce(log_weight)


def log_joint(w, b, table):
    """log P(t, x) on a dense grid: (rows, points), by nothing but the model's definition."""
    points, log_weight = grid(w.shape[1])
    a = points @ w.T + b
    one, zero = -np.logaddexp(0, -a), -np.logaddexp(0, a)
    seen = table != MISSING
    return np.where(seen, table == 1, 0) @ one.T + np.where(seen, table == 0, 0) @ zero.T + log_weight, points


def log_likelihoods(w, b, table):
    return np.logaddexp.reduce(log_joint(w, b, table)[0], axis=1)


def posterior_moments(w, b, table):
    joint, points = log_joint(w, b, table)
    share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    mean = share @ points
    away = points[None] - mean[:, None]
    return mean, np.einsum("nk,nki,nkj->nij", share, away, away), share, points


def use(function, record, w, b, table):
    with tree.double():
        params = as_params(w, b)
    given = start_pass(record, FLOAT64, params, seed_key(0))
    parts = list(map_rows(function, MemoryEngine(table), Layout(512, FLOAT64), given))
    return jax.tree.map(lambda *x: np.concatenate(x) if x[0].ndim else x[0], *parts)


# ---------------------------------------------------------------- small matrices


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_packed_solves_are_those_of_lapack(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(4, size, size))
    matrix = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(size)
    right = rng.normal(size=(4, size))
    j, k = pairs(size)
    with tree.double():
        packed = jnp.asarray(matrix[:, j, k])
        np.testing.assert_allclose(unpack(packed, size), matrix)
        inverse, log_det = inverse_factor(packed)
        found = solve(packed, jnp.asarray(right))
    inverse = np.asarray(inverse)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right[..., None])[..., 0], rtol=1e-8)
    np.testing.assert_allclose(inverse.transpose(0, 2, 1) @ inverse, np.linalg.inv(matrix), rtol=1e-7)
    np.testing.assert_allclose(log_det, -0.5 * np.linalg.slogdet(matrix)[1], rtol=1e-9)


# ---------------------------------------------------------------- section 4


@pytest.mark.slow
@pytest.mark.parametrize("q", [1, 2])
def test_the_bound_is_the_integral_of_equation_4_and_below_the_likelihood(q):
    """(5) summed over a dense grid gives the closed form; with xi by (8) it is below log p, and xi is its optimum."""
    table, w, b = simulate(30, 5, q, missing=0.2)
    with tree.double():
        params = as_params(w, b)
        _, rows = as_rows(params, table)
        posterior = variational.converge(ALL_BITS, params, rows, most=500, tolerance=1e-12)
        final, bound, _ = variational.improve(ALL_BITS, params, rows, posterior)
        mean, covariance = np.asarray(posterior.mean), np.asarray(posterior.covariance)
        final, bound = tree.to_numpy(final), np.asarray(bound)
    xi = np.sqrt((mean @ w.T + b) ** 2 + np.einsum("di,nij,dj->nd", w, covariance, w))

    def integral(xi):
        points, log_weight = grid(q)
        a = points @ w.T + b
        lam = (0.5 - sigmoid(xi)) / (2 * xi)
        total = np.tile(log_weight, (len(table), 1))
        for i in range(w.shape[0]):
            signed = np.where(table[:, i] == 1, 1, -1)[:, None] * a[:, i]
            x = xi[:, i, None]
            term = np.log(sigmoid(x)) + (signed - x) / 2 + lam[:, i, None] * (signed**2 - x**2)  # (5)
            total += np.where(table[:, i, None] == MISSING, 0, term)
        return np.logaddexp.reduce(total, axis=1)

    np.testing.assert_allclose(bound, integral(xi), atol=1e-8)
    exact = log_likelihoods(w, b, table)
    assert np.all(bound <= exact + 1e-9)
    assert np.all(integral(1.05 * xi) <= bound + 1e-9)
    assert np.all(integral(0.95 * xi) <= bound + 1e-9)
    np.testing.assert_allclose(final.mean, mean, atol=1e-9)  # converged


@pytest.mark.slow
@pytest.mark.parametrize("q", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_m_step_is_equation_11(q):
    """One plain variational iteration against the equations written out with loops."""
    table, w, b = simulate(50, 5, q, missing=0.15)
    d = len(b)
    rng = np.random.default_rng(1)
    with tree.double():
        params = as_params(w, b)
        _, rows = as_rows(params, table)
        start = variational.converge(ALL_BITS, params, rows, most=3)
        posterior, bound, contact = variational.improve(ALL_BITS, params, rows, start)
        weight = jnp.asarray(rng.integers(0, 2, len(table)), float)
        stats = variational.stats_of(ALL_BITS, params, rows, posterior, bound, contact, weight)
        found = tree.to_numpy(kinds.maximise(ALL_BITS, params, stats, 0.0, False, jnp.inf))
        mean, covariance = np.asarray(posterior.mean), np.asarray(posterior.covariance)
        before, spread, weight = np.asarray(start.mean), np.asarray(start.covariance), np.asarray(weight)
    for i in range(d):
        left, right = np.zeros((q + 1, q + 1)), np.zeros(q + 1)
        for n in range(len(table)):
            if table[n, i] == MISSING or weight[n] == 0:
                continue
            xi = np.sqrt(w[i] @ spread[n] @ w[i] + (w[i] @ before[n] + b[i]) ** 2)  # (8), from the posterior before
            lam = (0.5 - sigmoid(xi)) / (2 * xi)
            x = np.append(mean[n], 1)
            second = np.outer(x, x)  # (12)
            second[:q, :q] += covariance[n]
            left += 2 * lam * second
            right += (table[n, i] - 0.5) * x
        answer = -np.linalg.solve(left, right)  # (11)
        np.testing.assert_allclose(np.append(found.weights[i], found.bias[i]), answer, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("accelerate", "dtype", "slack"), [(False, "float64", 1e-12), (False, "float32", 3e-7)])
@pytest.mark.parametrize("q", [1, 2])
def test_the_bound_never_falls(accelerate, dtype, slack, q):
    table, _, _ = simulate(500, 8, q, missing=0.1)
    record = model(q, "variational", accelerate=accelerate)
    result = fit(record, MemoryEngine(table), seed_key(0), limits=Limits(60, -np.inf), dtype=dtype)
    values = np.array([r.objective for r in result.history])
    assert np.diff(values).min() >= -slack * abs(values[0])


@pytest.mark.slow
@pytest.mark.optimised
@pytest.mark.parametrize(
    "method",
    [
        "variational",
        pytest.param("quadrature", marks=pytest.mark.slow),
        pytest.param("monte_carlo", marks=pytest.mark.slow),
    ],
)
def test_acceleration_gives_the_same_optimum_in_fewer_passes(method):
    table, _, _ = simulate(600, 12, 2, seed=3)
    fast, plain = (
        fit(model(2, method, accelerate=a), MemoryEngine(table), seed_key(0), limits=Limits(3000, t), dtype="float64")
        for a, t in ((True, 1e-9), (False, 1e-11))
    )
    assert fast.reason == "converged"
    assert fast.n_iter < plain.n_iter / 2
    assert fast.objective > plain.objective - 2e-3
    np.testing.assert_allclose(fast.objective, plain.objective, atol=0.02)  # plain EM still crawls where it stops


# ---------------------------------------------------------------- section 3


@pytest.mark.slow
def test_sampling_em_is_equation_3():
    """Responsibilities and log-likelihood over the sample; the M-step is a weighted logistic regression."""
    table, w, b = simulate(80, 4, 2, missing=0.2)
    samples = sampling.prior_sample(40, 2)
    with tree.double():
        params = as_params(w, b)
        batch, _ = as_rows(params, table)
        shared = sampling.prepare(params, samples)
        stats, _ = sampling.e_step(params, shared, batch, None)
        new = sampling.regress(params, stats, samples, 0.0, False, jnp.asarray(jnp.inf))
        stats, new = tree.to_numpy(stats), tree.to_numpy(new)
    a = samples @ w.T + b
    seen = table != MISSING
    joint = (np.where(seen, table, 0) @ -np.logaddexp(0, -a).T) + ((seen & (table == 0)) @ -np.logaddexp(0, a).T)
    total = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(stats.objective.sum(), (total - np.log(40)).sum())
    share = np.exp(joint - total[:, None])
    np.testing.assert_allclose(stats.ones, share.T @ np.where(seen, table, 0))
    np.testing.assert_allclose(stats.observed, share.T @ seen)
    # at the M-step's answer the gradient of the expected log-likelihood vanishes
    p = sigmoid(samples @ new.weights.T + new.bias)
    error = stats.ones - stats.observed * p
    np.testing.assert_allclose(error.T @ samples, 0, atol=1e-6)
    np.testing.assert_allclose(error.sum(0), 0, atol=1e-6)


# ---------------------------------------------------------------- quadrature


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "d", "scale", "tolerance"),
    [
        (1, 5, 1.3, 1e-7),
        (1, 40, 1.3, 1e-7),
        (2, 5, 1.3, 1e-6),
        (2, 60, 1.0, 1e-5),
        (1, 6, 6.0, 1e-3),
        (2, 6, 4.0, 5e-3),
    ],
)
def test_log_likelihoods_are_those_of_a_dense_grid(q, d, scale, tolerance):
    table, w, b = simulate(40, d, q, missing=0.1, scale=scale)
    table[0] = MISSING
    table[1] = 1
    found = use(model(q).log_likelihood, model(q), w, b, table)
    exact = log_likelihoods(w, b, table)
    np.testing.assert_allclose(found.value, exact, atol=tolerance)
    assert abs(found.value[0]) < 1e-9  # nothing seen: log 1


@pytest.mark.slow
def test_the_posterior_is_that_of_a_dense_grid():
    table, w, b = simulate(40, 7, 2, missing=0.1)
    table[0] = MISSING
    found = use(model(2).infer, model(2), w, b, table)
    mean, covariance, share, points = posterior_moments(w, b, table)
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-5)
    assert np.all(np.abs(found.mode - points[np.argmax(share, axis=1)]) < 0.2)  # the grid's own step
    p = sigmoid(found.mode @ w.T + b)
    slope = (np.where(table == MISSING, 0, table - p)) @ w - found.mode
    np.testing.assert_allclose(slope, 0, atol=1e-6)  # at the mode
    precision = np.eye(2) + np.einsum("nd,di,dj->nij", np.where(table == MISSING, 0, p * (1 - p)), w, w)
    np.testing.assert_allclose(found.mode_covariance, np.linalg.inv(precision), rtol=1e-5)


def test_completion_is_the_mean_over_the_posterior():
    table, w, b = simulate(30, 6, 2, missing=0.3)
    found = use(model(2).complete, model(2), w, b, table)
    _, _, share, points = posterior_moments(w, b, table)
    np.testing.assert_allclose(found, share @ sigmoid(points @ w.T + b), atol=1e-6)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_statistics_are_the_gradient_of_the_log_likelihood(q):
    """By Fisher's identity the M-step's gradient is that of the log-likelihood, here by automatic differentiation."""
    table, w, b = simulate(25, 5, q, missing=0.2)
    with tree.double():
        params = as_params(w, b)
        batch, rows = as_rows(params, table)
        rule = nodes.gauss_hermite(15, q) if q < 3 else nodes.quasi_monte_carlo(256, q)

        @jax.jit
        def both(params, rows):
            at = quadrature.placed(ALL_BITS, params, rows, quadrature.start(ALL_BITS, params, rows))
            integral = quadrature.integrate(ALL_BITS, params, rows, at, rule)
            stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)

            def total(params):
                return quadrature.integrate(ALL_BITS, params, rows, at, rule).log_likelihood.sum()

            return stats, jax.grad(total)(params)

        stats, slope = tree.to_numpy(both(params, rows))
    np.testing.assert_allclose(stats.bits.gradient[:, :q], slope.weights, atol=1e-9)
    np.testing.assert_allclose(stats.bits.gradient[:, q], slope.bias, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("q", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_importance_sampling_tells_its_error(q):
    """Against a rule with far more points: within 5 of the standard errors told, on average about one of them."""
    table, w, b = simulate(60, 20, q, missing=0.1, scale=0.8)
    record = model(q)
    found = use(record.log_likelihood, record, w, b, table)
    with tree.double():
        params = as_params(w, b)
        _, rows = as_rows(params, table)
        many = nodes.quasi_monte_carlo(2**14, q, seed=7)

        @jax.jit
        def integrate(params, rows):
            at = quadrature.placed(ALL_BITS, params, rows, quadrature.start(ALL_BITS, params, rows))
            return quadrature.integrate(ALL_BITS, params, rows, at, many).log_likelihood

        exact = np.asarray(integrate(params, rows))
    away = (found.value - exact) / found.error
    assert np.all(found.error > 0)
    assert np.all(found.error < 0.05)
    assert np.abs(away).max() < 6
    assert 0.5 < np.sqrt(np.mean(away**2)) < 2


@pytest.mark.slow
def test_a_plain_em_on_a_fine_grid_finds_the_same_fit():
    """Maximum likelihood by NumPy alone: EM on 81 fixed nodes with Newton steps, 2000 iterations."""
    table, _, _ = simulate(800, 6, 1, seed=5, missing=0.1)
    result = fit(model(1, "quadrature"), MemoryEngine(table), seed_key(0), limits=Limits(500, 1e-10), dtype="float64")
    x = np.linspace(-6, 6, 81)
    prior = np.exp(-(x**2) / 2)
    prior /= prior.sum()
    basis = np.stack([x, np.ones_like(x)], 1)
    seen, ones = table != MISSING, table == 1
    theta = np.stack([np.full(6, 1.0), np.zeros(6)], 1)
    for _ in range(2000):
        p = sigmoid(basis @ theta.T)
        joint = ones @ np.log(p).T + (seen & ~ones) @ np.log1p(-p).T + np.log(prior)
        total = np.logaddexp.reduce(joint, axis=1)
        share = np.exp(joint - total[:, None])
        r1, r = share.T @ ones, share.T @ seen
        for i in range(6):
            gradient = (r1[:, i] - r[:, i] * p[:, i]) @ basis
            theta[i] += np.linalg.solve((basis * (r[:, i] * p[:, i] * (1 - p[:, i]))[:, None]).T @ basis, gradient)
    sign = np.sign(result.params.weights[:, 0].sum())
    assert abs(result.objective - total.sum()) < 1e-4
    np.testing.assert_allclose(sign * result.params.weights[:, 0], np.sign(theta[:, 0].sum()) * theta[:, 0], atol=2e-3)
    np.testing.assert_allclose(result.params.bias, theta[:, 1], atol=2e-3)


def test_rows_with_few_observed_of_many_steep_columns():
    """60 columns, nine of ten missing: the rules are those of few columns, and their error is told."""
    table, w, b = simulate(40, 60, 1, missing=0.9, scale=5.0)
    found = use(model(1).log_likelihood, model(1), w, b, table)
    away = np.abs(found.value - log_likelihoods(w, b, table))
    assert away.sum() < found.error.sum() + 1e-6


@pytest.mark.parametrize(("q", "scale", "step"), [(1, 20.0, 0.001), pytest.param(2, 6.0, 0.01, marks=pytest.mark.slow)])
def test_finer_rules_are_numbers_of_one_program(q, scale, step):
    """Steep bits against a dense grid: the finer rules are nearer, and none of them is compiled anew."""
    table, w, b = simulate(20, 6, q, missing=0.3, scale=scale)
    points, log_weight = grid(q, step=step)
    a, seen = points @ w.T + b, table != MISSING
    joint = (seen & (table == 1)) @ -np.logaddexp(0, -a).T + (seen & (table == 0)) @ -np.logaddexp(0, a).T
    exact, away, compiled = np.logaddexp.reduce(joint + log_weight, axis=1), [], []
    with tree.double():
        given = start_pass(model(q), FLOAT64, as_params(w, b), seed_key(0))

    def by_rule(params, shared, batch):
        compiled.append(1)
        return finer(q, ALL_BITS, 0)(params, shared, batch)

    for level in range(3):
        ours = given._replace(shared=nodes.finer(q, level)[0])
        ((found, spread),) = map_rows(by_rule, MemoryEngine(table), Layout(64, FLOAT64), ours)
        away.append(np.abs(found - exact).max())
        if level:
            assert np.all(np.abs(found - exact) < 2 * spread + 1e-6)
    assert len(compiled) == 1
    assert away[2] < 1e-4
    assert 10 * away[2] < away[0] < 0.2


def _functions(record):
    """All that an engine may compile, by name."""
    of_model = {name: f for name, f in record._asdict().items() if callable(f)}
    of_stages = {
        f"{stage.name}: {name}": f for stage in record.stages for name, f in vars(stage).items() if callable(f)
    }
    return of_model | of_stages


@pytest.mark.parametrize("q", [1, 4])
@pytest.mark.parametrize("method", METHODS)
def test_a_prior_is_a_number_and_no_constant(method, q):
    """Functions and structure are the same for every prior; that there is one at all is in the structure of two."""
    none, weak, strong = (_functions(model(q, method, weight_prior=prior)) for prior in (None, 3.0, 1.0))
    assert set(none) == set(weak) == set(strong)
    assert "update" in weak
    for name, function in weak.items():
        assert jax.tree.structure(function) == jax.tree.structure(strong[name]), name
    differ = {name for name in weak if jax.tree.structure(none[name]) != jax.tree.structure(weak[name])}
    assert {name.split(": ")[-1] for name in differ} == {"update", "objective"}
    assert {name for name in weak if weak[name] is not strong[name]} == differ


@pytest.mark.parametrize("method", ["quadrature", "monte_carlo"])
def test_a_prior_can_be_an_argument(method):
    """A step whose functions are arguments: traced once for two priors, which lead to different places."""
    table, w, b = simulate(30, 5, 1)
    traced = []

    @jax.jit
    def step(functions, params, batch, progress):
        traced.append(1)
        start, prepare, start_rows, e_step, update, objective = functions
        state = start(params)
        shared = prepare(params, state, None)
        rows = None if start_rows is None else start_rows(params, shared, batch)
        stats, _ = e_step(params, shared, batch, rows)
        return update(state, params, shared, stats, progress)[1].weights, objective(params, shared, stats)

    found = []
    with tree.double():
        params = as_params(w, b)
        batch, _ = as_rows(params, table)
        progress = Progress(*(jnp.asarray(n) for n in (0, 9, 0)), seed_key(0))
        for prior in (3.0, 0.5):
            record = model(1, method, weight_prior=prior)
            acting = record.acting_in(record.stages[-1])
            names = ("start", "prepare", "start_rows", "e_step", "update", "objective")
            functions = [getattr(acting, name) for name in names]
            functions[3] = functions[3] if method == "quadrature" else jax.tree_util.Partial(functions[3])
            found.append(tree.to_numpy(step(tuple(functions), params, batch, progress)))
    assert len(traced) == 1
    (weak, higher), (strong, lower) = found
    assert np.linalg.norm(strong) < np.linalg.norm(weak)
    np.testing.assert_allclose(higher - lower, 0.5 * (4 - 1 / 9) * np.sum(w**2))


def test_a_net_is_turned_by_the_number_of_the_row_and_keeps_its_shape():
    with tree.double():
        at = quadrature.Gaussian(jnp.zeros((3, 4)), jnp.broadcast_to(jnp.eye(4), (3, 4, 4)))
        first, again = (np.asarray(nodes.for_net(at, jnp.array(n, jnp.uint32)).scale) for n in ([0, 1, 2], [2, 3, 4]))
    square = np.einsum("nij,nkj->nik", first, first)
    np.testing.assert_allclose(square, np.broadcast_to(nodes.net_width(4) ** 2 * np.eye(4), (3, 4, 4)), atol=1e-9)
    np.testing.assert_allclose(first[2], again[0])
    assert np.abs(first[0] - first[1]).max() > 0.1
    net = nodes.quasi_monte_carlo(128, 4).nodes
    np.testing.assert_allclose(net.T @ net / 128, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(np.mean(np.sum(net**2, 1) ** 2), 4 * 6, rtol=0.03)  # the fourth moment of a length


# ---------------------------------------------------------------- many dimensions

MANY = pytest.mark.parametrize("q", [8, pytest.param(16, marks=pytest.mark.slow)])


@MANY
def test_in_many_dimensions_likelihoods_tell_their_error(q):
    """Against draws from the prior, by nothing but the model's definition."""
    table, w, b = simulate(24, 10, q, missing=0.1, scale=2 / np.sqrt(q))
    found = use(model(q).log_likelihood, model(q), w, b, table)
    rng, total, squares = np.random.default_rng(3), np.zeros(24), np.zeros(24)
    n_draws, block = 2**19, 2**15
    for _ in range(n_draws // block):
        a = rng.normal(size=(block, q)) @ w.T + b
        p = np.exp((table == 1) @ -np.logaddexp(0, -a).T + (table == 0) @ -np.logaddexp(0, a).T)
        total, squares = total + p.sum(1), squares + (p**2).sum(1)
    mean = total / n_draws
    own = np.sqrt((squares / n_draws / mean**2 - 1) / n_draws)  # of the draws
    away = (found.value - np.log(mean)) / np.hypot(found.error, own)
    assert own.max() < 0.02
    assert np.all((found.error > 0) & (found.error < 0.05))
    assert np.abs(away).max() < 5
    assert 0.4 < np.sqrt(np.mean(away**2)) < 2


@MANY
def test_in_many_dimensions_a_fixed_net_never_loses(q):
    """Steps of the M-step, points held where they are: the likelihood grows, and its gradient shrinks."""
    table, w, b = simulate(150, 20, q, missing=0.1, scale=2 / np.sqrt(q))
    with tree.double():
        params = as_params(w, b)
        batch, rows = as_rows(params, table)
        at = jax.jit(lambda params, rows: nodes.for_net(quadrature.start(ALL_BITS, params, rows), batch.rows))(
            params, rows
        )
        rule = quadrature.learning_rule(q, 8)

        @jax.jit
        def step(params):
            integral = quadrature.integrate(ALL_BITS, params, rows, at, rule)
            stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)
            ahead = kinds.maximise(ALL_BITS, params, stats, 0.1, False, jnp.inf)
            slope = stats.bits.gradient.at[:, :q].add(-0.1 * params.weights)
            value = integral.log_likelihood.sum() - 0.05 * jnp.sum(params.weights**2)
            return ahead, value, jnp.abs(slope).max()

        values, slopes = [], []
        for _ in range(30):
            params, value, slope = step(params)
            values.append(float(value))
            slopes.append(float(slope))
    assert np.diff(values).min() >= -1e-9 * abs(values[0])
    assert values[-1] > values[0] + 1
    assert slopes[-1] < 0.2 * slopes[0]


def test_a_curvature_by_rows_is_near_that_by_points():
    """Where latents are many each column's curvature is told by moments of rows; no direction has less than half."""
    table, w, b = simulate(60, 12, 8, missing=0.1, scale=0.7)
    with tree.double():
        params = as_params(w, b)
        batch, rows = as_rows(params, table)

        @jax.jit
        def both(params):
            at = nodes.for_net(quadrature.start(ALL_BITS, params, rows), batch.rows)
            integral = quadrature.integrate(ALL_BITS, params, rows, at, quadrature.learning_rule(8, 8))
            stats = quadrature.stats_of(ALL_BITS, params, rows, integral, batch.weight)
            exact = bits.point_curvature(batch.observed, integral.probabilities[0], integral.share, integral.points)
            return unpack(stats.bits.curvature, 9), unpack(exact, 9)

        near, exact = (np.asarray(x) for x in both(params))
    ratios = np.linalg.eigvals(np.linalg.solve(exact, near)).real
    assert ratios.min() > 0.5
    assert ratios.max() < 3
    assert np.abs(near / exact - 1).max() > 1e-6  # another sum
