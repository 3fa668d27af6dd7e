"""Reports of fits: parameters counted by the rank of what they change, criteria by their definitions, notes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product as all_of

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits import (
    BernoulliMixture,
    BernoulliProduct,
    BinarySparseCoding,
    ChowLiuTree,
    ClippedGaussian,
    CombinationMachine,
    LatentTrait,
    LatentTree,
    NoisyOrNetwork,
    load,
    load_dataset,
)
from latentbits.core.tree import double
from latentbits.estimators.families import families
from latentbits.reports.fit import FitReport

D = 6
ROWS = np.array(list(all_of([0, 1], repeat=D)), float)
NODES, MASSES = np.polynomial.hermite_e.hermegauss(15)
LOG_MASSES = np.log(MASSES / MASSES.sum())


@dataclass(frozen=True)
class Longer(FitReport):
    """A report with one number more."""

    entropy: float


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


def _chain(x, *steep):
    """Hidden variables in a row, of which each hangs from the one before it; where states are far apart."""
    share, moves, emits = (20 * (part - 0.3) for part in steep)
    share, moves, emits = jax.nn.softmax(share), jax.nn.softmax(moves), jax.nn.sigmoid(emits)
    log_state = jnp.log(share)[None]
    for j, column in enumerate(x.T):
        log_bit = jnp.log(jnp.where(column[:, None] == 1, emits[j], 1 - emits[j]))
        if j > 0:
            log_state = jax.nn.logsumexp(log_state[:, :, None] + jnp.log(moves[j - 1]), 1)
        log_state = log_state + log_bit
    return jax.nn.logsumexp(log_state, 1)


def _two_chains(x, weights, *params):
    log_share = jnp.log(weights / weights.sum())
    return jax.nn.logsumexp(jnp.stack([_chain(x, *params[3 * i : 3 * i + 3]) + log_share[i] for i in (0, 1)]), 0)


def _chain_of_bits(x, first, given):
    after = jnp.where(x[:, :-1] == 1, given[:, 1], given[:, 0])
    one = jnp.concatenate([jnp.broadcast_to(first, (len(x), 1)), after], 1)
    return jnp.sum(x * jnp.log(one) + (1 - x) * jnp.log1p(-one), 1)


def _in_a_row(n: int = 200) -> np.ndarray:
    """Each bit is mostly that on its left."""
    return (np.cumsum(np.random.default_rng(0).random((n, D)) < 0.2, axis=1) % 2).astype(float)


REALS = np.random.default_rng(3).normal(size=(200, 4))
FEW = {"n_init": 1, "max_iter": 3}
QUICK = ("product", "mixture", "Rasch", "noisy OR", "Chow-Liu tree", "latent tree")
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
    "Chow-Liu tree": (ChowLiuTree(), _chain_of_bits, [(1,), (D - 1, 2)]),
    "latent tree": (LatentTree(3, max_iter=2), _chain, [(3,), (D - 1, 3, 3), (D, 3)]),
    "two latent trees": (
        LatentTree(2, n_trees=2, max_iter=2),
        _two_chains,
        [(2,), *[(2,), (D - 1, 2, 2), (D, 2)] * 2],
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
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_parameters_are_as_many_as_what_they_change(case):
    estimator, log_p, shapes = CASES[case]
    rows = REALS if estimator.real_valued else ROWS
    table = REALS if estimator.real_valued else _in_a_row() if isinstance(estimator, LatentTree) else _bits()
    fitted = estimator.set_params(random_state=0).fit(table)
    assert fitted.n_parameters_ == _rank(log_p, shapes, rows)


def test_every_family_of_the_library_is_counted():
    assert {type(one).__name__ for one, _, _ in CASES.values()} == {one.class_name for one in families()}


@pytest.mark.slow
def test_without_noise_the_scale_of_a_column_is_not_counted():
    """The rank of the angles and offsets of the planes that bits are on one side of."""
    X = _bits(200)
    for bias, n_components, expected in ((True, 1, D), (True, 2, 2 * D - 1), (False, 2, D - 1)):
        m = ClippedGaussian(n_components, noise="none", bias=bias).fit(X)
        rng = np.random.default_rng(0)
        planes = rng.normal(size=(D, n_components + bias))

        def what_shows(flat, planes=planes, n=n_components):
            """What no scale and no rotation changes: cosines of normals, and offsets in units of their lengths."""
            p = flat.reshape(planes.shape)
            normals = p[:, :n] / jnp.linalg.norm(p[:, :n], axis=1, keepdims=True)
            offsets = p[:, n:] / jnp.linalg.norm(p[:, :n], axis=1, keepdims=True)
            return jnp.concatenate([(normals @ normals.T).ravel(), offsets.ravel()])

        with double():
            matrix = np.asarray(jax.jacfwd(what_shows)(jnp.asarray(planes.ravel())))
        assert np.linalg.matrix_rank(matrix, tol=1e-9) == expected == m.n_parameters_


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        BernoulliProduct(),
        BernoulliMixture(2, **FEW),
        LatentTrait(1, max_iter=2),
        ClippedGaussian(1),
        ChowLiuTree(),
        LatentTree(2, max_iter=2),
    ],
    ids=lambda one: type(one).__name__,
)
def test_columns_that_tell_nothing_have_no_parameters(estimator, tmp_path):
    X = _bits()
    wide = np.column_stack([X, np.ones(len(X)), np.full(len(X), np.nan)])
    few = estimator.set_params(random_state=0).fit(X).n_parameters_
    fitted = estimator.fit(wide)
    assert fitted.n_parameters_ == few
    fitted.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").n_parameters_ == few


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [CombinationMachine(1, n_epochs=1, **FEW), NoisyOrNetwork((1,), n_updates=2, **FEW)],
    ids=lambda one: type(one).__name__,
)
def test_so_it_is_where_columns_are_looked_at_once_more(estimator, tmp_path):
    X = np.column_stack([_bits(), np.zeros(60)])
    fitted = estimator.set_params(random_state=0).fit(X)
    assert fitted.n_parameters_ == 2 * D + 1
    fitted.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").n_parameters_ == 2 * D + 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_constant_number_tells_of_the_noise_and_has_parameters(tmp_path):
    X = np.column_stack([REALS, np.ones(len(REALS)), np.full(len(REALS), np.nan)])
    fitted = BinarySparseCoding(1, n_init=1, max_iter=3, random_state=0).fit(X)
    assert fitted.n_parameters_ == 5 + 2
    fitted.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").n_parameters_ == 5 + 2


def test_numbers_are_those_of_their_definitions():
    X = _bits()
    X[3] = np.nan  # no observation
    X[4, 1] = np.nan
    found = BernoulliProduct(smoothing=0).fit(X).fit_report(X)
    seen, ones = np.sum(~np.isnan(X), 0), np.nansum(X, 0)
    value = float(np.sum(ones * np.log(ones / seen) + (seen - ones) * np.log(1 - ones / seen)))
    n, p = len(X) - 1, D
    assert (found.n_rows, found.n_parameters, found.notes) == (n, p, ())
    costs = [2, math.log(n), math.log((n + 2) / 24), math.log(n) + 1]
    np.testing.assert_allclose(found.log_likelihood, value, rtol=1e-6)
    told = [found.aic, found.bic, found.sabic, found.caic]
    np.testing.assert_allclose(told, np.array(costs) * p - 2 * value, rtol=1e-6)
    assert found["bic"] == found.bic


def test_counts_of_patterns_report_as_the_table_written_out():
    X = _bits(80, 3)
    rows, counts = np.unique(X, axis=0, return_counts=True)
    m = BernoulliMixture(2, smoothing=0, random_state=0, n_init=1).fit(rows, sample_weight=counts)
    short, whole = m.fit_report(rows, counts), m.fit_report(X)
    assert (short.n_rows, short.n_parameters) == (whole.n_rows, whole.n_parameters) == (80, 7)
    np.testing.assert_allclose(short.bic, whole.bic, rtol=1e-9)
    found = m.criteria(rows, counts)  # one way of computing
    assert (found.aic, found.bic, m.bic(rows, counts)) == (short.aic, short.bic, short.bic)


def test_what_keeps_a_fit_from_its_maximum_is_told():
    X = _bits()
    smooth = BernoulliMixture(2, random_state=0, n_init=1).fit(X)
    assert "smoothing=1" in smooth.fit_report(X).notes[0]
    assert "note: the likelihood is not at its maximum (smoothing=1)" in str(smooth.fit_report(X))
    with pytest.raises(ValueError, match="smoothing=0"):
        smooth.criteria(X)
    assert "learner='moments'" in ClippedGaussian(1).fit(X).fit_report(X).notes[0]
    with pytest.warns(UserWarning, match="max_iter"):
        cut = LatentTrait(1, weight_prior=3, max_iter=1, random_state=0).fit(X)
    notes = cut.fit_report(X).notes
    assert "weight_prior=3" in notes[0]
    assert "'max_iter'" in notes[1]


@pytest.mark.slow
def test_impossible_rows_and_too_many_parameters_are_told():
    X = _bits(60, 2)
    m = BernoulliMixture(3, smoothing=0, random_state=0, n_init=1).fit(X)
    assert any("8 parameters for 3 degrees of freedom" in note for note in m.fit_report(X).notes)
    rows = _bits()
    found = ClippedGaussian(1, noise="none").fit(rows).fit_report(rows)
    assert found.bic == np.inf
    assert "some rows have probability 0 under this model" in found.notes
    assert found.to_json()["bic"] is None


def test_a_likelihood_that_is_an_estimate_has_its_error():
    rng = np.random.default_rng(0)
    X = (rng.random((40, 30)) < 0.5).astype(float)
    weights = rng.normal(size=(25, 30))
    m = CombinationMachine.from_parameters(
        weights, np.zeros(25), annealing_chains=8, annealing_steps=20, random_state=0
    )
    found = m.fit_report(X)
    total, error = m.log_likelihood(X, return_error=True)
    assert (found.log_likelihood, found.error) == (total, error)
    assert error > 1
    assert any("is an estimate, known to ±" in note for note in found.notes)
    assert "the parameters were given, and not learned" in found.notes


def test_a_family_may_tell_more():
    class Telling(BernoulliProduct):
        def _more_of_fit(self, X, sample_weight, report):
            return Longer(**dict(report), entropy=0.5)

    X = _bits()
    found = Telling().fit(X).fit_report(X)
    assert found.entropy == 0.5
    assert "entropy" in str(found)


@pytest.mark.real_data
def test_published_latent_classes_and_items():
    """poLCA's carcinoma, and ltm's LSAT."""
    X = load_dataset("carcinoma").X
    found = BernoulliMixture(3, smoothing=0, random_state=0).fit(X).fit_report(X)
    assert found.n_parameters == 23
    np.testing.assert_allclose(found.log_likelihood, -293.705, atol=0.01)
    np.testing.assert_allclose([found.aic, found.bic], [633.41, 697.1357], atol=0.02)
    X = load_dataset("lsat6").X
    found = LatentTrait(1, random_state=0).fit(X).fit_report(X)
    np.testing.assert_allclose([found.log_likelihood, found.aic], [-2466.65, 4953.31], atol=0.01)
