"""Coordinates in which a mixture has no borders, and in which complete data would tell as much of each everywhere.

    u_k = 2 sqrt(w_k),    theta_kj = 2 arcsin sqrt(m_kj)

The information of a row that is known to be of component k is 1 for each theta_kj, whatever m_kj; and weights lie on a
sphere.  A maximum with m_kj = 0 is an ordinary maximum in theta, so that Newton's steps and the quadratic model of
what is left to gain hold there too.
"""

from __future__ import annotations

from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.module import Module
from latentbits.core.special import TINY

__all__ = ["Counts", "Params", "complete_information", "gradient", "of", "params_at"]


class Params(Module):
    """Weight of each component, and its P(bit = 1) for each column; an axis in front where starts are side by side."""

    weights: Float[Array, "*starts components"]
    means: Float[Array, "*starts components columns"]


class Counts(Module):
    """Rows, ones and observed entries that each component owns, with those of the prior."""

    members: Float[Array, "*starts components"]
    ones: Float[Array, "*starts components columns"]
    observed: Float[Array, "*starts components columns"]


def inside(params: Params) -> Params:
    """Move parameters `TINY` away from the borders, which a multiplicative step never leaves."""
    xp = namespace(params)
    weights = xp.maximum(params.weights, TINY)
    return Params(weights / weights.sum(-1, keepdims=True), xp.clip(params.means, TINY, 1 - TINY))


def of(params: Params) -> Float[Array, "*starts components columns_and_one"]:
    """Return u and theta of each component."""
    xp, params = namespace(params), inside(params)
    return xp.concatenate([2 * xp.sqrt(params.weights)[..., None], 2 * xp.arcsin(xp.sqrt(params.means))], -1)


def params_at(at: Float[Array, "*starts components columns_and_one"]) -> Params:
    """Return the weights and means at any coordinates."""
    squares = at[..., 0] ** 2
    return Params(squares / squares.sum(-1, keepdims=True), namespace(at).sin(at[..., 1:] / 2) ** 2)


def gradient(params: Params, counts: Counts) -> Float[Array, "*starts components columns_and_one"]:
    """Differentiate log-likelihood and log-prior by the coordinates; tangential to the sphere of the weights."""
    xp, params = namespace(counts), inside(params)
    u = 2 * xp.sqrt(params.weights)
    by_weight = 2 * counts.members / u - 0.5 * counts.members.sum(-1, keepdims=True) * u
    by_mean = (counts.ones - counts.observed * params.means) / xp.sqrt(params.means * (1 - params.means))
    return xp.concatenate([by_weight[..., None], by_mean], -1)


def complete_information(counts: Counts) -> Float[Array, "*starts components columns_and_one"]:
    """Return the information of each coordinate if every row's component were known; at least that of one row."""
    xp, n = namespace(counts), counts.members.sum(-1, keepdims=True)
    return xp.maximum(xp.concatenate([xp.broadcast_to(n, counts.members.shape)[..., None], counts.observed], -1), 1)
