"""The numbered equations of Lewicki & Sejnowski (1996), as they stand, in plain NumPy and float64.

Every sum over states is one over all states, so that this is for networks of few units.  The fast functions are tested
against it; the README of the paper has the index.

    (1)       `log_joint`                    (6)       `change_probability`
    (2)       `causal_input`, `noisy_or`     (7)       `evidence_for_change`
    (3), (4)  `log_evidence`                 (8)       `log_objective`
    (5)       `conditional`                  (9)       `sums`, `frequency`

States are lists of 0/1 arrays, one a hidden layer, bottom first, with the units along the last axis.  Beyond the paper:
a bias b_j is the weight of a cause that is always on, without which h(u_j) of a unit without active parents were 0; and
an input that is NaN is not known, and is left out.

**(7) has a misprint.**  Below it the paper has delta_ij = +S_j w_ij if S_i = 0, and -S_j w_ij if S_i = 1.  The factor
S_j cannot be meant.  delta_ij is "the change in u_j for a change in S_i", and u_j = sum_i S_i w_ij changes by +-w_ij
whatever S_j is.  With the factor a child that is off would add log h(u_j; 0) - log h(u_j; 0) = 0, where (5) has

    log (1 - h(u_j + w_ij)) - log (1 - h(u_j))  =  -w_ij ,

and nothing would speak against a cause whose children are missing.  We take delta_ij = w_ij and -w_ij.

**(9) is garbled** in the text that we have: nothing of the formula is left but its number.  It follows from what is
said around it, by setting the derivative of (8) to zero and solving for w_ij.  By (2)

    d log h(u_j; S_j) / d w_ij  =  S_i (1 - g_j) / g_j  if S_j = 1,  -S_i  if S_j = 0,   that is  S_i (S_j / g_j - 1) ,

so that with states S^(n), A_ij = sum_n S_i S_j f_ij / g_j and N_ij = sum_n S_i, the derivative of log (8) with the
gamma prior p(w) ~ w^(alpha - 1) exp(-beta w) is A / f - N + (alpha - 1) / w - beta.  Times f, set to zero:

    f = [A + (alpha - 1) f / w] / (N + beta) ,        w = -log(1 - f) .                                           (9)

The paper's words on (9) hold for it: the sum is "a weighted average of the number of times S_j was active when
S_i was active", in which "the ratio f_ij / g_j weights each term".  For the paper's alpha = 1 it is A / (N + beta).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

__all__ = [
    "Network",
    "Sums",
    "all_hidden",
    "causal_input",
    "change_probability",
    "conditional",
    "evidence_for_change",
    "frequency",
    "log_evidence",
    "log_joint",
    "log_noisy_or",
    "log_objective",
    "noisy_or",
    "posterior",
    "sums",
]

Numbers = np.ndarray | float


class Network(NamedTuple):
    """`weights` w_ij (parents, children), bottom first; `biases` of each layer, the inputs first."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]


class Sums(NamedTuple):
    """Sums over rows in (9): N_ij = sum_n S_i and A_ij / f_ij = sum_n S_i S_j / g_j; and the same of the biases."""

    counts: list[np.ndarray]
    credits: list[np.ndarray]
    bias_counts: list[np.ndarray]
    bias_credits: list[np.ndarray]


# --- 1: the network ---


def log_joint(network: Network, x: np.ndarray, states: list[np.ndarray]) -> np.ndarray:
    """Compute (1): log P(S_1 ... S_n | W) = sum_i log P(S_i | pa[S_i], W), of one row or of many."""
    total = np.zeros(())
    for layer, values in enumerate([x, *states]):
        terms = log_noisy_or(causal_input(network, layer, states), values)
        total = np.asarray(total + np.where(np.isnan(values), 0, terms).sum(-1))
    return total


def causal_input(network: Network, layer: int, states: list[np.ndarray]) -> np.ndarray:
    """Compute (2): u_j = b_j + sum_i S_i w_ij of a layer's units; layer 0 are the inputs, the top one has b_j alone."""
    u = network.biases[layer]
    return u + states[layer] @ network.weights[layer] if layer < len(states) else u


def noisy_or(u: Numbers) -> Numbers:
    """Compute (2): h(u) = 1 - exp(-u), the probability that a unit is on."""
    return -np.expm1(-u)


def log_noisy_or(u: Numbers, on: Numbers) -> np.ndarray:
    """Compute log h(u; a), as (7) needs it: of h(u) for a unit that is on, of 1 - h(u) for one that is off."""
    return np.where(np.equal(on, 1), np.log(noisy_or(u)), np.negative(u))


# --- 2: the probability of the data ---


def all_hidden(network: Network) -> list[np.ndarray]:
    """List every state S of all hidden layers together, layer by layer, (states, units)."""
    sizes = [len(w) for w in network.weights]
    return np.split(np.array(list(product([0.0, 1.0], repeat=sum(sizes)))), np.cumsum(sizes)[:-1], axis=1)


def log_evidence(network: Network, x: np.ndarray) -> np.ndarray:
    """Compute (4): log P(D_n | W) = log sum_S P(D_n | S, W) P(S | W) of each row; (3) is their sum over rows."""
    return np.array([posterior(network, row)[1] for row in x])


def posterior(network: Network, x: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute P(S | D_n, W) of each of `all_hidden` given one row, and log P(D_n | W)."""
    logs = log_joint(network, x, all_hidden(network))
    log_sum = np.logaddexp.reduce(logs)
    return np.exp(logs - log_sum), log_sum


# --- 3: Gibbs sampling ---


def conditional(network: Network, x: np.ndarray, states: list[np.ndarray], layer: int, unit: int) -> float:
    """Compute (5): P(S_i = 1 | all others) ~ P(S_i | pa[S_i]) prod_{j in ch[S_i]} P(S_j | pa[S_j], S_i).

    `layer`, `unit`: from 1 for the lowest hidden layer, and from 0.
    """
    chances = []
    for value in (0.0, 1.0):
        changed = [s.copy() for s in states]
        changed[layer - 1][unit] = value
        children = [x, *changed][layer - 1]
        own = log_noisy_or(causal_input(network, layer, changed)[unit], value)
        theirs = log_noisy_or(causal_input(network, layer - 1, changed), children)
        chances.append(np.exp(own + np.where(np.isnan(children), 0, theirs).sum()))
    return float(chances[1] / sum(chances))


def change_probability(network: Network, x: np.ndarray, states: list[np.ndarray], layer: int, unit: int) -> float:
    """Compute (6): P(S_i -> 1 - S_i | all others) = 1 / (1 + exp(-Delta x_i))."""
    return float(1 / (1 + np.exp(-evidence_for_change(network, x, states, layer, unit))))


def evidence_for_change(network: Network, x: np.ndarray, states: list[np.ndarray], layer: int, unit: int) -> float:
    """Compute (7): Delta x_i, feedback from above and evidence from below; delta_ij without the misprinted S_j."""
    s, w, children = states[layer - 1][unit], network.weights[layer - 1][unit], [x, *states][layer - 1]
    own = causal_input(network, layer, states)[unit]
    u = causal_input(network, layer - 1, states)
    delta = w if s == 0 else -w
    feedback = log_noisy_or(own, 1 - s) - log_noisy_or(own, s)
    terms = log_noisy_or(u + delta, children) - log_noisy_or(u, children)
    return float(feedback + np.where(np.isnan(children), 0, terms).sum())


# --- 4: the weights ---


def log_objective(network: Network, x: np.ndarray, alpha: float, beta: float) -> float:
    """Compute (8): log P(D | W) + log P(W | alpha, beta), gamma densities of weights and biases, up to a constant."""
    w = np.concatenate([values.ravel() for values in (*network.weights, *network.biases)])
    prior = -beta * w.sum() + ((alpha - 1) * np.log(w).sum() if alpha != 1 else 0.0)
    return float(log_evidence(network, x).sum() + prior)


def sums(network: Network, x: np.ndarray, states: list[np.ndarray], weight: np.ndarray) -> Sums:
    """Sum over rows and their states S^(n) for (9); a row counts `weight` times."""
    found = Sums([], [], [], [])
    for layer, values in enumerate([x, *states]):
        known = ~np.isnan(values)
        explained = np.where(known, values, 0) / noisy_or(causal_input(network, layer, states))  # S_j / g_j
        found.bias_counts.append(weight @ known)
        found.bias_credits.append(weight @ explained)
        if layer < len(states):
            causes = (weight[:, None] * states[layer]).T
            found.counts.append(causes @ known)
            found.credits.append(causes @ explained)
    return found


def frequency(a: Numbers, n: Numbers, alpha: float, beta: float) -> np.ndarray:
    """Solve (9), f = [A + (alpha - 1) f / w] / (N + beta), for alpha of at least 1, by halving.

    For alpha > 1 the right side falls as f grows, so that the root is unique.

    >>> round(float(frequency(5.0, 8.5, 1.0, 1.5)), 6)
    0.5
    """
    low, high = np.zeros(np.shape(a)), np.ones(np.shape(a))
    for _ in range(60):
        f = (low + high) / 2
        above = f * (n + beta) > a + (alpha - 1) * f / -np.log1p(-f)
        low, high = np.where(above, low, f), np.where(above, f, high)
    return (low + high) / 2
