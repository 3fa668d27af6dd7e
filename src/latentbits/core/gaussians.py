"""One small Gaussian per row: its mean, its scale, its moments.  Precisions are packed: `core/packed_symmetric.py`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import inverse_factor, pairs, products

__all__ = ["Gaussian", "from_precision", "moments"]


class Gaussian(Module):
    """A Gaussian in latent space for each row: covariance = scale scale'."""

    mean: Float[Array, "rows latents"]
    scale: Float[Array, "rows latents latents"]

    @property
    def covariance(self) -> Float[Array, "rows latents latents"]:
        """The covariance, spelled out."""
        return jnp.einsum("nij,nkj->nik", self.scale, self.scale)

    def moved(self, matrix: Float[Array, "latents latents"], shift: Float[Array, " latents"]) -> Gaussian:
        """Return the same distribution in the coordinates x' = (x - shift) @ matrix."""
        return Gaussian((self.mean - shift) @ matrix, jnp.einsum("ji,njk->nik", matrix, self.scale))


def from_precision(
    precision: Float[Array, "rows pairs"], linear: Float[Array, "rows latents"]
) -> tuple[Gaussian, Float[Array, " rows"]]:
    """Return the Gaussian exp(-x' P x / 2 + linear . x), normalised, and the log of its integral over (2 pi)^(q/2).

    With the prior N(0, I) inside P, that log is what the integral of eq. 4 contributes beside the constants.
    """
    inverse, log_det = inverse_factor(precision)
    half = jnp.einsum("nij,nj->ni", inverse, linear)
    mean = jnp.einsum("nij,ni->nj", inverse, half)
    return Gaussian(mean, jnp.swapaxes(inverse, 1, 2)), log_det + 0.5 * jnp.sum(half**2, 1)


def moments(
    mean: Float[Array, "rows latents"], covariance: Float[Array, "rows latents latents"]
) -> Float[Array, "rows pairs"]:
    """<x^ x^'> of eq. 12, packed, with x^ = (x, 1).  The last `latents + 1` of the pairs with 1 are <x^> itself."""
    n, q = mean.shape
    extended = jnp.concatenate([mean, jnp.ones((n, 1), mean.dtype)], 1)
    j, k = pairs(q + 1)
    inner = np.flatnonzero(k < q)
    return products(extended).at[:, inner].add(covariance[:, j[inner], k[inner]])
