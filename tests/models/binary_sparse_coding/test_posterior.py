"""One step of binary sparse coding, E and M, against the paper's equations, which form W s for every state."""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sparse_coding
from scipy.special import logsumexp

from latentbits.core import tree
from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.models.binary_sparse_coding import equations, posterior, selection
from latentbits.models.binary_sparse_coding.equations import Theta
from latentbits.models.binary_sparse_coding.map_states import probable_states
from latentbits.models.binary_sparse_coding.model import Params, model
from latentbits.models.binary_sparse_coding.recipes import OURS

N, D, BEST = 70, 8, 4
QUIET = OURS._replace(temperature=1.0, parameter_noise=0.0)


@cache
def stepper(e_step, start, n_candidates, max_active):
    """Compile a step; the numbers of its functions, and the least evidence of a row to learn from, are arguments."""
    states = posterior.state_table(n_candidates, max_active)

    @jax.jit
    def step(prepare, update, params, batch, progress, evidence):
        shared = prepare(params, None, progress)
        threshold = selection.scores(evidence[None], jnp.full(1, float(D)), shared.column, shared.precision)[0]
        shared = eqx.tree_at(lambda s: s.threshold, shared, threshold)
        found = posterior.expectations(params, shared, batch, states)
        best = probable_states(params, shared, batch, states, BEST)
        stats, _ = e_step(params, shared, batch, None)
        return found, best, stats, update(start(params), params, shared, stats, progress)[1]

    return step


def one_step(m, size, theta, X, iteration=0, seed=0, evidence=-np.inf):
    """Take a step from theta, in float64."""
    with tree.double():
        params = Params(*(jnp.asarray(x) for x in (theta.W.T, theta.sigma, theta.pi, 0.0, 0.0)))
        rows = jnp.asarray(X), jnp.uint32(0), jnp.uint32(N), jax.random.key(0)
        batch = make_batch(*rows, not np.isnan(X).any(), np.dtype(np.float64))
        progress = Progress(*(jnp.asarray(k) for k in (iteration, 60, iteration)), jax.random.key(seed))
        step = stepper(m.e_step, m.start, *size)
        found = step(m.prepare, m.update, params, batch, progress, jnp.asarray(np.asarray(evidence, float)))
        return jax.tree.map(np.asarray, found)


OTHER = pytest.mark.slow("another program")


@pytest.mark.parametrize(
    ("n_causes", "max_active", "n_candidates", "missing"),
    [
        (6, 3, 4, 0.3),
        (5, 5, 5, 0.0),
        pytest.param(5, 5, 5, 0.3, marks=OTHER),
        pytest.param(7, 1, 3, 0.2, marks=OTHER),
        pytest.param(5, 2, 2, 0.0, marks=OTHER),
    ],
)
def test_expectations_evidence_and_update_are_those_of_the_equations(n_causes, max_active, n_candidates, missing):
    theta = sparse_coding.some_theta(n_causes, D, seed=1, active=2.0)
    X = sparse_coding.draw(theta, N, seed=2, missing=missing)
    start = sparse_coding.some_theta(n_causes, D, seed=3, sigma=1.5)
    start = start._replace(W=theta.W + 0.3 * start.W)
    rows = sparse_coding.infer_all(X, start, max_active, n_candidates)
    expected = sparse_coding.update(X, rows, start, max_active)
    m = model(n_causes, max_active, n_candidates, QUIET)
    found, best, stats, learned = one_step(m, (n_candidates, max_active), start, X)
    np.testing.assert_allclose(found.log_evidence, [r.log_evidence for r in rows], rtol=1e-11)
    np.testing.assert_allclose(found.means.T, [r.mean for r in rows], atol=1e-11)
    for row, states, probabilities in zip(rows, best.states, best.probabilities):
        order = np.argsort(-row.probabilities)[:BEST]
        np.testing.assert_allclose(probabilities, row.probabilities[order], atol=1e-12)
        np.testing.assert_array_equal(states, row.states[order])
    second = stats.ss + stats.ss.T + np.diag(stats.s)
    np.testing.assert_allclose(second, sum(r.second for r in rows), atol=1e-10)
    np.testing.assert_allclose(learned.components, expected.W.T, atol=1e-8)
    np.testing.assert_allclose(learned.noise_std, expected.sigma, rtol=1e-9)
    np.testing.assert_allclose(learned.prior, expected.pi, rtol=1e-10)


THETA = sparse_coding.some_theta(6, D, seed=1, active=2.0)
X = sparse_coding.draw(THETA, N, seed=2)


def test_a_step_at_a_temperature_with_the_rows_above_a_threshold_is_that_of_the_equations():
    T, n_kept = 3.0, 40
    rows = sparse_coding.infer_all(X, THETA, 3, 4, temperature=T)
    evidence = np.array([T * logsumexp(equations.log_joint(y, r.states, THETA) / T) for y, r in zip(X, rows)])
    order = equations.best_rows([r._replace(log_evidence=e) for r, e in zip(rows, evidence)], N)
    kept = order[:n_kept]
    expected = sparse_coding.update(X[kept], [rows[n] for n in kept], THETA, 3)
    between = evidence[order[n_kept - 1 : n_kept + 1]].mean()
    m = model(6, 3, 4, QUIET._replace(temperature=T))
    _, _, stats, learned = one_step(m, (4, 3), THETA, X, evidence=between)
    assert stats.used == n_kept
    assert stats.free_energy.sum() == pytest.approx(evidence.sum(), rel=1e-11)
    np.testing.assert_allclose(learned.components, expected.W.T, atol=1e-8)
    assert learned.noise_std == pytest.approx(expected.sigma, rel=1e-9)
    assert learned.prior == pytest.approx(expected.pi, rel=1e-10)


def test_noise_on_the_components_ends_before_learning_does():
    for iteration, differ in ((0, True), (59, False)):
        one, two = (
            one_step(model(6, 3, 4, QUIET._replace(parameter_noise=None)), (4, 3), THETA, X, iteration, seed)[
                3
            ].components
            for seed in (0, 1)
        )
        assert bool((one != two).any()) == differ


def test_a_pass_that_leaves_no_row_to_learn_from_changes_nothing():
    """The threshold is that of the pass before: when the parameters leap, every row may be below it."""
    m = model(6, 3, 4, QUIET)
    _, _, stats, learned = one_step(m, (4, 3), THETA, X, iteration=30, evidence=np.inf)
    assert stats.used == 0
    np.testing.assert_array_equal(learned.components, THETA.W.T)
    assert learned.noise_std == THETA.sigma


def test_without_new_starts_causes_are_learned_by_the_same_equation_however_rare():
    """A cause that is expected in less than half a row keeps its component by default; eq. (6) says otherwise.

    One that is far from every row, of which it says nothing, is left alone.
    """
    rng = np.random.default_rng(0)
    W = np.eye(2, D) * 4
    rows = (rng.random((N, 1)) < 0.5) * W[0] + 0.5 * rng.normal(size=(N, D))
    theta = Theta(W.T, 1.0, 0.25)
    found = sparse_coding.infer_all(rows, theta)
    assert 1e-6 < sum(row.mean[1] for row in found) < 0.5
    right = equations.new_W(rows, found).T
    far = theta._replace(W=np.vstack([W, np.full(D, 1e3)]).T)
    plain = model(3, 3, 3, QUIET._replace(renew=False, cut=None))
    learned = one_step(plain, (3, 3), far, rows)[3]
    np.testing.assert_allclose(learned.components[:2], right, atol=1e-8)
    np.testing.assert_array_equal(learned.components[2], 1e3)
    assert learned.reseeded == 0


def test_noise_by_what_the_first_components_leave_over():
    """Equation (7) with the first components, before anything else is learned."""
    m = model(6, 3, 4, QUIET._replace(init_noise="residual"))
    theta = THETA._replace(sigma=2.0)
    learned = one_step(m, (4, 3), theta, X)[3]
    rows = sparse_coding.infer_all(X, theta, 3, 4)
    np.testing.assert_allclose(learned.noise_std, equations.new_sigma(X, rows, theta.W), rtol=1e-10)
    np.testing.assert_array_equal(learned.components, THETA.W.T)


def test_the_noise_as_printed_is_about_the_components_before_the_step():
    """Equation (7) with the W that was, (6) and (8) as ever: an iteration as the paper prints it."""
    m = model(6, 3, 4, QUIET._replace(noise_about="old"))
    learned = one_step(m, (4, 3), THETA._replace(sigma=2.0), X)[3]
    expected = equations.em_step(X, THETA._replace(sigma=2.0), 3, 4)
    np.testing.assert_allclose(learned.components, expected.W.T, atol=1e-8)
    np.testing.assert_allclose([learned.noise_std, learned.prior], expected[1:], rtol=1e-10)
    other = equations.em_step(X, THETA._replace(sigma=2.0), 3, 4, as_printed=False)
    assert other.sigma < 0.999 * expected.sigma
