"""The numbered equations of Freund & Haussler (1994) in plain NumPy: read this beside the paper, and begin here.

A machine is w (m, n), the weight vectors of m hidden units as rows, and theta (m,), their biases.  Inputs x (..., n)
are -1 or +1 in the binary machine and real numbers in the other, hidden units h (..., m) are 0 or 1.  All is float64,
sums over states go through all of them, and probabilities are logs, as they are small.  The paper's inputs have no
biases; b is those of the library's machine, and 0 unless given.

The fast paths are tested against these functions, and nothing that learns uses them.

Misprints of the paper, with what is used in their place:

- Section 2.3 has P(x_j = +1 | h) = logistic(2 w(h)_j); section 4 lacks the 2, the minus sign of H(x | h), and the
  division by n that makes it bits for each input.
- Below (3.5) it is the derivative of ln cosh that is tanh; and the denominator of (3.7) has w(h').
- Section 3.1: g(h) = |w(h) + v|^2 / 2 - const with v = theta^T (Omega Omega^T)^-1 Omega, so that w(h) is to be far from
  -v, not from v.  In the rule for orthogonal weights it is |w_i|^2 / 2, not |w_i| / 2: from x, the corner with w_i is
  further than the one without by |x - w_i|^2 - |x|^2 = |w_i|^2 - 2 w_i . x.  And it gives the furthest sum, not "one of
  the closest".
- (3.11) divides by the marginal of p_i on alpha^(i-1): it is that of p_(i-1) on alpha^(i), as the iteration below says.
- Section 3.5: ln Z_R = ln[(2 pi)^(n/2) (1 + exp(theta + |w|^2 / 2))]: the factor (2 pi)^(n/2) stands outside of the
  logarithm in the paper; and ln P(x, h) lacks -|x|^2 / 2.  Neither has a share in (3.12)-(3.15).
- P(h = 1 | x) before (3.14)'s sums ends with a stray x, and the second of the statistics is E[h x].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from latentbits.core.states import all_states

__all__ = [
    "Gradient",
    "combined_weight",
    "energy",
    "expected",
    "furthest_from",
    "gain",
    "gradient",
    "gradient_by_inputs",
    "hidden_distribution",
    "inputs",
    "log_likelihood",
    "log_partition",
    "log_probability",
    "log_probability_by_states",
    "log_terms",
    "m_step",
    "mixture_log_probability",
    "moments",
    "optimal_factor",
    "real_energy",
    "real_gradient",
    "real_hidden_distribution",
    "real_log_density",
    "real_log_partition",
    "real_log_terms",
    "real_moments",
    "reconstruction_bits",
    "rule_for_orthogonal",
    "share_not_orthogonal",
    "share_off_length",
    "slopes",
    "states",
    "without_unit",
]

Array = np.ndarray[Any, np.dtype[np.float64]]


class Gradient(NamedTuple):
    """Derivatives of the log-likelihood by w (m, n) and theta (m,); also E[h x] and E[h], of which they are made."""

    weights: Array
    hidden_bias: Array


# --- section 2.2: the binary machine ---


def states(m: int) -> Array:
    """List all h in {0, 1}^m."""
    return all_states(m).astype(np.float64)


def inputs(n: int) -> Array:
    """List all x in {-1, +1}^n."""
    return 2 * states(n) - 1


def combined_weight(w: Array, h: Array, b: Array | float = 0.0) -> Array:
    """Add the weight vectors of the units that are on: w(h)."""
    return h @ w + b


def energy(w: Array, theta: Array, x: Array, h: Array, b: Array | float = 0.0) -> Array:
    """Give E(x, h), equation 2.1."""
    return -((x @ w.T + theta) * h).sum(-1) - (x * b).sum(-1)


def log_terms(w: Array, theta: Array, h: Array, b: Array | float = 0.0) -> Array:
    """Give the log of the term of h in Z_B, equation 2.2: theta . h + sum_j ln 2 cosh w(h)_j."""
    field = combined_weight(w, h, b)
    return h @ theta + np.logaddexp(field, -field).sum(-1)


def log_partition(w: Array, theta: Array, b: Array | float = 0.0) -> float:
    """Give ln Z_B, equation 2.2."""
    return float(logsumexp(log_terms(w, theta, states(len(theta)), b)))


def log_probability_by_states(w: Array, theta: Array, x: Array, b: Array | float = 0.0) -> Array:
    """Give ln P(x), equation 2.3: a sum over the states of the hidden units."""
    each = [-energy(w, theta, x, h, b) for h in states(len(theta))]
    return logsumexp(each, axis=0) - log_partition(w, theta, b)


def log_probability(w: Array, theta: Array, x: Array, b: Array | float = 0.0) -> Array:
    """Give ln P(x), equation 2.4: the product form."""
    return (x * b).sum(-1) + np.logaddexp(0, x @ w.T + theta).sum(-1) - log_partition(w, theta, b)


# --- section 2.2: the real-valued machine ---


def real_energy(w: Array, theta: Array, x: Array, h: Array, b: Array | float = 0.0) -> Array:
    """Give E(x, h), equation 2.5."""
    return energy(w, theta, x, h, b) + 0.5 * (x**2).sum(-1)


def real_log_density(w: Array, theta: Array, x: Array, b: Array | float = 0.0) -> Array:
    """Give ln P(x), equation 2.6; with the factors of section 3.4 it is 3.10, too."""
    log_factors = np.logaddexp(0, x @ w.T + theta).sum(-1)
    return (x * b).sum(-1) - 0.5 * (x**2).sum(-1) + log_factors - real_log_partition(w, theta, b)


def real_log_terms(w: Array, theta: Array, h: Array, b: Array | float = 0.0) -> Array:
    """Give the log of the term of h in Z_R, equation 2.8: the integral of exp(x . w(h) - |x|^2 / 2) over all x."""
    field = combined_weight(w, h, b)
    return h @ theta + 0.5 * (field**2 + np.log(2 * np.pi)).sum(-1)


def real_log_partition(w: Array, theta: Array, b: Array | float = 0.0) -> float:
    """Give ln Z_R, equations 2.7 and 2.8."""
    return float(logsumexp(real_log_terms(w, theta, states(len(theta)), b)))


# --- section 2.3: the mixture ---


def mixture_log_probability(w: Array, shares: Array, x: Array) -> Array:
    """Give ln P(x) of a mixture of products with weight vectors w (m, n) and shares p_i (m,), equation 2.9."""
    log_z = np.logaddexp(w, -w).sum(-1)
    return logsumexp(np.log(shares) - log_z + x @ w.T, axis=-1)


# --- section 3.0.1: gradient ascent ---


def log_likelihood(w: Array, theta: Array, rows: Array, b: Array | float = 0.0) -> float:
    """Give the log-likelihood of rows (N, n), equation 3.1."""
    return float(log_probability(w, theta, rows, b).sum())


def gradient_by_inputs(w: Array, theta: Array, rows: Array) -> Gradient:
    """Give the gradient of 3.1 by a sum over all inputs, equations 3.2 (biases) and 3.3 (weights)."""
    x = inputs(w.shape[1])
    asleep = np.exp(log_probability(w, theta, x))[:, None] * expit(x @ w.T + theta)
    return _less(_clamped(w, theta, rows), Gradient(asleep.T @ x, asleep.sum(0)), len(rows))


def hidden_distribution(w: Array, theta: Array, b: Array | float = 0.0) -> Array:
    """Give P(h) of all `states`, equation 3.4."""
    return np.exp(log_terms(w, theta, states(len(theta)), b) - log_partition(w, theta, b))


def moments(w: Array, theta: Array, b: Array | float = 0.0) -> Gradient:
    """Give E[h x] and E[h], the sums over P(h) in 3.5 and 3.6."""
    h, p = states(len(theta)), hidden_distribution(w, theta, b)
    return Gradient((p[:, None] * h).T @ np.tanh(combined_weight(w, h, b)), p @ h)


def gradient(w: Array, theta: Array, rows: Array, b: Array | float = 0.0) -> Gradient:
    """Give the gradient of 3.1, equations 3.5 (biases) and 3.6 (weights)."""
    return _less(_clamped(w, theta, rows), moments(w, theta, b), len(rows))


def real_hidden_distribution(w: Array, theta: Array, b: Array | float = 0.0) -> Array:
    """Give P(h) of all `states` in the real-valued machine, equation 3.7."""
    return np.exp(real_log_terms(w, theta, states(len(theta)), b) - real_log_partition(w, theta, b))


def real_moments(w: Array, theta: Array, b: Array | float = 0.0) -> Gradient:
    """Give E[h x] and E[h], the sums over P(h) in 3.8 and 3.9."""
    h, p = states(len(theta)), real_hidden_distribution(w, theta, b)
    return Gradient((p[:, None] * h).T @ combined_weight(w, h, b), p @ h)


def real_gradient(w: Array, theta: Array, rows: Array, b: Array | float = 0.0) -> Gradient:
    """Give the gradient of the real-valued machine's log-likelihood, equations 3.8 (biases) and 3.9 (weights)."""
    return _less(_clamped(w, theta, rows), real_moments(w, theta, b), len(rows))


def _clamped(w: Array, theta: Array, rows: Array) -> Gradient:
    """Sum over rows: the first terms of 3.2, 3.3, 3.5, 3.6, 3.8 and 3.9."""
    on = expit(rows @ w.T + theta)
    return Gradient(on.T @ rows, on.sum(0))


def _less(clamped: Gradient, asleep: Gradient, n_rows: int) -> Gradient:
    return Gradient(clamped.weights - n_rows * asleep.weights, clamped.hidden_bias - n_rows * asleep.hidden_bias)


# --- section 3.1: the largest terms ---


def furthest_from(w: Array, theta: Array) -> Array:
    """Give the point from which w(h) is furthest where the term of h in Z_R is largest: -theta^T (w w^T)^-1 w."""
    return -theta @ np.linalg.solve(w @ w.T, w)


def rule_for_orthogonal(w: Array, theta: Array) -> Array:
    """Give the h with the largest term in Z_R, where weight vectors are orthogonal: on if w_i . x <= |w_i|^2 / 2."""
    return (w @ furthest_from(w, theta) <= 0.5 * (w**2).sum(1)).astype(np.float64)


# --- sections 3.3 to 3.5: projection pursuit ---


def optimal_factor(marginal_of_rows: Array, marginal_of_model: Array) -> Array:
    """Give g(t) from the two densities along a direction, equation 3.11; those of 3.4 are 1 + exp(theta + t |w|)."""
    return marginal_of_rows / marginal_of_model


def gain(w: Array, theta: float, rows: Array) -> float:
    """Give the log-likelihood of a single unit w (n,), theta over that of N(0, 1): what EM climbs (section 3.5)."""
    return float(np.sum(np.logaddexp(0, rows @ w + theta) - np.logaddexp(0, theta + 0.5 * w @ w)))


def slopes(w: Array, theta: float, mean_h: float, mean_hx: Array) -> tuple[Array, float]:
    """Give the derivatives of a row's mean ln P(x, h) by w and theta: 0 where 3.13 and 3.12 hold."""
    on = expit(theta + 0.5 * w @ w)
    return mean_hx - w * on, float(mean_h - on)


def expected(w: Array, theta: float, rows: Array) -> tuple[float, Array]:
    """Give E[h] and E[h x] of a single unit: the expectation step."""
    on = expit(rows @ w + theta)
    return float(on.mean()), on @ rows / len(rows)


def m_step(mean_h: float, mean_hx: Array) -> tuple[Array, float]:
    """Give w and theta, equations 3.14 and 3.15: the maximization step."""
    w = mean_hx / mean_h
    return w, float(-np.log((1 - mean_h) / mean_h) - 0.5 * w @ w)


def without_unit(w: Array, theta: float, rows: Array, uniform: Array) -> tuple[Array, Array]:
    """Remove the structure of a unit: subtract w from the rows whose coins show heads.

    `uniform` (N,): between 0 and 1: a coin shows heads where it is below P(h = 1 | x).  Returns rows (N, n) and
    heads (N,).
    """
    heads = (uniform < expit(rows @ w + theta)).astype(np.float64)
    return rows - heads[:, None] * w, heads


# --- section 4 and appendix A ---


def reconstruction_bits(w: Array, x: Array, h: Array) -> Array:
    """Give H(x | h) for each input, in bits (section 4)."""
    return np.logaddexp(0, -2 * x * combined_weight(w, h)).mean(-1) / np.log(2)


def share_off_length(rows: Array, variance: float, tolerance: float) -> float:
    """Give the share of rows whose squared length is far from n times the variance, equation A.1."""
    n = rows.shape[1]
    return float(np.mean(abs((rows**2).sum(1) - variance * n) > tolerance * n))


def share_not_orthogonal(rows: Array, tolerance: float) -> float:
    """Give the share of pairs of rows that are far from orthogonal, equation A.2."""
    return float(np.mean(abs(rows @ rows.T) > tolerance * rows.shape[1]))
