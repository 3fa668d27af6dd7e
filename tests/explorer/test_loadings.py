"""Standard errors of loadings: those of the likelihood's own curvature, and intervals that hold what they say."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from contents import log_joint, placed
from scipy.special import logsumexp

from latentbits.estimators.families import family
from latentbits.explorer import loadings
from latentbits.explorer.loadings import information_of, loading_errors
from latentbits.explorer.map_content import map_of


def orthogonal(weights):
    """The same model, in the rotation that the map has."""
    u, s, _ = np.linalg.svd(weights.T, full_matrices=False)
    return (u * s).T


@cache
def drawn(n, d):
    rng = np.random.default_rng(1)
    weights, bias = orthogonal(1.5 * rng.normal(size=(2, d))), rng.normal(size=d) * 0.5
    chances = 1 / (1 + np.exp(-rng.normal(size=(n, 2)) @ weights - bias))
    bits = (rng.random((n, d)) < chances).astype(float)
    bits[rng.random(bits.shape) < 0.1] = np.nan
    return weights, bias, bits


def curvature(weights, bias, bits, counts):
    """Minus the second differences of the log-likelihood, over (w_1, b_1, w_2, ...)."""
    start = np.column_stack([weights.T, bias]).ravel()

    def value(theta):
        own = theta.reshape(-1, 3)
        return counts @ logsumexp(log_joint(own[:, :2].T, own[:, 2], bits), axis=1)

    n, h = len(start), 1e-3
    steps = h * np.eye(n)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            corners = [a * b * value(start + a * steps[i] + b * steps[j]) for a in (1, -1) for b in (1, -1)]
            found[i, j] = found[j, i] = -sum(corners) / (4 * h * h)
    return found


def test_information_is_the_curvature_of_the_likelihood():
    weights, bias, bits = drawn(20, 3)
    counts = np.random.default_rng(2).integers(1, 4, len(bits)).astype(float)
    found = information_of(placed(weights, bias, bits), bits, counts)
    np.testing.assert_allclose(found, curvature(weights, bias, bits, counts), atol=0.01 * np.abs(found).max())


def test_columns_that_no_row_has_seen_change_nothing():
    """Nodes go by what rows have observed: three of sixty columns are three columns."""
    weights, bias, bits = drawn(20, 3)
    more = [(0, 0), (0, 57)]
    wide = np.pad(bits, more, constant_values=np.nan)
    of_wide = information_of(placed(np.pad(weights, more), np.pad(bias, (0, 57)), wide), wide, np.ones(20))
    found = information_of(placed(weights, bias, bits), bits, np.ones(20))
    np.testing.assert_allclose(of_wide[:9, :9], found, rtol=1e-6, atol=1e-6)
    assert not of_wide[9:].any()


def test_errors_of_more_rows_of_some_of_them_and_of_none(monkeypatch):
    """Four times the rows halve them, of very many rows some tell, and where they are undetermined it is said."""
    weights, bias, bits = drawn(600, 10)
    where = placed(weights, bias, bits)
    errors, why = loading_errors(where, bits, None, 600)
    assert why == ""
    assert errors.shape == (2, 10)
    of_more, _ = loading_errors(where, bits, np.full(600, 2.0), 2400)
    np.testing.assert_allclose(of_more, errors / 2, rtol=0.1)  # but for the prior
    assert loading_errors(dataclasses.replace(where, noise=np.ones(10)), bits, None, 600)[1].endswith("bits only")
    assert loading_errors(where, bits[:5], None, 5) == (None, "there are too few rows")
    constant = bits.copy()
    constant[:, 2] = 1
    of_constant, _ = loading_errors(where, constant, None, 600)
    assert np.isnan(of_constant[:, 2]).all()
    assert not np.isnan(np.delete(of_constant, 2, axis=1)).any()
    monkeypatch.setattr(loadings, "MOST_WORK", 1.0)
    monkeypatch.setattr(loadings, "FEWEST_SAMPLED", 450)
    some, why = loading_errors(where, bits, None, 600)
    assert why == ""
    assert not np.array_equal(some, errors)
    np.testing.assert_allclose(some, errors, rtol=0.5)


@pytest.mark.slow("coverage of intervals over 20 tables")
@pytest.mark.optimised
def test_intervals_hold_the_truth_as_often_as_they_say():
    """20 tables of 400 rows and 10 columns: 95 % intervals hold 400 true loadings 91 to 98 times of 100."""
    rng = np.random.default_rng(0)
    truth, bias = orthogonal(rng.normal(size=(2, 10)) * np.array([[1.5], [0.9]])), rng.normal(size=10) * 0.5
    truth *= np.sign(truth.sum(axis=1, keepdims=True))
    held = []
    for seed in range(20):
        chances = 1 / (1 + np.exp(-rng.normal(size=(400, 2)) @ truth - bias))
        bits = (rng.random(chances.shape) < chances).astype(float)
        model = family("latent-trait").new(2, "bits", 10).set_params(random_state=seed).fit(bits)
        where = map_of("2 latent traits", model, bits)
        errors, why = loading_errors(where, bits, None, len(bits))
        assert why == ""
        signs = np.sign((where.weights * truth).sum(axis=1, keepdims=True))
        held.append(np.abs(signs * where.weights - truth) < 1.96 * errors)
    assert 0.91 < np.mean(held) < 0.98
