"""One pass over the rows: sums of statistics, and functions of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt32

from latentbits.core import interrupts, keys, limits, tree
from latentbits.core.batch import make_batch
from latentbits.core.model import Model, Progress
from latentbits.core.programs import Program, callable_tree
from latentbits.engines.chunks import Chunk, Layout
from latentbits.engines.in_flight import InFlight

__all__ = [
    "E_STEP",
    "PREPARE",
    "START_ROWS",
    "UPDATE",
    "Clock",
    "Engine",
    "Pass",
    "chunk_rows",
    "chunk_stats",
    "map_rows",
    "prepare",
    "prepared",
    "start_pass",
    "sum_blocks",
]


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
    key: UInt32[np.ndarray, "2"]

    def progress(self, purpose: int) -> Progress:
        """Where learning stands, with a key of its own for each purpose (`PREPARE`, `UPDATE`)."""
        iteration, max_iter, step = (jnp.asarray(x) for x in (self.iteration, self.max_iter, self.step))
        key = jax.random.fold_in(jax.random.fold_in(keys.typed(self.key), self.step), purpose)
        return Progress(iteration, max_iter, step, key)


class Pass(NamedTuple):
    """What all chunks of a pass are given, parameters and shared quantities in the precision of the rows.

    The number of the iteration is folded into the key inside the compiled function: random keys are slow to make one
    at a time.
    """

    params: PyTree
    shared: PyTree
    key: UInt32[np.ndarray, "2"]
    iteration: np.uint32 = np.uint32(0)

    def key_for(self, purpose: int) -> Key[Array, ""]:
        """The key of this pass for one purpose."""
        return jax.random.fold_in(jax.random.fold_in(keys.typed(self.key), self.iteration), purpose)


# What of a model's functions is a number is an argument of these programs, the rest is a constant: model constructors
# are cached, so that two fits with the same hyper-parameters share their compiled code.


@partial(Program, of_chunk=True)
def chunk_stats(
    e_step: Callable[..., Any],
    given: Pass,
    raw: Array,
    first_row: Array,
    n_rows: Array,
    row_state: PyTree,
    *,
    complete: bool,
    dtype: np.dtype,
) -> tuple[PyTree, PyTree]:
    batch = make_batch(raw, first_row, n_rows, given.key_for(E_STEP), complete, dtype)
    return e_step(given.params, given.shared, batch, row_state)


@partial(Program, of_chunk=True, seldom=lambda few, **_: few)
def chunk_rows(
    function: Callable[..., Any],
    given: Pass,
    raw: Array,
    first_row: Array,
    n_rows: Array,
    *,
    purpose: int,
    complete: bool,
    dtype: np.dtype,
    few: bool,
) -> PyTree:
    """Of all rows of a chunk; `few` says that the table has few of them."""
    batch = make_batch(raw, first_row, n_rows, given.key_for(purpose), complete, dtype)
    return function(given.params, given.shared, batch)


@Program
def prepare(
    function: Callable[..., Any], params: PyTree, state: PyTree, clock: Clock | None, *, dtype: np.dtype
) -> tuple[PyTree, PyTree, PyTree]:
    shared = function(params, state, None if clock is None else clock.progress(PREPARE))
    return shared, tree.cast(params, dtype), tree.cast(shared, dtype)


def prepared(
    model: Model, dtype: np.dtype, params: PyTree, state: PyTree = None, clock: Clock | None = None
) -> tuple[PyTree, PyTree, PyTree]:
    """Shared quantities in float64, and parameters and shared quantities in the precision of the rows."""
    with tree.double():
        return prepare(callable_tree(model.prepare), params, state, clock, dtype=dtype)


def start_pass(model: Model, dtype: np.dtype, params: PyTree, key: Key[Array, ""]) -> Pass:
    """What the chunks of a pass need where a fitted model is used rather than learned."""
    _, in_rows, shared = prepared(model, dtype, params)
    return Pass(in_rows, shared, keys.raw(key))


def sum_blocks(
    model: Model,
    engine: Engine,
    layout: Layout,
    given: Callable[[], Pass],
    row_states: dict[int, PyTree],
) -> Iterator[PyTree]:
    """Sum the statistics of one pass; yields the total of every update block, one where there are none.

    Totals are float64 and on the host, but for a block of a single chunk, whose statistics come as they are.  Several
    chunks are in flight, and added in their order: the sum does not depend on how many there are at a time.

    Parameters
    ----------
    given
        Called for every chunk: in minibatch stages the parameters change between two blocks.
    row_states
        States of the rows by chunk, kept from pass to pass where the engine keeps rows.
    """
    start_rows, e_step = callable_tree(model.start_rows), callable_tree(model.e_step)
    keeps = engine.keeps_rows and model.start_rows is not None

    def stats_of(chunk: Chunk, now: Pass, state: PyTree) -> tuple[int, PyTree, PyTree]:
        rows, known = _rows_of(chunk), {"complete": chunk.complete, "dtype": layout.dtype}
        with tree.rows_in(layout.dtype):
            if state is None and start_rows is not None:
                state = chunk_rows(start_rows, now, *rows, purpose=START_ROWS, few=chunk.few, **known)
            stats, state = chunk_stats(e_step, now, *rows, state, **known)
        return chunk.number, stats, state

    def take(total: PyTree, done: tuple[int, PyTree, PyTree]) -> PyTree:
        number, stats, state = done
        if keeps:
            row_states[number] = state
        return stats if total is None else tree.added(total, stats)

    total, flying = None, InFlight()
    for chunk in engine.chunks(layout):
        interrupts.check()
        work = partial(stats_of, chunk, given(), row_states.get(chunk.number))
        for done in flying.add(work):
            total = take(total, done)
        if chunk.ends_update:
            for done in flying.rest():
                total = take(total, done)
            yield total
            total = None


def map_rows(function: Callable[..., Any], engine: Engine, layout: Layout, given: Pass) -> Iterator[PyTree]:
    """A function of each row, ``(params, shared, batch) -> pytree of (rows, ...)``, as NumPy, chunk by chunk.

    Leaves without a row axis (scalars) are passed through.
    """
    tree_of, flying = callable_tree(function), InFlight()

    def rows_of(chunk: Chunk) -> tuple[int, PyTree]:
        known = {"purpose": E_STEP, "complete": chunk.complete, "dtype": layout.dtype, "few": chunk.few}
        with tree.rows_in(layout.dtype):
            return chunk.n_rows, chunk_rows(tree_of, given, *_rows_of(chunk), **known)

    def on_host(n: int, out: PyTree) -> PyTree:
        return jax.tree.map(lambda x: np.asarray(x)[:n] if x.ndim else np.asarray(x), out)

    for chunk in engine.chunks(layout):
        interrupts.check()
        limits.check_time()
        yield from (on_host(*done) for done in flying.add(partial(rows_of, chunk)))
    yield from (on_host(*done) for done in flying.rest())


def _rows_of(chunk: Chunk) -> tuple[Any, np.uint32, np.uint32]:
    return chunk.values, np.uint32(chunk.first_row), np.uint32(chunk.n_rows)
