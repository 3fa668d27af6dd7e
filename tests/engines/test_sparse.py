"""Lists of ones: what is summed, said and learned from them is what the rows written out give, to rounding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from tests.tables import baskets

from latentbits import BernoulliMixture, BernoulliProduct, ClippedGaussian, CombinationMachine
from latentbits.core import keys, tree
from latentbits.core.compilation import callable_tree
from latentbits.core.errors import DataError
from latentbits.core.model import Transform
from latentbits.engines import checkpoint
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.fit import seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.order import in_random_order
from latentbits.engines.passes import Clock, Pass, map_rows, prepared, start_pass, sum_blocks
from latentbits.engines.row_sample import SAMPLED_ROWS
from latentbits.engines.sparse import SparseEngine, layout_of
from latentbits.engines.stage import call
from latentbits.engines.summary import summarise
from latentbits.estimators.criteria import look
from latentbits.estimators.tables import opening
from latentbits.models import product
from latentbits.models.combination_machine import model as machines
from latentbits.models.combination_machine.machine import Params
from latentbits.models.combination_machine.recipes import FREUND
from latentbits.models.mixture import model as mixtures

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
CLOSE = {FLOAT32: 3e-5, FLOAT64: 1e-10}  # of sums over some hundred rows and forty columns
BUDGET = 2**13  # of memory: several chunks


TABLE = baskets()
WEIGHTS = np.random.default_rng(1).integers(1, 5, len(TABLE)) / 4
MODELS = {
    "product": product.model(1.0),
    "mixture": mixtures.model(3, smoothing=1.0),
    "mixture by Newton": mixtures.model(2, by_newton=True),
    "machine": machines.model(3, learner="pursuit+gradient", ranked=True),
    "machine of few active units": machines.model(3, learner="gradient", recipe=FREUND, max_active=2),
}
ALIKE = pytest.mark.slow("the same by another way of learning, or in another precision")
each_weights = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])


def listed(table, weights=None):
    csr = sparse.csr_array(table)
    return SparseEngine(csr.indptr, csr.indices, table.shape[1], weights)


def params_of(name):
    """Some parameters, in float64."""
    rng, d, k = np.random.default_rng(4), TABLE.shape[1], 2 if "Newton" in name else 3
    if name == "product":
        kind, values = product.Params, [rng.beta(0.3, 6, d)]
    elif "mixture" in name:
        kind, values = mixtures.Params, [rng.dirichlet(np.ones(k)), rng.beta(0.3, 6, (k, d))]
    else:
        kind, values = Params, [*(rng.normal(0, 0.3, shape) for shape in ((k, d), k, d)), 5.0, 0.0, 1.0, 0.0]
    with tree.double():
        return kind(*(jnp.asarray(x) for x in values))


def sums(model, engine, params, dtype):
    with tree.double():
        state = None if model.start is None else tree.strong(call(callable_tree(model.start), params))
    clock = Clock(np.int32(0), np.int32(5), np.int32(0), keys.raw(seed_key(1)))
    _, in_rows, shared = prepared(model, dtype, params, state, clock)
    layout = layout_of(model, engine, dtype, BUDGET)
    given = Pass(in_rows, shared, keys.raw(seed_key(2)))
    (total,) = sum_blocks(model, engine, layout, lambda: given, {})
    return layout, tree.to_numpy(total)


def assert_close(found, expected, dtype):
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=CLOSE[dtype], atol=CLOSE[dtype] * max(1, np.abs(y).max(initial=0)))


@pytest.mark.parametrize(
    ("name", "dtype", "weights"),
    [
        ("product", FLOAT64, WEIGHTS),
        ("mixture", FLOAT32, None),
        ("mixture by Newton", FLOAT64, WEIGHTS),
        pytest.param("machine", FLOAT64, WEIGHTS, marks=ALIKE),
        pytest.param("machine of few active units", FLOAT64, WEIGHTS, marks=ALIKE),
    ],
)
def test_statistics_are_those_of_the_rows_written_out(name, dtype, weights):
    model, params = MODELS[name], params_of(name)
    n_sparse = 0
    for stage in model.stages:
        if isinstance(stage, Transform):
            continue
        acting = model.acting_in(stage)
        layout, found = sums(acting, listed(TABLE, weights), params, dtype)
        _, expected = sums(acting, MemoryEngine(TABLE, weights), params, dtype)
        if hasattr(found, "log_weights"):  # pairs, of which the lower part is what rounding left of the upper
            pairs = lambda stats: stats.log_weights.sum(1)  # noqa: E731
            found, expected = (s.replace(log_weights=pairs(s)) for s in (found, expected))
        elif hasattr(found, "log_likelihood"):
            total = lambda stats: stats.log_likelihood.sum()  # noqa: E731
            found, expected = (s.replace(log_likelihood=total(s)) for s in (found, expected))
        assert layout.sparse == acting.sparse
        n_sparse += layout.sparse
        assert_close(found, expected, dtype)
    assert n_sparse > 0


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("product", FLOAT64),
        ("mixture", FLOAT32),
        pytest.param("machine", FLOAT64, marks=ALIKE),
        pytest.param("machine of few active units", FLOAT64, marks=ALIKE),
    ],
)
def test_answers_of_each_row_are_those_of_the_rows_written_out(name, dtype):
    model, params = MODELS[name], params_of(name)
    given = start_pass(model, dtype, params, seed_key(0))
    functions = [model.log_likelihood, model.infer]
    for function in functions if model.rounding is None else [*functions, model.rounding]:
        found, expected = (
            jax.tree.map(
                lambda *parts: np.concatenate(parts) if parts[0].ndim else parts[0],
                *map_rows(function, engine, layout_of(model, engine, dtype, BUDGET), given),
            )
            for engine in (listed(TABLE), MemoryEngine(TABLE))
        )
        if function is model.infer:  # of components that tie, either may come first
            found, expected = found.mean, expected.mean
        assert_close(found, expected, dtype)


def test_likelihoods_are_those_of_the_definition():
    """In float32, by columns that are nearly always 1, too: the error stays a small part of what was summed."""
    rng = np.random.default_rng(2)
    d, n = 1500, 200
    means = np.where(rng.random((2, d)) < 0.02, 1 - 1e-9, rng.beta(0.5, 60, (2, d)))
    rows = (rng.random((n, d)) < means[rng.integers(2, size=n)]).astype(np.uint8)
    logs = np.log(means)[:, None] * rows + np.log1p(-means)[:, None] * (1 - rows)
    exact = np.logaddexp(*(logs.sum(2) + np.log([[0.3], [0.7]])))
    model = mixtures.model(2)
    with tree.double():
        params = mixtures.Params(jnp.array([0.3, 0.7]), jnp.array(means))
    for dtype, error in ((FLOAT32, 1e-3), (FLOAT64, 1e-9)):
        engine = listed(rows)
        given = start_pass(model, dtype, params, seed_key(0))
        (found,) = map_rows(model.log_likelihood, engine, layout_of(model, engine, dtype), given)
        np.testing.assert_allclose(found.value, exact, atol=error)


# ---------------------------------------------------------------- the engine


@settings(max_examples=25)
@given(n=st.integers(1, 600), rows=st.sampled_from([64, 256]), block=st.one_of(st.none(), st.integers(1, 300)))
def test_chunks_are_the_canonical_ones(n, rows, block):
    table, weights = TABLE[:n], WEIGHTS[:n]
    engine = listed(table, weights)
    dense = list(rechunk([table], Layout(rows, FLOAT32, block), weights))
    for layout in (Layout(rows, FLOAT32, block), Layout(rows, FLOAT32, block, sparse=True)):
        chunks = list(engine.chunks(layout))
        assert [c[1:6] for c in chunks] == [c[1:6] for c in dense]
        for one, other in zip(chunks, dense, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)
            np.testing.assert_array_equal(written_out(one.values), other.values)


def written_out(values):
    if isinstance(values, np.ndarray):
        return values
    rows = np.zeros((len(values), values.n_columns + 1), np.uint8)
    rows[np.asarray(values.rows), np.asarray(values.columns)] = 1
    return rows[:, :-1]


def test_there_are_few_lengths_of_lists():
    engine = listed(baskets(20_000, 30))
    lengths = [len(chunk.values.columns) for chunk in engine.chunks(Layout(512, FLOAT32, sparse=True))]
    assert len(lengths) > 30
    assert len(set(lengths)) <= 3
    assert sum(lengths) < 1.2 * len(engine.columns)


@each_weights
def test_the_summary_is_that_of_the_rows_written_out(weights, monkeypatch):
    table = baskets(3000)
    weights = None if weights is None else np.resize(weights, 3000)
    expected = summarise(MemoryEngine(table, weights))
    monkeypatch.setattr(SparseEngine, "blocks", None)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-12), summarise(listed(table, weights)), expected)


@each_weights
def test_a_look_is_that_at_the_rows_written_out(weights, monkeypatch):
    expected = look(MemoryEngine(TABLE, weights))
    monkeypatch.setattr(SparseEngine, "blocks", None)
    found = look(listed(TABLE, weights))
    assert found[:2] == expected[:2]
    np.testing.assert_array_equal(found.idle, expected.idle)


def test_rows_are_shuffled_as_those_of_an_array():
    found, expected = (in_random_order(engine) for engine in (listed(TABLE, WEIGHTS), MemoryEngine(TABLE, WEIGHTS)))
    np.testing.assert_array_equal(np.concatenate(list(found.blocks())), expected.table)
    np.testing.assert_array_equal(found.weights, expected.weights)


def test_checkpoints_tell_sparse_tables_apart():
    one = checkpoint.fingerprint(listed(TABLE))
    assert one == checkpoint.fingerprint(listed(TABLE.copy()))
    assert one != checkpoint.fingerprint(listed(TABLE[::-1].copy()))
    assert one != checkpoint.fingerprint(listed(TABLE, WEIGHTS))


# ---------------------------------------------------------------- estimators


@pytest.fixture
def nothing_dense(monkeypatch):
    """Any sparse table stays one, and no more of its rows are written out than a start is drawn from."""
    written = SparseEngine.written_out

    def few(engine, numbers):
        assert len(numbers) <= SAMPLED_ROWS
        return written(engine, numbers)

    monkeypatch.setattr(opening, "LISTED_FROM_CELLS", 0)
    monkeypatch.setattr(opening, "CELLS_PER_ONE", 1)
    monkeypatch.setattr(SparseEngine, "written_out", few)
    monkeypatch.setattr(SparseEngine, "blocks", None)
    for kind in (sparse.csr_matrix, sparse.csr_array):
        monkeypatch.setattr(kind, "toarray", None)
        monkeypatch.setattr(kind, "todense", None)


COUNTS = np.random.default_rng(3).integers(0, 4, len(TABLE)).astype(float)  # some rows do not count


@pytest.mark.parametrize(
    ("estimator", "counts"),
    [
        (BernoulliProduct(), None),
        (BernoulliMixture(3, random_state=0, n_init=1, max_iter=5, accelerate=False, dtype="float64"), COUNTS),
        pytest.param(
            CombinationMachine(2, learner="gradient", n_epochs=2, max_iter=5, random_state=0, dtype="float64"),
            COUNTS,
            marks=ALIKE,
        ),
    ],
    ids=lambda x: getattr(x, "name", None) or type(x).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sparse_table_is_learned_as_the_same_array(estimator, counts, nothing_dense):
    X = sparse.csr_array(TABLE)
    dense, found = (clone(estimator).fit(rows, sample_weight=counts) for rows in (TABLE, X))
    assert isinstance(found._open(X, reset=False), SparseEngine)
    for a, b in zip(jax.tree.leaves(found.params_), jax.tree.leaves(dense.params_), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    assert found.objective_ == pytest.approx(dense.objective_, rel=1e-10)
    assert found.score(X, sample_weight=counts) == pytest.approx(dense.score(TABLE, sample_weight=counts), rel=1e-6)
    np.testing.assert_allclose(found.score_samples(X), dense.score_samples(TABLE), rtol=1e-5)
    np.testing.assert_allclose(found.transform(X), dense.transform(TABLE), atol=1e-6)
    np.testing.assert_allclose(found.posterior(X).mean, dense.posterior(TABLE).mean, atol=1e-6)


def opened(X, estimator=None, **options):
    return opening.open_rows(estimator or BernoulliProduct(), X, reset=True, sparse=True, **options)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_matrix", "coo_array"])
def test_every_sparse_format_will_do(kind, nothing_dense):
    engine = opened(getattr(sparse, kind)(TABLE.astype(float)))
    np.testing.assert_array_equal(engine.written_out(np.arange(300)), TABLE[:300])
    np.testing.assert_array_equal(engine.column_sums, TABLE.sum(0))


def test_what_is_stored_counts_by_its_value(nothing_dense):
    """Zeros that are stored are zeros, entries that are stored twice add up, and a threshold cuts."""
    ones = sparse.coo_array(TABLE.astype(float)).tocsr()
    zeros = ones.copy()
    zeros.data[::3] = 0
    kept = np.where(np.arange(ones.nnz) % 3 == 0, 0, 1)
    np.testing.assert_array_equal(opened(zeros).column_sums, np.bincount(ones.indices, kept, 40))
    rows, columns = TABLE.nonzero()
    twice = sparse.coo_array((np.full(2 * len(rows), 0.5), (np.tile(rows, 2), np.tile(columns, 2))), TABLE.shape)
    np.testing.assert_array_equal(opened(twice).column_sums, TABLE.sum(0))
    np.testing.assert_array_equal(opened(zeros * 3, binarize=2).column_sums, opened(zeros).column_sums)


def test_what_is_no_bit_is_refused(nothing_dense):
    X = sparse.csr_array(TABLE.astype(float))
    X.data[X.indptr[300]] = 2
    with pytest.raises(DataError, match=f"row 300, column {X.indices[X.indptr[300]]} holds 2"):
        BernoulliProduct().fit(X)


def test_what_lists_of_ones_do_not_tell_goes_the_dense_way(monkeypatch):
    monkeypatch.setattr(opening, "LISTED_FROM_CELLS", 0)
    X = sparse.csr_array(TABLE.astype(float))
    assert isinstance(opened(X, binarize=None), MemoryEngine)  # too many ones
    monkeypatch.setattr(opening, "CELLS_PER_ONE", 1)
    assert isinstance(opened(X), SparseEngine)
    assert isinstance(opened(X, binarize=-1), MemoryEngine)  # zeros are ones
    assert isinstance(opened(X, real=True), MemoryEngine)
    assert isinstance(ClippedGaussian(2)._open(X, reset=True), MemoryEngine)
    holes = X.copy()
    holes.data[4] = np.nan
    assert isinstance(opened(holes), MemoryEngine)
    table = TABLE.astype(float)
    table[tuple(np.argwhere(TABLE)[4])] = np.nan
    np.testing.assert_array_equal(BernoulliProduct().fit(holes).means_, BernoulliProduct().fit(table).means_)


def test_a_completed_table_is_written_out(monkeypatch):
    monkeypatch.setattr(opening, "LISTED_FROM_CELLS", 0)
    monkeypatch.setattr(opening, "CELLS_PER_ONE", 1)
    X = sparse.csr_array(TABLE)
    np.testing.assert_array_equal(BernoulliProduct().fit(X).complete(X), TABLE)
