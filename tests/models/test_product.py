"""Independent bits against formulas in NumPy, and the maximum of their objective."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jax.tree_util import Partial
from scipy.optimize import minimize
from tests.models.steps import batch_of, now, step, unchecked
from tests.tables import as_bytes, classes

from latentbits.core import keys
from latentbits.core.batch import make_batch
from latentbits.core.tree import double
from latentbits.models import product

SMOOTHING = 1.5


def test_counting_maximises_the_penalised_likelihood():
    """The prior is a Beta(1 + smoothing / 2, 1 + smoothing / 2) on every column; holes count for nothing."""
    X = classes(missing=0.2)
    start = np.linspace(0.1, 0.9, X.shape[1])
    ones, zeros = np.nansum(X, axis=0), np.nansum(1 - X, axis=0)

    def objective(means):
        return (ones + SMOOTHING / 2) @ np.log(means) + (zeros + SMOOTHING / 2) @ np.log(1 - means)

    stats, after, value = step(product.model(SMOOTHING), unchecked(product.Params, start), as_bytes(X))
    np.testing.assert_allclose((stats.ones, stats.observed), (ones, ones + zeros))
    np.testing.assert_allclose(value, objective(start))
    highest = minimize(lambda means: -objective(means), start, bounds=[(1e-3, 1 - 1e-3)] * len(start), tol=1e-12)
    np.testing.assert_allclose(after.means, highest.x, atol=1e-5)


def test_numpy_gives_what_programs_give():
    X, model = as_bytes(classes(missing=0.2)), product.model(SMOOTHING)

    def course(functions, p, batch):
        prepare, update, objective, *of_rows = functions
        shared = prepare(p, None, None)
        stats, _ = model.e_step(p, shared, batch, None)
        answers = [function(p, shared, batch) for function in of_rows]
        return stats, answers, objective(p, shared, stats), update(None, p, shared, stats, now())

    names = ("prepare", "update", "objective", "log_likelihood", "infer", "complete")
    with double():
        functions = tuple(Partial(getattr(model, name)) for name in names)
        p = unchecked(product.Params, np.linspace(0.1, 0.9, X.shape[1]))
        numbers = np.uint32(0), np.uint32(len(X)), keys.of_seed(0)
        found = course(functions, p, make_batch(X, *numbers, False, np.dtype(float)))
        wanted = jax.jit(course)(functions, p, batch_of(X, np.ones(len(X))))
    assert not any(isinstance(x, jax.Array) for x in jax.tree.leaves(found))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12), found, wanted)
