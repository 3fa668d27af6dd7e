"""Binary sparse coding against a slow twin that forms s W for every state."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding_twin as twin
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import binom

from latentbits.core import tree
from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.data import toys
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.summary import summarise
from latentbits.models.binary_sparse_coding import posterior, selection
from latentbits.models.binary_sparse_coding.model import Params, model
from latentbits.models.binary_sparse_coding.probable import probable_states
from latentbits.models.binary_sparse_coding.starts import Starts, evaluation, side_by_side

CASES = [(6, 3, 4, 0.0), (6, 3, 4, 0.3), (5, 5, 5, 0.0), (5, 5, 5, 0.3), (7, 1, 3, 0.2), (5, 2, 2, 0.0)]


def params_of(theta):
    return Params(*(jnp.asarray(x) for x in (theta.components, theta.noise_std, theta.prior, 0.0, 0.0)))


def batch_of(X):
    dtype = np.dtype(np.float64)
    key = jax.random.key(0)
    whole = not np.isnan(X).any()
    return make_batch(jnp.asarray(X), jnp.uint32(0), jnp.uint32(len(X)), key, whole, dtype)


def one_step(m, n_candidates, max_active):
    @jax.jit
    def step(params, batch, progress):
        shared = m.prepare(params, None, progress)
        found = posterior.expectations(params, shared, batch, posterior.state_table(n_candidates, max_active))
        stats, _ = m.e_step(params, shared, batch, None)
        return found, stats, m.update(m.start(params), params, shared, stats, progress)[1]

    return step


@pytest.mark.slow
@pytest.mark.parametrize(("n_causes", "max_active", "n_candidates", "missing"), CASES)
def test_expectations_evidence_and_update_are_those_of_the_twin(n_causes, max_active, n_candidates, missing):
    theta = twin.some_theta(n_causes, 8, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2, missing=missing)
    start = twin.some_theta(n_causes, 8, seed=3, noise_std=1.5)
    start = start._replace(components=theta.components + 0.3 * start.components)
    rows = twin.infer_all(X, start, max_active, n_candidates)
    expected = twin.update(X, rows, start, max_active, np.arange(len(X)))
    m = model(n_causes, max_active, n_candidates, parameter_noise=0.0)
    with tree.double():
        params = params_of(start)
        progress = Progress(*(jnp.asarray(k) for k in (0, 60, 0)), jax.random.key(0))
        found, stats, learned = jax.tree.map(
            np.asarray, one_step(m, n_candidates, max_active)(params, batch_of(X), progress)
        )
    np.testing.assert_allclose(found.log_evidence, [r.log_evidence for r in rows], rtol=1e-11)
    np.testing.assert_allclose(found.means.T, [r.mean for r in rows], atol=1e-11)
    second = stats.ss + stats.ss.T + np.diag(stats.s)
    np.testing.assert_allclose(second, sum(r.second for r in rows), atol=1e-10)
    np.testing.assert_allclose(learned.components, expected.components, atol=1e-8)
    np.testing.assert_allclose(learned.noise_std, expected.noise_std, rtol=1e-9)
    np.testing.assert_allclose(learned.prior, expected.prior, rtol=1e-10)


def test_a_step_at_a_temperature_with_the_rows_above_a_threshold_is_the_twin_s():
    T, n_kept = 3.0, 40
    theta = twin.some_theta(6, 8, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2)
    m = model(6, 3, 4, parameter_noise=0.0, temperature=T)
    rows = twin.infer_all(X, theta, 3, 4, temperature=T)
    evidence = np.array([T * logsumexp(twin.log_joint(y, theta, r.states) / T) for y, r in zip(X, rows)])
    order = np.argsort(-evidence)
    expected = twin.update(X, rows, theta, 3, order[:n_kept])
    between = evidence[order[n_kept - 1 : n_kept + 1]].mean()

    @jax.jit
    def step(params, batch, progress):
        shared = m.prepare(params, None, progress)
        at = jnp.asarray([between]), jnp.asarray([8.0])
        threshold = selection.scores(*at, shared.column, shared.precision)[0]
        shared = eqx.tree_at(lambda s: s.threshold, shared, threshold)
        stats, _ = m.e_step(params, shared, batch, None)
        return stats, m.update(m.start(params), params, shared, stats, progress)[1]

    with tree.double():
        progress = Progress(*(jnp.asarray(k) for k in (0, 60, 0)), jax.random.key(0))
        stats, learned = jax.tree.map(np.asarray, step(params_of(theta), batch_of(X), progress))
    assert stats.used == n_kept
    assert stats.free_energy.sum() == pytest.approx(evidence.sum(), rel=1e-11)
    np.testing.assert_allclose(learned.components, expected.components, atol=1e-8)
    assert learned.noise_std == pytest.approx(expected.noise_std, rel=1e-9)
    assert learned.prior == pytest.approx(expected.prior, rel=1e-10)


def test_an_outlier_does_not_hide_the_others_from_the_histogram():
    rng = np.random.default_rng(0)
    score = rng.normal(size=2000)
    score[0] = -1e10
    with tree.double():
        moments = jnp.asarray(score.mean()), jnp.asarray(score.std())
        where = moments[0], 12 * moments[1]
        for _ in range(6):
            counts = selection.histogram(jnp.asarray(score), jnp.ones(2000), *where)
            before, where = (
                where,
                selection.look_ahead(counts, *where, *moments, jnp.asarray(1.0))[1:],
            )
        kept = np.mean(score >= float(selection.look_ahead(counts, *before, *moments, jnp.asarray(0.7))[0]))
    assert kept == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(("n_causes", "max_active", "n_candidates"), [(5, 2, 3), (4, 4, 4), (4, 1, 1)])
def test_probable_states_are_the_twin_s_in_their_order(n_causes, max_active, n_candidates):
    theta = twin.some_theta(n_causes, 6, seed=4, noise_std=3.0, active=2.0)
    X, _ = twin.draw(theta, 20, seed=5, missing=0.2)
    with tree.double():
        params = params_of(theta)
        states = posterior.state_table(n_candidates, max_active)
        shared = model(n_causes, max_active, n_candidates).prepare(params, None, None)
        found = jax.jit(lambda p, s, b: probable_states(p, s, b, states, 4))(params, shared, batch_of(X))
    for row, states, probabilities in zip(
        twin.infer_all(X, theta, max_active, n_candidates), np.asarray(found.states), np.asarray(found.probabilities)
    ):
        order = np.argsort(-row.probability)[:4]
        np.testing.assert_allclose(probabilities, row.probability[order], atol=1e-12)
        np.testing.assert_array_equal(states, row.states[order])


@pytest.mark.parametrize(("n", "k", "active"), [(10, 3, 2.0), (700, 8, 7.5), (700, 8, 120.0), (4, 4, 1.0), (6, 1, 5.9)])
def test_the_correction_and_the_share_of_rows_are_binomial(n, k, active):
    pi = active / n
    with tree.double():
        share = selection.share_within(jnp.asarray(pi), n, k)
        factor = selection.correction(jnp.asarray(pi), n, k)
    assert float(share) == pytest.approx(binom.cdf(k, n, pi), rel=1e-9)
    # E[number on | at most k], which A pi / B turns into pi
    log_p = binom.logpmf(np.arange(k + 1), n, pi)
    mean = np.arange(k + 1) @ np.exp(log_p - np.logaddexp.reduce(log_p))
    assert float(factor) * mean == pytest.approx(pi, rel=1e-9)


def test_the_threshold_keeps_the_share_that_was_asked_for():
    rng = np.random.default_rng(0)
    evidence = -900 - 40 * rng.gamma(1.0, size=5000)  # skewed, as evidence is; e^-900 is 0
    with tree.double():
        moments = jnp.asarray(evidence.mean()), jnp.asarray(evidence.std())
        args = moments[0], 12 * moments[1]
        counts = selection.histogram(jnp.asarray(evidence), jnp.ones(5000), *args)
        for share in (0.2, 0.66, 0.95):
            kept = np.mean(evidence >= float(selection.look_ahead(counts, *args, *moments, jnp.asarray(share))[0]))
            assert kept == pytest.approx(share, abs=0.005)
        assert float(selection.look_ahead(counts, *args, *moments, jnp.asarray(1.0))[0]) == -np.inf


@pytest.mark.slow
def test_a_component_of_norm_zero_is_nobody_s_candidate():
    with tree.double():
        theta = twin.some_theta(5, 6, seed=1)
        params = params_of(theta._replace(components=theta.components * np.array([1, 1, 0, 1, 1])[:, None]))
        shared = model(5, 2, 3).prepare(params, None, None)
        rows = -jnp.abs(params.components).sum(0)[None] * jnp.ones((4, 1))  # matches nothing well
        found = posterior.expectations(params, shared, batch_of(np.asarray(rows)), posterior.state_table(3, 2))
    assert 2 not in np.asarray(found.candidates)


BARS = model(10, 3, 5, init_scale=2.0, init_sparseness=5.0, parameter_noise=0.05)


def recovered(params, toy):
    """The least cosine between the bars and the components that go with them."""
    W = params.components / np.linalg.norm(params.components, axis=1)[:, None]
    cosine = W @ (toy.components / np.linalg.norm(toy.components, axis=1)[:, None]).T
    return cosine[linear_sum_assignment(-cosine)].min()


def learn(m, toy, **options):
    return fit(m, MemoryEngine(toy.X), seed_key(1), **options).params


@pytest.mark.slow
def test_bars_noise_and_sparseness_are_found():
    toy = toys.linear_bars(1000, random_state=1)
    found = learn(BARS, toy)
    assert recovered(found, toy) > 0.99
    assert float(found.prior) * 10 == pytest.approx(toy.causes.sum(1).mean(), abs=0.06)
    assert float(found.noise_std) == pytest.approx(2, abs=0.1)
    assert float(found.reseeded) == 0


@pytest.mark.slow
def test_ranking_in_a_pass_of_its_own_learns_the_same():
    toy = toys.linear_bars(1000, random_state=1)
    exact = model(10, 3, 5, init_scale=2.0, init_sparseness=5.0, parameter_noise=0.0, ranking="exact")
    result = fit(exact, MemoryEngine(toy.X), seed_key(1))
    noise = [record.watched["noise_std"] for record in result.history]
    assert noise[0] == noise[1] != noise[2] == noise[3] != noise[4]  # every other pass only ranks
    one = result.params
    two = learn(model(10, 3, 5, init_scale=2.0, init_sparseness=5.0, parameter_noise=0.0), toy)
    # a few rows more or less, so the same within a standard error: sigma / sqrt(N pi), and 0.04 of pi H
    np.testing.assert_allclose(one.components, two.components, atol=0.15)
    assert float(one.prior) * 10 == pytest.approx(float(two.prior) * 10, abs=0.04)
    assert float(one.noise_std) == pytest.approx(float(two.noise_std), abs=0.03)


def test_a_cause_that_no_row_uses_gets_a_new_start():
    toy = toys.linear_bars(1000, random_state=1)
    W = toy.components + np.random.default_rng(0).normal(size=toy.components.shape)
    W[3] = 1e3  # far from every row
    with tree.double():
        start = params_of(twin.Theta(W, 2.5, 0.2))
    found = learn(BARS, toy, params=start)
    assert float(found.reseeded) >= 1
    assert recovered(found, toy) > 0.99


def test_a_cause_that_no_row_uses_may_be_left_alone():
    toy = toys.linear_bars(200, random_state=1)
    W = toy.components.copy()
    W[3] = 1e3  # far from every row
    with tree.double():
        start = params_of(twin.Theta(W, 2.5, 0.2))
    left = learn(model(10, 3, 5, n_iter=3, cut=None, parameter_noise=0.0, renew=False), toy, params=start)
    assert float(left.reseeded) == 0
    np.testing.assert_array_equal(left.components[3], W[3])
    assert np.abs(left.components[4] - W[4]).max() > 0.01  # the others learn


def test_without_new_starts_a_rare_cause_is_learned_by_the_same_equation():
    """A cause that is expected in less than half a row keeps its component by default; eq. (6) says otherwise."""
    rng = np.random.default_rng(0)
    W = np.array([[4.0, 0, 0, 0], [0, 4.0, 0, 0]])
    X = (rng.random((40, 1)) < 0.5) * W[0] + 0.5 * rng.normal(size=(40, 4))
    theta = twin.Theta(W, 1.2, 0.25)
    with tree.double():
        start = params_of(theta)
    rows = twin.infer_all(X, theta, None, None)
    assert 1e-6 < sum(row.mean[1] for row in rows) < 0.5
    right = twin.update(X, rows, theta, None, np.arange(len(X)))
    settings = {"n_iter": 1, "cut": None, "parameter_noise": 0.0}
    plain = fit(model(2, 2, 2, renew=False, **settings), MemoryEngine(X), seed_key(1), params=start).params
    np.testing.assert_allclose(plain.components, right.components, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("ranking", ["previous", pytest.param("exact", marks=pytest.mark.slow)])
def test_noise_to_start_with(ranking):
    toy = toys.linear_bars(100, random_state=3)
    X = toy.X + 5.0
    settings = {"init_scale": 2.0, "init_sparseness": 2.0, "n_iter": 3, "ranking": ranking, "parameter_noise": 0.0}
    started = {}
    for kind in ("rms", "std", "residual"):
        m = model(10, 3, 5, init_noise=kind, **settings)
        course = fit(m, MemoryEngine(X), seed_key(1)).history
        started[kind] = [float(one.watched["noise_std"]) for one in course]
    spread = np.sqrt(X.var(0).mean())
    np.testing.assert_allclose(started["rms"][0], np.sqrt(np.mean(X**2)), rtol=1e-5)
    np.testing.assert_allclose([started["std"][0], started["residual"][0]], spread, rtol=1e-5)
    # equation (7) with the first components, on all rows, and nothing else is learned before
    with tree.double():
        first = model(10, 3, 5, init_noise="std", **settings).init(seed_key(1), summarise(MemoryEngine(X)))
    W = fit(model(10, 3, 5, **{**settings, "n_iter": 0}, init_noise="std"), MemoryEngine(X), seed_key(1)).params
    theta = twin.Theta(np.asarray(W.components, float), float(first.noise_std), 0.2)
    rows = twin.infer_all(X, theta, 3, 5)
    left = sum(r.probability @ ((y - r.states @ theta.components) ** 2).sum(1) for y, r in zip(X, rows, strict=True))
    np.testing.assert_allclose(started["residual"][1], np.sqrt(left / X.size), rtol=1e-4)


@pytest.mark.slow
def test_equal_components_part():
    toy = toys.linear_bars(1000, random_state=1)
    same = model(10, 3, 5, init="mean", init_scale=0.0, init_sparseness=5.0)
    with tree.double():
        summary = summarise(MemoryEngine(toy.X))
        assert np.ptp(np.asarray(same.init(seed_key(0), summary).components), axis=0).max() == 0
    found = learn(same, toy)
    apart = np.linalg.norm(found.components[:, None] - found.components[None], axis=2) + 99 * np.eye(10)
    assert apart.min() > 1


@pytest.mark.slow
def test_more_causes_than_gamma_do_not_end_in_no_rows():
    """With pi H above gamma the paper's N_cut goes to 0; here a share of the rows is always learned from."""
    toy = toys.linear_bars(500, active=6.0, random_state=2)
    crowded = model(10, 2, 4, init_sparseness=9.5, cut=(0, 0), n_iter=20)
    counted = crowded._replace(watch=lambda p: {"prior": p.prior}, objective=lambda p, s, t: t.used / t.n_rows)
    result = fit(counted, MemoryEngine(toy.X), seed_key(0))
    shares = [record.objective for record in result.history if record.stage == "truncated EM"]
    expected = [binom.cdf(2, 10, record.watched["prior"]) for record in result.history]
    assert min(expected) < 0.05  # the paper's share
    assert min(shares) > 0.1
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.params))
    assert float(result.params.noise_std) > 0.1


def test_noise_on_the_components_ends_before_learning_does():
    theta = twin.some_theta(6, 8, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2)
    m = model(6, 3, 4)

    @jax.jit
    def step(params, batch, progress):
        shared = m.prepare(params, None, progress)
        stats, _ = m.e_step(params, shared, batch, None)
        return m.update(m.start(params), params, shared, stats, progress)[1].components

    with tree.double():
        for iteration, differ in ((0, True), (59, False)):
            clock = [jnp.asarray(k) for k in (iteration, 60, iteration)]
            one, two = (step(params_of(theta), batch_of(X), Progress(*clock, jax.random.key(k))) for k in (0, 1))
            assert bool((one != two).any()) == differ


def test_a_pass_that_leaves_no_row_to_learn_from_changes_nothing():
    """The threshold is that of the pass before: when the parameters leap, every row may be below it."""
    theta = twin.some_theta(6, 8, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2)
    m = model(6, 3, 4, parameter_noise=0.0)

    @jax.jit
    def step(params, batch, progress):
        shared = eqx.tree_at(lambda s: s.threshold, m.prepare(params, None, progress), jnp.asarray(jnp.inf))
        stats, _ = m.e_step(params, shared, batch, None)
        return stats.used, m.update(m.start(params), params, shared, stats, progress)[1]

    with tree.double():
        progress = Progress(*(jnp.asarray(k) for k in (30, 60, 30)), jax.random.key(0))
        used, learned = step(params_of(theta), batch_of(X), progress)
    assert float(used) == 0
    np.testing.assert_array_equal(learned.components, theta.components)
    assert float(learned.noise_std) == theta.noise_std


def test_fewer_rows_than_causes_are_learned_without_a_nan():
    """sum <s s'> has then no inverse, and in float32 may be a little indefinite."""
    toy = toys.linear_bars(6, random_state=0)
    result = fit(BARS, MemoryEngine(toy.X), seed_key(2))
    assert np.isfinite(result.objective)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.params))


@pytest.mark.slow
def test_starts_side_by_side_learn_what_each_learns_alone():
    """Without random numbers in the updates, and with one start that has failed."""
    X = twin.draw(twin.some_theta(4, 6, seed=1, active=1.5), 60, seed=2)[0]
    one, engine, n = model(4, 2, 3, n_iter=5, parameter_noise=0.0), MemoryEngine(X), 3
    with tree.double():
        begun = [params_of(twin.some_theta(4, 6, seed=i, noise_std=2.0)) for i in range(n)]
        begun[1] = eqx.tree_at(lambda p: p.noise_std, begun[1], jnp.asarray(jnp.nan))
        starts = Starts(jax.tree.map(lambda *x: jnp.stack(x), *begun), jnp.zeros(n))
    several = side_by_side(one, n, 7)
    found = fit(several, engine, seed_key(0), params=starts, dtype=np.float64)
    for i in (0, 2):
        alone = fit(one, engine, seed_key(1), params=begun[i], dtype=np.float64)
        for ours, theirs in zip(jax.tree.leaves(found.params.one(i)), jax.tree.leaves(alone.params), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8)
        last = fit(evaluation(several, i), engine, seed_key(0), params=found.params, dtype=np.float64)
        assert last.objective == pytest.approx(alone.objective)
        told = [record.watched["values"][i] for record in found.history[1:]]
        assert told == pytest.approx([record.objective for record in alone.history[:4]])
    assert np.isnan(found.params.values[1])
