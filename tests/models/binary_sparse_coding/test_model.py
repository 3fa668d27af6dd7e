"""Binary sparse coding as it learns: starts, causes that no row uses, and what is found."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom

from latentbits.core import keys, tree
from latentbits.core.arrays import namespace, on_device
from latentbits.core.model import Progress, Summary
from latentbits.data import toys
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.summary import summarise
from latentbits.models.binary_sparse_coding.equations import Theta
from latentbits.models.binary_sparse_coding.initialisation import Starts, Sums, evaluation, side_by_side
from latentbits.models.binary_sparse_coding.model import Params, model
from latentbits.models.binary_sparse_coding.recipes import OURS
from latentbits.models.binary_sparse_coding.statistics import Stats

PLAIN = OURS._replace(temperature=1.0, cut=(20, 40))
START = PLAIN._replace(init_scale=2.0, init_sparseness=5.0, parameter_noise=0.05)
BARS = model(10, 3, 5, START)


def params_of(theta):
    with tree.double():
        return Params(*(jnp.asarray(x) for x in (theta.W.T, theta.sigma, theta.pi, 0.0, 0.0)))


def recovered(params, toy):
    """The least cosine between the bars and the components that go with them."""
    W = params.components / np.linalg.norm(params.components, axis=1)[:, None]
    cosine = W @ (toy.components / np.linalg.norm(toy.components, axis=1)[:, None]).T
    return cosine[linear_sum_assignment(-cosine)].min()


def learn(m, toy, **options):
    return fit(m, MemoryEngine(toy.X), seed_key(1), **options).params


def test_a_cause_that_no_row_uses_gets_a_new_start():
    toy = toys.linear_bars(500, random_state=1)
    W = toy.components + np.random.default_rng(0).normal(size=toy.components.shape)
    W[3] = 1e3  # far from every row
    found = learn(BARS, toy, params=params_of(Theta(W.T, 2.5, 0.2)))
    assert float(found.reseeded) >= 1
    assert recovered(found, toy) > 0.99


def test_noise_to_start_with():
    X = toys.linear_bars(100, random_state=3).X + 5.0
    expected = {"rms": np.sqrt(np.mean(X**2)), "std": np.sqrt(X.var(0).mean())}
    with tree.double():
        summary = summarise(MemoryEngine(X))
        for kind, sigma in expected.items():
            first = jax.jit(model(10, 3, 5, PLAIN._replace(init_noise=kind)).init)(seed_key(1), summary)
            np.testing.assert_allclose(first.noise_std, sigma, rtol=1e-5)


def test_fewer_rows_than_causes_are_learned_without_a_nan():
    """sum <s s'> has then no inverse, and in float32 may be a little indefinite."""
    toy = toys.linear_bars(6, random_state=0)
    result = fit(BARS, MemoryEngine(toy.X), seed_key(2))
    assert np.isfinite(result.objective)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.params))


def some_stats(n_causes, n_columns, seed):
    """Sums over rows whose states are known; no row uses the second cause."""
    rng = np.random.default_rng(seed)
    S, Y = rng.integers(0, 2, (50, n_causes)), rng.normal(size=(50, n_columns))
    S[:, 1] = 0
    score = rng.normal(size=50)
    pairs = np.array([score.sum(), 0.0]), np.array([np.sum(score**2), 0.0])
    counts = np.histogram(score, 512, (-3, 3))[0]
    squares = np.array([np.sum(Y**2), 0.0])
    sums = S.sum(0), np.triu(S.T @ S, 1), S.T @ Y, Y[:16]
    return Stats(*(np.asarray(x, float) for x in (50, pairs[0], *pairs, counts, 50, squares, 2, 3, *sums)))


def test_updates_on_the_host_are_those_of_a_program():
    """One start, three side by side, and exact EM."""
    one, settler = (model(4, 2, 3, OURS._replace(init="data"), settling=settling) for settling in (False, True))
    several, each = side_by_side(one, 3, 7), [some_stats(4, 6, seed) for seed in range(3)]
    sums = Sums(np.asarray(50.0), jax.tree.map(lambda *x: np.stack(x), *each))
    rng = np.random.default_rng(0)
    sample = rng.normal(size=(16, 6))
    summary = Summary(
        np.asarray(50.0), sample.mean(0), sample.var(0), np.full(6, 50.0), sample, np.ones((16, 6), np.uint8)
    )

    def steps(key, summary, stats, sums):
        found = []
        for m, total in ((one, stats), (several, sums), (settler.acting_in(settler.stages[0]), stats)):
            params = m.init(key, summary)
            state, count = m.start(params), namespace(summary).asarray
            for step in range(2):
                progress = Progress(count(30 + step), count(60), count(step), key)
                shared = m.prepare(params, state, progress)
                value = m.objective(params, shared, total)
                state, params = m.update(state, params, shared, total, progress)
                found.append((state, params, shared, value, m.watch(params)))
        return found

    key = keys.of_seed(3)
    with tree.double():
        ours = steps(key, summary, each[0], sums)
        theirs = jax.jit(steps)(keys.typed(key), summary, each[0], sums)
    assert not on_device(ours)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
        assert a.dtype == b.dtype


@pytest.mark.slow("fits of bars from nothing, by either ranking")
def test_bars_noise_and_sparseness_are_found():
    toy = toys.linear_bars(1000, random_state=1)
    found = learn(BARS, toy)
    assert recovered(found, toy) > 0.99
    assert float(found.prior) * 10 == pytest.approx(toy.causes.sum(1).mean(), abs=0.06)
    assert float(found.noise_std) == pytest.approx(2, abs=0.1)
    assert float(found.reseeded) == 0
    quiet = START._replace(parameter_noise=0.0)
    result = fit(model(10, 3, 5, quiet._replace(ranking="exact")), MemoryEngine(toy.X), seed_key(1))
    noise = [record.watched["noise_std"] for record in result.history]
    assert noise[0] == noise[1] != noise[2] == noise[3] != noise[4]  # every other pass only ranks
    one, two = result.params, learn(model(10, 3, 5, quiet), toy)
    # a few rows more or less, so the same within a standard error: sigma / sqrt(N pi), and 0.04 of pi H
    np.testing.assert_allclose(one.components, two.components, atol=0.15)
    assert float(one.prior) * 10 == pytest.approx(float(two.prior) * 10, abs=0.04)
    assert float(one.noise_std) == pytest.approx(float(two.noise_std), abs=0.03)


@pytest.mark.slow("a fit of 60 passes")
def test_equal_components_part():
    toy = toys.linear_bars(1000, random_state=1)
    same = model(10, 3, 5, PLAIN._replace(init="mean", init_scale=0.0, init_sparseness=5.0))
    with tree.double():
        summary = summarise(MemoryEngine(toy.X))
        assert np.ptp(np.asarray(same.init(seed_key(0), summary).components), axis=0).max() == 0
    found = learn(same, toy)
    apart = np.linalg.norm(found.components[:, None] - found.components[None], axis=2) + 99 * np.eye(10)
    assert apart.min() > 1


@pytest.mark.slow("a fit of its own program")
def test_more_causes_than_gamma_do_not_end_in_no_rows():
    """With pi H above gamma the paper's N_cut goes to 0; here a share of the rows is always learned from."""
    toy = toys.linear_bars(500, active=6.0, random_state=2)
    crowded = model(10, 2, 4, PLAIN._replace(init_sparseness=9.5, cut=(0, 0)), n_iter=20)
    counted = crowded._replace(watch=lambda p: {"prior": p.prior}, objective=lambda p, s, t: t.used / t.n_rows)
    result = fit(counted, MemoryEngine(toy.X), seed_key(0))
    shares = [record.objective for record in result.history if record.stage == "truncated EM"]
    expected = [binom.cdf(2, 10, record.watched["prior"]) for record in result.history]
    assert min(expected) < 0.05  # the paper's share
    assert min(shares) > 0.1
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(result.params))
    assert float(result.params.noise_std) > 0.1


@pytest.mark.slow("fits of several starts together, and of each alone")
def test_starts_side_by_side_learn_what_each_learns_alone():
    """Without random numbers in the updates, and with one start that has failed."""
    X = sparse_coding.draw(sparse_coding.some_theta(4, 6, seed=1, active=1.5), 60, seed=2)
    one, engine, n = model(4, 2, 3, PLAIN._replace(parameter_noise=0.0), n_iter=5), MemoryEngine(X), 3
    with tree.double():
        begun = [params_of(sparse_coding.some_theta(4, 6, seed=i, sigma=2.0)) for i in range(n)]
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
