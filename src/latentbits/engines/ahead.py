"""What a fit will have compiled, begun before it is needed: the programs of its stages, and of what follows it.

The shapes of everything follow from those of the parameters, so that all programs are known at the beginning; while the
first runs, the others are compiled beside it.  What is not foreseen here (rows of a stream, stages after growth) is
compiled when it comes, so nothing depends on this but time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from latentbits.core import tree
from latentbits.core.model import Evaluate, Iterate, Model, OnePass, Schedule, Stage, Summary, Transform
from latentbits.core.programs import Program, callable_tree
from latentbits.engines import passes, stage
from latentbits.engines.chunks import Layout, layout_for
from latentbits.engines.devices import device_of, devices, on
from latentbits.engines.drawing import N_ROWS
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Clock, Engine, Pass
from latentbits.engines.summary import shapes_only

__all__ = ["asked", "beginning", "fitting", "learning", "mapping", "using"]

KEY = np.zeros(2, np.uint32)
CLOCK = Clock(np.int32(0), np.int32(0), np.int32(0), KEY)


def fitting(model: Model, engine: MemoryEngine, dtype: np.dtype) -> PyTree | None:
    """Of a fit that somebody will ask for; see `learning`."""
    return learning(model, model.stages, engine, dtype, None, beginning(model, shapes_only(engine)))


def beginning(model: Model, summary: Summary) -> PyTree:
    """Of the start; the shapes of its parameters."""
    with tree.double():
        return stage.begin.ahead(callable_tree(model.init), KEY, summary)


def learning(
    model: Model, stages: Sequence[Stage], engine: Engine, dtype: np.dtype, budget: int | None, params: PyTree
) -> PyTree | None:
    """Of stages up to the first that may change the shape of parameters, given these or their shapes.

    Returns the shapes of the parameters in the end; None where they cannot be foreseen.
    """
    if not isinstance(engine, MemoryEngine):
        return None
    for one in stages:
        if isinstance(one, Transform):
            if not one.keeps_shapes:
                return None
            continue
        params = _stage(model.acting_in(one), one, engine, dtype, budget, params)
    return params


class Asked(NamedTuple):
    """Of how many rows the likelihood, and the posterior means, will be asked for after a fit."""

    scored: int
    transformed: int


_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


@contextmanager
def asked(scored: int = 0, transformed: int = 0) -> Iterator[None]:
    """Context of fits by somebody who knows what follows them; else it is taken to be the table that was fitted."""
    token = _asked.set(Asked(scored, transformed))
    try:
        yield
    finally:
        _asked.reset(token)


def using(
    model: Model,
    likelihood: Callable[..., Any],
    means: Callable[..., Any],
    engine: Engine,
    dtype: np.dtype,
    params: PyTree,
) -> None:
    """Of what follows a fit, under parameters of these shapes."""
    if not isinstance(engine, MemoryEngine):
        return
    n = len(engine.table)
    follows = _asked.get() or Asked(n, n)
    layout = layout_for(model.row_floats(engine.n_features), dtype, n_columns=engine.n_features)
    for function, n_rows in ((likelihood, follows.scored), (means, follows.transformed)):
        if n_rows > 0:
            mapping(model, function, engine, layout, params, n_rows)


def mapping(
    model: Model,
    function: Callable[..., Any],
    engine: MemoryEngine,
    layout: Layout,
    params: PyTree,
    n_rows: int,
    shared: PyTree = None,
) -> None:
    """Of a function of each of so many rows like those of the engine; `shared` where it is not the model's own."""
    with tree.double():
        prepare, params = callable_tree(model.prepare), tree.strong_shapes(params)
        _, in_rows, own = passes.prepare.ahead(prepare, params, None, None, dtype=layout.dtype)
    known, given = _Known(engine, layout, n_rows), Pass(in_rows, own if shared is None else shared, KEY)
    with tree.rows_in(layout.dtype):
        _of_chunks(
            known,
            passes.chunk_rows,
            callable_tree(function),
            given,
            *known.rows,
            purpose=passes.E_STEP,
            **known.of_rows,
        )


class _Known:
    """What is known of the chunks of a table, or of so many rows like those of a table."""

    def __init__(self, engine: MemoryEngine, layout: Layout, n_rows: int | None = None) -> None:
        n = len(engine.table) if n_rows is None else n_rows
        layout = layout.of_table(n)
        size, _ = layout.sizes(n if n < layout.rows_per_chunk else None)
        few = n < layout.rows_of_few(engine.n_features)
        parts = layout.parts(n if few else None)
        size *= parts
        self.n_chunks = -(-min(n, layout.rows_per_update or n) // size)  # that are added up
        values = engine.like(size, layout.dtype)
        self.devices = {device_of(number, layout) for number in range(min(self.n_chunks, len(devices())))}
        self.rows = values, np.uint32(0), np.uint32(0)
        weights = np.uint32(0) if engine.weights is None else jax.ShapeDtypeStruct((size,), layout.dtype)
        self.counted = values, np.uint32(0), weights
        self.of_stats = {"complete": engine.complete, "dtype": layout.dtype, "parts": parts}
        self.of_rows = self.of_stats | {"few": few}


def _of_chunks(known: _Known, program: Program, *args: Any, **static: Any) -> PyTree:
    """Of a program of chunks, for each device that will have some; the shapes of what it returns."""
    returns = program.ahead(*args, **static)
    for device in known.devices - {None}:
        with on(device):
            program.ahead(*args, **static)
    return returns


def _stage(
    model: Model,
    one: Iterate | Schedule | OnePass | Evaluate,
    engine: MemoryEngine,
    dtype: np.dtype,
    budget: int | None,
    params: PyTree,
) -> PyTree:
    """Of one stage; the shapes of the parameters after it."""
    layout = layout_for(model.row_floats(engine.n_features), dtype, budget, engine.n_features)
    known = _Known(engine, layout._replace(rows_per_update=one.rows_per_update if isinstance(one, Schedule) else None))
    clock = CLOCK if engine.weights is None else CLOCK._replace(rows=np.zeros(N_ROWS, np.uint32))
    with tree.double():
        params = tree.strong_shapes(params)
        state = None
        if model.start is not None:
            state = tree.strong_shapes(stage.call.ahead(callable_tree(model.start), params))
        prepare = callable_tree(model.prepare)
        shared, in_rows, shared_rows = passes.prepare.ahead(prepare, params, state, clock, dtype=dtype)
    given = Pass(in_rows, shared_rows, KEY)
    with tree.rows_in(dtype):
        row_state = None
        if model.start_rows is not None:
            start = callable_tree(model.start_rows)
            row_state = _of_chunks(
                known, passes.chunk_rows, start, given, *known.rows, purpose=passes.START_ROWS, **known.of_rows
            )
        e_step = callable_tree(model.e_step)
        stats, _ = _of_chunks(known, passes.chunk_stats, e_step, given, *known.counted, row_state, **known.of_stats)
    with tree.double():
        total = stats if known.n_chunks == 1 else tree.added_shapes(stats)
        if isinstance(one, Evaluate):
            stage.call.ahead(callable_tree(model.objective), params, shared, total)
            return params
        functions = stage.Functions.of(model)
        _, (params, state, shared, *_) = stage.advance.ahead(
            functions, state, params, shared, total, clock, clock, dtype=dtype
        )
    return params
