"""Single steps of learning in one program each, outside of any engine; and records made of NumPy's arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from latentbits.core.batch import Batch, make_batch
from latentbits.core.model import Progress
from latentbits.core.tree import cast, double, to_numpy, widen


def unchecked(record: type, *values: Any) -> Any:
    """Make a record of NumPy's arrays, which are as good for programs, and need none to be made."""
    made = object.__new__(record)
    for field, value in zip(fields(record), values, strict=True):
        object.__setattr__(made, field.name, value)
    return made


def batch_of(table, weights=None, complete=False, dtype=float) -> Batch:
    """Make a batch, inside a program: outside, every operation would be one."""
    n = jnp.uint32(len(table)) if weights is None else jnp.asarray(weights)
    return make_batch(jnp.asarray(table), jnp.uint32(0), n, jax.random.key(0), complete, np.dtype(dtype))


def now(iteration=0, max_iter=10) -> Progress:
    """Say where learning stands."""
    return Progress(jnp.int32(iteration), jnp.int32(max_iter), jnp.int32(iteration), jax.random.key(0))


STEP = ("prepare", "e_step", "update", "objective")


def functions_of(acting: Any, names: Sequence[str] = STEP) -> tuple[Partial, ...]:
    """Give functions of a model as arguments of a program, so that their numbers are numbers of it."""
    found = (getattr(acting, name) for name in names)
    return tuple(f if isinstance(f, Partial) else Partial(f) for f in found)


@partial(jax.jit, static_argnames=("max_iter", "complete", "dtype"))
def _step(functions, params, table, weights, iteration, max_iter, complete, dtype):
    (prepare, e_step, update, objective), dtype = functions, np.dtype(dtype)
    progress = now(iteration, max_iter)
    exact, batch = prepare(params, None, progress), batch_of(table, weights, complete, dtype)
    stats = widen(e_step(cast(params, dtype), cast(exact, dtype), batch, None)[0])
    return stats, update(None, params, exact, stats, progress)[1], objective(params, exact, stats)


def step(acting: Any, params, table, weights=None, iteration=0, max_iter=10, complete=False, dtype="float64") -> tuple:
    """Take a step of EM without a state: statistics, the parameters after it, and the objective before it."""
    weights = np.ones(len(table), dtype) if weights is None else weights.astype(dtype)
    with double():
        given = functions_of(acting), params, table, weights, np.int32(iteration)
        return to_numpy(_step(*given, max_iter=max_iter, complete=complete, dtype=dtype))
