"""Functions without rows on both sides, in NumPy and compiled: equal to rounding at every update of a fit."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from tests import tables

from latentbits import CombinationMachine
from latentbits.core import tree
from latentbits.engines import stage
from latentbits.engines.host import without_rows
from latentbits.models.combination_machine import sums


@pytest.mark.parametrize(
    ("settings", "updates"),
    [
        pytest.param(
            {}, {"update", "start", "init", "objective"}, marks=pytest.mark.slow("every stage, compiled and not")
        ),
        ({"learner": "gradient", "recipe": {"optimizer": "momentum"}, "max_active": 1}, {"update", "init"}),
    ],
)
def test_updates_are_those_of_the_programs(settings, updates, monkeypatch):
    seen = set()

    def on_both_sides(program, on_host):
        assert on_host

        def call(*args, **constants):
            found = without_rows(program, True)(*args, **constants)
            assert all(isinstance(x, np.ndarray | np.generic | float | bool) for x in jax.tree.leaves(found))
            exact = jax.tree.map(lambda x: np.float64(x) if type(x) is float else x, args)  # else rounded to float32
            compiled = tree.to_numpy(program(*exact, **constants))
            for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(compiled), strict=True):
                tolerance = 1e-5 if np.asarray(theirs).dtype == np.float32 else 1e-7  # steps are rounded to float32
                np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=1e-2 * tolerance)
            seen.update(part for part in ("update", "start", "init", "objective") if part in str(args[0]))
            return found

        return call

    monkeypatch.setattr(stage, "without_rows", on_both_sides)
    monkeypatch.setattr(stage, "LEAST_ROWS_OF_HOST_UPDATE", 0)  # of small batches, too
    monkeypatch.setattr("latentbits.engines.fit.without_rows", on_both_sides)
    monkeypatch.setattr(sums, "HOST_MOST_FLOATS_PER_PASS", 2**7)  # three units are summed in NumPy, four by a program
    X = tables.classes()
    for n_hidden in (3, 4) if not settings else (3,):
        CombinationMachine(n_hidden, n_epochs=2, max_iter=12, random_state=0, **settings).fit(X)
    assert updates <= seen
