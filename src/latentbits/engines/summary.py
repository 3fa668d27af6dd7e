"""The summary of a table from which a model may start: column moments and a random sample of rows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from latentbits.core import interrupts, tree
from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError
from latentbits.core.model import Summary
from latentbits.engines.chunks import Layout
from latentbits.engines.passes import Engine

__all__ = ["shapes_only", "summarise"]

SAMPLED_ROWS = 1024
SAMPLED_BYTES = 2**25  # a table of very many columns gives fewer rows


def sampled_rows(n_columns: int) -> int:
    """Number of rows in the sample of a summary: it depends on the number of columns alone."""
    return int(np.clip(SAMPLED_BYTES // (8 * n_columns), 16, SAMPLED_ROWS))


def summarise(engine: Engine, layout: Layout) -> Summary:
    """One pass over the rows; the same answer on every engine, since the chunks are the same."""
    d = engine.n_features
    size = sampled_rows(d)
    n, seen, total, squares = 0, np.zeros(d), np.zeros(d), np.zeros(d)
    sample, ranks = np.zeros((0, d)), np.zeros(0, np.uint64)
    for chunk in engine.chunks(layout):
        interrupts.check()
        rows = np.asarray(chunk.values)[: chunk.n_rows]
        bits = rows.dtype == np.uint8
        if chunk.complete:
            seen += len(rows)
            clean = rows
        else:
            hole = (rows == MISSING) if bits else np.isnan(rows)
            seen += (~hole).sum(0)
            clean = np.where(hole, 0, rows)
        column_sums = clean.sum(0, dtype=np.int64 if bits else np.float64)
        total += column_sums
        squares += column_sums if bits else np.einsum("ij,ij->j", clean, clean, dtype=np.float64)
        n += len(rows)

        rank = _hash(np.arange(chunk.first_row, chunk.first_row + len(rows), dtype=np.uint64))
        lowest = np.argsort(rank, kind="stable")[:size]
        drawn = rows[lowest].astype(float)
        if bits:
            drawn[drawn == MISSING] = np.nan
        sample, ranks = np.concatenate([sample, drawn]), np.concatenate([ranks, rank[lowest]])
        lowest = np.argsort(ranks, kind="stable")[:size]
        sample, ranks = sample[lowest], ranks[lowest]
    if n == 0:
        raise DataError("X has no rows: at least one is needed to learn from.")
    mean = np.where(seen > 0, total / np.maximum(seen, 1), 0.5)
    variance = np.where(seen > 0, squares / np.maximum(seen, 1) - mean**2, 0.25)
    # a fixed number of rows means one shape, hence one compilation of `init`, for tables of any length
    sample = np.resize(sample, (size, d))
    return _summary(n, mean, np.maximum(variance, 0), seen, sample)


def shapes_only(engine: Engine) -> Summary:
    """A summary that costs no pass: right in its shapes, NaN in all its values, so that no use goes unnoticed."""
    nothing = np.full(engine.n_features, np.nan)
    return _summary(
        np.nan, nothing, nothing, nothing, np.full((sampled_rows(engine.n_features), engine.n_features), np.nan)
    )


def _summary(n: float, mean: np.ndarray, variance: np.ndarray, observed: np.ndarray, sample: np.ndarray) -> Summary:
    hole = np.isnan(sample)
    with tree.double():
        return Summary(
            n_rows=jnp.asarray(float(n)),
            mean=jnp.asarray(mean),
            variance=jnp.asarray(variance),
            observed=jnp.asarray(observed),
            sample=jnp.asarray(np.where(hole, 0, sample)),
            sample_observed=jnp.asarray((~hole).astype(np.uint8)),
        )


def _hash(numbers: np.ndarray) -> np.ndarray:
    """A fixed random rank for each row number, whatever the batching (the finaliser of splitmix64)."""
    x = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
