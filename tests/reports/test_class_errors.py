"""Standard errors of classes against numerical derivatives of the log-likelihood, and by simulation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from latentbits.core.batch import MISSING, make_batch
from latentbits.core.tree import double
from latentbits.models.mixture import newton
from latentbits.reports.class_errors import class_errors, information
from latentbits.reports.classes import shares_of
from latentbits.reports.information import inverse_on, moving, wald
from latentbits.reports.patterns import distinct

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[0.9, 0.7, 0.2, 0.6, 0.8], [0.2, 0.3, 0.8, 0.1, 0.4], [0.6, 0.1, 0.1, 0.9, 0.3]])
K, D = MEANS.shape
NOTHING_HELD = np.zeros((K, 1 + D), bool)


def drawn(n=200, missing=0.0):
    rng = np.random.default_rng(0)
    bits = (rng.random((n, D)) < MEANS[rng.choice(K, n, p=WEIGHTS)]).astype(np.uint8)
    bits[rng.random(bits.shape) < missing] = MISSING
    return bits


def objective(at, bits, smoothing):
    """Log-likelihood as a function of (w, m) of each class, shares as they are; with the prior of smoothing."""
    at = at.reshape(K, 1 + D)
    w, m = at[:, 0], at[:, 1:]
    X, seen = (bits == 1).astype(float), bits != MISSING
    terms = np.where(seen[:, None], np.where(bits[:, None] == 1, np.log(m), np.log1p(-m)), 0).sum(2) + np.log(w)
    base = (X.sum(0) + smoothing / 2) / (seen.sum(0) + smoothing)
    prior = np.log(w).sum() + (base * np.log(m) + (1 - base) * np.log1p(-m)).sum()
    return logsumexp(terms, axis=1).sum() + smoothing * prior


def hessian(f, at, h=1e-4):
    size = len(at)
    out, e = np.zeros((size, size)), h * np.eye(size)
    for i in range(size):
        for j in range(size):
            out[i, j] = f(at + e[i] + e[j]) - f(at + e[i] - e[j]) - f(at - e[i] + e[j]) + f(at - e[i] - e[j])
    return out / (4 * h * h)


@pytest.mark.parametrize(("missing", "smoothing"), [(0, 0.0), (0.3, 0.0), (0.3, 2.0)])
def test_information_against_numerical_derivatives(missing, smoothing):
    bits = drawn(60, missing)
    at = np.concatenate([WEIGHTS[:, None], MEANS], 1).ravel()
    found = information(distinct([(bits, None)]), WEIGHTS, MEANS, NOTHING_HELD, smoothing).matrix
    np.testing.assert_allclose(found, -hessian(lambda x: objective(x, bits, smoothing), at), atol=0.01)


def test_information_is_that_of_newtons_method():
    """The same rows, in the coordinates in which the model learns: scores differ by a factor each."""
    bits = drawn(40, 0.2)
    bits = bits[(bits != MISSING).any(1)]
    with double():
        log_one, log_zero = jnp.log(jnp.asarray(MEANS)), jnp.log1p(-jnp.asarray(MEANS))
        first, n = jnp.uint32(0), jnp.uint32(len(bits))
        batch = make_batch(jnp.asarray(bits), first, n, jax.random.key(0), False, np.dtype(float))
        share = jnp.asarray(shares_of(bits, WEIGHTS, MEANS)[0])
        missing = newton.missing_information(jnp.log(jnp.asarray(WEIGHTS)), log_one - log_zero, share, batch)
    unit = np.concatenate([np.sqrt(WEIGHTS)[:, None], np.sqrt(MEANS * (1 - MEANS))], 1).ravel()
    found = information(distinct([(bits, None)]), WEIGHTS, MEANS, NOTHING_HELD).matrix
    off = ~np.eye(len(unit), dtype=bool)  # complete information is diagonal
    np.testing.assert_allclose((found * np.outer(unit, unit))[off], -np.asarray(missing)[off], atol=1e-9)


def test_one_class_is_the_error_of_a_proportion():
    bits = drawn(100, 0.2)
    seen = (bits != MISSING).sum(0)
    p = (bits == 1).sum(0) / seen
    found = class_errors(distinct([(bits, None)]), np.ones(1), p[None], list("abcde"))
    np.testing.assert_allclose(found.means[0], np.sqrt(p * (1 - p) / seen))
    assert (found.weights[0], found.weights_low[0], found.weights_high[0]) == (0, 1, 1)
    assert found.notes == ()


def maximum(bits, k=2, n_iter=4000, weights=None, smoothing=0.0):
    """Plain EM."""
    rng = np.random.default_rng(1)
    rows = distinct([(bits, weights)])
    w, m = np.full(k, 1 / k), rng.uniform(0.2, 0.8, (k, bits.shape[1]))
    one, seen = (rows.bits == 1).astype(float), rows.bits != MISSING
    base = (rows.counts @ one + smoothing / 2) / (rows.counts @ seen + smoothing)
    for _ in range(n_iter):
        share = rows.counts[:, None] * shares_of(rows.bits, w, m)[0]
        w = (share.sum(0) + smoothing) / (share.sum() + smoothing * k)
        m = (share.T @ one + smoothing * base) / (share.T @ seen + smoothing)
    return rows, w, m


def test_two_classes_that_are_surely_distinguished():
    """Then errors are those of proportions in each class."""
    rng = np.random.default_rng(0)
    of = np.arange(100) < 40
    bits = np.concatenate([np.repeat(of[:, None], 30, 1), rng.random((100, 2)) < 0.5], 1).astype(np.uint8)
    means = np.array([np.append(np.ones(30), bits[of, 30:].mean(0)), np.append(np.zeros(30), bits[~of, 30:].mean(0))])
    found = class_errors(distinct([(bits, None)]), np.array([0.4, 0.6]), means, [f"c{j}" for j in range(32)])
    np.testing.assert_allclose(found.weights, np.sqrt(0.24 / 100))
    p = means[:, 30:]
    np.testing.assert_allclose(found.means[:, 30:], np.sqrt(p * (1 - p) / np.array([[40], [60]])))
    assert np.isnan(found.means[:, :30]).all()
    assert "60 probabilities are at 0 or 1" in found.notes[0]
    assert "and 55 more" in found.notes[0]
    assert found.covariance[0, 1] == pytest.approx(-0.24 / 100)
    places = 2 + 32 + 30  # the first class's are over
    assert found.covariance[places, places] == pytest.approx(found.means[1, 30] ** 2)
    assert "class 2: c31" in str(found)


def test_intervals_are_symmetric_in_log_odds():
    rows, w, m = maximum(drawn())
    wide, narrow = (class_errors(rows, w, m, list("abcde"), level=level) for level in (0.95, 0.5))
    free = np.isfinite(wide.means)
    log_odds = np.log(m[free] / (1 - m[free]))
    low, high = (np.log(e[free] / (1 - e[free])) for e in (wide.means_low, wide.means_high))
    np.testing.assert_allclose((low + high) / 2, log_odds)
    np.testing.assert_allclose(high - log_odds, 1.959964 * wide.means[free] / (m * (1 - m))[free], rtol=1e-6)
    assert (narrow.weights_low > wide.weights_low).all()


def test_what_learning_pulls_to_its_bound_is_held():
    """EM that was stopped on the way to 0, where it goes by a factor a pass."""
    rng = np.random.default_rng(3)
    of = rng.random(300) < 0.5
    bits = (rng.random((300, 6)) < np.where(of[:, None], 0.8, 0.2)).astype(np.uint8)
    bits[:, 5] &= bits[:, :5].sum(1) >= 4  # only in rows that are surely of the first class
    rows, w, m = maximum(bits, n_iter=4000)
    assert m.min() < 1e-5
    near = np.where(m < 1e-5, 1e-3, m)
    full, stopped = (class_errors(rows, w, at, list("abcdef")) for at in (m, near))
    assert np.isnan(full.means).sum() == 1
    np.testing.assert_allclose(stopped.means, full.means, rtol=0.02)
    assert "class" in stopped.notes[0]


def test_an_empty_class():
    rows, w, m = maximum(drawn())
    found = class_errors(rows, np.append(w, 0.0), np.vstack([m, m[:1] / 2]), list("abcde"))
    two = class_errors(rows, w, m, list("abcde"))
    np.testing.assert_allclose(found.weights[:2], two.weights)
    np.testing.assert_allclose(found.means[:2], two.means)
    assert np.isnan(found.means[2]).all()
    assert np.isnan(found.weights[2])
    assert "no row is of class 3" in found.notes[0]


def test_columns_never_observed():
    bits = drawn()
    bits[:, 2] = MISSING
    rows, w, m = maximum(np.delete(bits, 2, 1))
    found = class_errors(distinct([(bits, None)]), w, np.insert(m, 2, 0.5, axis=1), list("abcde"))
    np.testing.assert_allclose(np.delete(found.means, 2, 1), class_errors(rows, w, m, list("abde")).means)
    assert np.isnan(found.means[:, 2]).all()
    assert "never observed, so without a standard error (NaN): c" in found.notes


def test_more_classes_than_data_can_tell():
    bits = drawn()[:, :3]
    found = class_errors(distinct([(bits, None)]), WEIGHTS, MEANS[:, :3], list("abc"))  # 8 patterns, 11 parameters
    assert np.isnan(found.weights).all()
    assert "singular" in found.notes[-1]


def test_weights():
    bits = drawn(150)
    weights = np.random.default_rng(1).integers(1, 4, 150).astype(float)
    rows, w, m = maximum(bits, weights=weights)
    written, *_ = maximum(np.repeat(bits, weights.astype(int), 0), n_iter=0)
    names = list("abcde")
    np.testing.assert_allclose(class_errors(rows, w, m, names).means, class_errors(written, w, m, names).means)
    # of a sample in any unit, errors do not depend on the unit; of counts they do
    tenfold = rows._replace(counts=10 * rows.counts, squares=100 * rows.squares)
    one, ten = (class_errors(r, w, m, names, sampling=True) for r in (rows, tenfold))
    np.testing.assert_allclose(one.means, ten.means)
    np.testing.assert_allclose(
        class_errors(tenfold, w, m, names).means, class_errors(rows, w, m, names).means / 10**0.5
    )
    assert "sandwich" in one.notes[-1]


def test_sandwich_of_one_class_is_that_of_a_weighted_mean():
    bits, weights = drawn(100), np.random.default_rng(1).uniform(0.5, 2, 100)
    p = weights @ bits / weights.sum()
    found = class_errors(distinct([(bits, weights)]), np.ones(1), p[None], list("abcde"), sampling=True)
    np.testing.assert_allclose(found.means[0], np.sqrt(weights**2 @ (bits - p) ** 2) / weights.sum())


def test_smoothing_adds_its_information():
    rows, w, m = maximum(drawn(), smoothing=0.5)
    with_prior, without = (class_errors(rows, w, m, list("abcde"), smoothing=s) for s in (0.5, 0.0))
    assert (with_prior.weights < without.weights).all()
    assert "smoothing=0.5" in with_prior.notes[-1]


def test_directions_and_wald():
    free = np.array([True, True, False, True, True])
    basis = moving(free, [np.array([0, 1, 2])])
    assert basis.shape == (5, 3)
    np.testing.assert_array_equal(basis[2], 0)
    np.testing.assert_array_equal(basis[:3].sum(0), 0)
    assert inverse_on(np.ones((2, 2)), np.eye(2)) is None
    statistic, df = wald(np.array([1.0, 2.0]), np.diag([1.0, 4.0]))
    assert (statistic, df) == (pytest.approx(2.0), 2)
    assert np.isnan(wald(np.array([1.0]), np.array([[np.nan]]))[0])
