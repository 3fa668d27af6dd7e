"""Which units are idle, and what they are put to."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.models.noisy_or import reseed_units, tuning

idle_units, renew = jax.jit(reseed_units.idle_units), jax.jit(reseed_units.renew)


def single(*arrays):
    return tuple(jnp.asarray(np.asarray(a, np.float32)) for a in arrays)


def test_a_unit_without_work_starts_from_the_rows_that_are_least_probable():
    weights = np.array([[2.0, 2.0, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5]])  # the second is a bias
    odd = [0.0, 0.1, 0.0, 0.9, 1.0, 0.8]
    args = single([0.1, 0.2], [1e4, 1e4], odd, 2000.0, 20000.0)
    run = jax.jit(reseed_units.from_odd_rows)
    new, bias, chosen = map(np.asarray, run(*single(weights), *args))
    assert chosen.tolist() == [False, True]
    np.testing.assert_allclose(-np.expm1(-new[1]), [0.05, 0.1, 0.05, 0.9, 0.95, 0.8], rtol=1e-5)
    np.testing.assert_allclose(-np.expm1(-bias[1]), 3 / 2000, rtol=1e-5)
    np.testing.assert_array_equal(new[0], weights[0])
    assert not np.asarray(run(*single(weights[:, ::-1] + weights), *args)[2]).any()  # all have something to do


def test_a_unit_that_stands_for_two_causes_is_split():
    """Children 0, 1 and 2, 3 are on in turn: the halves are the two causes, and an idle unit takes one of them."""
    seen = np.full((3, 4), 100.0)
    credit = np.array([[50.0] * 4, [90.0, 10, 10, 90], [0.0] * 4])
    pivot_seen = np.array([[50.0] * 4, [90.0] * 4, [0.0] * 4])
    pivot_credit = np.array([[50.0, 50, 0, 0], [90.0, 9, 9, 81], [0.0] * 4])
    counted = single(seen, credit, pivot_seen, pivot_credit)
    gain, first, second = jax.jit(reseed_units.split_gain)(*counted, jnp.asarray(np.zeros(3, np.int32)))
    # three children whose entropy of log 2 is gone; those of the second unit do not depend on its pivot
    np.testing.assert_allclose(gain, [3 * np.log(2), 0, 0], atol=1e-5)
    idle = jnp.asarray(np.array([False, False, True]))
    given = single(credit / 100, [0.5, 0.7, 0.2])
    weights, bias = renew(jax.random.key(0), *given, idle, gain, (first, second), *single(np.ones(4)))
    strong = -np.log1p(-0.95)
    np.testing.assert_allclose(weights[2], [strong, strong, 0, 0], atol=1e-5)
    np.testing.assert_allclose(weights[0], [0, 0, strong, strong], atol=1e-5)
    np.testing.assert_allclose(weights[1], credit[1] / 100, atol=1e-6)
    half = -np.expm1(-0.5) / 2
    np.testing.assert_allclose(-np.expm1(-np.asarray(bias)), [half, -np.expm1(-0.7), half], atol=1e-6)


def test_an_idle_unit_that_finds_nothing_to_split_starts_again():
    """With weights to what is left to the biases."""
    weights, bias, gain = single(np.full((3, 4), 2.0), [0.5, 0.0, 0.4], [0.01, 5.0, 0.01])
    halves = single(np.ones((3, 4)), np.zeros((3, 4)))
    idle = jnp.asarray(np.array([False, True, False]))
    unexplained = single([0.0, 0.5, 1.0, 1.0])
    weights, bias = map(np.asarray, renew(jax.random.key(1), weights, bias, idle, gain, halves, *unexplained))
    np.testing.assert_allclose(weights[[0, 2]], 2.0)
    assert weights[1, 0] == 0
    assert 0.025 <= weights[1, 1] <= 0.075
    assert (weights[1, 2:] >= 0.05).all()
    assert (weights[1, 2:] <= 0.15).all()
    np.testing.assert_allclose(bias, [0.5, tuning.FRESH_BIAS, 0.4])


def test_weak_units_duplicates_and_units_for_causes_that_have_units_are_idle():
    """Of those that are alike, the best stays; one that is like a weak one stays too."""
    f = [[0.9, 0.9, 0, 0, 0], [0.8, 0.9, 0.1, 0, 0], [0, 0.1, 0.9, 0, 0], [0, 0.1, 0.8, 0, 0]]
    idle, inside = idle_units(*single(f, [50.0, 80.0, 30.0, 9.0]))
    assert idle.tolist() == [True, False, False, True]
    assert not np.asarray(inside).any()
    # A and B together, A, B, and one that has B and more
    f = [[0.9, 0.9, 0.9, 0.9, 0.0], [0.9, 0.8, 0, 0, 0], [0, 0, 0.9, 0.8, 0], [0, 0, 0.9, 0.9, 0.9]]
    idle, inside = idle_units(*single(f, np.full(4, 50.0)))
    assert idle.tolist() == [True, False, False, False]
    assert np.argwhere(inside).tolist() == [[2, 3]]


@pytest.mark.parametrize("unexplained", [0.0, 0.3])
def test_a_part_is_taken_from_a_whole_whose_rest_nothing_explains(unexplained):
    f, left = single([[0.9, 0.9, 0.9, 0.9], [0, 0, 0.9, 0.8]], [unexplained, unexplained, 0, 0])
    inside = jnp.asarray(np.array([[False, False], [True, False]]))
    rest, called_for = jax.jit(reseed_units.without_parts)(f, inside, left)
    assert called_for.tolist() == [unexplained > 0, False]
    np.testing.assert_allclose(rest[0], [0.9, 0.9, 0.09, 0.18], rtol=1e-5)


def test_pivots_are_children_in_doubt():
    f = single(np.tile([[1.0, 0.5, 0.0, 0.5]], (400, 1)))
    counts = np.bincount(jax.jit(reseed_units.choose_pivots)(jax.random.key(0), *f), minlength=4)
    assert counts[[1, 3]].sum() == 400
    assert abs(counts[1] - 200) < 50  # five standard deviations
