"""Early stopping: rows that are not learned from decide when to stop, and which point is kept.

Maximum likelihood fits the rows that are there better and better, and from some pass on new rows worse and worse.
Where rows are held out, the loop asks after every pass of a stage that may be stopped (`stops_early`)
how probable they are, keeps the point at which they are most probable, and stops when they have not gained for long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from latentbits.core import keys
from latentbits.core.errors import DataError
from latentbits.core.model import Model
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine, map_rows, start_pass
from latentbits.engines.sparse import layout_of

__all__ = ["Course", "mean_log_likelihood", "split"]

# Learning stops when held-out rows have gained less than LEAST_GAIN_NATS a row in the last passes: in at least the
# first number of them, and in this share of those made, since plateaus grow with the length of the way.
FEWEST_WAITED_PASSES, WAITED_SHARE = 20, 0.5
LEAST_GAIN_NATS = 1e-4


class Course(NamedTuple):
    """Course of the likelihood of held-out rows."""

    # the largest mean log-likelihood so far, after each pass; -inf while they were impossible
    best: tuple[float, ...] = ()
    # params, objective, n_iter: the point at which they were most probable; its objective, where the pass has one;
    # and its pass
    params: PyTree = None
    objective: float = math.nan
    n_iter: int = 0

    @property
    def value(self) -> float:
        """The largest mean log-likelihood; -inf where there is none."""
        return self.best[-1] if self.best else -math.inf

    def after(self, value: float, params: PyTree, objective: float, n_iter: int) -> Course:
        """With one more pass.

        >>> Course().after(-3.0, "a", -7.0, 0).after(-4.0, "b", -6.0, 1)[1:]
        ('a', -7.0, 0)
        """
        if value > self.value:
            return Course((*self.best, value), params, objective, n_iter)
        return self._replace(best=(*self.best, self.value))

    @property
    def over(self) -> bool:
        """Whether the last passes have gained nothing; never while rows are impossible."""
        wait = max(FEWEST_WAITED_PASSES, math.ceil(WAITED_SHARE * len(self.best)))
        if len(self.best) <= wait or not math.isfinite(self.best[-1 - wait]):
            return False
        return self.best[-1] - self.best[-1 - wait] < LEAST_GAIN_NATS


def mean_log_likelihood(
    model: Model, engine: Engine, dtype: np.dtype, budget: int | None = None
) -> Callable[[PyTree], float]:
    """Return a function of the parameters: nats per row of the rows of an engine; -inf where it is no number."""
    layout, key = layout_of(model, engine, dtype, budget), keys.typed(keys.of_seed(0))

    def value(params: PyTree) -> float:
        given = start_pass(model, dtype, params, key)
        rows = [np.asarray(part.value, float) for part in map_rows(model.log_likelihood, engine, layout, given)]
        found = float(np.average(np.concatenate(rows), weights=engine.weights))
        return found if math.isfinite(found) else -math.inf

    return value


def split(engine: Any, share: float) -> tuple[MemoryEngine, MemoryEngine]:
    """Rows to learn from, and a random share of them that is held out, the same in every fit: two tables in memory."""
    if not isinstance(engine, MemoryEngine):
        raise ValueError(
            "validation_fraction holds out rows of a dense table in memory; for others give rows of their own: "
            "fit(X, X_val=...)"
        )
    n = len(engine.table)
    n_out = round(share * n)
    if n_out == 0 or n_out == n:
        raise DataError(f"validation_fraction={share:g} of {n} rows leaves none on one side")
    order = np.random.default_rng(0).permutation(n)
    sides = (np.sort(order[n_out:]), np.sort(order[:n_out]))
    learned, held = (
        MemoryEngine(engine.table[side], None if engine.weights is None else engine.weights[side]) for side in sides
    )
    return learned, held
