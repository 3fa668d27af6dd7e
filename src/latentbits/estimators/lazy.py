"""Answers for the rows of Dask collections, as Dask arrays: computed on demand, where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from latentbits.core import tree
from latentbits.core.compilation import callable_tree
from latentbits.core.errors import DataError
from latentbits.core.model import LogLikelihood
from latentbits.engines.chunks import Chunk, Layout
from latentbits.engines.dask import DaskEngine
from latentbits.engines.passes import E_STEP, Pass, chunk_rows, rows_of_run
from latentbits.estimators.precision import rounded

__all__ = ["lazy_rows", "lazy_scores"]


def lazy_rows(function: Callable[..., Any], engine: DaskEngine, layout: Layout, given: Pass) -> Any:
    """Apply a function to each row, as `latentbits.engines.passes.map_rows` does, as Dask arrays."""
    _refuse_empty(engine)
    tree_of = callable_tree(function)
    parts = engine.delayed_runs(rows_of_run, (tree_of, given), layout)
    return engine.lazy_rows(parts, _shapes(tree_of, given, layout, engine), layout)


def lazy_scores(
    likelihood: Callable[..., Any], rounding: bool, engine: DaskEngine, passes: Sequence[tuple[Layout, Pass]]
) -> Any:
    """Compute log p(x) of each row, float64, as a Dask array.

    `likelihood`: the function of a row; it also gives what rounding has cost where it has its `rounding`.  `passes`: in
    the precision of choice; and in a finer one, which is computed only if the first is too little for some row.
    """
    import dask

    _refuse_empty(engine)
    work = partial(_scored, n_columns=engine.n_features, known=rounding)
    tree_of = callable_tree(likelihood)
    (layout, given), *finer = passes
    parts = engine.delayed_runs(work, (tree_of, given), layout)
    for finer_layout, finer_given in finer:
        lost = dask.delayed(any)([dask.delayed(_loses)(part) for part in parts])
        again = engine.delayed_runs(work, (tree_of, finer_given), finer_layout, lost)
        parts = [dask.delayed(_later)(part, other) for part, other in zip(parts, again)]
    values = [dask.delayed(_values)(part) for part in parts]
    return engine.lazy_rows(values, jax.ShapeDtypeStruct((0,), np.float64), layout)


def _refuse_empty(engine: DaskEngine) -> None:
    if engine.n_rows == 0:
        raise DataError("X has no rows: at least one is needed.")


def _shapes(function: Any, given: Pass, layout: Layout, engine: DaskEngine) -> PyTree:
    """Find the shapes of what a function of rows gives, without computing it."""
    rows = jax.ShapeDtypeStruct((1, engine.n_features), np.uint8 if engine.bits else layout.dtype)
    known = {"purpose": E_STEP, "complete": False, "dtype": layout.dtype, "few": False}
    number = np.uint32(0)
    with tree.rows_in(layout.dtype):
        return jax.eval_shape(partial(chunk_rows.function, **known), function, given, rows, number, number)


def _scored(given: Any, chunks: Iterable[Chunk], layout: Layout, *, n_columns: int, known: bool) -> LogLikelihood:
    return rounded(rows_of_run(given, chunks, layout), n_columns, layout.dtype, known=known)


def _loses(rows: LogLikelihood) -> bool:
    return bool(np.any(np.asarray(rows.rounding) > 0) or np.isnan(rows.value).any())


def _later(first: Any, second: Any) -> Any:
    return first if second is None else second


def _values(rows: LogLikelihood) -> np.ndarray:
    return np.asarray(rows.value, np.float64)
