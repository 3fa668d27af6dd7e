"""Which rows binary sparse coding learns from, and the correction for those it does not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from latentbits.core import tree
from latentbits.models.binary_sparse_coding import selection

histogram, look_ahead = jax.jit(selection.histogram), jax.jit(selection.look_ahead)


@pytest.mark.parametrize(("n", "k", "active"), [(10, 3, 2.0), (700, 8, 120.0), (4, 4, 1.0)])
def test_the_correction_and_the_share_of_rows_are_binomial(n, k, active):
    pi = active / n
    with tree.double():
        share, factor = jax.jit(lambda pi: (selection.share_within(pi, n, k), selection.correction(pi, n, k)))(pi)
    assert float(share) == pytest.approx(binom.cdf(k, n, pi), rel=1e-9)
    # E[number on | at most k], which A pi / B turns into pi
    log_p = binom.logpmf(np.arange(k + 1), n, pi)
    mean = np.arange(k + 1) @ np.exp(log_p - np.logaddexp.reduce(log_p))
    assert float(factor) * mean == pytest.approx(pi, rel=1e-9)


def test_the_threshold_keeps_the_share_that_was_asked_for():
    rng = np.random.default_rng(0)
    evidence = -900 - 40 * rng.gamma(1.0, size=2000)  # skewed, as evidence is; e^-900 is 0
    with tree.double():
        moments = evidence.mean(), evidence.std()
        args = jnp.asarray(moments[0]), jnp.asarray(12 * moments[1])
        counts = histogram(jnp.asarray(evidence), jnp.asarray(np.ones(2000)), *args)
        for share in (0.2, 0.66, 0.95):
            threshold = look_ahead(counts, *args, *map(jnp.asarray, (*moments, share)))[0]
            assert np.mean(evidence >= float(threshold)) == pytest.approx(share, abs=0.005)
        assert float(look_ahead(counts, *args, *map(jnp.asarray, (*moments, 1.0)))[0]) == -np.inf


def test_an_outlier_does_not_hide_the_others_from_the_histogram():
    score = np.random.default_rng(0).normal(size=2000)
    score[0] = -1e10
    with tree.double():
        moments = jnp.asarray(score.mean()), jnp.asarray(score.std())
        where = moments[0], jnp.asarray(12 * score.std())
        for _ in range(6):
            counts = histogram(jnp.asarray(score), jnp.asarray(np.ones(2000)), *where)
            before, where = where, look_ahead(counts, *where, *moments, jnp.asarray(1.0))[1:]
        kept = np.mean(score >= float(look_ahead(counts, *before, *moments, jnp.asarray(0.7))[0]))
    assert kept == pytest.approx(0.7, abs=0.01)
