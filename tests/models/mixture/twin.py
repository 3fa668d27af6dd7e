"""Mixtures bit by bit, in NumPy: a twin of `mixture`."""

from __future__ import annotations

import numpy as np
from tests.models.steps import unchecked
from tests.tables import as_floats

from latentbits.models.mixture.coordinates import Params


def parameters(weights, means) -> Params:
    return unchecked(Params, np.array(weights, float), np.array(means, float))


def some_parameters(k=3, d=6, seed=0) -> Params:
    """Draw a mixture far from its borders."""
    rng = np.random.default_rng(seed)
    return parameters(rng.dirichlet(np.full(k, 4.0)), rng.uniform(0.1, 0.9, (k, d)))


def log_joint(table, params):
    """Give log P(row, component); bits of 255 are missing."""
    X = as_floats(table)
    term = np.where(X[:, None] == 1, np.log(params.means), np.log1p(-params.means))
    return np.where(np.isnan(X)[:, None], 0, term).sum(2) + np.log(params.weights)


def shares(joint, beta=1.0):
    joint = beta * joint
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))


def counts_of(table, share):
    """Count rows, ones and seen bits of each component."""
    return share.sum(0), share.T @ (table == 1), share.T @ (table != 255)


def column_means(table, strength, weights=1.0):
    weights = np.broadcast_to(weights, len(table))
    return (weights @ (table == 1) + strength / 2) / (weights @ (table != 255) + strength)


def em(table, params, strength=0.0, weights=1.0, beta=1.0):
    """Take a step of EM: the parameters after it, and the objective before it."""
    joint, base = log_joint(table, params), column_means(table, strength, weights)
    prior = np.log(params.weights).sum() + np.sum(base * np.log(params.means) + (1 - base) * np.log1p(-params.means))
    value = np.sum(weights * np.logaddexp.reduce(joint, axis=1)) + strength * prior
    members, ones, seen = counts_of(table, shares(joint, beta) * np.reshape(weights, (-1, 1)))
    share = (members + strength) / (members + strength).sum()
    return parameters(share, (ones + strength * base) / (seen + strength)), value
