"""The equations of Henniges et al. (2010) by their numbers, in plain NumPy: where a reader of the paper begins.

Symbols are the paper's.  A data point is y (D,), all of them are Y (N, D); a state s is a row of 0 and 1; the basis
functions are the columns of W (D, H), which is `components_` transposed.  Nothing here is fast: W s is formed for every
state of every data point.  The library computes the same in other ways, and its tests hold it to this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np

__all__ = [
    "A",
    "B",
    "Posterior",
    "Theta",
    "all_states",
    "best_rows",
    "candidates",
    "draw",
    "em_step",
    "free_energy",
    "log_joint",
    "n_cut",
    "new_W",
    "new_pi",
    "new_sigma",
    "posterior",
    "selection",
    "truncated_states",
]


class Theta(NamedTuple):
    """The parameters: W (D, H), sigma, and pi."""

    W: np.ndarray
    sigma: float
    pi: float


class Posterior(NamedTuple):
    """The approximation q_n: states K_n (S, H), the probability of each, and the log of the denominator of (3)."""

    states: np.ndarray
    probabilities: np.ndarray
    log_evidence: float

    @property
    def mean(self) -> np.ndarray:
        """Equation (3) with g(s) = s: <s> (H,)."""
        return self.probabilities @ self.states

    @property
    def second(self) -> np.ndarray:
        """Equation (3) with g(s) = s s^T: <s s^T> (H, H)."""
        return (self.states.T * self.probabilities) @ self.states


def log_joint(y: np.ndarray, states: np.ndarray, theta: Theta) -> np.ndarray:
    """Compute (1): log p(s, y) = log p(s | pi) + log p(y | s, W, sigma) of each state, (S,)."""
    W, sigma, pi = theta
    active = states.sum(1)
    log_prior = active * np.log(pi) + (states.shape[1] - active) * np.log(1 - pi)
    squares = ((y - states @ W.T) ** 2).sum(1)
    return log_prior - len(y) / 2 * np.log(2 * np.pi * sigma**2) - squares / (2 * sigma**2)


def draw(theta: Theta, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw from (1): data points (n, D), and the states that made them (n, H)."""
    W, sigma, pi = theta
    states = (rng.random((n, W.shape[1])) < pi).astype(float)
    return states @ W.T + sigma * rng.normal(size=(n, len(W))), states


def free_energy(Y: np.ndarray, q: Sequence[Posterior], theta: Theta) -> float:
    """Compute (2), where H(q) is the sum of the entropies of all q_n.

    With the parameters that q was made with, it is the sum of the log denominators of (3): the logarithm of each
    q_n(s) is log p(s, y_n) less that denominator, so that all else cancels.
    """
    total = 0.0
    for y, one in zip(Y, q, strict=True):
        p = one.probabilities[one.probabilities > 0]
        total += one.probabilities @ log_joint(y, one.states, theta) - p @ np.log(p)
    return float(total)


def posterior(y: np.ndarray, states: np.ndarray, theta: Theta) -> Posterior:
    """Compute (3): p(s, y) over its sum, on all states (left of the sign), or on K_n alone (right of it)."""
    logs = log_joint(y, states, theta)
    top = logs.max()
    log_evidence = top + np.log(np.exp(logs - top).sum())
    return Posterior(states, np.exp(logs - log_evidence), float(log_evidence))


def all_states(H: int) -> np.ndarray:
    """Make the sum of (3) exact: all 2^H states."""
    return np.array(list(product([0.0, 1.0], repeat=H)))


def truncated_states(H: int, chosen: Sequence[int] | np.ndarray, gamma: int) -> np.ndarray:
    """List (4): K_n, the states of at most gamma of the `chosen` causes I, and all states of a single cause."""
    sets = {frozenset(map(int, some)) for k in range(gamma + 1) for some in combinations(chosen, k)}
    sets |= {frozenset([h]) for h in range(H)}
    states = np.zeros((len(sets), H))
    for state, active in zip(states, sorted(sets, key=sorted), strict=True):
        state[list(active)] = 1
    return states


def selection(y: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Compute (5): S_h(y) = W_h^T y / |W_h|, (H,); a W_h of length 0, of which (5) says nothing, comes last."""
    lengths = np.sqrt((W**2).sum(0))
    return np.array([W[:, h] @ y / lengths[h] if lengths[h] > 0 else -np.inf for h in range(W.shape[1])])


def candidates(y: np.ndarray, W: np.ndarray, n: int) -> np.ndarray:
    """Choose the index set I below (4): the H' = n largest values of (5)."""
    return np.sort(np.argsort(-selection(y, W), kind="stable")[:n])


def new_W(Y: np.ndarray, q: Sequence[Posterior]) -> np.ndarray:
    """Compute (6), over the data points of M that are given."""
    products = sum(np.outer(y, one.mean) for y, one in zip(Y, q, strict=True))
    return np.linalg.solve(sum(one.second for one in q), np.transpose(products)).T  # <s s^T> is symmetric


def new_sigma(Y: np.ndarray, q: Sequence[Posterior], W: np.ndarray) -> float:
    """Compute (7), over the data points of M that are given.

    The paper prints W here and W^new in (6), so that W is the one before the step.  The derivative of (2) with respect
    to sigma is 0 where sigma^2 = sum_n <|y_n - W s|^2> / (|M| D) with the W that (2) is taken at; together with (6)
    that is W^new.  With either, (2) does not fall.  With W^new, it is at its maximum.  With W, sigma is the best
    one for W, and then W^new is the best one for any sigma, since (6) does not contain sigma.  The two differ by

        |M| D (sigma_old^2 - sigma_new^2) = sum_n <|(W^new - W) s|^2>,

    the cross term being 0 by (6): W makes sigma larger while components still move, and the fixed points are the same.
    """
    squares = sum(one.probabilities @ ((y - one.states @ W.T) ** 2).sum(1) for y, one in zip(Y, q, strict=True))
    return float(np.sqrt(squares / Y.size))


def new_pi(q: Sequence[Posterior], pi: float, gamma: int) -> float:
    """Compute (8), over the data points of M that are given.

    B(pi) / A(pi) is the mean number of active causes among states of at most gamma, so that A(pi) pi / B(pi) makes of
    a truncated mean what pi would be without truncation.  With gamma = H it is 1 / H.
    """
    H = q[0].states.shape[1]
    active = sum(one.mean.sum() for one in q) / len(q)
    return float(A(pi, H, gamma) * pi / B(pi, H, gamma) * active)


def A(pi: float, H: int, gamma: int) -> float:
    """Compute A below (8): the probability that at most gamma causes are active."""
    return sum(comb(H, k) * pi**k * (1 - pi) ** (H - k) for k in range(gamma + 1))


def B(pi: float, H: int, gamma: int) -> float:
    """Compute B below (8): the mean number of active causes, over states of at most gamma."""
    return sum(k * comb(H, k) * pi**k * (1 - pi) ** (H - k) for k in range(gamma + 1))


def n_cut(N: int, pi: float, H: int, gamma: int) -> float:
    """Compute N^cut below (7): the number of data points expected to have at most gamma active causes."""
    return N * A(pi, H, gamma)


def best_rows(q: Sequence[Posterior], n: int) -> np.ndarray:
    """Choose the set M below (7): the n data points with the largest denominators of (3)."""
    return np.argsort([-one.log_evidence for one in q], kind="stable")[:n]


def em_step(
    Y: np.ndarray, theta: Theta, gamma: int, n_candidates: int, n_rows: int | None = None, as_printed: bool = True
) -> Theta:
    """Go through one iteration: (3) to (5) for every data point, then (6) to (8) over M.

    `Y`, `theta`: data points, and the parameters before the step.  `gamma`, `n_candidates`: gamma, and H' of (5).
    `n_rows`: |M|; None takes all data points.  `as_printed`: whether (7) is about W, as printed, or about W^new.
    """
    H = theta.W.shape[1]
    q = [posterior(y, truncated_states(H, candidates(y, theta.W, n_candidates), gamma), theta) for y in Y]
    members = best_rows(q, len(Y) if n_rows is None else n_rows)
    Y, q = Y[members], [q[n] for n in members]
    W = new_W(Y, q)
    return Theta(W, new_sigma(Y, q, theta.W if as_printed else W), new_pi(q, theta.pi, gamma))
