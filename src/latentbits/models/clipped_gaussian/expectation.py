"""Expectation propagation: the posterior of the hidden variables of each row, as a Gaussian, and log p of the row.

A row's bits are half-spaces (`noise="none"`) or probit factors in the directions of their weights,

    p(s | y) = prod_i Phi(s_i (phi_i + w_i.y) / sqrt(psi_i)),        y ~ N(0, I_P),

and each is replaced by a Gaussian factor exp(-tau_i x^2 / 2 + nu_i x) of x = w_i.y that gives, together with all
others, the same mass, mean and variance of x (Minka 2001).  All factors of all rows are improved at once, so that a
sweep is four matrix products and one elementwise function.  Missing bits have no factor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.gaussians import Gaussian, from_precision
from latentbits.core.module import Module
from latentbits.core.nodes import log_det
from latentbits.core.packed_symmetric import pairs, products
from latentbits.core.special import half_line
from latentbits.models.clipped_gaussian.tuning import EP_STEP_SHARE, SOFTENING_SWEEPS

__all__ = ["Approximation", "Factors", "approximate", "factors_of", "log_density", "mode", "posterior", "predict"]


class Factors(Module):
    """The model as factors, which the bits of all rows have in common."""

    # weights, phi, psi: of the model.  psi is 1 where both it and the weights are 0: a column without a cause is a
    # coin.
    weights: Float[Array, "columns latents"]
    phi: Float[Array, " columns"]
    psi: Float[Array, " columns"]
    squares: Float[Array, "columns pairs"]  # w_j w_k of each column, packed


def factors_of(
    weights: Float[Array, "columns latents"], phi: Float[Array, " columns"], psi: Float[Array, " columns"]
) -> Factors:
    """Make the factors of a model."""
    xp = namespace(weights)
    alone = xp.sum(weights**2, 1) == 0
    return Factors(weights, phi, xp.where(alone & (psi == 0), 1.0, psi), products(weights))


class Approximation(NamedTuple):
    """The Gaussian posterior of each row, EP's log p(s), and whether the sweeps have settled."""

    posterior: Gaussian
    log_likelihood: Float[Array, " rows"]
    settled: Bool[Array, " rows"]


class _Sites(NamedTuple):
    """Factors of each row and column, and how far a row goes at a time."""

    tau: Float[Array, "rows columns"]
    nu: Float[Array, "rows columns"]
    step: Float[Array, " rows"]
    change: Float[Array, " rows"]


def _posterior(factors: Factors, tau: Array, nu: Array) -> Gaussian:
    j, k = pairs(factors.weights.shape[1])
    prior = jnp.asarray(j == k, tau.dtype)
    return from_precision(prior + tau @ factors.squares, nu @ factors.weights)[0]


def _marginals(factors: Factors, at: Gaussian) -> tuple[Float[Array, "rows columns"], Float[Array, "rows columns"]]:
    """Compute mean and variance of w_i.y, for each row and column."""
    j, k = pairs(factors.weights.shape[1])
    twice = jnp.asarray(2 - (j == k), at.mean.dtype)
    return at.mean @ factors.weights.T, (at.covariance[:, j, k] * twice) @ factors.squares.T


class _Tilted(NamedTuple):
    """A bit's own factor against all others: the rest (`mean`, `variance` of w.y), and what the bit makes of it."""

    share: Float[Array, "rows columns"]  # 1 - tau v: what of the marginal precision the others have
    mean: Float[Array, "rows columns"]
    variance: Float[Array, "rows columns"]
    log_mass: Float[Array, "rows columns"]
    tau: Float[Array, "rows columns"]
    nu: Float[Array, "rows columns"]


def _tilt(factors: Factors, signs: Array, at: Gaussian, tau: Array, nu: Array, soft: Any = 0.0) -> _Tilted:
    mean, variance = _marginals(factors, at)
    share = jnp.maximum(1 - tau * variance, 1e-6)
    rest_variance = variance / share
    rest_mean = (mean - variance * nu) / share
    psi = factors.psi + soft
    total = psi + rest_variance
    root = jnp.sqrt(total)
    cut = half_line(signs * (factors.phi + rest_mean) / root)
    left = 1 / (psi + rest_variance * cut.variance)
    seen = jnp.abs(signs)
    new_tau = seen * (1 - cut.variance) * left
    new_nu = seen * (signs * cut.ratio * root + rest_mean * (1 - cut.variance)) * left
    return _Tilted(share, rest_mean, rest_variance, seen * cut.log_mass, new_tau, new_nu)


def posterior(factors: Factors, signs: Float[Array, "rows columns"], tolerance: float = 1e-4) -> Gaussian:
    """Approximate the posterior of each row; `signs` are +1, -1, and 0 for a missing bit.

    Rows go on together until a sweep moves the mean of each by less than `tolerance` of its standard deviation.
    """
    return _improved(factors, signs, tolerance)[1]


def approximate(factors: Factors, signs: Float[Array, "rows columns"], tolerance: float = 1e-4) -> Approximation:
    """Approximate the posterior of each row as `posterior` does, and its log-likelihood, which takes a sweep more."""
    sites, at = _improved(factors, signs, tolerance)
    tilted = _tilt(factors, signs, at, sites.tau, sites.nu)
    mean, _ = _marginals(factors, at)
    # log of the product of prior and factors at the posterior mean, less that of the normalised posterior there: terms
    # that do not cancel.  It is exact for these tau and nu, and stationary in them where EP has converged.
    shift = sites.nu - sites.tau * mean
    each = tilted.log_mass - 0.5 * jnp.log(tilted.share) + 0.5 * tilted.variance * shift**2
    log_likelihood = jnp.sum(each, 1) + log_det(at.scale) - 0.5 * jnp.sum(at.mean**2, 1)
    return Approximation(at, log_likelihood, sites.change <= tolerance * sites.step)


def _improved(factors: Factors, signs: Float[Array, "rows columns"], tolerance: float) -> tuple[_Sites, Gaussian]:
    """Make sweeps until all rows have settled; a row whose sweeps begin to swing goes on in shorter steps."""
    softening = jnp.where(jnp.min(factors.psi) < 0.05, SOFTENING_SWEEPS, 0)  # below, a bit is nearly a half-space

    def body(carry: tuple[Array, _Sites, Gaussian]) -> tuple[Array, _Sites, Gaussian]:
        number, sites, at = carry
        soft = jnp.where(number < softening, 0.5 ** number.astype(signs.dtype), 0.0)
        tilted = _tilt(factors, signs, at, sites.tau, sites.nu, soft)
        step = sites.step[:, None]
        tau = sites.tau + step * (tilted.tau - sites.tau)
        nu = sites.nu + step * (tilted.nu - sites.nu)
        ahead = _posterior(factors, tau, nu)
        change = _distance(at, ahead)
        shorter = (change > 0.7 * sites.change) & (number > softening + 3)
        length = jnp.where(shorter, jnp.maximum(0.7 * sites.step, 0.05), jnp.minimum(1.1 * sites.step, EP_STEP_SHARE))
        return number + 1, _Sites(tau, nu, length, change), ahead

    def going(carry: tuple[Array, _Sites, Gaussian]) -> Array:
        number, sites, _ = carry
        return (number < 150) & (jnp.any(sites.change > tolerance * sites.step) | (number <= softening))

    none = jnp.zeros_like(signs)
    rows = jnp.ones_like(signs[:, 0])
    start = _Sites(none, none, EP_STEP_SHARE * rows, jnp.inf * rows)
    q = factors.weights.shape[1]
    eye = jnp.broadcast_to(jnp.eye(q, dtype=signs.dtype), (len(signs), q, q))
    prior = Gaussian(jnp.zeros_like(eye[:, 0]), eye)
    return jax.lax.while_loop(going, body, (jnp.zeros((), jnp.int32), start, prior))[1:]


def _distance(a: Gaussian, b: Gaussian) -> Float[Array, " rows"]:
    """Return the larger of how far the mean moves, in posterior standard deviations, and by what share these change."""
    spread_a, spread_b = (jnp.sqrt(jnp.sum(g.scale**2, 2)) for g in (a, b))
    moved = jnp.max(jnp.abs(a.mean - b.mean) / spread_b, 1)
    return jnp.maximum(moved, jnp.max(jnp.abs(spread_a / spread_b - 1), 1))


def predict(factors: Factors, at: Gaussian) -> Float[Array, "rows columns"]:
    """Compute P(bit = 1) of each column where y is so distributed."""
    mean, variance = _marginals(factors, at)
    return jax.scipy.special.ndtr((factors.phi + mean) / jnp.sqrt(factors.psi + variance))


def log_density(
    factors: Factors, signs: Float[Array, "rows columns"], points: Float[Array, "rows points latents"]
) -> Float[Array, "rows points"]:
    """Compute log p(s | y) at several points of each row in turn, so that memory does not grow with them."""
    root = jnp.sqrt(factors.psi)
    scaled, offset = factors.weights / root[:, None], factors.phi / root
    seen = jnp.abs(signs)

    def one(y: Float[Array, "rows latents"]) -> Float[Array, " rows"]:
        return jnp.sum(seen * half_line(signs * (y @ scaled.T + offset)).log_mass, 1)

    return jax.lax.map(one, jnp.swapaxes(points, 0, 1)).T


def mode(
    factors: Factors, signs: Float[Array, "rows columns"], start: Float[Array, "rows latents"], n_steps: int = 20
) -> Float[Array, "rows latents"]:
    """Find the most probable y of each row (MAP), by damped Newton steps; needs noise.  The density is log-concave."""
    root = jnp.sqrt(factors.psi)
    scaled, squares = factors.weights / root[:, None], factors.squares / factors.psi[:, None]
    seen = jnp.abs(signs)
    j, k = pairs(scaled.shape[1])
    prior = jnp.asarray(j == k, signs.dtype)

    def body(_: Any, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, best, length = carry
        cut = half_line(signs * (y @ scaled.T + factors.phi / root))
        slope = (signs * cut.ratio) @ scaled - y
        step = from_precision(prior + (seen * (1 - cut.variance)) @ squares, slope)[0].mean
        candidate = y + length[:, None] * step
        new = joint(candidate)
        better = new >= best
        return (
            jnp.where(better[:, None], candidate, y),
            jnp.where(better, new, best),
            jnp.where(better, jnp.minimum(1, 2 * length), length / 4),
        )

    def joint(y: Float[Array, "rows latents"]) -> Float[Array, " rows"]:
        return log_density(factors, signs, y[:, None])[:, 0] - 0.5 * jnp.sum(y**2, 1)

    carry = (start, joint(start), jnp.ones_like(start[:, 0]))
    return jax.lax.fori_loop(0, n_steps, body, carry)[0]
