"""Units that do nothing get something to do: duplicates and dead units are what holds plain learning back.

A unit is idle if rows are hardly more probable with it than without it, or if it is a duplicate of another, or of
several others together.  A unit has too much to do if its children, where it is on, depend on each other: it stands for
several causes.  To see that, each unit has a pivot, one of its children; (9) from the rows where the pivot is on, and
from those where it is off, gives two units in place of one, f^A and f^B, and the children then cost

    N [sum_j H(f_j) - a H(f^A_j) - (1 - a) H(f^B_j)],     a the share of rows where the pivot is on,      (`split_gain`)

nats less (without the pivot itself, whose entropy is what it costs to say which of the two is on): the mutual
information of the pivot and the other children.  Idle units take a half each of the units where this gains most.  Idle
units that are left start again, with weights to children whose bits are now left to the biases.

In a large table, of which an update sees a part, there is more to find: causes in one of a thousand rows, which such a
start does not find among all the bits that are on by chance.  But they are in the rows that are least probable: of five
bits that come by chance in a hundredth of the rows each, not one row in 10^10 has all.  So when common causes have been
found, units with nothing to do start from these rows: from the mean of the bits that no cause explains, each row with
a weight of one over their probability (`from_odd_rows`).
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import AnyKey, Array, categorical, namespace, on_device, uniform
from latentbits.core.special import TINY
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.learning import Stats

__all__ = ["choose_pivots", "from_odd_rows", "idle_units", "put_to_use", "renew", "split_gain", "without_parts"]


def _entropy(f: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    xp = namespace(f)
    return -f * xp.log(xp.maximum(f, TINY)) - (1 - f) * xp.log(xp.maximum(1 - f, TINY))


def put_to_use(
    key: AnyKey,
    weights: Float[Array, "units children"],
    bias: Float[Array, " units"],
    stats: Stats,
    layer: int,
    pivots: Int[Array, " units"],
) -> tuple[Float[Array, "units children"], Float[Array, " units"]]:
    """Find something to do for the idle units of a hidden layer: its weights and biases then.

    `weights`, `bias`: from the units to the layer below, and of the units, as the update (9) has left them.  `stats`,
    `layer`: the statistics of that update, and the number of the layer below.  `pivots`: a child of each unit.
    """
    xp = namespace(weights)
    f = -xp.expm1(-weights)
    splitting, first, second = split_gain(
        stats.seen[layer], stats.credit[layer], stats.pivot_seen[layer], stats.pivot_credit[layer], pivots
    )
    idle, inside = idle_units(f, stats.gain[layer])
    explained = stats.bias_credit[layer] + stats.credit[layer].sum(0)  # all successes at a child
    unexplained = stats.bias_credit[layer] / xp.where(explained > 0, explained, 1)
    rest, called_for = without_parts(f, inside, unexplained)
    weights = xp.where(called_for[:, None], -xp.log1p(-xp.minimum(rest, tuning.CHANGED_MOST_EFFECT)), weights)
    return renew(key, weights, bias, idle, splitting, (first, second), unexplained)


def from_odd_rows(
    weights: Float[Array, "units children"],
    bias: Float[Array, " units"],
    gain: Float[Array, " units"],
    odd: Float[Array, " children"],
    n_rows: Float[Array, ""],
    n_all: Float[Array, ""],
) -> tuple[Float[Array, "units children"], Float[Array, " units"], Bool[Array, " units"]]:
    """Start the first unit with nothing to do from the least probable rows: weights, biases, and which unit it is.

    `gain`: nats that each unit is good for, in all rows that it has been learned from.  `odd`: mean of the bits of
    those rows that no cause explains.  `n_rows`, `n_all`: in an update, and in the table.  Causes that are sought among
    many rows must be good for as many nats as their parameters cost: half of log n_all each.
    """
    xp = namespace(weights)
    effect = -xp.expm1(-weights)
    # share of its effect that a unit has at one child, which a bias could do as well
    alone = xp.max(effect, axis=1) > 0.9 * xp.sum(effect, axis=1)
    cost = 0.5 * xp.log(n_all) * (1 + xp.sum(effect > tuning.CHILD_LEAST_EFFECT, axis=1))
    free = idle_units(effect, gain)[0] | alone | (gain < cost)
    f = xp.clip(odd, tuning.CHILD_LEAST_EFFECT, tuning.CHANGED_MOST_EFFECT)  # a weight of 0 would stay so
    # of the least probable rows, that a cause must explain
    chosen = free & (xp.cumsum(free) == 1) & (xp.sum(odd > 0.5) >= 3)
    weights = xp.where(chosen[:, None], -xp.log1p(-f), weights)
    rate = xp.minimum(tuning.ODD_ROWS_PER_UPDATE / n_rows, tuning.FRESH_BIAS)
    return weights, xp.where(chosen, -xp.log1p(-rate), bias), chosen


def choose_pivots(key: AnyKey, f: Float[Array, "units children"]) -> Int[Array, " units"]:
    """Choose a child of each unit at random, the likelier the less certain it is."""
    xp = namespace(f)
    return categorical(key, xp.log(xp.maximum(f * (1 - f), 1e-9))).astype(np.int32)


def idle_units(
    f: Float[Array, "units children"], gain: Float[Array, " units"]
) -> tuple[Bool[Array, " units"], Bool[Array, "units units"]]:
    """Find units that have nothing to do but what others do; and which of the others are parts of which, (part, whole).

    They are units that are good for next to nothing; all but the best of those that are alike; and units for several
    causes together where each of these has a unit: that they come together is for the layer above to say.
    """
    xp = namespace(f)

    def common_with(part: Float[Array, " children"]) -> Float[Array, " units"]:
        return xp.sum(xp.minimum(part, f), axis=1)

    weak = gain < 10.0  # its weights are worth at least that
    length = xp.sqrt(xp.maximum(xp.sum(f * f, 1), 1e-12))
    cosine = (f @ f.T) / (length[:, None] * length)
    rank = _rank(gain)
    weak = weak | xp.any((cosine > tuning.ALIKE_COSINE) & (rank < rank[:, None]) & ~weak, axis=1)
    size = xp.sum(f, axis=1)
    common = jax.lax.map(common_with, f) if on_device(f) else np.stack([common_with(part) for part in f])
    alike = tuning.ALIKE_COSINE * size
    inside = (common > alike[:, None]) & (size[:, None] < alike) & ~weak[:, None] & ~weak
    parts = -xp.expm1(inside.T.astype(f.dtype) @ xp.log1p(-xp.minimum(f, 1 - 1e-6)))  # all parts of a unit together
    idle = weak | (xp.sum(xp.minimum(f, parts), axis=1) > tuning.ALIKE_COSINE * xp.maximum(size, 1e-6))
    return idle, inside & ~idle[:, None] & ~idle


def without_parts(
    f: Float[Array, "units children"], inside: Bool[Array, "units units"], unexplained: Float[Array, " children"]
) -> tuple[Float[Array, "units children"], Bool[Array, " units"]]:
    """Take a part that is a unit too from the effects of the units; and say where that is called for.

    One unit may stand for two causes A and B together and another for B alone.  Its children depend on each
    other in no row in which it is on, so that it cannot be split; but where only A is on, nothing explains its bits.

    `inside`: which units are parts of which, from `idle_units`.  `unexplained`: share of the bits of each child that is
    left to its bias.
    """
    xp = namespace(f)
    size = xp.sum(f, axis=1)
    largest = xp.argmax(xp.where(inside, size[:, None], -1.0), axis=0)
    rest = f * (1 - f[largest])
    # share of the bits of A in a unit for A and B that must be left to the biases
    left = xp.sum(rest * unexplained, axis=1) > 0.1 * xp.sum(rest, axis=1)
    return rest, inside.any(axis=0) & left


def split_gain(
    seen: Float[Array, "units children"],
    credit: Float[Array, "units children"],
    pivot_seen: Float[Array, "units children"],
    pivot_credit: Float[Array, "units children"],
    pivots: Int[Array, " units"],
) -> tuple[Float[Array, " units"], Float[Array, "units children"], Float[Array, "units children"]]:
    """Compute nats gained by each unit's split, per row in which it is on; and effects f^A and f^B of its halves."""
    xp = namespace(seen)

    def share(part: Array, whole: Array) -> Array:
        return xp.clip(part / xp.maximum(whole, 1e-9), 0, 1)

    rest_seen = seen - pivot_seen
    f, with_pivot, without = (
        share(credit, seen),
        share(pivot_credit, pivot_seen),
        share(credit - pivot_credit, rest_seen),
    )
    a = share(pivot_seen, seen)
    saved = _entropy(f) - a * _entropy(with_pivot) - (1 - a) * _entropy(without)
    saved = xp.where(xp.arange(f.shape[1]) == pivots[:, None], 0, saved)
    return xp.sum(saved, axis=1), with_pivot, without


def renew(
    key: AnyKey,
    weights: Float[Array, "units children"],
    bias: Float[Array, " units"],
    idle: Bool[Array, " units"],
    gain: Float[Array, " units"],
    halves: tuple[Float[Array, "units children"], Float[Array, "units children"]],
    unexplained: Float[Array, " children"],
) -> tuple[Float[Array, "units children"], Float[Array, " units"]]:
    """Put the idle units to new use: weights and biases then.

    Parameters
    ----------
    gain
        Nats that splitting each unit gains, per row in which it is on.
    halves
        Effects f of the two halves of each unit.
    unexplained
        Share of the bits of each child that is left to its bias.
    """
    xp = namespace(weights)
    # the k-th idle unit takes a half of the k-th best unit to split; ranks by comparison, as sorts take long to compile
    worth = xp.where(idle, -xp.inf, gain)
    giving = ~idle & (gain > 0.05)  # gained by a split, per row in which the unit is on
    turn = xp.cumsum(idle) - 1
    takes = idle[:, None] & giving & (turn[:, None] == _rank(worth))  # (idle unit, unit that is split)
    taken, given = takes.any(1), takes.any(0)
    first, second = (-xp.log1p(-xp.clip(half, 0.0, tuning.CHANGED_MOST_EFFECT)) for half in halves)
    halved = -xp.log((1 + xp.exp(-bias)) / 2)  # each half is on in half of the rows
    fresh = uniform(key, weights.shape, *tuning.START_WEIGHTS) * unexplained
    again = xp.where(idle[:, None], fresh, weights)
    weights = xp.where(taken[:, None], takes @ first, xp.where(given[:, None], second, again))
    bias = xp.where(taken, takes @ halved, xp.where(given, halved, xp.where(idle, tuning.FRESH_BIAS, bias)))
    return weights, bias


def _rank(x: Float[Array, " units"]) -> Int[Array, " units"]:
    """Rank numbers, 0 for the largest; of equal ones the first comes first."""
    xp, order = namespace(x), np.arange(len(x))
    return xp.sum((x > x[:, None]) | ((x == x[:, None]) & (order < order[:, None])), axis=1)
