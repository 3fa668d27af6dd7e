"""Mixtures against a twin bit by bit, and what is learned by all stages together."""

from __future__ import annotations

from itertools import product as every

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.models.mixture import twin
from tests.models.steps import batch_of, step, unchecked
from tests.tables import as_bytes, classes

from latentbits import BernoulliMixture, load
from latentbits.core.tree import cast, double, to_numpy
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models import product
from latentbits.models.mixture import model as mixture
from latentbits.models.mixture import tuning

PLAIN = mixture.model(3, accelerate=False)
WEIGHTS = np.random.default_rng(0).integers(0, 3, 240).astype(float)


@pytest.mark.parametrize(("missing", "smoothing"), [(0, 0.0), (0, 2.0), (0.3, 1.5)])
def test_em_against_plain_em(missing, smoothing):
    table, at = as_bytes(classes(k=3, missing=missing)), twin.some_parameters()
    for _ in range(3):
        wanted, value = twin.em(table, at, smoothing, WEIGHTS)
        _, found, objective = step(
            mixture.model(3, smoothing, accelerate=False), at, table, WEIGHTS, complete=not missing
        )
        np.testing.assert_allclose(objective, value, rtol=1e-12)
        np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-10)
        np.testing.assert_allclose(found.means, wanted.means, rtol=1e-10)
        at = wanted


def test_a_component_that_owns_nothing_stays_put():
    start = twin.parameters([1.0, 0, 0], [[0.1] * 6, [0.999] * 6, [0.99] * 6])
    _, found, _ = step(PLAIN, start, np.zeros((240, 6), np.uint8), complete=True)
    np.testing.assert_allclose(found.weights, [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.means, [[0] * 6, [0.999] * 6, [0.99] * 6], atol=1e-12)


def test_likelihood_memberships_completion_and_draws_are_sums_over_components():
    """Rows are all patterns of bits and holes of four columns."""
    table, at, n = np.array(list(every([0, 1, 255], repeat=4)), np.uint8), twin.some_parameters(3, 4), 20000

    @jax.jit
    def everything(p, table, key):
        shared, batch = PLAIN.prepare(p, None, None), batch_of(table)
        found = PLAIN.infer(p, shared, batch)
        filled = PLAIN.complete(p, shared, batch), PLAIN.decode(p, found.mean)
        drawn = PLAIN.sample(p, shared, jax.random.split(key, n))
        return PLAIN.log_likelihood(p, shared, batch).value, found.mean, found.mode, *filled, drawn

    with double():
        value, mean, mode, filled, decoded, drawn = to_numpy(everything(at, table, jax.random.key(1)))
    joint = twin.log_joint(table, at)
    share = twin.shares(joint)
    np.testing.assert_allclose(value, np.logaddexp.reduce(joint, axis=1), atol=1e-12)
    np.testing.assert_allclose(mean, share, rtol=1e-10)
    np.testing.assert_array_equal(mode, np.eye(3)[share.argmax(1)])
    np.testing.assert_allclose(filled, share @ at.means, rtol=1e-10)
    np.testing.assert_allclose(decoded, filled, rtol=1e-10)
    whole = ~(table == 255).any(1)
    wanted = np.exp(value[whole])  # of 0000, 0001 and so on
    found = np.bincount(drawn.astype(int) @ [8, 4, 2, 1], minlength=16) / n
    np.testing.assert_allclose(wanted.sum(), 1)
    assert np.all(np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n))


@pytest.mark.parametrize("kind", ["mixture", "product"])
def test_which_value_is_called_one_does_not_matter(kind):
    """Rare bits and their complements are as probable, in float32 too: nothing cancels."""
    rng = np.random.default_rng(0)
    rare = (rng.random((240, 784)) < rng.beta(0.1, 4, (4, 784))[rng.integers(4, size=240)]).astype(np.uint8)
    start = twin.parameters(np.full(4, 0.25), rng.beta(0.1, 4, (4, 784)).clip(1e-6, 0.9))
    exact = np.logaddexp.reduce(twin.log_joint(rare, start), axis=1)
    given = start, twin.parameters(start.weights, 1 - start.means)
    model = mixture.model(4, 1.0, accelerate=False)
    if kind == "product":
        model, given = product.model(1.0), [unchecked(product.Params, p.means[0]) for p in given]
        exact = twin.log_joint(rare, twin.parameters([1.0], start.means[:1]))[:, 0]

    @jax.jit
    def log_p(p, table):
        p, shared = cast((p, model.prepare(p, None, None)), np.dtype(np.float32))
        return model.log_likelihood(p, shared, batch_of(table, complete=True, dtype=np.float32)).value

    with double():
        found, other = (np.asarray(log_p(p, table)) for p, table in zip(given, (rare, 1 - rare)))
    np.testing.assert_allclose(found, exact, rtol=3e-6)
    np.testing.assert_allclose(other, exact, rtol=3e-6)


def test_given_parameters_may_be_float32():
    start = unchecked(
        mixture.Params, *(np.array(x, np.float32) for x in ([0.5, 0.5], np.linspace(0, 1, 12).reshape(2, 6)))
    )
    engine = MemoryEngine(as_bytes(classes()))
    result = fit(mixture.model(2, accelerate=False), engine, seed_key(0), params=start, limits=Limits(4, -np.inf))
    assert result.params.means.dtype == np.float64


# ---------------------------------------------------------------- annealing


def test_annealing_against_tempered_posteriors():
    """The objective is that of beta = 1."""
    table, at = as_bytes(classes(k=3, missing=0.3)), twin.some_parameters()
    model = mixture.model(3, 0.5, "anneal", accelerate=False)
    acting = model.acting_in(model.stages[0])
    for i in (0, 7):
        beta = tuning.ANNEALING_FIRST_BETA + (1 - tuning.ANNEALING_FIRST_BETA) * i / tuning.ANNEALING_PASSES
        wanted, value = twin.em(table, at, 0.5, beta=beta)
        _, found, objective = step(acting, at, table, None, i, tuning.ANNEALING_PASSES)
        np.testing.assert_allclose(objective, value, rtol=1e-10)
        np.testing.assert_allclose(found.weights, wanted.weights, rtol=1e-10)
        np.testing.assert_allclose(found.means, wanted.means, rtol=1e-10)


@pytest.mark.slow("an annealed fit")
def test_annealing_chooses_a_strength_when_components_differ_and_files_keep_it(tmp_path):
    """While all components are alike, the strength that they make most probable would hold them so for ever."""
    rng = np.random.default_rng(0)
    causes = rng.random((200, 3)) < 0.4
    weights = 2 * np.random.default_rng(99).normal(size=(3, 7))
    X = rng.random((200, 7)) < 1 / (1 + np.exp(0.5 - causes @ weights))
    m = BernoulliMixture(6, init="anneal", smoothing="auto", random_state=0, n_init=1, accelerate=False).fit(X)
    assert tuning.SMOOTHING_FIRST_ROWS != m.smoothing_ < 20
    assert np.ptp(m.means_, axis=0).max() > 0.3
    np.testing.assert_array_equal(m.weights_, np.sort(m.weights_)[::-1])
    m.save(tmp_path / "m.safetensors")
    read = load(tmp_path / "m.safetensors")
    assert read.smoothing_ == m.smoothing_
    assert read.score(X) == m.score(X)
    with pytest.raises(ValueError, match=f"smoothing={m.smoothing_:g} keeps"):
        m.criteria(X)


# ---------------------------------------------------------------- arriving


def three_ratings(seed):
    """Five raters who agree by degrees: classes that EM tells apart in thousands of iterations, past saddle points."""
    rng = np.random.default_rng(seed)
    means = np.stack([rng.uniform(0.4, 0.95, 5), rng.uniform(0.1, 0.6, 5), rng.uniform(0.005, 0.08, 5)])
    which = rng.choice(3, 3869, p=[0.073, 0.21, 0.717])
    return (rng.random((3869, 5)) < means[which]).astype(np.uint8)


def test_a_mixture_arrives_and_tells_what_is_left():
    """Three thousand more iterations of EM gain nothing to speak of, and what they gain was told."""
    table = three_ratings(2)
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    engine, start = MemoryEngine(patterns, counts.astype(float)), twin.some_parameters(3, 5)
    limits = Limits(1000, 1e-7)
    end = fit(mixture.model(3, by_newton=True), engine, seed_key(0), params=start, dtype="float64", limits=limits)
    assert end.reason.converged
    assert end.history[-1].stage == "Newton"
    assert end.left < 1e-7 * len(table)
    at = twin.parameters(end.params.weights, np.clip(end.params.means, 1e-15, 1 - 1e-15))
    for _ in range(3000):
        at, value = twin.em(patterns, at, weights=counts)
        at = twin.parameters(at.weights, np.clip(at.means, 1e-15, 1 - 1e-15))
    assert value - end.objective < 0.002
    assert value - end.objective == pytest.approx(end.left, abs=3e-4)


@pytest.mark.slow("the end of a long fit by secants, and 400 steps of EM from there")
@pytest.mark.optimised
def test_large_mixtures_arrive_too():
    """By secants alone: hundreds of iterations of EM more gain less than a thousandth of a nat a hundred rows."""
    X = (load_digits().data > 7.5).astype(np.uint8)
    m = BernoulliMixture(8, random_state=0).fit(X)
    assert m.converged_
    assert tuning.NEWTON_MOST_PARAMETERS < 8 * 65
    plain, limits = mixture.model(8, 1.0, accelerate=False), Limits(400, -np.inf)
    more = fit(plain, MemoryEngine(X), seed_key(0), params=m.params_, dtype="float64", limits=limits)
    assert more.objective - m.objective_ < 0.005
