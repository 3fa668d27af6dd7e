"""Sums over all hidden states of a tree: up to the root, which gives p(x), and down again, which gives posteriors.

With l_j(t) = P(bits below and at column j | z_j = t) and m_j(s) = sum_t P(z_j = t | z_parent = s) l_j(t),

    l_j(t) = P(x_j | t) prod_children m_c(t),    p(x) = m_root,
    P(z_parent = s, z_j = t | x) = P(z_parent = s | x) / m_j(s) P(t | s) l_j(t).

Products of messages are sums of logarithms: a column with many neighbours would have products that are 0 for every
state.  l is kept in units of its largest entry.

Several columns are done at a time (`structure.py`), and rows come last in all arrays, where processors are quick.  A
leaf is done without any matrix: its message is one of two that are known before the rows are, P(x_j = 1 | z_parent) and
P(x_j = 0 | z_parent), and of the rows it needs to know how often it is 1, and how often 0, by the state of its parent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Num

from latentbits.core.arrays import Array, namespace, put
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import narrow_over_last
from latentbits.core.module import Module
from latentbits.core.special import TINY

__all__ = ["Counts", "Tree", "Upward", "down", "laid_out", "most_probable", "states", "up"]

LEAST = 1e-37  # what a sum of positive numbers may come to in float32


class Inner(Module):
    """Columns with others below them, and roots, as they are taken; a place that no column takes has column d + 1."""

    column: Int[Array, "*trees steps width"]  # which
    # the place of what it hangs from: places are counted through all steps; then comes what roots hang from, whose
    # state makes no difference, and then where that goes which is no column's
    above: Int[Array, "*trees steps width"]
    # transition, turned: P(state | state of the parent), the parent's first, and last
    transition: Float[Array, "*trees steps width states states"]
    turned: Float[Array, "*trees steps width states states"]
    # log_one, log_zero: log P(bit | state)
    log_one: Float[Array, "*trees steps width states"]
    log_zero: Float[Array, "*trees steps width states"]


class Leaves(Module):
    """Columns with nothing below them: the same, and logarithms of P(bit | state of the parent)."""

    column: Int[Array, "*trees batches width"]
    above: Int[Array, "*trees batches width"]
    transition: Float[Array, "*trees batches width states states"]
    log_one: Float[Array, "*trees batches width states"]
    log_zero: Float[Array, "*trees batches width states"]
    log_message_one: Float[Array, "*trees batches width states"]
    log_message_zero: Float[Array, "*trees batches width states"]


class Tree(Module):
    """One tree, or several along a first axis."""

    inner: Inner
    leaves: Leaves


class Upward(NamedTuple):
    """log p(x), and of inner columns what the way down needs: l in units of its largest entry, and m in the same."""

    log_p: Float[Array, " rows"]
    inside: Float[Array, "steps width states rows"]
    message: Float[Array, "steps width states rows"]


class Counts(Module):
    """Expected counts, sums over rows: of transitions, and of ones and zeros by the state of their column."""

    moved: Float[Array, "*trees columns states states"]
    ones: Float[Array, "*trees columns states"]
    zeros: Float[Array, "*trees columns states"]


def laid_out(
    parent: Int[Array, " columns"],
    inner: Int[Array, "steps width"],
    leaves: Int[Array, "batches leaves"],
    transition: Float[Array, "columns states states"],
    log_one: Float[Array, "columns states"],
    log_zero: Float[Array, "columns states"],
) -> Tree:
    """Lay a tree out in the order in which sums run over it: once for all rows."""
    d, xp = len(parent), namespace(parent, transition)
    place = put(xp.zeros(d + 2, "int32"), inner.ravel(), xp.arange(inner.size, dtype="int32"))
    place = put(place, slice(d, None), xp.arange(inner.size, inner.size + 2, dtype="int32"))
    above = place[xp.append(parent, xp.asarray([d + 1, d + 1]))]  # of each column
    parts = [xp.concatenate([x, xp.zeros_like(x, shape=(2, *x.shape[1:]))]) for x in (transition, log_one, log_zero)]
    moves, one, zero = parts
    messages = [xp.log(xp.maximum(xp.einsum("jst,jt->js", moves, xp.exp(x)), TINY**2)) for x in (one, zero)]
    return Tree(
        Inner(inner, above[inner], moves[inner], moves[inner].swapaxes(2, 3), one[inner], zero[inner]),
        Leaves(leaves, above[leaves], moves[leaves], one[leaves], zero[leaves], *(x[leaves] for x in messages)),
    )


class _Bits(NamedTuple):
    """Flags of some columns: bit is 1, and bit is 0; neither where it is missing, or no column."""

    one: Float[Array, "width rows"]
    zero: Float[Array, "width rows"]

    def chosen(self, one: Float[Array, "width states"], zero: Float[Array, "width states"]) -> Array:
        """Select the value of each bit; 0 where it is missing."""
        return self.one[:, None] * one[..., None] + self.zero[:, None] * zero[..., None]

    def counted(self, share: Float[Array, "width states rows"]) -> tuple[Array, Array]:
        """Sum shares of the states over rows with a 1 and over rows with a 0."""
        found = jax.vmap(narrow_over_last)(share, jnp.stack([self.one, self.zero], 1))
        return found[..., 0], found[..., 1]


def _turned(batch: Batch) -> _Bits:
    """Put columns first and rows last, and append two columns that do not exist."""
    one = batch.values.T
    zero = (1 if batch.observed is None else batch.observed.T) - one
    return _Bits(*(jnp.concatenate([x, jnp.zeros_like(x, shape=(2, x.shape[1]))]) for x in (one, zero)))


def _of(bits: _Bits, columns: Int[Array, " width"]) -> _Bits:
    return _Bits(bits.one[columns], bits.zero[columns])


def _each(of: Inner | Leaves, *more: Array) -> tuple[Any, ...]:
    """Pair every step with the number of its first place."""
    n, width = of.column.shape
    return of, jnp.arange(n) * width, *more


def _nothing_yet(tree: Tree, batch: Batch) -> Float[Array, "places states rows"]:
    k = tree.inner.transition.shape[-1]
    return jnp.zeros((tree.inner.column.size + 2, k, len(batch.weight)), batch.weight.dtype)


def _from_leaves(tree: Tree, bits: _Bits, nothing: Float[Array, "places states rows"]) -> Array:
    """Sum the log-messages of all leaves at the places of their parents."""

    def step(gathered: Float[Array, "places states rows"], part: tuple[Leaves, Array]) -> tuple[Array, None]:
        some, _ = part
        log_message = _of(bits, some.column).chosen(some.log_message_one, some.log_message_zero)
        return gathered.at[some.above].add(log_message), None

    return jax.lax.scan(step, nothing, _each(tree.leaves))[0]


def up(tree: Tree, batch: Batch) -> Upward:
    """Pass messages from the leaves to the root."""
    bits = _turned(batch)

    def step(
        gathered: Float[Array, "places states rows"], part: tuple[Inner, Array]
    ) -> tuple[Array, tuple[Array, Array]]:
        some, first = part
        own = jax.lax.dynamic_slice_in_dim(gathered, first, len(some.column))
        log_inside = own + _of(bits, some.column).chosen(some.log_one, some.log_zero)
        top = jnp.max(log_inside, axis=1, keepdims=True)
        inside = jnp.exp(log_inside - top)
        message = jnp.maximum(some.transition @ inside, LEAST)
        return gathered.at[some.above].add(jnp.log(message) + top), (inside, message)

    gathered = _from_leaves(tree, bits, _nothing_yet(tree, batch))
    gathered, (inside, message) = jax.lax.scan(step, gathered, _each(tree.inner))
    return Upward(gathered[-2, 0], inside, message)


def _beliefs(
    tree: Tree, found: Upward, weight: Float[Array, " rows"], tell: Any
) -> tuple[Float[Array, "places states rows"], Any]:
    """Compute P(z_j = t | x) times the row's weight for inner columns; `tell` is applied to each on the way down."""

    def step(belief: Float[Array, "places states rows"], part: tuple[Inner, Array, Array, Array]) -> tuple[Array, Any]:
        some, first, inside, message = part
        above = belief[some.above] / message  # P(z_parent | x) / m
        own = inside * (some.turned @ above)
        return jax.lax.dynamic_update_slice_in_dim(belief, own, first, 0), tell(some, above, inside, own)

    top = jnp.zeros_like(found.inside, shape=(tree.inner.column.size + 2, *found.inside.shape[2:]))
    parts = _each(tree.inner, found.inside, found.message)
    return jax.lax.scan(step, top.at[-2, 0].set(weight), parts, reverse=True)


def down(tree: Tree, batch: Batch, found: Upward, weight: Float[Array, " rows"]) -> Counts:
    """Pass from the root to the leaves: expected counts of rows, each counted `weight` times."""
    bits = _turned(batch)

    def tell(some: Inner, above: Array, inside: Array, own: Array) -> tuple[Array, Array, Array]:
        moved = some.transition * jax.vmap(narrow_over_last)(above, inside)
        return moved, *_of(bits, some.column).counted(own)

    def leaf(_: None, part: tuple[Leaves, Array]) -> tuple[None, tuple[Array, Array, Array]]:
        some, _first = part
        own = belief[some.above]
        # P(z_parent, x_j) / P(x_j | z_parent), summed over rows, for each of both bits
        one, zero = _of(bits, some.column).counted(own)
        one, zero = one * jnp.exp(-some.log_message_one), zero * jnp.exp(-some.log_message_zero)
        by_bit = [
            some.transition * x[:, :, None] * jnp.exp(log)[:, None]
            for x, log in ((one, some.log_one), (zero, some.log_zero))
        ]
        moved = by_bit[0] + by_bit[1]
        if batch.observed is not None:
            unseen = jnp.concatenate([1 - batch.observed.T, jnp.zeros_like(weight, shape=(2, len(weight)))])
            hidden = jax.vmap(narrow_over_last)(own, unseen[some.column][:, None])
            moved += some.transition * hidden
        return None, (moved, by_bit[0].sum(1), by_bit[1].sum(1))

    belief, inner = _beliefs(tree, found, weight, tell)
    _, leaves = jax.lax.scan(leaf, None, _each(tree.leaves))
    columns = (tree.inner.column, tree.leaves.column)
    return Counts(*(_by_column(batch, columns, both) for both in zip(inner, leaves)))


def _by_column(batch: Batch, columns: tuple[Array, Array], parts: tuple[Array, Array]) -> Num[Array, "columns *rest"]:
    """Merge the results of inner columns and of leaves, in the order of the columns."""
    found = jnp.zeros_like(parts[0], shape=(batch.values.shape[1], *parts[0].shape[2:]))
    for which, part in zip(columns, parts):
        found = found.at[which].set(part, mode="drop")
    return found


def states(tree: Tree, batch: Batch, found: Upward) -> Float[Array, "rows columns states"]:
    """Compute P(z_j = t | x) of every column."""
    bits = _turned(batch)
    belief, own = _beliefs(tree, found, jnp.ones_like(batch.weight), lambda some, above, inside, own: own)

    def leaf(_: None, part: tuple[Leaves, Array]) -> tuple[None, Array]:
        some, _first = part
        these = _of(bits, some.column)
        message = jnp.exp(these.chosen(some.log_message_one, some.log_message_zero))
        inside = jnp.exp(these.chosen(some.log_one, some.log_zero))
        return None, inside * (some.transition.swapaxes(1, 2) @ (belief[some.above] / message))

    _, leaves = jax.lax.scan(leaf, None, _each(tree.leaves))
    return _by_column(batch, (tree.inner.column, tree.leaves.column), (own, leaves)).transpose(2, 0, 1)


def most_probable(tree: Tree, batch: Batch) -> tuple[Float[Array, " rows"], Int[Array, "rows columns"]]:
    """Find the jointly most probable states of all columns, and the log of their probability with that of the row."""
    bits = _turned(batch)

    def each(some: Inner | Leaves, own: Array | float) -> Float[Array, "width states states rows"]:
        log_inside = own + _of(bits, some.column).chosen(some.log_one, some.log_zero)
        return log_inside[:, None] + jnp.log(jnp.maximum(some.transition, LEAST))[..., None]

    def ahead(gathered: Float[Array, "places states rows"], part: tuple[Inner, Array]) -> tuple[Array, Array]:
        some, first = part
        found = each(some, jax.lax.dynamic_slice_in_dim(gathered, first, len(some.column)))
        return gathered.at[some.above].add(jnp.max(found, 2)), jnp.argmax(found, 2)

    def from_leaf(gathered: Float[Array, "places states rows"], part: tuple[Leaves, Array]) -> tuple[Array, Array]:
        found = each(part[0], 0.0)
        return gathered.at[part[0].above].add(jnp.max(found, 2)), jnp.argmax(found, 2)

    gathered, of_leaves = jax.lax.scan(from_leaf, _nothing_yet(tree, batch), _each(tree.leaves))
    gathered, of_inner = jax.lax.scan(ahead, gathered, _each(tree.inner))

    def taken(chosen: Int[Array, "places rows"], some: Inner | Leaves, best: Array) -> Int[Array, "width rows"]:
        return jnp.take_along_axis(best, chosen[some.above][:, None], axis=1)[:, 0]

    def back(chosen: Int[Array, "places rows"], part: tuple[Inner, Array, Array]) -> tuple[Array, Array]:
        some, first, best = part
        own = taken(chosen, some, best)
        return jax.lax.dynamic_update_slice_in_dim(chosen, own, first, 0), own

    nothing = jnp.zeros_like(of_inner, shape=(tree.inner.column.size + 2, len(batch.weight)))
    chosen, inner = jax.lax.scan(back, nothing, _each(tree.inner, of_inner), reverse=True)
    leaves = jax.vmap(lambda some, best: taken(chosen, some, best))(tree.leaves, of_leaves)
    return gathered[-2, 0], _by_column(batch, (tree.inner.column, tree.leaves.column), (inner, leaves)).T
