"""Projection pursuit (Freund & Haussler 1994, section 3.5): which units are found, structure removal, where it ends."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import log_probabilities
from scipy import stats
from scipy.special import expit

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.model import Model, Stop
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.models.combination_machine import equations, pursuit
from latentbits.models.combination_machine.machine import BINARY, REAL, Params
from latentbits.models.combination_machine.pairs import Pairs, as_unit, field, flipped, gains, m_step, sums, without

N, D, N_HIDDEN = 1000, 12, 4  # the same for all, so that few programs are compiled


def unused(*args):
    raise NotImplementedError


@cache
def machine(units, input_bias, **settings):
    """Make the least of a model: where a pursuit begins, and the pursuit."""

    def init(key, summary):
        d = len(summary.mean)
        share = (summary.mean * summary.observed + 0.5) / (summary.observed + 1)
        bias = 0.5 * jnp.log(share / (1 - share)) if units is BINARY else summary.mean
        known = jnp.zeros(()), jnp.zeros(()), jnp.ones(()), jnp.zeros(())
        return Params(jnp.zeros((N_HIDDEN, d)), jnp.zeros(N_HIDDEN), bias if input_bias else jnp.zeros(d), *known)

    stage = pursuit.stage(N_HIDDEN, units, input_bias, **settings)
    return Model("pursuit", init, *[unused] * 8, row_floats=lambda d: 4 * d, stages=(stage,))


def pursue(table, units=BINARY, input_bias=True, seed=0, **settings):
    return fit(machine(units, input_bias, **settings), MemoryEngine(table), seed_key(seed), dtype="float64")


def blocks(seed=0):
    """Draw bits in three blocks, each of which a hidden unit may turn on; a tenth is missing."""
    rng = np.random.default_rng(seed)
    hidden = rng.random((N, 3)) < [0.5, 0.4, 0.3]
    mean = np.where(np.repeat(hidden, D // 3, axis=1), 0.95, 0.15)
    table = (rng.random((N, D)) < mean).astype(np.uint8)
    table[rng.random(table.shape) < 0.1] = MISSING
    return table


def test_blocks_of_bits_are_found():
    result = pursue(blocks())
    assert result.state.found == 3
    weights = result.params.weights
    size = np.abs(weights[:3].reshape(3, 3, 4)).mean(2)
    assert sorted(size.argmax(1)) == [0, 1, 2]
    assert np.all(np.sort(size, 1)[:, -1] > 3 * np.sort(size, 1)[:, -2])
    assert not weights[3:].any()
    assert result.objective == -np.inf  # no likelihood of the machine, by which restarts could be ranked


def test_every_unit_that_gains_is_taken_if_asked_for():
    """Columns that are constant, or never seen, have no share in them."""
    table = blocks()
    table[:, 0], table[:, 1], table[:, 2] = 1, 0, MISSING
    result = pursue(table, significance=0.0)
    assert result.state.found == N_HIDDEN
    assert np.all(result.state.gains > 0)
    told = [record.objective for record in result.history]
    np.testing.assert_allclose(told[-1], result.state.gains.sum(), rtol=1e-9)
    assert result.n_iter == result.history[-1].iteration + 1 == 2 + 4 * 5
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))
    np.testing.assert_allclose(result.params.weights[:, :3], 0, atol=0.5)


def test_nothing_is_found_in_noise():
    rng = np.random.default_rng(6)
    for seed in range(3):
        table = rng.integers(0, 2, (N, D)).astype(np.uint8)
        table[rng.random(table.shape) < 0.1] = MISSING
        result = pursue(table, seed=seed)
        assert result.state.found == 0
        assert not result.params.weights.any()
        assert result.reason is Stop.COMPLETED  # its own word to end: what is left to gain is not known
        assert result.n_iter == 2 + 5  # counting, starts, four EM steps and the choice


def real_rows(lengths, on=0.3, seed=0, centre=0.0):
    """Draw rows of a real machine with orthogonal weight vectors: Gaussians around sums of them."""
    rng = np.random.default_rng(seed)
    weights = np.linalg.qr(rng.normal(size=(D, D)))[0][: len(lengths)] * np.array(lengths)[:, None]
    hidden = rng.random((N, len(lengths))) < on
    return centre + hidden @ weights + rng.normal(size=(N, D)), weights, hidden


@jax.jit
def left(state, params, batch):
    x, rows = pursuit._left(REAL, state, batch, pursuit._start_rows(params, state, batch))
    return x, rows.coins


def left_over(table, state, params):
    """Ask what is left of the rows, as the E-step sees it, and for its coins."""
    with tree.double():
        numbers = jnp.uint32(0), jnp.uint32(len(table))
        batch = make_batch(jnp.asarray(table), *numbers, seed_key(0), True, np.dtype(np.float64))
        return map(np.asarray, left(*jax.tree.map(jnp.asarray, (state, params)), batch))


def test_what_is_left_of_rows_without_a_unit():
    """Coins have the posterior probability; the centre is taken off, and the shift where they show heads."""
    x, weights, _ = real_rows((2.5,), seed=5)
    model = machine(REAL, True)
    with tree.double():
        params = Params(*(jnp.asarray(np.zeros(s)) for s in ((N_HIDDEN, D), N_HIDDEN, D, (), (), (), ())))
        state = jax.jit(model.stages[0].start)(params)
        table = np.array(state.units.table)
        centre, log_odds = np.full(D, 0.1), -0.7
        table[0, :-1] = np.concatenate([centre, weights[0], [log_odds]])
        found, mean = jnp.asarray(np.int32(1)), jnp.asarray(np.full(D, -0.1))
        state = replace(state, units=Pairs(jnp.asarray(table)), found=found, mean=mean)
    rest, coins = left_over(x, state, params)
    p = expit(log_odds + (x + 0.1 - centre - weights[0] / 2) @ weights[0])
    assert not coins[:, 1:].any()
    for part in (p < 0.3, (p > 0.3) & (p < 0.7), p > 0.7):
        assert part.sum() > 50
        assert abs(coins[part, 0].sum() - p[part].sum()) < 4 * np.sqrt(np.sum(p[part] * (1 - p[part])))
    np.testing.assert_allclose(rest, x + 0.1 - centre - coins[:, :1] * weights[0], atol=1e-9)


@pytest.mark.slow("another program, that of real inputs")
def test_structure_removal_makes_the_projection_normal_and_leaves_the_others():
    """And nothing more is found in the noise."""
    x, weights, hidden = real_rows((6.0,))
    result = pursue(x, REAL, input_bias=False)
    assert result.state.found == 1  # and the rest is noise
    rest, coins = left_over(x, result.state, result.params)
    found = result.params.weights[0]
    np.testing.assert_allclose(found, weights[0], atol=0.4)
    assert np.mean(coins[:, 0] == hidden[:, 0]) > 0.99
    along = found / np.linalg.norm(found)
    assert stats.kstest(x @ along, "norm").pvalue < 1e-6
    assert stats.kstest(rest @ along, "norm").pvalue > 1e-3
    across = np.linalg.svd(found[None])[2][1:]
    np.testing.assert_allclose(rest @ across.T, x @ across.T, atol=1e-9)


@pytest.mark.slow("another program, that of real inputs")
def test_as_many_units_as_there_are():
    """Without input biases the Gaussian around 0 must be a common state, or units that are often on are merged."""
    check_three_units(*real_rows((7.0, 6.0, 5.0), on=0.05)[:2], input_bias=False)


def check_three_units(x, weights, input_bias):
    result = pursue(x, REAL, input_bias, em_steps=20, significance=None)
    assert result.state.found == 3
    assert np.all(result.state.gains > [50, 50, 50, -1])
    assert not result.params.weights[3:].any()
    assert not result.params.hidden_bias[3:].any()
    near = np.abs(result.params.weights[:3] @ weights.T) / np.sum(weights**2, 1)  # a free centre may change the sign
    np.testing.assert_allclose(near.max(0), 1, atol=0.1)


@pytest.mark.slow("another program, that of real inputs with biases")
def test_units_of_a_real_machine_with_biases():
    """One unit is exact: weights, both biases and the likelihood are those of the mixture that EM has found."""
    check_three_units(*real_rows((7.0, 6.0, 5.0), on=0.5, centre=3.0)[:2], input_bias=True)
    x, weights, hidden = real_rows((6.0,), centre=2.0)
    params = pursue(x, REAL, em_steps=20, significance=None).params
    sign = np.sign(params.weights[0] @ weights[0])
    np.testing.assert_allclose(sign * params.weights[0], weights[0], atol=0.3)
    off, on = params.input_bias, params.input_bias + params.weights[0]
    np.testing.assert_allclose(off if sign > 0 else on, np.full(D, 2.0), atol=0.3)
    log_p = log_probabilities("real", params, x)
    pi = hidden.mean()
    density = [stats.norm.logpdf(x - 2 - h * weights[0]).sum(1) + np.log([1 - pi, pi][h]) for h in (0, 1)]
    assert 0 < np.mean(log_p - np.logaddexp(*density)) < 0.03  # a little above the truth, as learned


def test_a_step_of_one_unit_is_the_paper_s():
    """E- and M-step (3.14, 3.15), what a unit gains, and what is left without it, of the paper's pairs."""
    rng = np.random.default_rng(8)
    x, w, theta, uniform = rng.choice([-1.0, 1.0], (50, 6)), rng.normal(size=6), -0.4, rng.random(50)

    @jax.jit
    def step(pair, x, uniform):
        log_odds = field(pair, x, None)
        stepped = m_step(False, pair, sums(log_odds, x, None, jnp.ones(len(x))))
        heads = flipped(pair, uniform, x, None)
        none = jnp.zeros(x.shape[1])
        return (
            as_unit(REAL, True, stepped, none, none)[:2],
            gains(pair, log_odds, x, None),
            without(pair, heads, x, None),
        )

    with tree.double():
        given = (np.array([theta + 0.5 * w @ w]), np.zeros((1, 6)), w[None], np.ones(1))
        found, gain, left = step(Pairs.of(*map(jnp.asarray, given)), jnp.asarray(x), jnp.asarray(uniform))
    for ours, theirs in zip(found, equations.m_step(*equations.expected(w, theta, x))):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(gain).sum(), equations.gain(w, theta, x), rtol=1e-12)
    np.testing.assert_allclose(left, equations.without_unit(w, theta, x, uniform)[0], rtol=1e-12)


@pytest.mark.slow("another program, that of the paper's bits without biases")
def test_one_unit_of_the_paper_s_machine():
    """``faithful``: the weights are E[h x] / E[h], and the bias is (3.15)."""
    rng = np.random.default_rng(7)
    hidden = rng.random(N) < 0.4
    table = (rng.random((N, D)) < np.where(hidden[:, None], 0.9, 0.5)).astype(np.uint8)
    result = pursue(table, input_bias=False, faithful=True, em_steps=40)
    w, theta = result.params.weights[0], result.params.hidden_bias[0]
    stepped = equations.m_step(*equations.expected(w, theta, 2.0 * table - 1))
    np.testing.assert_allclose(stepped[0], w, atol=1e-4)
    np.testing.assert_allclose(stepped[1], theta, atol=1e-3)
    assert np.all((w > 0.5) & (w < 0.9))  # E[x | h = 1] is 0.8; the Gaussians are wider than the bits
    assert not result.params.input_bias.any()
