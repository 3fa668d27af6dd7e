"""Clipped Gaussians with noise, drawn and integrated on dense grids; the paper's part is that of `equations.py`.

Bits are +1 and -1, and 0 where missing.
"""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal

from latentbits.models.clipped_gaussian import equations, expectation
from latentbits.models.clipped_gaussian.params import Params

D, P = 5, 2
EVERY = np.array(list(product([-1.0, 1.0], repeat=D)))


def weights_of(
    d: int, k: int, seed: int = 0, low: float = 0.3, high: float = 0.8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw weights with communalities between `low` and `high`, biases, and the noise that is left over."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, k))
    weights *= np.sqrt(rng.uniform(low, high, (d, 1))) / np.linalg.norm(weights, axis=1, keepdims=True)
    return weights, 0.7 * rng.normal(size=d), 1 - np.sum(weights**2, 1)


def draw(weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Draw latents and signs."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, weights.shape[1]))
    x = equations.gaussians(weights, y) + np.sqrt(psi) * rng.normal(size=(n, len(phi)))
    return y, equations.biased_bits(phi, x)


def factors(*parts: np.ndarray) -> expectation.Factors:
    """Give weights, biases and noise to the library."""
    return jax.jit(expectation.factors_of)(*map(jnp.asarray, parts))


def given(weights: np.ndarray, phi: np.ndarray, psi: np.ndarray) -> tuple[Params, expectation.Factors]:
    """Give the library a model of which nothing is kept of learning."""
    pairs, none = jnp.zeros((0, 0)), jnp.zeros(0)
    numbers = map(jnp.asarray, (weights, phi, psi, phi))
    params = Params(*numbers, pairs, pairs, pairs, pairs > 0, pairs > 0, none, none, jnp.zeros(()))
    return params, factors(params.weights, params.phi, params.psi)


def orthant(weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, signs: np.ndarray) -> float:
    """P(s) as the mass of an orthant of the d-dimensional Gaussian; missing bits are left out."""
    seen = signs != 0
    if not seen.any():
        return 1.0
    s = signs[seen]
    covariance = equations.covariance_of_gaussians(weights[seen]) + np.diag(psi[seen])
    return multivariate_normal(np.zeros(len(s)), np.outer(s, s) * covariance, seed=0).cdf(s * phi[seen])


def _on_grid(
    weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, signs: np.ndarray, half: float, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """A dense grid over all dimensions, and the log of the joint probability of each row with each of its cells."""
    axis, q = np.linspace(-half, half, n), weights.shape[1]
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), -1).reshape(-1, q)
    z = (equations.gaussians(weights, grid) + phi) / np.sqrt(psi)
    cell = q * np.log(axis[1] - axis[0]) + np.log(equations.density_of_hidden(grid)).sum(1)
    return grid, (signs > 0) @ log_ndtr(z).T + (signs < 0) @ log_ndtr(-z).T + cell


def log_evidence(
    weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, signs: np.ndarray, half: float = 7.0, n: int = 201
) -> np.ndarray:
    """log p(s) of each row."""
    return np.logaddexp.reduce(_on_grid(weights, phi, psi, signs, half, n)[1], axis=1)


def grid_posterior(
    weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, signs: np.ndarray, half: float = 7.0, n: int = 201
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p(s), mean and covariance of y for each row."""
    grid, log_joint = _on_grid(weights, phi, psi, signs, half, n)
    log_p = np.logaddexp.reduce(log_joint, axis=1)
    share = np.exp(log_joint - log_p[:, None])
    mean = share @ grid
    second = np.stack([share @ (grid * grid[:, [i]]) for i in range(weights.shape[1])], 1)
    return log_p, mean, second - mean[:, :, None] * mean[:, None]


def grid_predictions(
    weights: np.ndarray, phi: np.ndarray, psi: np.ndarray, signs: np.ndarray, half: float = 7.0, n: int = 201
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p(s), mean of y, and P(bit = 1 | s) of each column, for each row."""
    grid, log_joint = _on_grid(weights, phi, psi, signs, half, n)
    log_p = np.logaddexp.reduce(log_joint, axis=1)
    share = np.exp(log_joint - log_p[:, None])
    return log_p, share @ grid, share @ ndtr((equations.gaussians(weights, grid) + phi) / np.sqrt(psi))
