"""What the latent trait model says of rows, against dense grids in float64; and priors that are numbers."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.models.steps import batch_of, now
from traits import by_row, parameters, simulate

from latentbits import LatentTrait
from latentbits.core import keys
from latentbits.core.batch import MISSING
from latentbits.core.model import Summary
from latentbits.core.packed_symmetric import products
from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import bits, classes, column_kinds, equations, mixture_of_maps, reals
from latentbits.models.latent_trait.acceleration import left_of, with_left
from latentbits.models.latent_trait.model import METHODS, model

FLOAT64 = np.dtype(np.float64)


@jax.jit
def _in_a_plane(params, table):
    record, batch = model(2), batch_of(table)
    return tuple(f(params, None, batch) for f in (record.log_likelihood, record.infer, record.complete))


@pytest.mark.parametrize(("scale", "tolerance"), [(1.3, 1e-6), (4.0, 5e-3)])
def test_likelihoods_posteriors_and_completions_are_those_of_a_dense_grid(scale, tolerance):
    """In two dimensions; steep bits have posteriors far from Gaussian."""
    table, w, b = simulate(40, 6, 2, missing=0.2, scale=scale)
    table[0], table[1] = MISSING, 1
    with double():
        scored, posterior, filled = to_numpy(_in_a_plane(parameters(w, b), table))
    np.testing.assert_allclose(scored.value, by_row(equations.likelihood, table, w, b), atol=tolerance)
    assert abs(scored.value[0]) < 1e-9  # nothing seen: log 1
    points, _ = equations.grid(2)
    share = by_row(equations.posterior, table, w, b)
    mean = share @ points
    covariance = np.einsum("nk,ki,kj->nij", share, points, points, optimize=True) - mean[:, :, None] * mean[:, None]
    np.testing.assert_allclose(posterior.mean, mean, atol=10 * tolerance)
    np.testing.assert_allclose(posterior.covariance, covariance, atol=10 * tolerance)
    np.testing.assert_allclose(filled, share @ equations.probability(points, w, b), atol=tolerance)
    assert np.all(np.abs(posterior.mode - points[np.argmax(share, axis=1)]) < 0.2)  # the grid's own step
    p, seen = equations.probability(posterior.mode, w, b), table != MISSING
    slope = np.where(seen, table - p, 0) @ w - posterior.mode
    np.testing.assert_allclose(slope, 0, atol=1e-6)  # at the mode
    precision = np.eye(2) + np.einsum("nd,di,dj->nij", seen * p * (1 - p), w, w)
    np.testing.assert_allclose(posterior.mode_covariance, np.linalg.inv(precision), rtol=1e-5)


@partial(jax.jit, static_argnums=0)
def _scored(q, params, table):
    return model(q).log_likelihood(params, None, batch_of(table))


@pytest.mark.parametrize(
    ("q", "d", "scale", "tolerance"),
    [
        (1, 60, 1.3, 1e-7),
        pytest.param(1, 6, 6.0, 1e-3, marks=pytest.mark.slow("one more rule to compile")),
        pytest.param(2, 60, 1.0, 1e-5, marks=pytest.mark.slow("one more rule to compile")),
    ],
)
def test_likelihoods_by_other_rules(q, d, scale, tolerance):
    table, w, b = simulate(40, d, q, missing=0.1, scale=scale)
    with double():
        found = to_numpy(_scored(q, parameters(w, b), table))
    np.testing.assert_allclose(found.value, by_row(equations.likelihood, table, w, b), atol=tolerance)


def test_rows_with_few_observed_of_many_steep_columns():
    """Nine of ten are missing: the rules are those of few columns, and their error is told."""
    table, w, b = simulate(40, 60, 1, missing=0.9, scale=5.0)
    with double():
        found = to_numpy(_scored(1, parameters(w, b), table))
    away = np.abs(found.value - by_row(equations.likelihood, table, w, b))
    assert away.sum() < found.error.sum() + 1e-6


@pytest.mark.slow("a sum over draws from the prior")
@pytest.mark.parametrize("q", [8, 16])
def test_in_many_dimensions_likelihoods_tell_their_error(q):
    """Against draws from the prior, by nothing but the model's definition."""
    table, w, b = simulate(24, 10, q, missing=0.1, scale=2 / np.sqrt(q))
    with double():
        found = to_numpy(_scored(q, parameters(w, b), table))
    rng, total, squares = np.random.default_rng(3), np.zeros(24), np.zeros(24)
    n_draws, block = 2**17 if q == 8 else 2**19, 2**14
    for _ in range(n_draws // block):
        draws = rng.normal(size=(block, q))
        p = np.exp(by_row(lambda t, w, b: equations.row_given(t, draws, w, b), table, w, b))  # noqa: B023
        total, squares = total + p.sum(1), squares + (p**2).sum(1)
    mean = total / n_draws
    own = np.sqrt((squares / n_draws / mean**2 - 1) / n_draws)  # of the draws
    away = (found.value - np.log(mean)) / np.hypot(found.error, own)
    assert own.max() < 0.02
    assert np.all((found.error > 0) & (found.error < 0.05))
    assert np.abs(away).max() < 5
    assert 0.4 < np.sqrt(np.mean(away**2)) < 2


@pytest.mark.slow("plain EM to its end, thousands of passes")
@pytest.mark.optimised
@pytest.mark.parametrize("method", ["variational", "quadrature"])
def test_acceleration_gives_the_same_optimum_in_fewer_passes(method):
    table, _, _ = simulate(600, 12, 2, seed=3)
    fast, plain = (
        fit(model(2, method, accelerate=a), MemoryEngine(table), seed_key(0), limits=Limits(3000, t), dtype="float64")
        for a, t in ((True, 1e-9), (False, 1e-11))
    )
    assert fast.reason == "converged"
    reached = next(i for i, record in enumerate(fast.history) if record.objective > plain.objective)
    assert reached < plain.n_iter / 2
    assert fast.objective > plain.objective - 2e-3
    np.testing.assert_allclose(fast.objective, plain.objective, atol=0.02)  # plain EM still crawls where it stops


# ---------------------------------------------------------------- without rows

MIXED = column_kinds.Columns((0, 2, 5), (1, 4), (3,), (3,))


def _summary():
    rng = np.random.default_rng(5)
    sample = (rng.random((90, 6)) < rng.random((90, 1))).astype(float)
    sample[:, 3] += rng.integers(0, 2, 90)
    seen = (rng.random(sample.shape) < 0.9).astype(np.uint8)
    return Summary(np.array(90.0), sample.mean(0), sample.var(0), seen.sum(0) * 1.0, sample * seen, seen)


def _sums(q, value, seed):
    """Make sums of rows that nothing has seen: each of a mixed table, curvatures positive definite."""
    rng, n = np.random.default_rng(seed), 90.0
    squares = lambda *shape: products(rng.normal(size=(*shape, 40, q + 1))).sum(-2)  # noqa: E731
    latents = np.concatenate([rng.normal(size=(80, q)), np.ones((80, 1))], 1)
    total = n * products(latents).mean(0)
    j, k = np.triu_indices(q + 1)
    return column_kinds.Stats(
        np.array(n), np.array([value, 0.25]), total[(k == q) & (j < q)], total[k < q],
        bits.Stats(rng.normal(size=(3, q + 1)), squares(3), np.array([30.0, 0, 50]), np.full(3, n)),
        reals.Stats(squares(2), rng.normal(size=(2, q + 1)), np.array([50.0, 60.0]), np.full(2, n)),
        (classes.Stats(rng.normal(size=(2, q + 1)), squares(), np.array([20.0, 30.0]), np.array(n)),),
    )  # fmt: skip


@pytest.mark.parametrize("prior", [None, 3.0])
@pytest.mark.parametrize("maps", [1, 2])
def test_what_sees_no_rows_says_the_same_in_numpy_and_compiled(maps, prior):
    """The start, and steps that climb, and that are taken back."""
    settings = {"columns": MIXED, "weight_prior": prior}
    record = model(5, **settings) if maps == 1 else mixture_of_maps.model(2, 2, **settings)
    q, key, summary = (5 if maps == 1 else 2), keys.of_seed(3), _summary()
    with double():
        begun = lambda key, summary: (p := record.init(key, summary), record.start(p))  # noqa: E731
        sides = [begun(key, summary), jax.jit(lambda key, summary: begun(keys.typed(key), summary))(key, summary)]
        compiled = jax.jit(lambda *given: (record.objective(*given[1:]), *record.update(*given, now())))
        for number, value in enumerate([-300.0, -250.0, -240.0, -260.0, -230.0]):
            each = [_sums(q, value, 10 * number + one) for one in range(maps)]
            stats = each[0]
            if maps > 1:
                stacked = jax.tree.map(lambda *x: np.stack(x), *each)
                stats = mixture_of_maps.Stats(stats.n_rows, stats.objective, np.array([40.0, 50.0]), stacked)
            found = []
            for (params, state), step in zip(sides, (None, compiled)):
                shared = record.prepare(params, state, None)
                given = state, params, shared, stats
                if step is None:
                    found.append((record.objective(*given[1:]), *record.update(*given, now())))
                else:
                    found.append(step(*given))
            jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), *map(to_numpy, found))
            sides = [(params, state) for _, state, params in found]
    assert not any(isinstance(x, jax.Array) for x in jax.tree.leaves(sides[0]))


# ---------------------------------------------------------------- priors


def _functions(record):
    """Give all that an engine may compile, by name."""
    of_model = {name: f for name, f in record._asdict().items() if callable(f)}
    of_stages = {
        f"{stage.name}: {name}": f for stage in record.stages for name, f in vars(stage).items() if callable(f)
    }
    return of_model | of_stages


@pytest.mark.parametrize("q", [1, 4])
@pytest.mark.parametrize("method", METHODS)
def test_a_prior_is_a_number_and_no_constant(method, q):
    """Functions and structure are the same for every prior; that there is one at all is in the structure of two."""
    none, weak, strong = (_functions(model(q, method, weight_prior=prior)) for prior in (None, 3.0, 1.0))
    assert set(none) == set(weak) == set(strong)
    assert "update" in weak
    for name, function in weak.items():
        assert jax.tree.structure(function) == jax.tree.structure(strong[name]), name
    differ = {name for name in weak if jax.tree.structure(none[name]) != jax.tree.structure(weak[name])}
    assert {name.split(": ")[-1] for name in differ} == {"update", "objective"}
    assert {name for name in weak if weak[name] is not strong[name]} == differ


def test_a_prior_is_a_penalty_on_weights():
    _, w, b = simulate(1, 5, 1)
    stats = SimpleNamespace(objective=np.array([-3.0, 0.5]))
    for method, prior in (("quadrature", 3.0), ("monte_carlo", 0.5)):
        record = model(1, method, weight_prior=prior)
        with double():
            found = record.objective(parameters(w, b), None, stats)
        np.testing.assert_allclose(found, -2.5 - 0.5 * np.sum(w**2) / prior**2)


def test_one_small_promise_after_a_step_taken_back_is_not_what_is_left():
    """Without former points there is nothing to extrapolate from, and the step is one of EM, however slow that is."""
    _, w, b = simulate(10, 6, 1)
    record = model(1)

    def after(state, slope, refused=0):
        state = eqx.tree_at(lambda s: s.anderson.refused, state, jnp.asarray(refused))
        return with_left(state, jnp.asarray(slope))

    def left(state):
        return float(left_of(state))

    state = record.start(parameters(w, b))
    assert left(state) == np.inf
    for slope in (0.03, 0.02, 0.01):
        state = after(state, slope)
    np.testing.assert_allclose(left(state), 10 * 0.03 / 2, rtol=1e-6)
    back = after(state, 1e-9, refused=1)
    np.testing.assert_allclose(left(back), left(state))
    small = after(back, 1e-6)
    np.testing.assert_allclose(left(small), 10 * 0.02 / 2, rtol=1e-6)
    np.testing.assert_allclose(left(after(after(small, 1e-6), 2e-6)), 1e-5, rtol=1e-6)
    assert np.isnan(left(after(small, 1e-9, refused=3)))


@pytest.mark.slow("fits of independent bits crawl, and go on with more nodes")
@pytest.mark.parametrize("seed", [2, 5, 9])
def test_a_longer_fit_gains_no_more_than_was_said(seed):
    """Where nothing is hidden, the likelihood hardly depends on the slopes, and EM crawls."""
    rng = np.random.default_rng(seed)
    X = (rng.random((240, 6)) < rng.uniform(0.2, 0.8, 6)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights that run away
        short, longer = (LatentTrait(1, random_state=0, tol=tol).fit(X) for tol in (1e-7, 1e-12))
    assert short.converged_
    assert longer.objective_ - short.objective_ < 1e-7 * len(X)
