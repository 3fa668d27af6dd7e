"""Random keys on the host, where making one costs no compilation: the same keys as `jax.random` makes.

A raw key is the two words of a Threefry key.  The generator is named, so that JAX's setting of a default generator
changes no result.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, UInt32

__all__ = ["fold", "of_seed", "raw", "typed", "words"]

Raw = UInt32[np.ndarray, "2"]

GENERATOR = "threefry2x32"
WORD = 2**32 - 1  # the bits of a word


def of_seed(seed: int) -> Raw:
    """Make the key of ``jax.random.key(seed)``."""
    return np.array([seed >> 32 & WORD, seed & WORD], np.uint32)


def fold(key: Raw, number: int) -> Raw:
    """Fold a number into a key as ``jax.random.fold_in`` does: the encryption of the number by the key.

    >>> import jax
    >>> ours = fold(fold(of_seed(7), 3), 11)
    >>> theirs = jax.random.fold_in(jax.random.fold_in(jax.random.key(7, impl=GENERATOR), 3), 11)
    >>> bool((jax.random.key_data(theirs) == ours).all())
    True
    """
    return np.array(_encrypted(key, 0, number & WORD), np.uint32)


def words(key: Raw, n: int) -> tuple[UInt32[np.ndarray, " n"], UInt32[np.ndarray, " n"]]:
    """Return the first and the second word of each of n random numbers, as `jax.random` makes them of this key.

    >>> import jax
    >>> theirs = jax.random.split(jax.random.key(7, impl=GENERATOR), 3)
    >>> bool((np.stack(words(of_seed(7), 3), 1) == jax.random.key_data(theirs)).all())
    True
    """
    counts = np.arange(n, dtype=np.uint64)
    first, second = _encrypted(key, counts >> 32, counts & WORD)
    return first.astype(np.uint32), second.astype(np.uint32)


def _encrypted(key: Raw, x: Any, y: Any) -> tuple[Any, Any]:
    """Encrypt pairs of words, integers or arrays of 64 bits, by a key."""
    first, second = int(key[0]), int(key[1])
    # of Threefry-2x32 (Salmon, Moraes, Dror & Shaw 2011), as the rotations
    schedule = (first, second, first ^ second ^ 0x1BD11BDA)
    x, y = (x + first) & WORD, (y + second) & WORD
    for block in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[block % 2]:
            x = (x + y) & WORD
            y = (y << turn | y >> (32 - turn)) & WORD ^ x
        x = (x + schedule[(block + 1) % 3]) & WORD
        y = (y + schedule[(block + 2) % 3] + block + 1) & WORD
    return x, y


def raw(key: Any) -> Raw:
    """Return the words of a key; raw keys as they are."""
    if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(key))
    return np.asarray(key)


def typed(key: Any) -> Key[Array, ""]:
    """Return the key of these words, as JAX's functions want it."""
    return jax.random.wrap_key_data(key, impl=GENERATOR)
