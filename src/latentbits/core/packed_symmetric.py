"""Small matrices, many at a time; symmetric ones packed, and factorised by operations over all of them.

A symmetric matrix is kept as its entries j <= k.  Sums over columns of ``w w'`` are then plain matrix products with a
(columns, pairs) table.  The matrices are no larger than a handful, so their factorisations are unrolled: one vector
operation over all of them per scalar operation, which no batched LAPACK call can match, least of all on a GPU.  Nor may
programs with such calls run side by side on a CPU (`core/compilation.py`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace, on_device, repeat

__all__ = ["cholesky", "inverse_factor", "log_abs_det", "pairs", "products", "solve", "unpack"]

MOST_UNROLLED_ROWS = 4  # above, unrolled code takes longer to compile than it saves


def pairs(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows j and columns k of the packed entries, j <= k.

    >>> [i.tolist() for i in pairs(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return np.triu_indices(size)


def products(x: Float[Array, "*rows size"], twice: bool = False) -> Float[Array, "*rows pairs"]:
    """x_j x_k, packed; `twice` counts both (j, k) and (k, j), so that ``packed(M) . products(x) = x' M x``."""
    j, k = pairs(x.shape[-1])
    packed = x[..., j] * x[..., k]
    return packed * namespace(x).asarray(np.where(j == k, 1, 2), x.dtype) if twice else packed


def unpack(packed: Float[Array, "*rows pairs"], size: int) -> Float[Array, "*rows size size"]:
    """Return the symmetric matrix of its packed entries."""
    where = np.zeros((size, size), int)
    j, k = pairs(size)
    where[j, k] = where[k, j] = np.arange(len(j))
    return packed[..., where]


def cholesky(packed: Float[Array, "rows pairs"]) -> Float[Array, "rows size size"]:
    """Return the lower triangular R of M = R R', nan where M is not positive definite.

    >>> bool(jnp.allclose(cholesky(jnp.array([[4.0, 2.0, 2.0]])), jnp.array([[[2, 0], [1, 1]]])))
    True
    """
    return _factors(packed)[0]


def inverse_factor(
    precision: Float[Array, "rows pairs"],
) -> tuple[Float[Array, "rows size size"], Float[Array, " rows"]]:
    """R^-1 of P = R R', lower triangular, and log det R^-1."""
    _, inverse = _factors(precision)
    xp = namespace(inverse)
    diagonal = xp.diagonal(inverse, axis1=1, axis2=2)
    if diagonal.shape[1] > MOST_UNROLLED_ROWS:
        return inverse, xp.sum(xp.log(diagonal), 1)
    product = diagonal[:, 0]
    for k in range(1, diagonal.shape[1]):
        product = product * diagonal[:, k]
    return inverse, xp.log(product)


def _factors(
    packed: Float[Array, "rows pairs"],
) -> tuple[Float[Array, "rows size size"], Float[Array, "rows size size"]]:
    """R of M = R R', and R^-1."""
    q = (int(np.sqrt(8 * packed.shape[1] + 1)) - 1) // 2
    if q > MOST_UNROLLED_ROWS or not on_device(packed):
        return _factors_by_columns(unpack(packed, q))
    entry = {(int(j), int(k)): packed[:, i] for i, (j, k) in enumerate(zip(*pairs(q)))}
    zero = jnp.zeros_like(packed[:, 0])
    upper = {(j, k): zero for k in range(q) for j in range(k)}
    factor, inverse = dict(upper), dict(upper)
    for j in range(q):
        square = entry[j, j] - sum(factor[j, m] ** 2 for m in range(j))
        inverse[j, j] = jax.lax.rsqrt(square)
        factor[j, j] = square * inverse[j, j]
        for k in range(j + 1, q):
            factor[k, j] = (entry[j, k] - sum(factor[j, m] * factor[k, m] for m in range(j))) * inverse[j, j]
    for k in range(q):
        for j in range(k + 1, q):
            inverse[j, k] = -inverse[j, j] * sum(factor[j, m] * inverse[m, k] for m in range(k, j))

    def whole(entries: dict[tuple[int, int], Array]) -> Array:
        return jnp.stack([jnp.stack([entries[j, k] for k in range(q)], 1) for j in range(q)], 1)

    return whole(factor), whole(inverse)


def _factors_by_columns(
    matrix: Float[Array, "rows size size"],
) -> tuple[Float[Array, "rows size size"], Float[Array, "rows size size"]]:
    """Factorise larger matrices in a loop: a column of R and a row of R^-1 at a time, for all matrices at once."""
    q, xp = matrix.shape[1], namespace(matrix)
    numbers = np.arange(q)

    def step(so_far: tuple[Any, Array, Array, Array]) -> tuple[Any, Array, Array, Array]:
        k, rest, factor, inverse = so_far
        scale = (1 / xp.sqrt(rest[:, k, k]))[:, None]
        column = xp.where(numbers >= k, rest[:, :, k] * scale, 0)
        row = inverse[:, k] * scale
        below = xp.where(numbers > k, column, 0)
        rest = rest - column[:, :, None] * column[:, None]
        factor = xp.where(numbers == k, column[:, :, None], factor)
        others = inverse - below[:, :, None] * row[:, None]
        return k + 1, rest, factor, xp.where((numbers == k)[:, None], row[:, None], others)

    eye = xp.broadcast_to(xp.eye(q, dtype=matrix.dtype), matrix.shape)
    return repeat(q, step, (0, matrix, xp.zeros_like(matrix), eye))[2:]


def log_abs_det(matrix: Float[Array, "rows size size"]) -> Float[Array, " rows"]:
    """Compute log |det M| of any matrices, by elimination with pivots.

    >>> bool(jnp.allclose(log_abs_det(jnp.array([[[0.0, 2.0], [-4.0, 1.0]]])), jnp.log(8)))
    True
    """
    n, q, _ = matrix.shape

    def step(k: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rest, free, total = so_far
        column = rest[:, :, k]
        pivot = jax.nn.one_hot(jnp.argmax(jnp.where(free, jnp.abs(column), -1), 1), q, dtype=bool)
        value = jnp.sum(jnp.where(pivot, column, 0), 1)
        row = jnp.sum(jnp.where(pivot[:, :, None], rest, 0), 1)
        free = free & ~pivot
        share = jnp.where(free & (column != 0), column / value[:, None], 0)
        return rest - share[:, :, None] * row[:, None], free, total + jnp.log(jnp.abs(value))

    begin = matrix, jnp.ones((n, q), bool), jnp.zeros(n, matrix.dtype)
    return jax.lax.fori_loop(0, q, step, begin)[2]


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

    if not on_device(packed, right):
        host: Any = np
        return host.linalg.solve(unpack(packed, right.shape[1]), right[..., None])[..., 0]
    return jax.lax.platform_dependent(packed, right, cpu=lapack, default=unrolled)
