"""One text for two kinds of arrays: NumPy's on the host, JAX's inside compiled programs.

Arithmetic on parameters and sums takes microseconds in NumPy and seconds to compile.  Functions of a model that says so
(`Model.on_host`) call `namespace`, and run on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import scipy.linalg
from scipy.special import erfinv

from latentbits.core import keys

if TYPE_CHECKING:
    from jaxtyping import Array
else:
    Array = jax.Array | np.ndarray | np.generic

__all__ = [
    "AnyKey",
    "Array",
    "categorical",
    "cholesky",
    "each",
    "eigh",
    "fold_in",
    "integers",
    "namespace",
    "normal",
    "on_device",
    "pick",
    "put",
    "repeat",
    "solve_triangular",
    "split",
    "times",
    "uniform",
]

T = TypeVar("T")

AnyKey: TypeAlias = Any  # a key of JAX in a program, its two words on the host


def on_device(*trees: Any) -> bool:
    """Whether any leaf is an array of JAX: traced by a program, or on a device."""
    return any(isinstance(x, jax.Array) for x in jax.tree.leaves(trees))


def namespace(*trees: Any) -> Any:
    """Return `jax.numpy` where a leaf is an array of JAX, and NumPy elsewhere.

    >>> namespace(np.ones(3)).__name__, namespace(np.ones(3), jnp.ones(3)).__name__
    ('numpy', 'jax.numpy')
    """
    return jnp if on_device(*trees) else np


def cholesky(matrix: Any) -> Any:
    """Return the lower factor of a symmetric matrix; nan where it is not positive definite, as JAX does."""
    try:
        return namespace(matrix).linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Return eigenvalues and eigenvectors of a symmetric matrix; nan where they cannot be found, as JAX does."""
    try:
        values, vectors = namespace(matrix).linalg.eigh(matrix)
    except np.linalg.LinAlgError:
        if matrix.ndim > 2:
            return each(eigh, matrix)  # those that can be found
        return np.full(len(matrix), np.nan), np.full_like(matrix, np.nan)
    return values, vectors


def solve_triangular(factor: Any, right: Any, lower: bool = False, trans: int = 0) -> Any:
    """Solve a triangular system."""
    if on_device(factor, right):
        return jax.scipy.linalg.solve_triangular(factor, right, lower=lower, trans=trans)
    host: Any = scipy.linalg
    return host.solve_triangular(factor, right, lower=lower, trans=trans, check_finite=False)


def times(rows: Any, table: Any) -> Any:
    """Return ``rows @ table``; in NumPy columns are contiguous, over a few of which it reduces twice as fast."""
    return rows @ table if on_device(rows, table) else (table.T @ rows.T).T


def pick(condition: Any, then: T, otherwise: T) -> T:
    """Choose one of two trees of the same structure; for each item where conditions and leaves have axes in front."""
    xp = namespace(condition, then, otherwise)
    if xp is np and np.ndim(condition) == 0:
        return then if condition else otherwise

    def leaf(a: Any, b: Any) -> Any:
        return xp.where(xp.expand_dims(condition, tuple(range(xp.ndim(condition), xp.ndim(a)))), a, b)

    return jax.tree.map(leaf, then, otherwise)


def put(x: Any, where: Any, values: Any) -> Any:
    """Return an array with other values in some places."""
    if on_device(x, where, values):
        return jnp.asarray(x).at[where].set(values)
    x = np.array(x)
    x[where] = values
    return x


def each(function: Callable[..., T], *stacked: Any) -> T:
    """Map a function over the first axis: in a program all at once, on the host one after the other."""
    if on_device(stacked):
        return jax.vmap(function)(*stacked)
    leaves, structure = jax.tree.flatten(stacked)
    rows = [function(*jax.tree.unflatten(structure, row)) for row in zip(*leaves, strict=True)]
    return jax.tree.map(lambda *parts: np.stack(parts), *rows)


def repeat(n: int, function: Callable[[T], T], begin: T) -> T:
    """Apply a function n times, to its own value from the second time on."""
    if on_device(begin):
        return jax.lax.fori_loop(0, n, lambda _, at: function(at), begin)
    for _ in range(n):
        begin = function(begin)
    return begin


# ---------------------------------------------------------------- random numbers, the same on both sides


def _typed(key: Any) -> bool:
    return bool(jnp.issubdtype(key.dtype, jax.dtypes.prng_key))


def fold_in(key: Any, number: Any) -> Any:
    """Fold a number into a key."""
    return jax.random.fold_in(key, number) if _typed(key) else keys.fold(key, int(number))


def split(key: Any, n: int = 2) -> Any:
    """Make several keys of one."""
    return jax.random.split(key, n) if _typed(key) else np.stack(keys.words(key, n), 1)


def uniform(key: Any, shape: tuple[int, ...] = (), low: Any = 0.0, high: Any = 1.0) -> Any:
    """Draw float64 numbers from `low` on and below `high`.

    >>> with jax.enable_x64(True):
    ...     theirs = np.asarray(jax.random.uniform(keys.typed(keys.of_seed(3)), (2, 5), minval=-1.0))
    >>> bool((uniform(keys.of_seed(3), (2, 5), -1.0) == theirs).all())
    True
    """
    if _typed(key):
        return jax.random.uniform(key, shape, minval=low, maxval=high)
    first, second = keys.words(key, math.prod(shape))
    bits = first.astype(np.uint64) << np.uint64(32) | second
    one_to_two = (bits >> np.uint64(12) | np.uint64(0x3FF0000000000000)).view(np.float64)
    return np.maximum(low, (one_to_two.reshape(shape) - 1) * (high - low) + low)


def integers(key: Any, shape: tuple[int, ...], n: Any) -> Any:
    """Draw whole numbers below n, at most 2^32 - 1, as words of 32 bits.

    >>> with jax.enable_x64(True):
    ...     theirs = jax.random.randint(keys.typed(keys.of_seed(3)), (5,), 0, 1797, np.uint32)
    >>> bool((integers(keys.of_seed(3), (5,), 1797) == np.asarray(theirs)).all())
    True
    """
    if _typed(key):
        return jax.random.randint(key, shape, 0, n, np.uint32)
    high, low = (np.bitwise_xor(*keys.words(one, math.prod(shape))).astype(np.uint64) for one in split(key))
    n = np.uint64(n)
    found = (high % n * (np.uint64(2**16) % n * (np.uint64(2**16) % n) % n) + low % n) % 2**32 % n
    return found.astype(np.uint32).reshape(shape)


def normal(key: Any, shape: tuple[int, ...] = ()) -> Any:
    """Draw float64 numbers from the standard Gaussian."""
    if _typed(key):
        return jax.random.normal(key, shape)
    return np.sqrt(2) * erfinv(uniform(key, shape, np.nextafter(-1.0, 0.0), 1.0))


def categorical(key: Any, logits: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Draw numbers of categories by their log-probabilities, of the last axis."""
    if _typed(key):
        return jax.random.categorical(key, logits, shape=shape)
    shape = logits.shape[:-1] if shape is None else shape
    noise = -np.log(-np.log(uniform(key, (*shape, logits.shape[-1]), np.finfo(float).tiny, 1.0)))
    return np.argmax(noise + logits, axis=-1)
