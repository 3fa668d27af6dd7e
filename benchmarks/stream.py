"""Ten million rows in constant memory: a mixture learned from a stream, at growing numbers of rows.

    python benchmarks/stream.py [--rows 100000 1000000 10000000] [--columns 50] [--components 5] [--iterations 3]

Rows are made on the fly, block by block, and forgotten.  Peak memory is that above the resident size after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import numpy as np
from peers.resident import forget_peak, resident


def blocks(n: int, d: int, k: int):
    """A function that makes the same n rows of a true mixture each time it is called."""
    means = np.random.default_rng(0).beta(0.5, 0.5, (k, d)).astype(np.float32)

    def generate():
        size = 50_000
        for number in range(-(-n // size)):
            rng = np.random.default_rng(number + 1)
            rows = min(size, n - number * size)
            yield (rng.random((rows, d), dtype=np.float32) < means[rng.integers(k, size=rows)]).view(np.uint8)

    return generate


def run_one(n: int, d: int, k: int, iterations: int) -> dict[str, float]:
    import warnings

    from latentbits import BernoulliMixture

    warnings.simplefilter("ignore")
    options = {"smoothing": 0.0, "random_state": 0, "tol": -1.0e9}
    BernoulliMixture(k, max_iter=1, **options).fit(blocks(100_000, d, k))
    before = forget_peak()
    began = time.perf_counter()
    BernoulliMixture(k, max_iter=iterations, **options).fit(blocks(n, d, k))
    return {"seconds": time.perf_counter() - began, "peak": resident("VmHWM") - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_one(options.child, options.columns, options.components, options.iterations)))
        return
    print(f"{options.columns} columns, {options.components} components, {options.iterations} iterations")
    print(f"{'rows':>12}{'table, MB':>12}{'peak, MB':>12}{'seconds':>10}")
    for n in options.rows:
        extra = [f"--{name}={getattr(options, name)}" for name in ("columns", "components", "iterations")]
        command = [sys.executable, __file__, "--child", str(n), *extra]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"{n:>12}{n * options.columns / 2**20:>12.0f}{result['peak']:>12.1f}{result['seconds']:>10.1f}", flush=True
        )


if __name__ == "__main__":
    main()
