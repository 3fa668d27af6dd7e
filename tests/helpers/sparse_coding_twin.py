"""Binary sparse coding in plain NumPy, straight from Henniges et al. (2010): slow, and every state's W s is formed.

W is (H, D) here, as `components_` is: y = s W + noise.  A missing pixel is NaN: the likelihood is that of the others,
and the M-step takes it for one more latent variable, whose mean given s is that of the parameters before the step.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom


class Theta(NamedTuple):
    """`components` (H, D), `noise_std`, and `prior`, the pi of each cause."""

    components: np.ndarray
    noise_std: float
    prior: float


class Row(NamedTuple):
    """K_n (S, H) and q_n (S,); <s> (H,) and <s s^T> (H, H) under it; log of the denominator of (3)."""

    states: np.ndarray
    probability: np.ndarray
    mean: np.ndarray
    second: np.ndarray
    log_evidence: float


def some_theta(n_causes: int, n_features: int, seed: int = 0, noise_std: float = 1.0, active: float = 1.5) -> Theta:
    """Random components, of size 2; pi H is `active`."""
    components = 2.0 * np.random.default_rng(seed).normal(size=(n_causes, n_features))
    return Theta(components, noise_std, active / n_causes)


def draw(theta: Theta, n: int, seed: int = 0, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the model (1), some pixels NaN, and the states they come from."""
    rng = np.random.default_rng(seed)
    s = (rng.random((n, len(theta.components))) < theta.prior).astype(float)
    y = s @ theta.components + theta.noise_std * rng.normal(size=(n, theta.components.shape[1]))
    y[rng.random(y.shape) < missing] = np.nan
    return y, s


def candidates(y: np.ndarray, theta: Theta, n_candidates: int) -> np.ndarray:
    """The index set I: the H' largest values of (5), over what is observed; a cause of norm zero comes last."""
    seen = ~np.isnan(y)
    scores = np.full(len(theta.components), -np.inf)
    for h, w in enumerate(theta.components):
        norm = np.sqrt((w[seen] ** 2).sum())
        if norm > 0:
            scores[h] = w[seen] @ y[seen] / norm
    return np.sort(np.argsort(-scores, kind="stable")[:n_candidates])


def all_states(n_causes: int) -> np.ndarray:
    return np.array(list(product([0.0, 1.0], repeat=n_causes)))


def truncated_states(n_causes: int, chosen: np.ndarray, max_active: int) -> np.ndarray:
    """K_n of (4): at most gamma active among the candidates, and every single cause."""
    sets = {frozenset(c) for k in range(max_active + 1) for c in combinations(chosen.tolist(), k)}
    sets |= {frozenset([h]) for h in range(n_causes)}
    states = np.zeros((len(sets), n_causes))
    for state, active in zip(states, sorted(sets, key=sorted), strict=True):
        state[list(active)] = 1.0
    return states


def log_joint(y: np.ndarray, theta: Theta, states: np.ndarray) -> np.ndarray:
    """log p(s, y) of (1) for each state; pixels that are NaN are left out."""
    seen = ~np.isnan(y)
    means = states @ theta.components
    squares = ((y - means)[:, seen] ** 2).sum(1)
    log_likelihood = -0.5 * squares / theta.noise_std**2 - 0.5 * seen.sum() * np.log(2 * np.pi * theta.noise_std**2)
    active = states.sum(1)
    return log_likelihood + active * np.log(theta.prior) + (states.shape[1] - active) * np.log1p(-theta.prior)


def infer(
    y: np.ndarray, theta: Theta, max_active: int | None, n_candidates: int | None, temperature: float = 1.0
) -> Row:
    """Equation (3) for one row; all 2^H states where gamma is None.  A temperature divides log p(s, y)."""
    n_causes = len(theta.components)
    if max_active is None or n_candidates is None:
        states = all_states(n_causes)
    else:
        states = truncated_states(n_causes, candidates(y, theta, n_candidates), max_active)
    joint = log_joint(y, theta, states)
    probability = np.exp(joint / temperature - logsumexp(joint / temperature))
    second = sum(q * np.outer(s, s) for q, s in zip(probability, states, strict=True))
    return Row(states, probability, probability @ states, second, logsumexp(joint))


def infer_all(
    X: np.ndarray, theta: Theta, max_active: int | None, n_candidates: int | None, temperature: float = 1.0
) -> list[Row]:
    return [infer(y, theta, max_active, n_candidates, temperature) for y in X]


def correction_sums(prior: float, n_causes: int, max_active: int) -> tuple[float, float]:
    """A(pi) and B(pi) of (8)."""
    counts = np.arange(max_active + 1)
    chances = binom.pmf(counts, n_causes, prior)
    return float(chances.sum()), float(counts @ chances)


def n_cut(n_rows: int, prior: float, n_causes: int, max_active: int) -> float:
    """Rows expected to have at most gamma causes."""
    return n_rows * correction_sums(prior, n_causes, max_active)[0]


def best_rows(rows: list[Row], count: int) -> np.ndarray:
    """The subset M: the `count` rows of highest evidence."""
    return np.argsort([-row.log_evidence for row in rows], kind="stable")[:count]


def update(X: np.ndarray, rows: list[Row], theta: Theta, max_active: int | None, members: np.ndarray) -> Theta:
    """Equations (6), (7) with the new W, and (8), over the rows M; `theta` is what `rows` were inferred with."""
    n_causes, n_features = theta.components.shape
    products, seconds, active = np.zeros((n_causes, n_features)), np.zeros((n_causes, n_causes)), 0.0
    for n in members:
        filled = np.where(np.isnan(X[n]), rows[n].states @ theta.components, X[n])  # E[y | s] for each state
        products += np.einsum("s,sh,sd->hd", rows[n].probability, rows[n].states, filled)
        seconds += rows[n].second
        active += rows[n].mean.sum()
    components = np.linalg.solve(seconds, products)
    squares = 0.0
    for n in members:
        filled = np.where(np.isnan(X[n]), rows[n].states @ theta.components, X[n])
        squares += rows[n].probability @ ((filled - rows[n].states @ components) ** 2).sum(1)
        squares += np.isnan(X[n]).sum() * theta.noise_std**2
    a, b = correction_sums(theta.prior, n_causes, n_causes if max_active is None else max_active)
    return Theta(
        components, float(np.sqrt(squares / (len(members) * n_features))), a * theta.prior / b * active / len(members)
    )
