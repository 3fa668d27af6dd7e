"""Item models of one trait against a brute-force twin: likelihood, gradient and information, by other code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from latentbits.core.batch import Batch
from latentbits.core.tree import double
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import items
from latentbits.models.latent_trait.items import Params

D, GROUPS, COVARIATES = 4, 2, 2


def places_of(*shapes):
    """Every value is a free number of its own."""
    first, out = 0, []
    for shape in shapes:
        size = int(np.prod(shape))
        out.append(np.arange(first, first + size, dtype=float).reshape(shape))
        first += size
    return out, first


def case(rng, kinds=3, groups=GROUPS, covariates=COVARIATES):
    values = [
        np.stack([rng.uniform(0.5, 2, (groups, D)), rng.normal(size=(groups, D)), rng.normal(-1, 0.5, (groups, D))], -1)
    ]
    values = [values[0][..., :kinds], rng.normal(size=groups), 0.3 * rng.normal(size=groups)]
    values.append(0.5 * rng.normal(size=covariates))
    places, n = places_of(*(v.shape for v in values))
    guessed = np.array([1.0, 1.0, 0.0, 1.0]) if kinds == 3 else np.zeros(D)
    if kinds == 3:  # no asymptote, nothing to learn of it
        places[0][:, 2, 2] = n
    return Params(values[0], guessed, *values[1:], *places, np.zeros(n), np.zeros(n))


def table(rng, n, groups=GROUPS, covariates=COVARIATES, missing=0.2):
    bits = (rng.random((n, D)) < 0.6).astype(float)
    bits[rng.random((n, D)) < missing] = np.nan
    parts = [bits, *([rng.integers(groups, size=(n, 1))] if groups > 1 else []), rng.normal(size=(n, covariates))]
    return np.concatenate(parts, 1)


def twin(params, rows, n_nodes=61):
    """log p of each row, one row and one node after the other."""
    x = np.linspace(-6, 6, n_nodes)
    weight = norm.pdf(x) / norm.pdf(x).sum()
    groups, kinds = params.items.shape[0], params.items.shape[2]
    out = []
    for row in rows:
        g = int(row[D]) if groups > 1 else 0
        mean = params.mean[g] + row[D + (groups > 1) :] @ params.coefficients
        at = []
        for node, w in zip(x, weight):
            theta = mean + np.exp(params.log_sd[g]) * node
            total = np.log(w)
            for j in range(D):
                low = expit(params.items[g, j, 2]) * params.guessed[j] if kinds == 3 else 0.0
                p = low + (1 - low) * expit(params.items[g, j, 0] * theta + params.items[g, j, 1])
                total += 0 if np.isnan(row[j]) else np.log(p if row[j] else 1 - p)
            at.append(total)
        out.append(logsumexp(at))
    return np.array(out)


def batch_of(rows, weight):
    observed = (~np.isnan(rows)).astype(float)
    n = len(rows)
    return Batch(
        jnp.asarray(np.nan_to_num(rows)),
        jnp.asarray(observed),
        jnp.asarray(weight, float),
        jnp.arange(n, dtype=jnp.uint32),
        jax.random.key(0),
    )


def numpy_with(params, free):
    """`items.with_free`, by NumPy."""
    padded, n = np.append(free, np.nan), len(free)
    out = dict(vars(params))
    for name, places in (("items", "item_places"), ("mean", "mean_places"), ("log_sd", "sd_places"),
                         ("coefficients", "coefficient_places")):  # fmt: skip
        at = out[places].astype(int)
        out[name] = np.where(at < n, padded[at], out[name])
    return Params(**out)


SHAPES = [(3, 2, 2), (2, 2, 0), (3, 1, 0), (2, 1, 1)]


@pytest.mark.parametrize(("kinds", "groups", "covariates"), SHAPES)
def test_e_step(kinds, groups, covariates):
    rng = np.random.default_rng(0)
    params, rows = case(rng, kinds, groups, covariates), table(rng, 12, groups, covariates)
    weight = rng.integers(0, 3, 12).astype(float)
    record = items.model()
    e_step = jax.jit(record.e_step)
    with double():
        batch = batch_of(rows, weight)
        on_device = jax.tree.map(jnp.asarray, params)
        stats, _ = e_step(on_device, None, batch, None)
        told = record.log_likelihood(on_device, None, batch)
        free = np.asarray(items.free_of(on_device))
    assert np.allclose(told.value, twin(params, rows), rtol=0, atol=1e-10)
    assert np.all(np.asarray(told.error) < 1e-6)
    assert np.asarray(stats.objective).sum() == pytest.approx(weight @ twin(params, rows), abs=1e-9)

    def total(at):
        return weight @ twin(numpy_with(params, at), rows)

    step = 1e-5 * np.eye(len(free))
    by_differences = np.array([(total(free + h) - total(free - h)) / 2e-5 for h in step])
    assert np.allclose(stats.gradient, by_differences, rtol=0, atol=1e-8)
    assert np.allclose(stats.information, np.asarray(stats.information).T, rtol=0, atol=1e-10)

    def gradient(at):
        with double():
            moved = jax.tree.map(jnp.asarray, numpy_with(params, at))
            return np.asarray(e_step(moved, None, batch, None)[0].gradient)

    bend = -np.array([(gradient(free + h) - gradient(free - h)) / 2e-5 for h in step])
    assert np.allclose(stats.information, bend, rtol=0, atol=1e-7)
    assert np.linalg.eigvalsh(np.asarray(stats.unit)).min() > -1e-9


@pytest.mark.slow
def test_learning_climbs():
    """From far away, with missing bits, weights, groups and guessing; the end is a maximum."""
    rng = np.random.default_rng(1)
    params, rows = case(rng, 3, 2, 1), table(rng, 300, 2, 1)
    n = len(params.prior_mean)
    held = np.full(2, float(n))
    params = Params(**dict(vars(params), mean_places=held, sd_places=held, prior_precision=np.full(n, 0.5)))
    weight = rng.integers(1, 4, 300).astype(float)
    engine = MemoryEngine(rows, weight)
    found = fit(items.model(61, params), engine, seed_key(0), limits=Limits(100, 1e-7, None), dtype=np.float64)
    assert found.reason.converged
    # a step that did not climb is in the history, and taken back
    assert found.objective >= max(one.objective for one in found.history) - 1e-9
    with double():
        at = np.asarray(items.free_of(found.params))
    penalty = lambda x: 0.25 * np.sum((x - params.prior_mean) ** 2)  # noqa: E731
    assert found.objective == pytest.approx(weight @ twin(found.params, rows) - penalty(at), abs=1e-8)
    for i in range(0, n, 5):
        if i in params.item_places.astype(int):
            h = 1e-4 * np.eye(n)[i]
            up, down = (weight @ twin(numpy_with(found.params, x), rows) - penalty(x) for x in (at + h, at - h))
            assert (up - down) / 2e-4 == pytest.approx(0, abs=1e-4)


def test_missing_bits_are_marginalised():
    rng = np.random.default_rng(2)
    params = case(rng, 3, 1, 0)
    row = np.array([[1.0, 0.0, np.nan, 1.0]])
    filled = np.repeat(row, 2, 0)
    filled[:, 2] = [0, 1]
    record = items.model()
    with double():
        on_device = jax.tree.map(jnp.asarray, params)
        value = [
            np.asarray(record.log_likelihood(on_device, None, batch_of(x, np.ones(len(x)))).value)
            for x in (row, filled)
        ]
        guess = np.asarray(record.complete(on_device, None, batch_of(row, np.ones(1))))
    assert logsumexp(value[1]) == pytest.approx(value[0][0], abs=1e-12)
    assert guess[0, 2] == pytest.approx(np.exp(value[1][1] - value[0][0]), abs=1e-12)
