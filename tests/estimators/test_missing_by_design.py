"""Missing by design: of many items each person has answered a few.  What rows have answered decides."""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_expit

from latentbits import ItemResponse, LatentTrait, TraitMaps
from latentbits.core.batch import MISSING
from latentbits.engines.memory import MemoryEngine, distinct
from latentbits.estimators.latent_trait import nodes
from latentbits.models.latent_trait import map_params, mixture_of_maps
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.column_kinds import Params

ITEMS, PRIOR = 52, 3.0  # items are as many as make few nodes do, if all are answered
PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "calibration_missing.py"


def table(n, answered, q=1, seed=0):
    """Answers to steep items, a given number of them each."""
    rng = np.random.default_rng(seed)
    weights = 2 * rng.lognormal(0, 0.3, (q, ITEMS))
    weights[:, ::2] *= np.linspace(1, -0.4, q)[:, None]
    bits = rng.random((n, ITEMS)) < expit(rng.normal(size=(n, q)) @ weights + rng.normal(size=ITEMS))
    hidden = rng.random(bits.shape).argsort(1).argsort(1) >= answered
    return np.where(hidden, np.nan, bits)


class Grid:
    """Everything by sums over a dense grid of the latents, in float64."""

    def __init__(self, X, q, n_points):
        self.ones, self.seen = np.nan_to_num(X), (~np.isnan(X)).astype(float)
        line = np.linspace(-6, 6, n_points)
        self.points = np.stack([one.ravel() for one in np.meshgrid(*[line] * q)], 1)
        step = np.log(line[1] - line[0]) - 0.5 * np.log(2 * np.pi)
        self.log_weights = q * step - 0.5 * np.sum(self.points**2, 1)

    def posterior(self, weights, bias):
        """log p(x) of each row, and the share of each point in it."""
        a = self.points @ weights + bias
        joint = self.ones @ log_expit(a).T + (self.seen - self.ones) @ log_expit(-a).T + self.log_weights
        top = joint.max(1, keepdims=True)
        share = np.exp(joint - top)
        total = share.sum(1, keepdims=True)
        return (top + np.log(total))[:, 0], share / total

    def gradient(self, theta):
        """Of log-likelihood and prior, with theta of shape (d, q + 1): weights and bias of each column."""
        weights, bias = theta[:, :-1].T, theta[:, -1]
        _, share = self.posterior(weights, bias)
        errors = share.T @ self.ones - (share.T @ self.seen) * expit(self.points @ weights + bias)
        slopes = errors.T @ np.column_stack([self.points, np.ones(len(self.points))])
        slopes[:, :-1] -= theta[:, :-1] / PRIOR**2
        return slopes

    def information(self, theta):
        """Of (w_1, b_1, w_2, ...) and the prior, by differences of the gradient."""
        flat, h = theta.ravel(), 1e-4
        away = (flat + sign * h * line for line in np.eye(len(flat)) for sign in (1, -1))
        ends = np.stack([self.gradient(one.reshape(theta.shape)).ravel() for one in away])
        found = (ends[1::2] - ends[::2]) / (2 * h)
        return (found + found.T) / 2


@pytest.fixture(scope="module")
def one_trait():
    X = table(300, 8)
    return X, ItemResponse(weight_prior=PRIOR, random_state=0).fit(X), Grid(X, 1, 241)


def theta_of(m):
    return np.column_stack([m.components_.T, m.intercept_])


@pytest.mark.slow("information by differences over a grid")
def test_the_maximum_and_standard_errors_are_those_of_a_grid(one_trait):
    X, m, grid = one_trait
    theta = theta_of(m)
    gradient, information = grid.gradient(theta).ravel(), grid.information(theta)
    assert gradient @ np.linalg.solve(information, gradient) / 2 < 1e-3  # nats below the maximum
    errors = m.standard_errors(X)
    stated = np.column_stack([errors.components.T, errors.intercept])
    np.testing.assert_allclose(stated.ravel(), np.sqrt(np.diag(np.linalg.inv(information))), rtol=0.02)


@pytest.mark.slow("52 columns with holes are compiled for")
def test_likelihoods_and_scores_are_those_of_a_grid(one_trait):
    X, m, grid = one_trait
    rows, share = grid.posterior(m.components_, m.intercept_)
    total, error = m.log_likelihood(X, return_error=True)
    assert abs(total - rows.sum()) < error + 1e-3
    assert error < 0.1
    np.testing.assert_allclose(m.score_samples(X), rows, atol=1e-3)
    penalty = np.sum(m.components_**2) / (2 * PRIOR**2)
    assert abs(m.objective_ + penalty - rows.sum()) < 0.01
    mean = share @ grid.points[:, 0]
    scores = m.scores(X)
    np.testing.assert_allclose(scores.value[:, 0], mean, atol=1e-3)
    np.testing.assert_allclose(scores.error[:, 0], np.sqrt(share @ grid.points[:, 0] ** 2 - mean**2), atol=1e-3)


@pytest.mark.slow("two traits on a grid")
def test_the_maximum_of_two_traits_is_that_of_a_grid():
    X = table(250, 12, q=2)
    m = ItemResponse(n_factors=2, weight_prior=PRIOR, random_state=0).fit(X)
    grid, theta = Grid(X, 2, 61), theta_of(m)
    gradient = grid.gradient(theta).ravel()
    covariance = m.standard_errors(X).covariance  # of the directions that are no rotation
    assert m.converged_
    assert gradient @ covariance @ gradient / 2 < 0.01
    rows, _ = grid.posterior(m.components_, m.intercept_)
    assert abs(m.log_likelihood(X) - rows.sum()) < 0.1


@pytest.mark.slow("2000 rows on a fine grid")
def test_rows_that_are_alike_leave_room_for_more_nodes(monkeypatch):
    """Steep items on few columns ask for nodes that all rows cannot afford, and their few patterns can."""
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 6)) < expit(rng.normal(size=(2000, 1)) * [6.0, 6, 6, 1, 1, 1] + rng.normal(size=6))) * 1.0
    monkeypatch.setattr(nodes, "MOST_TERMS", 15 * X.size)  # no more nodes than to begin with
    m = LatentTrait(1, weight_prior=PRIOR, random_state=0).fit(X)
    penalty = np.sum(m.components_**2) / (2 * PRIOR**2)
    rows, _ = Grid(X, 1, 2001).posterior(m.components_, m.intercept_)
    assert abs(m.objective_ + penalty - rows.sum()) < 0.1


def test_distinct_rows_count_as_often_as_they_are_met():
    X = np.array([[0, 1], [1, 1], [0, 1], [MISSING, 0]], np.uint8)
    for weights, counts in ((None, [2, 1, 1]), (np.array([0.5, 2, 1, 3]), [1.5, 2, 3])):
        found = distinct(MemoryEngine(X, weights))
        np.testing.assert_array_equal(found.table, [[0, 1], [1, 1], [MISSING, 0]])
        np.testing.assert_array_equal(found.weights, counts)
    reals = MemoryEngine(np.zeros((3, 2)))
    assert distinct(reals) is reals


def record(X, m):
    return m._model_for(m._open(X, reset=True))


@pytest.mark.parametrize(
    "new",
    [
        partial(LatentTrait, 1),
        partial(TraitMaps, 2, 1),
        partial(LatentTrait, 1, column_types=["continuous"] * 2 + ["binary"] * (ITEMS - 2)),
        partial(ItemResponse, "1PL"),
    ],
    ids=["bits", "maps", "kinds", "1PL"],
)
def test_nodes_to_begin_with_are_those_for_what_rows_have_answered(new):
    X = table(40, 8)
    complete = np.nan_to_num(X)
    assert record(X, new()).e_step is record(X, new(n_nodes=15)).e_step
    assert record(complete, new()).e_step is not record(complete, new(n_nodes=15)).e_step


@pytest.mark.parametrize(("q", "answered", "by_bound"), [(1, 8, False), (1, 12, True), (2, 12, False), (2, 24, True)])
def test_the_bound_is_no_beginning_where_rows_have_answered_little(q, answered, by_bound):
    for model in (record(table(40, answered), LatentTrait(q)), record(table(40, answered), LatentTrait(q, n_nodes=9))):
        assert ("variational EM" in [stage.name for stage in model.stages]) == by_bound
    assert "variational EM" in [
        stage.name for stage in record(np.nan_to_num(table(40, answered)), LatentTrait(q)).stages
    ]


def test_convergence_asks_as_much_of_many_columns_that_rows_have_not_answered_as_of_few():
    """What is left to gain is estimated with more caution, and no step that loses is let pass as noise."""

    def caution(model, d, n_maps=None):
        maps = () if n_maps is None else (n_maps,)
        shapes = {"weights": (*maps, d, 1), "bias": (*maps, d), "log_variance": (*maps, 0), "centre": 0, "scale": 0}
        kind = Params if n_maps is None else map_params.Params
        shapes |= {} if n_maps is None else {"log_share": n_maps}

        @jax.jit
        def begun():
            state = model.start(kind(**{name: jnp.ones(shape) for name, shape in shapes.items()}))
            return state.caution, state.noise

        return [float(number) for number in begun()]

    few = caution(latent_trait.model(1), 8)
    assert caution(latent_trait.model(1, seen=8), ITEMS) == few
    assert caution(latent_trait.model(1), ITEMS) != few
    assert caution(mixture_of_maps.model(2, 1, seen=8), ITEMS, 2) == few
    assert caution(mixture_of_maps.model(2, 1), ITEMS, 2) != few


@pytest.fixture
def benchmark():
    spec = spec_from_file_location("calibration_missing", PATH)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_benchmark_tells_errors_that_are_wrong(benchmark):
    rng = np.random.default_rng(0)
    truth = rng.normal(size=20)
    errors = np.full((200, 20), 0.3)
    errors[0, 0] = np.nan
    estimates = truth + 0.3 * rng.normal(size=errors.shape)
    right = benchmark.calibration("right", estimates, errors, truth)
    assert right.verdict == ""
    assert right.n_without == 1
    assert abs(right.bias) < 4 * right.bias_chance
    np.testing.assert_allclose(right.errors, 1, atol=0.1)
    assert benchmark.calibration("small", estimates, errors / 2, truth).verdict == "coverage OFF"
    biased = benchmark.calibration("biased", estimates + 0.3, errors, truth)
    np.testing.assert_allclose(biased.bias, 1, atol=0.1)
    answers = benchmark.answers(*benchmark.items(30), 50, 7, seed=0)
    assert (np.isfinite(answers).sum(1) == 7).all()
