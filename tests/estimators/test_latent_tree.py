"""`LatentTree` and `ChowLiuTree`: what they come to where that is known, and tables at the edge."""

from __future__ import annotations

import warnings
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.tables import chain

from latentbits import BernoulliProduct, ChowLiuTree, LatentTree, load
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.estimators.families import name_of, size_of

N, D = 240, 4  # of nearly all tables here: compiled code is shared
STATES = (1, 3, 2, 2)


def few_passes(model, X, max_iter=3):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(random_state=0, max_iter=max_iter, dtype="float64").fit(X)


def every_row(d):
    return np.array(list(product([0.0, 1.0], repeat=d)))


@pytest.fixture(scope="module")
def X():
    return chain(N, D, missing=0.1)


@pytest.fixture(scope="module")
def plain(X):
    """Two trees, the number of whose states is given for each column."""
    return few_passes(LatentTree(STATES, n_trees=2), X)


@pytest.mark.slow("two models are compiled for")
def test_one_state_is_independent_bits(X):
    one = LatentTree(1, smoothing=0, random_state=0, dtype="float64").fit(X)
    wanted = BernoulliProduct(smoothing=0, dtype="float64").fit(X)
    np.testing.assert_allclose(one.score_samples(X), wanted.score_samples(X), rtol=1e-10)
    assert one.n_parameters_ == wanted.n_parameters_
    assert one.converged_


@pytest.mark.slow("two trees at once")
@pytest.mark.parametrize("max_iter", [0, 3])
def test_counting_is_no_iteration(X, max_iter):
    """A user reads the number of iterations that was asked for, and none is no end of learning."""
    with pytest.warns(ConvergenceWarning, match=f"reached max_iter after {max_iter} iterations"):
        m = LatentTree(STATES, n_trees=2, random_state=0, max_iter=max_iter, dtype="float64").fit(X)
    assert (m.n_iter_, m.converged_) == (max_iter, False)


def test_a_chow_liu_tree_made_by_hand():
    X, d = chain(N, D), D
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
    assert (m.n_iter_, m.converged_, m.left_to_gain_) == (1, True, 0)
    np.testing.assert_allclose(m.objective_, log_p.sum(), rtol=1e-9)
    in_blocks = ChowLiuTree(smoothing=0, dtype="float64").fit(lambda: iter([X[:100], X[100:]]))
    np.testing.assert_array_equal(in_blocks.transitions_, m.transitions_)
    by_em = ChowLiuTree(smoothing=0, dtype="float64").fit(X, X_val=X)
    np.testing.assert_allclose(by_em.transitions_, m.transitions_, rtol=1e-9)


EDGES = {
    # constant columns, one that was never seen, one twice, and a row without any bit
    "awkward": lambda X: np.vstack([
        np.column_stack([X, np.tile([1, 0, np.nan], (len(X), 1)), X[:, 0]]), np.full((1, 7), np.nan)
    ]),
    "one row": lambda X: X[:1],
    "one bit": lambda X: X[:1, :1],
}  # fmt: skip


@pytest.mark.slow("every shape is compiled for")
@pytest.mark.parametrize(
    ("edge", "smoothing"), [("awkward", 0.0), ("awkward", 1.0), ("one row", 0.0), ("one bit", 0.0), ("one bit", 1.0)]
)
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


def test_states_of_each_column(plain, X):
    assert plain.transitions_.shape == (2, D, 3, 3)
    assert np.all(plain.transitions_[:, 0, :, 1:] == 0)
    assert np.all(plain.transitions_[:, 2, :, 2] == 0)
    np.testing.assert_allclose(plain.transform(X).reshape(N, 2, D, 3).sum((1, 3)), 1, rtol=1e-9)
    assert (name_of(plain), size_of(plain)) == ("2 latent trees of 1 to 3 states", 1)


@pytest.mark.parametrize("n_states", [(2, 2), (2, 0, 2), (2.0, 2.0, 2.0)])
def test_states_that_are_none(n_states):
    with pytest.raises(ValueError, match="n_states must be a number from 1 on, or one for each of the 3 columns"):
        LatentTree(n_states).fit(chain(20, 3))


def test_softening_keeps_states_from_being_sure(plain, X):
    soft = few_passes(LatentTree(STATES, n_trees=2, softening=0.2), X)
    assert soft.history_[-1] < plain.history_[-1]
    assert "softening=0.2" in soft.fit_report(X).notes[0]
    np.testing.assert_allclose(np.exp(soft.score_samples(every_row(D))).sum(), 1, rtol=1e-9)


def bits_entropy(m):
    log_p = m.score_samples(every_row(D))
    return -np.sum(np.exp(log_p) * log_p)


@pytest.mark.slow("entropies are compiled for")
@pytest.mark.parametrize("hidden", [True, False])
def test_entropy_keeps_a_model_from_being_sure(X, plain, hidden, tmp_path):
    model = LatentTree(STATES, n_trees=2) if hidden else LatentTree(hidden=False)
    plain = plain if hidden else few_passes(deepcopy(model), X)
    some, most = (few_passes(deepcopy(model).set_params(entropy=tau), X) for tau in (0.3, 1e6))
    assert bits_entropy(plain) < bits_entropy(some) < bits_entropy(most)
    np.testing.assert_allclose(np.exp(most.score_samples(every_row(D))), 1 / 2**D, atol=1e-5)
    assert np.all(np.diff(some.history_) > -1e-9)
    if hidden:
        assert np.all(some.transitions_[:, 0, :, 1:] == 0)  # states that there are not
    assert "entropy=0.3" in some.fit_report(X).notes[0]
    assert ("bits per row" in str(plain), "bits per row" in str(some)) == (True, False)  # the objective tells more
    some.save(tmp_path / "m.safetensors")
    same = load(tmp_path / "m.safetensors")
    assert (same.entropy, same.n_parameters_) == (0.3, some.n_parameters_)
    np.testing.assert_array_equal(same.score_samples(X), some.score_samples(X))


def test_entropy_is_worth_something():
    with pytest.raises(ValueError, match="The 'entropy' parameter of LatentTree must be"):
        LatentTree(entropy=-0.1).fit(chain(20, 3))


@pytest.mark.slow("two fits to the end")
def test_small_trees_converge_and_gain_no_more_than_was_said():
    """Plain EM crawls here for more than 1000 passes."""
    X = np.repeat(chain(N, 2), 2, axis=1)
    short, longer = (LatentTree(3, random_state=0, dtype="float64", tol=tol).fit(X) for tol in (1e-6, 1e-10))
    assert short.converged_
    assert longer.objective_ - short.objective_ < 1e-6 * N


@pytest.mark.slow("thousands of passes")
def test_what_is_left_to_gain_is_no_more_than_stated():
    """EM crawls here: a pass gains less than float32 can tell long before it is at its end."""
    X, tol = chain(300, 5), 1e-6
    m = LatentTree(2, random_state=0, dtype="float32", tol=tol, max_iter=3000).fit(X)
    assert m.converged_
    assert m.left_to_gain_ <= tol * len(X)
    longer = LatentTree(2, random_state=0, dtype="float64", tol=1e-12, max_iter=10 * m.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer.fit(X)
    assert longer.n_iter_ > m.n_iter_
    assert longer.objective_ - m.objective_ < tol * len(X)


@pytest.mark.slow("another model is compiled for")
def test_bits_that_are_missing_without_causes():
    """A missing bit is a hidden state then: sums over all that it can be, and an update of their expected counts."""
    X, every = chain(N, D, missing=0.3), every_row(D)
    model = LatentTree(hidden=False, n_trees=2, smoothing=0.5)
    before, m = (few_passes(deepcopy(model), X, k) for k in (0, 1))  # further passes leap

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


def test_counts_of_several_chunks_add_up():
    """In float64 sums are those of the host from the first chunk on, and are added to in place."""
    X = chain(3000, 6)
    model = ChowLiuTree()._model_for(MemoryEngine(X))
    whole, parts = (
        fit(model, MemoryEngine(X), seed_key(0), memory_budget=budget, dtype=np.dtype(np.float64))
        for budget in (2**24, 2**10)
    )
    np.testing.assert_array_equal(parts.params.transition, whole.params.transition)
    assert parts.objective == whole.objective


def test_fractions_of_rows_leave_no_negative_probability():
    X = np.repeat(chain(200_000, 1), 2, axis=1)  # the columns are equal, so that cells are empty
    weights = np.random.default_rng(0).uniform(0.1, 0.5, len(X))
    m = ChowLiuTree(smoothing=0).fit(X, sample_weight=weights)
    root, other = np.argsort(m.parents_[0])
    share = weights @ X[:, 0] / weights.sum()
    np.testing.assert_allclose(m.transitions_[0, root], [[1 - share, share]] * 2, rtol=1e-9)
    np.testing.assert_allclose(m.transitions_[0, other], np.eye(2), atol=1e-9)
    assert m.transitions_.min() >= 0
