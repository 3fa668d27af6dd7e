"""The E-step of binary sparse coding as a GPU goes about it, against that of a CPU, on a CPU."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding

from latentbits.core import tree
from latentbits.core.batch import make_batch
from latentbits.models.binary_sparse_coding import candidates, kernels, posterior, statistics
from latentbits.models.binary_sparse_coding.model import model
from latentbits.models.binary_sparse_coding.posterior import Params, Way

STATES = posterior.state_table(6, 4)
THETA = sparse_coding.some_theta(20, 9, seed=1, active=2.0)
X = sparse_coding.draw(THETA, 70, seed=2, missing=0.3)


def sums(way, dtype):
    """Sums over 67 rows with holes, and 3 of padding."""
    dtype = np.dtype(dtype)

    @jax.jit
    def run(params, rows):
        shared = model(20, 4, 6).prepare(params, None, None)
        batch = make_batch(rows, jnp.uint32(0), jnp.uint32(67), jax.random.key(0), False, dtype)
        return statistics._sums(STATES, way, params, shared, batch)

    with tree.rows_in(dtype):
        numbers = THETA.W.T, THETA.sigma, THETA.pi, 0.0, 0.0
        params = Params(*(jnp.asarray(np.asarray(x, dtype)) for x in numbers))
        return jax.tree.map(np.asarray, run(params, jnp.asarray(X.astype(dtype))))


@pytest.mark.slow("kernels of a GPU are interpreted")
def test_sums_by_rows_and_by_kernels_are_those_of_the_equations(monkeypatch):
    one = sums(Way(1), np.float64)
    rows = sparse_coding.infer_all(X[:67], THETA, 4, 6)
    np.testing.assert_allclose(one.free_energy.sum(), sum(row.log_evidence for row in rows), rtol=1e-11)
    np.testing.assert_allclose(one.s, sum(row.mean for row in rows), atol=1e-10)
    np.testing.assert_allclose(one.ss + one.ss.T + np.diag(one.s), sum(row.second for row in rows), atol=1e-10)
    np.testing.assert_allclose(one.sy, sparse_coding.products(X[:67], rows, THETA), atol=1e-9)
    for name in ("select", "sum_states"):
        monkeypatch.setattr(kernels, name, partial(getattr(kernels, name), interpret=True))
    fused = sums(Way(1, None, cuda=True), np.float32)
    np.testing.assert_allclose(fused.free_energy.sum(), one.free_energy.sum(), rtol=1e-5)
    for name in ("s", "ss", "sy", "residuals"):
        np.testing.assert_allclose(getattr(fused, name), getattr(one, name), atol=5e-4)


def test_candidates_are_the_causes_of_highest_score():
    rng = np.random.default_rng(0)
    match, norms = rng.normal(size=(50, 41)).astype(np.float32), rng.random((1, 41)).astype(np.float32)
    norms[0, 3] = 0.0  # a component of norm 0 matches nothing
    score = np.where(norms > 0, match / np.sqrt(np.where(norms > 0, norms, 1)), -np.inf)
    best = np.argsort(-score, 1)[:, :4]
    lone = 2 * (match.astype(float) - 0.5 * norms) - 1
    np.put_along_axis(lone, best, -np.inf, 1)
    others = np.log(np.exp(lone).sum(1, keepdims=True))

    @jax.jit
    def both(*given):
        return candidates.select(*given, 4, axis=1), kernels.select(*given, 4, interpret=True)

    for found in both(*(jnp.asarray(x, "f") for x in (match, norms, 2.0, -1.0))):
        np.testing.assert_array_equal(found.candidates, best)
        np.testing.assert_allclose(found.top + np.log(found.total), others, rtol=1e-5)


def test_sums_over_states_are_exact_in_float32():
    x = 5 * np.random.default_rng(0).normal(size=(70, STATES.features.shape[1])).astype(np.float32)
    top, sums = kernels.sum_states(STATES.features, jnp.asarray(x), interpret=True)
    energy = x.astype(float) @ STATES.features.T
    weight = np.exp(energy - energy.max(1, keepdims=True))
    np.testing.assert_allclose(top, energy.max(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(sums, weight @ np.pad(STATES.features, ((0, 0), (0, 1)), constant_values=1), atol=1e-5)
