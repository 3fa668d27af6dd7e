"""Integrals by as many nodes as columns ask for, against sums over dense grids in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_expit, log_softmax

from latentbits.core.batch import Batch
from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import seed_key
from latentbits.models.latent_trait import column_kinds
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns, Params
from latentbits.models.latent_trait.model import model

N, D = 8, 6
MIXED = Columns((0, 3, 4), (1,), (2, 5), (3, 2))  # 3 + 1 + 2 + 1 outputs
OUTPUTS = {ALL_BITS: D, MIXED: 7}
STEP = {1: 0.001, 2: 0.05, 3: 0.1}
REACH = 6.5


def _parameters(columns, q, scale):
    rng = np.random.default_rng(10 * q)
    w, b = scale * rng.normal(size=(OUTPUTS[columns], q)), 0.5 * scale * rng.normal(size=OUTPUTS[columns])
    w[3, :] /= scale  # of the continuous column, where there is one
    of_reals = (np.full(columns.n_reals, number) for number in (np.log(0.7), 0.2, 1.5))
    with double():
        return to_numpy(Params(*(jnp.asarray(part) for part in (w, b, *of_reals))))


def _rows(columns):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (N, D)).astype(float)
    if columns is MIXED:
        X[:, 1], X[:, 2] = rng.normal(size=N), rng.integers(0, 3, N)
    X[rng.random((N, D)) < 0.4] = np.nan
    X[0] = np.nan
    return X


def _log_p(columns, params, X, z):
    """log p(observed | z) of rows at points, and the means of all outputs there, column by column."""
    eta = z @ params.weights.T + params.bias
    total, means = np.zeros((len(X), len(z))), []
    places = np.arange(D) if columns.binary is None else columns.binary
    output = dict(zip(places, range(D)))
    first = len(places) + columns.n_reals
    for column in range(D):
        x, seen = np.nan_to_num(X[:, column, None]), ~np.isnan(X[:, column, None])
        if column in output:
            a = eta[:, output[column]]
            total += seen * np.where(x == 1, log_expit(a), log_expit(-a))
            means.append(np.exp(log_expit(a)))
        elif column in columns.continuous:
            mean, variance = 0.2 + 1.5 * eta[:, len(places)], 0.7 * 1.5**2
            total += seen * -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)
            means.append(mean)
        else:
            n = columns.n_classes[columns.categorical.index(column)]
            logs = log_softmax(np.column_stack([np.zeros(len(z)), eta[:, first : first + n - 1]]), axis=1)
            total += seen * logs.T[x[:, 0].astype(int)]
            means += list(np.exp(logs.T))
            first += n - 1
    return total, np.array(means).T


def dense(columns, params, X):
    """log p, means of the latents, and means of the outputs."""
    q = params.weights.shape[1]
    line = np.arange(-REACH, REACH + STEP[q] / 2, STEP[q])
    rest = (
        np.stack([g.ravel() for g in np.meshgrid(*[line] * (q - 1), indexing="ij")], 1) if q > 1 else np.zeros((1, 0))
    )
    top, total, sums = np.full(len(X), -np.inf), 0.0, 0.0
    for slab in np.array_split(line, max(1, len(line) * len(rest) // 20_000)):
        z = np.column_stack([np.repeat(slab, len(rest)), np.tile(rest, (len(slab), 1))])
        logs, means = _log_p(columns, params, X, z)
        joint = logs - 0.5 * np.sum(z**2, 1) + q * (np.log(STEP[q]) - 0.5 * np.log(2 * np.pi))
        new = np.maximum(top, joint.max(1))
        share, fade = np.exp(joint - new[:, None]), np.exp(top - new)[:, None]
        top, total, sums = new, total * fade[:, 0] + share.sum(1), sums * fade + share @ np.column_stack([z, means])
    answers = sums / total[:, None]
    return top + np.log(total), answers[:, :q], answers[:, q:]


@pytest.mark.parametrize(
    ("columns", "q", "scale"),
    [
        (MIXED, 1, 16.0),
        pytest.param(MIXED, 2, 4.0, marks=pytest.mark.slow("a grid of two dimensions")),
        pytest.param(ALL_BITS, 3, 4.0, marks=pytest.mark.slow("a grid of three dimensions")),
    ],
)
def test_a_map_tells_what_a_dense_grid_does(columns, q, scale):
    """However steep columns are, observed or hidden; and the error that is stated is not too small."""
    params, X, one = _parameters(columns, q, scale), _rows(columns), model(q, columns=columns)
    value, mean, expected = dense(columns, params, X)
    with double():
        numbers = np.nan_to_num(X), (~np.isnan(X)).astype(float), np.ones(N), np.arange(N, dtype=np.uint32)
        batch = Batch(*(jnp.asarray(part) for part in numbers), seed_key(0))
        ask = jax.jit(lambda p, batch: (one.log_likelihood(p, None, batch), one.complete(p, None, batch)))
        found, filled = jax.tree.map(np.asarray, ask(params, batch))
        guess = np.asarray(column_kinds.best_guess(columns, jnp.asarray(expected)))
    np.testing.assert_allclose(found.value, value, atol=1e-4)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    np.testing.assert_allclose(filled, guess, atol=1e-4)
    assert np.abs(found.value - value).sum() < found.error.sum() + 1e-6
