"""Answers of a clipped Gaussian with noise about missing bits, against its own likelihoods."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import draw, given, weights_of
from scipy.special import log_ndtr, ndtr

from latentbits.core import tree
from latentbits.core.batch import Batch
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian.use import use_of

N = 32


@cache
def functions():
    use = use_of("unique", "importance")
    return jax.jit(use.log_likelihood), jax.jit(use.complete)


def batch(signs):
    ones, seen = jnp.asarray((signs > 0) * 1.0), jnp.asarray(np.abs(signs))
    return Batch(ones, seen, jnp.ones(N), jnp.arange(N, dtype=np.uint32), seed_key(0))


def answers(weights, phi, psi):
    """P(bit 0 is 1) of rows that do not have it, by `complete` and as a ratio of likelihoods with its error."""
    _, signs = draw(weights, phi, psi, N)
    signs[: N // 2, 1::2] = 0
    signs[:, 0], signs[0] = 0, 0
    on = signs.copy()
    on[:, 0] = 1
    with tree.double():
        params, shared = given(weights, phi, psi)
        log_likelihood, complete = functions()
        a, b = (log_likelihood(params, shared, batch(x)) for x in (signs, on))
        filled = np.asarray(complete(params, shared, batch(signs)))
    ratio = np.exp(np.asarray(b.value) - np.asarray(a.value))
    np.testing.assert_allclose(filled[0], ndtr(phi), atol=1e-6)  # nothing is known of this row
    return filled[:, 0], ratio, ratio * np.hypot(*(np.asarray(x.error) for x in (a, b)))


@pytest.mark.parametrize("communality", [0.5, 0.9, 0.995])
def test_what_is_hidden_is_the_ratio_of_two_likelihoods(communality):
    """One factor, up to columns that it determines: exactly, where expectation propagation was off by .04."""
    filled, ratio, _ = answers(*weights_of(6, 1, low=communality, high=communality))
    np.testing.assert_allclose(filled, ratio, atol=1e-8)


@pytest.mark.slow("both ways are compiled")
@pytest.mark.parametrize(("d", "q", "high"), [(8, 4, 0.97), (6, 3, 0.995)])
def test_points_say_of_missing_bits_what_they_say_of_rows(d, q, high):
    """By importance sampling the two are equal but for the errors of both, of which that of `complete` is not told."""
    filled, ratio, error = answers(*weights_of(d, q, low=0.9, high=high))
    assert np.all(np.abs(filled - ratio) < 5 * error + 0.01)
    assert np.median(error) < 0.02


@pytest.mark.slow("expectation propagation and points are compiled for many columns")
def test_rows_with_few_observed_of_many_columns():
    """Five of 50 observed, by a dense rule: expectation propagation was off by .04, as with five columns in all."""
    weights, phi, psi = weights_of(50, 2, low=0.9, high=0.9)
    _, signs = draw(weights, phi, psi, N)
    signs[:, 5:] = 0
    with tree.double():
        filled = np.asarray(functions()[1](*given(weights, phi, psi), batch(signs)))
    line = np.linspace(-6, 6, 121)
    y = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    x = (phi + y @ weights.T) / np.sqrt(psi)
    share = np.exp(log_ndtr(signs[:, None, :5] * x[:, :5]).sum(2) - 0.5 * (y**2).sum(1))
    expected = (share / share.sum(1, keepdims=True)) @ ndtr(x)
    np.testing.assert_allclose(filled[:, 5:], expected[:, 5:], atol=0.01)
