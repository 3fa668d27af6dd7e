"""Rows with missing inputs: their probability, and what the observed inputs say about the rest.

Seen as a mixture of 2^m products (section 2.3), the machine is closed under marginals and conditionals.  With x_o the
observed inputs, and those that are missing summed out (2.2, 2.7 for them alone),

    sum over missing x of exp(-E) = exp(b_o . x_o + h . (theta + W_o x_o)) prod_{j missing} exp(log_sum(b_j + w(h)_j)).

Three ways to go on, of which the cheapest exact one is taken:

- sum over the hidden states, in blocks: two matrix products give the logs of all rows and states of a block;
- sum over the patterns of the missing bits, where no row of a chunk has many (`patterns.py`);
- annealed Gibbs chains, where both are too many (`annealing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.core.states import state_block
from latentbits.models.combination_machine.annealing import annealed_log_sum, annealed_means
from latentbits.models.combination_machine.chains import draw_hidden
from latentbits.models.combination_machine.machine import Machine, Units, hidden_field, input_field
from latentbits.models.combination_machine.patterns import Conditional, by_inputs, moments_by_inputs
from latentbits.models.combination_machine.tuning import LEARNING_MOST_UNITS, LOG2_STATES_PER_BLOCK, PATTERN_MOST_BITS

__all__ = ["Conditional", "by_hidden", "conditional", "log_sums", "moments", "moments_by_gibbs", "moments_by_hidden"]


T = TypeVar("T")


# ---------------------------------------------------------------- choosing


def _few(n_hidden: int, most: tuple[int, int]) -> bool:
    return n_hidden <= most[jax.default_backend() != "cpu"]


def _levels(units: Units, n_hidden: int, n_inputs: int, few: bool) -> list[int]:
    """List numbers of missing bits whose patterns are worth a route for them alone.

    Not where the hidden states are cheaper: on a CPU a pattern takes some 8 ns for each hidden unit, with its
    exponential and logarithm, a hidden state 0.08 ns for each input and hidden unit, all of it in products.
    """
    if units.name != "binary":
        return []
    enough = [level for i, level in enumerate(PATTERN_MOST_BITS) if i == 0 or PATTERN_MOST_BITS[i - 1] < n_inputs]
    if not few:
        return enough
    dear = 2.0**n_hidden * (n_inputs + n_hidden)
    return [level for level in enough if 2.0**level * 100 * n_hidden < dear]


def _choose(
    units: Units,
    machine: Machine,
    observed: Float[Array, "rows inputs"],
    by_level: Callable[[int], T],
    by_states: Callable[[], T],
    sampled: Callable[[], T],
    most_hidden: tuple[int, int] = (18, 22),  # on a CPU, where it takes some milliseconds a row, and elsewhere
) -> T:
    """Choose the cheapest exact route for the row with most holes, or else the sampled one."""
    m, d = machine.weights.shape
    few = _few(m, most_hidden)
    levels = _levels(units, m, d, few)
    routes: list[Callable[[], T]] = [lambda level=level: by_level(level) for level in levels]  # type: ignore[misc]
    if not levels or levels[-1] < d:
        routes.append(by_states if few else sampled)
    n_holes = jnp.max(jnp.sum(observed == 0, 1))
    return jax.lax.switch(jnp.sum(n_holes > jnp.asarray(levels, n_holes.dtype)), routes)


def conditional(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
) -> Conditional:
    """Compute E[h | x_o] and the means of the missing inputs; exactly where that can be.

    `keys`: one a row, used where nothing can be summed.  `x`, `observed`: inputs, 0 where missing; and 1 where they are
    observed.
    """

    def sampled() -> Conditional:
        return _where_few(
            units,
            observed,
            lambda: by_inputs(machine, x, observed, PATTERN_MOST_BITS[-1]),
            by_annealing(units, machine, keys, x, observed),
        )

    return _choose(
        units,
        machine,
        observed,
        lambda level: by_inputs(machine, x, observed, level),
        lambda: by_hidden(units, machine, x, observed),
        sampled,
    )


def log_sums(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Compute log p(x_o) + log Z of every row, and its standard error: 0 where exact, which is where that can be."""

    def exact(log_sum: Array) -> tuple[Array, Array]:
        return log_sum, jnp.zeros_like(log_sum)

    def sampled() -> tuple[Array, Array]:
        found = annealed_log_sum(units, machine, keys, x, observed)
        return _where_few(
            units,
            observed,
            lambda: exact(by_inputs(machine, x, observed, PATTERN_MOST_BITS[-1]).log_sum),
            (found.value, found.error),
        )

    return _choose(
        units,
        machine,
        observed,
        lambda level: exact(by_inputs(machine, x, observed, level).log_sum),
        lambda: exact(by_hidden(units, machine, x, observed).log_sum),
        sampled,
    )


def moments(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"],
) -> tuple[Float[Array, " rows"], Machine]:
    """Compute log p(x_o) + log Z, and weighted sums over rows of E[h_i x_j | x_o], E[h_i | x_o], E[x_j | x_o].

    The clamped half of (3.5) and (3.6), with the missing inputs summed out.  Where they are sampled, the logs are lower
    bounds (`mean_field_bound`).
    """
    return _choose(
        units,
        machine,
        observed,
        lambda level: moments_by_inputs(machine, x, observed, weight, level),
        lambda: moments_by_hidden(units, machine, x, observed, weight),
        lambda: moments_by_gibbs(units, machine, keys, x, observed, weight),
        LEARNING_MOST_UNITS,
    )


def _where_few(units: Units, observed: Float[Array, "rows inputs"], exact: Callable[[], T], sampled: T) -> T:
    """Take the exact route for rows with few holes, in a chunk with rows that must be sampled."""
    if units.name != "binary":
        return sampled
    few = jnp.sum(observed == 0, 1) <= PATTERN_MOST_BITS[-1]

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(few if a.ndim == 1 else few[:, None], a, b)

    return jax.tree.map(pick, exact(), sampled)


# ---------------------------------------------------------------- over the hidden states


class _Block(Module):
    """A block of hidden states: log of every row's weight in each, and the means of the inputs there."""

    log_joint: Float[Array, "rows states"]
    states: Float[Array, "states hidden"]
    means: Float[Array, "states inputs"]


def _over_blocks(
    units: Units,
    machine: Machine,
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    add: Callable[[T, _Block], T],
    nothing: T,
) -> T:
    """Fold `add` over all blocks of hidden states."""
    m = machine.weights.shape[0]
    size = 2 ** min(m, LOG2_STATES_PER_BLOCK)
    drive, missing = hidden_field(machine, x), 1 - observed
    known = (x @ machine.input_bias + jnp.sum(observed * units.base(x), 1))[:, None]

    def step(number: Int[Array, ""], total: T) -> T:
        states = state_block(number * size, size, m).astype(x.dtype)
        field = input_field(machine, states)
        log_joint = drive @ states.T + missing @ units.log_sum(field).T + known
        return add(total, _Block(log_joint, states, units.mean(field)))

    return jax.lax.fori_loop(0, 2**m // size, step, nothing)


def by_hidden(
    units: Units, machine: Machine, x: Float[Array, "rows inputs"], observed: Float[Array, "rows inputs"]
) -> Conditional:
    """Sum over all hidden states in one pass, exactly: sums are kept divided by the largest term so far."""

    def add(total: tuple[Array, Array, Array, Array], block: _Block) -> tuple[Array, Array, Array, Array]:
        top, mass, hidden, inputs = total
        new = jnp.maximum(top, jnp.max(block.log_joint, 1))
        kept, share = jnp.exp(top - new), jnp.exp(block.log_joint - new[:, None])
        hidden = kept[:, None] * hidden + share @ block.states
        inputs = kept[:, None] * inputs + share @ block.means
        return new, kept * mass + jnp.sum(share, 1), hidden, inputs

    zero = jnp.zeros_like(x[:, 0])
    nothing = (zero - jnp.inf, zero, jnp.zeros_like(hidden_field(machine, x)), jnp.zeros_like(x))
    top, mass, hidden, inputs = _over_blocks(units, machine, x, observed, add, nothing)
    return _conditional(units, x, observed, top + jnp.log(mass), hidden / mass[:, None], inputs / mass[:, None])


def _conditional(
    units: Units,
    x: Array,
    observed: Array,
    log_sum: Array,
    hidden: Array,
    inputs: Array,
    error: Array | None = None,
) -> Conditional:
    """Divide sums by their total: shares add up to 1 but for rounding, and a probability above 1 is none."""
    error = jnp.zeros_like(log_sum) if error is None else error
    inputs = jnp.clip(inputs, -1, 1) if units.name == "binary" else inputs
    return Conditional(log_sum, error, jnp.clip(hidden, 0, 1), jnp.where(observed > 0, x, inputs))


def moments_by_hidden(
    units: Units,
    machine: Machine,
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"],
) -> tuple[Float[Array, " rows"], Machine]:
    """Sum over all hidden states in two passes, exactly: rows can be added up only once their shares are known."""

    def log_add(total: Array, block: _Block) -> Array:
        return jnp.logaddexp(total, jax.nn.logsumexp(block.log_joint, axis=1))

    log_sum = _over_blocks(units, machine, x, observed, log_add, jnp.full_like(x[:, 0], -jnp.inf))
    missing = 1 - observed

    def add(total: tuple[Array, Array, Array], block: _Block) -> tuple[Array, Array, Array]:
        hidden, products, inputs = total
        share = jnp.exp(block.log_joint - log_sum[:, None]) * weight[:, None]
        filled = block.means * (share.T @ missing)
        return hidden + share @ block.states, products + block.states.T @ filled, inputs + jnp.sum(filled, 0)

    nothing = (
        jnp.zeros_like(hidden_field(machine, x)),
        jnp.zeros_like(machine.weights),
        jnp.zeros_like(machine.input_bias),
    )
    hidden, products, inputs = _over_blocks(units, machine, x, observed, add, nothing)
    return log_sum, Machine(products + hidden.T @ x, jnp.sum(hidden, 0), inputs + weight @ x)


# ---------------------------------------------------------------- sampled


def by_annealing(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
) -> Conditional:
    """Estimate by weighted Gibbs chains of each row, which see all its modes; `log_sum` with its error."""
    found, hidden, inputs = annealed_means(units, machine, keys, x, observed)
    return _conditional(units, x, observed, found.value, hidden, inputs, found.error)


def moments_by_gibbs(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"],
    n_sweeps: int = 20,  # a row's chain is a fresh one at every pass
) -> tuple[Float[Array, " rows"], Machine]:
    """Sample one state of each row's chain after a walk, so that the noise averages out over rows and passes."""

    def step(i: Array, x: Array) -> Array:
        inner = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, i)))(keys)
        h = jax.vmap(draw_hidden)(inner[:, 0], hidden_field(machine, x))
        return jnp.where(observed > 0, x, jax.vmap(units.draw)(inner[:, 1], input_field(machine, h)))

    filled = jax.lax.fori_loop(0, n_sweeps, step, x)
    on = jax.nn.sigmoid(hidden_field(machine, filled))
    bound = mean_field_bound(units, machine, x, observed, on)
    on = on * weight[:, None]
    return bound, Machine(on.T @ filled, jnp.sum(on, 0), weight @ filled)


def mean_field_bound(
    units: Units,
    machine: Machine,
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    on: Float[Array, "rows hidden"],
) -> Float[Array, " rows"]:
    """Bound log p(x_o) + log Z from below: minus the mean energy, plus the entropy, of independent units.

    The hidden units are active with probabilities `on`; the missing inputs are distributed as is best for these.
    """
    entropy = jnp.sum(jax.scipy.special.entr(on) + jax.scipy.special.entr(1 - on), 1)
    known = x @ machine.input_bias + jnp.sum(observed * units.base(x), 1)
    missing = jnp.sum((1 - observed) * units.log_sum(input_field(machine, on)), 1)
    return known + jnp.sum(hidden_field(machine, x) * on, 1) + missing + entropy
