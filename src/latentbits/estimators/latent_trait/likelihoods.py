"""Likelihoods of a latent trait model of many dimensions by finer nets, for those rows that need them.

A net that does for most rows is far off for some, where bits are steep; one that does for these would cost far more
than learning did.  So the rows of largest error are gone through again, by ever finer nets, until the error of the sum
is small or the work is no longer worth it.  The error that is left is stated.
"""

from __future__ import annotations

from itertools import chain

import jax
import numpy as np

from latentbits.core import interrupts, nodes
from latentbits.core.model import LogLikelihood, Model
from latentbits.engines.chunks import Layout, layout_for
from latentbits.engines.fit import seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine, map_rows, start_pass
from latentbits.models.latent_trait.column_kinds import Columns, Params
from latentbits.models.latent_trait.use import finer

__all__ = ["ENOUGH_NATS", "refined"]

ENOUGH_NATS = 0.1  # error in all that a likelihood may have, where that can be had
MOST_TERMS = 10**8  # rows x columns x points of finer nets: a fraction of a second


def refined(
    rows: LogLikelihood, model: Model, params: Params, engine: Engine, columns: Columns, dtype: np.dtype
) -> LogLikelihood:
    """Refine log-likelihoods by nets of more points where their errors, which are standard errors, are largest.

    Rows are gone through again up to the work allowed, not only while they seem to need it.  Errors count as often
    as their rows do.
    """
    weights = np.ones(len(rows.value)) if engine.weights is None else engine.weights
    n, d, q = len(rows.value), engine.n_features, params.weights.shape[1]
    lost = np.asarray(rows.rounding, np.float64)
    value, own = np.array(rows.value), np.sqrt(np.maximum(np.asarray(rows.error, np.float64) ** 2 - lost**2, 0))
    enough = max(ENOUGH_NATS, 1e-5 * weights.sum())  # where rows are very many
    if not _largest(own * weights, enough).size:
        return rows
    budget = max(MOST_TERMS, 2 * nodes.net_points() * n * d)  # of the work of the first net, where a table is large
    a_chunk = _rows_of_a_chunk()
    for level, log2_points in enumerate(nodes.FINER_NETS):
        n_points = nodes.REPLICATES * 2**log2_points
        # a few rows may have most of the error: half of the work is left for finer nets
        share = budget if level == len(nodes.FINER_NETS) - 1 else budget // 2
        most = min(share // (n_points * d), 2**24 // d)  # of the rows that are gone through again
        chosen = _largest(own * weights, enough)
        chosen = chosen if len(chosen) <= most else chosen[: most // a_chunk * a_chunk]  # whole chunks
        if not chosen.size:
            continue
        budget -= -(-len(chosen) // a_chunk) * a_chunk * n_points * d
        chosen = np.sort(chosen)
        again = _rows_at(engine, chosen)
        given = start_pass(model, dtype, params, seed_key(level + 1, "use"))
        layout = _layout(2**log2_points, columns, d, dtype)
        # in tables of few chunks each, so that the program is the same however many rows there are
        size = layout.rows_of_few(d) - 1
        tables = (MemoryEngine(again[first : first + size]) for first in range(0, len(again), size))
        found = chain.from_iterable(map_rows(finer(q, columns, level), table, layout, given) for table in tables)
        new, error = (np.concatenate(parts) for parts in zip(*found))
        kept = np.isfinite(new) & np.isfinite(error)
        value[chosen[kept]], own[chosen[kept]] = new[kept], error[kept]
    return rows.replace(value=value, error=np.hypot(own, lost).astype(rows.error.dtype))


def _rows_of_a_chunk() -> int:
    # always as many, so that one program serves all; a GPU would do nothing but begin with so few
    return 16 if jax.default_backend() == "cpu" else 1024


def _layout(n_points: int, columns: Columns, n_columns: int, dtype: np.dtype) -> Layout:
    width = 2 * n_points * columns.n_outputs(n_columns)
    return Layout(min(_rows_of_a_chunk(), layout_for(width, dtype).rows_per_chunk), dtype)


def _largest(own: np.ndarray, enough: float) -> np.ndarray:
    """Order all rows, those of largest error first; none where the sum is known to `enough`."""
    size = np.nan_to_num(own, nan=0.0, posinf=float(np.finfo(np.float32).max))
    order = np.argsort(-size, kind="stable")
    return order if np.sqrt(np.sum(size**2)) > enough else order[:0]


def _rows_at(engine: Engine, chosen: np.ndarray) -> np.ndarray:
    """Take rows of a table by their numbers, which ascend."""
    parts, first = [], 0
    for block in engine.blocks():
        interrupts.check()
        a, b = np.searchsorted(chosen, [first, first + len(block)])
        if a < b:
            parts.append(np.asarray(block)[chosen[a:b] - first])
        first += len(block)
    return np.concatenate(parts)
