"""Exact EM by secants: its gradient against automatic derivatives, and where it ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np
import pytest

from latentbits import NoisyOrNetwork
from latentbits.core.tree import double
from latentbits.models.noisy_or import accelerated_em, enumeration, learning


def test_the_gradient_is_that_of_the_posterior():
    """By theta, of log p(x) and of the prior, with holes, in two layers."""
    network = examples.some_network((5, 3, 2), seed=1)
    x, _ = examples.draw(network, 40, missing=0.2)
    seen = ~np.isnan(x)

    @jax.jit
    def both(params, x, seen):
        angles = jax.tree.map(lambda w: 2 * jnp.arcsin(jnp.sqrt(-jnp.expm1(-w))), params)

        def value(angles):
            params = jax.tree.map(lambda t: -2 * jnp.log(jnp.cos(t / 2)), angles)
            rows = enumeration.log_evidence(params, enumeration.log_prior(params), x, seen)
            return rows.sum() + learning.log_prior_density(params, 1.7, 1.5)

        found, _ = enumeration.expected_statistics(params, enumeration.log_prior(params), x, seen, jnp.ones(len(x)))
        credit, bias_credit = (
            tuple(-jnp.expm1(-w) * c for w, c in zip(of, credits))
            for of, credits in ((params.weights, found.credits), (params.biases, found.bias_credits))
        )
        trees = params, (found.counts, found.bias_counts), (credit, bias_credit), jax.grad(value)(angles)
        flat = [jnp.concatenate([part.ravel() for part in jax.tree.leaves(tree)]) for tree in trees]
        return accelerated_em.gradient(*flat[:3], 1.7, 1.5), flat[3]

    with double():
        rows = jnp.asarray(np.nan_to_num(x)), jnp.asarray(seen.astype(float))
        found, slopes = both(examples.as_params(network), *rows)
        np.testing.assert_allclose(found, slopes, rtol=1e-7, atol=1e-7)


@pytest.mark.slow("two fits until they have converged")
def test_it_arrives_and_tells_what_is_left():
    """A fit that has converged is no more than the tolerance from where a far stricter one ends, on the same way."""
    network = examples.some_network((12, 4), seed=1, scale=1.5)
    x, _ = examples.draw(network, 600, seed=1)
    usual, strict = (
        NoisyOrNetwork((4,), tol=tol, max_iter=5000, random_state=0, dtype="float64").fit(x) for tol in (1e-6, 1e-9)
    )
    assert usual.converged_
    assert usual.left_to_gain_ <= 600 * 1e-6
    assert 0 <= strict.history_[-1] - usual.history_[-1] <= 600 * 1e-6
