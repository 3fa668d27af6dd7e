"""Columns of several kinds in one latent space: against integrals over a dense grid, in float64."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core.batch import Batch
from latentbits.core.tree import double
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import kinds, variational
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.kinds import Columns, Params


class Numbers(NamedTuple):
    """`Params` in NumPy."""

    weights: np.ndarray
    bias: np.ndarray
    log_variance: np.ndarray
    centre: np.ndarray
    scale: np.ndarray


KINDS = {
    "bits": Columns(binary=(0, 1, 2, 3)),
    "few": Columns(binary=(0, 2), continuous=(1,), categorical=(3,), n_classes=(3,)),
    "one variance": Columns(binary=(0, 2), continuous=(1, 3), shared_noise=True),
    "reals": Columns(binary=(), continuous=(0, 1, 2, 3)),
    "classes": Columns(binary=(), categorical=(0, 1, 2), n_classes=(2, 3, 5)),
    "mixed": Columns(binary=(0, 3, 4), continuous=(1, 5), categorical=(2, 6), n_classes=(3, 4)),
}


def n_columns(columns):
    return len(columns.binary) + len(columns.continuous) + len(columns.categorical)


def parameters(columns, q, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    n, r = columns.n_outputs(n_columns(columns)), columns.n_reals
    return Numbers(
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


def log_density(columns, params, row, x, xp=np):
    """log p(row | x) for points x, by the definition; NaN is left out."""
    eta = x @ params.weights.T + params.bias
    seen, row = ~xp.isnan(row), xp.nan_to_num(row)
    total, place = xp.zeros(len(x)), 0
    for c in columns.binary:
        total = total - seen[c] * xp.logaddexp(0.0, (1 - 2 * row[c]) * eta[:, place])
        place += 1
    for i, c in enumerate(columns.continuous):
        mean = params.centre[i] + params.scale[i] * eta[:, place]
        variance = params.scale[i] ** 2 * xp.exp(params.log_variance[i])
        total = total - seen[c] * (0.5 * (row[c] - mean) ** 2 / variance + 0.5 * xp.log(2 * np.pi * variance))
        place += 1
    for c, k in zip(columns.categorical, columns.n_classes):
        logits = xp.concatenate([xp.zeros((len(x), 1)), eta[:, place : place + k - 1]], 1)
        chosen = logits @ (row[c] == xp.arange(k))
        top = logits.max(1)
        total = total + seen[c] * (chosen - top - xp.log(xp.exp(logits - top[:, None]).sum(1)))
        place += k - 1
    return total


@functools.cache
def grid(q):
    axis = np.linspace(-6.5, 6.5, 301 if q == 1 else 111)
    points = np.stack([g.ravel() for g in np.meshgrid(*[axis] * q, indexing="ij")], 1)
    return points, -0.5 * (points**2).sum(1) - 0.5 * q * np.log(2 * np.pi) + q * np.log(axis[1] - axis[0])


def brute(columns, params, table):
    """log p of each row by a sum over a dense grid."""
    points, log_prior = grid(params.weights.shape[1])
    return np.array([np.logaddexp.reduce(log_density(columns, params, row, points) + log_prior) for row in table])


def batch_of(table):
    n = len(table)
    hole = np.isnan(table)
    return Batch(
        jnp.asarray(np.where(hole, 0, table)),
        jnp.asarray(1.0 - hole) if hole.any() else None,
        jnp.ones(n),
        jnp.arange(n, dtype=jnp.uint32),
        jax.random.key(0),
    )


def in_double(function):
    @functools.wraps(function)
    def test(*args, **kwargs):
        with double():
            return function(*args, **kwargs)

    return test


def on_device(params):
    return Params(*(jnp.asarray(a) for a in params))


@pytest.mark.parametrize(
    ("kind", "q"),
    [("bits", 1), ("reals", 2), ("classes", 1), ("few", 1), pytest.param("mixed", 2, marks=pytest.mark.slow)],
)
@in_double
def test_likelihood_bound_and_gradient_against_a_dense_grid(kind, q):
    columns = KINDS[kind]
    params = parameters(columns, q)
    table = table_of(columns, params, 25)
    table[0] = np.nan  # a row with nothing seen
    exact = brute(columns, params, table)
    record, given = latent_trait.model(q, "quadrature", columns, n_nodes=25), on_device(params)
    shared = record.prepare(given, None, None)

    @jax.jit  # compilation is what takes time here, so all in one
    def answers(batch):
        stats, _ = record.e_step(given, shared, batch, record.start_rows(given, shared, batch))
        rows = kinds.rows_of(columns, given, batch)
        posterior = variational.converge(columns, given, rows)
        posterior, bound, _ = variational.improve(columns, given, rows, posterior)
        return stats, bound, posterior.covariance

    stats, bound, covariance = answers(batch_of(table))
    assert float(stats.objective.sum()) == pytest.approx(exact.sum(), abs=1e-4)
    if kind == "reals":
        np.testing.assert_allclose(bound, exact, rtol=1e-9, atol=1e-9)
        whole = np.flatnonzero(~np.isnan(table).any(1))[0]
        precision = np.eye(q) + (params.weights.T / np.exp(params.log_variance)) @ params.weights
        np.testing.assert_allclose(covariance[whole], np.linalg.inv(precision), rtol=1e-9)
    else:
        assert np.all(np.asarray(bound) <= exact + 1e-9)
        assert np.all(np.asarray(bound) > exact - 2)
    slope = slope_of(columns, given, table)
    gradient, by_variance = gradient_of(columns, given, stats)
    np.testing.assert_allclose(gradient[:, :q], slope.weights, atol=5e-4)
    np.testing.assert_allclose(gradient[:, q], slope.bias, atol=5e-4)
    np.testing.assert_allclose(by_variance, slope.log_variance, atol=5e-4)


def slope_of(columns, params, table):
    """Gradient of the log-likelihood of a table by a sum over a dense grid."""
    points, log_prior = (jnp.asarray(a) for a in grid(params.weights.shape[1]))
    one = jax.jit(jax.grad(total_density, 1), static_argnums=0)
    return jax.tree.map(
        lambda *a: sum(a), *(one(columns, params, jnp.asarray(row), points, log_prior) for row in table)
    )


def total_density(columns, params, row, points, log_prior):
    return jax.nn.logsumexp(log_density(columns, params, row, points, jnp) + log_prior)


def gradient_of(columns, params, stats):
    """What the statistics say: by Fisher's identity that of log p, since they are taken at these very parameters."""
    q = params.weights.shape[1]
    parts, by_variance = [stats.bits.gradient], np.zeros(0)
    if stats.reals is not None:
        first = len(columns.binary)
        ours = jnp.concatenate([params.weights, params.bias[:, None]], 1)[first : first + columns.n_reals]
        squares = np.zeros((columns.n_reals, q + 1, q + 1))
        j, k = np.triu_indices(q + 1)
        squares[:, j, k] = squares[:, k, j] = stats.reals.squares
        explained = np.einsum("dij,dj->di", squares, ours)
        inverse = np.exp(-params.log_variance)
        parts.append((stats.reals.cross - explained) * inverse[:, None])
        residual = stats.reals.total - 2 * jnp.sum(stats.reals.cross * ours, 1) + jnp.sum(ours * explained, 1)
        by_variance = 0.5 * (residual * inverse - stats.reals.observed)
    return np.concatenate([*parts, *(part.gradient for part in stats.classes)]), by_variance


@pytest.mark.slow
@in_double
def test_likelihood_completion_and_samples_of_rows():
    columns, n = KINDS["mixed"], 20_000
    params = parameters(columns, 2, seed=5)
    table = table_of(columns, params, 25, seed=6, missing=0.4)
    points, log_prior = grid(2)
    record, given = latent_trait.model(2, columns=columns), on_device(params)
    shared = record.prepare(given, None, None)

    @jax.jit
    def answers(batch, keys):
        told = record.log_likelihood(given, shared, batch)
        return told.value, record.complete(given, shared, batch), record.sample(given, shared, keys)

    value, filled, drawn = answers(batch_of(table), jax.random.split(jax.random.key(1), n))
    np.testing.assert_allclose(value, brute(columns, params, table), atol=5e-5)

    means = np.asarray(kinds.expected(columns, given, jnp.asarray(points)))
    posterior = np.array([log_density(columns, params, row, points) + log_prior for row in table])
    wanted = np.exp(posterior - np.logaddexp.reduce(posterior, axis=1, keepdims=True)) @ means
    # outputs: columns 0, 1; 2 with three classes; 3, 4, 5; 6 with four
    best = [wanted[:, 2:5].argmax(1), wanted[:, 8:12].argmax(1)]
    codes = np.stack([wanted[:, 0], wanted[:, 1], best[0], *wanted[:, 5:8].T, best[1]], 1)
    np.testing.assert_allclose(filled, codes, atol=2e-4)

    drawn = np.asarray(drawn)
    three, four = drawn[:, [2]] == np.arange(3), drawn[:, [6]] == np.arange(4)
    found = np.concatenate([drawn[:, :2], three, drawn[:, 3:6], four], 1)
    assert np.all(np.abs(found.mean(0) - np.exp(log_prior) @ means) < 4 * found.std(0) / np.sqrt(n))
    loading = params.weights[3:5] * params.scale[:, None]
    covariance = loading @ loading.T + np.diag(params.scale**2 * np.exp(params.log_variance))
    np.testing.assert_allclose(np.cov(drawn[:, [1, 5]].T), covariance, rtol=0.06)


@pytest.mark.parametrize(
    ("method", "accelerate", "prior", "dtype", "kind"),
    [
        ("variational", False, None, "float64", "few"),
        ("variational", False, None, "float64", "one variance"),
        pytest.param("quadrature", False, 2.0, "float64", "few", marks=pytest.mark.slow),
        pytest.param("quadrature", True, None, "float32", "few", marks=pytest.mark.slow),
    ],
)
def test_no_step_goes_down(method, accelerate, prior, dtype, kind):
    columns = KINDS[kind]
    params = parameters(columns, 1, seed=8, size=1.5)
    table = table_of(columns, params, 200, seed=9)
    record = latent_trait.model(1, method, columns, weight_prior=prior, accelerate=accelerate)
    result = fit(record, MemoryEngine(table), seed_key(0), dtype=dtype, limits=Limits(40, -np.inf))
    values = np.array([r.objective for r in result.history])
    if accelerate:  # a step that did not help is taken back, so the best so far is what counts
        values = np.maximum.accumulate(values)
    assert values[-1] > values[0]
    slack = 10 * np.abs(values[-1]) * np.finfo(dtype).eps
    if method == "quadrature":
        slack += 1e-5  # nodes move with the posteriors: the log-likelihood is right to the error of their rule
    assert np.diff(values).min() >= -slack
    exact = brute(columns, result.params, table).sum()
    if method == "variational":
        assert values.max() <= exact
    else:
        penalty = 0 if prior is None else 0.5 * np.sum(result.params.weights**2) / prior**2
        assert values.max() == pytest.approx(exact - penalty, rel=1e-5)


def test_one_variance_for_all_is_one_to_the_bit():
    shared = KINDS["one variance"]
    table = table_of(shared, parameters(shared, 1, seed=8), 200)
    record = latent_trait.model(1, "variational", shared)
    learned = fit(record, MemoryEngine(table), seed_key(0), dtype="float64", limits=Limits(20, -np.inf)).params
    assert len(set(learned.log_variance.tolist())) == len(set(learned.scale.tolist())) == 1


@in_double
def test_two_categories_are_a_bit():
    """Reference coding: the same likelihood."""
    bits = Columns(binary=(0, 1, 2))
    classes = Columns(binary=(0, 2), categorical=(1,), n_classes=(2,))
    order = [0, 2, 1]
    params = parameters(bits, 1, seed=10)
    same = Numbers(params.weights[order], params.bias[order], *[np.zeros(0)] * 3)
    batch = batch_of(table_of(bits, params, 50, seed=11))
    told = []
    for columns, p in ((bits, params), (classes, same)):
        record, given = latent_trait.model(1, columns=columns), on_device(p)
        told.append(jax.jit(record.log_likelihood)(given, record.prepare(given, None, None), batch).value)
    np.testing.assert_allclose(told[0], told[1], rtol=1e-6)
