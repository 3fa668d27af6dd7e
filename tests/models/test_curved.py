"""The curved surface against plain formulas: a mixture at the points, its gradient, its errors."""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.model import Progress
from latentbits.engines.fit import seed_key
from latentbits.models.latent_trait import curved
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.kinds import Params as Straight

FLOAT64 = np.dtype(np.float64)
Q, D, WIDTHS, LOG2 = 2, 5, (4, 3), 5
MODEL = curved.model(Q, WIDTHS, LOG2)


def network(seed=0, bend=1.0):
    rng = np.random.default_rng(seed)
    sizes = (Q, *WIDTHS, D)
    layers = [rng.normal(size=shape) for shape in pairwise(sizes)]
    layers[-1] *= bend
    offsets = [rng.normal(size=width) for width in WIDTHS]
    with tree.double():
        own = jax.tree.map(jnp.asarray, (rng.normal(size=(D, Q)), rng.normal(size=D), tuple(layers), tuple(offsets)))
        return tree.to_numpy(curved.Params(*own))


def rows(n=12, seed=1, holes=0.0):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (n, D)).astype(np.uint8)
    table[rng.random((n, D)) < holes] = MISSING
    return table


def batch_of(table, weights=None):
    n = jnp.uint32(len(table)) if weights is None else jnp.asarray(weights)
    return make_batch(jnp.asarray(table), jnp.uint32(0), n, seed_key(0), not (table == MISSING).any(), FLOAT64)


def by_hand(params, z):
    """f(z), in NumPy."""
    hidden = z
    for layer, offset in zip(params.layers, params.offsets):
        field = hidden @ layer + offset
        hidden = field * expit(field)
    return z @ params.weights.T + params.bias + hidden @ params.layers[-1]


def joint_by_hand(f, table):
    """log P(row | point), missing bits left out."""
    one, zero = (table == 1)[:, None], (table == 0)[:, None]
    return np.where(one, log_expit(f), np.where(zero, log_expit(-f), 0)).sum(2)


def asked(function, params, *given):
    """A function of a record with the fixed points of use, in float64."""
    with tree.double():
        params = jax.tree.map(jnp.asarray, params)
        shared = MODEL.prepare(params, None, None)
        return tree.to_numpy(jax.jit(function)(params, shared, *given)), tree.to_numpy(shared)


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_likelihood_is_that_of_a_mixture_at_the_points(holes):
    params, table = network(), rows(holes=holes)
    with tree.double():
        found, shared = asked(MODEL.log_likelihood, params, batch_of(table))
        filled, _ = asked(MODEL.complete, params, batch_of(table))
        posterior, _ = asked(MODEL.infer, params, batch_of(table))
    joint = joint_by_hand(by_hand(params, shared.points), table)
    assert len(shared.points) == curved.REPLICATES * 2**LOG2
    np.testing.assert_allclose(found.value, logsumexp(joint, 1) - np.log(joint.shape[1]), rtol=1e-10)
    each = logsumexp(joint.reshape(len(table), curved.REPLICATES, -1), 2) - np.log(2**LOG2)
    np.testing.assert_allclose(found.deviations, np.exp(each - found.value[:, None]) - 1, atol=1e-10)
    share = np.exp(joint - logsumexp(joint, 1, keepdims=True))
    np.testing.assert_allclose(filled, share @ expit(by_hand(params, shared.points)), rtol=1e-10)
    mean = share @ shared.points
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-9)
    away = shared.points - mean[:, None]
    np.testing.assert_allclose(posterior.covariance, np.einsum("ni,nij,nik->njk", share, away, away), atol=1e-9)


def test_the_points_are_of_a_standard_normal():
    with tree.double():
        points = np.asarray(curved.replicated(curved.Structure(3, (2,), 1024)))
    np.testing.assert_allclose(points.mean(0), 0, atol=0.01)
    np.testing.assert_allclose(np.cov(points.T), np.eye(3), atol=0.02)


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_the_gradient_is_that_of_the_plain_formula(holes):
    """From sums at the points, against JAX's derivative of the log-likelihood, and against differences."""
    params, table, weights = network(2), rows(9, holes=holes), np.array([1, 2, 0, 1, 1, 3, 1, 0.5, 1.0])
    with tree.double():
        params = jax.tree.map(jnp.asarray, params)
        shared = MODEL.prepare(params, None, None)
        stats, _ = MODEL.e_step(params, shared, batch_of(table, weights), None)
        found = curved.gradient(params, shared, stats)

        def total(p):
            f = curved.logits(p, shared.points)
            one, zero = jnp.asarray(table == 1)[:, None], jnp.asarray(table == 0)[:, None]
            joint = jnp.where(one, jax.nn.log_sigmoid(f), jnp.where(zero, jax.nn.log_sigmoid(-f), 0)).sum(2)
            return weights @ (jax.nn.logsumexp(joint, axis=1) - jnp.log(joint.shape[1]))

        expected = jax.grad(total)(params)
        np.testing.assert_allclose(stats.objective.sum(), total(params), rtol=1e-12)
        step = 1e-5
        moved = [eqx.tree_at(lambda p: p.layers[0], params, params.layers[0].at[0, 1].add(by)) for by in (step, -step)]
        difference = (total(moved[0]) - total(moved[1])) / (2 * step)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.layers[0][0, 1], difference, rtol=1e-6)


def test_without_bends_it_is_the_linear_model():
    """The same likelihood, to the stated error, and the same mode."""
    params, table = network(3, bend=0.0), rows(30)
    fine, straight = curved.model(Q, WIDTHS, 12), latent_trait.model(Q)
    with tree.double():
        params = jax.tree.map(jnp.asarray, params)
        found = fine.log_likelihood(params, fine.prepare(params, None, None), batch_of(table))
        peaks = asked(MODEL.infer, params, batch_of(table))[0]
        linear = Straight(params.weights, params.bias, *(jnp.zeros(0),) * 3)
        expected = straight.log_likelihood(linear, straight.prepare(linear, None, None), batch_of(table))
        known = straight.infer(linear, straight.prepare(linear, None, None), batch_of(table))
        found, expected, known = map(tree.to_numpy, (found, expected, known))
    off = np.abs(found.value - expected.value)
    assert off.max() < 0.01
    assert np.all(off < 5 * found.error + expected.error + 1e-9)
    np.testing.assert_allclose(peaks.mode, known.mode, atol=1e-4)
    np.testing.assert_allclose(peaks.mode_covariance, known.mode_covariance, atol=1e-4)


def test_a_mode_is_a_top():
    params, table = network(4), rows(20, holes=0.2)
    with tree.double():
        mode = asked(MODEL.infer, params, batch_of(table))[0].mode

    def height(z):
        f = by_hand(params, z)
        told = np.where(table == 1, log_expit(f), np.where(table == 0, log_expit(-f), 0))
        return told.sum(1) - 0.5 * (z**2).sum(1)

    for away in (np.eye(Q) * 0.01).tolist() + (np.eye(Q) * -0.01).tolist():
        assert np.all(height(mode + away) <= height(mode) + 1e-9)


def test_mean_slopes_are_derivatives_and_turning_moves_no_bit():
    params, z = network(5), np.random.default_rng(0).normal(size=(7, Q))
    with tree.double():
        slopes = jax.vmap(jax.jacfwd(lambda z: curved.logits(params, z[None])[0]))(jnp.asarray(z)).mean(0)
    np.testing.assert_allclose(curved.mean_slopes(params, z), slopes, rtol=1e-10)
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(Q, Q)))[0]
    np.testing.assert_allclose(by_hand(curved.turned(params, axes), z @ axes), by_hand(params, z), rtol=1e-10)


def test_points_are_drawn_anew_for_every_update():
    def points(seed):
        progress = Progress(jnp.asarray(0), jnp.asarray(5), jnp.asarray(0), seed_key(seed))
        return np.asarray(MODEL.prepare(jax.tree.map(jnp.asarray, network()), None, progress).points)

    with tree.double():
        assert points(0).shape == (2**LOG2, Q)
        np.testing.assert_array_equal(points(0), points(0))
        assert np.abs(points(0) - points(1)).min() > 0


def test_a_prior_pulls_weights_and_no_offsets():
    """The objective of parts of a table adds up, and its gradient is what an update follows: a step of its sign."""
    model = curved.model(Q, WIDTHS, LOG2, weight_prior=0.5, n_epochs=1, n_blocks=1, batch_size=8, rate=1e-3, n_rows=8.0)
    table, whole = rows(8), []
    with tree.double():
        params = jax.tree.map(jnp.asarray, network(6))
        shared = model.prepare(params, None, None)
        for part in (table, table[:3], table[3:]):
            stats, _ = model.e_step(params, shared, batch_of(part), None)
            whole.append(float(model.objective(params, shared, stats)))
        stats, _ = model.e_step(params, shared, batch_of(table), None)
        plain = curved.gradient(params, shared, stats)
        now = Progress(jnp.asarray(0), jnp.asarray(1), jnp.asarray(0), seed_key(0))
        _, ahead = model.update(model.start(params), params, shared, stats, now)
        squares = sum(float(jnp.sum(x**2)) for x in (params.weights, *params.layers))
    np.testing.assert_allclose(whole[0], whole[1] + whole[2], rtol=1e-10)
    np.testing.assert_allclose(whole[0], np.asarray(stats.objective).sum() - 0.5 * 4.0 * squares, rtol=1e-10)
    plain, params, ahead = map(tree.to_numpy, (plain, params, ahead))
    pulled = [plain.weights - 4.0 * params.weights, *(g - 4.0 * w for g, w in zip(plain.layers, params.layers))]
    for gradient, before, after in zip(
        [*pulled, plain.bias, *plain.offsets],
        [params.weights, *params.layers, params.bias, *params.offsets],
        [ahead.weights, *ahead.layers, ahead.bias, *ahead.offsets],
    ):
        clear = np.abs(gradient) > 1e-4  # steps are followed in float32
        np.testing.assert_array_equal(np.sign(after - before)[clear], np.sign(gradient)[clear])


def test_stated_errors_cover():
    """Of 60 nets' worth of other points, errors of single rows and of sums lie within what eight nets say.

    Sums have errors that go together, as all rows have the same points.
    """
    params, table = network(7), rows(40, seed=3)
    structure = curved.Structure(Q, WIDTHS, 2**LOG2)
    with tree.double():
        truth = logsumexp(joint_by_hand(by_hand(params, np.asarray(curved.replicated(
            curved.Structure(Q, WIDTHS, 2**13), 99))), table), 1) - np.log(curved.REPLICATES * 2**13)  # fmt: skip
        tell = jax.jit(MODEL.log_likelihood)
        params = jax.tree.map(jnp.asarray, params)
        singles, sums = [], []
        for seed in range(60):
            points = curved.replicated(structure, seed)
            f = curved.logits(params, points)
            found = tell(params, curved.Shared(points, jax.nn.log_sigmoid(f), jax.nn.log_sigmoid(-f)), batch_of(table))
            singles.append((np.asarray(found.value) - truth) / np.asarray(found.error))
            error = curved.error_of_sum(np.asarray(found.deviations), np.ones(len(table)))
            sums.append(float(np.sum(np.asarray(found.value) - truth)) / error)
    for ratios in (np.concatenate(singles), np.array(sums)):
        assert 0.5 < np.sqrt(np.mean(ratios**2)) < 1.3
        assert np.mean(np.abs(ratios) < 2) > 0.9
