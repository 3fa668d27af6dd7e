"""Hidden trees by sums over all their states, in NumPy: a twin of `latent_tree`."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import jax
import numpy as np
from tests.models.steps import unchecked

from latentbits.core.batch import MISSING
from latentbits.models.latent_tree.model import Params
from latentbits.models.latent_tree.structure import ordered

# a chain and a fork, with roots in the middle; a star; and a forest with a root alone
CHAIN, FORK, STAR, FOREST = [1, 2, 5, 2, 3], [2, 2, 3, 5, 3], [5, 0, 0, 0, 0], [5, 0, 5, 2, 5]
# two trees of five columns each, whose variables have one to three states: all of one shape, so of one program
PAIRS = [([CHAIN, STAR], [1, 2, 3, 2, 1]), ([FORK, FOREST], [3, 2, 2, 3, 1])]
WEIGHTS = np.array([1, 2, 0, 1, 3, 1, 1, 0.5, 1, 1, 1, 1])  # how often rows count


def random_params(parents, sizes, seed: int = 0, hidden: bool = True) -> Params:
    """Draw parameters of some trees, far from even, as NumPy's arrays."""
    rng = np.random.default_rng(seed)
    parents, sizes = np.array(parents), np.array(sizes)
    (m, d), k = parents.shape, max(sizes)
    there, roots = np.arange(k) < sizes[:, None], parents == d
    transition = rng.gamma(0.5, size=(m, d, k, k)) * there[:, None]
    transition = np.where(roots[:, :, None, None], transition[:, :, :1], transition)
    transition /= transition.sum(3, keepdims=True)
    transition *= (roots[:, :, None] | there[np.where(roots, 0, parents)])[..., None]
    emission = rng.uniform(0.05, 0.95, (m, d, k)) if hidden else np.broadcast_to([0.0, 1.0], (m, d, 2))
    forms = [ordered(one) for one in parents]
    orders = padded([form.steps for form in forms], d, 4, 4), padded([form.leaves for form in forms], d, 2, 4)
    return unchecked(Params, rng.dirichlet(np.ones(m)), parents, np.zeros((m, d)), *orders, transition, emission)


def padded(parts, d, *least):
    """Put orders of several trees into one array, of `least` this shape."""
    found = np.full((len(parts), *np.max([least, *(x.shape for x in parts)], axis=0)), d + 1, np.int32)
    for one, part in zip(found, parts):
        one[: part.shape[0], : part.shape[1]] = part
    return found


def rows(n, d, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (n, d)).astype(np.uint8)
    table[rng.random((n, d)) < missing] = MISSING
    return table


def joint_of(p, table):
    """Give P(tree, all states, row): (trees, states, rows), term by term; and the states."""
    d, k = p.emission.shape[1:]
    every = np.array(list(product(range(k), repeat=d)))
    columns, found = np.arange(d), []
    for share, parent, moves, emits in zip(p.weights, p.parent, p.transition, p.emission):
        above = np.where(parent == d, 0, every[:, np.where(parent == d, 0, parent)])
        one = emits[columns, every][:, None]  # by states, rows and columns
        terms = np.where(table == 1, one, np.where(table == 0, 1 - one, 1.0))
        found.append(share * moves[columns, above, every].prod(1)[:, None] * terms.prod(2))
    return np.array(found), every


class Sums(NamedTuple):
    """Expected counts, and the log-likelihood, of rows as often as they count."""

    log_p: float
    members: np.ndarray
    moved: np.ndarray
    ones: np.ndarray
    zeros: np.ndarray


def sums_of(p, table, weights=1.0) -> Sums:
    """Take all sums of the E-step over all states."""
    (m, d, k), (joint, every) = p.emission.shape, joint_of(p, table)
    total = joint.sum((0, 1))
    share, own = joint / total * weights, np.eye(k)[every]
    moved = np.zeros((m, d, k, k))
    for tree, parent in enumerate(p.parent):
        for j, up in enumerate(parent):
            above = np.eye(k)[np.zeros(len(every), int) if up == d else every[:, up]]
            moved[tree, j] = np.einsum("ar,as,at->st", share[tree], above, own[:, j])
    ones, zeros = (np.einsum("mar,ajt,rj->mjt", share, own, table == bit) for bit in (1, 0))
    return Sums(np.sum(weights * np.log(total)), share.sum((1, 2)), moved, ones, zeros)


def with_prior(p, table, weights, smoothing, softening) -> tuple[Sums, Sums]:
    """Give the expected counts that an M-step has, those of the prior in them and alone.

    A bit that is flipped with probability `softening` is one more hidden state.
    """
    soft = p.emission + softening * (1 - 2 * p.emission)
    found = sums_of(unchecked(Params, *jax.tree.leaves(p)[:-1], soft), table, weights)
    kept, turned = (1 - softening) * p.emission / soft, softening * p.emission / (1 - soft)
    ones = found.ones * kept + found.zeros * turned
    zeros = found.ones + found.zeros - ones
    there = p.transition > 0
    sizes = there.any(2).sum(2)  # of states
    seen = (weights @ (table != MISSING), weights @ (table == 1))
    mean = ((seen[1] + smoothing / 2) / (seen[0] + smoothing))[:, None]
    even = smoothing * there.any(2) / sizes[..., None]
    moves = smoothing * there / there.sum((2, 3), keepdims=True)
    prior = Sums(0.0, np.zeros_like(found.members), moves, even * mean, even * (1 - mean))
    return Sums(found.log_p, found.members, found.moved + moves, ones + prior.ones, zeros + prior.zeros), prior


def expected_log_p(p, sums) -> float:
    """Sum the logarithms of parameters, each as often as it is expected to be used."""

    def log(x):
        return np.log(np.where(x > 0, x, 1))

    by_bits = np.sum(sums.ones * log(p.emission) + sums.zeros * log(1 - p.emission))
    return np.sum(sums.members * log(p.weights)) + np.sum(sums.moved * log(p.transition)) + by_bits


def entropy_of(p) -> float:
    """Add up the entropy of tree, states and bits together, over all of them."""
    every = np.array(list(product([0, 1], repeat=p.emission.shape[1])), np.uint8)
    joint = joint_of(p, every)[0]
    np.testing.assert_allclose(joint.sum(), 1)
    return -np.sum(joint[joint > 0] * np.log(joint[joint > 0]))


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
