from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import bits

from latentbits.core.tree import double
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models import mixture, product


def reference_em(table, weights, means, n_iter, smoothing=0.0):
    """Plain EM in float64, bit by bit and in log space; missing bits are NaN."""
    X = np.where(table == 255, np.nan, table.astype(float))
    seen = ~np.isnan(X)
    base = (np.nansum(X, 0) + smoothing / 2) / (seen.sum(0) + smoothing)
    history = []
    for _ in range(n_iter + 1):
        term = np.where(X[:, None] == 1, np.log(means), np.log1p(-means))
        joint = np.where(seen[:, None], term, 0).sum(2) + np.log(weights)
        total = np.logaddexp.reduce(joint, axis=1)
        prior = smoothing * (np.log(weights).sum() + (base * np.log(means) + (1 - base) * np.log1p(-means)).sum())
        history.append(total.sum() + prior)
        r = np.exp(joint - total[:, None])
        if len(history) <= n_iter:
            weights = (r.sum(0) + smoothing) / (len(X) + smoothing * len(weights))
            means = (r.T @ np.nan_to_num(X) + smoothing * base) / (r.T @ seen + smoothing)
    return weights, means, np.array(history)


@pytest.mark.parametrize(("missing", "smoothing"), [(0, 0.0), (0, 2.0), (0.3, 0.0), (0.3, 1.5)])
def test_em_against_plain_em(missing, smoothing):
    table = bits(n=400, d=7, k=3, missing=missing)
    rng = np.random.default_rng(0)
    start = mixture.Params(jnp.asarray([0.2, 0.3, 0.5]), jnp.asarray(rng.uniform(0.2, 0.8, (3, 7))))
    with double():
        start = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, float)), start)
    result = fit(
        mixture.model(3, smoothing),
        MemoryEngine(table),
        seed_key(0),
        params=start,
        dtype="float64",
        limits=Limits(15, -np.inf),
        memory_budget=2**12,
    )
    weights, means, history = reference_em(table, np.asarray(start.weights), np.asarray(start.means), 15, smoothing)
    np.testing.assert_allclose([r.objective for r in result.history], history, rtol=1e-12)
    np.testing.assert_allclose(result.params.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(result.params.means, means, rtol=1e-9)


def test_float32_objective_is_close_to_float64():
    table = bits(n=3000, d=40, k=5)
    one, two = (
        fit(mixture.model(5), MemoryEngine(table), seed_key(0), dtype=d, limits=Limits(20, -np.inf))
        for d in ("float32", "float64")
    )
    assert one.objective == pytest.approx(two.objective, rel=1e-5)


@pytest.mark.slow
def test_sampling_then_fitting_recovers_the_parameters():
    """5 standard errors of each parameter, from the counts that its component would have if labels were known."""
    truth = mixture.Params(
        jnp.asarray([0.5, 0.3, 0.2]), jnp.asarray(np.random.default_rng(4).choice([0.1, 0.25, 0.8, 0.9], (3, 20)))
    )
    n = 20000
    keys = jax.random.split(seed_key(9), n)
    shared = mixture.model(3).prepare(truth, None, None)
    table = np.asarray(mixture.model(3).sample(truth, shared, keys)).astype(np.uint8)
    got = fit(mixture.model(3), MemoryEngine(table), seed_key(0), n_init=4, limits=Limits(500, 1e-7)).params
    order = [int(np.argmin(np.abs(got.means - m).sum(1))) for m in np.asarray(truth.means)]
    assert sorted(order) == [0, 1, 2]
    members = n * np.asarray(truth.weights)
    error = np.sqrt(np.asarray(truth.means) * (1 - np.asarray(truth.means)) / members[:, None])
    assert np.all(np.abs(got.means[order] - np.asarray(truth.means)) < 5 * error)
    assert np.all(np.abs(got.weights[order] - np.asarray(truth.weights)) < 5 * np.sqrt(0.25 / n))


def test_the_split_schedule_is_the_paper_s():
    assert mixture.split_sizes(45) == (1, 2, 4, 8, 16, 32, 45)
    assert mixture.split_sizes(1) == (1,)
    assert mixture.split_sizes(4) == (1, 2, 4)


def test_only_the_first_components_are_split():
    means = np.linspace(0.1, 0.9, 12).reshape(4, 3)
    params = mixture.Params(jnp.asarray([0.4, 0.3, 0.2, 0.1]), jnp.asarray(means))
    grown = mixture.split(jax.random.key(0), params, 6)
    np.testing.assert_allclose(grown.weights, [0.2, 0.15, 0.2, 0.1, 0.2, 0.15], rtol=1e-6)
    np.testing.assert_allclose(grown.means[2:4], means[2:], rtol=1e-6)
    for new, old in ((0, 0), (4, 0), (1, 1), (5, 1)):
        assert 0 < np.abs(grown.means[new] - means[old]).max() < 0.5
    assert np.abs(grown.means[0] - grown.means[4]).max() > 0


def test_a_component_that_owns_nothing_stays_put():
    table = np.zeros((50, 3), np.uint8)
    with double():
        start = mixture.Params(jnp.asarray([1.0, 0.0]), jnp.asarray([[0.1] * 3, [0.999] * 3]))
    result = fit(mixture.model(2), MemoryEngine(table), seed_key(0), params=start, limits=Limits(5, -np.inf))
    assert np.isfinite(result.params.means).all()
    assert result.objective == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("model", [mixture.model(4, 1.0), product.model(1.0)], ids=lambda m: m.name)
def test_which_value_is_called_one_does_not_matter(model):
    """Rare bits and their complements give the same fit, in float32 too: nothing cancels."""
    rng = np.random.default_rng(0)
    rare = (rng.random((400, 784)) < rng.beta(0.1, 4, (4, 784))[rng.integers(4, size=400)]).astype(np.uint8)
    with double():
        start = mixture.Params(jnp.full(4, 0.25), jnp.asarray(rng.uniform(0.1, 0.4, (4, 784))))
        flipped = mixture.Params(start.weights, 1 - start.means)
    if model.name == "Bernoulli product":
        start = flipped = None
    one, other = (
        fit(model, MemoryEngine(table), seed_key(0), params=params, limits=Limits(100, 1e-6))
        for table, params in ((rare, start), (1 - rare, flipped))
    )
    assert one.n_iter == other.n_iter
    assert one.objective == pytest.approx(other.objective, rel=1e-6)
    np.testing.assert_allclose(one.params.means, 1 - other.params.means, atol=1e-4)
    exact = fit(model, MemoryEngine(1 - rare), seed_key(0), params=flipped, limits=Limits(100, 1e-6), dtype="float64")
    assert exact.objective == pytest.approx(other.objective, rel=1e-6)


def test_given_parameters_may_be_float32():
    table = bits(k=2)
    start = mixture.Params(jnp.full(2, 0.5), jnp.linspace(0, 1, 12).reshape(2, 6))
    assert start.means.dtype == np.float32
    for init in ("random", "split"):
        result = fit(mixture.model(2, 0.0, init), MemoryEngine(table), seed_key(0), params=start)
        assert result.params.means.dtype == np.float64
