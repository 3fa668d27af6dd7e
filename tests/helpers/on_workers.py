"""Fits on Dask workers against fits in one process, bit for bit; run as a script, since workers import it.

python on_workers.py bits 2      every family of the contract, on two workers
python on_workers.py own 2       fit(engine="dask") without a client, where there are two cores
python on_workers.py killed 10   one fit, in which a worker is killed ten times
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np


def as_it_is(block, first_row):
    return block


def slowly(block, first_row):
    """Blocks that take a while to make again when their worker has died."""
    time.sleep(0.05)
    return block


def on_dask(table, sizes, encode=as_it_is):
    """The table as delayed blocks of the given sizes, in rotation."""
    import dask

    from latentbits.engines.dask import DaskEngine

    starts, number = [0], 0
    while starts[-1] < len(table):
        starts.append(min(len(table), starts[-1] + sizes[number % len(sizes)]))
        number += 1
    blocks = [dask.delayed(np.array)(table[a:b]) for a, b in zip(starts, starts[1:])]  # noqa: RUF007
    return DaskEngine(blocks, np.diff(starts).tolist(), table.shape[1], encode, table.dtype == np.uint8)


def budget(case):
    """Bytes of memory with which the chunks of every stage have 16 to 64 rows in double precision."""
    from latentbits.core.model import Transform

    stages = (stage for stage in case.model.stages if not isinstance(stage, Transform))
    floats = [case.model.acting_in(stage).row_floats(case.table.shape[1]) for stage in stages]
    return 8 * max(64 * min(floats), 16 * max(floats))


def learn(case, engine, max_iter=4, seed=3, dtype="float64", **options):
    from latentbits.engines.fit import fit, seed_key
    from latentbits.engines.monitor import Limits

    options |= {"limits": Limits(max_iter, -np.inf), "memory_budget": budget(case)}
    return fit(case.model, engine, seed_key(seed), dtype=dtype, **options)


def same_bits(one, other):
    import jax

    a, b = (jax.tree.leaves((r.params, r.state, r.objective)) for r in (one, other))
    return len(a) == len(b) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b))


def alone(case, max_iter=4):
    from latentbits.engines.stream import StreamEngine

    return learn(case, StreamEngine(lambda: iter([case.table]), case.table.shape[1]), max_iter)


def cluster(n_workers):
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="2GiB"
    )


def bits(n_workers):
    from cases import CASES
    from distributed import Client

    with cluster(n_workers) as workers, Client(workers):
        for case in CASES:
            if not case.slow:
                assert same_bits(learn(case, on_dask(case.table, (80, 1, 77))), alone(case)), case.name
                print(case.name, "has the same bits", flush=True)


def own(n_cores):
    import multiprocessing

    from distributed import Client
    from tests.tables import classes

    import latentbits as lb

    table, seen = classes(3000, k=3), {}
    start = Client.__init__

    def noted(self, *args, **given):
        start(self, *args, **given)
        seen.update(self.run(_who))

    Client.__init__ = noted
    model = lb.BernoulliMixture(3, random_state=0, n_init=1)
    expected = model.fit(table).means_
    assert np.array_equal(model.fit(table, engine="dask").means_, expected)
    assert len(seen) == n_cores
    assert set(seen.values()) == {("spawn", 1)}, seen
    assert not multiprocessing.active_children()
    print(n_cores, "spawned workers have the same bits and are gone", flush=True)


def _who(dask_worker):
    """How this worker was started, and how many threads it has for tasks."""
    import multiprocessing

    return multiprocessing.get_start_method(), dask_worker.state.nthreads


def killed(times):
    from cases import CASES
    from distributed import Client

    (case,) = (case for case in CASES if case.name == "mixture")
    expected = alone(case, 400)
    done, kills = threading.Event(), []
    with cluster(2) as workers, Client(workers) as client:
        learn(case, on_dask(case.table, (110,), slowly), 1)  # compiles

        def kill():
            while not done.is_set() and len(kills) < times:
                client.wait_for_workers(2)
                time.sleep(2.0)  # they are at work again
                pids = list(client.run(os.getpid, on_error="ignore").values())
                if not done.is_set():
                    os.kill(pids[len(kills) % len(pids)], signal.SIGKILL)
                    kills.append(time.perf_counter())
                    time.sleep(1.0)  # until it is missed

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        fits = 0
        while len(kills) < times:
            assert same_bits(learn(case, on_dask(case.table, (110,), slowly), 400), expected), f"fit {fits}"
            fits += 1
        done.set()
        killer.join()
    print(f"{len(kills)} killed, and all fits have the same bits", flush=True)


if __name__ == "__main__":
    {"bits": bits, "own": own, "killed": killed}[sys.argv[1]](*map(int, sys.argv[2:]))
