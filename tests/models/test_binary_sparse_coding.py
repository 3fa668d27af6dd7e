"""Binary sparse coding against a slow twin that forms s W for every state."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding_twin as twin

from latentbits.core import tree
from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.models.binary_sparse_coding import posterior
from latentbits.models.binary_sparse_coding.model import Params, model

CASES = [(6, 3, 4, 0.0), (6, 3, 4, 0.3), (5, 5, 5, 0.0), (5, 5, 5, 0.3), (7, 1, 3, 0.2), (5, 2, 2, 0.0)]


def params_of(theta):
    return Params(*(jnp.asarray(x) for x in (theta.components, theta.noise_std, theta.prior, 0.0, 0.0)))


def batch_of(X):
    dtype = np.dtype(np.float64)
    key = jax.random.key(0)
    whole = not np.isnan(X).any()
    return make_batch(jnp.asarray(X), jnp.uint32(0), jnp.uint32(len(X)), key, whole, dtype)


def one_step(m, n_candidates, max_active):
    @jax.jit
    def step(params, batch, progress):
        shared = m.prepare(params, None, progress)
        found = posterior.expectations(params, shared, batch, posterior.state_table(n_candidates, max_active))
        stats, _ = m.e_step(params, shared, batch, None)
        return found, stats, m.update(m.start(params), params, shared, stats, progress)[1]

    return step


@pytest.mark.parametrize(("n_causes", "max_active", "n_candidates", "missing"), CASES)
def test_expectations_evidence_and_update_are_those_of_the_twin(n_causes, max_active, n_candidates, missing):
    theta = twin.some_theta(n_causes, 8, seed=1, active=2.0)
    X, _ = twin.draw(theta, 70, seed=2, missing=missing)
    start = twin.some_theta(n_causes, 8, seed=3, noise_std=1.5)
    start = start._replace(components=theta.components + 0.3 * start.components)
    rows = twin.infer_all(X, start, max_active, n_candidates)
    expected = twin.update(X, rows, start, max_active, np.arange(len(X)))
    m = model(n_causes, max_active, n_candidates, parameter_noise=0.0)
    with tree.double():
        params = params_of(start)
        progress = Progress(*(jnp.asarray(k) for k in (0, 60, 0)), jax.random.key(0))
        found, stats, learned = jax.tree.map(
            np.asarray, one_step(m, n_candidates, max_active)(params, batch_of(X), progress)
        )
    np.testing.assert_allclose(found.log_evidence, [r.log_evidence for r in rows], rtol=1e-11)
    np.testing.assert_allclose(found.means.T, [r.mean for r in rows], atol=1e-11)
    second = stats.ss + stats.ss.T + np.diag(stats.s)
    np.testing.assert_allclose(second, sum(r.second for r in rows), atol=1e-10)
    np.testing.assert_allclose(learned.components, expected.components, atol=1e-8)
    np.testing.assert_allclose(learned.noise_std, expected.noise_std, rtol=1e-9)
    np.testing.assert_allclose(learned.prior, expected.prior, rtol=1e-10)
