"""Projection pursuit (Freund & Haussler 1994, section 3.5): EM of one unit, structure removal, where it ends."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, logit

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.model import Model, Stop
from latentbits.engines import passes
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.stream import StreamEngine
from latentbits.models.combination_machine import pairs, pursuit
from latentbits.models.combination_machine.machine import BINARY, REAL, Params, log_weight
from latentbits.models.combination_machine.pairs import Pairs


def unused(*args):
    raise NotImplementedError


@cache
def machine(n_hidden, units, input_bias, **settings):
    """The least of a model: where a pursuit begins, and the pursuit."""

    def init(key, summary):
        d = len(summary.mean)
        share = (summary.mean * summary.observed + 0.5) / (summary.observed + 1)
        bias = 0.5 * jnp.log(share / (1 - share)) if units is BINARY else summary.mean
        known = jnp.zeros(()), jnp.zeros(()), jnp.ones(()), jnp.zeros(())
        return Params(jnp.zeros((n_hidden, d)), jnp.zeros(n_hidden), bias if input_bias else jnp.zeros(d), *known)

    stage = pursuit.stage(n_hidden, units, input_bias, **settings)
    functions = [unused] * 8
    return Model("pursuit", init, *functions, row_floats=lambda d: 4 * d, stages=(stage,))


def pursue(table, n_hidden, units=BINARY, input_bias=True, engine=MemoryEngine, seed=0, budget=None, **settings):
    model = machine(n_hidden, units, input_bias, **settings)
    return fit(model, engine(table), seed_key(seed), dtype="float64", memory_budget=budget)


def streamed(table):
    return StreamEngine(lambda: (table[i : i + 37] for i in range(0, len(table), 37)), table.shape[1])


def real_rows(n=1500, d=8, lengths=(6.0,), on=0.3, seed=0, centre=0.0):
    """Rows of a real machine with orthogonal weight vectors: Gaussians around sums of them."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0][: len(lengths)]
    weights = basis * np.array(lengths)[:, None]
    hidden = rng.random((n, len(lengths))) < on
    return centre + hidden @ weights + rng.normal(size=(n, d)), weights, hidden


def twin_em(x, w, theta, steps):
    """The paper's EM, row by row (3.12-3.15)."""
    for _ in range(steps):
        p = np.array([1 / (1 + np.exp(-(w @ row + theta))) for row in x])
        w = sum(p_n * row for p_n, row in zip(p, x)) / p.sum()
        theta = -np.log((1 - p.mean()) / p.mean()) - 0.5 * w @ w
    return w, theta


def twin_gain(x, w, theta):
    """Log-likelihood of one unit less that of the Gaussian; the paper's constant lacks its N and its logarithm."""
    return np.sum(np.logaddexp(0, x @ w + theta)) - len(x) * np.logaddexp(0, theta + 0.5 * w @ w)


@partial(jax.jit, static_argnums=0)
def em_step(free, pair, x, mask):
    log_odds = pairs.field(pair, x, mask)
    of = pairs.sums(log_odds, x, mask, jnp.ones(len(x)))
    return pairs.m_step(free, pair, of), pairs.gains(pair, log_odds, x, mask).sum(0)


def em(x, start, steps, free=False, mask=None):
    """The library's EM from the given pairs, with the gain of every step."""
    gained = []
    with tree.double():
        for _ in range(steps + 1):
            last, (start, gain) = start, em_step(free, start, jnp.asarray(x), mask)
            gained.append(np.asarray(gain))
    return tree.to_numpy(last), np.array(gained)


def begin(w, centre=None, variance=1.0):
    with tree.double():
        w = jnp.atleast_2d(jnp.asarray(w, jnp.float64))
        zero = jnp.zeros(len(w))
        return Pairs.of(zero, jnp.zeros_like(w) if centre is None else jnp.asarray(centre), w, zero + variance)


def theta_of(pair):
    return pair.log_odds - 0.5 * np.sum(pair.shift**2, 1)


def test_em_of_one_unit_is_the_paper_s():
    x, _, _ = real_rows(n=200, lengths=(2.0,))
    starts = x[:3]
    found, gained = em(x, begin(starts), 6)
    for k, w in enumerate(starts):
        twin = twin_em(x, w, -0.5 * w @ w, 6)
        np.testing.assert_allclose(found.shift[k], twin[0], rtol=1e-10)
        np.testing.assert_allclose(theta_of(found)[k], twin[1], rtol=1e-10)
        np.testing.assert_allclose(gained[-1, k], twin_gain(x, *twin), rtol=1e-9)
    assert np.diff(gained, axis=0).min() > -1e-9


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("holes", [False, True])
def test_em_is_monotone(free, holes):
    x, _, _ = real_rows(n=300, lengths=(3.0,), seed=1)
    mask = (np.random.default_rng(2).random(x.shape) < 0.7).astype(float) if holes else None
    x = x if mask is None else x * mask
    start = begin(x[:4], -x[:4] if free else None, 0.7)
    _, gained = em(x, start, 30, free, mask)
    assert np.diff(gained, axis=0).min() > -1e-9


def test_em_reaches_the_maximum_of_the_likelihood():
    x, truth, _ = real_rows(n=400, d=5, lengths=(2.5,), seed=3)
    found, gained = em(x, begin(0.5 * x[:6]), 500)
    best = np.argmax(gained[-1])
    climbed = optimize.minimize(lambda v: -twin_gain(x, v[:-1], v[-1]), np.append(truth[0], -3.0), method="BFGS")
    np.testing.assert_allclose(gained[-1, best], -climbed.fun, rtol=1e-6)
    np.testing.assert_allclose(found.shift[best], climbed.x[:-1], atol=1e-3)
    np.testing.assert_allclose(theta_of(found)[best], climbed.x[-1], atol=1e-3)


def test_density_and_posterior_with_holes_are_those_of_the_observed_inputs():
    """Against Gaussians written out, for pairs with centres and a variance."""
    rng = np.random.default_rng(4)
    x, mask = rng.normal(size=(6, 4)), (rng.random((6, 4)) < 0.6).astype(float)
    c, w, v, pi = rng.normal(size=4), rng.normal(size=4), 0.6, 0.2
    with tree.double():
        pair = Pairs.of(jnp.array([logit(pi)]), jnp.array([c]), jnp.array([w]), jnp.array([v]))
        log_odds = pairs.field(pair, jnp.asarray(x * mask), jnp.asarray(mask))
        gain = pairs.gains(pair, log_odds, jnp.asarray(x * mask), jnp.asarray(mask))
    for n in range(6):
        seen = mask[n] > 0

        def log_density(mean, n=n, seen=seen):
            return stats.norm.logpdf(x[n, seen], mean[seen], np.sqrt(v)).sum()

        off, on = np.log(1 - pi) + log_density(c), np.log(pi) + log_density(c + w)
        np.testing.assert_allclose(log_odds[n, 0], on - off, atol=1e-10)
        np.testing.assert_allclose(gain[n, 0], np.logaddexp(on, off) - log_density(0 * c), atol=1e-10)


def left_over(table, result, units):
    """What is left of the rows at the end, as the E-step sees it, and its coins."""
    with tree.double():
        holes = np.isnan(table) if table.dtype.kind == "f" else table == MISSING
        numbers = jnp.uint32(0), jnp.uint32(len(table))
        batch = make_batch(jnp.asarray(table), *numbers, seed_key(0), not holes.any(), np.dtype(np.float64))
        state, params = jax.tree.map(jnp.asarray, (result.state, result.params))
        x, rows = pursuit._left(units, state, batch, pursuit._start_rows(params, state, batch))
        return np.asarray(x), np.asarray(rows.coins)


@pytest.mark.slow
def test_structure_removal_makes_the_projection_normal_and_leaves_the_others():
    x, weights, hidden = real_rows(n=2000, lengths=(6.0,))
    result = pursue(x, 1, REAL, input_bias=False, significance=0.0)
    left, coins = left_over(x, result, REAL)
    found = result.params.weights[0]
    np.testing.assert_allclose(found, weights[0], atol=0.3)
    assert np.mean(coins[:, 0] == hidden[:, 0]) > 0.99
    along = found / np.linalg.norm(found)
    assert stats.kstest(x @ along, "norm").pvalue < 1e-6
    assert stats.kstest(left @ along, "norm").pvalue > 1e-3
    across = np.linalg.svd(found[None])[2][1:]
    np.testing.assert_allclose(left @ across.T, x @ across.T, atol=1e-9)


@pytest.mark.slow
def test_coins_have_the_posterior_probability():
    """Of two halves that overlap: P(h = 1 | x) of the rows sums to the number of heads, within 4 deviations."""
    x, _, _ = real_rows(n=2000, lengths=(2.0,), seed=5)
    result = pursue(x, 1, REAL, input_bias=False, significance=0.0)
    _, coins = left_over(x, result, REAL)
    p = expit(x @ result.params.weights[0] + result.params.hidden_bias[0])
    assert 0.05 < p.mean() < 0.95
    for part in (p < 0.3, (p > 0.3) & (p < 0.7), p > 0.7):
        assert abs(coins[part, 0].sum() - p[part].sum()) < 4 * np.sqrt(np.sum(p[part] * (1 - p[part])))


@pytest.mark.slow
@pytest.mark.parametrize("units", [BINARY, REAL], ids=["fair coins", "normal noise"])
def test_nothing_is_found_in_noise(units):
    rng = np.random.default_rng(6)
    table = rng.integers(0, 2, (500, 12)).astype(np.uint8) if units is BINARY else rng.normal(size=(500, 12))
    for seed in range(5):
        result = pursue(table, 4, units, seed=seed)
        assert result.state.found == 0
        assert not result.params.weights.any()
        assert result.reason is Stop.COMPLETED  # its own word to end: what is left to gain is not known
        assert result.n_iter == 2 + 5  # counting, starts, four EM steps and the choice


@pytest.mark.slow
@pytest.mark.parametrize("input_bias", [False, True])
def test_as_many_units_as_there_are(input_bias):
    """Without input biases the Gaussian around 0 must be a common state, or units that are often on are merged."""
    on, centre = (0.5, 3.0) if input_bias else (0.05, 0.0)
    x, weights, _ = real_rows(n=2000, d=12, lengths=(7.0, 6.0, 5.0), on=on, centre=centre)
    result = pursue(x, 4, REAL, input_bias, em_steps=20, significance=None)
    assert result.state.found == 3
    assert np.all(result.state.gains > [100, 100, 100, -1])
    assert not result.params.weights[3:].any()
    assert not result.params.hidden_bias[3:].any()
    near = np.abs(result.params.weights[:3] @ weights.T) / np.sum(weights**2, 1)  # a free centre may change the sign
    np.testing.assert_allclose(near.max(0), 1, atol=0.1)


@pytest.mark.slow
def test_one_unit_of_a_real_machine_is_exact():
    """Weights, both biases and the likelihood are those of the mixture that EM has found."""
    x, weights, hidden = real_rows(n=1500, d=4, lengths=(6.0,), on=0.3, centre=2.0)
    params = pursue(x, 1, REAL, em_steps=30).params
    sign = np.sign(params.weights[0] @ weights[0])
    np.testing.assert_allclose(sign * params.weights[0], weights[0], atol=0.2)
    state_off, state_on = params.input_bias, params.input_bias + params.weights[0]
    np.testing.assert_allclose(state_off if sign > 0 else state_on, 2 * np.ones(4), atol=0.2)
    with tree.double():
        log_p = np.asarray(log_weight(REAL, jax.tree.map(jnp.asarray, params), jnp.asarray(x)))
    energy = [0.0, params.hidden_bias[0]] + 0.5 * np.array([state_off @ state_off, state_on @ state_on])
    log_z = np.logaddexp(*energy) + 2 * np.log(2 * np.pi)
    pi = hidden.mean()
    density = [stats.norm.logpdf(x - 2 - h * weights[0]).sum(1) + np.log([1 - pi, pi][h]) for h in (0, 1)]
    assert 0 < np.mean(log_p - log_z - np.logaddexp(*density)) < 0.02  # a little above the truth, as learned


def test_one_unit_of_the_paper_s_machine():
    """``faithful``: the weights are E[h x] / E[h], and the bias is (3.15)."""
    rng = np.random.default_rng(7)
    hidden = rng.random(800) < 0.4
    table = (rng.random((800, 12)) < np.where(hidden[:, None], 0.9, 0.5)).astype(np.uint8)
    result = pursue(table, 1, BINARY, input_bias=False, faithful=True, em_steps=40)
    w, theta = result.params.weights[0], result.params.hidden_bias[0]
    again = twin_em(2.0 * table - 1, w, theta, 1)
    np.testing.assert_allclose(again[0], w, atol=1e-4)
    np.testing.assert_allclose(again[1], theta, atol=1e-3)
    assert np.all((w > 0.5) & (w < 0.9))  # E[x | h = 1] is 0.8; the Gaussians are wider than the bits
    assert not result.params.input_bias.any()


def test_a_unit_of_a_binary_machine_lies_between_shift_and_natural_parameters():
    rng = np.random.default_rng(8)
    hidden = rng.random(3000) < 0.5
    table = (rng.random((3000, 10)) < np.where(hidden[:, None], 0.9, 0.3)).astype(np.uint8)
    result = pursue(table, 1, BINARY, em_steps=20)
    w, b = np.abs(result.params.weights[0]), result.params.input_bias
    natural = np.arctanh(0.8) - np.arctanh(-0.4)
    np.testing.assert_allclose(w, 0.5 * (1.2 + natural), atol=0.1)
    # taken alone, at the biases it stands for, the unit is on as often as half of the rows
    theta, v = result.params.hidden_bias[0], result.params.weights[0]
    on = theta + np.sum(np.log(np.cosh(b + v)) - np.log(np.cosh(b)))
    np.testing.assert_allclose(on, result.state.units.log_odds[0], atol=1e-6)
    assert abs(on) < 0.2


@pytest.mark.slow
def test_engines_agree_and_coins_are_kept():
    """A stream flips all coins again at every pass, memory keeps them: the units are the same."""
    table = combined(seed=9)
    table[np.random.default_rng(10).random(table.shape) < 0.1] = MISSING
    budget = 2**12
    memory = pursue(table, 4, budget=budget)
    stream = pursue(table, 4, engine=streamed, budget=budget)
    whole = pursue(table, 4)
    assert memory.state.found == stream.state.found == 3  # as many as there are
    for other in (stream, whole):
        for a, b in zip(jax.tree.leaves(memory.params), jax.tree.leaves(other.params)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_several_chunks_in_a_call_find_the_same_units(monkeypatch):
    table, used = combined(), set()
    whole = pursue(table, 3)
    call = passes.by_parts
    monkeypatch.setattr(
        passes, "by_parts", lambda function, parts, *rest: used.add(parts) or call(function, parts, *rest)
    )
    cut = pursue(table, 3, budget=2**13)
    assert max(used) > 1
    np.testing.assert_allclose(cut.params.weights, whole.params.weights, atol=1e-6)


def combined(n=600, d=12, seed=0):
    """Bits in three blocks, each of which a hidden unit may turn on."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((n, 3)) < [0.5, 0.4, 0.3]
    mean = np.where(np.repeat(hidden, d // 3, axis=1), 0.95, 0.15)
    return (rng.random((n, d)) < mean).astype(np.uint8)


@pytest.mark.slow
def test_blocks_of_bits_are_found():
    weights = pursue(combined(), 4).params.weights[:3]
    size = np.abs(weights.reshape(3, 3, 4)).mean(2)
    assert sorted(size.argmax(1)) == [0, 1, 2]
    assert np.all(np.sort(size, 1)[:, -1] > 3 * np.sort(size, 1)[:, -2])


@pytest.mark.slow
def test_missing_bits_change_little():
    table = combined(n=1500)
    whole = pursue(table, 4).params.weights[:3]
    table = np.where(np.random.default_rng(11).random(table.shape) < 0.15, MISSING, table).astype(np.uint8)
    holed = pursue(table, 4).params.weights[:3]
    blocks = [np.abs(w.reshape(3, 3, 4)).mean(2) for w in (whole, holed)]
    ordered = [b[b.argmax(1).argsort()] for b in blocks]
    np.testing.assert_allclose(*ordered, atol=0.3)


@pytest.mark.slow
def test_constant_columns_and_few_rows_do_no_harm():
    table = combined(n=40)
    table[:, 0], table[:, 1] = 1, 0
    table[:, 2] = MISSING
    params = pursue(table, 4, significance=0.0).params
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    np.testing.assert_allclose(params.weights[:, :3], 0, atol=0.5)
    assert np.isfinite(pursue(table[:1], 4, significance=0.0).params.weights).all()


@pytest.mark.slow
def test_one_compilation_for_all_units():
    traced = []
    model = machine(4, BINARY, True, significance=0.0)
    stage = model.stages[0]

    def counting(name):
        def call(*args):
            traced.append(name)
            return getattr(stage, name)(*args)

        return call

    counted = replace(stage, e_step=counting("e_step"), update=counting("update"))
    result = fit(model._replace(stages=(counted,)), MemoryEngine(combined()), seed_key(0))
    assert result.state.found == 4
    assert sorted(traced) == ["e_step", "update"]


def test_gains_are_the_objective():
    result = pursue(combined(), 4, significance=0.0)
    assert result.objective == -np.inf  # no likelihood of the machine, by which restarts could be ranked
    assert np.all(result.state.gains > 0)
    told = [r.objective for r in result.history]
    np.testing.assert_allclose(told[-1], result.state.gains.sum(), rtol=1e-9)
    assert result.n_iter == result.history[-1].iteration + 1 == 2 + 4 * 5
