from __future__ import annotations

from itertools import product as every

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import bits
from sklearn.datasets import load_digits

from latentbits import BernoulliMixture, load
from latentbits.core.batch import make_batch
from latentbits.core.tree import double
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models import product
from latentbits.models.mixture import coordinates, newton, smoothing, starts
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
@pytest.mark.optimised
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
@pytest.mark.optimised
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


# ---------------------------------------------------------------- annealing, and a strength that the data choose


def annealed_em(table, weights, means, strength):
    """EM with responsibilities to the power of beta, bit by bit; and the objectives on its way, at beta = 1."""
    X = np.where(table == 255, np.nan, table.astype(float))
    seen = ~np.isnan(X)
    base = (np.nansum(X, 0) + strength / 2) / (seen.sum(0) + strength)
    history = []
    for i in range(mixture.ANNEALING):
        beta = mixture.WARMEST + (1 - mixture.WARMEST) * i / mixture.ANNEALING
        joint = np.where(seen[:, None], np.where(X[:, None] == 1, means, 1 - means), 1).prod(2) * weights
        prior = np.log(weights).sum() + (base * np.log(means) + (1 - base) * np.log1p(-means)).sum()
        history.append(np.log(joint.sum(1)).sum() + strength * prior)
        r = joint**beta / (joint**beta).sum(1, keepdims=True)
        weights = (r.sum(0) + strength) / (len(X) + strength * len(weights))
        means = (r.T @ np.nan_to_num(X) + strength * base) / (r.T @ seen + strength)
    return weights, means, history


@pytest.mark.parametrize("missing", [0, 0.3])
def test_annealing_against_tempered_posteriors(missing):
    table = bits(n=200, d=5, k=3, missing=missing)
    with double():
        means = np.random.default_rng(0).uniform(0.2, 0.8, (3, 5))
        start = mixture.Params(jnp.asarray([0.2, 0.3, 0.5]), jnp.asarray(means))
    m = mixture.model(3, 0.5, "anneal")
    only = m._replace(stages=m.stages[:1])
    found = fit(only, MemoryEngine(table), seed_key(0), params=start, dtype="float64", memory_budget=2**12)
    weights, means, history = annealed_em(table, np.asarray(start.weights), np.asarray(start.means), 0.5)
    np.testing.assert_allclose([r.objective for r in found.history], history, rtol=1e-10)
    np.testing.assert_allclose(found.params.weights, weights, rtol=1e-9)
    np.testing.assert_allclose(found.params.means, means, rtol=1e-9)


def test_after_annealing_em_climbs():
    m, table = mixture.model(4, 1.0, "anneal", accelerate=False), bits(n=200, d=6, k=3)
    limits = Limits(40, -np.inf)
    one, two = (fit(m, MemoryEngine(table), seed_key(3), dtype="float64", limits=limits, n_init=2) for _ in range(2))
    climb = np.array([r.objective for r in one.history if r.stage == "EM"])
    assert len(climb) == 41
    assert np.diff(climb).min() >= -1e-12 * abs(climb[0])
    assert [r.objective for r in one.history] == [r.objective for r in two.history]
    np.testing.assert_array_equal(one.params.means, two.params.means)


def counts_of(table, labels, k):
    of = np.eye(k)[labels]
    ones, n = of.T @ table, of.sum(0)
    return coordinates.Counts(jnp.asarray(n), jnp.asarray(ones), jnp.asarray(np.repeat(n[:, None], table.shape[1], 1)))


def urns(table, labels, k, mean, strength):
    """log P(rows and their components), one after the other, each given those before it."""
    total, n, ones = 0.0, np.zeros(k), np.zeros((k, table.shape[1]))
    for i, (row, c) in enumerate(zip(table, labels)):
        p = (ones[c] + strength * mean) / (n[c] + strength)
        total += np.log((n[c] + strength) / (i + k * strength)) + np.log(np.where(row, p, 1 - p)).sum()
        n[c] += 1
        ones[c] += row
    return total


def bound_at(k, table, weights, means, strength):
    """What the stage of the evidence says of parameters."""
    m = mixture.model(k, "auto")
    evidence = next(stage for stage in m.stages if stage.name == "evidence").objective
    raw, n = jnp.asarray(table.astype(np.uint8)), jnp.uint32(len(table))
    batch = make_batch(raw, jnp.uint32(0), n, jax.random.key(0), True, np.dtype(float))
    params = smoothing.Smoothed(jnp.asarray(weights), jnp.asarray(means), jnp.asarray(strength))
    shared = m.prepare(params, None, None)
    stats, _ = m.e_step(params, shared, batch, None)
    return float(evidence(params, shared, stats))


@pytest.mark.slow
def test_evidence_against_urns_and_its_bound_against_all_assignments():
    rng = np.random.default_rng(5)
    table = (rng.random((7, 3)) < 0.4).astype(float)
    k, strength, labels = 2, 0.7, rng.integers(2, size=7)
    with double():
        owned = counts_of(table, labels, k)
        mean = np.asarray(mixture.column_means(owned, strength))
        told = float(smoothing.log_evidence(strength, owned, jnp.asarray(mean)))
        bounds = [
            bound_at(k, table, [0.4, 0.6], np.clip(mean + spread * rng.normal(size=(k, 3)), 0.05, 0.95), strength)
            for spread in (1e-9, 0.1, 0.3)
        ]
        alone = bound_at(1, table, [1.0], mean[None], strength)
    assert told == pytest.approx(urns(table, labels, k, mean, strength), rel=1e-12)
    exact = np.logaddexp.reduce([urns(table, one, k, mean, strength) for one in every(range(k), repeat=7)])
    assert max(bounds) < exact
    assert min(bounds) > exact - 5
    # of one component there is nothing to be unsure of
    assert alone == pytest.approx(urns(table, [0] * 7, 1, mean, strength), rel=1e-10)


@pytest.mark.parametrize("begin", [0.05, 50.0])
@pytest.mark.parametrize("truth", [0.5, pytest.param(6.0, marks=pytest.mark.slow)])
def test_the_strength_is_the_most_probable_one(begin, truth):
    rng = np.random.default_rng(1)
    mean = rng.uniform(0.1, 0.6, 12)
    n = rng.integers(0, 60, 80)
    ones = rng.binomial(n[:, None], rng.beta(truth * mean, truth * (1 - mean), (80, 12)))
    with double():
        mean, observed = jnp.asarray(mean), jnp.asarray(np.repeat(n[:, None], 12, 1).astype(float))
        # the bits alone choose: without members, weights have no say in the evidence
        owned = coordinates.Counts(jnp.zeros(80), jnp.asarray(ones.astype(float)), observed)
        found = begin
        for _ in range(4):
            found = float(smoothing.most_probable(found, owned, mean))
        below, at, above = (float(smoothing.log_evidence(found * f, owned, mean)) for f in (0.98, 1, 1.02))
    assert at > max(below, above)
    assert found == pytest.approx(truth, rel=0.25)


def test_components_that_are_alike_are_smoothed_more():
    rng = np.random.default_rng(2)
    which = rng.integers(4, size=600)
    near, far = ((rng.random((600, 10)) < rng.beta(s / 2, s / 2, (4, 10))[which]).astype(np.uint8) for s in (40.0, 0.6))
    strengths = [
        BernoulliMixture(4, smoothing="auto", random_state=0, n_init=1).fit(table).smoothing_ for table in (near, far)
    ]
    assert strengths[0] > 3 * strengths[1]


def test_a_chosen_strength_is_kept_and_told(tmp_path):
    table = bits(n=300, d=6, k=3)
    m, again = (
        BernoulliMixture(3, smoothing="auto", init="anneal", random_state=0, n_init=2).fit(table) for _ in range(2)
    )
    assert m.smoothing_ == again.smoothing_ != mixture.BEGIN
    np.testing.assert_array_equal(m.means_, again.means_)
    np.testing.assert_array_equal(m.weights_, np.sort(m.weights_)[::-1])
    m.save(tmp_path / "m.safetensors")
    read = load(tmp_path / "m.safetensors")
    assert read.smoothing_ == m.smoothing_
    assert read.score(table) == m.score(table)
    with pytest.raises(ValueError, match=f"smoothing={m.smoothing_:g} keeps"):
        m.criteria(table)


@pytest.mark.parametrize("options", [{"smoothing": "auto"}, {"init": "anneal"}, {"init": "split"}])
def test_what_does_not_go_with_covariates_is_refused(options):
    with pytest.raises(ValueError, match="with covariates"):
        BernoulliMixture(2, **options).fit(bits(n=30), covariates=np.arange(30.0))


def test_annealing_does_not_choose_a_strength_while_all_components_are_alike():
    rng = np.random.default_rng(0)
    causes = rng.random((200, 3)) < 0.4
    weights = 2 * np.random.default_rng(99).normal(size=(3, 7))
    X = rng.random((200, 7)) < 1 / (1 + np.exp(0.5 - causes @ weights))
    m = BernoulliMixture(6, init="anneal", smoothing="auto", random_state=0, n_init=1).fit(X)
    assert m.smoothing_ < 20
    assert np.ptp(m.means_, axis=0).max() > 0.3
