"""The curved surface against plain formulas: a mixture at the points, its gradient, its errors."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp
from tests.models.steps import batch_of, now, unchecked

from latentbits.core.batch import MISSING
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_trait import curved, tuning

Q, D, WIDTHS, LOG2 = 2, 5, (4, 3), 5
PRECISION = 4.0
MODEL = curved.model(Q, WIDTHS, LOG2, PRECISION**-0.5, n_epochs=1, n_blocks=1, batch_size=12, rate=1e-3, n_rows=24.0)
WEIGHTS = np.array([1, 2, 0, 1, 1, 3, 1, 0.5, 1, 1, 1, 2])


def network(seed=0):
    rng = np.random.default_rng(seed)
    layers = tuple(rng.normal(size=shape) for shape in pairwise((Q, *WIDTHS, D)))
    offsets = tuple(rng.normal(size=width) for width in WIDTHS)
    return unchecked(curved.Params, rng.normal(size=(D, Q)), rng.normal(size=D), layers, offsets)


def rows(n=12, seed=1, holes=0.0):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (n, D)).astype(np.uint8)
    table[rng.random((n, D)) < holes] = MISSING
    return table


def by_hand(params, z):
    """Compute f(z), in NumPy."""
    hidden = z
    for layer, offset in zip(params.layers, params.offsets):
        field = hidden @ layer + offset
        hidden = field * expit(field)
    return z @ params.weights.T + params.bias + hidden @ params.layers[-1]


def joint_by_hand(f, table):
    """Give log P(row | point), missing bits left out."""
    one, zero = (table == 1)[:, None], (table == 0)[:, None]
    return np.where(one, log_expit(f), np.where(zero, log_expit(-f), 0)).sum(2)


def log_p_by_hand(params, table, points, log_weight):
    return logsumexp(joint_by_hand(by_hand(params, points), table) + log_weight, 1)


@cache
def rule(n=40):
    """Give nodes in the plane, and logarithms of weights, of a standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return np.array(list(product(x, x))), np.add.outer(np.log(w), np.log(w)).ravel() - np.log(2 * np.pi)


@jax.jit
def _everything(params, table):
    batch, shared = batch_of(table, WEIGHTS), MODEL.prepare(params, None, None)
    stats, _ = MODEL.e_step(params, shared, batch, None)
    return {
        "shared": shared,
        "log p": MODEL.log_likelihood(params, shared, batch),
        "stats": stats,
        "completed": MODEL.complete(params, shared, batch),
        "posterior": MODEL.infer(params, shared, batch),
        "objective": MODEL.objective(params, shared, stats),
        "gradient": curved.gradient(params, shared, stats),
        "after": MODEL.update(MODEL.start(params), params, shared, stats, now(0, 1))[1],
    }


@jax.jit
def _of_whole_rows(params, shared, table):
    batch = batch_of(table, WEIGHTS, complete=True)
    stats, _ = MODEL.e_step(params, shared, batch, None)
    return {"shared": shared, "log p": MODEL.log_likelihood(params, shared, batch), "stats": stats}


@pytest.fixture(scope="module")
def found():
    """Parameters, rows with holes, and all that the model says of them, by one program."""
    params, table = network(), rows(holes=0.3)
    with double():
        return params, table, to_numpy(_everything(params, table))


def check_likelihood(params, table, told):
    """Compare with a mixture at the points, and give what each point is to each row."""
    points, scored = told["shared"].points, told["log p"]
    joint = joint_by_hand(by_hand(params, points), table)
    assert len(points) == tuning.LIKELIHOOD_NETS * 2**LOG2
    value = logsumexp(joint, 1) - np.log(joint.shape[1])
    np.testing.assert_allclose(scored.value, value, rtol=1e-10)
    np.testing.assert_allclose(told["stats"].objective.sum(), WEIGHTS @ value, rtol=1e-10)
    each = logsumexp(joint.reshape(len(table), tuning.LIKELIHOOD_NETS, -1), 2) - np.log(2**LOG2)
    np.testing.assert_allclose(scored.deviations, np.exp(each - value[:, None]) - 1, atol=1e-10)
    share = np.exp(joint - logsumexp(joint, 1, keepdims=True))
    p, seen = expit(by_hand(params, points)), (share * WEIGHTS[:, None]).T @ (table != MISSING)
    residual = (share * WEIGHTS[:, None]).T @ (table == 1) - seen * p
    np.testing.assert_allclose(told["stats"].residual, residual, atol=1e-10)
    return share, p


def test_the_likelihood_is_that_of_a_mixture_at_the_points(found):
    params, _, told = found
    posterior, points = told["posterior"], told["shared"].points
    share, p = check_likelihood(*found)
    np.testing.assert_allclose(told["completed"], share @ p, rtol=1e-10)
    mean = share @ points
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9)
    away = points - mean[:, None]
    np.testing.assert_allclose(posterior.covariance, np.einsum("ni,nij,nik->njk", share, away, away), atol=1e-9)
    with double():
        whole = to_numpy(_of_whole_rows(params, told["shared"], rows()))
    check_likelihood(params, rows(), whole)


def test_a_mode_is_a_top_with_the_expected_curvature(found):
    params, table, told = found
    mode = told["posterior"].mode

    def height(z):
        f = by_hand(params, z)
        return np.where(table == 1, log_expit(f), np.where(table == 0, log_expit(-f), 0)).sum(1) - 0.5 * (z**2).sum(1)

    for away in (*np.eye(Q) * 0.01, *np.eye(Q) * -0.01):
        assert np.all(height(mode + away) <= height(mode) + 1e-9)
    h = 1e-6 * np.eye(Q)
    slopes = np.stack([(by_hand(params, mode + one) - by_hand(params, mode - one)) / 2e-6 for one in h], -1)
    p = expit(by_hand(params, mode))
    precision = np.eye(Q) + np.einsum("nd,ndi,ndj->nij", (table != MISSING) * p * (1 - p), slopes, slopes)
    np.testing.assert_allclose(told["posterior"].mode_covariance, np.linalg.inv(precision), rtol=1e-6)


def test_the_gradient_is_that_of_differences_of_the_plain_formula(found):
    params, table, told = found
    points = told["shared"].points

    def total():
        return WEIGHTS @ log_p_by_hand(params, table, points, -np.log(len(points)))

    for part, own in zip(jax.tree.leaves(params), jax.tree.leaves(told["gradient"]), strict=True):
        for at in list(np.ndindex(part.shape))[:: max(1, part.size // 4)]:
            before, values = part[at], []
            for change in (1e-5, -1e-5):
                part[at] = before + change
                values.append(total())
            part[at] = before
            assert own[at] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-6, abs=1e-6)


def test_a_prior_pulls_weights_and_no_offsets(found):
    """The objective has the rows' part of the penalty, and an update is a step of the sign of its gradient."""
    params, _, told = found
    part = WEIGHTS.sum() / 24  # of the rows that there will be
    squares = sum(np.sum(x**2) for x in (params.weights, *params.layers))
    wanted = told["stats"].objective.sum() - 0.5 * PRECISION * part * squares
    np.testing.assert_allclose(told["objective"], wanted, rtol=1e-10)
    plain, after = told["gradient"], told["after"]
    pull = eqx.tree_at(
        lambda p: (p.bias, p.offsets), params, jax.tree.map(np.zeros_like, (params.bias, params.offsets))
    )
    for gradient, towards, before, new in zip(*map(jax.tree.leaves, (plain, pull, params, after)), strict=True):
        gradient = gradient - PRECISION * part * towards
        clear = np.abs(gradient) > 1e-4  # steps are followed in float32
        np.testing.assert_array_equal(np.sign(new - before)[clear], np.sign(gradient)[clear])


def test_points_are_of_a_standard_normal_and_others_for_every_update():
    with double():
        points = np.asarray(jax.jit(lambda: curved.replicated(curved.Structure(3, (2,), 1024)))())
        draw = jax.jit(lambda p, key: MODEL.prepare(p, None, eqx.tree_at(lambda now: now.key, now(), key)).points)
        first, again, other = (np.asarray(draw(network(), jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_allclose(points.mean(0), 0, atol=0.01)
    np.testing.assert_allclose(np.cov(points.T), np.eye(3), atol=0.02)
    assert first.shape == (2**LOG2, Q)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 0


def test_mean_slopes_are_differences_and_turning_moves_no_bit():
    params, z = network(5), np.random.default_rng(0).normal(size=(7, Q))
    h = 1e-6 * np.eye(Q)
    slopes = np.stack([(by_hand(params, z + one) - by_hand(params, z - one)) / 2e-6 for one in h], -1).mean(0)
    np.testing.assert_allclose(curved.mean_slopes(params, z), slopes, rtol=1e-6, atol=1e-8)
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(Q, Q)))[0]
    np.testing.assert_allclose(by_hand(curved.turned(params, axes), z @ axes), by_hand(params, z), rtol=1e-10)


def test_samples_have_the_probabilities_of_the_model():
    params, n = network(), 20000

    @jax.jit
    def draw(p, key):
        return MODEL.sample(p, MODEL.prepare(p, None, None), jax.random.split(key, n))

    with double():
        drawn = draw(params, jax.random.key(3))
    wanted = np.exp(log_p_by_hand(params, np.array(list(product([0, 1], repeat=D))), *rule()))
    found = np.bincount(np.asarray(drawn).astype(int) @ (1 << np.arange(D)[::-1]), minlength=2**D) / n
    np.testing.assert_allclose(wanted.sum(), 1)
    assert np.all(np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n))


def test_stated_errors_cover():
    """Over 60 nets' worth of other points, errors of single rows and of sums lie within what eight nets say.

    Sums have errors that go together, as all rows have the same points.
    """
    params, table = network(7), rows(40, seed=3)
    truth = log_p_by_hand(params, table, *rule())

    structure = curved.Structure(Q, WIDTHS, 2**LOG2)

    @jax.jit
    def tell(p, key):
        points = jnp.concatenate(
            [curved._points(structure, one) for one in jax.random.split(key, tuning.LIKELIHOOD_NETS)]
        )
        f = curved.logits(p, points)
        shared = curved.Shared(points, jax.nn.log_sigmoid(f), jax.nn.log_sigmoid(-f))
        return MODEL.log_likelihood(p, shared, batch_of(table, complete=True))

    singles, sums = [], []
    with double():
        for seed in range(60):
            found = to_numpy(tell(params, jax.random.key(seed)))
            singles.append((found.value - truth) / found.error)
            sums.append(np.sum(found.value - truth) / curved.error_of_sum(found.deviations, np.ones(len(table))))
    for ratios in (np.concatenate(singles), np.array(sums)):
        assert 0.5 < np.sqrt(np.mean(ratios**2)) < 1.3
        assert np.mean(np.abs(ratios) < 2) > 0.9
