"""Reports of fits: parameters counted by the rank of what they change, criteria by their definitions, notes."""

from __future__ import annotations

import math
from itertools import product as all_of

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import latentbits
from latentbits import (
    BernoulliMixture,
    BernoulliProduct,
    BinarySparseCoding,
    ClippedGaussian,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
    load,
)
from latentbits.core.tree import double
from latentbits.estimators.families import families

D = 6
ROWS = np.array(list(all_of([0, 1], repeat=D)), float)
NODES, MASSES = np.polynomial.hermite_e.hermegauss(15)
LOG_MASSES = np.log(MASSES / MASSES.sum())


def _bits(n: int = 60, d: int = D, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((n, d)) < np.where(rng.random((n, 1)) < 0.5, 0.75, 0.25)).astype(float)


def _log_bits(x, p):
    """log p of each row (rows, 1, d) under each of some products (states, d), p their probabilities of a one."""
    return jnp.sum(x[:, None, :] * jnp.log(p) + (1 - x[:, None, :]) * jnp.log1p(-p), -1)


# Each family's log p(x) from all that its formula has, free or not; shapes of the parameters at small size.


def _product(x, mean):
    return _log_bits(x, mean[None])[:, 0]


def _mixture(x, share, mean):
    return jax.nn.logsumexp(_log_bits(x, mean) + jnp.log(share) - jnp.log(jnp.sum(share)), 1)


def _grid(q):
    nodes = np.array(list(all_of(NODES, repeat=q)))
    return nodes, np.sum(np.array(list(all_of(LOG_MASSES, repeat=q))), 1)


def _trait(x, weights, bias):
    nodes, masses = _grid(weights.shape[0])
    return jax.nn.logsumexp(_log_bits(x, jax.nn.sigmoid(nodes @ weights + bias)) + masses, 1)


def _rasch(x, slope, bias):
    return _trait(x, slope * jnp.ones((1, x.shape[1])), bias)


def _probit(x, weights, phi):
    nodes, masses = _grid(weights.shape[0])
    unique = jnp.sqrt(1 - jnp.sum(weights**2, 0))
    return jax.nn.logsumexp(_log_bits(x, jax.scipy.special.ndtr((nodes @ weights + phi) / unique)) + masses, 1)


def _machine(x, weights, theta, bias):
    def energy(x):
        signs = 2 * x - 1
        return signs @ bias + jnp.sum(jax.nn.softplus(signs @ weights.T + theta), 1)

    return energy(x) - jax.nn.logsumexp(energy(jnp.asarray(ROWS)))


def _machine_without_bias(x, weights, theta):
    return _machine(x, weights, theta, jnp.zeros(x.shape[1]))


def _real_machine(x, weights, theta, bias):
    states = np.array(list(all_of([0, 1], repeat=len(theta))), float)
    centres = bias + states @ weights
    log_share = states @ theta + 0.5 * jnp.sum(centres**2, 1)
    apart = jnp.sum((x[:, None, :] - centres) ** 2, -1)
    return jax.nn.logsumexp(log_share - jax.nn.logsumexp(log_share) - 0.5 * apart, 1)


def _noisy_or(x, *params):
    """Weights, bottom first, and then biases, the inputs first."""
    n = len(params) // 2
    weights, biases = params[:n], params[n:]
    states = [np.array(list(all_of([0, 1], repeat=len(b))), float) for b in biases[1:]]
    log_p = _log_bits(states[-1], -jnp.expm1(-biases[-1])[None])[:, 0]
    for k in range(n - 1, 0, -1):
        given = _log_bits(states[k - 1], -jnp.expm1(-(biases[k] + states[k] @ weights[k])))
        log_p = jax.nn.logsumexp(given + log_p, 1)
    return jax.nn.logsumexp(_log_bits(x, -jnp.expm1(-(biases[0] + states[0] @ weights[0]))) + log_p, 1)


def _noisy_or_with_leak(x, weights, top):
    return _noisy_or(x, weights, jnp.full(x.shape[1], 0.01), top)


def _sparse_coding(x, components, noise, prior):
    states = np.array(list(all_of([0, 1], repeat=len(components))), float)
    log_p = jnp.sum(states * jnp.log(prior) + (1 - states) * jnp.log1p(-prior), 1)
    apart = jnp.sum((x[:, None, :] - states @ components) ** 2, -1) / (2 * noise**2)
    return jax.nn.logsumexp(log_p - apart, 1) - x.shape[1] * jnp.log(noise[0])


REALS = np.random.default_rng(3).normal(size=(200, 4))
FEW = {"n_init": 1, "max_iter": 3}
CASES = {
    "product": (BernoulliProduct(), _product, [(D,)]),
    "mixture": (BernoulliMixture(3, **FEW), _mixture, [(3,), (3, D)]),
    "1 trait": (LatentTrait(1, max_iter=3), _trait, [(1, D), (D,)]),
    "2 traits": (LatentTrait(2, max_iter=3), _trait, [(2, D), (D,)]),
    "Rasch": (LatentTrait(1, equal_discrimination=True, max_iter=3), _rasch, [(1,), (D,)]),
    "1 factor": (ClippedGaussian(1), _probit, [(1, D), (D,)]),
    "2 factors": (ClippedGaussian(2), _probit, [(2, D), (D,)]),
    "machine": (CombinationMachine(2, n_epochs=1, **FEW), _machine, [(2, D), (2,), (D,)]),
    "machine without biases": (
        CombinationMachine(3, input_bias=False, n_epochs=1, **FEW),
        _machine_without_bias,
        [(3, D), (3,)],
    ),
    "real machine": (CombinationMachine(2, kind="real", n_epochs=1, **FEW), _real_machine, [(2, 4), (2,), (4,)]),
    "noisy OR": (NoisyOrNetwork((2,), n_updates=2, **FEW), _noisy_or, [(2, D), (D,), (2,)]),
    "noisy OR in layers": (
        NoisyOrNetwork((3, 1), n_updates=2, **FEW),
        _noisy_or,
        [(3, D), (1, 3), (D,), (3,), (1,)],
    ),
    "noisy OR with a leak": (
        NoisyOrNetwork((2,), bias=False, n_updates=2, **FEW),
        _noisy_or_with_leak,
        [(2, D), (2,)],
    ),
    "sparse coding": (BinarySparseCoding(2, n_init=1, max_iter=3), _sparse_coding, [(2, 4), (1,), (1,)]),
}


def _rank(log_p, shapes, rows, seed=0):
    """In how many ways log p(x) of the rows changes with the parameters, at a place like any other."""
    rng = np.random.default_rng(seed)
    values = [rng.uniform(0.15, 0.45, size=shape) for shape in shapes]
    with double():
        parts = jax.jacfwd(log_p, argnums=tuple(range(1, len(shapes) + 1)))(
            jnp.asarray(rows), *map(jnp.asarray, values)
        )
        matrix = np.concatenate([np.asarray(part).reshape(len(rows), -1) for part in parts], 1)
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(sizes > 1e-9 * sizes[0]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_parameters_are_as_many_as_what_they_change(case):
    estimator, log_p, shapes = CASES[case]
    rows = REALS if estimator.real_valued else ROWS
    fitted = estimator.set_params(random_state=0).fit(REALS if estimator.real_valued else _bits())
    assert fitted.n_parameters_ == _rank(log_p, shapes, rows)


def test_every_family_of_the_library_is_counted():
    assert {type(one).__name__ for one, _, _ in CASES.values()} == {one.class_name for one in families()}


def test_without_noise_the_scale_of_a_column_is_not_counted():
    """The rank of the angles and offsets of the planes that bits are on one side of."""
    X = _bits(200)
    for bias, n_components, expected in ((True, 1, D), (True, 2, 2 * D - 1), (False, 2, D - 1)):
        m = ClippedGaussian(n_components, noise="none", bias=bias).fit(X)
        rng = np.random.default_rng(0)
        planes = rng.normal(size=(D, n_components + bias))

        def what_shows(flat, planes=planes, n=n_components):
            """What does not depend on scales and rotations: cosines of normals, and offsets in units of their lengths."""
            p = flat.reshape(planes.shape)
            normals = p[:, :n] / jnp.linalg.norm(p[:, :n], axis=1, keepdims=True)
            offsets = p[:, n:] / jnp.linalg.norm(p[:, :n], axis=1, keepdims=True)
            return jnp.concatenate([(normals @ normals.T).ravel(), offsets.ravel()])

        with double():
            matrix = np.asarray(jax.jacfwd(what_shows)(jnp.asarray(planes.ravel())))
        assert np.linalg.matrix_rank(matrix, tol=1e-9) == expected == m.n_parameters_
