"""The update: weights from averaged statistics, and new use for units that have nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import AnyKey, Array, fold_in, namespace, on_device
from latentbits.core.model import Progress
from latentbits.core.secants import Secants
from latentbits.models.noisy_or import accelerated_em, tuning
from latentbits.models.noisy_or.e_step import objective
from latentbits.models.noisy_or.learning import Stats, new_weight
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.reseed_units import choose_pivots, from_odd_rows, put_to_use
from latentbits.models.noisy_or.settings import Settings
from latentbits.models.noisy_or.state import Shared, State

__all__ = ["climb", "update"]


def update(
    net: Settings, state: State, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[State, Params]:
    """Update the layer that is learned, or all, from one block of rows."""
    xp = namespace(stats.n_rows)
    # statistics of the last updates; where the rest of a table is few rows, those before make up for what it lacks
    rows = xp.maximum(state.rows, stats.n_rows)
    whole = stats.n_rows / xp.where(rows > 0, rows, 1)
    met = tuple(old + new for old, new in zip(state.met, stats.bias_seen, strict=True))
    table = [m / (progress.iteration + 1.0) for m in met]  # rows of it that have been met
    part = rows / xp.maximum(xp.max(table[0]), rows)
    memory = _memory(net, state, part)
    average = _averaged(state, stats, whole, memory)
    gain = tuple(old + m * (new - old * whole) for old, new, m in zip(state.gain, stats.gain, memory, strict=True))
    change = tuple(c / xp.where(stats.n_rows > 0, stats.n_rows, 1) for c in stats.change)
    # the M-step, and new use for idle units
    fitted = _fitted(net, state.layer, params, average, change, table)
    every = tuning.UPDATES_PER_RENEWAL
    due = (state.since >= every - 1) & (state.step < net.n_updates - every)
    due = due & (whole > 0.5) & (state.layer <= net.n_layers)
    if not net.paper and not net.exact_all:
        (fitted,) = _when(due, lambda fitted: (_renewed(net, progress.key, state, stats, fitted),), fitted)
        worth = [g / m for g, m in zip(gain, memory, strict=True)]  # in all the rows that are remembered
        fitted, average = _when(
            _is_due_for_rare_causes(net, state, part),
            lambda now, counts: _with_rare_causes(net, state, now, counts, stats, worth, part),
            fitted,
            average,
        )
    # what the next update needs
    pivots = tuple(
        choose_pivots(fold_in(progress.key, net.n_layers + layer), -xp.expm1(-w))
        for layer, w in enumerate(fitted.weights)
    )
    since = xp.where(due, 0, state.since + 1)
    level = tuple(
        old + xp.log(xp.clip(total, 1e-9, 1e30)) for old, total in zip(state.level, stats.odd_weight, strict=True)
    )
    return State(state.layer, state.step + 1, since, rows, pivots, average, change, met, gain, level), fitted


def climb(
    net: Settings, state: Secants, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Secants, Params]:
    """Update all layers together by exact EM; weights stay between the same bounds as those of EM itself."""
    xp, average = namespace(stats.n_rows), (stats.seen, stats.credit, stats.bias_seen, stats.bias_credit)
    image = _fitted(net, net.n_layers + 1, params, average, stats.change, stats.bias_seen)
    value = objective(net, params, shared, stats)
    state, ahead = accelerated_em.climb(state, params, image, stats, value, net.alpha, net.beta)
    # the bounds of EM
    least = [_least_bias(net, True, n_rows) for n_rows in stats.bias_seen]
    biases = [xp.clip(b, low, tuning.STRONGEST_WEIGHT) for b, low in zip(ahead.biases, least, strict=True)]
    if not net.bias:
        biases[:-1] = params.biases[:-1]
    return state, Params(tuple(xp.clip(w, 0, tuning.STRONGEST_WEIGHT) for w in ahead.weights), tuple(biases))


def _memory(net: Settings, state: State, part: Float[Array, ""]) -> list[Float[Array, " _"]]:
    """Compute the share of the last update in the statistics of each hidden unit, layer by layer.

    All layers together, the sampled statistics of the second half are averaged.  And once common causes have been
    found, what has been seen of a rare one must be remembered: where no row of an update has it, (9) would set its
    weights to zero for good.  So a unit looks back on as many updates as it takes to be on in 20 rows,
    or on the whole table.
    """
    xp, late = namespace(state.step), state.step - net.n_joint // 2
    sampled = not (net.paper or net.exact_end or net.exact_all)
    every = state.layer > net.n_layers
    share = xp.where(every & (late > 0) & sampled, 1 / (late + 1.0), 1.0)
    remembers = (_is_late(net, state) | (every & sampled)) & (not (net.paper or net.exact_all))
    shares = []
    for trials in state.average[0]:
        on = xp.max(trials, axis=1)
        # rows in which a unit was on, from which its weights are learned
        own = xp.where((on > 0) & remembers, xp.clip(on / 20.0, part, 1.0), 1.0)
        shares.append(xp.minimum(share, own))
    return shares


def _averaged(
    state: State, stats: Stats, whole: Float[Array, ""], memory: Sequence[Float[Array, " _"]]
) -> tuple[tuple[Array, ...], ...]:
    """Average trials and successes, each unit's with its own memory; the inputs' biases are as quick as any unit."""
    xp = namespace(whole)
    inputs = xp.max(xp.stack([xp.max(m) for m in memory]))

    def mixed(old: tuple[Array, ...], new: tuple[Array, ...], shares: Sequence[Array]) -> tuple[Array, ...]:
        return tuple((1 - share * whole) * a + share * b for a, b, share in zip(old, new, shares, strict=True))

    seen, credit, bias_seen, bias_credit = state.average
    by_unit, own = [m[:, None] for m in memory], [inputs, *memory]
    return (
        mixed(seen, stats.seen, by_unit),
        mixed(credit, stats.credit, by_unit),
        mixed(bias_seen, stats.bias_seen, own),
        mixed(bias_credit, stats.bias_credit, own),
    )


def _fitted(
    net: Settings,
    current: Int[Array, ""] | int,
    params: Params,
    average: tuple[tuple[Array, ...], ...],
    change: Sequence[Array],
    n_rows: Sequence[Array],
) -> Params:
    """Compute the M-step (9), of the layers that are learned now.

    `current`: the layer that is learned; one more than there are, where all are.  `n_rows`: rows of the table in which
    each unit was observed; they come again in every pass.
    """
    xp, (seen, credit, bias_seen, bias_credit) = namespace(params.biases[0]), average
    weights, biases = list(params.weights), list(params.biases)
    every = current > net.n_layers
    for layer in range(net.n_layers + 1):
        last = layer == net.n_layers
        least = _least_bias(net, every, n_rows[layer])
        # the paper leaves the prior of a layer to the one above, which is there from the beginning
        learned = every | (current == layer + 1) | ((current == layer) & (last or not net.paper))
        if net.schedule == "stability" and layer > 0:
            # a unit that changes with less than this probability is ready to be learned from
            learned = learned & (change[layer - 1] < 0.1)
        own = new_weight(bias_seen[layer], bias_credit[layer], net.alpha, net.beta, least)
        if net.bias or last:
            biases[layer] = xp.where(learned, own, biases[layer])
        elif not net.paper:  # a layer that has nothing above it yet has its own prior
            biases[layer] = xp.where((current == layer) & (layer > 0), own, biases[layer])
        if not last:
            fitted = new_weight(seen[layer], credit[layer], net.alpha, net.beta)
            weights[layer] = xp.where(learned & (current != layer), fitted, weights[layer])
    return Params(tuple(weights), tuple(biases))


def _least_bias(net: Settings, every: Bool[Array, ""] | bool, n_rows: Float[Array, " _"]) -> Float[Array, " _"]:
    """Bound biases: larger ones help chains of single layers move; in the end rare ones are as rare as they are."""
    xp = namespace(n_rows)
    # a bit that was never on may be so in the next row
    return xp.where(every, xp.minimum(net.leak, 0.1 / (n_rows + 1)), net.leak)


def _renewed(net: Settings, key: AnyKey, state: State, stats: Stats, params: Params) -> Params:
    """Put idle units of the layer that is learned to new use."""
    xp = namespace(stats.n_rows)
    weights, biases = list(params.weights), list(params.biases)
    for layer in range(net.n_layers):
        own_key = fold_in(key, layer)
        used = put_to_use(own_key, weights[layer], biases[layer + 1], stats, layer, state.pivots[layer])
        now_due = state.layer == layer + 1
        weights[layer] = xp.where(now_due, used[0], weights[layer])
        biases[layer + 1] = xp.where(now_due, used[1], biases[layer + 1])
    return Params(tuple(weights), tuple(biases))


def _is_late(net: Settings, state: State) -> Bool[Array, ""]:
    """Decide whether the common causes of the layer that is learned have been found: what is left to find is rare."""
    return (state.layer <= net.n_layers) & (state.step >= net.n_updates - 2 * tuning.UPDATES_PER_RENEWAL)


def _is_due_for_rare_causes(net: Settings, state: State, part: Float[Array, ""]) -> Bool[Array, ""]:
    """Decide whether to look for rare causes: a table that is seen whole has no rows to look for."""
    # late in the learning of a layer, units start from the least probable rows
    left, every = net.n_updates - state.step, 5
    return _is_late(net, state) & (left % every == 0) & (left > every) & (part < 1)


def _with_rare_causes(
    net: Settings,
    state: State,
    params: Params,
    average: tuple[tuple[Array, ...], ...],
    stats: Stats,
    worth: Sequence[Float[Array, " _"]],
    part: Float[Array, ""],
) -> tuple[Params, tuple[tuple[Array, ...], ...]]:
    """Start a unit with nothing to do from the least probable rows of an update, late in the learning of a layer.

    Its start counts as rows that it has seen, so that it is not forgotten in the next update.

    `worth`: nats that each unit is good for.  `part`: share of the table in an update.
    """
    xp = namespace(stats.n_rows)
    weights, biases = list(params.weights), list(params.biases)
    seen, credit, bias_seen, bias_credit = (list(x) for x in average)
    for layer in range(net.n_layers):
        odd = stats.odd[layer] / xp.maximum(stats.odd_weight[layer], 1e-30)
        n = stats.n_rows, stats.n_rows / part
        w, b, chosen = from_odd_rows(weights[layer], biases[layer + 1], worth[layer], odd, *n)
        new = chosen & (state.layer == layer + 1)
        weights[layer] = xp.where(new[:, None], w, weights[layer])
        biases[layer + 1] = xp.where(new, b, biases[layer + 1])
        seen[layer] = xp.where(new[:, None], tuning.ODD_ROWS_PER_UPDATE, seen[layer])
        credit[layer] = xp.where(new[:, None], tuning.ODD_ROWS_PER_UPDATE * -xp.expm1(-w), credit[layer])
        bias_seen[layer + 1] = xp.where(new, stats.n_rows, bias_seen[layer + 1])
        bias_credit[layer + 1] = xp.where(new, tuning.ODD_ROWS_PER_UPDATE, bias_credit[layer + 1])
    return Params(tuple(weights), tuple(biases)), (tuple(seen), tuple(credit), tuple(bias_seen), tuple(bias_credit))


def _when(due: Bool[Array, ""], function: Callable[..., tuple[Any, ...]], *given: Any) -> tuple[Any, ...]:
    """Replace trees by a function of them where that is due."""
    if on_device(due, given):
        return jax.lax.cond(due, function, lambda *same: same, *given)
    return function(*given) if due else given
