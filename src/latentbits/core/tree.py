"""Adding, widening and casting pytrees, and the precision each kind of number lives in.

Rows are computed in float32, or in float64 where that would lose too much (`estimators/base.py`); everything that is
not a row, that is parameters, shared quantities, totals over chunks and small solves, is float64.  JAX only has float64
inside ``enable_x64``; the two contexts below are the only places that say so, and leave the user's own setting alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.core.deterministic_sums import sum_over_rows

__all__ = ["add", "added", "cast", "double", "rounding", "rows_in", "strong", "sum_rows", "to_numpy", "widen"]

T = TypeVar("T")


# Products are taken in full precision: a GPU would round their factors to 10 bits (TF32), which is wrong in the fourth
# digit of a log-likelihood.  A model for which that is good enough says so at the product itself.


@contextmanager
def double() -> Iterator[None]:
    """Context in which float64 exists: for parameters, totals and small solves."""
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@contextmanager
def rows_in(dtype: np.dtype) -> Iterator[None]:
    """Context in which rows of this dtype are computed, whatever the user's global settings are."""
    with jax.enable_x64(dtype == np.float64), jax.default_matmul_precision("highest"):
        yield


def rounding(n_terms: int, dtype: np.dtype) -> float:
    """Estimate the rounding error of a sum of terms of one sign, relative to the sum.

    Measured, since it depends on how a device splits a sum: log-likelihoods of rows of 300 to 30 000 bits under
    products and mixtures, in float32 on a CPU, are off by 0.1 to 3 times this, and often all to the same side.
    """
    return float(np.finfo(dtype).eps) * max(1.0, math.sqrt(n_terms) / 8)


def cast(tree: T, dtype: np.dtype) -> T:
    """Cast floating-point leaves as `dtype`; integers, booleans and keys as they are."""

    def leaf(x: Array) -> Array:
        return x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(leaf, tree)


def widen(tree: T) -> T:
    """Widen leaves as totals can hold them: float64, and int64 for counts."""
    return jax.tree.map(lambda x: x.astype(_wide(x.dtype)), tree)


def _wide(dtype: Any) -> np.dtype:
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64)
    if jnp.issubdtype(dtype, jnp.integer):
        return np.dtype(np.int64)
    raise TypeError(f"Stats must hold numbers that add; found a leaf of dtype {dtype}")


def add(total: T, part: T) -> T:
    """Compute leafwise ``total + part`` in the precision of the total."""
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), total, part)


def added(total: T, part: T) -> T:
    """Add two trees on the host in float64; a total that this function has made is changed in place.

    A program on the device would cost more to call than statistics take to add.
    """
    total, part = jax.device_get((total, part))  # all leaves in one go

    def leaf(a: Any, b: Any) -> np.ndarray:
        b = np.asarray(b)
        wide = _wide(b.dtype)
        if not (isinstance(a, np.ndarray) and a.dtype == wide and a.flags.writeable):
            a = np.array(a, wide)
        np.add(a, b, out=a)
        return a

    return jax.tree.map(leaf, total, part)


def summed(stacked: T) -> T:
    """Sum over the first axis, of a power of two, as `added` adds pairs, and pairs of pairs; inside a program."""
    with jax.enable_x64(True):
        total = widen(stacked)
        while jax.tree.leaves(total)[0].shape[0] > 1:
            total = jax.tree.map(lambda x: x[0::2] + x[1::2], total)
        return jax.tree.map(lambda x: x[0], total)


def strong(tree: T, to_device: bool = True) -> T:
    """Make floats float64, and put a tree on the device without JAX's weak types, which would compile all twice."""

    def leaf(x: Any) -> Any:
        if _is_key(x):
            return x
        values = np.asarray(x)
        values = values.astype(np.float64) if values.dtype.kind == "f" else values
        return jax.device_put(values) if to_device else values  # not jnp.asarray, which compiles one for each shape

    return jax.tree.map(leaf, tree)


def _is_key(x: Any) -> bool:
    return hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def to_numpy(tree: T) -> T:
    """Return the same tree with NumPy leaves: what outlives a fit holds no device memory."""
    return jax.tree.map(np.asarray, tree)


def sum_rows(weight: Float[Array, " rows"], x: Float[Array, " rows"]) -> Float[Array, "2"]:
    """Sum of ``weight * x`` over the rows of a chunk as an unevaluated pair; its float64 ``.sum()`` is the total.

    A row's log-likelihood is a large number whose changes are small: a plain float32 sum would drown what the
    stopping rule looks at.  So every term is cut at a power of two, coarse enough that the sum of the upper parts is
    exact; the lower parts then add up to something small, rounding and all.  Padding may hold NaN and counts nothing.

    >>> import jax.numpy as jnp, numpy as np
    >>> x = jnp.full(4096, 0.1, jnp.float32)
    >>> pair = np.asarray(sum_rows(jnp.ones(4096), x), np.float64)
    >>> bool(abs(pair.sum() - 4096 * np.float64(np.float32(0.1))) < 1e-6)
    True
    """
    xp = namespace(weight, x)
    terms = xp.where(weight > 0, weight * x, 0)
    digits = jnp.finfo(terms.dtype).nmant
    _, exponent = xp.frexp(xp.max(xp.abs(terms)))  # frexp and ldexp: exp2 of an integer is not always a power of two
    quantum = xp.ldexp(xp.ones((), terms.dtype), exponent + (terms.shape[0] - 1).bit_length() - digits)
    quantum = xp.maximum(quantum, jnp.finfo(terms.dtype).tiny)
    upper = xp.round(terms / quantum) * quantum
    return xp.stack([xp.sum(upper), sum_over_rows(terms - upper)])
