"""The record of a clipped Gaussian."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests.tables import as_bytes, classes

from latentbits.core import keys, tree
from latentbits.core.arrays import on_device
from latentbits.core.batch import make_batch
from latentbits.core.limits import no_limit
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.summary import shapes_only
from latentbits.models.clipped_gaussian.model import model


def test_numbers_are_no_part_of_compiled_functions():
    """Models that differ in numbers only hand the same functions to an engine."""
    one, other = model(2, correction=0.5), model(2, correction=0.25)
    for name in ("init", "prepare", "e_step", "objective", "log_likelihood", "infer", "decode", "complete", "sample"):
        assert getattr(one, name) is getattr(other, name), name
    for name in ("prepare", "update"):
        assert getattr(one.stages[0], name) is getattr(other.stages[0], name), name


def test_learning_by_likelihood_needs_noise():
    with pytest.raises(ValueError, match="needs noise='unique'"):
        model(1, noise="none", learner="likelihood")
    with pytest.raises(ValueError, match="'positive' leaves no noise"):
        model("positive", learner="likelihood")


@pytest.mark.parametrize("weights", [np.ones(240), np.arange(240.0) / 7])
def test_counts_and_what_sees_no_rows_are_alike_on_the_host_and_in_a_program(weights):
    X, m, key = as_bytes(classes(missing=0.1)), model(2), keys.of_seed(3)
    counting, diagonalising = m.stages

    def begin(summary, raw, weight):
        params, first = m.init(key, summary), np.uint32(0)
        batch = make_batch(raw, first, weight, key, False, np.dtype(float))
        return params, counting.e_step(params, None, batch, None)[0]

    def end(params, stats):
        shared = m.prepare(params, None, None)
        return shared, m.objective(params, shared, stats)

    with tree.double():
        summary = tree.to_numpy(shapes_only(MemoryEngine(X)))
        params, stats = ours = begin(summary, X, weights)
        learned = diagonalising.function(key, params, stats, no_limit)
        ours = ours, end(learned, stats)
        theirs = jax.jit(begin)(summary, X, weights), jax.jit(end)(learned, stats)
    assert not on_device(ours, learned)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert a.dtype == b.dtype
