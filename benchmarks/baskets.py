"""Seconds and peak memory of a mixture of 8 on market baskets: lists of ones against the same rows written out.

    python benchmarks/baskets.py [--rows 20000] [--columns 10000] [--density 0.001] [--full]

Each path runs in a separate process.  "first" is a fit of one pass, with all that is compiled for it; "passes" a
second fit, of ten passes and one that evaluates, without acceleration; both have the start and the summary in them.
"above" is how far the largest resident memory of the process rises over what it was with the library imported and a
tiny mixture fitted: the table is in it.  `--full` has the sparse path alone, with a million rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

COMPONENTS, PASSES = 8, 10


def baskets(rows: int, columns: int, density: float) -> Any:
    """Rows of eight kinds, each of which takes most of its ones from an eighth of the columns, as a CSR matrix."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    lengths = rng.poisson(density * columns, rows)
    kind = np.repeat(rng.integers(COMPONENTS, size=rows), lengths)
    own = kind * (columns // COMPONENTS) + rng.integers(columns // COMPONENTS, size=len(kind))
    anywhere = rng.integers(columns, size=len(kind))
    place = np.where(rng.random(len(kind)) < 0.7, own, anywhere).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    table = csr_array((np.ones(len(place), np.uint8), place, starts), (rows, columns))
    table.sum_duplicates()
    table.data[:] = 1
    return table


def peak() -> float:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: str, rows: int, columns: int, density: float) -> dict[str, float]:
    """One path, in this process."""
    from latentbits import BernoulliMixture

    warnings.simplefilter("ignore")
    mixture = BernoulliMixture(COMPONENTS, random_state=0, accelerate=False, tol=-1.0, dtype="float64")
    mixture.set_params(max_iter=1).fit(np.eye(16, dtype=np.uint8))
    before = peak()
    X = baskets(rows, columns, density)
    if path == "dense":
        X = X.toarray()
    seconds = []
    for passes in (1, PASSES):
        start = time.perf_counter()
        mixture.set_params(max_iter=passes).fit(X)
        seconds.append(time.perf_counter() - start)
    above = peak() - before
    score = mixture.score(X)
    return {"first": seconds[0], "passes": seconds[1], "peak": peak(), "above": above, "score": score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--density", type=float, default=1e-3)
    parser.add_argument("--full", action="store_true", help="the sparse path alone, with a million rows")
    parser.add_argument("--path", choices=["sparse", "dense"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    rows = 1_000_000 if given.full else given.rows
    shape = [rows, given.columns, given.density]
    if given.path:
        print(json.dumps(measure(given.path, *shape)))
        return
    print(f"{rows} x {given.columns}, density {given.density:g}, mixture of {COMPONENTS}, {PASSES} passes")
    found = {}
    for path in ("sparse",) if given.full else ("sparse", "dense"):
        sizes = zip(("--rows", "--columns", "--density"), map(str, shape), strict=True)
        options = ["--path", path, *(word for size in sizes for word in size)]
        done = subprocess.run([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True, check=True)
        found[path] = json.loads(done.stdout)
        one = found[path]
        print(
            f"{path:7} first {one['first']:7.2f} s   passes {one['passes']:7.2f} s   "
            f"peak {one['peak']:6.0f} MB   above {one['above']:6.0f} MB   {one['score']:.6f} nats per row",
            flush=True,
        )
    if len(found) == 2:
        ratios = {name: found["sparse"][name] / found["dense"][name] for name in ("passes", "peak", "above")}
        print("sparse / dense:  " + "   ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()))


if __name__ == "__main__":
    main()
