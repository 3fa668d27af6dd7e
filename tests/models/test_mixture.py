from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import bits
from sklearn.datasets import load_digits

from latentbits import BernoulliMixture
from latentbits.core.batch import make_batch
from latentbits.core.tree import double
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models import product
from latentbits.models.mixture import coordinates, newton, starts
from latentbits.models.mixture import model as mixture


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
        mixture.model(3, smoothing, accelerate=False),
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
        fit(mixture.model(5, accelerate=False), MemoryEngine(table), seed_key(0), dtype=d, limits=Limits(20, -np.inf))
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
    assert starts.split_sizes(45) == (1, 2, 4, 8, 16, 32, 45)
    assert starts.split_sizes(1) == (1,)
    assert starts.split_sizes(4) == (1, 2, 4)


def test_components_whose_rows_differ_most_are_split():
    means = np.array([[0.1, 0.1, 0.1], [0.5, 0.4, 0.6], [0.5, 0.5, 0.5], [0.9, 0.9, 0.9]])
    params = mixture.Params(jnp.asarray([0.4, 0.3, 0.2, 0.1]), jnp.asarray(means))
    grown = starts.split(jax.random.key(0), params, 6)
    np.testing.assert_allclose(grown.weights, [0.4, 0.15, 0.1, 0.1, 0.15, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(grown.means)[[0, 3]], means[[0, 3]], rtol=1e-6)
    for new, old in ((1, 1), (4, 1), (2, 2), (5, 2)):
        assert 0 < np.abs(grown.means[new] - means[old]).max() < 0.5
    assert np.abs(grown.means[1] - grown.means[4]).max() > 0


# ---------------------------------------------------------------- arriving


def log_likelihood_at(at, X, shape):
    """Of coordinates, as a plain sum over rows; NaN is missing."""
    params = coordinates.params_at(at.reshape(shape))
    one, zero = jnp.log(params.means), jnp.log1p(-params.means)
    terms = jnp.where(jnp.isnan(X)[:, None], 0, jnp.where(X[:, None] == 1, one, zero))
    return jnp.sum(jax.nn.logsumexp(terms.sum(2) + jnp.log(params.weights), axis=1))


@pytest.mark.parametrize("missing", [0, 0.3])
def test_gradient_and_information_against_automatic_derivatives(missing):
    table = bits(n=60, d=4, k=3, missing=missing)
    X = np.where(table == 255, np.nan, table.astype(float))
    rng = np.random.default_rng(1)
    with double():
        params = mixture.Params(jnp.asarray([0.2, 0.3, 0.5]), jnp.asarray(rng.uniform(0.1, 0.9, (3, 4))))
        m = mixture.model(3, by_newton=True)
        first, n = jnp.uint32(0), jnp.uint32(60)
        batch = make_batch(jnp.asarray(table), first, n, jax.random.key(0), False, np.dtype(float))
        stats, _ = jax.jit(m.stages[-1].e_step)(params, m.prepare(params, None, None), batch, None)
        at = coordinates.of(params)
        slope = jax.jit(jax.grad(log_likelihood_at), static_argnums=2)(at.ravel(), X, at.shape)
        bend = -jax.jit(jax.hessian(log_likelihood_at), static_argnums=2)(at.ravel(), X, at.shape)
        np.testing.assert_allclose(coordinates.gradient(params, stats.owned).ravel(), slope, rtol=1e-9, atol=1e-9)
        information, bend = np.asarray(newton.complete(params, stats.owned) - stats.missing), np.asarray(bend)
    # all weights together make no difference: that direction has the number of rows for its information
    radial = np.zeros(at.shape)
    radial[:, 0] = np.asarray(at)[:, 0] / 2
    radial = radial.ravel()
    np.testing.assert_allclose(information, bend + 60 * np.outer(radial, radial), rtol=1e-7, atol=1e-7)


def plain_em(table, params, n_iter):
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    w, m = params.weights, np.clip(params.means, 1e-15, 1 - 1e-15)
    for _ in range(n_iter):
        joint = patterns @ np.log(m).T + (1 - patterns) @ np.log1p(-m).T + np.log(w)
        total = np.logaddexp.reduce(joint, axis=1)
        share = np.exp(joint - total[:, None]) * counts[:, None]
        w = np.maximum(share.sum(0) / len(table), 1e-15)
        m = np.clip(share.T @ patterns / np.maximum(share.sum(0), 1e-300)[:, None], 1e-15, 1 - 1e-15)
    return float(counts @ total)


def three_ratings(seed):
    """Five raters who agree by degrees: classes that EM tells apart in thousands of iterations, past saddle points."""
    rng = np.random.default_rng(seed)
    means = np.stack([rng.uniform(0.4, 0.95, 5), rng.uniform(0.1, 0.6, 5), rng.uniform(0.005, 0.08, 5)])
    which = rng.choice(3, 3869, p=[0.073, 0.21, 0.717])
    return (rng.random((3869, 5)) < means[which]).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_mixture_arrives_and_tells_what_is_left(seed):
    """Three thousand more iterations of EM gain nothing to speak of, and what they gain was told."""
    table = three_ratings(seed)
    ends = [BernoulliMixture(3, smoothing=0, random_state=s).fit(table) for s in range(3)]
    for m in ends:
        assert m.converged_
        assert m.dtype_ == "float64"
        assert m.left_to_gain_ < 1e-7 * len(table)
        more = plain_em(table, m.params_, 3000) - m.objective_
        assert more < 0.002
        assert more == pytest.approx(m.left_to_gain_, abs=3e-4)
    assert np.ptp([m.objective_ for m in ends]) < 0.005


@pytest.mark.slow
def test_large_mixtures_arrive_too():
    """By secants alone: thousands of iterations of EM more gain less than a thousandth of a nat a hundred rows."""
    X = (load_digits().data > 7.5).astype(np.uint8)
    m = BernoulliMixture(8, random_state=0).fit(X)
    assert m.converged_
    assert newton.MOST_PARAMETERS < 8 * 65
    start = m.params_
    more = fit(
        mixture.model(8, 1.0, accelerate=False),
        MemoryEngine(X),
        seed_key(0),
        params=start,
        dtype="float64",
        limits=Limits(400, -np.inf),
    )
    assert more.objective - m.objective_ < 0.005


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


def test_a_mean_of_one_is_as_good_as_one_of_zero_in_float32():
    """Newton's information is of logarithms: 1 - m has no digits left in float32."""
    rng = np.random.default_rng(0)
    means = np.array([[0.2, 0.7, 0.3, 0.6, 0.1, 1.0], [0.8, 0.2, 0.6, 0.3, 0.7, 0.4]])
    X = (rng.random((600, 6)) < means[rng.integers(2, size=600)]).astype(np.uint8)
    ends = [
        BernoulliMixture(2, smoothing=0, dtype="float32", n_init=2, random_state=0).fit(table) for table in (X, 1 - X)
    ]
    assert all(end.converged_ for end in ends)
    assert ends[0].objective_ == pytest.approx(ends[1].objective_, abs=1e-3)
