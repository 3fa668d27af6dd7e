"""EM over a sample of the latents, against the paper's equation 3."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from tests.models.steps import batch_of
from traits import by_row, parameters, simulate

from latentbits.core.batch import MISSING
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_trait import equations, sampling


def test_sampling_em_is_equation_3():
    """Responsibilities and log-likelihood over the sample; the M-step is a weighted logistic regression."""
    table, w, b = simulate(80, 4, 2, missing=0.2)
    samples, weights, precision = sampling.prior_sample(40, 2), np.random.default_rng(0).integers(0, 3, 80) * 1.0, 0.5

    @jax.jit
    def step(params):
        shared = sampling.prepare(params, samples)
        stats, _ = sampling.e_step(params, shared, batch_of(table, weights), None)
        value = sampling.log_likelihoods(shared, batch_of(table))
        return stats, value, sampling.regress(params, stats, samples, precision, False, jnp.asarray(jnp.inf))

    with double():
        stats, value, new = to_numpy(step(parameters(w, b)))
    rows = by_row(lambda t, w, b: equations.row_given(t, samples, w, b), table, w, b)
    expected = by_row(lambda t, w, b: equations.likelihood_by_sample(t, samples, w, b), table, w, b)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(stats.objective.sum(), weights @ value)
    share = np.exp(rows - np.log(40) - expected[:, None]) * weights[:, None]
    np.testing.assert_allclose(stats.members, share.sum(0))
    np.testing.assert_allclose(stats.ones, share.T @ (table == 1))
    np.testing.assert_allclose(stats.observed, share.T @ (table != MISSING))
    # at the M-step's answer the gradient of the expected log-likelihood and of the prior vanishes
    error = stats.ones - stats.observed * equations.probability(samples, new.weights, new.bias)
    np.testing.assert_allclose(error.T @ samples, precision * new.weights, atol=1e-6)
    np.testing.assert_allclose(error.sum(0), 0, atol=1e-6)
