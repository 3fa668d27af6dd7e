"""Numbers of rows beyond 2^32, and their keys."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from latentbits.core.batch import make_batch
from latentbits.engines.chunks import Chunk
from latentbits.engines.passes import _rows_of

FLOAT32 = np.dtype(np.float32)
WORD = 2**32


@jax.jit
def made(*given):
    batch = make_batch(*given, True, FLOAT32)
    return batch, jax.random.key_data(batch.keys)


def batch_at(first_row, n=16):
    chunk = Chunk(np.ones((n, 3), np.uint8), 0, first_row, n, True, True, None, True)
    key = jax.random.key(0, impl="threefry2x32")
    return made(*_rows_of(chunk), key)


def words(first_row, n=16):
    return np.asarray(batch_at(first_row, n)[1])


def numbers(batch):
    high = 0 if batch.high is None else np.asarray(batch.high, np.int64)
    return (high * WORD + np.asarray(batch.rows, np.int64)).tolist()


@pytest.mark.parametrize("first", [0, WORD - 16, WORD - 3, WORD, 3 * WORD - 1, 2**40 + 7])
def test_numbers_of_rows(first):
    assert numbers(batch_at(first)[0]) == list(range(first, first + 16))


def test_keys_beyond_the_first_word():
    low, beyond, further = (words(first) for first in (5, WORD + 5, 2 * WORD + 5))
    assert len(np.unique(np.concatenate([low, beyond, further]), axis=0)) == 48
    # nor are they those that a model folds from the keys of row 1
    fold = jax.jit(lambda row: jax.random.key_data(jax.vmap(jax.random.fold_in, (None, 0))(row, np.arange(64))))
    of_row_1 = fold(jax.random.wrap_key_data(words(1)[0], impl="threefry2x32"))
    both = np.concatenate([np.asarray(of_row_1), words(WORD, 64)])
    assert len(np.unique(both, axis=0)) == 128


def test_a_chunk_that_reaches_over_the_word():
    """Its rows have the keys that they have in chunks cut elsewhere."""
    over = words(WORD - 7)
    np.testing.assert_array_equal(over[:7], words(WORD - 16)[-7:])
    np.testing.assert_array_equal(over[7:], words(WORD)[:9])
