"""The families of the benchmark beside peers: what they call a likelihood is one, and their tables are of bits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.peers import __main__ as run
from benchmarks.peers.contender import NotWaitedFor
from benchmarks.peers.families import binary_sparse_coding, chow_liu, mixture, noisy_or

D = 4
CHAIN = np.array([-1, 0, 1, 0])


def made_up(family):
    """Parameters of a model of four columns."""
    rng = np.random.default_rng(0)
    if family == "chow_liu":
        return {"parent": CHAIN, "ones": np.where(CHAIN[:, None] < 0, 0.3, rng.random((D, 2)))}
    if family == "latent_tree":
        moves = rng.random((D, 3, 3))
        moves[0] = moves[0, :1]
        return {"parent": CHAIN, "transition": moves / moves.sum(2, keepdims=True), "emission": rng.random((D, 3))}
    if family == "combination_machine":
        return {"weights": rng.normal(size=(3, D)), "hidden": rng.normal(size=3), "visible": rng.normal(size=D)}
    if family == "noisy_or":
        return {"weights": rng.random((3, D)), "leak": 0.1 * rng.random(D), "prior": rng.random(3)}
    if family == "latent_trait":
        return {"weights": rng.normal(size=(D, 2)), "bias": rng.normal(size=D)}
    weights = np.array([[0.7, 0.1], [0.6, -0.3], [-0.5, 0.5], [0.1, 0.6]])
    correlation = weights @ weights.T
    np.fill_diagonal(correlation, 1)
    return {"correlation": correlation, "threshold": rng.normal(size=D), "factors": np.array([[2]])}


FAMILIES = ["chow_liu", "latent_tree", "combination_machine", "noisy_or", "latent_trait", "clipped_gaussian"]


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_of_all_rows_sum_to_one(family):
    rows = np.array(list(product((0, 1), repeat=D)), np.uint8)
    params, held_out = made_up(family), run.load(family).held_out
    each = np.array([held_out(params, row[None]) for row in rows])
    assert np.exp(each).sum() == pytest.approx(1, abs=1e-4)
    assert each.std() > 0.1
    assert held_out(params, rows) == pytest.approx(each.mean())


@pytest.mark.parametrize("module", [chow_liu, noisy_or])
def test_plain_numpy_learns_more_than_independent_bits(module):
    (made,) = module.tables(quick=True).values()
    found = module.numpy_(made.train.astype(np.float32), seed=0, **made.settings)
    p = made.train.mean(0)
    alone = np.log(np.where(made.test == 1, p, 1 - p)).sum(1).mean()
    assert module.held_out(found, made.test) > alone + 0.1


def test_mixtures_are_scored_exactly():
    test = np.array([[0, 1], [1, 1]], np.uint8)
    means, weights = np.array([[0.2, 0.6], [0.9, 0.5]]), np.array([0.25, 0.75])
    rows = [0.25 * 0.8 * 0.6 + 0.75 * 0.1 * 0.5, 0.25 * 0.2 * 0.6 + 0.75 * 0.9 * 0.5]
    assert mixture.held_out({"weights": weights, "means": means}, test) == pytest.approx(np.log(rows).mean())


# --- binary sparse coding ---


def every_state(W, sigma, pi, test):
    """Mean log-likelihood of a row, state by state."""
    joint = []
    for s in product([0, 1], repeat=len(W)):
        prior = np.sum(np.where(s, np.log(pi), np.log1p(-pi)))
        left = np.sum((test - np.array(s) @ W) ** 2, axis=1) / sigma**2
        joint.append(prior - (left + W.shape[1] * np.log(2 * np.pi * sigma**2)) / 2)
    return np.mean(np.logaddexp.reduce(joint, axis=0))


@pytest.mark.parametrize("prior", [np.array(0.3), np.array([0.1, 0.2, 0.3, 0.4, 0.5])])
def test_test_rows_are_scored_over_every_state(prior):
    W = binary_sparse_coding.random_components(7, 5)
    test = binary_sparse_coding.sums(W, 60, 1.0).astype(float)
    params = {"W": W, "sigma": np.array([0.8]), "pi": prior}
    assert binary_sparse_coding.held_out(params, test) == pytest.approx(
        every_state(W, 0.8, np.broadcast_to(prior, 5), test)
    )


def test_a_score_over_few_states_is_a_close_lower_bound():
    W = binary_sparse_coding.random_components(30, 12)
    lone = binary_sparse_coding.sums(W, 20, 1.0) @ W.T - np.sum(W * W, axis=1) / 2 - 2
    exact = binary_sparse_coding.exact_energies(lone, W @ W.T)
    assert binary_sparse_coding.near_energies(lone, W @ W.T, candidates=12, most=12) == pytest.approx(exact)
    few = binary_sparse_coding.near_energies(lone, W @ W.T, candidates=8, most=5)
    assert np.all(few <= exact + 1e-9)
    assert np.mean(exact - few) < 0.01


def test_a_pass_of_plain_numpy_is_exact_where_all_causes_are_candidates():
    W, sigma, pi, heat = binary_sparse_coding.random_components(6, 4), 0.9, 0.3, 1.5
    X = binary_sparse_coding.sums(W, 40, 1.0).astype(float)
    kept = np.arange(40) % 3 > 0
    squares = np.sum(X * X, axis=1)
    products, seconds, evidence, _ = binary_sparse_coding.truncated_pass(X, squares, W, sigma, pi, heat, (4, 4), kept)
    states = np.array(list(product([0, 1], repeat=4)))
    left = np.sum((X[:, None] - states @ W) ** 2, axis=2)
    joint = states.sum(1) * np.log(pi / (1 - pi)) - left / (2 * heat * sigma**2)
    assert evidence == pytest.approx(np.logaddexp.reduce(joint, axis=1))
    p = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])[kept]
    assert products == pytest.approx((p @ states).T @ X[kept])
    assert seconds == pytest.approx(np.einsum("ns,sh,sg->hg", p, states, states))


def test_polca_is_not_waited_for_where_it_takes_long():
    with pytest.raises(NotWaitedFor, match="more than"):
        mixture.polca(np.zeros((mixture.POLCA_ROWS + 1, 2), np.uint8), seed=0, components=2, starts=1)
