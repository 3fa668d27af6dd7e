"""The acceleration of EM: parameter expansion by a move of the latents, and extrapolation by Anderson's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from latentbits.core import anderson, nodes
from latentbits.core.adam import Number
from latentbits.core.anderson import Anderson
from latentbits.core.arrays import Array, namespace, pick
from latentbits.core.gaussians import Gaussian
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import inverse_factor, pairs, unpack
from latentbits.models.latent_trait import tuning
from latentbits.models.latent_trait.column_kinds import Stats
from latentbits.models.latent_trait.structure import Structure

__all__ = [
    "Move",
    "State",
    "accelerated",
    "back",
    "begin",
    "expansion",
    "left_of",
    "no_move",
    "slope_along",
    "with_left",
]


class Move(Module):
    """A change of latent coordinates, x' = (x - shift) @ matrix, and its inverse matrix."""

    matrix: Float[Array, "latents latents"]
    inverse: Float[Array, "latents latents"]
    shift: Float[Array, " latents"]


class State(Module):
    """State of the optimiser."""

    # anderson, move: the acceleration, and the change of coordinates in the last step
    anderson: Anderson
    move: Move
    longest: Float[Array, ""]  # longest step of a bit, in log-odds
    # nats a row to which the objective is known: with few nodes it depends on where they are by that much
    noise: Float[Array, ""]
    caution: Float[Array, ""]  # how often what a step promises may be left to gain; NaN leaves that to the objectives


def no_move(q: int, xp: Any = np) -> Move:
    return Move(xp.eye(q), xp.eye(q), xp.zeros(q))


def expansion(stats: Stats) -> Move:
    """Find coordinates in which the posteriors of all rows together have the prior's mean 0 and covariance I."""
    shift = stats.latent / stats.n_rows
    j, k = pairs(len(shift))
    covariance = stats.latent_squares / stats.n_rows - shift[j] * shift[k] + 1e-6 * (j == k)
    root, _ = inverse_factor(covariance[None])
    return Move(root[0].T, root[0] @ unpack(covariance, len(shift)), shift)


def back(move: Move, posterior: Gaussian) -> Gaussian:
    """Take a posterior to the coordinates before the move, which the E-step is about to make."""
    return posterior.moved(move.inverse, -move.shift @ move.matrix)


def steps_of(structure: Structure, seen: Number, exact: Bool[Array, ""] | bool) -> Float[Array, "3"]:
    """Choose `longest`, `noise` and `caution` of a state, by the number of columns that rows have observed."""
    # with many of them few nodes are used, and posteriors are narrow, so that EM hardly crawls
    xp = namespace(seen, exact)
    few = np.array([0.0, tuning.CAUTION_FACTOR_FEW_COLUMNS])
    # objectives are known to that where columns are many: few nodes are in use
    many = np.array([5e-6, tuning.CAUTION_FACTOR_MANY_COLUMNS])
    net = np.array([5e-5, tuning.CAUTION_FACTOR_MANY_COLUMNS])  # points of nets move with the rows' posteriors
    by_grid = xp.where(seen >= nodes.MANY_COLUMNS, many, few)
    # log-odds of a column: where bits are separable, their curvature vanishes
    by_nodes = xp.append(np.array(4.0), by_grid if structure.on_grid else net)
    return xp.where(exact, np.array([np.inf, 0.0, np.nan]), by_nodes)


def begin(structure: Structure, params: Any, move: Move, seen: Number | None, exact: Bool[Array, ""] | bool) -> State:
    """Begin; `exact` is a number: of stages whose updates are exact, and their objectives known to the last digit."""
    flat, _ = _raveled(params)
    longest, noise, caution = steps_of(structure, float(params.bias.shape[-1]) if seen is None else seen, exact)
    start = anderson.start(flat, 2, 5)  # steps to look back on
    return State(start, move, longest, noise, caution)


def left_of(state: State) -> Float[Array, ""]:
    """Return what is left to gain, as the last steps have it."""
    return anderson.left(state.anderson)


def slope_along(gradient: Array, penalty: Number, params: Any, ahead: Any) -> Float[Array, ""]:
    """Compute how much the objective would grow on the way to `ahead`, were it straight; of one map or of several."""
    step = ahead.weights - params.weights
    uphill = gradient[..., :-1] - penalty * params.weights
    return (uphill * step).sum() + (gradient[..., -1] * (ahead.bias - params.bias)).sum()


def with_left(state: State, slope: Float[Array, ""]) -> State:
    """Note in the state what the next step, of this slope, promises."""
    return state.replace(anderson=anderson.promise(state.anderson, state.caution * abs(slope) / 2))


def accelerated(
    state: State, params: Any, value: Float[Array, ""], plain: Any, bold: Any, move: Move, none: Move, slack: Any
) -> tuple[State, Any]:
    """Extrapolate from the plain step and the expanded, bold one, which made this move; both can be taken back."""
    flat, restore = _raveled(params)
    images = namespace(flat).stack([_raveled(bold)[0], _raveled(plain)[0]])
    memory, ahead, kept = anderson.advance(state.anderson, flat, value, images, slack)
    return State(memory, pick(kept, move, none), state.longest, state.noise, state.caution), restore(ahead)


def _raveled(tree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Lay the numbers of a tree in a row; give also the way back."""
    leaves, structure = jax.tree.flatten(tree)

    def restore(flat: Array) -> Any:
        ends = np.cumsum([x.size for x in leaves])
        parts = [flat[end - x.size : end].reshape(x.shape) for x, end in zip(leaves, ends)]
        return jax.tree.unflatten(structure, parts)

    return namespace(tree).concatenate([x.ravel() for x in leaves]), restore
