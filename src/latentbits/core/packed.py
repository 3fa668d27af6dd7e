"""Small symmetric matrices, many at a time, packed and unrolled.

A symmetric matrix is kept as its entries j <= k.  Sums over columns of ``w w'`` are then plain matrix products with a
(columns, pairs) table.  The matrices are no larger than a handful, so their factorisations are unrolled: one vector
operation over all of them per scalar operation, which no batched LAPACK call can match, least of all on a GPU.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["inverse_factor", "pairs", "products", "solve", "unpack"]

UNROLLED = 8  # rows; above, unrolled code takes long to compile


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


def inverse_factor(
    precision: Float[Array, "rows pairs"],
) -> tuple[Float[Array, "rows size size"], Float[Array, " rows"]]:
    """R^-1 of P = R R', lower triangular, and log det R^-1."""
    q = (int(np.sqrt(8 * precision.shape[1] + 1)) - 1) // 2
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


def solve(packed: Float[Array, "rows pairs"], right: Float[Array, "rows size"]) -> Float[Array, "rows size"]:
    """M^-1 right for positive definite M, where there are not many.

    On a CPU by LAPACK, which needs no compilation; on a GPU, where its calls are slow to start, unrolled.
    """

    def unrolled(packed: Array, right: Array) -> Array:
        inverse, _ = inverse_factor(packed)
        return jnp.einsum("nij,ni->nj", inverse, jnp.einsum("nij,nj->ni", inverse, right))

    def lapack(packed: Array, right: Array) -> Array:
        factor = jax.scipy.linalg.cho_factor(unpack(packed, right.shape[1]), lower=True)
        return jax.scipy.linalg.cho_solve(factor, right[..., None])[..., 0]

    return jax.lax.platform_dependent(packed, right, cpu=lapack, default=unrolled)
