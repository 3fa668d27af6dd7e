"""The E-step of binary sparse coding as a GPU goes about it, against that of a CPU, on a CPU."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding_twin as twin

from latentbits.core import tree
from latentbits.core.batch import make_batch
from latentbits.models.binary_sparse_coding import candidates, kernels, posterior, statistics
from latentbits.models.binary_sparse_coding.model import model
from latentbits.models.binary_sparse_coding.posterior import Params, Way


def chunk(n_causes, max_active, n_candidates, missing, dtype):
    theta = twin.some_theta(n_causes, 9, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2, missing=missing)
    dtype = np.dtype(dtype)
    with tree.rows_in(dtype):
        params = Params(*(jnp.asarray(x, dtype) for x in (theta.components, theta.noise_std, theta.prior, 0.0, 0.0)))
        shared = model(n_causes, max_active, n_candidates).prepare(params, None, None)
        rows = jnp.asarray(X, dtype), jnp.uint32(0), jnp.uint32(67), jax.random.key(0)
        return params, shared, make_batch(*rows, missing == 0, dtype)


@pytest.mark.parametrize(("n_causes", "max_active", "n_candidates", "missing"), [(30, 3, 5, 0.3), (5, 5, 5, 0.0)])
def test_the_axis_of_the_rows_does_not_matter(n_causes, max_active, n_candidates, missing):
    states = posterior.state_table(n_candidates, max_active)
    given = chunk(n_causes, max_active, n_candidates, missing, np.float64)
    with tree.double():
        one, other = (jax.jit(partial(statistics._sums, states, Way(axis)))(*given) for axis in (0, 1))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10), one, other)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_kernels_do_what_plain_code_does(missing, monkeypatch):
    states = posterior.state_table(6, 4)
    given = chunk(40, 4, 6, missing, np.float32)
    plain = jax.jit(partial(statistics._sums, states, Way(1)))(*given)
    for name in ("select", "sum_states"):
        monkeypatch.setattr(kernels, name, partial(getattr(kernels, name), interpret=True))
    fused = jax.jit(partial(statistics._sums, states, Way(1, None, cuda=True)))(*given)
    np.testing.assert_allclose(fused.free_energy.sum(), plain.free_energy.sum(), rtol=1e-5)
    for name in ("s", "ss", "sy", "residuals"):
        np.testing.assert_allclose(getattr(fused, name), getattr(plain, name), atol=2e-4)


def test_candidates_are_the_causes_of_highest_score():
    rng = np.random.default_rng(0)
    match, norms = rng.normal(size=(50, 41)).astype(np.float32), rng.random((1, 41)).astype(np.float32)
    norms[0, 3] = 0.0  # a component of norm 0 matches nothing
    score = np.where(norms > 0, match / np.sqrt(np.where(norms > 0, norms, 1)), -np.inf)
    best = np.argsort(-score, 1)[:, :4]
    slope, offset = jnp.asarray(2.0), jnp.asarray(-1.0)
    lone = 2 * (match.astype(float) - 0.5 * norms) - 1
    np.put_along_axis(lone, best, -np.inf, 1)
    others = np.log(np.exp(lone).sum(1, keepdims=True))
    given = jnp.asarray(match), jnp.asarray(norms), slope, offset, 4
    for found in (candidates.select(*given, axis=1), kernels.select(*given, interpret=True)):
        np.testing.assert_array_equal(found.candidates, best)
        np.testing.assert_allclose(found.top + np.log(found.total), others, rtol=1e-5)


def test_sums_over_states_are_exact_in_float32():
    states = posterior.state_table(6, 4)
    x = 5 * np.random.default_rng(0).normal(size=(70, states.features.shape[1])).astype(np.float32)
    top, sums = kernels.sum_states(states.features, jnp.asarray(x), interpret=True)
    energy = x.astype(float) @ states.features.T
    weight = np.exp(energy - energy.max(1, keepdims=True))
    np.testing.assert_allclose(top, energy.max(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(sums, weight @ np.pad(states.features, ((0, 0), (0, 1)), constant_values=1), atol=1e-5)
