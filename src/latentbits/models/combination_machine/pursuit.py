"""Projection pursuit: hidden units found one after the other (Freund & Haussler 1994, sections 3.2 to 3.5).

A machine with one hidden unit and real inputs is a mixture of two Gaussians with the same spread, and EM finds it:

    P(h = 1 | x) = logistic(w . x + theta)                                         the E-step (a stray x is misprinted)
    w = E[h x] / E[h],   theta = log E[h] / (1 - E[h]) - |w|^2 / 2                 (3.14), (3.15)

Then the unit's structure is removed: for every row a coin with P(h = 1 | x) is flipped, and w is subtracted where it
shows heads.  The shifted half of the rows comes to lie on the other, and the next unit is looked for in what is left.
Binary rows are treated as if they were real: the paper takes the weights over as they are (``faithful``).

Ours, beyond the paper:

- With input biases the unshifted Gaussian has a mean c, so that one unit can tell two groups that lie on
  either side of the overall mean.  Rows are counted from the means of the inputs when the pursuit began, and c is
  subtracted from all rows with the unit's structure.
- Bits vary less than a unit Gaussian, the more so the more structure has been removed: unless ``faithful``, the
  variance of the Gaussians is that of what is left.
- A unit of a binary machine that is alone has means tanh b_j and tanh(b_j + w_j) of input j when it is off and on: its
  weights are then differences of natural parameters, larger than the shift of the mean.  In company that is too much,
  the shift itself too little, and unless ``faithful`` a unit gets the average of both, with the bias theta that makes
  it, taken alone, as active as was found.
- EM climbs from several starts at once, and the best unit is taken; the paper has one.  It does not say where EM
  begins: here at half of a random row of what is left.
- Missing inputs: P(h = 1 | x) is that of the observed ones, and (3.14) is taken for each input over the rows that have
  it.

Errors on test rows, nothing refitted (single bits mistaken, bits per bit of the reconstruction and, where 2^m allows,
the log-loss), means of 3 seeds:

                              USPS,        8 x 8 digits,         a machine with sparse     one with weights
                              500 rows,    1200 rows,            weights to 6,             to 6/7,
                              45 units     12 units              2000 rows, 10 units       2000 rows, 10 units
    the paper's               .154 .485    .129 .471 .543        .319 .762 .825            .328 .842 .885
    with input biases         .135 .409    .129 .384 .482        .322 .743 .825            .322 .793 .873
    and the variance of
    what is left:
      shift of the mean       .130 .394    .122 .356 .472        .322 .732 .825            .322 .785 .873
      natural parameters      .154 .470    .120 .330 .452        .322 .716 .815            .322 .780 .870
      average (the default)   .133 .380    .119 .336 .453        .322 .720 .816            .322 .782 .871

(A mixture of 45 has .150 .464 on USPS.)  Starts at whole rows, at principal or at random directions gave smaller sums
of gains; columns scaled to unit variance gave larger errors than columns that are only centred.

All units share one compiled E-step and one update: the number of the unit is an array like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Bool, Float, Int, Key, UInt8, UInt32

from latentbits.core import keys
from latentbits.core.arrays import AnyKey, Array, fold_in, integers, namespace, on_device
from latentbits.core.batch import Batch, row_keys
from latentbits.core.model import Measure, Progress, Schedule
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.combination_machine.machine import Params, Units, some
from latentbits.models.combination_machine.pairs import (
    Pairs,
    Sums,
    as_unit,
    field,
    flipped,
    gains,
    m_step,
    mean_over,
    pair_at,
    sums,
    variance_left,
    without,
)
from latentbits.models.combination_machine.tuning import BIT_MOST_MEAN, PURSUIT_NATS_PER_PARAMETER

__all__ = ["Pursuit", "RowState", "Stats", "stage"]

COUNT, GATHER = -2, -1  # steps before the first EM: rows are counted, and the first starts fetched


class Pursuit(Module):
    """The optimiser's state, which is also all that a pass needs to know."""

    found: Int[Array, ""]  # number of units found
    # what each of them added to the log-likelihood of the rows as it found them, in nats
    gains: Float[Array, " hidden"]
    finished: Bool[Array, ""]  # whether the search is over
    step: Int[Array, ""]  # of the search for one unit: EM from 0, after the last of which comes the choice of the best
    key: UInt32[Array, "2"]  # of the coins, as raw data
    mean: Float[Array, " inputs"]  # from which the inputs are counted
    units: Pairs  # those found, zeros beyond
    candidates: Pairs  # those among which the next one is looked for
    variance: Float[Array, ""]  # of their Gaussians
    rows: UInt32[Array, " starts"]  # global numbers of the rows that will be the next starts


class RowState(Module):
    """The coins of each row, and of how many units they have been flipped."""

    coins: UInt8[Array, "rows hidden"]
    n_flipped: Int[Array, ""]


class Stats(Module):
    """Sums over rows, of what is left of them."""

    n_rows: Float[Array, ""]
    # log-likelihood of every candidate over that of the Gaussian around 0, and the sum of all squares, see `sum_rows`
    gains: Float[Array, "more_starts 2"]
    pairs: Sums  # what EM wants to know
    # drawn, drawn_seen: the rows that will be the next starts, and where they are observed
    drawn: Float[Array, "starts inputs"]
    drawn_seen: Float[Array, "starts inputs"]

    @property
    def gain(self) -> Float[Array, " starts"]:
        """Gain of every candidate."""
        return self.gains.sum(1)[:-1]

    @property
    def squares(self) -> Float[Array, ""]:
        """Sum of all squares."""
        return self.gains[-1].sum()


# ---------------------------------------------------------------- rows


def _uniform(
    key: UInt32[Array, "2"],
    rows: UInt32[Array, " rows"],
    unit: Int[Array, ""],
    high: UInt32[Array, " rows"] | None = None,
) -> Float[Array, " rows"]:
    """Draw the same for a row and a unit whenever asked: a stream flips its coins again at every pass."""
    if not on_device(key, rows, unit):
        words: Any = key
        own = [keys.fold(keys.fold(words, int(row)), int(unit)) for row in rows]
        bits: Any = np.concatenate([np.bitwise_xor(*keys.words(one, 1)) for one in own])
        return (bits >> 9 | 0x3F800000).astype(np.uint32).view(np.float32) - 1

    def draw(key: Key[Array, ""]) -> Float[Array, ""]:
        return jax.random.uniform(jax.random.fold_in(key, unit), (), jnp.float32)

    return jax.vmap(draw)(row_keys(keys.typed(key), rows, high))


def _words_of(key: AnyKey) -> UInt32[Array, "2"]:
    return jax.random.key_data(key) if on_device(key) else key


def _start_rows(params: Params, shared: Pursuit, batch: Batch) -> RowState:
    coins = jnp.zeros((len(batch.weight), params.weights.shape[0]), jnp.uint8)
    return RowState(coins, jnp.zeros((), jnp.int32))


def _left(
    units: Units, shared: Pursuit, batch: Batch, row_state: RowState
) -> tuple[Float[Array, "rows inputs"], RowState]:
    """Remove all units found so far from the rows; what is missing is 0."""
    mask, pairs = batch.observed, shared.units
    x = 2 * batch.values - 1 if units.name == "binary" else batch.values
    before = (jnp.arange(len(pairs.log_odds)) < row_state.n_flipped).astype(x.dtype)
    x = x - shared.mean - row_state.coins.astype(x.dtype) @ pairs.shift - before @ pairs.centre
    x = x if mask is None else mask * x

    def remove(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, coins = carry
        pair = pair_at(pairs, number)
        heads = flipped(pair, _uniform(shared.key, batch.rows, number, batch.high), x, mask)
        coins = jax.lax.dynamic_update_slice_in_dim(coins, heads.astype(jnp.uint8), number, 1)
        return without(pair, heads, x, mask), coins

    x, coins = jax.lax.fori_loop(row_state.n_flipped, shared.found, remove, (x, row_state.coins))
    return x, RowState(coins, shared.found)


def _e_step(units: Units, shared: Pursuit, batch: Batch, row_state: RowState) -> tuple[Stats, RowState]:
    """Compute statistics of all candidates at once."""
    x, row_state = _left(units, shared, batch, row_state)
    mask, weight, pairs = batch.observed, batch.weight, shared.candidates
    log_odds = field(pairs, x, mask)
    chosen = ((shared.rows[:, None] == batch.rows) & (weight > 0)).astype(x.dtype)
    if batch.high is not None:  # rows are drawn among the first 2^32
        chosen = chosen * (batch.high == 0)
    of = sums(log_odds, x, mask, weight)
    every = jnp.concatenate([gains(pairs, log_odds, x, mask), jnp.sum(x**2, 1, keepdims=True)], 1)
    stats = Stats(
        n_rows=of.n_rows,
        gains=jax.vmap(sum_rows, in_axes=(None, 1))(weight, every),
        pairs=of,
        drawn=chosen @ x,
        drawn_seen=chosen @ batch.mask,
    )
    return stats, row_state


# ---------------------------------------------------------------- updates


class Search(Module):
    """Numbers of a pursuit: EM iterations of every unit, and nats that its parameters must gain (see `stage`)."""

    em_steps: int
    significance: float | None


def _starts(free: bool, rows: Float[Array, "starts inputs"], variance: Float[Array, ""]) -> Pairs:
    """Make candidates that begin at parts of rows, the other half on the opposite side where its centre is free."""
    xp = namespace(rows)
    shift, each = 0.5 * rows, xp.zeros(len(rows), rows.dtype)  # of a row: from whole rows the sums of gains are smaller
    centre = -shift if free else xp.zeros_like(shift)
    return Pairs.of(each, centre, shift - centre, variance + each)


def _prepare(params: Params, state: Pursuit, progress: Progress | None) -> Pursuit:
    return state


def _done(state: Pursuit) -> Bool[Array, ""]:
    return state.finished


class _Functions(NamedTuple):
    start: Callable[[Params], Pursuit]
    e_step: Callable[..., tuple[Stats, RowState]]
    update: Callable[..., tuple[Pursuit, Params]]
    objective: Callable[..., Float[Array, ""]]


@cache
def _functions(n_hidden: int, units: Units, input_bias: bool, n_candidates: int, faithful: bool) -> _Functions:
    def start(params: Params) -> Pursuit:
        xp, d = namespace(params.weights), params.weights.shape[1]

        def nothing(n: int) -> Pairs:
            return Pairs.of(xp.zeros(n), xp.zeros((n, d)), xp.zeros((n, d)), xp.ones(n))

        return Pursuit(
            found=xp.zeros((), "int32"),
            gains=xp.zeros(n_hidden),
            finished=xp.asarray(False),
            step=xp.asarray(COUNT, "int32"),
            key=xp.zeros(2, "uint32"),
            mean=units.mean(params.input_bias),
            units=nothing(n_hidden),
            candidates=nothing(n_candidates),
            variance=xp.ones(()),
            rows=xp.zeros(n_candidates, "uint32"),
        )

    def e_step(params: Params, shared: Pursuit, batch: Batch, row_state: RowState) -> tuple[Stats, RowState]:
        return _e_step(units, shared, batch, row_state)

    def gains_of(state: Pursuit, stats: Stats) -> Float[Array, " starts"]:
        """Compute gains over the Gaussian around the mean of what is left, or around 0 without input biases."""
        gain, of = stats.gain, stats.pairs
        around_mean = 0.5 * (of.totals * mean_over(of.totals, of.observed)).sum() / state.variance
        return gain - around_mean if input_bias else gain

    def spread(mean_square: Float[Array, ""]) -> Float[Array, ""]:
        """Compute the variance of the Gaussians; that of real inputs is 1 by definition (2.5)."""
        xp = namespace(mean_square)
        if faithful or units.name == "real":
            return xp.ones_like(mean_square)
        return xp.maximum(mean_square, 1 - BIT_MOST_MEAN**2)

    def as_found(state: Pursuit, pair: Pairs) -> tuple[Array, Array, Array]:
        """Turn a pair into the weights, the bias, and the change of the input biases of a unit."""
        xp, bias = namespace(state.mean), state.mean
        if units.name == "binary":
            bias = xp.arctanh(xp.clip(bias, -1 + 1e-12, 1 - 1e-12))
        return as_unit(units, faithful, pair, state.mean, bias)

    def update(
        search: Search, state: Pursuit, params: Params, shared: Pursuit, stats: Stats, progress: Progress
    ) -> tuple[Pursuit, Params]:
        """Take one of four turns: rows are counted, starts fetched, pairs climb by EM, or the best is chosen.

        What some turns have in common is written, and compiled, once; then each takes what is its own.
        """
        xp = namespace(params.weights)
        counts, climbs = state.step == COUNT, (state.step >= 0) & (state.step < search.em_steps)
        chooses = state.step == search.em_steps
        of, number = stats.pairs, state.found

        gain = gains_of(state, stats)
        best = xp.argmax(gain)
        pair = pair_at(state.candidates, best)
        each = 0.5 * xp.log(stats.n_rows) if search.significance is None else search.significance
        takes = chooses & (gain[best] > each * (params.weights.shape[1] + 1))
        place = (np.arange(n_hidden) == number) & takes

        # the rows of the next starts were drawn before this unit is removed
        heads = flipped(pair, _uniform(state.key, state.rows, number), stats.drawn, stats.drawn_seen)
        rows = xp.where(chooses, without(pair, heads, stats.drawn, stats.drawn_seen), stats.drawn)
        square = stats.squares / some(of.observed.sum())
        left = xp.where(chooses, variance_left(pair, of, best, stats.squares), square)
        variance = xp.where(counts | chooses, spread(left), state.variance)
        climbed = m_step(input_bias, state.candidates, of)
        candidates = xp.where(climbs, climbed.table, _starts(input_bias, rows, variance).table)

        draws = counts | (climbs & (state.step + 1 == search.em_steps))
        among = progress.rows  # by their weights
        n = xp.minimum(stats.n_rows, 2.0**32 - 1).astype("uint32") if among is None else len(among)
        drawn = integers(progress.key, (n_candidates,), n)
        drawn = drawn if among is None else among[drawn]
        key = _words_of(fold_in(progress.key, 1))
        after = Pursuit(
            found=number + takes,
            gains=xp.where(place, gain[best], state.gains),
            finished=chooses & (~takes | (number + 1 == n_hidden)),
            step=xp.where(chooses, 0, state.step + 1),
            key=xp.where(counts, key, state.key),
            mean=state.mean,
            units=Pairs(xp.where(place[:, None], pair.table, state.units.table)),
            candidates=Pairs(candidates),
            variance=variance,
            rows=xp.where(draws, drawn, state.rows),
        )
        weights, hidden_bias, change = as_found(state, pair)
        return after, replace(
            params,
            weights=xp.where(place[:, None], weights, params.weights),
            hidden_bias=xp.where(place, hidden_bias, params.hidden_bias),
            input_bias=params.input_bias + xp.where(takes, change, 0) if input_bias else params.input_bias,
        )

    def objective(params: Params, shared: Pursuit, stats: Stats) -> Float[Array, ""]:
        """Add the gains of the units found, and of the best candidate: no likelihood of the machine."""
        here = namespace(stats.gains).where(shared.step < 0, 0.0, gains_of(shared, stats).max())
        return shared.gains.sum() + here

    return _Functions(start, e_step, update, objective)


def stage(
    n_hidden: int,
    units: Units,
    input_bias: bool = True,
    *,
    n_candidates: int = 8,
    em_steps: int = 4,
    faithful: bool = False,
    significance: float | None = PURSUIT_NATS_PER_PARAMETER,
) -> Schedule:
    """Make a stage of projection pursuit; it begins with the input biases that it is given, and zero weights.

    Units that it does not find keep zero weights.

    Parameters
    ----------
    n_hidden
        The most units.
    units
        Kind of the inputs.
    input_bias
        Whether the machine has input biases, which every unit then moves.
    n_candidates
        Starts of every unit.
    em_steps
        EM iterations of every unit; the paper found 4 to be enough.
    faithful
        As in the paper: Gaussians of variance 1, weights taken over as they are, hidden biases of (3.15).
    significance
        The pursuit ends where the best unit raises the log-likelihood of what is left, over that of a Gaussian, by no
        more than this many nats for each of its n + 1 parameters.  The best unit in fair coins or in Gaussian noise has
        about 1 at most, so that 1.5 tells structure from noise; independent bits that are rarely 1 are no Gaussians,
        and can have more.  None is Schwarz's criterion, half the log of the number of rows, which on 500 USPS digits
        ends at 17 units where 45 still lower the errors on other rows.  0 takes every unit that raises the likelihood
        at all, as the paper's 45 need (the Gaussians of variance 1 are wide for bits, and gains small).
    """
    functions = _functions(n_hidden, units, input_bias, n_candidates, faithful)
    search = Search(em_steps, None if significance is None else float(significance))
    return Schedule(
        "pursuit",
        measure=Measure.PROGRESS,
        prepare=_prepare,
        e_step=functions.e_step,
        update=Partial(functions.update, search),
        objective=functions.objective,
        start=functions.start,
        start_rows=_start_rows,
        done=_done,
        max_iter=2 + n_hidden * (em_steps + 1),
        comparable=False,
    )
