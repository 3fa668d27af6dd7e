"""Gibbs draws of clipped Gaussians against a dense grid."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_grids import EVERY, D, P, factors, grid_posterior, weights_of

from latentbits.core import tree
from latentbits.engines.fit import seed_key
from latentbits.models.clipped_gaussian.gibbs import gibbs


@pytest.mark.slow("thousands of sweeps")
def test_gibbs_has_the_moments_of_the_posterior():
    signs = EVERY[[3, 12, 27]].copy()
    signs[0, 1] = 0
    small = weights_of(D, P)
    _, mean, covariance = grid_posterior(*small, signs, n=161)
    n, copies = 100, 40
    with tree.double():
        many = jnp.asarray(np.repeat(signs, copies, 0))
        keys = jax.random.split(seed_key(1), len(many))
        run = jax.jit(lambda f, s, k: gibbs(f, s, jnp.zeros((len(s), P)), k, n, 3, 50))
        drawn = np.asarray(run(factors(*small), many, keys)).reshape(3, copies, n, P)
    # chains are independent, so their spread is the error of their mean
    for found, exact in ((drawn, mean), (drawn**2, mean**2 + np.einsum("nii->ni", covariance))):
        chain = found.mean(2)
        assert np.all(np.abs(chain.mean(1) - exact) < 5 * chain.std(1, ddof=1) / np.sqrt(copies))
