"""Reports of fits: parameters counted by the rank of what they change, criteria by their definitions, notes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product as all_of
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import erf
from tests.fitted import fitted, known, table
from tests.tables import classes

from latentbits import (
    BernoulliMixture,
    BernoulliProduct,
    BinarySparseCoding,
    ChowLiuTree,
    ClippedGaussian,
    CombinationMachine,
    CurvedTrait,
    ItemResponse,
    LatentTrait,
    LatentTree,
    NoisyOrNetwork,
    TraitMaps,
    load,
    load_dataset,
)
from latentbits.estimators.families import families
from latentbits.reports.fit import FitReport, fit_report

D = 6
ROWS = np.array(list(all_of([0, 1], repeat=D)), float)
REALS = np.random.default_rng(3).normal(size=(200, D))
NODES, MASSES = np.polynomial.hermite_e.hermegauss(15)
LOG_MASSES = np.log(MASSES / MASSES.sum())
TABLE = classes()


@dataclass(frozen=True)
class Longer(FitReport):
    """A report with one number more."""

    entropy: float


# Each family's log p(x) from all that its formula has, free or not.  Numbers may be complex: a step along i gives the
# derivative to the last digit.


def _sum_exp(x, axis=1):
    return np.log(np.sum(np.exp(x), axis))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _log_bits(x, p):
    """log p of each row (rows, 1, d) under each of some products (states, d), p their probabilities of a one."""
    return np.sum(x[:, None, :] * np.log(p) + (1 - x[:, None, :]) * np.log1p(-p), -1)


def _states(n):
    return np.array(list(all_of([0, 1], repeat=n)), float)


def _product(x, mean):
    return _log_bits(x, mean[None])[:, 0]


def _mixture(x, share, mean):
    return _sum_exp(_log_bits(x, mean) + np.log(share) - np.log(np.sum(share)))


def _grid(q):
    return np.array(list(all_of(NODES, repeat=q))), np.sum(np.array(list(all_of(LOG_MASSES, repeat=q))), 1)


def _trait(x, weights, bias):
    nodes, masses = _grid(weights.shape[0])
    return _sum_exp(_log_bits(x, _sigmoid(nodes @ weights + bias)) + masses)


def _one_slope(x, slope, bias):
    return _trait(x, slope * np.ones((1, x.shape[1])), bias)


def _two_maps(x, share, *maps):
    each = np.stack([_trait(x, *maps[:2]), _trait(x, *maps[2:])], 1)
    return _sum_exp(each + np.log(share) - np.log(np.sum(share)))


def _on_a_curve(x, weights, bias, first, offset, last):
    nodes, masses = _grid(1)
    inner = nodes @ first + offset
    hidden = inner * _sigmoid(inner)
    return _sum_exp(_log_bits(x, _sigmoid(nodes @ weights + bias + hidden @ last)) + masses)


def _probit(x, weights, phi):
    nodes, masses = _grid(weights.shape[0])
    u = (nodes @ weights + phi) / np.sqrt(1 - np.sum(weights**2, 0))
    return _sum_exp(_log_bits(x, (1 + erf(u / np.sqrt(2))) / 2) + masses)


def _machine(x, weights, theta, bias):
    def energy(x):
        signs = 2 * x - 1
        return signs @ bias + np.sum(np.log1p(np.exp(signs @ weights.T + theta)), 1)

    return energy(x) - _sum_exp(energy(ROWS), 0)


def _machine_without_bias(x, weights, theta):
    return _machine(x, weights, theta, np.zeros(x.shape[1]))


def _real_machine(x, weights, theta, bias):
    states = _states(len(theta))
    centres = bias + states @ weights
    log_share = states @ theta + 0.5 * np.sum(centres**2, 1)
    apart = np.sum((x[:, None, :] - centres) ** 2, -1)
    return _sum_exp(log_share - _sum_exp(log_share, 0) - 0.5 * apart)


def _noisy_or(x, *params):
    """Weights, bottom first, and then biases, the inputs first."""
    n = len(params) // 2
    weights, biases = params[:n], params[n:]
    states = [_states(len(b)) for b in biases[1:]]
    log_p = _log_bits(states[-1], -np.expm1(-biases[-1])[None])[:, 0]
    for k in range(n - 1, 0, -1):
        given = _log_bits(states[k - 1], -np.expm1(-(biases[k] + states[k] @ weights[k])))
        log_p = _sum_exp(given + log_p)
    return _sum_exp(_log_bits(x, -np.expm1(-(biases[0] + states[0] @ weights[0]))) + log_p)


def _noisy_or_with_leak(x, weights, top):
    return _noisy_or(x, weights, np.full(x.shape[1], 0.01), top)


def _sparse_coding(x, components, noise, prior):
    states = _states(len(components))
    log_p = np.sum(states * np.log(prior) + (1 - states) * np.log1p(-prior), 1)
    apart = np.sum((x[:, None, :] - states @ components) ** 2, -1) / (2 * noise**2)
    return _sum_exp(log_p - apart) - x.shape[1] * np.log(noise[0])


def _chain(x, *steep):
    """Hidden variables in a row, of which each hangs from the one before it; where states are far apart."""
    share, moves, emits = (20 * (part - 0.3) for part in steep)
    share, moves = (np.exp(one) / np.exp(one).sum(-1, keepdims=True) for one in (share, moves))
    emits, log_state = _sigmoid(emits), np.log(share)[None]
    for j, column in enumerate(x.T):
        if j > 0:
            log_state = _sum_exp(log_state[:, :, None] + np.log(moves[j - 1]))
        log_state = log_state + np.log(np.where(column[:, None] == 1, emits[j], 1 - emits[j]))
    return _sum_exp(log_state)


def _two_chains(x, weights, *params):
    log_share = np.log(weights / weights.sum())
    return _sum_exp(np.stack([_chain(x, *params[3 * i : 3 * i + 3]) + log_share[i] for i in (0, 1)]), 0)


def _chain_of_bits(x, first, given):
    after = np.where(x[:, :-1] == 1, given[:, 1], given[:, 0])
    one = np.concatenate([np.broadcast_to(first, (len(x), 1)), after], 1)
    return np.sum(x * np.log(one) + (1 - x) * np.log1p(-one), 1)


# Models whose parameters are set: of these numbers their count does not depend.


def _set(estimator, **params):
    estimator.n_features_in_, estimator.params_ = D, SimpleNamespace(**params)
    estimator._expose()
    return estimator


NONE = dict.fromkeys(("log_variance", "centre", "scale"), np.zeros(0))


def _traits(q, model=None, **options):
    return known(model or LatentTrait(q, **options), {"weights": np.ones((D, q)), "bias": np.zeros(D), **NONE})


def _maps():
    each = {"weights": np.ones((2, D, 1)), "bias": np.zeros((2, D)), "log_variance": np.zeros((2, 0))}
    return known(TraitMaps(2, 1), {**NONE, **each, "log_share": np.log([0.5, 0.5])})


def _curve():
    net = {"layers.0": np.ones((1, 2)), "layers.1": np.ones((2, D)), "offsets.0": np.zeros(2)}
    return known(CurvedTrait(1, layer_sizes=(2,)), {"weights": np.ones((D, 1)), "bias": np.zeros(D), **net})


def _factors(k, idle=0, **options):
    weights = np.full((D, k), 0.5)
    weights[D - idle :] = 0
    names = "psi means binary correlation error undetermined corrected eigenvalues binary_eigenvalues"
    rest = dict.fromkeys(names.split(), np.zeros(D))
    return _set(ClippedGaussian(k, **options), weights=weights, phi=np.zeros(D), negative_share=0.0, **rest)


def _machines(m, **options):
    numbers = dict.fromkeys(
        ("log_partition", "log_partition_error", "log_partition_effective", "precision"), np.zeros(())
    )
    arrays = {"weights": np.ones((m, D)), "hidden_bias": np.zeros(m), "input_bias": np.zeros(D)}
    return _set(CombinationMachine(m, **options), **arrays, **numbers)


def _network(*sizes, **options):
    weights = [np.ones((above, below)) for below, above in zip((D, *sizes), sizes)]
    biases = [np.ones(size) for size in (D, *sizes)]
    return _set(NoisyOrNetwork(sizes, **options), weights=weights, biases=biases)


def _coding():
    numbers = {"noise_std": 1.0, "prior": 0.2, "reseeded": 0, "truncation_loss": 0.0}
    return _set(BinarySparseCoding(2), components=np.ones((2, D)), **numbers)


def _tree(estimator, m=1, k=2, idle=()):
    estimator.n_features_in_, estimator.emissions_, estimator._idle = D, np.ones((m, D, k)), idle
    estimator.parents_ = np.tile(np.arange(-1, D - 1), (m, 1))
    estimator.n_parameters_ = estimator._n_free()
    return estimator


CASES = {
    "product": (lambda: _set(BernoulliProduct(), means=np.ones(D)), _product, [(D,)]),
    "mixture": (
        lambda: _set(BernoulliMixture(3), weights=np.ones(3), means=np.ones((3, D))),
        _mixture,
        [(3,), (3, D)],
    ),
    "1 trait": (lambda: _traits(1), _trait, [(1, D), (D,)]),
    "2 traits": (lambda: _traits(2), _trait, [(2, D), (D,)]),
    "1PL": (lambda: _traits(1, ItemResponse("1PL")), _one_slope, [(1,), (D,)]),
    "2 maps": (_maps, _two_maps, [(2,), (1, D), (D,), (1, D), (D,)]),
    "curve": (_curve, _on_a_curve, [(1, D), (D,), (1, 2), (2,), (2, D)]),
    "1 factor": (lambda: _factors(1), _probit, [(1, D), (D,)]),
    "2 factors": (lambda: _factors(2), _probit, [(2, D), (D,)]),
    "machine": (lambda: _machines(2), _machine, [(2, D), (2,), (D,)]),
    "machine without biases": (lambda: _machines(3, input_bias=False), _machine_without_bias, [(3, D), (3,)]),
    "real machine": (lambda: _machines(2, kind="real"), _real_machine, [(2, D), (2,), (D,)]),
    "noisy OR": (lambda: _network(2), _noisy_or, [(2, D), (D,), (2,)]),
    "noisy OR in layers": (lambda: _network(3, 1), _noisy_or, [(3, D), (1, 3), (D,), (3,), (1,)]),
    "noisy OR with a leak": (lambda: _network(2, bias=False), _noisy_or_with_leak, [(2, D), (2,)]),
    "Chow-Liu tree": (lambda: _tree(ChowLiuTree()), _chain_of_bits, [(1,), (D - 1, 2)]),
    "latent tree": (lambda: _tree(LatentTree(3), k=3), _chain, [(3,), (D - 1, 3, 3), (D, 3)]),
    "two latent trees": (
        lambda: _tree(LatentTree(2, n_trees=2), m=2),
        _two_chains,
        [(2,), *[(2,), (D - 1, 2, 2), (D, 2)] * 2],
    ),
    "sparse coding": (_coding, _sparse_coding, [(2, D), (1,), (1,)]),
}


def _rank(log_p, shapes, rows, seed=0):
    """In how many ways log p(x) of the rows changes with the parameters, at a place like any other."""
    rng = np.random.default_rng(seed)
    values = [rng.uniform(0.15, 0.45, size=shape).astype(complex) for shape in shapes]
    columns = []
    for value in values:
        for place in np.ndindex(value.shape):
            value[place] += 1e-30j
            columns.append(log_p(rows, *values).imag * 1e30)
            value[place] = value[place].real
    sizes = np.linalg.svd(np.column_stack(columns), compute_uv=False)
    return int(np.sum(sizes > 1e-9 * sizes[0]))


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_as_many_as_what_they_change(case):
    made, log_p, shapes = CASES[case]
    model = made()
    assert model.n_parameters_ == _rank(log_p, shapes, REALS if model.real_valued else ROWS)


def test_every_family_of_the_library_is_counted():
    assert {type(made()).__name__ for made, _, _ in CASES.values()} == {one.class_name for one in families()}


def test_without_noise_the_scale_of_a_column_is_not_counted():
    """The rank of the angles and offsets of the planes that bits are on one side of."""
    for bias, n, expected in ((True, 1, D), (True, 2, 2 * D - 1), (False, 2, D - 1)):
        planes = np.random.default_rng(0).normal(size=D * (n + bias)).astype(complex)

        def shows(flat, n=n, bias=bias):
            """What no scale and no rotation changes: cosines of normals, and offsets in units of their lengths."""
            p = flat.reshape(D, n + bias)
            p = p / np.sqrt(np.sum(p[:, :n] ** 2, axis=1, keepdims=True))
            return np.concatenate([(p[:, :n] @ p[:, :n].T).ravel(), p[:, n:].ravel()])

        matrix = np.stack([shows(planes + 1e-30j * step).imag * 1e30 for step in np.eye(len(planes))])
        found = _factors(n, noise="none", bias=bias).n_parameters_
        assert np.linalg.matrix_rank(matrix, tol=1e-9) == expected == found


SLOW = pytest.mark.slow("a fit of each family")
FEW = {"n_init": 1, "max_iter": 3}
INFORMATIVE = D - 2  # columns of six that tell something


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (BernoulliProduct(), INFORMATIVE),
        pytest.param(BernoulliMixture(2, accelerate=False, **FEW), 1 + 2 * INFORMATIVE, marks=SLOW),
        pytest.param(LatentTrait(1, method="variational", max_iter=2), 2 * INFORMATIVE, marks=SLOW),
        pytest.param(ClippedGaussian(1), 2 * INFORMATIVE, marks=SLOW),
        pytest.param(ChowLiuTree(), 2 * INFORMATIVE - 1, marks=SLOW),
        pytest.param(LatentTree(2, max_iter=2), None, marks=SLOW),
        pytest.param(CombinationMachine(1, learner="gradient", n_epochs=1, **FEW), 2 * INFORMATIVE + 1, marks=SLOW),
        pytest.param(NoisyOrNetwork((1,), n_updates=2, **FEW), 2 * INFORMATIVE + 1, marks=SLOW),
        pytest.param(
            BinarySparseCoding(1, **FEW), INFORMATIVE + 1 + 2, marks=SLOW
        ),  # a constant number tells of the noise
    ],
    ids=lambda one: type(one).__name__,
)
def test_columns_that_tell_nothing_have_no_parameters(estimator, expected, tmp_path):
    few = TABLE[:, :INFORMATIVE]
    X = np.column_stack([few, np.ones(len(TABLE)), np.full(len(TABLE), np.nan)])
    expected = expected or estimator.set_params(random_state=0).fit(few).n_parameters_  # a tree's depend on its form
    fitted = estimator.set_params(random_state=0).fit(X)
    assert fitted.n_parameters_ == expected
    fitted.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").n_parameters_ == expected


def test_numbers_are_those_of_their_definitions():
    X = TABLE.copy()
    X[3] = np.nan  # no observation
    X[4, 1] = np.nan
    found = BernoulliProduct(smoothing=0).fit(X).fit_report(X)
    seen, ones = np.sum(~np.isnan(X), 0), np.nansum(X, 0)
    value = float(np.sum(ones * np.log(ones / seen) + (seen - ones) * np.log(1 - ones / seen)))
    n, p = len(X) - 1, D
    assert (found.n_rows, found.n_parameters, found.notes) == (n, p, ())
    costs = [2, math.log(n), math.log((n + 2) / 24), math.log(n) + 1]
    np.testing.assert_allclose(found.log_likelihood, value, rtol=1e-6)
    criteria = [found.aic, found.bic, found.sabic, found.caic]
    np.testing.assert_allclose(criteria, np.array(costs) * p - 2 * value, rtol=1e-6)
    assert found["bic"] == found.bic


def test_counts_of_patterns_report_as_the_table_written_out():
    rows, counts = np.unique(TABLE, axis=0, return_counts=True)
    m = known(
        BernoulliMixture(2, smoothing=0), {"weights": [0.4, 0.6], "means": np.linspace(0.1, 0.9, 2 * D).reshape(2, D)}
    )
    short, whole = m.fit_report(rows, counts), m.fit_report(TABLE)
    assert (short.n_rows, short.n_parameters) == (whole.n_rows, whole.n_parameters) == (len(TABLE), 2 * D + 1)
    np.testing.assert_allclose(short.bic, whole.bic, rtol=1e-9)
    found = m.criteria(rows, counts)  # one way of computing
    assert (found.aic, found.bic, m.bic(rows, counts)) == (short.aic, short.bic, short.bic)


def test_what_keeps_a_fit_from_its_maximum_is_reported():
    means = {"weights": [0.4, 0.6], "means": np.full((2, D), 0.5)}
    smooth = known(BernoulliMixture(2), means)
    assert "smoothing=1" in smooth.fit_report(TABLE).notes[0]
    assert "note: the likelihood is not at its maximum (smoothing=1)" in str(smooth.fit_report(TABLE))
    with pytest.raises(ValueError, match="smoothing=0"):
        smooth.criteria(TABLE)

    def notes(model, total=-9.0, **settings):
        for name, value in ({"stop_reason_": "converged"} | settings).items():
            setattr(model, name, value)
        return list(model._notes_of_fit(total, 0.0))

    assert "learner='moments'" in notes(_factors(1))[0]
    cut = notes(_traits(1, weight_prior=3), stop_reason_="max_iter")
    assert "weight_prior=3" in cut[0]
    assert "'max_iter'" in cut[1]
    many = known(BernoulliMixture(20, smoothing=0), {"weights": np.ones(20) / 20, "means": np.full((20, D), 0.5)})
    assert any("139 parameters for 63 degrees of freedom" in note for note in notes(many))
    assert "some rows have probability 0 under this model" in notes(many, -np.inf)


def test_impossible_rows_have_no_criteria():
    found = fit_report(-np.inf, 0.0, 6, 240)
    assert found.bic == np.inf
    assert found.to_json()["bic"] is None


def test_a_likelihood_that_is_an_estimate_has_its_error():
    rng = np.random.default_rng(0)
    X = (rng.random((40, 30)) < 0.5).astype(float)
    weights = rng.normal(size=(25, 30))
    m = CombinationMachine.from_parameters(weights, np.zeros(25), annealing=(8, 20), random_state=0)
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

    X = TABLE
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


def test_rows_count_by_their_weights_in_criteria_and_a_note_says_when_they_are_few():
    """The sum of weights is no whole number in general; less than there are parameters, it tells criteria nothing."""
    model = fitted("product")
    few = np.full(240, 1 / 480)
    report = model.fit_report(table("product"), sample_weight=few)
    assert report.n_rows == pytest.approx(0.5)
    assert any("by their weights the rows are 0.5, fewer than parameters" in note for note in report.notes)
    report = model.fit_report(table("product"), sample_weight=np.full(240, 0.375 + 1 / 480))
    assert report.n_rows == pytest.approx(90.5)
    assert report.bic == pytest.approx(6 * math.log(90.5) - 2 * report.log_likelihood)
    assert not any("weights" in note for note in report.notes)
    assert isinstance(model.fit_report(table("product"), sample_weight=np.full(240, 1 / 3)).n_rows, int)
