"""Functions that are compiled once for each shape of their arguments, and kept on disk.

Numbers are arguments: a model's function may be a `jax.tree_util.Partial` whose leaves are settings, so that models
which differ in numbers alone share their programs.  A program that an earlier process has compiled is traced and
lowered, which identifies it, and then read from disk (`core/program_cache.py`).
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from latentbits.core import forks, program_cache

__all__ = ["Program", "callable_tree", "clear", "made", "seconds_waited", "setting"]

Efforts = tuple[tuple[float, dict[str, Any]], ...]  # up to how many bytes, which options
# How hard XLA's compiler for CPUs should try.  Measured on programs of all families: code that is compiled QUICKLY runs
# 1 to 10 times slower and takes a fifth of the time to compile; code compiled WELL seldom differs from the best where
# arrays are small or functions of each row are simple, and takes half.
SPLIT = {"xla_cpu_parallel_codegen_split_count": 4}
QUICKLY = SPLIT | {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}
WELL = SPLIT | {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
BEST: dict[str, Any] = SPLIT
# Up to how many bytes of memory traffic (before any fusion) each is good enough: for what is called at every pass, for
# what is called for every chunk, where functions of each row are most of the work, and for what is called seldom.
OFTEN: Efforts = ((1e6, QUICKLY), (1.5e7, WELL), (math.inf, BEST))
CHUNKS: Efforts = ((1e5, QUICKLY), (1.5e7, WELL), (math.inf, BEST))
SELDOM: Efforts = ((4e6, QUICKLY), (5e8, WELL), (math.inf, BEST))
# On a GPU nearly all of the time goes into trying kernels of Triton for every product.  cuBLAS is as fast where arrays
# are small, but for large ones up to four times slower (trees), and trying is soon made up for.  There XLA tells no
# traffic before it compiles: bounds are of the bytes of the arguments, rows above all.
UNTRIED = {"xla_gpu_enable_triton_gemm": False, "xla_gpu_autotune_level": 1}
ON_GPU: Efforts = ((4e6, UNTRIED), (math.inf, {}))
# Programs are called by several threads.  A batched call of LAPACK, which XLA may make in one of its few threads,
# waits there for others of them: as many such programs as XLA has threads wait for each other for ever.
_alone = threading.Lock()
_no_options: set[str] = set()  # options that this version of XLA has been found not to have


class Ready(NamedTuple):
    """A compiled program, the structure of what it returns, and whether no other of its kind may run beside it."""

    call: Callable[..., Any]
    returns: Any
    alone: bool = False


class Program:
    """A function of trees of arrays, compiled for what it is called with.

    Parameters
    ----------
    function
        Positional arguments are trees of arrays and numbers (a `Partial` is one), keyword arguments are constants.
    seldom
        It is called a few times only; may be a function of the constants.
    of_chunk
        It is called for every chunk.
    """

    _all: ClassVar[list[Program]] = []

    def __init__(
        self, function: Callable[..., Any], *, seldom: bool | Callable[..., bool] = False, of_chunk: bool = False
    ) -> None:
        self.function, self.seldom, self.of_chunk = function, seldom, of_chunk
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._begun: dict[Any, Future[Ready]] = {}
        self._lock = threading.Lock()
        Program._all.append(self)

    def __call__(self, *args: Any, **static: Any) -> Any:
        """Return the function's value."""
        forks.refuse()
        if setting("jax_disable_jit"):
            return self.function(*args, **static)
        leaves, structure = jax.tree.flatten(args)
        ready = self._ready(leaves, structure, static)
        if ready.alone:
            with _alone:
                return jax.tree.unflatten(ready.returns, jax.block_until_ready(ready.call(*leaves)))
        return jax.tree.unflatten(ready.returns, ready.call(*leaves))

    def _ready(self, leaves: list[Any], structure: Any, static: dict[str, Any]) -> Ready:
        """Find the compiled program for these arguments, or compile it; other threads wait meanwhile."""
        context = _context()
        key = structure, tuple(map(_kind, leaves)), tuple(sorted(static.items())), context
        begun = self._begun.get(key)
        if begun is not None and begun.done():
            return begun.result()
        with _waiting:
            with self._lock:
                future = self._begun.get(key)
                if future is None:
                    # of each kind in memory, for users who make new functions for each fit
                    while len(self._begun) >= 1000:
                        del self._begun[next(iter(self._begun))]
                    mine = self._begun[key] = Future[Ready]()
            if future is not None:
                return future.result()
            try:
                mine.set_result(self._compiled(key[1], leaves, structure, static, context))
            except BaseException as error:
                self._begun.pop(key, None)  # the next call tries again
                mine.set_exception(error)
            return mine.result()

    def _compiled(
        self, kinds: tuple[Any, ...], leaves: list[Any], structure: Any, static: dict[str, Any], context: _Context
    ) -> Ready:
        """Trace and lower the function, and read the program from disk or compile it."""
        forks.at_work()
        traced, returns = self._traced(structure, leaves, static)
        made = Made(self.name)
        _made.append(made)
        # lowered, the text of a program says what it computes
        device = context.device or jax.local_devices()[0]
        efforts = self._efforts(static, device.platform)
        lowered = traced.lower()
        text = lowered.as_text()
        name = program_cache.name(text, repr((kinds, jax.tree.leaves(returns), efforts, context)), device)
        # read it from disk, or compile and write it
        call = None if name is None else program_cache.load(name, lowered, device)
        made.compiled = call is None
        if call is None:
            call = _compile(lowered, _options(efforts, lowered, device.platform))
            if name is not None:
                program_cache.write(name, call)
        return Ready(call, jax.tree.structure(returns), device.platform == "cpu" and "lapack" in text)

    def _traced(self, structure: Any, leaves: list[Any], static: dict[str, Any]) -> tuple[jax.stages.Traced, Any]:
        """Return the program as JAX sees it, as a function of leaves, and the shapes of what it returns."""
        returns = None

        def flat(*leaves: Any) -> list[Any]:
            nonlocal returns
            values, returns = jax.tree.flatten(self.function(*jax.tree.unflatten(structure, leaves), **static))
            return [_strong(x) for x in values]

        flat.__name__ = flat.__qualname__ = self.function.__name__
        # what lowers to the same text could leave out different arguments: none is left out
        traced = jax.jit(flat, keep_unused=True).trace(*map(_shape, leaves))
        return traced, jax.tree.unflatten(returns, [_shape(x) for x in traced.out_info])

    def _efforts(self, static: dict[str, Any], platform: str) -> Efforts:
        seldom = self.seldom(**static) if callable(self.seldom) else self.seldom
        if platform == "gpu":
            return ((math.inf, UNTRIED),) if seldom else ON_GPU
        if platform != "cpu":
            return ((math.inf, {}),)
        return SELDOM if seldom else CHUNKS if self.of_chunk else OFTEN


def _options(efforts: Efforts, lowered: jax.stages.Lowered, platform: str) -> dict[str, Any]:
    """Return options that are good enough for the traffic of a program."""
    if platform == "cpu":
        cost = lowered.cost_analysis()
        work = cost.get("bytes accessed", math.inf) if isinstance(cost, dict) else math.inf
    else:
        work = _bytes_of(lowered)
    return next(options for most, options in efforts if work <= most)


def _bytes_of(lowered: jax.stages.Lowered) -> int:
    """Add up the bytes of all arguments."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(lowered.args_info))


def _compile(lowered: jax.stages.Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    """Compile with those of the options that this XLA has: they come and go with its versions."""
    options = {name: value for name, value in options.items() if name not in _no_options}
    try:
        return lowered.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        unknown = re.search(r"(?:No such compile option: '|While setting option )(\w+)", str(error))
        if unknown is None or unknown[1] not in options:
            raise
        _no_options.add(unknown[1])
        return _compile(lowered, options)


def callable_tree(function: Callable[..., Any] | None) -> Partial | None:
    """Return a function as a tree: what it holds as leaves are arguments of the programs it is given to."""
    return function if function is None or isinstance(function, Partial) else Partial(function)


def clear() -> None:
    """Forget all programs in memory."""
    for program in Program._all:
        program._begun.clear()


# ---------------------------------------------------------------- arguments


def _kind(x: Any) -> Any:
    """Describe a leaf as far as a program depends on it."""
    if isinstance(x, jax.Array | jax.ShapeDtypeStruct):
        return x.shape, x.dtype, bool(x.weak_type)
    if isinstance(x, np.ndarray | np.generic):
        return x.shape, x.dtype, False
    return type(x)


def _shape(x: Any) -> Any:
    if isinstance(x, jax.Array | jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=bool(x.weak_type))
    if isinstance(x, np.ndarray | np.generic):
        return jax.ShapeDtypeStruct(x.shape, jax.dtypes.canonicalize_dtype(x.dtype))  # as it will be taken
    return x


def _strong(x: Any) -> Any:
    """Without JAX's weak type, by which programs of equal shapes would differ."""
    x = x if isinstance(x, jax.Array) else jnp.asarray(x)
    return jax.lax.convert_element_type(x, x.dtype) if x.weak_type else x


class _Context(NamedTuple):
    """Settings that the library, or a user, changes for a while in one thread."""

    x64: bool
    precision: Any
    device: jax.Device | None


def _context() -> _Context:
    return _Context(setting("jax_enable_x64"), setting("jax_default_matmul_precision"), setting("jax_default_device"))


def setting(name: str) -> Any:
    """One of JAX's settings, as it is in this thread."""
    return getattr(jax.config, name)


# ---------------------------------------------------------------- counting


@dataclass
class Made:
    """A program of this process; compiled, or else read from disk; None as long as it is neither."""

    name: str
    compiled: bool | None = None


_made: list[Made] = []


class _Waiting:
    """Adds up the time in which a thread traces a program, or waits until it is compiled."""

    def __init__(self) -> None:
        self.seconds, self._began, self._threads, self._lock = 0.0, 0.0, 0, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._threads == 0:
                self._began = time.perf_counter()
            self._threads += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                self.seconds += time.perf_counter() - self._began


_waiting = _Waiting()


def seconds_waited() -> float:
    """Return the time that this process has spent on programs rather than on running them."""
    return _waiting.seconds


def made() -> tuple[Made, ...]:
    """Return all programs of this process, in the order in which they were begun."""
    return tuple(_made)
