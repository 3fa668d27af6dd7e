"""Projection pursuit: hidden units found one after the other (Freund & Haussler 1994, sections 3.2 to 3.5).

A machine with one hidden unit and real inputs is a mixture of two Gaussians with the same spread, and EM finds it:

    P(h = 1 | x) = logistic(w . x + theta)                                         the E-step (a stray x is misprinted)
    w = E[h x] / E[h],   theta = log E[h] / (1 - E[h]) - |w|^2 / 2                 (3.14), (3.15)

Then the unit's structure is removed: for every row a coin with P(h = 1 | x) is flipped, and w is subtracted where it
shows heads.  The shifted half of the rows comes to lie on the other, and the next unit is looked for in what is left.
Binary rows are treated as if they were real: the paper takes the weights over as they are (``faithful``).

Ours, beyond the paper:

- With input biases the unshifted Gaussian has a mean c of its own, so that one unit can tell two groups that lie on
  either side of the overall mean.  Rows are counted from the means of the inputs when the pursuit began, and c is
  subtracted from all rows with the unit's structure.
- Bits vary less than a unit Gaussian, the more so the more structure has been removed: unless ``faithful``, the
  variance of the Gaussians is that of what is left.
- Unless ``faithful``, a unit of a binary machine gets the natural parameters of the two means it stands for: tanh b_j
  and tanh(b_j + w_j) are its means of input j when it is off and on, and theta makes it, taken alone, as active as
  was found.
- EM climbs from several starts at once, halves of random rows of what is left, and the best unit by likelihood is taken.
- Missing inputs: P(h = 1 | x) is that of the observed ones, and (3.14) is taken input by input over the rows that have it.

All units share one compiled E-step and one update: the number of the unit is an array like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt8, UInt32

from latentbits.core.batch import Batch, row_keys
from latentbits.core.model import Progress, Stage
from latentbits.core.tree import sum_rows
from latentbits.models.combination_machine.machine import Params, Units

__all__ = ["Pairs", "Pursuit", "RowState", "Shared", "Stats", "stage"]

START = 0.5  # a start is so much of a row
EMPTY = 0.5  # rows: a half of a mixture that has fewer is none
EXTREME = 0.99  # means of a bit beyond this have no larger weight

COUNT, GATHER = -2, -1  # the steps before the first EM: counting rows, fetching the first starts


class Pairs(eqx.Module):
    """Mixtures of two Gaussians each, one for every unit: around c, and around c + w.

    Attributes
    ----------
    log_odds
        Log-odds of the second half, log pi / (1 - pi).
    centre, shift
        c and w.  The means are those of what is left of the rows when the unit is looked for.
    variance
        Of the Gaussians, the same in all directions.
    """

    log_odds: Float[Array, " units"]
    centre: Float[Array, "units inputs"]
    shift: Float[Array, "units inputs"]
    variance: Float[Array, " units"]


class Pursuit(eqx.Module):
    """The optimiser's state.

    Attributes
    ----------
    found
        Number of units found.
    gains
        What each of them added to the log-likelihood of the rows as it found them, in nats.
    finished
        Whether the search is over.
    step
        Of the search for one unit: EM from 0, after the last of which comes the choice of the best.
    key
        Of the coins, as raw data.
    mean
        From which the inputs are counted.
    units
        Those found, zeros beyond.
    candidates
        Those among which the next one is looked for.
    variance
        Of what is left.
    rows
        Global numbers of the rows that will be starts for the next unit.
    """

    found: Int[Array, ""]
    gains: Float[Array, " hidden"]
    finished: Array
    step: Int[Array, ""]
    key: UInt32[Array, "2"]
    mean: Float[Array, " inputs"]
    units: Pairs
    candidates: Pairs
    variance: Float[Array, ""]
    rows: UInt32[Array, " starts"]


Shared = Pursuit  # what a pass needs is what the optimiser knows


class RowState(eqx.Module):
    """The coins of each row, and how many have been flipped."""

    coins: UInt8[Array, "rows hidden"]
    flipped: Int[Array, ""]


class Stats(eqx.Module):
    """Sums over rows, of what is left of them.

    Attributes
    ----------
    gain
        Log-likelihood of every candidate over that of the Gaussian around 0, see `sum_rows`.
    members, products, seen
        E[h], E[h x] and, for each input, E[h] of the rows that have it.
    totals, observed
        Sum, and number of the observed entries of each input.
    squares
        Sum of all squares.
    drawn, drawn_seen
        The rows that will be starts, and where they are observed.
    """

    n_rows: Float[Array, ""]
    gain: Float[Array, "starts 2"]
    members: Float[Array, " starts"]
    products: Float[Array, "starts inputs"]
    seen: Float[Array, "starts inputs"]
    totals: Float[Array, " inputs"]
    observed: Float[Array, " inputs"]
    squares: Float[Array, "2"]
    drawn: Float[Array, "starts inputs"]
    drawn_seen: Float[Array, "starts inputs"]


# ---------------------------------------------------------------- rows


def _field(
    pairs: Pairs, x: Float[Array, "rows inputs"], mask: Float[Array, "rows inputs"] | None
) -> Float[Array, "rows units"]:
    """Log-odds of h = 1 given the observed inputs: w . x + theta (where c = 0 and the variance is 1)."""
    cost = pairs.shift * (pairs.centre + 0.5 * pairs.shift)
    cost = jnp.sum(cost, 1) if mask is None else mask @ cost.T
    return pairs.log_odds + (x @ pairs.shift.T - cost) / pairs.variance


def _gains(
    pairs: Pairs, field: Float[Array, "rows units"], x: Float[Array, "rows inputs"], mask: Array | None
) -> Float[Array, "rows units"]:
    """Log of the density of each pair over that of the Gaussian around 0."""
    cost = 0.5 * pairs.centre**2
    cost = jnp.sum(cost, 1) if mask is None else mask @ cost.T
    own = (x @ pairs.centre.T - cost) / pairs.variance
    return jax.nn.softplus(field) - jax.nn.softplus(pairs.log_odds) + own


def _coin(key: Key[Array, ""], unit: Int[Array, ""]) -> Float[Array, ""]:
    """The same for a row and a unit whenever it is asked for: a stream flips its coins anew at every pass."""
    return jax.random.uniform(jax.random.fold_in(key, unit), (), jnp.float32)


def _coins(key: UInt32[Array, "2"], rows: UInt32[Array, " rows"], unit: Int[Array, ""]) -> Float[Array, " rows"]:
    keys = row_keys(jax.random.wrap_key_data(key, impl="threefry2x32"), rows)
    return jax.vmap(_coin, in_axes=(0, None))(keys, unit)


def _at(pairs: Pairs, unit: Int[Array, ""]) -> Pairs:
    """One pair, as pairs of which there is one."""
    return jax.tree.map(lambda leaf: leaf[unit][None], pairs)


def _heads(
    pair: Pairs, coins: Float[Array, " rows"], x: Float[Array, "rows inputs"], mask: Array | None
) -> Float[Array, "rows 1"]:
    """Coins with P(h = 1 | x)."""
    return (coins[:, None] < jax.nn.sigmoid(_field(pair, x, mask))).astype(x.dtype)


def _without(
    pair: Pairs, heads: Float[Array, "rows 1"], x: Float[Array, "rows inputs"], mask: Array | None
) -> Float[Array, "rows inputs"]:
    """Structure removal: c is subtracted, and w where the coin shows heads."""
    moved = pair.centre + heads * pair.shift
    return x - (moved if mask is None else mask * moved)


def _start_rows(params: Params, shared: Shared, batch: Batch) -> RowState:
    coins = jnp.zeros((len(batch.weight), params.weights.shape[0]), jnp.uint8)
    return RowState(coins, jnp.zeros((), jnp.int32))


def _left(
    units: Units, shared: Shared, batch: Batch, row_state: RowState
) -> tuple[Float[Array, "rows inputs"], RowState]:
    """What is left of the rows when all units found so far are removed, 0 where missing."""
    mask, pairs = batch.observed, shared.units
    x = 2 * batch.values - 1 if units.name == "binary" else batch.values
    before = (jnp.arange(len(pairs.log_odds)) < row_state.flipped).astype(x.dtype)
    x = x - shared.mean - row_state.coins.astype(x.dtype) @ pairs.shift - before @ pairs.centre
    x = x if mask is None else mask * x

    def remove(unit: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, coins = carry
        pair = _at(pairs, unit)
        heads = _heads(pair, _coins(shared.key, batch.rows, unit), x, mask)
        coins = jax.lax.dynamic_update_slice_in_dim(coins, heads.astype(jnp.uint8), unit, 1)
        return _without(pair, heads, x, mask), coins

    x, coins = jax.lax.fori_loop(row_state.flipped, shared.found, remove, (x, row_state.coins))
    return x, RowState(coins, shared.found)


def _e_step(units: Units, shared: Shared, batch: Batch, row_state: RowState) -> tuple[Stats, RowState]:
    """Statistics of all candidates at once."""
    x, row_state = _left(units, shared, batch, row_state)
    mask, weight, pairs = batch.observed, batch.weight, shared.candidates
    field = _field(pairs, x, mask)
    share = jax.nn.sigmoid(field) * weight[:, None]
    members, chosen = share.sum(0), (shared.rows[:, None] == batch.rows).astype(x.dtype) * weight
    like = jnp.ones_like(pairs.shift)
    stats = Stats(
        n_rows=weight.sum(),
        gain=jax.vmap(sum_rows, in_axes=(None, 1))(weight, _gains(pairs, field, x, mask)),
        members=members,
        products=share.T @ x,
        seen=members[:, None] * like if mask is None else share.T @ mask,
        totals=weight @ x,
        observed=weight.sum() * like[0] if mask is None else weight @ mask,
        squares=sum_rows(weight, jnp.sum(x**2, 1)),
        drawn=chosen @ x,
        drawn_seen=chosen.sum(1)[:, None] * like if mask is None else chosen @ mask,
    )
    return stats, row_state


# ---------------------------------------------------------------- updates


def _ratio(sums: Float[Array, "*shape"], rows: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A mean over rows, 0 where there are none to speak of."""
    return jnp.where(rows > EMPTY, sums / jnp.maximum(rows, EMPTY), 0.0)


def _m_step(free: bool, pairs: Pairs, stats: Stats) -> Pairs:
    """(3.14) and (3.15); where c is free, it is the mean of the other half."""
    share = jnp.clip(stats.members / stats.n_rows, EMPTY / stats.n_rows, 1 - EMPTY / stats.n_rows)
    on = _ratio(stats.products, stats.seen)
    off = _ratio(stats.totals - stats.products, stats.observed - stats.seen) if free else jnp.zeros_like(on)
    shift = jnp.where(stats.seen > EMPTY, on - off, 0.0)
    return Pairs(jnp.log(share) - jnp.log1p(-share), off, shift, pairs.variance)


def _starts(
    free: bool, rows: Float[Array, "starts inputs"], variance: Float[Array, ""], like: Float[Array, " starts"]
) -> Pairs:
    """Candidates that begin at parts of rows, the other half on the opposite side where its centre is free."""
    shift = START * rows
    centre = -shift if free else jnp.zeros_like(shift)
    return Pairs(jnp.zeros_like(like), centre, shift - centre, variance * jnp.ones_like(like))


def _variance_without(pair: Pairs, stats: Stats, best: Int[Array, ""]) -> Float[Array, ""]:
    """Mean square of what will be left when a unit is removed, expected over the coins."""
    c, w = pair.centre[0], pair.shift[0]
    change = c**2 * stats.observed - 2 * c * stats.totals - 2 * w * stats.products[best]
    change = change + w * (2 * c + w) * stats.seen[best]
    return (stats.squares.sum() + change.sum()) / jnp.maximum(stats.observed.sum(), 1)


def _machine_unit(
    units: Units, faithful: bool, pair: Pairs, mean: Float[Array, " inputs"], bias: Float[Array, " inputs"]
) -> tuple[Float[Array, " inputs"], Float[Array, ""], Float[Array, " inputs"]]:
    """A unit's weights, its bias, and what it adds to the input biases."""
    log_odds, c, w = pair.log_odds[0], pair.centre[0], pair.shift[0]
    if faithful:  # (3.15), for inputs that are counted from 0
        return w, log_odds - jnp.sum(w * (mean + c + 0.5 * w)), c
    if units.name == "binary":

        def natural(m: Array) -> Array:
            return jnp.arctanh(jnp.clip(m, -EXTREME, EXTREME))

        w, c = natural(mean + c + w) - natural(mean + c), natural(mean + c) - natural(mean)
    alone = bias + c
    return w, log_odds - jnp.sum(units.log_sum(alone + w) - units.log_sum(alone)), c


@cache
def stage(
    n_hidden: int,
    units: Units,
    input_bias: bool = True,
    *,
    n_candidates: int = 8,
    em_steps: int = 4,
    faithful: bool = False,
    significance: float | None = None,
) -> Stage:
    """Projection pursuit as one stage; it begins with the input biases that it is given, and zero weights.

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
        more than this many nats for each of its n + 1 parameters.  None is Schwarz's criterion, half the log of the
        number of rows; 0 takes every unit that raises the likelihood at all.
    """

    def start(params: Params) -> Pursuit:
        d = params.weights.shape[1]

        def nothing(n: int) -> Pairs:
            return Pairs(jnp.zeros(n), jnp.zeros((n, d)), jnp.zeros((n, d)), jnp.ones(n))

        return Pursuit(
            found=jnp.zeros((), jnp.int32),
            gains=jnp.zeros(n_hidden),
            finished=jnp.asarray(False),
            step=jnp.asarray(COUNT, jnp.int32),
            key=jnp.zeros(2, jnp.uint32),
            mean=units.mean(params.input_bias),
            units=nothing(n_hidden),
            candidates=nothing(n_candidates),
            variance=jnp.ones(()),
            rows=jnp.zeros(n_candidates, jnp.uint32),
        )

    def prepare(params: Params, state: Pursuit, progress: Progress | None) -> Shared:
        return state

    def e_step(params: Params, shared: Shared, batch: Batch, row_state: RowState) -> tuple[Stats, RowState]:
        return _e_step(units, shared, batch, row_state)

    def candidate_gains(shared: Shared, stats: Stats) -> Float[Array, " starts"]:
        """Over the Gaussian around the mean of what is left, or around 0 where there is no input bias."""
        gain = stats.gain.sum(1)
        if input_bias:
            centred = stats.totals * _ratio(stats.totals, stats.observed)
            gain = gain - 0.5 * jnp.sum(centred) / shared.variance
        return gain

    def spread(mean_square: Float[Array, ""]) -> Float[Array, ""]:
        """Real inputs have variance 1 by definition."""
        if faithful or units.name == "real":
            return jnp.ones_like(mean_square)
        return jnp.maximum(mean_square, 1 - EXTREME**2)

    def draw(progress: Progress, stats: Stats) -> UInt32[Array, " starts"]:
        n = stats.n_rows.astype(jnp.uint32)
        return jax.random.randint(progress.key, (n_candidates,), 0, n, jnp.uint32)

    def count(state: Pursuit, params: Params, stats: Stats, progress: Progress) -> tuple[Pursuit, Params]:
        variance = spread(stats.squares.sum() / jnp.maximum(stats.observed.sum(), 1))
        key = jax.random.key_data(jax.random.fold_in(progress.key, 1))
        state = _with(state, step=GATHER, key=key, variance=variance, rows=draw(progress, stats))
        return state, params

    def gather(state: Pursuit, params: Params, stats: Stats, progress: Progress) -> tuple[Pursuit, Params]:
        return _with(state, step=0, candidates=_starts(input_bias, stats.drawn, state.variance, stats.members)), params

    def climb(state: Pursuit, params: Params, stats: Stats, progress: Progress) -> tuple[Pursuit, Params]:
        rows = jnp.where(state.step + 1 == em_steps, draw(progress, stats), state.rows)
        pairs = _m_step(input_bias, state.candidates, stats)
        return _with(state, step=state.step + 1, candidates=pairs, rows=rows), params

    def choose(state: Pursuit, params: Params, stats: Stats, progress: Progress) -> tuple[Pursuit, Params]:
        gain = candidate_gains(state, stats)
        best = jnp.argmax(gain)
        each = 0.5 * jnp.log(stats.n_rows) if significance is None else significance
        significant = gain[best] > each * (stats.totals.shape[0] + 1)
        pair, number = _at(state.candidates, best), state.found
        weights, bias, change = _machine_unit(units, faithful, pair, state.mean, start_bias(state))
        grown = Params(
            params.weights.at[number].set(weights),
            params.hidden_bias.at[number].set(bias),
            params.input_bias + change if input_bias else params.input_bias,
            params.log_partition,
            params.log_partition_error,
            params.log_partition_effective,
        )
        # the next starts were drawn from what is left before this unit
        heads = _heads(pair, _coins(state.key, state.rows, number), stats.drawn, stats.drawn_seen)
        rows = _without(pair, heads, stats.drawn, stats.drawn_seen)
        variance = spread(_variance_without(pair, stats, best))
        went_on = _with(
            state,
            found=number + 1,
            gains=state.gains.at[number].set(gain[best]),
            finished=number + 1 == n_hidden,
            step=0,
            units=jax.tree.map(lambda all_, one: all_.at[number].set(one[0]), state.units, pair),
            candidates=_starts(input_bias, rows, variance, stats.members),
            variance=variance,
        )
        ended = _with(state, finished=True)
        return jax.tree.map(lambda a, b: jnp.where(significant, a, b), (went_on, grown), (ended, params))

    def start_bias(state: Pursuit) -> Float[Array, " inputs"]:
        """The input biases with which the pursuit began."""
        if units.name == "binary":
            return jnp.arctanh(jnp.clip(state.mean, -1 + 1e-12, 1 - 1e-12))
        return state.mean

    def update(
        state: Pursuit, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[Pursuit, Params]:
        turn = jnp.clip(state.step, COUNT, 0) + 2 + (state.step == em_steps)
        branches: list[Callable[..., Any]] = [count, gather, climb, choose]
        return jax.lax.switch(turn, branches, state, params, stats, progress)

    def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        """Gains of all units so far, and of the best candidate: no likelihood of the machine."""
        best = jnp.max(candidate_gains(shared, stats))
        return shared.gains.sum() + jnp.where(shared.step < 0, 0.0, best)

    def done(state: Pursuit) -> Array:
        return state.finished

    return Stage(
        "pursuit",
        overrides={
            "prepare": prepare,
            "e_step": e_step,
            "update": update,
            "objective": objective,
            "start": start,
            "start_rows": _start_rows,
            "done": done,
        },
        max_iter=2 + n_hidden * (em_steps + 1),
        tol=-np.inf,
        comparable=False,
    )


def _with(state: Pursuit, **changed: Any) -> Pursuit:
    """The state with some fields changed, dtypes as they were."""
    fields = {name: getattr(state, name) for name in state.__dataclass_fields__}
    for name, value in changed.items():
        old = fields[name]
        fields[name] = jax.tree.map(lambda new, o: jnp.asarray(new, o.dtype), value, old)
    return Pursuit(**fields)
