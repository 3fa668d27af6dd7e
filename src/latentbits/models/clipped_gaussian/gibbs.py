"""Exact draws of the hidden variables of a row, where columns have noise.

Given y, the Gaussian x_i behind each bit is cut at its sign; given all x, y is Gaussian, with one covariance for all
rows (Albert & Chib 1993).  Missing bits are drawn without a cut, which keeps that so.  For clipping without noise see
`cell_probability.gibbs`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.models.clipped_gaussian.expectation import Factors

__all__ = ["gibbs"]


def gibbs(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    start: Float[Array, "rows latents"],
    keys: Key[Array, " rows"],
    n_samples: int,
    n_between: int,
    n_forget: int,
) -> Float[Array, "rows samples latents"]:
    """Draw y given each row: `n_forget` sweeps to forget the start, then a draw every `n_between`."""
    root = jnp.sqrt(factors.psi)
    scaled = factors.weights / factors.psi[:, None]
    precision = jnp.eye(start.shape[1], dtype=signs.dtype) + factors.weights.T @ scaled
    covariance = jnp.linalg.inv(precision)
    factor = jnp.linalg.cholesky(covariance)
    tiny = jnp.finfo(signs.dtype).tiny

    def row(s: Array, y: Array, key: Array) -> Array:
        def sweep(y: Array, key: Array) -> tuple[Array, Array]:
            cut, hidden = jax.random.split(key)
            centre = factors.phi + factors.weights @ y
            u = jax.random.uniform(cut, s.shape, s.dtype, minval=tiny)
            # above -z a Gaussian is -ndtri(u Phi(z)), which keeps its digits in the tail
            mass = jax.scipy.special.ndtr(s * centre / root)
            away = -jax.scipy.special.ndtri(jnp.maximum(u * mass, tiny))
            x = centre + root * jnp.where(s == 0, jax.scipy.special.ndtri(u), s * away)
            noise = jax.random.normal(hidden, y.shape, y.dtype)
            return covariance @ (scaled.T @ (x - factors.phi)) + factor @ noise, y

        def draw(y: Array, key: Array) -> tuple[Array, Array]:
            y, _ = jax.lax.scan(sweep, y, jax.random.split(key, n_between))
            return y, y

        forget, keep = jax.random.split(key)
        y, _ = jax.lax.scan(sweep, y, jax.random.split(forget, n_forget))
        return jax.lax.scan(draw, y, jax.random.split(keep, n_samples))[1]

    return jax.vmap(row)(signs, start, keys)
