"""Rows with missing inputs: their probability, and what the observed inputs say about the rest.

Seen as a mixture of 2^m products (section 2.3), the machine is closed under marginals and conditionals.  With x_o the
observed inputs, and those that are missing summed out (2.2, 2.7 for them alone),

    sum over missing x of exp(-E) = exp(b_o . x_o + h . (theta + W_o x_o)) prod_{j missing} exp(log_sum(b_j + w(h)_j)).

Three ways to go on, of which the cheapest exact one is taken:

- sum over the hidden states, in blocks: two matrix products give the logs of all rows and states of a block;
- sum over the patterns of the missing bits, where no row of a chunk has many: each is a row without holes (2.4), whose
  hidden fields differ from those of the observed inputs by a few signed weights;
- sampling, where both are too many: Gibbs for what the inputs say, annealing for the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from latentbits.core.states import state_block
from latentbits.models.combination_machine.annealing import annealed_log_sum, pilot_base
from latentbits.models.combination_machine.chains import draw_hidden
from latentbits.models.combination_machine.machine import Machine, Units, hidden_field, input_field
from latentbits.models.combination_machine.patterns import Filled, over_patterns

__all__ = [
    "BLOCK",
    "Conditional",
    "by_gibbs",
    "by_hidden",
    "by_inputs",
    "conditional",
    "is_summed",
    "log_sums",
    "moments",
    "moments_by_gibbs",
    "moments_by_hidden",
    "moments_by_inputs",
]

MOST_HIDDEN = {"cpu": 16}  # hidden units whose states are summed: a row then costs some milliseconds
MOST_HIDDEN_ELSEWHERE = 20
LEVELS = (4, 8, 12)  # missing bits of a row whose patterns are summed; each is compiled by itself
BLOCK = 10  # log2 of the hidden states taken at once
BURN_IN, KEPT = 100, 200  # sweeps of a row's chain
SWEEPS = 20  # of a row's chain in learning, fresh at every pass

T = TypeVar("T")


class Conditional(eqx.Module):
    """What the observed inputs say.

    Attributes
    ----------
    log_sum
        Log of the sum of exp(-E) over the missing inputs and all hidden states, log p(x_o) + log Z; NaN where sampled.
    hidden, inputs
        E[h_i | x_o], and E[x_j | x_o], which is x_j itself where it was observed.
    """

    log_sum: Float[Array, " rows"]
    hidden: Float[Array, "rows hidden"]
    inputs: Float[Array, "rows inputs"]


# ---------------------------------------------------------------- choosing


def is_summed(units: Units, n_hidden: int, n_inputs: int) -> bool:
    """Whether rows with any number of holes are summed exactly, over the hidden states or over the missing bits."""
    return _hidden_are_few(n_hidden) or (units.name == "binary" and n_inputs <= LEVELS[-1])


def _hidden_are_few(n_hidden: int) -> bool:
    return n_hidden <= MOST_HIDDEN.get(jax.default_backend(), MOST_HIDDEN_ELSEWHERE)


def _levels(units: Units, n_hidden: int, n_inputs: int) -> list[int]:
    """Numbers of missing bits whose patterns are worth a route: not those where the hidden states are cheaper.

    A pattern costs about 30 operations a hidden unit, most of them in its exponential; a hidden state 4 an input.
    """
    if units.name != "binary":
        return []
    most = n_hidden + (4 * n_inputs / (30 * n_hidden)).bit_length() if False else None
    return [level for level in LEVELS if most is None or level <= most]
