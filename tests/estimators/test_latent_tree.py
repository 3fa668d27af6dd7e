"""`LatentTree` and `ChowLiuTree`: what they come to where that is known, and tables at the edge."""

from __future__ import annotations

import warnings
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from latentbits import BernoulliProduct, ChowLiuTree, LatentTree, load
from latentbits.estimators.families import name_of, size_of


def chain(n=300, d=5, seed=0, missing=0.0):
    """Each bit is mostly that on its left."""
    rng = np.random.default_rng(seed)
    X = (np.cumsum(rng.random((n, d)) < 0.25, axis=1) % 2).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def few_passes(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(random_state=0, max_iter=3, dtype="float64").fit(X)


def every_row(d):
    return np.array(list(product([0.0, 1.0], repeat=d)))


def test_one_state_is_independent_bits():
    X = chain(missing=0.1)
    one = LatentTree(1, smoothing=0, random_state=0, dtype="float64").fit(X)
    wanted = BernoulliProduct(smoothing=0, dtype="float64").fit(X)
    np.testing.assert_allclose(one.score_samples(X), wanted.score_samples(X), rtol=1e-10)
    assert one.n_parameters_ == wanted.n_parameters_
    assert one.converged_


@pytest.mark.parametrize("max_iter", [0, 3])
def test_counting_is_no_iteration(max_iter):
    """A user reads the number of iterations that was asked for, and none is no end of learning."""
    with pytest.warns(ConvergenceWarning, match=f"reached max_iter after {max_iter} iterations"):
        m = LatentTree(2, random_state=0, max_iter=max_iter).fit(chain())
    assert (m.n_iter_, m.converged_) == (max_iter, False)


def test_a_chow_liu_tree_made_by_hand():
    X = chain()
    d = X.shape[1]
    share = {(i, j): np.array([[np.mean((X[:, i] == a) & (X[:, j] == b)) for b in (0, 1)] for a in (0, 1)])
             for i in range(d) for j in range(d) if i != j}  # fmt: skip

    def information(q):
        return float(np.sum(q * np.log(q / (q.sum(1, keepdims=True) * q.sum(0)))))

    reached, log_p = [0], np.log(np.where(X[:, 0] == 1, X[:, 0].mean(), 1 - X[:, 0].mean()))
    edges = set()
    while len(reached) < d:  # Prim's way
        i, j = max(((i, j) for i in reached for j in range(d) if j not in reached), key=lambda e: information(share[e]))
        q = share[i, j] / share[i, j].sum(1, keepdims=True)
        log_p += np.log(q[X[:, i].astype(int), X[:, j].astype(int)])
        edges.add(frozenset((i, j)))
        reached.append(j)
    m = ChowLiuTree(smoothing=0, dtype="float64").fit(X)
    assert {frozenset((j, p)) for j, p in enumerate(m.parents_[0].tolist()) if p >= 0} == edges
    np.testing.assert_allclose(m.score_samples(X), log_p, rtol=1e-9)
    for j, p in enumerate(m.parents_[0].tolist()):
        np.testing.assert_allclose(m.information_[0, j], information(share[p, j]) if p >= 0 else 0, atol=2e-3)
    assert m.n_parameters_ == 2 * d - 1
    assert m.fit_report(X).notes == ()


EDGES = {
    "constant": lambda X: np.column_stack([X, np.ones(len(X)), np.zeros(len(X))]),
    "never seen": lambda X: np.column_stack([X, np.full(len(X), np.nan)]),
    "twice": lambda X: np.column_stack([X, X]),
    "one row": lambda X: X[:1],
    "one column": lambda X: X[:, :1],
    "one bit": lambda X: X[:1, :1],
    "a row without any": lambda X: np.vstack([X, np.full((1, X.shape[1]), np.nan)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
@pytest.mark.parametrize("edge", EDGES)
def test_tables_at_the_edge(edge, smoothing):
    X = EDGES[edge](chain(40, 3, missing=0.1))
    for model in (LatentTree((np.arange(X.shape[1]) % 3 + 1).tolist(), smoothing=smoothing),
                  ChowLiuTree(smoothing=smoothing)):  # fmt: skip
        m = few_passes(model, X)
        assert np.all(np.isfinite(m.score_samples(X)))
        assert np.all(np.diff(m.history_) > -1e-9)
        np.testing.assert_allclose(np.exp(m.score_samples(every_row(X.shape[1]))).sum(), 1, rtol=1e-9)
        filled = m.complete(X)
        assert np.all((filled >= 0) & (filled <= 1))
        np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_states_of_each_column(tmp_path):
    X = chain(60, 3, missing=0.1)
    m = few_passes(LatentTree((1, 3, 2), n_trees=2), X)
    assert m.transitions_.shape == (2, 3, 3, 3)
    assert np.all(m.transitions_[:, 0, :, 1:] == 0)
    assert np.all(m.transitions_[:, 2, :, 2] == 0)
    np.testing.assert_allclose(m.transform(X).reshape(60, 2, 3, 3).sum((1, 3)), 1, rtol=1e-9)
    m.save(tmp_path / "m.safetensors")
    same = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(same.score_samples(X), m.score_samples(X))
    assert same.n_parameters_ == m.n_parameters_
    assert (name_of(m), size_of(m)) == ("2 latent trees of 1 to 3 states", 1)


@pytest.mark.parametrize("n_states", [(2, 2), (2, 0, 2), (2.0, 2.0, 2.0)])
def test_states_that_are_none(n_states):
    with pytest.raises(ValueError, match="n_states must be a number from 1 on, or one for each of the 3 columns"):
        LatentTree(n_states).fit(chain(20, 3))


def test_softening_keeps_states_from_being_sure():
    X = chain(60, 3)
    plain, soft = (few_passes(LatentTree(2, smoothing=0, softening=s), X) for s in (0.0, 0.2))
    assert soft.history_[-1] < plain.history_[-1]
    assert "softening=0.2" in soft.fit_report(X).notes[0]
    np.testing.assert_allclose(np.exp(soft.score_samples(every_row(3))).sum(), 1, rtol=1e-9)


def bits_entropy(m, d):
    log_p = m.score_samples(every_row(d))
    return -np.sum(np.exp(log_p) * log_p)


@pytest.mark.parametrize("hidden", [True, False])
def test_entropy_keeps_a_model_from_being_sure(hidden, tmp_path):
    X = chain(60, 3, missing=0.1)
    model = LatentTree((1, 3, 2), n_trees=2) if hidden else LatentTree(hidden=False)
    plain, some, most = (few_passes(model.set_params(entropy=tau), X) and deepcopy(model) for tau in (0.0, 0.3, 1e6))
    assert bits_entropy(plain, 3) < bits_entropy(some, 3) < bits_entropy(most, 3)
    np.testing.assert_allclose(np.exp(most.score_samples(every_row(3))), 1 / 8, atol=1e-5)
    assert np.all(np.diff(some.history_) > -1e-9)
    if hidden:
        assert np.all(some.transitions_[:, 0, :, 1:] == 0)  # states that there are not
    assert "entropy=0.3" in some.fit_report(X).notes[0]
    assert ("bits per row" in str(plain), "bits per row" in str(some)) == (True, False)  # the objective tells more
    some.save(tmp_path / "m.safetensors")
    same = load(tmp_path / "m.safetensors")
    assert same.entropy == 0.3
    np.testing.assert_array_equal(same.score_samples(X), some.score_samples(X))


def test_entropy_is_worth_something():
    with pytest.raises(ValueError, match="The 'entropy' parameter of LatentTree must be"):
        LatentTree(entropy=-0.1).fit(chain(20, 3))


@pytest.mark.slow
@pytest.mark.parametrize("table", [(300, 5, 0), (500, 6, 1)])
def test_what_is_left_to_gain_is_no_more_than_told(table):
    """EM crawls here: a pass gains less than float32 can tell long before it is at its end."""
    X, tol = chain(*table), 1e-6
    m = LatentTree(2, random_state=0, dtype="float32", tol=tol, max_iter=3000).fit(X)
    assert m.converged_
    assert m.left_to_gain_ <= tol * len(X)
    longer = LatentTree(2, random_state=0, dtype="float64", tol=1e-12, max_iter=10 * m.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer.fit(X)
    assert longer.n_iter_ > m.n_iter_
    assert longer.objective_ - m.objective_ < tol * len(X)


@pytest.mark.parametrize("n_trees", [1, 2])
def test_bits_that_are_missing_without_causes(n_trees):
    """A missing bit is a hidden state then: sums over all that it can be, and an update of their expected counts."""
    X = chain(12, 4, missing=0.3)
    every = every_row(X.shape[1])
    m = few_passes(LatentTree(hidden=False, n_trees=n_trees, smoothing=0.5), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        before = LatentTree(hidden=False, n_trees=n_trees, smoothing=0.5, random_state=0, dtype="float64", max_iter=2)
        before.fit(X)

    def joint(model):
        """P(tree, row) of every row."""
        bits = every.astype(int)
        found = np.tile(model.weights_[:, None], (1, len(every)))
        for tree, (parents, moves) in enumerate(zip(model.parents_, model.transitions_)):
            for j, p in enumerate(parents.tolist()):
                found[tree] *= moves[j, bits[:, p] if p >= 0 else 0, bits[:, j]]
        return found

    fits = np.all(np.isnan(X)[:, None] | (X[:, None] == every), axis=2)  # (rows, every row)
    np.testing.assert_allclose(m.score_samples(X), np.log(fits @ joint(m).sum(0)), rtol=1e-9, atol=1e-9)
    share = joint(m).sum(0) * fits
    share /= share.sum(1, keepdims=True)
    np.testing.assert_allclose(m.complete(X), share @ every, rtol=1e-9, atol=1e-9)

    share = joint(before)[:, None] * fits
    share /= share.sum((0, 2), keepdims=True)
    np.testing.assert_allclose(m.weights_, share.sum((1, 2)) / len(X), rtol=1e-9)
    for tree, parents in enumerate(m.parents_):
        for j, p in enumerate(parents.tolist()):
            counts = share[tree].sum(0)
            for above in (0, 1):
                given = counts * (every[:, p] == above if p >= 0 else 1)
                n = np.array([given[every[:, j] == bit].sum() for bit in (0, 1)])
                n += 0.5 / 4 if p >= 0 else 0.5 / 2  # a root has one distribution, and all that is spread
                np.testing.assert_allclose(m.transitions_[tree, j, above], n / n.sum(), rtol=1e-9)
