"""The likelihood of rows, and its gradient (Freund & Haussler 1994, section 3.0.1).

    log-likelihood = sum_x log_weight(x) - N log Z                                              (3.1)
    d / d theta_i  = sum_x P(h_i = 1 | x)     - N E[h_i]                                        (3.5), (3.8)
    d / d w_ij     = sum_x P(h_i = 1 | x) x_j - N E[h_i x_j]                                    (3.6), (3.9)
    d / d b_j      = sum_x x_j                - N E[x_j]


The clamped part is a sum over rows; the other is no sum over rows but over states, so `prepare` has it (`sums.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.model import Progress
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.combination_machine import missing_inputs
from latentbits.models.combination_machine.bordered import Bordered, bordered
from latentbits.models.combination_machine.machine import Params, Units, machine_of, softplus, some
from latentbits.models.combination_machine.rows import Bound, fields, held_below, held_out_weight, inputs_of, summed
from latentbits.models.combination_machine.sums import moments
from latentbits.models.combination_machine.truncation import few_active
from latentbits.models.combination_machine.tuning import HELD_OUT_LEAST_ROWS

__all__ = ["NO_HOLES", "Learned", "Shared", "Stats", "e_step", "expectations", "gradient", "objective"]

NO_HOLES = "max_active does not go with missing entries: complete X first, or leave max_active out"


class Shared(Module):
    """log Z and its gradient, for a whole pass: E[h_i x_j], E[h_i] and E[x_j] as a bordered matrix."""

    log_z: Float[Array, ""]
    expected: Bordered | None


class Stats(Module):
    """Sums over rows; rows that are held out count in their own sums alone."""

    n_rows: Float[Array, ""]
    n_places: Float[Array, ""]  # rows that count, each once
    # sums of log p(x) + log Z (see `sum_rows`) over the rows that are learned from, and over the others
    log_weights: Float[Array, "2 2"]
    # sums of P(h_i = 1 | x) x_j, P(h_i = 1 | x), x_j and 1 as a bordered matrix; and below it the x_j and 1 of rows
    # that are held out
    sums: Float[Array, "rows_of_sums more_inputs"]

    @property
    def clamped(self) -> Bordered:
        """Sums over the rows that are learned from."""
        return self.sums[:-1]

    @property
    def n_learned(self) -> Float[Array, ""]:
        """Number of rows that are learned from."""
        return self.sums[-2, -1]

    @property
    def n_held_out(self) -> Float[Array, ""]:
        """Number of rows that are not."""
        return self.sums[-1, -1]


def _all_states(field: Float[Array, "rows hidden"]) -> tuple[Float[Array, " rows"], Float[Array, "rows hidden"]]:
    """Sum exp(h . field) over all hidden states; return its log and E[h]: the product form (2.4)."""
    return jnp.sum(softplus(field), 1), jax.nn.sigmoid(field)


def e_step(units: Units, held_out: float, max_active: int | None = None) -> Callable[..., tuple[Stats, None]]:
    """Make the clamped half of the gradient; missing inputs are summed out (`missing_inputs.py`).

    With `max_active` both halves have the same states, those with few active units: with all of them in this half
    alone, what is climbed would be no likelihood, and would go up for ever in the states that the other leaves out.
    """
    return Partial(_e_step(units, max_active), held_below(held_out))


@cache
def _e_step(units: Units, max_active: int | None) -> Callable[..., tuple[Stats, None]]:
    if max_active is None:
        hidden = _all_states
    else:
        hidden = partial(few_active, max_active=max_active)

    def step(
        below: Bound, params: Params, shared: Shared, batch: Batch | SparseBatch, row_state: None
    ) -> tuple[Stats, None]:
        out = held_out_weight(batch, below)
        # sums over rows are rows of one product: XLA makes several programs of each that is a sum of a vector
        counted = jnp.stack([batch.weight - out, out], 1)
        if batch.observed is None:
            own, field = fields(units, params, batch)
            log_hidden, active = hidden(field)
            log_weight = own + log_hidden
            sums = summed(units, batch, jnp.concatenate([active * counted[:, :1], counted], 1))
        elif max_active is not None:
            raise ValueError(NO_HOLES)
        else:
            x, learned = inputs_of(units, batch), counted[:, 0]
            log_weight, clamped = missing_inputs.moments(units, params, batch.keys, x, batch.observed, learned)
            others = summed(units, batch, counted)
            sums = jnp.concatenate([bordered(clamped, others[0, -1]), others[1:]])
        log_weights = jax.vmap(sum_rows, in_axes=(1, None))(counted, log_weight)
        places = jnp.sum((batch.weight > 0).astype(batch.weight.dtype))
        return Stats(sums[-2, -1] + sums[-1, -1], places, log_weights, sums), None

    return step


@cache
def expectations(units: Units, max_active: int | None, max_terms: int | None) -> Callable[..., Shared]:
    """Make `prepare` of a stage that climbs: log Z and the expectations under the machine."""

    def prepare(params: Params, state: Any, progress: Progress | None) -> Shared:
        log_z, expected = moments(units, machine_of(params), max_active, max_terms)
        return Shared(log_z, bordered(expected, 1.0))

    return prepare


def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    """Compute the log-likelihood of the held-out rows, as if they were all; of the others where these are too few."""
    learned, held_out = stats.log_weights.sum(1) - stats.sums[-2:, -1] * shared.log_z
    scaled = held_out * stats.n_rows / some(stats.n_held_out)
    return namespace(scaled).where(stats.n_held_out >= HELD_OUT_LEAST_ROWS, scaled, learned)


class Learned(NamedTuple):
    """Which parameters a stage moves, beside the hidden biases."""

    weights: bool = True
    input_bias: bool = True


def gradient(shared: Shared, stats: Stats, learned: Learned) -> Bordered:
    """Compute the gradient of the log-likelihood per row; 0 for what is not to be learned."""
    assert shared.expected is not None
    movable = np.ones(shared.expected.shape)
    movable[:-1, :-1], movable[-1, :-1], movable[-1, -1] = learned.weights, learned.input_bias, 0
    return (stats.clamped / some(stats.n_learned) - shared.expected) * movable
