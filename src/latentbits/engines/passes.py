"""One pass over the rows: sums of statistics, and functions of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JaxRuntimeError
from jaxtyping import Key, PyTree, UInt32

from latentbits.core import interrupts, keys, limits, tree
from latentbits.core.arrays import Array, fold_in, on_device
from latentbits.core.batch import make_batch
from latentbits.core.compilation import Program, callable_tree
from latentbits.core.model import Model, Progress
from latentbits.engines.chunks import Chunk, Layout
from latentbits.engines.devices import Copies, device_of, on
from latentbits.engines.host import in_numpy, one_thread, runs_on_host, without_rows
from latentbits.engines.memory_backoff import Room
from latentbits.engines.parallel_chunks import InFlight
from latentbits.engines.tree_sum import Branch, TreeSum

__all__ = [
    "E_STEP",
    "PREPARE",
    "START_ROWS",
    "UPDATE",
    "Clock",
    "Elsewhere",
    "Engine",
    "Pass",
    "Work",
    "chunk_rows",
    "chunk_stats",
    "map_rows",
    "prepare",
    "prepared",
    "rows_of_run",
    "start_pass",
    "sum_blocks",
]


@runtime_checkable
class Engine(Protocol):
    """A source of chunks.  An engine knows no model."""

    n_features: int
    keeps_rows: bool  # a small state per row can be kept beside the rows
    weights: np.ndarray | None  # how often each row counts, float64; None for once

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """Return the canonical chunks of the table, in order, from the first row."""
        ...

    def blocks(self) -> Iterable[np.ndarray]:
        """Return the encoded rows as they came: on the host, in full precision, in blocks of any sizes."""
        ...


Work = Callable[[Any, Iterable[Chunk], Layout], Any]  # on some chunks, given a tree of functions and numbers


@runtime_checkable
class Elsewhere(Protocol):
    """An engine whose rows are in other processes, and are best worked on there."""

    def on_runs(
        self, work: Work, given: PyTree, layout: Layout, merge: Callable[[list[Any]], Any] | None = None
    ) -> list[Any]:
        """Do work on runs of neighbouring chunks, which together are the table; return results in order.

        With `merge` results of neighbours are made one, again and again, until there are few; it must not change what
        it is given.
        """
        ...

    def on_blocks(self, work: Callable[[np.ndarray, int], Any]) -> list[Any] | None:
        """Do work on blocks of encoded rows, given the number of their first row; None where rows are no bits."""
        ...


# The use of a key is folded into it, so that no two uses share one.
PREPARE, UPDATE, E_STEP, START_ROWS = range(4)

WORD = 2**32  # rows that a word of 32 bits can number


class Clock(NamedTuple):
    """A `Progress` before its key is made, which is done inside the compiled functions."""

    iteration: np.int32
    max_iter: np.int32
    step: np.int32
    key: UInt32[np.ndarray, "2"]
    rows: UInt32[np.ndarray, " drawn"] | None = None

    def progress(self, purpose: int) -> Progress:
        """Make the `Progress` of learning, with another key for each purpose (`PREPARE`, `UPDATE`)."""
        key = keys.typed(self.key) if on_device(self.key) else self.key
        where: Any = self._replace(key=fold_in(fold_in(key, self.step), purpose))
        return Progress(*where)


class Pass(NamedTuple):
    """Input of all chunks of a pass, with parameters and shared quantities in the precision of the rows.

    The number of the iteration is folded into the key inside the compiled function: random keys are slow to make one
    at a time.
    """

    params: PyTree
    shared: PyTree
    key: UInt32[np.ndarray, "2"]
    iteration: np.uint32 = np.uint32(0)

    def key_for(self, purpose: int) -> Key[Array, ""]:
        """Return the key of this pass for one purpose."""
        return jax.random.fold_in(jax.random.fold_in(keys.typed(self.key), self.iteration), purpose)


# The numbers in a model's functions are arguments of these programs, and all else is a constant. Model constructors are
# cached, so that two fits with the same hyper-parameters share their compiled code.


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
    parts: int = 1,
) -> tuple[PyTree, PyTree]:
    """Compute the statistics of a chunk; those of several are added up as `engines/tree_sum.py` would."""

    def of_part(raw: Array, first_row: Array, n_rows: Array, row_state: PyTree) -> tuple[PyTree, PyTree]:
        batch = make_batch(raw, first_row, n_rows, given.key_for(E_STEP), complete, dtype)
        return e_step(given.params, given.shared, batch, row_state)

    if parts == 1:
        return of_part(raw, first_row, n_rows, row_state)
    stats, row_state = by_parts(of_part, parts, raw, first_row, n_rows, row_state)
    return tree.summed(stats), _joined(row_state)


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
    parts: int = 1,
) -> PyTree:
    """Apply a function to all rows of a chunk; `few` says that the table has few chunks."""

    def of_part(raw: Array, first_row: Array, n_rows: Array) -> PyTree:
        batch = make_batch(raw, first_row, n_rows, given.key_for(purpose), complete, dtype)
        return function(given.params, given.shared, batch)

    if parts == 1:
        return of_part(raw, first_row, n_rows)
    return _joined(by_parts(of_part, parts, raw, first_row, n_rows))


def by_parts(
    function: Callable[..., Any], parts: int, raw: Array, first_row: Array, n_rows: Array, *rest: PyTree
) -> PyTree:
    """Apply a function to each part of a chunk, one after the other, and stack the results."""
    size = len(raw) // parts

    def cut(x: Array) -> Array:
        """Scalars in the states of rows are the same in all parts."""
        return x.reshape(parts, size, *x.shape[1:]) if x.ndim else jnp.broadcast_to(x, (parts,))

    before = size * jnp.arange(parts, dtype=jnp.uint32)
    if first_row.ndim:  # two words
        low = first_row[0] + before
        first = jnp.stack([low, first_row[1] + (low < before)], 1)
    else:
        first = first_row + before
    counted = cut(n_rows) if n_rows.ndim else jnp.minimum(jnp.maximum(n_rows, before) - before, size)
    cut_up = jax.tree.map(cut, raw), first, counted, jax.tree.map(cut, rest)
    return jax.lax.map(lambda part: function(*part[:3], *part[3]), cut_up)


def _joined(stacked: PyTree) -> PyTree:
    """Functions of each row of all parts; what has no row axis is the same in all."""
    return jax.tree.map(lambda x: x[0] if x.ndim == 1 else x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), stacked)


@Program
def prepare(
    function: Callable[..., Any], params: PyTree, state: PyTree, clock: Clock | None, *, dtype: np.dtype
) -> tuple[PyTree, PyTree, PyTree]:
    shared = function(params, state, None if clock is None else clock.progress(PREPARE))
    return shared, tree.cast(params, dtype), tree.cast(shared, dtype)


def prepared(
    model: Model, dtype: np.dtype, params: PyTree, state: PyTree = None, clock: Clock | None = None
) -> tuple[PyTree, PyTree, PyTree]:
    """Return shared quantities in float64, and parameters and shared quantities in the precision of the rows."""
    with tree.double():
        run = without_rows(prepare, runs_on_host(model, params))
        return run(callable_tree(model.prepare), params, state, clock, dtype=dtype)


def start_pass(model: Model, dtype: np.dtype, params: PyTree, key: Key[Array, ""]) -> Pass:
    """Prepare the input of chunks where a fitted model is used rather than learned."""
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

    Totals are float64 and on the host, but for a block of a single chunk, whose statistics come as they are.  Chunks
    are computed side by side, on all devices or in other processes, and added in a fixed tree (`engines/tree_sum.py`):
    the sum does not depend on how many there are at a time, or where.

    Parameters
    ----------
    given
        Called for every chunk of a minibatch stage, where parameters change between two blocks, else once.
    row_states
        States of the rows by chunk, kept from pass to pass where the engine keeps rows.
    """
    functions = callable_tree(model.start_rows), callable_tree(model.e_step)
    if isinstance(engine, Elsewhere) and layout.rows_per_update is None:
        interrupts.check()
        runs = engine.on_runs(_sum_run, (functions, given()), layout, _merged)
        if runs:
            yield TreeSum(branch for run in runs for branch in run).total()
        return
    keeps = engine.keeps_rows and model.start_rows is not None

    def take(total: TreeSum, done: tuple[int, PyTree, PyTree]) -> None:
        number, stats, state = done
        if keeps:
            row_states[number] = state
        total.add(Branch((number - first) * parts, parts, stats))

    total, first, flying, copies = TreeSum(), 0, InFlight(), Copies()
    here: tuple[Any, Pass] | None = None
    parts = 1
    for chunk in engine.chunks(layout):
        interrupts.check()
        parts = chunk.parts  # the same in all
        if here is None or layout.rows_per_update is not None:
            here = functions, given()
        device = device_of(chunk.number, layout)
        work = partial(_stats_of, copies.on(device, here), chunk, layout, row_states.get(chunk.number), device)
        for done in flying.add(work, last=chunk.ends_update):
            take(total, done)
        if chunk.ends_update:
            for done in flying.rest():
                take(total, done)
            yield total.total()
            total, first = TreeSum(), chunk.number + 1


def _stats_of(
    given: tuple[tuple[Any, Any], Pass], chunk: Chunk, layout: Layout, state: PyTree, device: jax.Device | None = None
) -> tuple[int, PyTree, PyTree]:
    """Compute the statistics of a chunk and the states of its rows; return its number, too."""
    (start_rows, e_step), now = given
    rows, known = _rows_of(chunk), {"complete": chunk.complete, "dtype": layout.dtype, "parts": chunk.parts}
    values, first, counted = rows if chunk.weights is None else (*rows[:2], chunk.weights)
    if chunk.on_host:
        return chunk.number, *_by_numpy(e_step, now, (values, first, counted), chunk, layout, state)
    with tree.rows_in(layout.dtype), on(device):
        if state is None and start_rows is not None:
            state = chunk_rows(start_rows, now, *rows, purpose=START_ROWS, few=chunk.few, **known)
        stats, state = chunk_stats(e_step, now, values, first, counted, state, **known)
    return chunk.number, stats, state


def _sum_run(given: tuple[tuple[Any, Any], Pass], chunks: Iterable[Chunk], layout: Layout) -> list[Branch]:
    """Compute the branches of the sum over a run of chunks, one after the other."""
    total = TreeSum()
    for chunk in chunks:
        number, stats, _ = _stats_of(given, chunk, layout, None)
        total.add(Branch(number * chunk.parts, chunk.parts, stats))
    return [branch.copied() for branch in total.branches]


def _merged(parts: list[list[Branch]]) -> list[Branch]:
    return TreeSum(branch.copied() for part in parts for branch in part).branches


def map_rows(function: Callable[..., Any], engine: Engine, layout: Layout, given: Pass) -> Iterator[PyTree]:
    """Apply a function of each row, ``(params, shared, batch) -> pytree of (rows, ...)``, as NumPy, chunk by chunk.

    Leaves without a row axis (scalars) are passed through.
    """
    here, room, done = (callable_tree(function), given), Room(), 0  # rows that were yielded already
    if isinstance(engine, Elsewhere):
        interrupts.check()
        yield from engine.on_runs(rows_of_run, here, layout)
        return
    while True:
        try:
            for first, n_rows, rows in _mapped(here, engine, layout, done):
                yield jax.tree.map(lambda x, known=done - first: x[known:] if x.ndim else x, rows)
                done = first + n_rows
            return
        except JaxRuntimeError as error:
            layout = room.less_after(error, layout)


def _mapped(here: tuple[Any, Pass], engine: Engine, layout: Layout, after: int) -> Iterator[tuple[int, int, PyTree]]:
    """Apply a function to the chunks that reach beyond row `after`; yield first row, number of rows and result."""
    flying, copies = InFlight(), Copies()
    for chunk in engine.chunks(layout):
        interrupts.check()
        limits.check_time()
        if chunk.first_row + chunk.n_rows <= after:
            continue
        device = device_of(chunk.number, layout)
        work = partial(_rows_of_chunk, copies.on(device, here), chunk, layout, device)
        yield from (_on_host(*done) for done in flying.add(work, last=chunk.ends_update))
    yield from (_on_host(*done) for done in flying.rest())


def rows_of_run(given: tuple[Any, Pass], chunks: Iterable[Chunk], layout: Layout) -> PyTree:
    """Map a function over each row of a run, as NumPy; leaves without a row axis, alike in all chunks, stay."""
    parts = [_on_host(*_rows_of_chunk(given, chunk, layout))[-1] for chunk in chunks]
    return jax.tree.map(lambda *pieces: np.concatenate(pieces) if pieces[0].ndim else pieces[0], *parts)


def _rows_of_chunk(
    given: tuple[Any, Pass], chunk: Chunk, layout: Layout, device: jax.Device | None = None
) -> tuple[int, int, PyTree]:
    if chunk.on_host:
        return chunk.first_row, chunk.n_rows, _by_numpy(*given, _rows_of(chunk), chunk, layout)
    known = {"complete": chunk.complete, "dtype": layout.dtype, "few": chunk.few, "parts": chunk.parts}
    with tree.rows_in(layout.dtype), on(device):
        return chunk.first_row, chunk.n_rows, chunk_rows(*given, *_rows_of(chunk), purpose=E_STEP, **known)


def _by_numpy(
    function: Callable[..., Any], given: Pass, rows: tuple[Any, Any, Any], chunk: Chunk, layout: Layout, *states: PyTree
) -> Any:
    """Apply a function to a batch of NumPy's arrays; it makes no random numbers of its rows."""
    with one_thread, np.errstate(all="ignore"):
        batch = make_batch(*rows, given.key, chunk.complete, layout.dtype)
        return jax.tree.map(_read_only, function(*in_numpy((given.params, given.shared)), batch, *states))


def _read_only(x: Any) -> Any:
    """Protect an array as JAX's are: leaves may share memory, and sums are added to in place."""
    if isinstance(x, jax.Array):
        raise TypeError("a function of rows on the host has called JAX: write it for both sides (core/arrays.py)")
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def _on_host(first: int, n: int, out: PyTree) -> tuple[int, int, PyTree]:
    return first, n, jax.tree.map(lambda x: np.asarray(x)[:n] if x.ndim else np.asarray(x), out)


def _rows_of(chunk: Chunk) -> tuple[Any, np.uint32 | UInt32[np.ndarray, "2"], np.uint32]:
    high, low = divmod(chunk.first_row, WORD)
    within = chunk.first_row + len(chunk.values) <= WORD  # all but the largest tables: one word, one program
    first = np.uint32(low) if within else np.array([low, high], np.uint32)
    return chunk.values, first, np.uint32(chunk.n_rows)
