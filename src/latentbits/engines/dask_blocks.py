"""`fit(X, engine="dask")`: rows of this process, or of files that it can read, learned from by Dask's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, import_extra
from latentbits.core.processor import accelerated, cores
from latentbits.engines.dask import DaskEngine, active_client
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine

__all__ = ["borders", "spread", "workers"]

BLOCK_CELLS = 2**24  # at most
BLOCKS_PER_WORKER = 2  # at least, so that no worker waits long for another


@contextmanager
def workers(engine: str | None) -> Iterator[int | None]:
    """Context of a fit; gives how many tasks Dask can compute at a time, or None where it was not asked for.

    They are those of the active client, or of the scheduler that `dask.config` names.  Where there is neither, as many
    processes as there are cores are started, by spawning, and closed in the end.
    """
    if engine is None:
        yield None
        return
    if engine != "dask":
        raise ValueError(f"engine must be None or 'dask', got {engine!r}")
    dask = import_extra("dask", extra="dask", purpose="engine='dask'")
    client = active_client()
    if client is not None:
        yield max(1, sum(client.nthreads().values()))
    elif dask.config.get("scheduler", None) is not None:
        yield cores()
    else:
        with _own_cluster() as number:
            yield number


@contextmanager
def _own_cluster() -> Iterator[int]:
    if accelerated():
        raise ValueError(
            "engine='dask' without a client starts a worker for each core, and here rows are computed on an "
            "accelerator: start a distributed.Client with one worker for each device"
        )
    dask = import_extra("dask", extra="dask", purpose="engine='dask'")
    distributed = import_extra("distributed", extra="dask", purpose="engine='dask'")
    number = cores()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}),  # a fork of JAX's threads hangs
        distributed.LocalCluster(
            n_workers=number, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield number


def spread(engine: Engine, n_workers: int) -> DaskEngine:
    """Cut the rows of an engine in blocks that Dask takes to its workers; what a Dask engine has stays where it is."""
    dask = import_extra("dask", extra="dask", purpose="engine='dask'")
    if isinstance(engine, DaskEngine):
        return engine
    blocks: list[Any]
    encode: Callable[[Any, int], np.ndarray]
    if isinstance(engine, MemoryEngine):
        cut = borders(len(engine.table), engine.n_features, n_workers)
        bits, encode = engine.table.dtype == np.uint8, _as_it_is
        blocks = [engine.table[a:b] for a, b in pairwise(cut)]
    elif isinstance(engine, SparseEngine):
        cut = borders(engine.n_rows, engine.n_features, n_workers)
        bits, encode = True, _written_out
        blocks = [engine.rows(np.arange(a, b)) for a, b in pairwise(cut)]
    else:
        raise DataError(
            "engine='dask' takes tables in memory, paths of .npy and .zarr files, and Dask's own arrays and frames; "
            "these rows can only be read one after the other. Pass the path of a memory map, and "
            "dask.dataframe.read_parquet(path) for parquet"
        )
    sources = [dask.delayed(block) for block in blocks]
    return DaskEngine(sources, np.diff(cut).tolist(), engine.n_features, encode, bits, engine.weights)


def borders(n_rows: int, n_columns: int, n_workers: int) -> list[int]:
    """Cut rows into blocks of about the same size: some for each worker, and none of them large.

    >>> borders(10, 3, 2)
    [0, 2, 5, 7, 10]
    """
    number = min(n_rows, max(BLOCKS_PER_WORKER * n_workers, -(-n_rows * n_columns // BLOCK_CELLS)))
    return [n_rows * i // number for i in range(number)] + [n_rows] if n_rows else [0]


def _as_it_is(block: np.ndarray, first_row: int) -> np.ndarray:
    return block


def _written_out(block: SparseEngine, first_row: int) -> np.ndarray:
    return block.written_out(np.arange(block.n_rows))
