"""One pass over the rows: sums of statistics, and functions of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from latentbits.core import interrupts, limits, tree
from latentbits.core.batch import make_batch
from latentbits.core.model import Model, Progress
from latentbits.engines.chunks import Chunk, Layout

__all__ = ["PREPARE", "UPDATE", "Clock", "Engine", "Pass", "map_rows", "prepare", "start_pass", "sum_blocks"]


@runtime_checkable
class Engine(Protocol):
    """Where chunks come from.  An engine knows no model."""

    n_features: int
    keeps_rows: bool  # a small state per row can be kept beside the rows

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """The canonical chunks of the table, in order, from the first row."""
        ...

    def blocks(self) -> Iterable[np.ndarray]:
        """The encoded rows as they came: on the host, in full precision, in blocks of any sizes."""
        ...


# What a key is used for is folded into it, so that no two uses share one.
PREPARE, UPDATE, E_STEP, START_ROWS = range(4)


class Clock(NamedTuple):
    """A `Progress` before its key is made, which is done inside the compiled functions."""

    iteration: np.int32
    max_iter: np.int32
    step: np.int32
    key: Key[Array, ""]

    def progress(self, purpose: int) -> Progress:
        """Where learning stands, with a key of its own for each purpose (`PREPARE`, `UPDATE`)."""
        iteration, max_iter, step = (jnp.asarray(x) for x in (self.iteration, self.max_iter, self.step))
        return Progress(iteration, max_iter, step, jax.random.fold_in(jax.random.fold_in(self.key, self.step), purpose))


class Pass(NamedTuple):
    """What all chunks of a pass are given, parameters and shared quantities in the precision of the rows.

    The number of the iteration is folded into the key inside the compiled function: random keys are slow to make one
    at a time.
    """

    params: PyTree
    shared: PyTree
    key: Key[Array, ""]
    iteration: np.uint32 = np.uint32(0)

    def key_for(self, purpose: int) -> Key[Array, ""]:
        """The key of this pass for one purpose."""
        return jax.random.fold_in(jax.random.fold_in(self.key, self.iteration), purpose)


# The functions of a model are static arguments below: model constructors are cached, so that two fits with the same
# hyper-parameters share their compiled code.


@partial(jax.jit, static_argnames=("e_step", "complete", "dtype"))
def _chunk_stats(
    e_step: Callable[..., Any],
    complete: bool,
    dtype: np.dtype,
    given: Pass,
    raw: Array,
    first_row: Array,
    n_rows: Array,
    row_state: PyTree,
) -> tuple[PyTree, PyTree]:
    batch = make_batch(raw, first_row, n_rows, given.key_for(E_STEP), complete, dtype)
    return e_step(given.params, given.shared, batch, row_state)


@partial(jax.jit, static_argnames=("function", "purpose", "complete", "dtype"))
def _chunk_rows(
    function: Callable[..., Any],
    purpose: int,
    complete: bool,
    dtype: np.dtype,
    given: Pass,
    raw: Array,
    first_row: Array,
    n_rows: Array,
) -> PyTree:
    batch = make_batch(raw, first_row, n_rows, given.key_for(purpose), complete, dtype)
    return function(given.params, given.shared, batch)


@partial(jax.jit, static_argnames=("function", "dtype"))
def _prepare(
    function: Callable[..., Any], dtype: np.dtype, params: PyTree, state: PyTree, clock: Clock | None
) -> tuple[PyTree, PyTree, PyTree]:
    shared = function(params, state, None if clock is None else clock.progress(PREPARE))
    return shared, tree.cast(params, dtype), tree.cast(shared, dtype)


_add = jax.jit(lambda total, part: tree.add(tree.widen(total), part))


def prepare(
    model: Model, dtype: np.dtype, params: PyTree, state: PyTree = None, clock: Clock | None = None
) -> tuple[PyTree, PyTree, PyTree]:
    """Shared quantities in float64, and parameters and shared quantities in the precision of the rows."""
    with tree.double():
        return _prepare(model.prepare, dtype, params, state, clock)


def start_pass(model: Model, dtype: np.dtype, params: PyTree, key: Key[Array, ""]) -> Pass:
    """What the chunks of a pass need where a fitted model is used rather than learned."""
    _, in_rows, shared = prepare(model, dtype, params)
    return Pass(in_rows, shared, key)


def sum_blocks(
    model: Model,
    engine: Engine,
    layout: Layout,
    given: Callable[[], Pass],
    row_states: dict[int, PyTree],
) -> Iterator[PyTree]:
    """Sum the statistics of one pass; yields the total of every update block, one where there are none.

    Totals are float64, but for a block of a single chunk, whose statistics come as they are.

    Parameters
    ----------
    given
        Called for every chunk: in minibatch stages the parameters change between two blocks.
    row_states
        States of the rows by chunk, kept from pass to pass where the engine keeps rows.
    """
    dtype, total, waiting = layout.dtype, None, None
    for chunk in engine.chunks(layout):
        interrupts.check()
        now = given()
        first, n = np.uint32(chunk.first_row), np.uint32(chunk.n_rows)
        with tree.rows_in(dtype):
            state = row_states.get(chunk.number)
            if state is None and model.start_rows is not None:
                state = _chunk_rows(model.start_rows, START_ROWS, chunk.complete, dtype, now, chunk.values, first, n)
            stats, state = _chunk_stats(model.e_step, chunk.complete, dtype, now, chunk.values, first, n, state)
        if engine.keeps_rows and model.start_rows is not None:
            row_states[chunk.number] = state
        with tree.double():
            total = stats if total is None else _add(total, stats)
        # the device may run behind, but by one chunk: otherwise a stream would pile up in its queue
        if waiting is not None:
            jax.block_until_ready(waiting)
        waiting = total
        if chunk.ends_update:
            yield total
            total, waiting = None, None


def map_rows(function: Callable[..., Any], engine: Engine, layout: Layout, given: Pass) -> Iterator[PyTree]:
    """A function of each row, ``(params, shared, batch) -> pytree of (rows, ...)``, as NumPy, chunk by chunk.

    Leaves without a row axis (scalars) are passed through.
    """
    dtype = layout.dtype
    for chunk in engine.chunks(layout):
        interrupts.check()
        limits.check_time()
        with tree.rows_in(dtype):
            out = _chunk_rows(
                function,
                E_STEP,
                chunk.complete,
                dtype,
                given,
                chunk.values,
                np.uint32(chunk.first_row),
                np.uint32(chunk.n_rows),
            )
        n = chunk.n_rows
        yield jax.tree.map(lambda x, n=n: np.asarray(x)[:n] if x.ndim else np.asarray(x), out)
