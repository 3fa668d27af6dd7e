"""How many nodes a latent trait model learns with: as many as slopes ask for and time allows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from latentbits.core.nodes import MANY_COLUMNS, MOST_GRID
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import Seen
from latentbits.estimators.psychometrics import RUNAWAY_SLOPE
from latentbits.models.latent_trait import quadrature, tuning
from latentbits.models.latent_trait.column_kinds import Columns, Params

__all__ = ["MOST_CHECKED_CELLS", "affordable", "first", "needed"]

MOST_TERMS = 2**25  # rows x columns x nodes to learn with, where slopes ask for more than the first
MOST_CHECKED_CELLS = {1: 2**20, 2: 2**20, 3: 2**16, 4: 2**20}  # rows x columns of which the likelihood takes seconds


def first(q: int, seen: Seen) -> int:
    """Return the nodes that the stages learn with."""
    return quadrature.nodes_at_first(q, seen.few) if q <= MOST_GRID else tuning.LAST_NET_LOG2_POINTS


def needed(columns: Columns, maps: Sequence[Params], seen: Seen) -> int:
    """Compute the nodes that the slopes of these maps ask for."""
    bend = max(quadrature.bend_of(columns, one, seen.few) for one in maps)
    return quadrature.nodes_for(maps[0].weights.shape[1], bend, seen.n_rows)


def affordable(maps: Sequence[Params], seen: Seen, engine: Engine, n_columns: int, prior: bool) -> int:
    """Return the most nodes with which a pass takes a fraction of a second; steep slopes would ask for any number."""
    n_rows, q = len(engine.table) if isinstance(engine, MemoryEngine) else seen.n_rows, maps[0].weights.shape[1]
    each = MOST_TERMS / max(n_rows * n_columns * len(maps), 1)
    most = tuning.MOST_NODES_PER_DIMENSION[min(q, MOST_GRID + 1)]
    if q <= MOST_GRID and seen.few >= MANY_COLUMNS:
        # posteriors are narrow; slopes that run to infinity ask for any number of nodes, and find no maximum
        steepest = max(np.linalg.norm(one.weights, axis=-1).max() for one in maps)
        most = 0 if steepest > RUNAWAY_SLOPE and not prior else 5  # enough where rows have observed many columns
    return min(most, int(each ** (1 / q)) if q <= MOST_GRID else int(math.log2(max(each, 1))))
