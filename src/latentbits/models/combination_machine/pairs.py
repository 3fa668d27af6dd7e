"""Pairs of Gaussians: machines of one hidden unit with real inputs (Freund & Haussler 1994, section 3.5).

    p(x) = (1 - pi) N(x; c, v) + pi N(x; c + w, v)
    P(h = 1 | x) = logistic((w . x - w . c - |w|^2 / 2) / v + log pi / (1 - pi))

In the paper c = 0 and v = 1, and then the unit has weights w and the bias theta = log pi / (1 - pi) - |w|^2 / 2 (3.15).
The functions here know many pairs at once, and of the data no more than sums over rows.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.module import Module
from latentbits.models.combination_machine.machine import Units, sigmoid, softplus, some
from latentbits.models.combination_machine.tuning import BIT_MOST_MEAN, HALF_LEAST_ROWS

__all__ = [
    "Pairs",
    "Sums",
    "as_unit",
    "field",
    "flipped",
    "gains",
    "m_step",
    "mean_over",
    "pair_at",
    "sums",
    "variance_left",
    "without",
]


Mask = Float[Array, "rows inputs"] | None  # where inputs are observed; None: everywhere


class Pairs(Module):
    """Mixtures of two Gaussians each, as one table: a program that handles few arrays is compiled sooner."""

    table: Float[Array, "pairs numbers"]  # a row for each pair: centre, shift, log-odds and variance

    @classmethod
    def of(
        cls,
        log_odds: Float[Array, " pairs"],
        centre: Float[Array, "pairs inputs"],
        shift: Float[Array, "pairs inputs"],
        variance: Float[Array, " pairs"],
    ) -> Pairs:
        """Make the table of its parts."""
        return cls(namespace(centre).concatenate([centre, shift, log_odds[:, None], variance[:, None]], 1))

    @property
    def _n_inputs(self) -> int:
        return self.table.shape[1] // 2 - 1

    @property
    def log_odds(self) -> Float[Any, " pairs"]:
        """Log-odds of the second half, log pi / (1 - pi)."""
        return self.table[:, -2]

    @property
    def centre(self) -> Float[Any, "pairs inputs"]:
        """c."""
        return self.table[:, : self._n_inputs]

    @property
    def shift(self) -> Float[Any, "pairs inputs"]:
        """w."""
        return self.table[:, self._n_inputs : -2]

    @property
    def variance(self) -> Float[Any, " pairs"]:
        """v, the same in all directions."""
        return self.table[:, -1]


class Sums(Module):
    """Sums over rows, from which EM goes on, as two tables."""

    # a row for each pair, with E[h x] and E[h], and one with the sums of x and of 1
    values: Float[Array, "more_pairs more_inputs"]
    counts: Float[Array, "more_pairs inputs"]  # for each input, the same of the rows that have it: E[h], and 1

    @property
    def n_rows(self) -> Float[Array, ""]:
        """Number of rows."""
        return self.values[-1, -1]

    @property
    def members(self) -> Float[Array, " pairs"]:
        """E[h]."""
        return self.values[:-1, -1]

    @property
    def products(self) -> Float[Array, "pairs inputs"]:
        """E[h x]."""
        return self.values[:-1, :-1]

    @property
    def seen(self) -> Float[Array, "pairs inputs"]:
        """For each input, E[h] of the rows that have it."""
        return self.counts[:-1]

    @property
    def totals(self) -> Float[Array, " inputs"]:
        """Sum of the observed entries of each input."""
        return self.values[-1, :-1]

    @property
    def observed(self) -> Float[Array, " inputs"]:
        """Number of the observed entries of each input."""
        return self.counts[-1]


def pair_at(pairs: Pairs, number: Int[Array, ""]) -> Pairs:
    """Take one of the pairs, as a table of one."""
    if on_device(pairs, number):
        return Pairs(jax.lax.dynamic_slice_in_dim(pairs.table, number, 1))
    return Pairs(pairs.table[[number]])


def _seen_cost(cost: Float[Array, "pairs inputs"], mask: Mask) -> Float[Array, "*rows pairs"]:
    """Add a cost of each input over the observed ones."""
    return cost.sum(1) if mask is None else mask @ cost.T


def field(pairs: Pairs, x: Float[Array, "rows inputs"], mask: Mask) -> Float[Array, "rows pairs"]:
    """Compute the log-odds of h = 1 given the observed inputs; missing ones are 0 in x.

    In the paper's terms: theta + w . x, and |w_j|^2 / 2 more for each missing input.
    """
    cost = _seen_cost(pairs.shift * (pairs.centre + 0.5 * pairs.shift), mask)
    return pairs.log_odds + (x @ pairs.shift.T - cost) / pairs.variance


def gains(
    pairs: Pairs, field: Float[Array, "rows pairs"], x: Float[Array, "rows inputs"], mask: Mask
) -> Float[Array, "rows pairs"]:
    """Compute the log of the density of each pair over that of the Gaussian around 0 with the same variance."""
    own = (x @ pairs.centre.T - _seen_cost(0.5 * pairs.centre**2, mask)) / pairs.variance
    return softplus(field) - softplus(pairs.log_odds) + own


def sums(
    field: Float[Array, "rows pairs"], x: Float[Array, "rows inputs"], mask: Mask, weight: Float[Array, " rows"]
) -> Sums:
    """Compute the sums of the E-step."""
    share = jnp.concatenate([sigmoid(field), jnp.ones_like(field[:, :1])], 1) * weight[:, None]
    values = share.T @ jnp.concatenate([x, jnp.ones_like(x[:, :1])], 1)
    counts = values[:, -1:] * jnp.ones(x.shape[1], x.dtype) if mask is None else share.T @ mask
    return Sums(values, counts)


def mean_over(total: Float[Array, "*shape"], rows: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute a mean over rows, 0 where there are none to speak of."""
    xp = namespace(rows)
    return xp.where(rows > HALF_LEAST_ROWS, total / xp.maximum(rows, HALF_LEAST_ROWS), 0.0)


def m_step(free: bool, pairs: Pairs, of: Sums) -> Pairs:
    """Compute (3.14) and (3.15); where the centre is free, it is the mean of the other half."""
    xp = namespace(of.values)
    share = xp.clip(of.members / of.n_rows, HALF_LEAST_ROWS / of.n_rows, 1 - HALF_LEAST_ROWS / of.n_rows)
    on = mean_over(of.products, of.seen)
    off = mean_over(of.totals - of.products, of.observed - of.seen) if free else xp.zeros_like(on)
    shift = xp.where(of.seen > HALF_LEAST_ROWS, on - off, 0.0)
    return Pairs.of(xp.log(share) - xp.log1p(-share), off, shift, pairs.variance)


def flipped(
    pair: Pairs, uniform: Float[Array, " rows"], x: Float[Array, "rows inputs"], mask: Mask
) -> Float[Array, "rows 1"]:
    """Flip coins that show heads with P(h = 1 | x), made of uniform numbers."""
    return (uniform[:, None] < sigmoid(field(pair, x, mask))).astype(x.dtype)


def without(
    pair: Pairs, heads: Float[Array, "rows 1"], x: Float[Array, "rows inputs"], mask: Mask
) -> Float[Array, "rows inputs"]:
    """Remove the structure: c is subtracted, and w where the coin shows heads."""
    moved = pair.centre + heads * pair.shift
    return x - (moved if mask is None else mask * moved)


def variance_left(pair: Pairs, of: Sums, number: Int[Array, ""], squares: Float[Array, ""]) -> Float[Array, ""]:
    """Compute the mean square when a pair is removed from rows with a sum of squares, expected over the coins."""
    c, w = pair.centre[0], pair.shift[0]
    change = c**2 * of.observed - 2 * c * of.totals - 2 * w * of.products[number]
    change = change + w * (2 * c + w) * of.seen[number]
    return (squares + change.sum()) / some(of.observed.sum())


def as_unit(
    units: Units, faithful: bool, pair: Pairs, mean: Float[Array, " inputs"], bias: Float[Array, " inputs"]
) -> tuple[Float[Array, " inputs"], Float[Array, ""], Float[Array, " inputs"]]:
    """Turn a pair into a hidden unit: its weights, its bias, and what it adds to the input biases.

    `faithful`: as in the paper: the shift is the weights, and the bias is (3.15).  Otherwise the unit of a binary
    machine gets the average of the shift and of the difference in natural parameters, and the bias with which it is on
    as often as in the pair, if it is alone.  `mean`, `bias`: from which the inputs of the pair are counted, and the
    input biases that have this mean.
    """
    log_odds, c, w = pair.log_odds[0], pair.centre[0], pair.shift[0]
    if faithful:
        return w, log_odds - (w * (mean + c + 0.5 * w)).sum(), c
    if units.name == "binary":
        xp = namespace(mean)
        base, off, on = (xp.arctanh(xp.clip(m, -BIT_MOST_MEAN, BIT_MOST_MEAN)) for m in (mean, mean + c, mean + c + w))
        w, c = 0.5 * (w + on - off), 0.5 * (c + off - base)
    alone = bias + c
    return w, log_odds - (units.log_sum(alone + w) - units.log_sum(alone)).sum(), c
