"""Set-up of tests of binary sparse coding, and what `equations.py` has not: missing entries and temperatures.

A missing entry is NaN: the likelihood is that of the others, and the M-step takes it for one more latent variable,
whose mean given s is that of the parameters before the step.
"""

from __future__ import annotations

import numpy as np

from latentbits.models.binary_sparse_coding import equations
from latentbits.models.binary_sparse_coding.equations import Posterior, Theta


def some_theta(n_causes, n_columns, seed=0, sigma=1.0, active=1.5):
    """Make random components, of size 2; pi H is `active`."""
    components = 2.0 * np.random.default_rng(seed).normal(size=(n_causes, n_columns))
    return Theta(components.T, sigma, active / n_causes)


def theta_of(model):
    """Return the parameters of a fitted estimator."""
    return Theta(model.components_.T, model.noise_std_, model.prior_)


def draw(theta, n, seed=0, missing=0.0):
    """Draw rows, some entries NaN."""
    rng = np.random.default_rng(seed)
    y, _ = equations.draw(theta, n, rng)
    y[rng.random(y.shape) < missing] = np.nan
    return y


def infer(y, theta, gamma=None, n_candidates=None, temperature=1.0):
    """Sum over K_n, or over all states where gamma is None; a temperature divides log p(s, y)."""
    seen = ~np.isnan(y)
    y, theta = y[seen], theta._replace(W=theta.W[seen])
    H = theta.W.shape[1]
    if gamma is None:
        states = equations.all_states(H)
    else:
        states = equations.truncated_states(H, equations.candidates(y, theta.W, n_candidates), gamma)
    exact = equations.posterior(y, states, theta)
    if temperature == 1:
        return exact
    weights = np.exp((equations.log_joint(y, states, theta) - exact.log_evidence) / temperature)
    log_evidence = exact.log_evidence + temperature * np.log(weights.sum())
    return Posterior(states, weights / weights.sum(), log_evidence)


def infer_all(X, theta, *size, temperature=1.0):
    """Return the posterior of every row."""
    return [infer(y, theta, *size, temperature=temperature) for y in X]


def filled(y, row, theta):
    """E[y | s] for each state, (S, D)."""
    return np.where(np.isnan(y), row.states @ theta.W.T, y)


def products(X, rows, theta):
    """sum_n <s y^T>, (H, D)."""
    pairs = zip(X, rows, strict=True)
    return sum(np.einsum("s,sh,sd->hd", row.probabilities, row.states, filled(y, row, theta)) for y, row in pairs)


def update(X, rows, theta, gamma):
    """Equations (6), (7) with W^new, and (8); `theta` is what `rows` were inferred with."""
    pi = equations.new_pi(rows, theta.pi, gamma)
    if not np.isnan(X).any():
        W = equations.new_W(X, rows)
        return Theta(W, equations.new_sigma(X, rows, W), pi)
    W = np.linalg.solve(sum(row.second for row in rows), products(X, rows, theta)).T
    squares = np.isnan(X).sum() * theta.sigma**2
    for y, row in zip(X, rows, strict=True):
        squares += row.probabilities @ ((filled(y, row, theta) - row.states @ W.T) ** 2).sum(1)
    return Theta(W, float(np.sqrt(squares / X.size)), pi)
