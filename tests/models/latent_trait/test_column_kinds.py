"""Columns of several kinds in one latent space: against integrals over a dense grid, in float64."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from tests.models.steps import batch_of, unchecked

from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import column_kinds, reals, variational
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.column_kinds import Columns, Params

KINDS = {
    "few": Columns(binary=(0, 2), continuous=(1,), categorical=(3,), n_classes=(3,)),
    "one variance": Columns(binary=(0, 2), continuous=(1, 3), shared_noise=True),
    "reals": Columns(binary=(), continuous=(0, 1, 2, 3)),
    "mixed": Columns(binary=(0, 3, 4), continuous=(1, 5), categorical=(2, 6), n_classes=(2, 4)),
}


def n_columns(columns):
    return len(columns.binary) + len(columns.continuous) + len(columns.categorical)


def parameters(columns, q, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    n, r = columns.n_outputs(n_columns(columns)), columns.n_reals
    return unchecked(
        Params,
        size * rng.normal(size=(n, q)),
        0.7 * rng.normal(size=n),
        rng.uniform(-1, 0.5, r),
        rng.normal(scale=5, size=r),
        rng.uniform(0.5, 3, r),
    )


def table_of(columns, params, n, seed=1, missing=0.2):
    """Rows drawn from the model, in plain NumPy, with holes (NaN)."""
    rng = np.random.default_rng(seed)
    q = params.weights.shape[1]
    eta = rng.normal(size=(n, q)) @ params.weights.T + params.bias
    table = np.zeros((n, n_columns(columns)))
    place = 0
    for c in columns.binary:
        table[:, c] = rng.random(n) < 1 / (1 + np.exp(-eta[:, place]))
        place += 1
    for i, c in enumerate(columns.continuous):
        noise = rng.normal(size=n) * np.exp(params.log_variance[i] / 2)
        table[:, c] = params.centre[i] + params.scale[i] * (eta[:, place] + noise)
        place += 1
    for c, k in zip(columns.categorical, columns.n_classes):
        logits = np.concatenate([np.zeros((n, 1)), eta[:, place : place + k - 1]], 1)
        table[:, c] = np.argmax(logits + rng.gumbel(size=logits.shape), 1)
        place += k - 1
    table[rng.random(table.shape) < missing] = np.nan
    return table


def log_density(columns, params, row, x):
    """Give log p(row | x) for points x, by the definition; NaN is left out."""
    eta = x @ params.weights.T + params.bias
    seen, row = ~np.isnan(row), np.nan_to_num(row)
    total, place = np.zeros(len(x)), 0
    for c in columns.binary:
        total -= seen[c] * np.logaddexp(0.0, (1 - 2 * row[c]) * eta[:, place])
        place += 1
    for i, c in enumerate(columns.continuous):
        mean = params.centre[i] + params.scale[i] * eta[:, place]
        variance = params.scale[i] ** 2 * np.exp(params.log_variance[i])
        total -= seen[c] * (0.5 * (row[c] - mean) ** 2 / variance + 0.5 * np.log(2 * np.pi * variance))
        place += 1
    for c, k in zip(columns.categorical, columns.n_classes):
        logits = np.concatenate([np.zeros((len(x), 1)), eta[:, place : place + k - 1]], 1)
        total += seen[c] * (logits[:, int(row[c])] - np.logaddexp.reduce(logits, axis=1))
        place += k - 1
    return total


@functools.cache
def grid():
    points = np.linspace(-6.5, 6.5, 301)[:, None]
    return points, -0.5 * points[:, 0] ** 2 - 0.5 * np.log(2 * np.pi) + np.log(points[1, 0] - points[0, 0])


def joint(columns, params, table):
    """Give log p(row, point) on a dense grid of one dimension."""
    points, log_prior = grid()
    return np.array([log_density(columns, params, row, points) + log_prior for row in table])


def brute(columns, params, table):
    return np.logaddexp.reduce(joint(columns, params, table), axis=1)


def everything(kind, q, params, table, weights, n=20_000):
    """Ask a model all that it says of rows, in one program, as compilation is what takes time here."""
    columns = KINDS[kind]
    record = latent_trait.model(q, "quadrature", columns, n_nodes=25)

    @jax.jit
    def answers(given, table, key):
        batch, shared = batch_of(table, weights), record.prepare(given, None, None)
        stats, _ = record.e_step(given, shared, batch, record.start_rows(given, shared, batch))
        rows = column_kinds.rows_of(columns, given, batch)
        posterior, bound, _ = variational.improve(columns, given, rows, variational.converge(columns, given, rows))
        if kind == "reals":
            less = jax.tree.map(lambda x: 1e-3 * x, stats.reals)  # less than one row, and as much less of a prior
            new = [
                reals.maximise(some, precision, given.log_variance, shared)
                for some, precision in ((stats.reals, 0.5), (less, 0.5e-3))
                for shared in (False, True)
            ]
            return stats, bound, posterior.covariance, new
        told = record.log_likelihood(given, shared, batch).value, record.complete(given, shared, batch)
        return stats, bound, *told, record.sample(given, shared, jax.random.split(key, n))

    with double():
        return to_numpy(answers(params, table, jax.random.key(1)))


def gradient_of(columns, params, stats):
    """Read the gradient off the statistics: by Fisher's identity that of log p, as they are of these parameters."""
    q = params.weights.shape[1]
    first = len(columns.binary)
    ours = np.concatenate([params.weights, params.bias[:, None]], 1)[first : first + columns.n_reals]
    squares = np.zeros((columns.n_reals, q + 1, q + 1))
    j, k = np.triu_indices(q + 1)
    squares[:, j, k] = squares[:, k, j] = stats.reals.squares
    explained = np.einsum("dij,dj->di", squares, ours)
    inverse = np.exp(-params.log_variance)
    of_reals = (stats.reals.cross - explained) * inverse[:, None]
    residual = stats.reals.total - 2 * np.sum(stats.reals.cross * ours, 1) + np.sum(ours * explained, 1)
    parts = [stats.bits.gradient, of_reals, *(part.gradient for part in stats.classes)]
    return np.concatenate(parts), 0.5 * (residual * inverse - stats.reals.observed)


def differences(value, params):
    """Differentiate by weights, bias and log-variances, one after the other."""
    found = []
    for part in (params.weights, params.bias, params.log_variance):
        slope = np.zeros_like(part)
        for at in np.ndindex(part.shape):
            before, values = part[at], []
            for change in (1e-5, -1e-5):
                part[at] = before + change
                values.append(value())
            part[at] = before
            slope[at] = (values[0] - values[1]) / 2e-5
        found.append(slope)
    return found


def check_gradient(columns, params, stats, value):
    q = params.weights.shape[1]
    gradient, by_variance = gradient_of(columns, params, stats)
    by_weight, by_bias, by_noise = differences(value, params)
    np.testing.assert_allclose(gradient[:, :q], by_weight, atol=5e-4)
    np.testing.assert_allclose(gradient[:, q], by_bias, atol=5e-4)
    np.testing.assert_allclose(by_variance, by_noise, atol=5e-4)


@pytest.mark.slow("a dense grid of two dimensions")
def test_all_kinds_together_against_a_dense_grid():
    """Likelihood, bound, gradient, completion and draws."""
    columns, n, weights = KINDS["mixed"], 20_000, np.random.default_rng(3).integers(0, 3, 25).astype(float)
    params = parameters(columns, 1, seed=5)
    table = table_of(columns, params, 25, seed=6, missing=0.4)
    table[0] = np.nan  # a row with nothing seen
    stats, bound, value, filled, drawn = everything("mixed", 1, params, table, weights)
    (points, log_prior), exact = grid(), brute(columns, params, table)
    assert stats.objective.sum() == pytest.approx(weights @ exact, abs=1e-4)
    assert np.all(bound <= exact + 1e-9)
    assert np.all(bound > exact - 2)
    np.testing.assert_allclose(value, exact, atol=5e-5)
    check_gradient(columns, params, stats, lambda: weights @ brute(columns, params, table))

    eta = points @ params.weights.T + params.bias
    two, four = (np.concatenate([np.zeros((len(points), 1)), eta[:, some]], 1) for some in (slice(5, 6), slice(6, 9)))
    two, four = (np.exp(one - np.logaddexp.reduce(one, axis=1, keepdims=True)) for one in (two, four))
    bits, reals = 1 / (1 + np.exp(-eta[:, :3])), params.centre + params.scale * eta[:, 3:5]
    # in the order of the columns
    means = np.column_stack([bits[:, 0], reals[:, 0], two, bits[:, 1:], reals[:, 1], four])
    wanted = np.exp(joint(columns, params, table) - exact[:, None]) @ means
    codes = [wanted[:, 0], wanted[:, 1], wanted[:, 2:4].argmax(1), *wanted[:, 4:7].T, wanted[:, 7:].argmax(1)]
    np.testing.assert_allclose(filled, np.stack(codes, 1), atol=2e-4)

    found = np.column_stack([drawn[:, :2], drawn[:, [2]] == np.arange(2), drawn[:, 3:6], drawn[:, [6]] == np.arange(4)])
    assert np.all(np.abs(found.mean(0) - np.exp(log_prior) @ means) < 4 * found.std(0) / np.sqrt(n))
    loading = params.weights[3:5] * params.scale[:, None]
    covariance = loading @ loading.T + np.diag(params.scale**2 * np.exp(params.log_variance))
    np.testing.assert_allclose(np.cov(drawn[:, [1, 5]].T), covariance, rtol=0.06)


def test_reals_alone_are_factor_analysis():
    """The bound is the likelihood, a normal density, in two dimensions."""
    columns = KINDS["reals"]
    params = parameters(columns, 2)
    table = table_of(columns, params, 25)
    table[0] = np.nan
    seen = ~np.isnan(table)

    def exact():
        mean = params.centre + params.scale * params.bias
        covariance = params.weights @ params.weights.T + np.diag(np.exp(params.log_variance))
        covariance *= np.outer(params.scale, params.scale)
        each = [(row[s], mean[s], covariance[np.ix_(s, s)]) for row, s in zip(table, seen)]
        return np.array([multivariate_normal.logpdf(*one) if len(one[0]) else 0.0 for one in each])

    stats, bound, covariance, steps = everything("reals", 2, params, table, np.ones(25))
    assert stats.objective.sum() == pytest.approx(exact().sum(), abs=1e-4)
    np.testing.assert_allclose(bound, exact(), rtol=1e-9, atol=1e-9)
    whole = np.flatnonzero(seen.all(1))[0]
    precision = np.eye(2) + (params.weights.T / np.exp(params.log_variance)) @ params.weights
    np.testing.assert_allclose(covariance[whole], np.linalg.inv(precision), rtol=1e-9)
    check_gradient(columns, params, stats, lambda: exact().sum())
    # the M-step is a regression on the latents, of known second moments, with a prior on its slopes
    j, k = np.triu_indices(3)
    residuals = []
    for i, (cross, total) in enumerate(zip(stats.reals.cross, stats.reals.total)):
        squares = np.zeros((3, 3))
        squares[j, k] = squares[k, j] = stats.reals.squares[i]
        answer = np.linalg.solve(squares + 0.5 * np.exp(params.log_variance[i]) * np.diag([1, 1, 0]), cross)
        residuals.append(total - 2 * cross @ answer + answer @ squares @ answer)
        for weights, bias, _ in steps:
            np.testing.assert_allclose([*weights[i], bias[i]], answer, rtol=1e-6)
    for each, shared in (steps[:2], steps[2:]):
        np.testing.assert_allclose(np.exp(each[2]), residuals / seen.sum(0), rtol=1e-6)
        np.testing.assert_allclose(np.exp(shared[2]), np.sum(residuals) / seen.sum(), rtol=1e-6)


@pytest.mark.slow("fits of forty steps with columns of two and three kinds")
@pytest.mark.parametrize(
    ("method", "prior", "kind"), [("variational", None, "one variance"), ("quadrature", 2.0, "few")]
)
def test_no_step_goes_down(method, prior, kind):
    columns = KINDS[kind]
    table = table_of(columns, parameters(columns, 1, seed=8, size=1.5), 200, seed=9)
    record = latent_trait.model(1, method, columns, weight_prior=prior, accelerate=False)
    result = fit(record, MemoryEngine(table), seed_key(0), dtype="float64", limits=Limits(40, -np.inf))
    values, learned = np.array([r.objective for r in result.history]), result.params
    assert values[-1] > values[0]
    # nodes move with the posteriors: the log-likelihood is right to the error of their rule
    slack = 10 * np.abs(values[-1]) * np.finfo(float).eps + (1e-5 if method == "quadrature" else 0)
    assert np.diff(values).min() >= -slack
    exact = brute(columns, learned, table).sum()
    if method == "variational":
        assert values.max() <= exact
        # one variance for all is one to the bit
        assert len(set(learned.log_variance.tolist())) == len(set(learned.scale.tolist())) == 1
    else:
        assert values.max() == pytest.approx(exact - 0.5 * np.sum(learned.weights**2) / prior**2, rel=1e-5)
