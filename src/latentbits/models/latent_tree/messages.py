"""Sums over all hidden states of a tree: up to the root, which gives p(x), and down again, which gives posteriors.

With l_j(t) = P(bits below and at column j | z_j = t) and m_j(s) = sum_t P(z_j = t | z_parent = s) l_j(t),

    l_j(t) = P(x_j | t) prod_children m_c(t),    p(x) = m_root,
    P(z_parent = s, z_j = t | x) = P(z_parent = s | x) / m_j(s) P(t | s) l_j(t).

Several columns are done at a time (`structure.py`).  Products of messages are sums of logarithms: a column with many
neighbours would have products that are 0 for every state.  l is kept in units of its largest entry.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from latentbits.core.batch import Batch
from latentbits.core.products import over_rows

__all__ = ["Counts", "Tree", "down", "most_probable", "posterior_means", "states", "up"]

LEAST = 1e-37  # what a sum of positive numbers may come to in float32


class Tree(eqx.Module):
    """One tree, or several along a first axis; roots hang from column d, whose state makes no difference."""

    parent: Int[Array, "*trees columns"]
    steps: Int[Array, "*trees steps width"]
    transition: Float[Array, "*trees columns states states"]  # from the state of the parent
    log_one: Float[Array, "*trees columns states"]
    log_zero: Float[Array, "*trees columns states"]


class Upward(NamedTuple):
    """log p(x), and for each step what the way down needs: l in units of its largest entry, and m in the same."""

    log_p: Float[Array, " rows"]
    inside: Float[Array, "steps width rows states"]
    message: Float[Array, "steps width rows states"]


class Counts(eqx.Module):
    """Expected counts, sums over rows: of transitions, of ones and of seen bits by the state of their column."""

    moved: Float[Array, "*trees columns states states"]
    ones: Float[Array, "*trees columns states"]
    seen: Float[Array, "*trees columns states"]


def _at(table: Float[Array, "columns *rest"], nodes: Int[Array, " width"]) -> Float[Array, "width *rest"]:
    return table.at[nodes].get(mode="fill", fill_value=0)


def _bits(batch: Batch, nodes: Int[Array, " width"]) -> tuple[Float[Array, "width rows"], Float[Array, "width rows"]]:
    """The bits of some columns, and whether they are seen; of what is no column nothing is."""
    values = batch.values.T.at[nodes].get(mode="fill", fill_value=0)
    if batch.observed is None:
        there = (nodes < batch.values.shape[1]).astype(values.dtype)[:, None]
        return values, jnp.broadcast_to(there, values.shape)
    return values, batch.observed.T.at[nodes].get(mode="fill", fill_value=0)


def _log_inside(
    tree: Tree, batch: Batch, gathered: Float[Array, "nodes rows states"], nodes: Int[Array, " width"]
) -> Float[Array, "width rows states"]:
    values, seen = _bits(batch, nodes)
    ones, zeros = values[..., None], (seen - values)[..., None]
    return gathered[nodes] + ones * _at(tree.log_one, nodes)[:, None] + zeros * _at(tree.log_zero, nodes)[:, None]


def _nothing_yet(tree: Tree, batch: Batch) -> Float[Array, "nodes rows states"]:
    d, k = tree.log_one.shape
    return jnp.zeros((d + 2, len(batch.weight), k), batch.weight.dtype)  # the last two: above the roots, and no column


def _parents(tree: Tree, nodes: Int[Array, " width"]) -> Int[Array, " width"]:
    return tree.parent.at[nodes].get(mode="fill", fill_value=len(tree.parent) + 1)


def up(tree: Tree, batch: Batch) -> Upward:
    """From the leaves to the root."""

    def step(
        gathered: Float[Array, "nodes rows states"], nodes: Int[Array, " width"]
    ) -> tuple[Array, tuple[Array, Array]]:
        log_inside = _log_inside(tree, batch, gathered, nodes)
        top = jnp.max(log_inside, axis=-1, keepdims=True)
        inside = jnp.exp(log_inside - top)
        message = jnp.einsum("wrt,wst->wrs", inside, _at(tree.transition, nodes))
        gathered = gathered.at[_parents(tree, nodes)].add(jnp.log(jnp.maximum(message, LEAST)) + top)
        return gathered, (inside, message)

    gathered, (inside, message) = jax.lax.scan(step, _nothing_yet(tree, batch), tree.steps)
    return Upward(gathered[len(tree.parent), :, 0], inside, message)


def down(tree: Tree, batch: Batch, found: Upward, weight: Float[Array, " rows"]) -> Counts:
    """From the root to the leaves: expected counts of rows that count as often as `weight` says."""

    def step(
        belief: Float[Array, "nodes rows states"], part: tuple[Array, Array, Array]
    ) -> tuple[Array, tuple[Array, Array, Array]]:
        nodes, inside, message = part
        above, belief, own = _below(tree, belief, nodes, inside, message)
        values, seen = _bits(batch, nodes)
        own = own * weight[:, None]
        moved = _at(tree.transition, nodes) * jax.vmap(over_rows)(above * weight[:, None], inside)
        pair = jax.vmap(over_rows)(own, jnp.stack([values, seen], axis=-1))
        return belief, (moved, pair[..., 0], pair[..., 1])

    parts = (tree.steps, found.inside, found.message)
    _, (moved, ones, seen) = jax.lax.scan(step, _at_the_top(tree, batch), parts, reverse=True)
    return Counts(*(_by_column(tree, x) for x in (moved, ones, seen)))


def states(tree: Tree, batch: Batch, found: Upward) -> Float[Array, "rows columns states"]:
    """P(z_j = t | x) of every column."""

    def step(belief: Float[Array, "nodes rows states"], part: tuple[Array, Array, Array]) -> tuple[Array, None]:
        return _below(tree, belief, *part)[1], None

    belief, _ = jax.lax.scan(step, _at_the_top(tree, batch), (tree.steps, found.inside, found.message), reverse=True)
    return belief[: len(tree.parent)].transpose(1, 0, 2)


def _at_the_top(tree: Tree, batch: Batch) -> Float[Array, "nodes rows states"]:
    return _nothing_yet(tree, batch).at[len(tree.parent), :, 0].set(1)  # of which state makes no difference


def _below(
    tree: Tree,
    belief: Float[Array, "nodes rows states"],
    nodes: Int[Array, " width"],
    inside: Float[Array, "width rows states"],
    message: Float[Array, "width rows states"],
) -> tuple[Array, Array, Array]:
    """P(z_parent | x) / m, and posteriors with those of some columns more, and these."""
    above = belief[_parents(tree, nodes)] / jnp.maximum(message, LEAST)
    own = inside * jnp.einsum("wrs,wst->wrt", above, _at(tree.transition, nodes))
    return above, belief.at[nodes].set(own), own


def _by_column(tree: Tree, parts: Float[Array, "steps width *rest"]) -> Float[Array, "columns *rest"]:
    flat = parts.reshape(-1, *parts.shape[2:])
    nothing = jnp.zeros((len(tree.parent), *parts.shape[2:]), parts.dtype)
    return nothing.at[tree.steps.ravel()].set(flat, mode="drop")


def most_probable(tree: Tree, batch: Batch) -> tuple[Float[Array, " rows"], Int[Array, "rows columns"]]:
    """The most probable states of all columns together, and the logarithm of their probability with that of the row."""
    log_transition = jnp.log(jnp.maximum(tree.transition, LEAST))

    def ahead(gathered: Float[Array, "nodes rows states"], nodes: Int[Array, " width"]) -> tuple[Array, Array]:
        log_inside = _log_inside(tree, batch, gathered, nodes)
        each = log_inside[:, :, None, :] + _at(log_transition, nodes)[:, None]
        return gathered.at[_parents(tree, nodes)].add(jnp.max(each, -1)), jnp.argmax(each, -1)

    gathered, choice = jax.lax.scan(ahead, _nothing_yet(tree, batch), tree.steps)

    def back(chosen: Int[Array, "nodes rows"], part: tuple[Array, Array]) -> tuple[Array, None]:
        nodes, best = part
        taken = jnp.take_along_axis(best, chosen[_parents(tree, nodes)][..., None], axis=-1)[..., 0]
        return chosen.at[nodes].set(taken), None

    d = len(tree.parent)
    first = jnp.zeros((d + 2, len(batch.weight)), choice.dtype)
    chosen, _ = jax.lax.scan(back, first, (tree.steps, choice), reverse=True)
    return gathered[d, :, 0], chosen[:d].T


def posterior_means(tree: Tree, share: Float[Array, "rows columns states"]) -> Float[Array, "rows columns"]:
    """E[P(bit = 1 | state) | x]."""
    return jnp.einsum("rdt,dt->rd", share, jnp.exp(tree.log_one))
