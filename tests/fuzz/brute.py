"""Every family in plain NumPy and float64, by one sum.

Given the hidden state, the columns of every family are independent.  So a fitted model is a list of hidden states (all
of them, or a fine grid where they are continuous) with a log-probability each and the columns' bits or Gaussians given
each; likelihood, posterior means and completion are sums over that list.  Taken from the public attributes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.special import log_expit, log_ndtr, logsumexp

__all__ = ["Answers", "States", "answers", "states_of"]

FLOOR = 1e-12  # how far the library says that it keeps shares of ones from 0 and 1, see docs/design.md


@dataclass
class States:
    """Hidden states: `log_prior` (S,), `latents` (S, L); of bits `one` and `zero`, log P(bit | state), (S, d); of reals
    `mean` (S, d) and `std` (d,)."""

    log_prior: np.ndarray
    latents: np.ndarray
    one: np.ndarray | None = None
    zero: np.ndarray | None = None
    mean: np.ndarray | None = None
    std: np.ndarray | None = None


@dataclass
class Answers:
    """log p(x) (n,), posterior means of the latents (n, L), and expected values of all cells (n, d)."""

    log_likelihood: np.ndarray
    latents: np.ndarray
    filled: np.ndarray


def answers(states: States, X: np.ndarray) -> Answers:
    """Sums over all states, row by row; NaN cells are left out."""
    seen = ~np.isnan(X)
    if states.one is not None and states.zero is not None:
        joint = np.where(seen, X, 0) @ states.one.T + np.where(seen, 1 - X, 0) @ states.zero.T
        mean = np.exp(states.one)
    else:
        assert states.mean is not None
        assert states.std is not None
        mean, std = states.mean, states.std
        norm = np.where(seen, -np.log(std) - 0.5 * np.log(2 * np.pi), 0).sum(1)
        joint = np.stack([norm[i] - 0.5 * _squares(X[i], seen[i], mean, std) for i in range(len(X))])
    joint = joint + states.log_prior
    total = logsumexp(joint, axis=1)
    share = np.exp(joint - total[:, None])
    return Answers(total, share @ states.latents, share @ mean)


def _squares(x: np.ndarray, seen: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return (((x[seen] - mean[:, seen]) / std[seen]) ** 2).sum(1)


def states_of(model: Any) -> States:
    """The states of a fitted estimator, by the name of its class."""
    return _STATES[type(model).__name__](model)


def _clipped(means: Any) -> np.ndarray:
    return np.clip(np.asarray(means, float), FLOOR, 1 - FLOOR)


def _product(model: Any) -> States:
    means = _clipped(model.means_)[None]
    return States(np.zeros(1), np.zeros((1, 0)), np.log(means), np.log1p(-means))


def _mixture(model: Any) -> States:
    means = _clipped(model.means_)
    return States(np.log(np.maximum(model.weights_, FLOOR)), np.eye(len(means)), np.log(means), np.log1p(-means))


def _grid(n_latents: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and log-weights of a standard Gaussian, fine enough for posteriors of a hundredth of its width."""
    axis = np.linspace(-10, 10, {1: 20001, 2: 301}[n_latents])
    points = np.array(list(product(axis, repeat=n_latents)))
    log_weight = -0.5 * (points**2).sum(1)
    return points, log_weight - logsumexp(log_weight)


def _latent_trait(model: Any) -> States:
    points, log_weight = _grid(len(model.components_))
    a = points @ model.components_ + model.intercept_
    if hasattr(model, "noise_variance_"):
        if np.isnan(model.noise_variance_).any():
            raise NotImplementedError("only tables of reals alone")
        return States(log_weight, points, mean=a, std=np.sqrt(model.noise_variance_))
    return States(log_weight, points, log_expit(a), log_expit(-a))


def _clipped_gaussian(model: Any) -> States:
    points, log_weight = _grid(len(model.components_))
    a = (points @ model.components_ + model.thresholds_) / np.sqrt(model.noise_variance_)
    return States(log_weight, points, log_ndtr(a), log_ndtr(-a))


def _all(n: int) -> np.ndarray:
    return np.array(list(product([0.0, 1.0], repeat=n)))


def _machine(model: Any) -> States:
    h = _all(len(model.hidden_bias_))
    added, b = h @ model.components_, np.asarray(model.input_bias_)
    field = added + b
    if model.kind == "binary":
        log_prior = h @ model.hidden_bias_ + np.logaddexp(field, -field).sum(1)
        return States(log_prior - logsumexp(log_prior), h, log_expit(2 * field), log_expit(-2 * field))
    # |b + w(h)|^2 less |b|^2, which is the same for all states and larger than what tells them apart
    log_prior = h @ model.hidden_bias_ + added @ b + 0.5 * (added**2).sum(1)
    return States(log_prior - logsumexp(log_prior), h, mean=field, std=np.ones(len(b)))


def _sparse_coding(model: Any) -> States:
    s = _all(len(model.components_))
    on = s.sum(1)
    log_prior = on * np.log(model.prior_) + (s.shape[1] - on) * np.log1p(-model.prior_)
    std = np.full(model.components_.shape[1], model.noise_std_)
    return States(log_prior, s, mean=s @ model.components_, std=std)


def _noisy_or(model: Any) -> States:
    sizes = [len(w) for w in model.weights_]
    s = _all(sum(sizes))
    layers = np.split(s, np.cumsum(sizes)[:-1], axis=1)
    log_prior = _log_bits(np.broadcast_to(model.biases_[-1], layers[-1].shape), layers[-1])
    for place, (below, above) in enumerate(pairwise(layers), 1):
        log_prior = log_prior + _log_bits(model.biases_[place] + above @ model.weights_[place], below)
    u = model.biases_[0] + layers[0] @ model.weights_[0]
    return States(log_prior, s, np.log(-np.expm1(-u)), -u)


def _log_bits(u: np.ndarray, bits: np.ndarray) -> np.ndarray:
    return np.where(bits == 1, np.log(-np.expm1(-u)), -u).sum(1)


_STATES = {
    "BernoulliProduct": _product,
    "BernoulliMixture": _mixture,
    "LatentTrait": _latent_trait,
    "ClippedGaussian": _clipped_gaussian,
    "CombinationMachine": _machine,
    "BinarySparseCoding": _sparse_coding,
    "NoisyOrNetwork": _noisy_or,
}
