"""One small Gaussian per row: its mean, its scale, and the symmetric matrices between them.

Symmetric matrices are packed, one entry for every pair j <= k, so that sums over columns of ``w w'`` are plain matrix
products with a (columns, pairs) table.  The matrices have the size of the latent space, so their factorisations are
unrolled: one vector operation over all rows per scalar operation, which a batched LAPACK call cannot match.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["Gaussian", "from_precision", "moments", "pairs", "products", "unpack"]

UNROLLED = 8  # latent dimensions; above, unrolled code takes long to compile


class Gaussian(eqx.Module):
    """A Gaussian in latent space for each row: covariance = scale scale'."""

    mean: Float[Array, "rows latents"]
    scale: Float[Array, "rows latents latents"]

    @property
    def covariance(self) -> Float[Array, "rows latents latents"]:
        """The covariance, spelled out."""
        return jnp.einsum("nij,nkj->nik", self.scale, self.scale)

    def moved(self, matrix: Float[Array, "latents latents"], shift: Float[Array, " latents"]) -> Gaussian:
        """The same distribution in the coordinates x' = (x - shift) @ matrix."""
        return Gaussian((self.mean - shift) @ matrix, jnp.einsum("ji,njk->nik", matrix, self.scale))


def pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows j and columns k of the packed entries, j <= k.

    >>> [i.tolist() for i in pairs(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return np.triu_indices(size)


def products(x: Float[Array, "*rows size"], twice: bool = False) -> Float[Array, "*rows pairs"]:
    """x_j x_k, packed; `twice` counts both (j, k) and (k, j), so that ``packed(M) . products(x) = x' M x``."""
    j, k = pairs(x.shape[-1])
    packed = x[..., j] * x[..., k]
    return packed * jnp.asarray(np.where(j == k, 1, 2), x.dtype) if twice else packed


def unpack(packed: Float[Array, "*rows pairs"], size: int) -> Float[Array, "*rows size size"]:
    """The symmetric matrix of its packed entries."""
    where = np.zeros((size, size), int)
    j, k = pairs(size)
    where[j, k] = where[k, j] = np.arange(len(j))
    return packed[..., where]


def from_precision(
    precision: Float[Array, "rows pairs"], linear: Float[Array, "rows latents"]
) -> tuple[Gaussian, Float[Array, " rows"]]:
    """The Gaussian exp(-x' P x / 2 + linear . x), normalised, and the log of its integral over (2 pi)^(q/2).

    With the prior N(0, I) inside P, that log is what the integral of eq. 4 contributes beside the constants.
    """
    q = linear.shape[1]
    inverse, log_det = _inverse_factor(precision, q)
    half = jnp.einsum("nij,nj->ni", inverse, linear)
    mean = jnp.einsum("nij,ni->nj", inverse, half)
    return Gaussian(mean, jnp.swapaxes(inverse, 1, 2)), log_det + 0.5 * jnp.sum(half**2, 1)


def _inverse_factor(
    precision: Float[Array, "rows pairs"], q: int
) -> tuple[Float[Array, "rows q q"], Float[Array, " rows"]]:
    """R^-1 of P = R R', lower triangular, and log det R^-1."""
    if q > UNROLLED:
        factor = jnp.linalg.cholesky(unpack(precision, q))
        eye = jnp.broadcast_to(jnp.eye(q, dtype=precision.dtype), factor.shape)
        inverse = jax.scipy.linalg.solve_triangular(factor, eye, lower=True)
        return inverse, jnp.sum(jnp.log(jnp.diagonal(inverse, axis1=1, axis2=2)), 1)
    entry = {(int(j), int(k)): precision[:, i] for i, (j, k) in enumerate(zip(*pairs(q)))}
    factor_of: dict[tuple[int, int], Array] = {}
    inverse_diagonal = []
    for j in range(q):
        square = entry[j, j] - sum(factor_of[j, m] ** 2 for m in range(j))
        inverse_diagonal.append(jax.lax.rsqrt(square))
        for k in range(j + 1, q):
            rest = entry[j, k] - sum(factor_of[j, m] * factor_of[k, m] for m in range(j))
            factor_of[k, j] = rest * inverse_diagonal[j]
    zero = jnp.zeros_like(precision[:, 0])
    lower = {(j, k): zero for j in range(q) for k in range(q)}
    for k in range(q):
        lower[k, k] = inverse_diagonal[k]
        for j in range(k + 1, q):
            lower[j, k] = -inverse_diagonal[j] * sum(factor_of[j, m] * lower[m, k] for m in range(k, j))
    inverse = jnp.stack([jnp.stack([lower[j, k] for k in range(q)], 1) for j in range(q)], 1)
    product = inverse_diagonal[0]
    for factor in inverse_diagonal[1:]:
        product = product * factor
    return inverse, jnp.log(product)


def moments(
    mean: Float[Array, "rows latents"], covariance: Float[Array, "rows latents latents"]
) -> Float[Array, "rows pairs"]:
    """<x^ x^'> of eq. 12, packed, with x^ = (x, 1).  The last `latents + 1` of the pairs with 1 are <x^> itself."""
    n, q = mean.shape
    extended = jnp.concatenate([mean, jnp.ones((n, 1), mean.dtype)], 1)
    j, k = pairs(q + 1)
    inner = np.flatnonzero(k < q)
    return products(extended).at[:, inner].add(covariance[:, j[inner], k[inner]])
