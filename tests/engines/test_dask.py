"""Dask: the bits of one process, whatever the blocks, the scheduler and the workers.

Every family in Dask's blocks, and on workers that are threads: `contract/`.
"""

from __future__ import annotations

import os
import warnings

import dask
import dask.array as da
import jax
import numpy as np
import on_workers
import pandas as pd
import pytest
from cases import CASES
from scipy.sparse import csr_array
from scripts import printed_by
from sklearn.exceptions import ConvergenceWarning
from tests.tables import as_bytes, classes

import latentbits as lb
from latentbits.core.errors import DataError
from latentbits.core.processor import cores
from latentbits.data import write_packed
from latentbits.engines.chunks import Layout, Run, rechunk, run_chunks
from latentbits.engines.dask import DaskEngine, active_client
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.stream import moved
from latentbits.engines.summary import summarise
from latentbits.estimators.tables import opening

SINGLE = np.dtype(np.float32)


def bits(n=240, d=6, k=2, seed=0, missing=0.0):
    return as_bytes(classes(n, d, k, seed, missing))


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(n=2000, missing=0.0, seed=0):
    return classes(n, k=3, seed=seed, missing=missing)


def mixture():
    return lb.BernoulliMixture(3, random_state=0, n_init=1, max_iter=10, tol=1e-3, accelerate=False)


def quietly(call, *args, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*args, **given)


@pytest.mark.parametrize("layout", [Layout(64, SINGLE), Layout(4096, SINGLE)])
@pytest.mark.parametrize("weighted", [False, True])
def test_runs_have_the_chunks_of_the_whole(layout, weighted):
    rows = bits(1000, missing=0.001)
    weights = np.random.default_rng(0).random(1000) if weighted else None
    borders = [0, 64, 256, 320, 1000] if layout.rows_per_chunk == 64 else [0, 1000]
    found = []
    for a, b in zip(borders, borders[1:]):  # noqa: RUF007
        own = None if weights is None else weights[a:b]
        found += run_chunks(rows[a:b], Run(a, b - a, 1000), layout, own)
    expected = list(rechunk([rows], layout, weights))
    assert len(found) == len(expected) > (layout.rows_per_chunk == 64)
    for one, other in zip(found, expected):
        assert one[1:6] == other[1:6]
        assert one.few == other.few
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize("sizes", [(700,), (64, 64), (33, 1, 250), (5,)])
def test_runs_are_whole_chunks_near_the_blocks(sizes):
    rows = bits(700)
    engine = on_workers.on_dask(rows, sizes)
    layout = Layout(64, SINGLE)
    runs = engine.runs(layout)
    assert all(run.first % 64 == 0 for run, _ in runs)
    np.testing.assert_array_equal(np.concatenate([block.compute() for _, block in runs]), rows)
    assert len(runs) == {(700,): 1, (64, 64): 11, (33, 1, 250): len(runs), (5,): 11}[sizes]
    assert engine.runs(layout._replace(rows_per_chunk=32)) is runs  # they fit, and stay
    assert all(run.first % 256 == 0 for run, _ in engine.runs(layout._replace(rows_per_chunk=256)))


def test_many_runs_are_merged_in_the_workers(monkeypatch):
    (case,) = (case for case in CASES if case.name == "mixture")
    monkeypatch.setattr("latentbits.engines.dask.MERGED_RESULTS", 2)
    engine = on_workers.on_dask(case.table, (40,))
    assert on_workers.same_bits(on_workers.learn(case, engine), on_workers.alone(case))
    assert len(engine.runs(Layout(64, SINGLE))) == 4


@pytest.mark.parametrize(("missing", "weighted"), [(0.0, False), (0.2, True)])
def test_the_summary_is_that_of_one_process(missing, weighted):
    rows = bits(3000, missing=missing)
    weights = np.random.default_rng(0).random(3000) if weighted else None
    engine = on_workers.on_dask(rows, (700, 13))
    engine.weights = weights
    jax.tree.map(np.testing.assert_array_equal, summarise(engine), summarise(MemoryEngine(rows, weights)))


@pytest.mark.parametrize(("scheduler", "weighted"), [("synchronous", False), ("threads", True)])
def test_an_array_is_fitted_and_used_like_one_in_memory(scheduler, weighted, tmp_path):
    # rows that do not count are left out in memory alone, and others are cut into other chunks then
    X, weights = table(missing=0.1), 1 + np.arange(2000) % 3 if weighted else None
    D = da.from_array(X, chunks=(333, 4))
    with dask.config.set(scheduler=scheduler):
        here, there = (quietly(mixture().fit, given, sample_weight=weights) for given in (X, D))
        np.testing.assert_array_equal(there.means_, here.means_)
        assert there.objective_ == here.objective_
        for name in ("transform", "complete", "score_samples"):
            lazy = getattr(there, name)(D)
            assert isinstance(lazy, da.Array)
            assert lazy.chunks[0] == D.chunks[0]
            expected = getattr(here, name)(X)
            assert lazy.dtype == expected.dtype
            np.testing.assert_array_equal(lazy.compute(), expected)
        assert there.score(D) == here.score(X)
        there.transform(D.rechunk((500, 6))).to_zarr(str(tmp_path / "means.zarr"))
    np.testing.assert_array_equal(da.from_zarr(str(tmp_path / "means.zarr")).compute(), here.transform(X))


def test_nothing_is_read_before_somebody_asks():
    read = []

    def block(number):
        read.append(number)
        return table(100, seed=number)

    pieces = [da.from_delayed(dask.delayed(block)(i), (100, 6), float) for i in range(3)]
    model = quietly(mixture().fit, table())
    lazy = [model.transform(da.concatenate(pieces)), model.score_samples(da.concatenate(pieces))]
    assert read == []
    for one in lazy:
        one.compute()
    assert set(read) == {0, 1, 2}


def test_scores_are_computed_again_where_float32_is_too_little(monkeypatch):
    """What a row loses is reported for all rows before the first block is given."""
    X = table()
    model = quietly(mixture().fit, X)
    for tolerance in (1.0, 1e-9):
        monkeypatch.setattr("latentbits.estimators.precision.NEGLIGIBLE_NATS_PER_ROW", tolerance)
        expected = model.score_samples(X)
        np.testing.assert_array_equal(model.score_samples(da.from_array(X, chunks=(300, 6))).compute(), expected)


def test_real_numbers_are_moved_where_they_are():
    X = np.random.default_rng(0).normal(size=(500, 4)) + 5000
    engine = moved(on_workers.on_dask(X, (120,)), -X.mean(0))
    assert isinstance(engine, DaskEngine)
    np.testing.assert_array_equal(np.concatenate(list(engine.blocks())), X - X.mean(0))


def test_unknown_sizes_are_found_out():
    X = table(missing=0.1)
    D = da.from_array(X, chunks=(300, 6))
    unknown = D[da.from_array(np.arange(2000) % 7 > 0, chunks=300)]
    assert np.isnan(unknown.shape[0])
    found, expected = (quietly(mixture().fit, given) for given in (unknown, X[np.arange(2000) % 7 > 0]))
    np.testing.assert_array_equal(found.means_, expected.means_)


def test_frames_keep_the_names_of_their_columns():
    dd = pytest.importorskip("dask.dataframe")
    X = table(missing=0.1)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    D = dd.from_pandas(frame, npartitions=4)
    found, expected = (quietly(mixture().fit, given) for given in (D, frame))
    np.testing.assert_array_equal(found.means_, expected.means_)
    assert found.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(found.transform(D).compute(), expected.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        found.transform(D.rename(columns={"a": "z"}))


@pytest.mark.parametrize(("value", "message"), [(7, "row 1234, column 2 holds 7"), (np.inf, "rows 1200 to 1499 of X")])
def test_an_error_in_a_block_is_named(value, message):
    X = table()
    X[1234, 2] = value
    with pytest.raises(DataError, match=message):
        mixture().fit(da.from_array(X, chunks=(300, 6)))


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(DataError, match="2-dimensional"):
        mixture().fit(da.zeros(7))
    with pytest.raises(DataError, match="X has no rows"):
        mixture().fit(da.zeros((0, 3)))
    with pytest.raises(DataError, match="X has 40 rows and sample_weight 3"):
        mixture().fit(da.zeros((40, 3)), sample_weight=[1, 1, 1])
    model = quietly(mixture().fit, table())
    with pytest.raises(ValueError, match="X has 3 features"):
        model.transform(da.zeros((40, 3)))
    with pytest.raises(DataError, match="X has no rows"):
        model.transform(da.zeros((0, 6)))


def test_a_dask_array_opens_as_a_dask_engine():
    engine = opening.open_rows(mixture(), da.from_array(table(), chunks=(999, 2)), reset=True)
    assert isinstance(engine, DaskEngine)
    assert engine.lengths == [999, 999, 2]


# ---------------------------------------------------------------- engine="dask": tables that are no collections


@pytest.fixture
def client():
    """Two workers that are threads of this process."""
    distributed = pytest.importorskip("distributed")
    given = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(scheduler=None), distributed.Client(**given) as found:
        yield found


def given_as(kind, X, folder):
    if kind == "frame":
        return pd.DataFrame(X, columns=list("abcdef"))
    if kind == "sparse":
        return csr_array(X)
    if kind == "npy":
        np.save(folder / "rows.npy", X)
        return str(folder / "rows.npy")
    if kind == "packed files":
        return [write_packed(folder / f"{i}.zarr", part) for i, part in enumerate(np.array_split(X, 2))]
    return X


@pytest.mark.parametrize("kind", ["array", "frame", "sparse", "npy", "packed files"])
def test_a_table_is_taken_to_the_workers(kind, tmp_path, monkeypatch):
    X = table().astype(np.uint8)
    expected = quietly(mixture().fit, X)
    monkeypatch.setattr("latentbits.engines.dask_blocks.BLOCK_CELLS", 1000)
    passes = watched(monkeypatch)
    found = quietly(mixture().fit, given_as(kind, X, tmp_path), engine="dask")
    np.testing.assert_array_equal(found.means_, expected.means_)
    assert found.objective_ == expected.objective_
    assert passes
    assert min(passes) > 2 * cores()  # the rows were cut, more often than a small table would be
    assert getattr(found, "feature_names_in_", None) is None or found.feature_names_in_.tolist() == list("abcdef")


def watched(monkeypatch):
    """How many blocks the engine of each pass had."""
    passes, on_runs = [], DaskEngine.on_runs
    monkeypatch.setattr(DaskEngine, "on_runs", lambda self, *a: passes.append(len(self.lengths)) or on_runs(self, *a))
    return passes


def test_lists_of_ones_are_written_out_by_the_workers(monkeypatch):
    monkeypatch.setattr(opening, "LISTED_FROM_CELLS", 0)
    monkeypatch.setattr(opening, "CELLS_PER_ONE", 1)
    X, weights = table().astype(np.uint8), 1.0 + np.arange(2000) % 2
    assert isinstance(opening.open_rows(mixture(), csr_array(X), reset=True, sparse=True), SparseEngine)
    found = quietly(mixture().fit, csr_array(X), sample_weight=weights, engine="dask")
    np.testing.assert_array_equal(found.means_, quietly(mixture().fit, X, sample_weight=weights).means_)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_active_client_learns(client, weighted, monkeypatch):
    X, weights = table(missing=0.1), np.arange(2000) % 3 if weighted else None
    passes = watched(monkeypatch)
    found = quietly(mixture().fit, X, sample_weight=weights, engine="dask")
    np.testing.assert_array_equal(found.means_, quietly(mixture().fit, X, sample_weight=weights).means_)
    assert set(passes) == {2 * 2}


@pytest.mark.slow("a network learned twice")
def test_what_learns_from_small_batches_has_rows_in_random_order():
    X = np.sort(table().astype(np.uint8), axis=0)
    network = lb.NoisyOrNetwork((2,), n_updates=3, batch_size=500, random_state=0)
    found, expected = (quietly(network.fit, X, engine=engine).weights_[0] for engine in ("dask", None))
    np.testing.assert_array_equal(found, expected)


def test_another_engine_is_refused(tmp_path):
    with pytest.raises(ValueError, match="engine must be None or 'dask', got 'spark'"):
        mixture().fit(table(), engine="spark")
    np.save(tmp_path / "rows.npy", table())
    for rows in (np.load(tmp_path / "rows.npy", mmap_mode="r"), lambda: iter([table()])):
        with pytest.raises(ValueError, match="these rows can only be read one after the other"):
            mixture().fit(rows, engine="dask")


def test_its_workers_share_no_device(monkeypatch):
    monkeypatch.setattr("latentbits.engines.dask_blocks.accelerated", lambda: True)
    with dask.config.set(scheduler=None), pytest.raises(ValueError, match="one worker for each device"):
        mixture().fit(table(), engine="dask")


def test_a_client_computes_unless_dask_is_configured_otherwise(client):
    assert active_client() is client
    with dask.config.set(scheduler="threads"):
        assert active_client() is None


# ---------------------------------------------------------------- workers: processes of their own, without the checks


@pytest.mark.slow("every family on two spawned workers")
def test_spawned_workers_find_the_same_bits():
    pytest.importorskip("distributed")
    assert printed_by("on_workers.py", "bits", 2).count("has the same bits") == sum(not case.slow for case in CASES)


@pytest.mark.slow("spawned workers")
def test_without_a_client_it_starts_workers():
    pytest.importorskip("distributed")
    assert f"{cores()} spawned workers have the same bits and are gone" in printed_by("on_workers.py", "own", cores())


@pytest.mark.slow("workers are killed")
def test_a_fit_outlives_its_workers():
    """As many as LATENTBITS_KILLS says, one after the other."""
    pytest.importorskip("distributed")
    kills = os.environ.get("LATENTBITS_KILLS", "1")
    assert f"{kills} killed, and all fits have the same bits" in printed_by("on_workers.py", "killed", kills)
