from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr

from latentbits.core import tree
from latentbits.core.special import TINY, half_line, log1mexp, log_cosh, log_probabilities


def test_log1mexp():
    u = np.array([1e-12, 1e-6, 0.1, 0.69, 0.7, 5.0, 40.0])
    wide = u.astype(np.longdouble)  # each form where it is accurate, in extended precision
    reference = np.where(u < 1, np.log(-np.expm1(-wide)), np.log1p(-np.exp(-wide)))
    with tree.double():
        value, slope = jax.jit(jax.vmap(jax.value_and_grad(log1mexp)))(u)
    np.testing.assert_allclose(value, reference.astype(float), rtol=1e-14)
    np.testing.assert_allclose(slope, 1 / np.expm1(u), rtol=1e-12)


def test_log_cosh():
    x = np.array([-3.0, -1e-4, 0.0, 2.0, 20.0, 1e4])
    with tree.double():
        found = jax.jit(log_cosh)(x)
    np.testing.assert_allclose(found[:-1], np.log(np.cosh(x[:-1])), atol=1e-15)
    np.testing.assert_allclose(found[-1], 1e4 - np.log(2))


def test_log_probabilities_are_finite_at_the_ends():
    with tree.double():
        log_one, log_zero = jax.jit(log_probabilities)(np.array([0.0, 0.25, 1.0]))
    np.testing.assert_allclose(log_one, [np.log(TINY), np.log(0.25), 0], atol=1e-11)
    np.testing.assert_allclose(log_zero, [0, np.log(0.75), np.log(TINY)], atol=1e-3)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_half_line_keeps_its_digits_in_both_tails(dtype, digits):
    z = np.concatenate([np.linspace(-30, 8, 400), [-1e4, -300.0, 0.0, 40.0]]).astype(dtype)
    with tree.rows_in(np.dtype(dtype)):
        found = jax.jit(half_line)(z)
    z = z.astype(float)
    ratio = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
    np.testing.assert_allclose(found.log_mass, log_ndtr(z), rtol=digits, atol=1e-300)
    np.testing.assert_allclose(found.ratio, ratio, rtol=digits)
    near = z > -5  # below, the plain formula cancels and the series takes over
    np.testing.assert_allclose(found.variance[near], (1 - ratio * (z + ratio))[near], atol=30 * digits)
    far = z < -20
    series = 1 / z[far] ** 2 - 6 / z[far] ** 4 + 50 / z[far] ** 6 - 518 / z[far] ** 8
    np.testing.assert_allclose(found.variance[far], series, rtol=max(300 * digits, 1e-6))
