"""Section 2.5: a machine for any distribution, built and not learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.core.states import all_states

__all__ = ["Universal", "universal_machine"]


class Universal(NamedTuple):
    """`weights` (m, n) and `hidden_bias` (m,) of a machine without input biases."""

    weights: np.ndarray
    hidden_bias: np.ndarray


def universal_machine(probabilities: np.ndarray, tolerance: float = 1e-3) -> Universal:
    """Build a machine within `tolerance` of a distribution on n bits, in total variation (section 2.5).

    Relative to the least probability, each state x with q = p(x) / p_min > 1 gets a unit w = a x,
    theta = -n a + ln(q - 1) (the paper has x = (1, ..., 1)).  Its factor 1 + exp(w . y + theta) of (2.4) is q at y = x
    and 1 + (q - 1) exp(-2 a k) where y differs from x in k bits, so that all the factors together are p(y) / p_min
    times something between 1 and exp(sum (q - 1) exp(-2 a)).  The a that makes this sum `tolerance` is taken; the
    paper's a = (ln(q - 1) + ln(1 / epsilon)) / 2 is the case of one unit.  After normalising, every probability is
    right to a factor of exp(+-tolerance).

    `probabilities` (2^n,): positive, in the order of `core.states.all_states`, x = 2 bits - 1; they are divided by
    their sum.  Returns one with at most 2^n - 1 units: states of the least probability need none.

    >>> found = universal_machine(np.array([0.1, 0.1, 0.1, 0.7]))  # the paper's case: one state stands out
    >>> found.weights.shape, bool(found.weights[0, 0] == found.weights[0, 1] > 0)
    ((1, 2), True)
    """
    p = np.asarray(probabilities, np.float64)
    n = len(p).bit_length() - 1
    if p.ndim != 1 or len(p) != 2**n or n < 1:
        raise DataError(f"probabilities must be 2^n numbers, found shape {p.shape}")
    if not (np.isfinite(p).all() and (p > 0).all()):
        raise DataError("probabilities must be positive: no finite weights make a state impossible")
    if not tolerance > 0:
        raise DataError(f"tolerance must be positive, found {tolerance!r}")
    excess = p / p.min() - 1  # q - 1
    stands_out = excess > 0
    q_less_1 = excess[stands_out]
    x = 2.0 * all_states(n)[stands_out] - 1
    a = max(0.5 * np.log(q_less_1.sum() / tolerance), 0.0) if len(q_less_1) else 0.0
    return Universal(a * x, np.log(q_less_1) - n * a)
