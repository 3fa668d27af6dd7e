"""log Z and its gradient by whichever sum a machine calls for, where it is: in a program, or in NumPy on the host.

All states (`partition.py`), those with few active units (`truncation.py`), or the largest terms (`largest.py`).  Few
states are summed in NumPy sooner than a program for them is compiled; by a count, so that every machine does alike.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, on_device
from latentbits.core.compilation import Program
from latentbits.core.states import count_sparse_states, sparse_states
from latentbits.core.tree import to_numpy
from latentbits.models.combination_machine.largest import largest_moments
from latentbits.models.combination_machine.machine import Machine, Units
from latentbits.models.combination_machine.partition import (
    exact_log_partition,
    exact_moments,
    moments_on_host,
    n_enumerated,
)
from latentbits.models.combination_machine.truncation import moments_among, sparse_moments
from latentbits.models.combination_machine.tuning import HOST_MOST_FLOATS_PER_PASS

__all__ = ["log_partition", "moments"]


def moments(
    units: Units, machine: Machine, max_active: int | None = None, max_terms: int | None = None
) -> tuple[Float[Array, ""], Machine]:
    """Compute log Z and its gradient, as learning needs them at every pass."""
    given = {"units": units, "max_active": max_active, "max_terms": max_terms}
    if on_device(machine):
        return _moments.function(machine, **given)
    if max_terms is None and _n_floats(units, machine, max_active) <= HOST_MOST_FLOATS_PER_PASS:
        return _in_numpy(units, machine, max_active)
    return to_numpy(_moments(machine, **given))


def log_partition(
    units: Units, machine: Machine, max_active: int | None = None, most: int = HOST_MOST_FLOATS_PER_PASS
) -> Float[Array, ""]:
    """Compute log Z alone, on the host up to `most` floats."""
    given = {"units": units, "max_active": max_active}
    if on_device(machine):
        return _log_partition.function(machine, **given)
    if _n_floats(units, machine, max_active) <= most:
        return _in_numpy(units, machine, max_active)[0]
    return to_numpy(_log_partition(machine, **given))


def _n_floats(units: Units, machine: Machine, max_active: int | None) -> int:
    """Count the fields of all states that are summed."""
    m, n = machine.weights.shape
    n_states = 2 ** n_enumerated(units, m, n) if max_active is None else count_sparse_states(m, max_active)
    return n_states * (m + n)


def _in_numpy(units: Units, machine: Machine, max_active: int | None) -> tuple[Float[Array, ""], Machine]:
    if max_active is None:
        return moments_on_host(units, machine)
    states: Any = sparse_states(machine.weights.shape[0], max_active).astype(machine.weights.dtype)
    return moments_among(units, machine, states)


@Program
def _moments(
    machine: Machine, *, units: Units, max_active: int | None, max_terms: int | None
) -> tuple[Float[Array, ""], Machine]:
    if max_active is not None:
        return sparse_moments(units, machine, max_active)[:2]
    if max_terms is not None:
        return largest_moments(units, machine, max_terms)[:2]
    # sums in learning are in float32 from 14 units on: 1e-6 of log Z, half of the time
    single = n_enumerated(units, *machine.weights.shape) >= 14
    return exact_moments(units, machine, np.dtype(np.float32 if single else np.float64))


@partial(Program, seldom=True)
def _log_partition(machine: Machine, *, units: Units, max_active: int | None) -> Float[Array, ""]:
    if max_active is not None:
        return sparse_moments(units, machine, max_active).log_z
    single = n_enumerated(units, *machine.weights.shape) > 20  # the final log Z is summed in float64 up to 20 units
    return exact_log_partition(units, machine, np.dtype(np.float32 if single else np.float64))
