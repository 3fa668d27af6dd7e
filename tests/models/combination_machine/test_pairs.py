"""EM of one unit of a pursuit (Freund & Haussler 1994, section 3.5), row by row and by densities written out."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logit

from latentbits.core import tree
from latentbits.models.combination_machine import pairs
from latentbits.models.combination_machine.machine import UNITS
from latentbits.models.combination_machine.pairs import Pairs

N, D = 200, 5


def real_rows(length, seed=0):
    """Draw rows of one unit with weights of this length: two Gaussians."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=D)
    weights *= length / np.linalg.norm(weights)
    return (rng.random((N, 1)) < 0.3) * weights + rng.normal(size=(N, D)), weights


def twin_em(x, w, theta, steps):
    """Follow the paper's EM, row by row (3.12-3.15)."""
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
    """Run the library's EM from the given pairs; the gain of every step."""
    gained = []
    with tree.double():
        start = Pairs(jnp.asarray(start))
        x, mask = jnp.asarray(x), None if mask is None else jnp.asarray(mask)
        for _ in range(steps + 1):
            last, (start, gain) = start, em_step(free, start, x, mask)
            gained.append(np.asarray(gain))
    return tree.to_numpy(last), np.array(gained)


def begin(w, centre=0.0, variance=1.0):
    """Make the table of pairs with these shifts, each half as probable."""
    each = np.ones((len(w), 1))
    return np.hstack([centre + 0 * w, w, 0 * each, variance * each])


def theta_of(pair):
    return pair.log_odds - 0.5 * np.sum(pair.shift**2, 1)


def test_em_of_one_unit_is_the_paper_s_and_ends_at_the_maximum_of_the_likelihood():
    x, truth = real_rows(2.5, seed=3)
    found, gained = em(x, begin(x[:6]), 6)
    for k, w in enumerate(x[:6]):
        twin = twin_em(x, w, -0.5 * w @ w, 6)
        np.testing.assert_allclose(found.shift[k], twin[0], rtol=1e-10)
        np.testing.assert_allclose(theta_of(found)[k], twin[1], rtol=1e-10)
        np.testing.assert_allclose(gained[-1, k], twin_gain(x, *twin), rtol=1e-9)
    assert np.diff(gained, axis=0).min() > -1e-9
    found, gained = em(x, begin(0.5 * x[:6]), 500)
    best = np.argmax(gained[-1])
    climbed = optimize.minimize(lambda v: -twin_gain(x, v[:-1], v[-1]), np.append(truth, -3.0), method="BFGS")
    np.testing.assert_allclose(gained[-1, best], -climbed.fun, rtol=1e-6)
    np.testing.assert_allclose(found.shift[best], climbed.x[:-1], atol=1e-3)
    np.testing.assert_allclose(theta_of(found)[best], climbed.x[-1], atol=1e-3)


def test_em_with_free_centres_and_holes_is_monotone():
    x, _ = real_rows(3.0, seed=1)
    mask = (np.random.default_rng(2).random(x.shape) < 0.7).astype(float)
    x = x * mask
    found, gained = em(x, begin(2 * x[:4], -x[:4], 0.7), 30, free=True, mask=mask)
    assert np.diff(gained, axis=0).min() > -1e-9
    assert np.all(gained[-1] > gained[0] + 1)
    assert np.isfinite(found.table).all()


def test_a_half_without_rows_is_none():
    x = np.zeros((N, D))
    found, _ = em(x, begin(np.full((4, D), 30.0), 0 * x[:4]), 1, free=True, mask=np.ones((N, D)))
    assert np.isfinite(found.table).all()
    np.testing.assert_array_equal(found.shift, 0)
    np.testing.assert_allclose(found.log_odds, logit(0.5 / N))


def test_density_and_posterior_with_holes_are_those_of_the_observed_inputs():
    """Against Gaussians written out, for pairs with centres and a variance."""
    rng = np.random.default_rng(4)
    x, mask = rng.normal(size=(6, 4)), (rng.random((6, 4)) < 0.6).astype(float)
    c, w, v, pi = rng.normal(size=4), rng.normal(size=4), 0.6, 0.2

    @jax.jit
    def run(pair, x, mask):
        log_odds = pairs.field(pair, x, mask)
        return log_odds, pairs.gains(pair, log_odds, x, mask)

    with tree.double():
        pair = Pairs(jnp.asarray(np.concatenate([c, w, [logit(pi), v]])[None]))
        log_odds, gain = run(pair, jnp.asarray(x * mask), jnp.asarray(mask))
    for n in range(6):
        seen = mask[n] > 0

        def log_density(mean, n=n, seen=seen):
            return stats.norm.logpdf(x[n, seen], mean[seen], np.sqrt(v)).sum()

        off, on = np.log(1 - pi) + log_density(c), np.log(pi) + log_density(c + w)
        np.testing.assert_allclose(log_odds[n, 0], on - off, atol=1e-10)
        np.testing.assert_allclose(gain[n, 0], np.logaddexp(on, off) - log_density(0 * c), atol=1e-10)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_a_pair_as_a_unit(kind):
    """The paper's (3.15); or a unit that, alone, is on as often as in the pair: of bits, between shift and natural."""
    mean, c, w, log_odds = np.array([0.3, -0.2]), np.array([0.1, -0.3]), np.array([0.4, 0.6]), -0.7
    bias = np.arctanh(mean) if kind == "binary" else mean

    @jax.jit
    def run(pair, mean, bias):
        return [pairs.as_unit(UNITS[kind], faithful, pair, mean, bias) for faithful in (True, False)]

    with tree.double():
        pair = Pairs(jnp.asarray(np.concatenate([c, w, [log_odds, 1.0]])[None]))
        paper, ours = run(pair, jnp.asarray(mean), jnp.asarray(bias))
    np.testing.assert_allclose(paper[0], w)
    np.testing.assert_allclose(paper[1], log_odds - w @ (mean + c + 0.5 * w))
    np.testing.assert_allclose(paper[2], c)
    weights, theta, change = map(np.asarray, ours)
    if kind == "binary":
        off, on = np.arctanh(mean + c), np.arctanh(mean + c + w)
        np.testing.assert_allclose(weights, 0.5 * (w + on - off))
        np.testing.assert_allclose(change, 0.5 * (c + off - bias))
    else:
        np.testing.assert_allclose([weights, change], [w, c])
    states = [bias + change, bias + change + weights]
    log_sums = [np.sum(np.log(2 * np.cosh(a)) if kind == "binary" else 0.5 * a**2) for a in states]
    np.testing.assert_allclose(theta + log_sums[1] - log_sums[0], log_odds)
