"""Functions in NumPy on the host rather than compiled: of parameters and sums where these are few, and of few rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import scipy.linalg  # noqa: F401 - so that its BLAS is among those found
from jaxtyping import PyTree
from threadpoolctl import ThreadpoolController

from latentbits.core.compilation import Program
from latentbits.core.errors import FitError
from latentbits.core.model import Model
from latentbits.core.processor import accelerated
from latentbits.engines.memory import MemoryEngine

__all__ = ["host_rows", "in_numpy", "one_thread", "runs_on_host", "solvable", "without_rows"]

# Numbers in the parameters.  Mixtures of 64 to 4096 components of the digits (4e3 to 3e5 numbers) learn in .9 to 1.4 of
# the time that compiled updates need, of which each costs seconds to compile; more of them belong on an accelerator.
MOST_NUMBERS_ON_HOST = 2**17
# Cells of a table: a Chow-Liu tree of as many takes .55 s in NumPy and .12 s compiled, once that has taken 3 s
MOST_CELLS_ON_HOST = 2**22
# Numbers that an E-step holds of all rows: mixtures of 4 on 8000 x 12 and of 8 on 1797 x 64 (3e5) take .9 and 1.6 ms a
# pass in NumPy, 1.8 and 1.5 compiled on two cores, once that has taken a second
MOST_NUMBERS_OF_ROWS_ON_HOST = 2**19


def runs_on_host(model: Model, params: PyTree) -> bool:
    """Whether functions of the parameters run in NumPy: by a count of numbers, so that every processor chooses alike.

    Beside an accelerator they are compiled: a pass of 2 million rows took 9 ms, not 7, where it waited for the host.
    """
    return (
        model.on_host and not accelerated() and sum(np.size(x) for x in jax.tree.leaves(params)) <= MOST_NUMBERS_ON_HOST
    )


def without_rows(program: Program, on_host: bool) -> Callable[..., Any]:
    """Return a program as it is, or its function for NumPy."""
    if not on_host:
        return program

    def call(*args: Any, **constants: Any) -> Any:
        with one_thread, solvable(), np.errstate(all="ignore"):  # JAX warns of no infinity either
            return program.function(*in_numpy(args), **constants)

    return call


@contextmanager
def solvable() -> Iterator[None]:
    """Turn equations that cannot be solved into the error of a fit; compiled, they are an objective of nan."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise FitError(
            f"no update could be computed ({error}): try dtype='float64', more smoothing or a stronger prior, and look "
            "for columns of extreme values"
        ) from error


def host_rows(model: Model, engine: Any, rows_per_chunk: int) -> int:
    """Return the most rows of a table of which functions run in NumPy: where a model says that they can.

    Sums of real numbers do so in tables of a single small chunk, whichever engine has it, so that all give the same
    bits; counts, which are whole numbers, in tables in memory.
    """
    if model.rows_on_host == "never" or accelerated() or getattr(engine, "packs", False):
        return 0
    if model.rows_on_host == "small":
        return min(MOST_NUMBERS_OF_ROWS_ON_HOST // model.row_floats(engine.n_features), rows_per_chunk - 1)
    if not isinstance(engine, MemoryEngine) or engine.table.size > MOST_CELLS_ON_HOST:
        return 0
    return len(engine.table) if model.rows_on_host == "always" or engine.complete else 0


def in_numpy(tree: PyTree) -> PyTree:
    """Move what is on a device to the host; all else, keys among it, stays."""
    return jax.tree.map(lambda x: np.asarray(x) if _is_array(x) else x, tree)


def _is_array(x: Any) -> bool:
    return isinstance(x, jax.Array) and not jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)


class _OneThread:
    """Context in which products have the same bits on any number of cores: BLAS shares them out by their number.

    The number of threads is the process's: the first of several fits at a time sets it, the last restores it.
    """

    def __init__(self) -> None:
        self._inside, self._lock = 0, threading.Lock()
        self._blas: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._blas = self._blas or ThreadpoolController()
                self._limit = self._blas.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


one_thread = _OneThread()
