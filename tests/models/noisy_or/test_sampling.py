"""Answers of Gibbs chains against sums over all states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np

from latentbits.core.batch import Batch
from latentbits.core.tree import rows_in
from latentbits.models.noisy_or import sampling


def test_posterior_means_and_completions():
    """Many copies of three rows, one with holes, one with nothing seen: their mean is within 5 standard errors.

    Copies have chains of their own, so the error is known from their spread; the false-alarm rate is below 1e-4 in all.
    """
    copies = 200
    network = examples.some_network((5, 3, 2), seed=2)
    rows = np.array([[1.0, 0, 1, 1, 0], [np.nan, 1, 0, np.nan, 1], [np.nan] * 5])
    x = np.repeat(rows, copies, axis=0)
    with rows_in(np.dtype(np.float32)):
        parts = (a.astype(np.float32) for a in (np.nan_to_num(x), ~np.isnan(x), np.ones(len(x))))
        numbers = jnp.asarray(np.arange(len(x)), "uint32")
        batch = Batch(*map(jnp.asarray, parts), numbers, jax.random.key(0))
        means, bits = jax.jit(sampling.sampled_means)(examples.as_params(network, np.float32), batch)
    found = np.concatenate([*means, bits]).reshape(-1, 3, copies)
    exact = np.concatenate([*examples.posterior_means(network, rows), examples.completion(network, rows)], axis=1).T
    error = found.std(2) / np.sqrt(copies)
    assert (np.abs(found.mean(2) - exact) < 5 * error + 1e-6).all()
    assert error.max() < 0.01
