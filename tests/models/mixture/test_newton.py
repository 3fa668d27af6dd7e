"""Gradient and information of mixtures, in coordinates without borders, against automatic derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from tests.models.mixture import twin
from tests.models.steps import batch_of
from tests.tables import as_bytes, as_floats, classes

from latentbits.core.tree import cast, double, to_numpy, widen
from latentbits.models.mixture import coordinates, newton
from latentbits.models.mixture import model as mixture

MODEL = mixture.model(3, by_newton=True)


@jax.jit
def derivatives(at, X):
    """Differentiate the log-likelihood of coordinates, a plain sum over rows; NaN is missing."""

    def log_likelihood(at):
        p = coordinates.params_at(at.reshape(3, -1))
        terms = jnp.where(X[:, None] == 1, jnp.log(p.means), jnp.log1p(-p.means))
        terms = jnp.where(jnp.isnan(X)[:, None], 0, terms)
        return jnp.sum(jax.nn.logsumexp(terms.sum(2) + jnp.log(p.weights), axis=1))

    return jax.grad(log_likelihood)(at.ravel()), -jax.hessian(log_likelihood)(at.ravel())


def found_in(dtype):
    @jax.jit
    def found(params, table):
        p, shared = cast((params, MODEL.prepare(params, None, None)), dtype)
        stats = widen(MODEL.stages[-1].e_step(p, shared, batch_of(table, dtype=dtype), None)[0])
        own = coordinates.gradient(params, stats.owned).ravel()
        return coordinates.of(params), own, newton.complete(params, stats.owned), stats.missing

    return found


def test_gradient_and_information_against_automatic_derivatives():
    table = as_bytes(classes(60, 4, 3, missing=0.3))
    params = twin.some_parameters(3, 4, seed=1)
    with double():
        at, gradient, complete, missing = to_numpy(found_in(np.dtype(float))(params, table))
        slope, bend = to_numpy(derivatives(at, as_floats(table)))
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
    # all weights together make no difference: that direction has the number of rows for its information
    radial = np.zeros(at.shape)
    radial[:, 0] = at[:, 0] / 2
    np.testing.assert_allclose(complete - missing, bend + 60 * np.outer(radial, radial), rtol=1e-7, atol=1e-7)


def test_a_mean_of_one_is_as_good_as_one_of_zero_in_float32():
    """Missing information is of logarithms: 1 - m has no digits left in float32."""
    table, params = as_bytes(classes(60, 4, 3, missing=0.3)), twin.some_parameters(3, 4, seed=1)
    params.means[0, 2], params.means[1, 3] = 1 - 1e-9, 1 - 1e-12
    turned = np.where(table == 255, 255, 1 - table).astype(np.uint8)
    other = twin.parameters(params.weights, 1 - params.means)
    with double():
        found = found_in(np.dtype(np.float32))
        one, zero = (np.asarray(found(p, rows)[3]) for p, rows in ((params, table), (other, turned)))
    sign = np.where(np.arange(5) == 0, 1, -1)  # angles are turned round
    sign = np.outer(np.tile(sign, 3), np.tile(sign, 3))
    np.testing.assert_allclose(one, sign * zero, rtol=1e-4, atol=1e-4 * np.abs(zero).max())
