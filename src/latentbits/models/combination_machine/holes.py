"""Rows with missing inputs: their probability, and what the observed inputs say about the rest.

Seen as a mixture of 2^m products (section 2.3), the machine is closed under marginals and conditionals.  With x_o the
observed inputs, and those that are missing summed out (2.2 for them alone),

    sum over missing x of exp(-E) = exp(b_o . x_o + h . (theta + W_o x_o)) prod_{j missing} exp(log_sum(b_j + w(h)_j)).

Three ways to go on, the first two exact:

- sum over the hidden states: for a block of states, two matrix products give the logs of all rows and states;
- sum over the missing bits, 2^k of them, where no row has more than a few: each pattern is a row without holes (2.4);
- Gibbs sampling of the missing inputs, where both are too many.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from latentbits.core.states import all_states, state_block
from latentbits.models.combination_machine.annealing import annealed_log_sum
from latentbits.models.combination_machine.chains import draw_hidden
from latentbits.models.combination_machine.machine import BINARY, Machine, Units, hidden_field, input_field, log_weight

__all__ = ["Conditional", "conditional", "is_summed", "log_sums", "moments"]

MOST_HIDDEN = (
    16  # hidden units whose states are summed; one row then costs as much as 2^16 products of a row with a unit
)
MOST_MISSING = 8  # missing bits of a row whose patterns are summed
BLOCK = 10  # log2 of the hidden states taken at once
BURN_IN, KEPT = 100, 200  # sweeps of a row's chain, where nothing can be summed


class Conditional(eqx.Module):
    """What the observed inputs say.

    Attributes
    ----------
    log_sum, error
        Log of the sum of exp(-E) over the missing inputs and all hidden states, log p(x_o) + log Z; its standard error.
    hidden, inputs
        E[h_i | x_o], and E[x_j | x_o], which is x_j itself where it was observed.
    """

    log_sum: Float[Array, " rows"]
    error: Float[Array, " rows"]
    hidden: Float[Array, "rows hidden"]
    inputs: Float[Array, "rows inputs"]


def is_summed(n_hidden: int) -> bool:
    """Whether rows with any number of holes are summed exactly (over the hidden states)."""
    return n_hidden <= MOST_HIDDEN


def conditional(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    with_log_sum: bool = False,
) -> Conditional:
    """The hidden units and the missing inputs given the observed ones; exact where that can be.

    Parameters
    ----------
    keys
        One a row, used where nothing can be summed.
    x, observed
        Inputs, 0 where missing; and 1 where they are observed.
    with_log_sum
        Whether `log_sum` is wanted also where it has to be estimated (by annealing, which is dear); otherwise it is
        NaN there.
    """
    if is_summed(machine.weights.shape[0]):
        return by_hidden(units, machine, x, observed)
    if units.name != "binary":
        return by_gibbs(units, machine, keys, x, observed, with_log_sum)
    few = jnp.max(jnp.sum(1 - observed, 1)) <= MOST_MISSING
    return jax.lax.cond(
        few,
        lambda: by_patterns(machine, x, observed),
        lambda: by_gibbs(units, machine, keys, x, observed, with_log_sum),
    )


def log_sums(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """log p(x_o) + log Z of every row, and its standard error."""
    found = conditional(units, machine, keys, x, observed, with_log_sum=True)
    return found.log_sum, found.error


def moments(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"],
) -> tuple[Float[Array, " rows"], Machine]:
    """log p(x_o) + log Z of every row, and the weighted sums over rows of E[h_i x_j | x_o], E[h_i | x_o], E[x_j | x_o].

    The clamped half of (3.5) and (3.6), with the missing inputs summed out.  Where they are sampled, the logs are those
    of the filled-in rows.
    """
    if is_summed(machine.weights.shape[0]):
        return _moments_by_hidden(units, machine, x, observed, weight)
    if units.name != "binary":
        return _moments_by_gibbs(units, machine, keys, x, observed, weight)
    few = jnp.max(jnp.sum(1 - observed, 1)) <= MOST_MISSING
    return jax.lax.cond(
        few,
        lambda: _moments_by_patterns(machine, x, observed, weight),
        lambda: _moments_by_gibbs(units, machine, keys, x, observed, weight),
    )


# ---------------------------------------------------------------- over the hidden states


class _Block(eqx.Module):
    """A block of hidden states: log of every row's share in each, and what the machine would do there."""

    log_joint: Float[Array, "rows states"]
    states: Float[Array, "states hidden"]
    means: Float[Array, "states inputs"]


def _blocks(m: int) -> tuple[int, int]:
    """Number of blocks, and of states in one."""
    size = 2 ** min(m, BLOCK)
    return 2**m // size, size


def _block(units: Units, machine: Machine, x: Array, observed: Array, number: Array, size: int) -> _Block:
    states = state_block(number * size, size, machine.weights.shape[0]).astype(x.dtype)
    field = input_field(machine, states)
    known = x @ machine.input_bias + jnp.sum(observed * units.base(x), 1)
    log_joint = hidden_field(machine, x) @ states.T + (1 - observed) @ units.log_sum(field).T + known[:, None]
    return _Block(log_joint, states, units.mean(field))


def _log_sum_hidden(units: Units, machine: Machine, x: Array, observed: Array) -> Array:
    """A running log-sum-exp over the blocks of states."""
    n_blocks, size = _blocks(machine.weights.shape[0])

    def add(total: Array, number: Array) -> tuple[Array, None]:
        block = _block(units, machine, x, observed, number, size)
        return jnp.logaddexp(total, jax.nn.logsumexp(block.log_joint, axis=1)), None

    nothing = jnp.full_like(x[:, 0], -jnp.inf)
    return jax.lax.scan(add, nothing, jnp.arange(n_blocks, dtype=jnp.uint32))[0]


def by_hidden(
    units: Units, machine: Machine, x: Float[Array, "rows inputs"], observed: Float[Array, "rows inputs"]
) -> Conditional:
    """Exact, over all hidden states."""
    log_sum = _log_sum_hidden(units, machine, x, observed)
    n_blocks, size = _blocks(machine.weights.shape[0])

    def add(total: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], None]:
        block = _block(units, machine, x, observed, number, size)
        share = jnp.exp(block.log_joint - log_sum[:, None])
        return (total[0] + share @ block.states, total[1] + share @ block.means), None

    nothing = (jnp.zeros_like(hidden_field(machine, x)), jnp.zeros_like(x))
    (hidden, inputs), _ = jax.lax.scan(add, nothing, jnp.arange(n_blocks, dtype=jnp.uint32))
    # shares add up to 1 but for rounding, and a probability above 1 is none
    inputs = jnp.clip(inputs, -1, 1) if units.name == "binary" else inputs
    hidden = jnp.clip(hidden, 0, 1)
    return Conditional(log_sum, jnp.zeros_like(log_sum), hidden, jnp.where(observed > 0, x, inputs))


def _moments_by_hidden(
    units: Units, machine: Machine, x: Array, observed: Array, weight: Array
) -> tuple[Array, Machine]:
    log_sum = _log_sum_hidden(units, machine, x, observed)
    n_blocks, size = _blocks(machine.weights.shape[0])
    missing = 1 - observed

    def add(total: Machine, number: Array) -> tuple[Machine, None]:
        block = _block(units, machine, x, observed, number, size)
        share = jnp.exp(block.log_joint - log_sum[:, None]) * weight[:, None]
        seen = share.T @ x  # x is 0 where missing
        filled = seen + block.means * (share.T @ missing)
        part = Machine(block.states.T @ filled, share.sum(0) @ block.states, filled.sum(0))
        return jax.tree.map(jnp.add, total, part), None

    nothing = jax.tree.map(jnp.zeros_like, Machine(machine.weights, machine.hidden_bias, machine.input_bias))
    return log_sum, jax.lax.scan(add, nothing, jnp.arange(n_blocks, dtype=jnp.uint32))[0]


# ---------------------------------------------------------------- over the missing bits


def _patterns(observed: Array) -> tuple[Array, Array, Array]:
    """The first missing columns of each row, whether each of these places is one, and all patterns of their bits."""
    most = min(MOST_MISSING, observed.shape[1])
    place = jnp.argsort(observed, axis=1, stable=True)[:, :most]  # the missing ones first
    is_hole = jnp.take_along_axis(observed, place, axis=1) == 0
    return place, is_hole, jnp.asarray(2.0 * all_states(most) - 1, observed.dtype)


def _fill(x: Array, place: Array, is_hole: Array, pattern: Array) -> tuple[Array, Array]:
    """Rows with one pattern in their holes, and whether it is one of the row's own (unused places are all -1)."""
    rows = jnp.arange(x.shape[0])[:, None]
    filled = x.at[rows, place].add(jnp.where(is_hole, pattern, 0))
    return filled, jnp.all(is_hole | (pattern < 0), axis=1)


def _log_sum_patterns(machine: Machine, x: Array, observed: Array) -> Array:
    place, is_hole, patterns = _patterns(observed)

    def add(total: Array, pattern: Array) -> tuple[Array, None]:
        filled, own = _fill(x, place, is_hole, pattern)
        return jnp.logaddexp(total, jnp.where(own, log_weight(BINARY, machine, filled), -jnp.inf)), None

    return jax.lax.scan(add, jnp.full_like(x[:, 0], -jnp.inf), patterns)[0]


def by_patterns(machine: Machine, x: Float[Array, "rows inputs"], observed: Float[Array, "rows inputs"]) -> Conditional:
    """Exact, over the patterns of the missing bits, of which no row may have more than `MOST_MISSING`."""
    log_sum = _log_sum_patterns(machine, x, observed)
    place, is_hole, patterns = _patterns(observed)

    def add(total: tuple[Array, Array], pattern: Array) -> tuple[tuple[Array, Array], None]:
        filled, own = _fill(x, place, is_hole, pattern)
        share = jnp.where(own, jnp.exp(log_weight(BINARY, machine, filled) - log_sum), 0)[:, None]
        return (total[0] + share * jax.nn.sigmoid(hidden_field(machine, filled)), total[1] + share * filled), None

    nothing = (jnp.zeros_like(hidden_field(machine, x)), jnp.zeros_like(x))
    (hidden, inputs), _ = jax.lax.scan(add, nothing, patterns)
    inputs = jnp.where(observed > 0, x, jnp.clip(inputs, -1, 1))
    return Conditional(log_sum, jnp.zeros_like(log_sum), jnp.clip(hidden, 0, 1), inputs)


def _moments_by_patterns(machine: Machine, x: Array, observed: Array, weight: Array) -> tuple[Array, Machine]:
    log_sum = _log_sum_patterns(machine, x, observed)
    place, is_hole, patterns = _patterns(observed)

    def add(total: Machine, pattern: Array) -> tuple[Machine, None]:
        filled, own = _fill(x, place, is_hole, pattern)
        share = jnp.where(own, weight * jnp.exp(log_weight(BINARY, machine, filled) - log_sum), 0)
        return jax.tree.map(jnp.add, total, _clamped(machine, filled, share)), None

    nothing = jax.tree.map(jnp.zeros_like, Machine(machine.weights, machine.hidden_bias, machine.input_bias))
    return log_sum, jax.lax.scan(add, nothing, patterns)[0]


def _clamped(machine: Machine, x: Array, weight: Array) -> Machine:
    """Weighted sums over rows without holes."""
    on = jax.nn.sigmoid(hidden_field(machine, x)) * weight[:, None]
    return Machine(on.T @ x, on.sum(0), weight @ x)


# ---------------------------------------------------------------- sampled


def _sweep_rows(
    units: Units, machine: Machine, keys: Array, number: Array, x: Array, observed: Array
) -> tuple[Array, Array]:
    """One Gibbs sweep of every row's missing inputs with the row's own key; also E[x | h]."""
    inner = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, number)))(keys)
    h = jax.vmap(draw_hidden)(inner[:, 0], hidden_field(machine, x))
    field = input_field(machine, h)
    drawn = jax.vmap(units.draw)(inner[:, 1], field)
    return jnp.where(observed > 0, x, drawn), units.mean(field)


def by_gibbs(
    units: Units,
    machine: Machine,
    keys: Key[Array, " rows"],
    x: Float[Array, "rows inputs"],
    observed: Float[Array, "rows inputs"],
    with_log_sum: bool = False,
) -> Conditional:
    """Sampled: means of E[h | x] and E[x | h] along a chain for each row, after a burn-in."""

    def step(i: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, hidden, inputs = state
        x, mean = _sweep_rows(units, machine, keys, i, x, observed)
        kept = (i >= BURN_IN).astype(x.dtype) / KEPT
        return x, hidden + kept * jax.nn.sigmoid(hidden_field(machine, x)), inputs + kept * mean

    nothing = jnp.zeros_like(hidden_field(machine, x)), jnp.zeros_like(x)
    _, hidden, inputs = jax.lax.fori_loop(0, BURN_IN + KEPT, step, (x, *nothing))
    inputs = jnp.where(observed > 0, x, inputs)
    if with_log_sum:
        other = jax.vmap(lambda key: jax.random.fold_in(key, BURN_IN + KEPT))(keys)
        found = annealed_log_sum(units, machine, other, x, observed)
        return Conditional(found.value, found.error, hidden, inputs)
    unknown = jnp.full_like(x[:, 0], jnp.nan)
    return Conditional(unknown, unknown, hidden, inputs)


def _moments_by_gibbs(
    units: Units, machine: Machine, keys: Array, x: Array, observed: Array, weight: Array
) -> tuple[Array, Machine]:
    """From one state of each row's chain after a short walk; fresh at every pass, so that the noise averages out."""

    def step(i: Array, x: Array) -> Array:
        return _sweep_rows(units, machine, keys, i, x, observed)[0]

    filled = jax.lax.fori_loop(0, 20, step, x)
    return log_weight(units, machine, filled), _clamped(machine, filled, weight)
