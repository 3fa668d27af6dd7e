"""Several starts side by side, as one model: with small tables it is calls that take the time, not what they compute.

Every function is that of one start, for all of them at once.  The value that each start has reached is kept from pass
to pass (`Starts.values`), since the loop knows one objective, the best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Int, Key, PyTree

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Evaluate, Model, Progress, Schedule, Summary
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.statistics import Stats

__all__ = ["Starts", "evaluation", "side_by_side"]


class Starts(eqx.Module):
    """Parameters of each start, along the first axis, and its free energy in the pass before."""

    each: Params
    values: Float[Array, " starts"]

    def one(self, number: int) -> Params:
        """Return the parameters of one start."""
        return jax.tree.map(lambda x: x[number], self.each)


class Sums(eqx.Module):
    """The statistics of each start, along the first axis."""

    n_rows: Float[Array, ""]
    each: Stats

    @property
    def values(self) -> Float[Array, " starts"]:
        """The free energy of each."""
        return self.each.free_energy.sum(1)


class _Functions(NamedTuple):
    init: Callable[..., Starts]
    update: Callable[..., tuple[PyTree, Starts]]


@cache
def _functions(n: int) -> _Functions:
    """Make functions whose random numbers differ between n starts; the first argument is that of one start."""

    def init(one: Partial, key: Key[Array, ""], summary: Summary) -> Starts:
        each = jax.vmap(lambda key: one(key, summary))(jax.random.split(key, n))
        return Starts(each, jnp.zeros(n))

    def update(
        one: Partial, state: PyTree, starts: Starts, shared: PyTree, sums: Sums, progress: Progress
    ) -> tuple[PyTree, Starts]:
        def step(key: Key[Array, ""], *args: PyTree) -> tuple[PyTree, Params]:
            return one(*args, eqx.tree_at(lambda p: p.key, progress, key))

        state, each = jax.vmap(step)(jax.random.split(progress.key, n), state, starts.each, shared, sums.each)
        return state, Starts(each, sums.values)

    return _Functions(init, update)


def _start(one: Partial, starts: Starts) -> PyTree:
    return jax.vmap(one)(starts.each)


def _prepare(one: Partial, starts: Starts, state: PyTree, progress: Progress | None) -> PyTree:
    return jax.vmap(lambda params, state: one(params, state, progress))(starts.each, state)


def _e_step(one: Partial, starts: Starts, shared: PyTree, batch: Batch, row_state: None) -> tuple[Sums, None]:
    each = jax.vmap(lambda params, shared: one(params, shared, batch, None)[0])(starts.each, shared)
    return Sums(each.n_rows[0], each), None


def _best(starts: Starts, shared: PyTree, sums: Sums) -> Float[Array, ""]:
    """Return the best; a start that fails is not among them, unless all do."""
    return jnp.max(jnp.where(jnp.isfinite(sums.values), sums.values, -jnp.inf))


def _of_one(number: Int[Array, ""], starts: Starts, shared: PyTree, sums: Sums) -> Float[Array, ""]:
    return sums.values[number]


def _watch(one: Partial, starts: Starts) -> dict[str, Array]:
    return {**jax.vmap(one)(starts.each), "values": starts.values}


def side_by_side(one: Model, n: int, n_states: int) -> Model:
    """Make the first stage of a model, from n starts at once.

    Parameters
    ----------
    one
        Binary sparse coding, as `model` makes it.
    n, n_states
        Starts, and states of a row that each looks at.
    """
    init, update = _functions(n)

    def of(function: Callable[..., Any], name: str) -> Partial:
        return Partial(function, callable_tree(getattr(one, name)))

    return one._replace(
        init=of(init, "init"),
        start=of(_start, "start"),
        prepare=of(_prepare, "prepare"),
        e_step=of(_e_step, "e_step"),
        update=of(update, "update"),
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
