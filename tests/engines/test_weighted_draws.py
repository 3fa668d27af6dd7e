"""Rows that models start from are drawn as often as they count."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import keys
from latentbits.engines import stage
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.weighted_draws import drawn_rows
from latentbits.models.binary_sparse_coding.reseed_units import draw_rows
from latentbits.models.combination_machine import model as machines
from latentbits.models.combination_machine.machine import BINARY
from latentbits.models.combination_machine.pursuit import stage as pursuit

WEIGHTS = np.array([0.0, 1.0, 0.25, 0.0, 6.0, 2.5, 0.0])


def assert_by_weight(numbers):
    n, shares = len(numbers), WEIGHTS / WEIGHTS.sum()
    found = np.bincount(numbers, minlength=len(WEIGHTS)) / n
    assert (found[WEIGHTS == 0] == 0).all()
    assert (np.abs(found - shares) <= 5 * np.sqrt(shares * (1 - shares) / n)).all()


def test_rows_are_drawn_by_weight_and_never_those_of_weight_zero():
    parts = [drawn_rows(np.cumsum(WEIGHTS), keys.of_seed(seed)) for seed in range(50)]
    assert_by_weight(np.concatenate(parts))
    assert not np.array_equal(parts[0], parts[1])
    np.testing.assert_array_equal(parts[0], drawn_rows(np.cumsum(WEIGHTS), keys.of_seed(0)))


def test_new_starts_of_sparse_coding_are_drawn_by_weight():
    draw = jax.jit(lambda seed, among: draw_rows(jax.random.key(seed), jnp.asarray(6.0), among))
    drawn = [draw(seed, drawn_rows(np.cumsum(WEIGHTS), keys.of_seed(seed))) for seed in range(100)]
    assert_by_weight(np.concatenate(drawn))


@pytest.mark.slow("pursuits compiled with weights and without, and eight of each")
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_pursuit_starts_from_rows_drawn_by_weight(weights, monkeypatch):
    """Its state names the rows of the next starts; without weights all rows are among them."""
    seen, real = [], stage.StageRun._advance

    def advance(self, stats):
        result, ahead = real(self, stats)
        seen.append(np.asarray(ahead.state.rows))
        return result, ahead

    monkeypatch.setattr(stage.StageRun, "_advance", advance)
    table = np.random.default_rng(0).integers(0, 2, (7, 5)).astype(np.uint8)
    model = machines.model(1)._replace(stages=(pursuit(1, BINARY, n_candidates=256),))
    for seed in range(8):
        seen.clear()
        fit(model, MemoryEngine(table, weights), seed_key(seed), limits=Limits(2))
        drawn = seen[0]
        assert len(drawn) == 256
        assert set(drawn) == (set(range(7)) if weights is None else set(np.flatnonzero(WEIGHTS)))
