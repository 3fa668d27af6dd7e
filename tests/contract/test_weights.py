"""Factors of weights, in every family, and weights where rows are held out by their number.

What statistics and records promise of weights is in `test_models.py`.
"""

from __future__ import annotations

import warnings
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.fitted import every, new, table

from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.models.combination_machine import model as combination_machine
from latentbits.models.combination_machine.likelihood import e_step
from latentbits.models.combination_machine.machine import BINARY, Params
from latentbits.models.combination_machine.rows import held_below

NO_PRIOR = {
    "product": {"smoothing": 0},
    "mixture": {"smoothing": 0},
    "latent-tree": {"smoothing": 0},
    "chow-liu-tree": {"smoothing": 0},
    "latent-trait": {"weight_prior": None},
    "item-response": {"weight_prior": None},
    "curved-trait": {"weight_prior": None},
    "trait-maps": {"weight_prior": None},
    "combination-machine": {"weight_prior": None},
    "noisy-or": {"prior": None},
    "clipped-gaussian": {"correction": 0},
    "binary-sparse-coding": {},
}
COUNTS = np.random.default_rng(0).integers(0, 4, 240).astype(float)
SURVEY = np.random.default_rng(1).gamma(2.0, 3.0, 240)


@cache
def weighted(name: str, kind: str, factor: float):
    """Fit without a prior, to rows that count by a multiple of the counts, or the weights of a survey."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = {"counts": COUNTS, "survey": SURVEY}[kind]
        return new(name).set_params(**NO_PRIOR[name]).fit(table(name), sample_weight=factor * weights)


QUICK = ("product", "mixture", "chow-liu-tree")  # the others are compiled once more


@every(slow=tuple(name for name in NO_PRIOR if name not in QUICK))
@pytest.mark.parametrize(
    ("kind", "factor"), [("counts", 1e-12), ("counts", 1 / 300), ("survey", 1e-5), ("survey", 1e12)]
)
def test_without_a_prior_weights_times_a_constant_give_the_same_fit(name, kind, factor):
    """To rounding; sums over rows are larger by that factor."""
    once, found = weighted(name, kind, 1.0), weighted(name, kind, factor)
    params = found.params_
    if name == "clipped-gaussian":  # its standard errors are those of that many rows
        params = params.replace(error=params.error * np.sqrt(factor))
    for one, other in zip(jax.tree.leaves(once.params_), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12)
    assert (found.n_iter_, found.stop_reason_) == (once.n_iter_, once.stop_reason_)
    of_rows = dict.fromkeys(("n_rows_", "left_to_gain_", "objective_", "history_"), factor)
    if name == "clipped-gaussian":  # these are what it leaves over of moments, and no sums over rows
        of_rows |= {"objective_": 1.0, "history_": 1.0}
    for name_of_error, unit in of_rows.items():
        np.testing.assert_allclose(getattr(found, name_of_error), unit * getattr(once, name_of_error), rtol=1e-7)


def test_the_share_of_held_out_rows_is_that_of_the_table_written_out():
    """Of 3000 rows that count 7 times; a row that counts once is held out or not, whatever the precision."""
    rng, below = np.random.default_rng(0), held_below(0.1)
    rows = jnp.asarray(rng.integers(0, 2, (3000, 6)).astype(np.uint8))
    params = Params(*(jnp.asarray(rng.normal(0, 0.3, shape)) for shape in ((2, 6), 2, 6, (), (), (), ())))
    model, sums = combination_machine.model(2, learner="gradient"), e_step(BINARY, 0.1)

    @jax.jit
    def numbers(weight):
        key, nothing = jax.random.key(0), jnp.asarray(0)
        shared = model.prepare(params, None, Progress(nothing, nothing, nothing, key))
        batch = make_batch(rows, jnp.uint32(0), jnp.full(3000, weight), key, True, np.dtype(np.float32))
        return sums(params, shared, batch, None)[0].sums[-2:, -1]

    learned_from, held_out = numbers(7.0)
    np.testing.assert_allclose(held_out / 21000, 0.1, atol=0.002)
    np.testing.assert_allclose(learned_from + held_out, 21000)
    once = (np.arange(3000, dtype=np.uint32) + np.uint32(14)) * np.uint32(2654435769) < below
    np.testing.assert_allclose(numbers(0.3)[1], 0.3 * once.sum(), rtol=1e-6)
