"""What the benchmark of binary sparse coding scores by, against every state written out; nothing is timed here."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.peers.contender import NotWaitedFor
from benchmarks.peers.families import binary_sparse_coding as family
from benchmarks.peers.families import mixture


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
    W = family.random_components(7, 5)
    test = family.sums(W, 60, 1.0).astype(float)
    params = {"W": W, "sigma": np.array([0.8]), "pi": prior}
    assert family.held_out(params, test) == pytest.approx(every_state(W, 0.8, np.broadcast_to(prior, 5), test))


def test_a_score_over_few_states_is_a_close_lower_bound():
    W = family.random_components(30, 12)
    lone = family.sums(W, 20, 1.0) @ W.T - np.sum(W * W, axis=1) / 2 - 2
    exact = family.exact_energies(lone, W @ W.T)
    assert family.near_energies(lone, W @ W.T, candidates=12, most=12) == pytest.approx(exact)
    few = family.near_energies(lone, W @ W.T, candidates=8, most=5)
    assert np.all(few <= exact + 1e-9)
    assert np.mean(exact - few) < 0.01


def test_a_pass_of_plain_numpy_is_exact_where_all_causes_are_candidates():
    W, sigma, pi, heat = family.random_components(6, 4), 0.9, 0.3, 1.5
    X = family.sums(W, 40, 1.0).astype(float)
    kept = np.arange(40) % 3 > 0
    squares = np.sum(X * X, axis=1)
    products, seconds, evidence, _ = family.truncated_pass(X, squares, W, sigma, pi, heat, (4, 4), kept)
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
