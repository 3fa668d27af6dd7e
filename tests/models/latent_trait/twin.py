"""The latent trait model of bits by dense grids, in NumPy: a twin of `latent_trait`."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import expit
from tests.models.steps import unchecked

from latentbits.core.batch import MISSING
from latentbits.models.latent_trait.kinds import Params


def simulate(n=240, d=6, q=1, seed=0, missing=0.0, scale=1.3):
    """Draw answers, and the weights and biases behind them."""
    rng = np.random.default_rng(seed)
    w, b = scale * rng.normal(size=(d, q)), rng.normal(size=d)
    table = (rng.random((n, d)) < expit(rng.normal(size=(n, q)) @ w.T + b)).astype(np.uint8)
    table[rng.random((n, d)) < missing] = MISSING
    return table, w, b


def parameters(w, b) -> Params:
    return unchecked(Params, w, b, *[np.zeros(0)] * 3)


def grid(q, width=8.0, step=0.05):
    axis = np.arange(-width, width + step / 2, step if q == 1 else 4 * step)
    points = np.array(list(product(axis, repeat=q)))
    log_weight = -0.5 * (points**2).sum(1)
    return points, log_weight - np.logaddexp.reduce(log_weight)


def log_bits(w, b, table, points):
    """Give log P(row | point), by nothing but the model's definition: (rows, points)."""
    a = points @ w.T + b
    return (table == 1) @ -np.logaddexp(0, -a).T + (table == 0) @ -np.logaddexp(0, a).T


def log_likelihoods(w, b, table, **fine):
    points, log_weight = grid(w.shape[1], **fine)
    return np.logaddexp.reduce(log_bits(w, b, table, points) + log_weight, axis=1)


def posterior_moments(w, b, table):
    points, log_weight = grid(w.shape[1])
    joint = log_bits(w, b, table, points) + log_weight
    share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    mean = share @ points
    second = np.einsum("nk,ki,kj->nij", share, points, points, optimize=True)
    return mean, second - mean[:, :, None] * mean[:, None], share, points
