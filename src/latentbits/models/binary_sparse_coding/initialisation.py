"""Several starts side by side, as one model: with small tables it is calls that take the time, not what they compute.

What sees parameters and sums alone takes those of all starts at once, along the first axis.  The value that each start
has reached is kept from pass to pass (`Starts.values`), since the loop knows one objective, the best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Int, PyTree

from latentbits.core.arrays import AnyKey, Array, each, namespace, split
from latentbits.core.batch import Batch
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Evaluate, Model, Progress, Schedule, Summary
from latentbits.core.module import Module
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.statistics import Stats

__all__ = ["Starts", "Sums", "evaluation", "side_by_side"]


class Starts(Module):
    """Parameters of each start, along the first axis, and its free energy in the pass before."""

    each: Params
    values: Float[Array, " starts"]

    def one(self, number: int) -> Params:
        """Return the parameters of one start."""
        return jax.tree.map(lambda x: x[number], self.each)


class Sums(Module):
    """The statistics of each start, along the first axis."""

    n_rows: Float[Array, ""]
    each: Stats

    @property
    def values(self) -> Float[Array, " starts"]:
        """The free energy of each."""
        return self.each.free_energy.sum(1)


@cache
def _init(n: int) -> Callable[..., Starts]:
    """Make the function for the parameters of n starts; its first argument is that of one."""

    def init(one: Partial, key: AnyKey, summary: Summary) -> Starts:
        return Starts(each(lambda key: one(key, summary), split(key, n)), namespace(summary).zeros(n))

    return init


def _start(one: Partial, starts: Starts) -> PyTree:
    return one(starts.each)


def _prepare(one: Partial, starts: Starts, state: PyTree, progress: Progress | None) -> PyTree:
    return one(starts.each, state, progress)


def _update(
    one: Partial, state: PyTree, starts: Starts, shared: PyTree, sums: Sums, progress: Progress
) -> tuple[PyTree, Starts]:
    state, params = one(state, starts.each, shared, sums.each, progress)
    return state, Starts(params, sums.values)


def _e_step(one: Partial, starts: Starts, shared: PyTree, batch: Batch, row_state: None) -> tuple[Sums, None]:
    sums = jax.vmap(lambda params, shared: one(params, shared, batch, None)[0])(starts.each, shared)
    return Sums(sums.n_rows[0], sums), None


def _best(starts: Starts, shared: PyTree, sums: Sums) -> Float[Array, ""]:
    """Return the best; a start that fails is not among them, unless all do."""
    xp = namespace(sums)
    return xp.max(xp.where(xp.isfinite(sums.values), sums.values, -xp.inf))


def _of_one(number: Int[Array, ""], starts: Starts, shared: PyTree, sums: Sums) -> Float[Array, ""]:
    return sums.values[number]


def _watch(one: Partial, starts: Starts) -> dict[str, Array]:
    return {**one(starts.each), "values": starts.values}


def side_by_side(one: Model, n: int, n_states: int) -> Model:
    """Make the first stage of a model, from n starts at once.

    `one`: binary sparse coding, as `model` makes it.  `n`, `n_states`: starts, and states of a row that each looks at.
    """

    def of(function: Callable[..., Any], name: str) -> Partial:
        return Partial(function, callable_tree(getattr(one, name)))

    return one._replace(
        init=of(_init(n), "init"),
        start=of(_start, "start"),
        prepare=of(_prepare, "prepare"),
        e_step=of(_e_step, "e_step"),
        update=of(_update, "update"),
        objective=_best,
        watch=of(_watch, "watch"),
        row_floats=lambda n_columns: max(one.row_floats(n_columns), n_columns + 2 * n * n_states),
        stages=one.stages[:1],
    )


def evaluation(several: Model, number: int) -> Model:
    """Make the record that evaluates the free energy of one of several starts."""
    (stage,) = several.stages
    assert isinstance(stage, Schedule)
    last = Evaluate("evaluation", measure=stage.measure, objective=Partial(_of_one, np.int32(number)))
    return several._replace(stages=(last,), needs_summary=False)
