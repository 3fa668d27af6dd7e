from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core import tree
from latentbits.core.batch import make_batch, row_keys

sum_rows = jax.jit(tree.sum_rows)


@pytest.mark.parametrize(("n", "dtype"), [(7, np.float32), (65536, np.float32), (4096, np.float64)])
def test_sum_rows_is_far_better_than_a_plain_sum(n, dtype):
    """An absolute error of a few ulp of one row, however many rows there are and whatever their scale."""
    rng = np.random.default_rng(n)
    for scale in np.geomspace(0.01, 1000, 6):
        x = (-scale * (1 + 0.3 * rng.normal(size=n))).astype(dtype)
        with tree.rows_in(np.dtype(dtype)):
            pair = np.asarray(sum_rows(np.ones(n, dtype), x), np.float64)
        error = math.fsum([*pair, *(-x.astype(np.float64))])
        assert abs(error) <= 4 * np.spacing(np.abs(x).max())


@pytest.mark.parametrize(("scale", "rtol"), [(1e-36, 1e-2), (1e-30, 1e-6), (1e30, 1e-6)])
def test_sum_rows_at_the_ends_of_float32(scale, rtol):
    x = np.full(256, scale, np.float32)
    pair = np.asarray(sum_rows(np.ones(256, np.float32), x), np.float64)
    np.testing.assert_allclose(pair.sum(), 256 * np.float64(np.float32(scale)), rtol=rtol)


def test_sum_rows_leaves_padding_out_even_if_it_is_nan():
    pair = sum_rows(np.array([1, 0, 1], np.float32), np.array([1.5, np.nan, 2.0], np.float32))
    assert float(np.sum(pair)) == 3.5
    assert float(np.sum(sum_rows(np.zeros(3, np.float32), np.ones(3, np.float32)))) == 0  # of nothing


def test_totals_are_double_whatever_the_global_setting():
    with tree.rows_in(np.dtype(np.float32)):
        part = {"x": jnp.ones(3), "n": jnp.arange(3, dtype=jnp.int32)}
        assert part["x"].dtype == jnp.float32
    with tree.double():
        total = tree.add(tree.widen(part), part)
    assert total["x"].dtype == jnp.float64
    assert total["n"].dtype == jnp.int64
    np.testing.assert_array_equal(total["x"], 2)


def test_statistics_that_do_not_add_are_refused():
    with tree.double(), pytest.raises(TypeError, match="must hold numbers that add"):
        tree.widen({"flag": jnp.ones(2, bool)})


def test_row_keys_depend_on_the_global_number_alone():
    key = jax.random.key(0)
    whole = jax.random.key_data(row_keys(key, jnp.arange(10, dtype=jnp.uint32)))
    part = jax.random.key_data(row_keys(key, jnp.arange(4, 7, dtype=jnp.uint32)))
    np.testing.assert_array_equal(whole[4:7], part)
    assert len({tuple(k) for k in whole.tolist()}) == 10


@pytest.mark.parametrize(("raw", "hole"), [(np.uint8, 255), (np.float32, np.nan)])
def test_a_batch_knows_its_holes_and_its_padding(raw, hole):
    table = jnp.asarray(np.array([[1, hole], [0, 1], [0, 0]], raw))
    batch = make_batch(table, jnp.uint32(5), jnp.uint32(2), jax.random.key(0), False, np.dtype(np.float32))
    np.testing.assert_array_equal(batch.values, [[1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(batch.observed[:2], [[1, 0], [1, 1]])
    np.testing.assert_array_equal(batch.weight, [1, 1, 0])
    np.testing.assert_array_equal(batch.rows, [5, 6, 7])
