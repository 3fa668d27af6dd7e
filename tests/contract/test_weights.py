"""Weights where rows are held out by their number; what every family promises of them: `test_models.py`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.models.combination_machine import ascent
from latentbits.models.combination_machine import model as combination_machine
from latentbits.models.combination_machine.machine import BINARY, Params


def test_the_share_of_held_out_rows_is_that_of_the_table_written_out():
    """Of 3000 rows that count 7 times; a row that counts once is held out or not, whatever the precision."""
    rng, below = np.random.default_rng(0), ascent.held_below(0.1)
    rows = jnp.asarray(rng.integers(0, 2, (3000, 6)).astype(np.uint8))
    params = Params(*(jnp.asarray(rng.normal(0, 0.3, shape)) for shape in ((2, 6), 2, 6, (), (), (), ())))
    model, e_step = combination_machine.model(2, learner="gradient"), ascent.e_step(BINARY, 0.1)

    @jax.jit
    def numbers(weight):
        key, nothing = jax.random.key(0), jnp.asarray(0)
        shared = model.prepare(params, None, Progress(nothing, nothing, nothing, key))
        batch = make_batch(rows, jnp.uint32(0), jnp.full(3000, weight), key, True, np.dtype(np.float32))
        return e_step(params, shared, batch, None)[0].sums[-2:, -1]

    learned_from, held_out = numbers(7.0)
    np.testing.assert_allclose(held_out / 21000, 0.1, atol=0.002)
    np.testing.assert_allclose(learned_from + held_out, 21000)
    once = (np.arange(3000, dtype=np.uint32) + np.uint32(14)) * np.uint32(2654435769) < below
    np.testing.assert_allclose(numbers(0.3)[1], 0.3 * once.sum(), rtol=1e-6)
