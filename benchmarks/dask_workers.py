"""Rows per second of a fit on one and on two Dask workers, and how much of a pass is not work on rows.

    python benchmarks/dask_workers.py [--blocks 8] [--rows 50000] [--columns 256] [--workers 1 2]

Each worker is a separate process with one thread and one core; blocks are kept in the workers.  The scheduler's share
is the part of a pass in which a worker computes no task, the update on the client included: 1 - (seconds of all tasks)
/ (workers x seconds of the pass).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np


def pinned(dask_worker: Any) -> None:
    """One core for each worker, before JAX asks how many there are."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(dask_worker.name) % len(cores)]})


def block(number: int, n_rows: int, n_columns: int) -> np.ndarray:
    """Rows of a mixture, made where they are needed."""
    means = np.random.default_rng(0).beta(0.5, 0.5, (20, n_columns))
    rng = np.random.default_rng(number + 1)
    return (rng.random((n_rows, n_columns)) < means[rng.integers(20, size=n_rows)]).astype(np.uint8)


def measured(n_workers: int, n_blocks: int, n_rows: int, n_columns: int, n_passes: int) -> tuple[float, float, bytes]:
    """Rows per second, the scheduler's share, and the means found."""
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, get_task_stream

    import latentbits as lb

    made = dask.delayed(block, pure=True)
    parts = [da.from_delayed(made(i, n_rows, n_columns), (n_rows, n_columns), np.uint8) for i in range(n_blocks)]
    X = da.concatenate(parts)
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(pinned)

        def fit(n_iter: int) -> Any:
            given: dict[str, Any] = {"n_init": 1, "init": "random", "tol": -1e30}
            return lb.BernoulliMixture(20, random_state=0, max_iter=n_iter, **given).fit(X)

        fit(1)  # compiles
        few, many, tasks = [], [], []
        for n_iter, seconds in ((1, few), (1 + n_passes, many)) * 2:
            with get_task_stream(client) as stream:
                began = time.perf_counter()
                model = fit(n_iter)
                seconds.append(time.perf_counter() - began)
            if seconds is many:
                records = [(max(s["stop"] for s in r["startstops"]), r) for r in stream.data]
                runs = [r for _, r in sorted(records, key=lambda one: one[0]) if "_on_run" in str(r["key"])]
                spans = [(s["start"], s["stop"]) for r in runs for s in r["startstops"] if s["action"] == "compute"]
                # the first pass waits until blocks are there
                spans = sorted(spans)[n_blocks:]
                tasks.append(1 - sum(b - a for a, b in spans) / n_workers / (max(b for _, b in spans) - spans[0][0]))
    return n_passes * n_blocks * n_rows / (min(many) - min(few)), min(tasks), model.means_.tobytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("blocks", 8), ("rows", 50_000), ("columns", 256), ("passes", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    first = None
    for n_workers in given.workers:
        speed, share, means = measured(n_workers, given.blocks, given.rows, given.columns, given.passes)
        first = first or (speed, means)
        print(
            f"{n_workers} workers: {speed:,.0f} rows/s, {speed / first[0]:.2f} times the first, scheduler "
            f"{share:.1%} of a pass, {'same' if means == first[1] else 'OTHER'} bits",
            flush=True,
        )


if __name__ == "__main__":
    main()
